"""Slack's text: what typing becomes, rich text made of it, ids of blocks, and mentions.

Pure functions; they know no state and refuse nothing.
"""

from __future__ import annotations

import html
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any

from slack_sandbox.spec.slack_error import Json

_TOKEN = re.compile(r"<(?:[@#!][^<>\s]+|https?://[^<>]+|mailto:[^<>]+)>")
_MARKED = re.compile(rf"`(?P<code>[^`\n]+)`|{_TOKEN.pattern}")
_TYPED = re.compile(
    r"(?P<url>https?://[^\s<>|]*[^\s<>|.,!?;:)])"
    r"|(?P<mail>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?<!\w)(?P<name>[@#][A-Za-z0-9][A-Za-z0-9_-]*)"
)
_STATEFUL = ("actions", "context_actions")


def escape(text: str) -> str:
    """The text with Slack's three characters escaped."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def typed(text: str, lookup: Callable[[str], str | None]) -> str:
    """Return what Slack stores for typed text: escaped, with addresses and names linked.

    `lookup` gets "@name" or "#name" and returns the token for it, or None. Tokens in `text` stay as
    they are.
    """

    def link(match: re.Match[str]) -> str:
        if match["url"]:
            return f"<{match['url']}>"
        if match["mail"]:
            return f"<mailto:{match['mail']}|{match['mail']}>"
        return lookup(match["name"]) or match["name"]

    parts: list[str] = []
    position = 0
    for token in _TOKEN.finditer(text):
        parts += [_TYPED.sub(link, escape(text[position : token.start()])), token[0]]
        position = token.end()
    return "".join([*parts, _TYPED.sub(link, escape(text[position:]))])


def _element(token: str) -> Json:
    target, _, label = token[1:-1].partition("|")
    if target.startswith("@"):
        return {"type": "user", "user_id": target[1:]}
    if target.startswith("!subteam^"):
        return {"type": "usergroup", "usergroup_id": target.removeprefix("!subteam^")}
    if target.startswith("!"):
        return {"type": "broadcast", "range": target[1:]}
    if target.startswith("#"):
        return {"type": "channel", "channel_id": target[1:]}
    return {"type": "link", "url": html.unescape(target)} | (
        {"text": html.unescape(label)} if label else {}
    )


def _code(text: str) -> Json:
    """Return text between backticks as code; links and mentions in it become plain text."""
    plain = _TOKEN.sub(lambda token: token[0][1:-1].rpartition("|")[2], text)
    return {"type": "text", "text": html.unescape(plain), "style": {"code": True}}


def rich_text(text: str) -> Json:
    """The rich_text block that Slack makes of a message without blocks; code stays code."""
    elements: list[Json] = []
    position = 0
    for found in _MARKED.finditer(text):
        if found.start() > position:
            elements.append({"type": "text", "text": html.unescape(text[position : found.start()])})
        elements.append(_code(found["code"]) if found["code"] else _element(found[0]))
        position = found.end()
    if position < len(text):
        elements.append({"type": "text", "text": html.unescape(text[position:])})
    section = {"type": "rich_text_section", "elements": elements}
    return {"type": "rich_text", "block_id": new_block_id(), "elements": [section]}


def new_block_id() -> str:
    """A random id such as Slack gives to what has none."""
    return secrets.token_urlsafe(4)[:5]


def _walk(value: Any) -> Iterator[Json]:
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from _walk(child)
    elif isinstance(value, list):
        for child in value:
            yield from _walk(child)


def every_block(blocks: list[Json]) -> list[Json]:
    """The blocks, each followed by those inside it: a container's children, a carousel's cards."""
    found: list[Json] = []
    for block in blocks:
        inner = block.get("child_blocks", []) or (
            block["elements"] if block.get("type") == "carousel" else []
        )
        found += [block, *every_block(inner)]
    return found


def elements_of(block: Json) -> list[Json]:
    """The interactive elements that stand directly in a block."""
    found = [block[key] for key in ("accessory", "element") if isinstance(block.get(key), dict)]
    if block.get("type") == "card":
        found += block.get("actions", [])
    if block.get("type") in _STATEFUL:
        found += [e for e in block.get("elements", []) if isinstance(e, dict)]
    return [e for e in found if e.get("type") != "image"]


def completed(blocks: list[Json]) -> list[Json]:
    """The blocks as Slack gives them back: ids filled in, `emoji` and `verbatim` spelled out.

    Changes its argument.
    """
    for block in every_block(blocks):
        if not block.get("block_id"):
            block["block_id"] = new_block_id()
        for element in elements_of(block):
            if not element.get("action_id"):
                element["action_id"] = new_block_id()
    for part in _walk(blocks):
        if part.get("type") == "plain_text":
            part.setdefault("emoji", True)
        elif part.get("type") == "mrkdwn":
            part.setdefault("verbatim", False)
    return blocks


def mentions(text: str, blocks: list[Json]) -> tuple[set[str], set[str]]:
    """Return the ids of users and user groups that a message's blocks, or else its text, name."""
    users: set[str] = set()
    groups: set[str] = set()
    sources = [text] if not blocks else []
    for part in _walk(blocks):
        if part.get("type") in ("mrkdwn", "markdown"):
            sources.append(str(part.get("text", "")))
        elif part.get("type") == "user":
            users.add(str(part.get("user_id")))
        elif part.get("type") == "usergroup":
            groups.add(str(part.get("usergroup_id")))
    for source in sources:
        users.update(re.findall(r"<@([UW]\w+)", source))
        groups.update(re.findall(r"<!subteam\^(S\w+)", source))
    return users, groups
