"""Names for people that a text mentions, where a mention would notify them."""

from __future__ import annotations

import re

from bot.policy.authority import Directory, LookupFailedError

_MENTION = re.compile(r"<@([UW][A-Z0-9]{2,})>")


def with_names(directory: Directory, text: str) -> str:
    """`<@U1>` becomes `<@U1|Ana Ruiz>`; who cannot be looked up stays as they are."""

    def name(match: re.Match[str]) -> str:
        try:
            person = directory.person(match[1])
        except LookupFailedError:
            person = None
        clean = re.sub(r"[<>|]", "", person.name) if person else ""
        return f"<@{match[1]}|{clean}>" if clean else match[0]

    return _MENTION.sub(name, text)
