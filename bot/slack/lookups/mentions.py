"""Names for the mentions of a text."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from bot.policy.directory import Directory, LookupFailedError

_MENTION = re.compile(r"<@([UW][A-Z0-9]{2,})>")
_LITERAL = ("plain_text", "text")  # what Slack shows as it is written, a mention's marks too


def with_names(directory: Directory, text: str) -> str:
    """Write each mention with its name (`<@U1>` as `<@U1|Ana Ruiz>`) where Slack knows one."""

    def name(match: re.Match[str]) -> str:
        found = _name(directory, match[1])
        return f"<@{match[1]}|{found}>" if found else match[0]

    return _MENTION.sub(name, text)


def named_where_literal(directory: Directory, blocks: Any) -> Any:
    """Write people's names in the texts of blocks where Slack draws no mention: `<@U1>` as
    `@Ana Ruiz`.

    Elsewhere, and where Slack knows no name, it stays as it is.
    """
    if isinstance(blocks, list):
        return [named_where_literal(directory, each) for each in blocks]
    if not isinstance(blocks, dict):
        return blocks
    named = {key: named_where_literal(directory, each) for key, each in blocks.items()}
    if named.get("type") in _LITERAL and isinstance(named.get("text"), str):
        named["text"] = _MENTION.sub(partial(_called, directory), named["text"])
    return named


def _called(directory: Directory, mention: re.Match[str]) -> str:
    found = _name(directory, mention[1])
    return f"@{found}" if found else mention[0]


def _name(directory: Directory, person: str) -> str:
    try:
        found = directory.person(person)
    except LookupFailedError:
        return ""
    return re.sub(r"[<>|]", "", found.name) if found else ""
