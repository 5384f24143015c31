"""Messages, dialogs and Home of the local Slack as plain lines, as a person reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from slack_sandbox.server import Sandbox

Json = dict[str, Any]
_TOKEN = re.compile(r"<(@|!subteam\^|#|!date\^|https?://|mailto:)([^>|]*)(?:\|([^>]*))?>")


class Reader:
    """Reads one local Slack."""

    def __init__(self, slack: Sandbox) -> None:
        """Read names of people and groups from this Slack."""
        self._slack = slack

    def message(self, message: Json) -> list[str]:
        """Return the lines of a message with its author; marked if only one person sees it."""
        world = self._slack.world
        who = world.by_id.get(message.get("user", ""))
        name = who.name if who else world.app.name
        aside = " (only to you)" if message.get("is_ephemeral") else ""
        lines = self.blocks(message.get("blocks") or []) or self.text(message["text"]).splitlines()
        files = [f"[file {each['name']}]" for each in message.get("files") or []]
        marks = [f":{each['name']}:" for each in message.get("reactions") or []]
        return [f"{name}{aside}:", *(f"    {line}" for line in [*lines, *files, *marks])]

    def view(self, view: Json | None) -> list[str]:
        """Return the lines of a dialog or Home: title, blocks and submit button."""
        assert view is not None
        title, submit = view.get("title"), view.get("submit")
        lines = [f"= {title['text']}"] if title else []
        lines += self.blocks(view["blocks"])
        return [*lines, *([f"[{submit['text']}]"] if submit else [])]

    def blocks(self, blocks: list[Json]) -> list[str]:
        """Return the lines of these blocks."""
        return [line for block in blocks for line in self._block(block) if line.strip()]

    def _block(self, block: Json) -> Iterator[str]:
        match block["type"]:
            case "header":
                yield f"# {self._object(block['text'])}"
            case "section":
                yield from self._object(block["text"]).splitlines() if "text" in block else ()
                yield "  |  ".join(map(self._object, block.get("fields", [])))
                yield self._button(block["accessory"]) if "accessory" in block else ""
            case "context":
                yield "- " + " ".join(map(self._object, block["elements"]))
            case "actions":
                yield " ".join(map(self._button, block["elements"]))
            case "markdown":
                yield from self.text(block["text"]).splitlines()
            case "rich_text":
                for part in block["elements"]:
                    yield from self._rich(part)
            case "table":
                for row in block["rows"]:
                    yield " | ".join(cell.get("text", "") for cell in row)
            case "input":
                yield f"{block['label']['text']}: {self._button(block['element'])}"
                yield f"  ({block['hint']['text']})" if "hint" in block else ""
            case "divider":
                yield "---"

    def _rich(self, part: Json) -> Iterator[str]:
        kind = part["type"]
        if kind == "rich_text_list":
            for each in part["elements"]:
                yield "• " + "".join(map(self._leaf, each["elements"]))
            return
        start = {"rich_text_quote": "> ", "rich_text_preformatted": "| "}.get(kind, "")
        for line in "".join(map(self._leaf, part["elements"])).splitlines():
            yield f"{start}{line}"

    def _leaf(self, leaf: Json) -> str:
        match leaf["type"]:
            case "user":
                return self._name("@", leaf["user_id"])
            case "usergroup":
                return self._name("!subteam^", leaf["usergroup_id"])
            case "channel":
                return self._name("#", leaf["channel_id"])
            case "date":
                return f"{{{leaf['fallback']}}}"
        return str(leaf.get("text") or leaf.get("name") or leaf.get("url") or "")

    def _button(self, element: Json) -> str:
        if element["type"] == "overflow":
            choices = " / ".join(each["text"]["text"] for each in element["options"])
            return f"[… {choices}]"
        if "options" in element:
            return "( " + " / ".join(each["text"]["text"] for each in element["options"]) + " )"
        text = (element.get("text") or element.get("placeholder") or {}).get("text", "")
        value = element.get("initial_value") or ""
        style = {"primary": "*", "danger": "!"}.get(element.get("style", ""), "")
        ask = element.get("confirm")
        asks = f" → {ask['title']['text']} {ask['text']['text']}" if ask else ""
        return f"[{style}{text}{value}{asks}]" if text or value else "[      ]"

    def _object(self, text: Json) -> str:
        return self.text(text["text"]) if text["type"] == "mrkdwn" else str(text["text"])

    def text(self, text: str) -> str:
        """Return mrkdwn text with mentions as names, and times and links as their words."""
        found = _TOKEN.sub(lambda each: self._token(each[1], each[2], each[3] or ""), text)
        return found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")

    def _token(self, kind: str, value: str, said: str) -> str:
        if kind == "!date^":
            return f"{{{said}}}"
        return said or self._name(kind, value)

    def _name(self, kind: str, value: str) -> str:
        world = self._slack.world
        if kind == "@":
            return f"@{world.by_id[value].name}" if value in world.by_id else f"@{world.app.name}"
        if kind == "#":
            return world.channels[value].name if value in world.channels else value
        return next((f"@{key}" for key, g in world.groups.items() if g.id == value), value)
