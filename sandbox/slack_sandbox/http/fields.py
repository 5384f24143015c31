"""The tables of what bodies of the HTTP interface may hold, and the check against them.

Pure: JSON in, JSON out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slack_sandbox.spec.slack_error import Json

Fields = Mapping[str, type]  # name (with "?" if optional) -> the type of its JSON value

_WORDS = {
    str: "a string",
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a whole number",
}
ELEMENT: Fields = {"action_id": str, "block_id?": str}
CHOSEN: Fields = {"value?": str, "selected_option?": object, "state?": dict}
MESSAGE: Fields = {"channel": str, "ts": str}
PLACE: Fields = {"channel?": str, "ts?": str, "view_id?": str, "home?": str}
CLOCK: Fields = {"advance?": float}


def read(body: Any, fields: Fields) -> Json:
    """Return the body without null fields; ValueError names a missing, unknown or wrong field."""
    if not isinstance(body, dict):
        raise ValueError("the body must be a JSON object")
    given = {name: value for name, value in body.items() if value is not None}
    known = {name.removesuffix("?"): kind for name, kind in fields.items()}
    if strange := sorted(set(given) - set(known)):
        raise ValueError(f"unknown field: {', '.join(strange)}; there are {', '.join(known)}")
    if missing := [name for name in fields if not name.endswith("?") and name not in given]:
        raise ValueError(f"missing field: {', '.join(missing)}")
    for name, value in given.items():
        if not _fits(value, known[name]):
            raise ValueError(f"{name} must be {_WORDS[known[name]]}")
    return given


def read_kind(body: Any, kinds: Mapping[str, Fields]) -> Json:
    """Do as `read` does, for a body whose field `kind` says which other fields it has."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if isinstance(body, dict) and kind not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}")
    return read(body, {"kind": str, **kinds.get(str(kind), {})})


def _fits(value: Any, kind: type) -> bool:
    if kind in (float, int):
        return isinstance(value, int if kind is int else int | float) and not isinstance(
            value, bool
        )
    return isinstance(value, kind)
