"""Names for the mentions of a text."""

from __future__ import annotations

import re

from bot.policy.directory import Directory, LookupFailedError

_MENTION = re.compile(r"<@([UW][A-Z0-9]{2,})>")


def with_names(directory: Directory, text: str) -> str:
    """Write each mention with its name (`<@U1>` as `<@U1|Ana Ruiz>`) where Slack knows one."""

    def name(match: re.Match[str]) -> str:
        try:
            person = directory.person(match[1])
        except LookupFailedError:
            person = None
        clean = re.sub(r"[<>|]", "", person.name) if person else ""
        return f"<@{match[1]}|{clean}>" if clean else match[0]

    return _MENTION.sub(name, text)
