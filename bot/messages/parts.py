"""The small pieces of cards, dialogs and answers: blocks, buttons, rich text.

Pure, without wording.

What others wrote may go into `plain_text` and `rich_text` only; `mrkdwn` is for our words, mentions
and times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from bot.messages.actions.codec import Click, encode
from bot.messages.actions.names import MENU, Action
from bot.messages.actions.targets import Target
from bot.messages.text import DATE_FORMAT, PERSON, in_utc, slack_length

Json = dict[str, Any]


def plain_text(text: str) -> Json:
    """A text that Slack shows as it is, without emoji codes."""
    return {"type": "plain_text", "text": text, "emoji": False}


def mrkdwn(text: str) -> Json:
    """A text that Slack formats: our own words, mentions and times only."""
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def header(block_id: str, text: str) -> Json:
    """A text big and bold, at most 150 characters."""
    return {"type": "header", "block_id": block_id, "text": plain_text(text)}


def section(block_id: str, text: Json) -> Json:
    """One text object in normal size, never folded away behind "see more"."""
    return {"type": "section", "block_id": block_id, "text": text, "expand": True}


def columns(block_id: str, cells: Sequence[Json]) -> Json:
    """At most ten text objects in two columns, read from left to right."""
    return {"type": "section", "block_id": block_id, "fields": list(cells)[:10]}


def context(block_id: str, elements: Sequence[Json]) -> Json:
    """Small print: at most ten text objects."""
    return {"type": "context", "block_id": block_id, "elements": list(elements)[:10]}


def actions(block_id: str, elements: Sequence[Json]) -> Json:
    """A row of buttons."""
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


def divider(block_id: str) -> Json:
    """A line."""
    return {"type": "divider", "block_id": block_id}


def rich(block_id: str, elements: Sequence[Json]) -> Json:
    """A rich_text block of sections, quotes and preformatted parts."""
    return {"type": "rich_text", "block_id": block_id, "elements": list(elements)}


def button(
    action: Action, label: str, target: Target, *, style: str = "", confirm: Json | None = None
) -> Json:
    """A button that does `action` to `target`; `style` is "", "primary" or "danger"."""
    element: Json = {
        "type": "button",
        "action_id": action,
        "text": plain_text(label),
        "value": encode(target),
    }
    if style:
        element["style"] = style
    if confirm:
        element["confirm"] = confirm
    return element


def channel_select(action: Action, asks: str, channel: str) -> Json:
    """A list of the reader's channels to choose one from; `channel`: the one that is chosen."""
    return {
        "type": "conversations_select",
        "action_id": action,
        "placeholder": plain_text(asks),
        "filter": {"include": ["public", "private"]},
        **({"initial_conversation": channel} if channel else {}),
    }


def menu(choices: Sequence[tuple[str, Click]]) -> Json:
    """An overflow menu of at most five choices, each with its label."""
    options = [{"text": plain_text(label), "value": encode(click)} for label, click in choices]
    return {"type": "overflow", "action_id": MENU, "options": options}


def confirm(title: str, text: str, yes: str, no: str = "Go back") -> Json:
    """The question Slack asks before it sends a click (limits: 100, 300, 30, 30 characters)."""
    return {
        "title": plain_text(title),
        "text": plain_text(text),
        "confirm": plain_text(yes),
        "deny": plain_text(no),
        "style": "danger",
    }


def words(text: str, **style: bool) -> Json:
    """A rich-text leaf with literal text; styles are bold, italic, strike, code."""
    leaf: Json = {"type": "text", "text": text}
    if style:
        leaf["style"] = style
    return leaf


def person(user: str) -> Json:
    """A rich-text leaf that names a person."""
    return {"type": "user", "user_id": user} if PERSON.fullmatch(user) else words("someone")


def naming(text: str, **style: bool) -> list[Json]:
    """Rich-text leaves of what somebody wrote, in which people are named; all else is literal.

    Only for what notifies nobody, as the Home tab.
    """
    found: list[Json] = []
    # every second part stands between the marks of a mention
    for number, part in enumerate(re.split(rf"<@({PERSON.pattern})>", text)):
        if part:
            found.append(person(part) if number % 2 else words(part, **style))
    return found


def moment(at: datetime) -> Json:
    """A rich-text leaf with a time in the reader's own zone."""
    return {
        "type": "date",
        "timestamp": int(at.timestamp()),
        "format": DATE_FORMAT,
        "fallback": in_utc(at),
    }


def link(url: str, text: str) -> Json:
    """A rich-text leaf that leads somewhere."""
    return {"type": "link", "url": url, "text": text}


def line(*leaves: Json) -> Json:
    """A rich-text line."""
    return {"type": "rich_text_section", "elements": list(leaves)}


def bullets(lines: Sequence[Json]) -> Json:
    """Rich-text lines as a list."""
    return {"type": "rich_text_list", "style": "bullet", "elements": list(lines)}


def preformatted(text: str) -> Json:
    """Text with its line ends kept, in a frame: nothing in it can look like a part of the card."""
    return {"type": "rich_text_preformatted", "elements": [words(text)]}


def quote(text: str, *before: Json) -> Json:
    """Somebody's words, set off by a bar; other leaves may stand before them."""
    return {"type": "rich_text_quote", "elements": [*before, words(text)]}


def weight(thing: Any) -> int:
    """Count the characters of text as Slack does, in a block, an element or a list of them."""
    total = 0
    if isinstance(thing, dict):
        for key, value in thing.items():
            if isinstance(value, str):
                if key in ("text", "fallback"):
                    is_ours = thing.get("type") == "mrkdwn"
                    total += len(value) if is_ours else slack_length(value)
            elif isinstance(value, dict | list):
                total += weight(value)
    elif isinstance(thing, list):
        for each in thing:
            total += weight(each)
    return total


def packed(elements: Iterable[Json], limit: int, name: Callable[[int], str]) -> list[Json]:
    """Put the elements into as few rich_text blocks as `limit` characters each allow.

    `name` makes a block's id from its number; an element that is longer has a block of its own.
    """
    blocks: list[Json] = []
    current: list[Json] = []
    used = 0
    for element in elements:
        size = weight(element)
        if current and used + size > limit:
            blocks.append(rich(name(len(blocks)), current))
            current, used = [], 0
        current.append(element)
        used += size
    return [*blocks, rich(name(len(blocks)), current)] if current else blocks
