"""Helpers for the story of a first hour in the demo: what people do, and all they read."""

from __future__ import annotations

import re
from typing import Any

from bot.demo.demo import Demo
from slack_sandbox.client.actor import Actor
from tests.stories.messages import action_ids, elements, value_of, words
from tests.stories.spoken import Reader
from tests.web.signing import fetch, post

Json = dict[str, Any]
SUPPORT, FINANCE = "C0SUPPORT", "C0FINANCE"
# internal words that people should not read: field names, formats, outputs for the model
INTERNAL_WORDS = re.compile(
    r"\bNone\b|\bnull\b|\b[a-z]+_(?:id|order|message|waiting|person|plan)\b|INVALID|REFUSED|EXPIRED"
    r"|SUCCEEDED|CANCELLED|Do not \w+ (?:it|the same)|\brequester\b|Value error|Input should"
    r"|pydantic|Traceback|\{\}|\[\]|\(\)|(?<!\.)\.\.(?!\.)|\w ,|“”"
)


class Hour:
    """A demo, the people in it, and all lines that they read."""

    def __init__(self, demo: Demo) -> None:
        """Begin with a demo that has just been started."""
        self.slack, self.app = demo.sandbox, demo.app
        self._reader = Reader(self.slack)
        self.lines: list[str] = []  # with a heading for each place that was read

    def person(self, name: str) -> Actor:
        """Return one of the demo's people."""
        return self.slack.person(name)

    def rest(self) -> None:
        """Wait until all deliveries are acknowledged and the bot is idle."""
        self.slack.wait(lambda: all(each.outcome != "pending" for each in self.slack.deliveries))
        self.app.wait_until_idle()

    def says(self, text: str, thread: str | None = None, who: str = "ben") -> str:
        """Have somebody mention the bot in #support; return the thread once the bot is idle."""
        said = self.person(who).say(SUPPORT, f"<@{self.slack.bot_user_id}> {text}", thread)
        self.rest()
        return thread or said

    def replies(self, text: str, thread: str, who: str = "ben") -> None:
        """Have somebody reply in the thread without a mention."""
        self.person(who).say(SUPPORT, text, thread)
        self.rest()

    def card(self, thread: str | None, who: str, having: str, channel: str = SUPPORT) -> Json:
        """Wait for the newest message with a button of this action, or this choice in its menu."""

        def look() -> Json | None:
            seen = self.person(who).messages(channel, thread)
            return next((m for m in reversed(seen) if having in _list_actions(m)), None)

        found: Json = self.slack.wait(look)
        return found

    def presses(
        self, who: str, action: str, thread: str | None, channel: str = SUPPORT, nth: int = 0
    ) -> None:
        """Have somebody press this button, or choose it in the menu, on the newest such card."""
        card = self.card(thread, who, action, channel)
        if action in action_ids(card):
            self.person(who).click(channel, card["ts"], action, value=value_of(card, action, nth))
        else:
            block, option = _find_menu_choice(card, action)
            self.person(who).click(channel, card["ts"], "more", block, selected=option)
        self.rest()

    def signs(self, who: str, channel: str) -> None:
        """Have somebody open the link they were sent, and sign with the demo's software key."""
        seen = [each for m in self.person(who).everything(channel) for each in elements(m)]
        url = next(e["url"] for e in reversed(seen) if "/sign/" in str(e.get("url", "")))
        assert post(url, {"software": True}) == (202, {})
        self.slack.wait(lambda: "Signed." in fetch(f"{url}/outcome")[1])
        self.rest()

    def dialog(self, who: str, **entered: Json) -> None:
        """Have somebody read the open dialog, fill in these values and submit it."""
        self._read(
            f"{who} reads a dialog", self._reader.view(self.slack.wait(self.person(who).view))
        )
        assert self.person(who).submit(entered)["outcome"] == "closed"
        self.rest()

    def delegates(self, who: str, to: str, hours: int) -> None:
        """Have somebody delegate: by the command, its button and the dialog."""
        person, now = self.person(who), int(self.slack.clock.now().timestamp())
        self.asks(who, "/approvals delegate")
        mine = [m for m in person.everything(SUPPORT) if m.get("is_ephemeral")]
        answer = max(mine, key=lambda each: float(each["ts"]))
        person.click(SUPPORT, answer["ts"], "delegate", seen=answer)
        until = {"moment": {"selected_date_time": now + 3600 * hours}}
        self.dialog(who, delegate={"person": {"selected_user": to}}, until=until)

    def later(self, minutes: int) -> None:
        """Let these minutes pass."""
        self.slack.clock.advance(60 * minutes)
        self.rest()

    def reads(self, thread: str | None, who: str = "ben", channel: str = SUPPORT) -> str:
        """Have somebody read a thread or a channel; return its lines."""
        found = [
            each
            for each in self.person(who).everything(channel)
            if thread is None or each.get("thread_ts", each["ts"]) == thread
        ]
        told = [line for each in found for line in self._reader.message(each)]
        return self._read(f"{who} reads {channel}", told)

    def asks(self, who: str, command: str, part: str = "") -> str:
        """Have somebody type a slash command; return the answer that only they see."""
        person = self.person(who)
        before = {each["ts"] for each in person.everything(SUPPORT)}
        person.command(SUPPORT, command)

        def look() -> list[Json]:
            new = [each for each in person.everything(SUPPORT) if each["ts"] not in before]
            return [each for each in new if each.get("is_ephemeral") and part in words(each)]

        told = [line for each in self.slack.wait(look) for line in self._reader.message(each)]
        self.rest()
        return self._read(f"{who} types {command}", told)

    def home(self, who: str, part: str) -> str:
        """Have somebody open Home; return it once it has this text."""
        self.person(who).open_home()

        def look() -> Json | None:
            view = self.person(who).home()
            return view if view and part in words(view) else None

        return self._read(f"{who} opens Home", self._reader.view(self.slack.wait(look)))

    def _read(self, what: str, lines: list[str]) -> str:
        self.lines += ["", f"== {what}", *lines]
        return "\n".join(lines)

    def unspeakable(self, since: int) -> list[str]:
        """Return the lines from this number on that have internal words."""
        return [line for line in self.lines[since:] if INTERNAL_WORDS.search(line)]


def _list_actions(message: Json) -> set[str]:
    choices = {value.partition(":")[0] for _, value in _list_menu_choices(message)}
    return {*action_ids(message), *choices}


def _list_menu_choices(message: Json) -> list[tuple[str, str]]:
    """Return block id and value of the choices in the message's menus."""
    return [
        (block["block_id"], option["value"])
        for block in message.get("blocks") or []
        for element in [*block.get("elements", []), block.get("accessory") or {}]
        if element.get("action_id") == "more"
        for option in element["options"]
    ]


def _find_menu_choice(message: Json, action: str) -> tuple[str, str]:
    return next(
        (block, value)
        for block, value in _list_menu_choices(message)
        if value.startswith(f"{action}:")
    )


def typed(**fields: str) -> dict[str, Json]:
    """Build the state of a form in which these texts are typed."""
    return {f"f:{name}": {"v": {"value": text}} for name, text in fields.items()}


def because(reason: str) -> dict[str, Json]:
    """Build the state of the Reject dialog with this reason chosen."""
    return {"reason": {"preset": {"selected_option": reason}}}
