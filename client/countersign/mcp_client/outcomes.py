"""What can come of a call of a server's tool. Only the server's own answer says that it failed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from mcp_types import CallToolResult, TextContent

MOST_HEARD = 2_000  # characters of an answer that cannot be read


@dataclass(frozen=True, slots=True)
class GaveResult:
    """The server gave a result; `remark`: in which way it is not what the server promised."""

    result: CallToolResult
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The server itself says that it failed: by a result that says so, or a JSON-RPC error."""

    message: str
    code: int | None = None  # of the JSON-RPC error
    result: CallToolResult | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call was sent, and no answer of the server says what came of it."""

    why: str
    heard: str = ""  # what the server did say, cut to a length
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The call was never sent; it may be made again."""

    why: str


CallOutcome = GaveResult | Failed | Unknown | NotStarted


def words_of(result: CallToolResult) -> str:
    """Return the texts of a result, a line each."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


def heard(answer: Any) -> str:
    """Return an answer that cannot be read, as it came, cut to a length."""
    if answer is None:
        return ""
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return text if len(text) <= MOST_HEARD else f"{text[:MOST_HEARD]}…"
