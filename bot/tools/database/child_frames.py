"""What the bot and its child process tell each other: JSON, a line each, of plain values and the
dataclasses of `bot.tools`. PURE.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from bot.tools import ChangedError, Preview, Table, ToolContext, ToolError
from bot.tools.database.sql_tokens import StatementError

COMMITTING = {"committing": True}  # said before a COMMIT: from now on its end may be unknown
_KINDS: dict[str, type[Any]] = {each.__name__: each for each in (Preview, Table, ToolContext)}
# the most particular first; anything else was not foreseen
_ERRORS: tuple[type[Exception], ...] = (
    StatementError,
    ChangedError,
    ToolError,
    ConnectionError,
    ValueError,
)


def line(frame: dict[str, Any]) -> bytes:
    """A frame as it is sent."""
    return json.dumps(_out(frame), default=str).encode() + b"\n"


def frame(text: bytes) -> dict[str, Any]:
    """The frame in a line."""
    found = _in(json.loads(text))
    if not isinstance(found, dict):
        raise TypeError("a frame is an object")
    return found


def complaint(error: BaseException) -> dict[str, Any]:
    """The frame that tells how a call failed."""
    kind = next((each.__name__ for each in _ERRORS if isinstance(error, each)), "")
    return {"error": kind, "message": str(error) or type(error).__name__}


def raised(answer: dict[str, Any]) -> Exception:
    """The error that a frame tells of."""
    kinds = {each.__name__: each for each in _ERRORS}
    return kinds.get(answer["error"], RuntimeError)(answer["message"])


def _out(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        told = {each.name: _out(getattr(value, each.name)) for each in fields(value)}
        return {"$": type(value).__name__, **told}
    if isinstance(value, datetime):
        return {"$": "datetime", "at": value.isoformat()}
    if isinstance(value, dict):
        return {str(key): _out(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_out(each) for each in value]
    return value


def _in(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_in, value))
    if not isinstance(value, dict):
        return value
    found = {key: _in(each) for key, each in value.items()}
    kind = found.pop("$", None)
    if kind == "datetime":
        return datetime.fromisoformat(found["at"])
    return _KINDS[kind](**found) if kind else found
