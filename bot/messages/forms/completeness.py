"""Whether people are shown all of what would run: each leaf of its JSON, in full. Pure.

It goes by the JSON and by the texts that are drawn, and knows no schema and no field: whatever
describes the arguments, what it does not find in the texts is not shown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import Any

from bot.messages.forms.slots import Kind
from bot.messages.forms.values import readable
from bot.messages.text import visible
from bot.messages.views import UNSET, Value
from storage.masking import MASK, Path

_IN_WORDS = (Kind.TEXT, Kind.CHOICE, Kind.DATETIME, Kind.TIME)  # how a text may be written
_NULLS = (UNSET, "null")


def unshown(
    runs: Mapping[str, Any],
    as_read: Mapping[str, Any],
    rows: Sequence[Value],
    secret: Collection[Path] = (),
) -> Path | None:
    """Return the first leaf of what would run that is not in these rows in full; None: all are.

    `runs`: the JSON that is digested and handed to the tool. `as_read`: the same JSON as the rows
    were made of it, with amounts in the form of their type and names beside ids. A leaf is a text,
    a number, true, false, null, or an empty object or list. `secret`: what may stand there masked.
    """
    by_path: dict[Path, Value] = {row.path: row for row in rows}
    if len(by_path) < len(rows):
        return ()
    found = dict(leaves(as_read))
    if (odd := _first_difference(dict(leaves(runs)), found)) is not None:
        return odd
    for path in found if as_read else ():
        row = next(
            (by_path[path[:n]] for n in range(len(path), 0, -1) if path[:n] in by_path), None
        )
        if row is None or not row.label.strip():
            return path
    for row in rows:
        value = _at(as_read, row.path)
        below = frozenset(p[len(row.path) :] for p in secret if p[: len(row.path)] == row.path)
        masked = any(row.path[: len(p)] == p for p in secret)
        if value is not _NOTHING and not _is_in(
            row.text, value, below | ({()} if masked else set())
        ):
            return row.path
    return None


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each leaf of a JSON value with its path, in the order of the value."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from leaves(each, (*path, place))
    else:
        yield path, value


_NOTHING = object()


def _at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return _NOTHING
        value = value[key]
    return value


def _first_difference(runs: Mapping[Path, Any], as_read: Mapping[Path, Any]) -> Path | None:
    """Return where what is read is another value than what would run."""
    for path, value in runs.items():
        if path not in as_read or not _is_same(value, as_read[path]):
            return path
    return next((path for path in as_read if path not in runs), None)


def _is_same(value: Any, as_read: Any) -> bool:
    if isinstance(value, bool) or isinstance(as_read, bool) or value is None or as_read is None:
        return value is as_read
    if value == as_read:
        return True
    if isinstance(value, str) and isinstance(as_read, str) and as_read.endswith(f" ({value})"):
        return True  # an id, with its name before it
    try:
        return Decimal(str(value)) == Decimal(str(as_read))  # of an amount, or a long number
    except DecimalException:
        return False


def _is_in(text: str, value: Any, secret: frozenset[Path]) -> bool:
    """Whether a row's text is this value: one leaf, or all of its leaves in order."""
    if () in secret and value is not None:
        return text == MASK
    if not isinstance(value, Mapping | list) or not value:
        return text in _written(value)
    at = 0
    for forms in _tokens(value, secret):
        places = [(text.find(form, at), len(form)) for form in forms]
        there = [(place, size) for place, size in places if place >= 0]
        if not there:
            return False
        place, size = min(there, key=lambda each: (each[0], -each[1]))
        at = place + size
    return True


def _tokens(value: Any, secret: frozenset[Path]) -> Iterator[tuple[str, ...]]:
    """What has to stand in a text one after the other, each in one of several forms."""
    if () in secret and value is not None:
        yield (MASK,)
    elif isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield (f"{visible(json.dumps(key, ensure_ascii=False))}:",)
            yield from _tokens(each, frozenset(p[1:] for p in secret if p[:1] == (key,)))
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from _tokens(each, frozenset(p[1:] for p in secret if p[:1] == (place,)))
    else:
        yield _written(value)


def _written(value: Any) -> tuple[str, ...]:
    """The forms in which one leaf may be written."""
    as_json = visible(json.dumps(value, ensure_ascii=False))
    if value is None:
        return (*_NULLS, as_json)
    kinds = _IN_WORDS if isinstance(value, str) else (Kind.TEXT,)
    return (as_json, *(readable(value, kind) for kind in kinds))
