"""Check a message's attachments, the older kind and those that hold blocks, and complete them.

Pure: values in, an error code and messages in Slack's words out. As in Slack, unknown fields are
left out.
"""

from __future__ import annotations

import copy
from typing import Any

from slack_sandbox.blockkit import blocks as checker
from slack_sandbox.blockkit.objects import (
    LINK,
    Check,
    anything,
    array,
    flag,
    one_of,
    problem,
    record,
    text,
)
from slack_sandbox.blockkit.text import completed
from slack_sandbox.spec.slack_error import Json

MAX_ATTACHMENTS = 100
_WORDS = text(low=0)
_LINKS = (
    "title_link",
    "author_link",
    "author_icon",
    "image_url",
    "thumb_url",
    "footer_icon",
    "from_url",
)
_PLAIN = (
    "fallback",
    "color",
    "pretext",
    "title",
    "text",
    "author_name",
    "author_subname",
    "footer",
    "callback_id",
)
_FIELD = record({}, {"title": _WORDS, "value": _WORDS, "short": flag})
_KNOWN: dict[str, Check] = {
    **dict.fromkeys(_PLAIN, _WORDS),
    **dict.fromkeys(_LINKS, LINK),
    "fields": array(_FIELD, low=0),
    "mrkdwn_in": array(one_of("pretext", "text", "fields", "title", "footer", "fallback"), low=0),
    "ts": anything,
    "blocks": anything,
}
_SHOWN = (
    "blocks",
    "text",
    "title",
    "pretext",
    "fields",
    "image_url",
    "thumb_url",
    "fallback",
    "author_name",
    "footer",
)


def check_attachments(value: object, blocks: list[Json]) -> tuple[str, list[str]]:
    """The error code for a message's attachments and its messages; ("", []) when they are sound.

    `blocks` are those of the message itself: ids have to be unique and tables are counted over all
    blocks.
    """
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return "invalid_attachments", [problem("must provide an array of objects", "/attachments")]
    if len(value) > MAX_ATTACHMENTS:
        return "too_many_attachments", []
    found = [
        what for index, each in enumerate(value) for what in _check(each, f"/attachments/{index}")
    ]
    if found:
        return "invalid_attachments", found
    together = list(blocks)
    for index, each in enumerate(value):
        inner, at = each.get("blocks", []), f"/attachments/{index}/blocks"
        if problems := checker.check_blocks(inner, "message", at):
            return checker.error_of(problems), problems
        together += inner
    problems = [what for rule in checker.RULES for what in rule(together, "/attachments")]
    if problems:
        return checker.error_of(problems), problems
    error = checker.check_message_size(together)
    return (error, []) if error else ("", [])


def _check(attachment: Json, at: str) -> list[str]:
    known = [(name, check) for name, check in _KNOWN.items() if attachment.get(name) is not None]
    found = [what for name, check in known for what in check(attachment[name], f"{at}/{name}")]
    shows = any(attachment.get(name) for name in _SHOWN)
    return found if found or shows else [problem("must have something to show", at)]


def completed_attachments(attachments: list[Json]) -> list[Json]:
    """Return sound attachments as Slack gives them back: with number, fallback and block ids."""
    shown: list[Json] = []
    for number, each in enumerate(attachments, 1):
        kept: dict[str, Any] = {
            name: copy.deepcopy(each[name]) for name in _KNOWN if each.get(name) is not None
        }
        if "blocks" in kept:
            completed(kept["blocks"])
        fallback = (
            each.get("fallback")
            or each.get("text")
            or each.get("title")
            or "[no preview available]"
        )
        shown.append({"id": number, **kept, "fallback": fallback})
    return shown
