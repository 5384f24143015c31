"""Pairs of calls that differ in one thing, and texts, keys and values made to look alike."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from random import Random
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from bot.tools import Effect, Tool
from tests.approvals.every_leaf import do_nothing, of_program, of_server

TEXTS = (
    *("1", "1.0", "true", "false", "yes", "no", "null", "None", "", "—", "(empty)", "[]", "{}"),
    *(
        '""',
        '"a"',
        '["a"]',
        "(empty list)",
        "none",
        "empty",
        "no value",
        "(not given)",
        "(blank)",
        "••••••••",
        " ",
        "  ",
        "a",
    ),
    *("a ", "а", "a\u200b", "a\u200d", "\u202ea", "a\nb", "a\r\nb", "a\rb", "a, b", "a\tb", "aa"),
    *("a\u2028b", "⟨U+200D⟩", "👩🏽‍💻", "👩🏽💻", "❤️", "❤", "2026-01-31", "2026-01-31T00:00:00"),
    *("2026-01-31T00:00:00Z", "2026-01-31 00:00 UTC", "2026-01-31T00:00", "12:30", "12:30:00"),
    *("wrong_item", "wrong item", "*bold*", "<!channel>", ":tada:", "x" * 60, "x" * 61, "12.5"),
    *("e\u0301", "\u00e9", "ﬁ", "fi", "שלום 12", "12 שלום", "\u2068a\u2069", "a (U1)", "\ufeffa"),
    *("\u3164", "\u2800", "12.50", "1e2", "100", "x" * 50_000, "> a", "```a```", '{"type": "x"}'),
)
NUMBERS = (0, 1, -1, -0.0, 0.1, 0.1 + 0.2, 1e21, 2**53, 2**63, 1.0, 12.5, 100)
KEYS = (
    *("a", "b", "c", "d", "e", "f", "g", "h", "k", "m", "o", "q", "s", "t", "u", "x", "x1", "kind"),
    *("А", "а", "A", "a_b", "a b", "a.b", "a-b", "A b", "", " ", "\u200b", "a\u200b", "сумма", "z"),
    *("y\nz", "y z", "y: 1", "options › a", "f › a", "i", "j", "p", "r", "k" * 100, "1", "l", "I"),
    *("k" * 250 + "1", "k" * 250 + "2", "⟨U+200B⟩", 'A ("a")', "\u202eab", "מחיר", "סה״כ 1", "Ⅰ"),
)


class _Inner(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: Any = None
    b: str | None = None
    c: int = 3


class _Cat(BaseModel):
    kind: Literal["cat"]
    a: Any = None


class _Dog(BaseModel):
    kind: Literal["dog"]
    b: Any = None


class _Root(RootModel[Any]):
    pass


class _Outer(BaseModel):
    """One field of each kind."""

    model_config = ConfigDict(extra="allow")
    a: Any = None
    b: str | None = None
    c: str | bool | int | float | None = None
    d: Decimal | None = None
    e: list[str] | None = None
    f: _Inner | None = None
    g: dict[str, Any] | None = None
    h: _Root | None = None
    i: Annotated[_Cat | _Dog, Field(discriminator="kind")] | None = None
    j: set[str] | None = None
    k: tuple[Any, ...] | None = None
    m: datetime | None = None
    n: bytes | None = None
    o: Literal["wrong_item", "wrong item", 1, True, "1", "yes"] | None = None
    p: str = ""
    q: list[Any] = Field(default_factory=list)
    r: dict[str, _Inner] | None = None
    s: _Inner = _Inner()
    t: time | date | None = None
    u: float | None = None
    x: str | list[str] | None = None
    z: list[str | int | bool | None] = Field(default_factory=list)


_PARTS: dict[str, Any] = {
    "a": {},
    "b": {"type": ["string", "null"]},
    "c": {"type": ["string", "boolean", "number", "null"]},
    "d": {"type": "number"},
    "e": {"type": "array", "items": {"type": "string"}},
    "f": {"type": "object", "properties": {"a": {}, "b": {"type": "string"}}},
    "g": {"type": "object"},
    "h": {"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "null"}]},
    "k": {"type": "array"},
    "m": {"type": "string", "format": "date-time"},
    "o": {"enum": ["wrong_item", "wrong item", 1, True, "1", "yes", None]},
    "s": {
        "type": "object",
        "patternProperties": {"^x": {}},
        "properties": {"b": {"type": "string"}, "z": {"type": "object"}},
    },
    "t": {"type": "string", "format": "time"},
    "u": {"type": "number"},
    "z": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
}


def make_tools() -> dict[str, Tool[Any]]:
    """A tool of every source that accepts all of these keys, and any others."""
    schema = {"type": "object", "properties": _PARTS, "additionalProperties": True}
    return {
        "program": of_program(copy.deepcopy(schema)),
        "server": of_server(copy.deepcopy(schema)),
        "python": Tool("act", "Act", "Act on it", Effect.WRITE, _Outer, do_nothing),
    }


def make_arguments(chance: Random) -> dict[str, Any]:
    """Random arguments, nested at most five levels deep."""
    return {chance.choice(KEYS): _make_value(chance, 1) for _ in range(chance.randint(0, 5))}


def _make_value(chance: Random, depth: int) -> Any:
    kind = chance.random()
    if depth < 5 and kind < 0.2:
        return {
            chance.choice(KEYS): _make_value(chance, depth + 1) for _ in range(chance.randint(0, 3))
        }
    if depth < 5 and kind < 0.35:
        return [_make_value(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    return chance.choice((*TEXTS, *NUMBERS, None, True, False))


def _iterate_paths(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    members = value.items() if isinstance(value, dict) else ()
    for step, each in enumerate(value) if isinstance(value, list) else members:
        yield from _iterate_paths(each, (*way, step))


def change_one_thing(given: dict[str, Any], chance: Random) -> dict[str, Any]:
    """The same arguments with one thing added, removed, renamed, or replaced by a look-alike."""
    made = copy.deepcopy(given)
    *way, last = chance.choice(
        [way for way in _iterate_paths(made) if way] or [(chance.choice(KEYS),)]
    )
    parent: Any = made
    for step in way:
        parent = parent[step]
    if not made or chance.random() < 0.15:
        made[chance.choice(KEYS)] = _make_value(chance, 4)
        return made
    now = parent[last]
    act = chance.random()
    if act < 0.15:
        del parent[last]
    elif act < 0.35 and isinstance(parent, dict):
        parent[chance.choice(KEYS)] = parent.pop(last)
    else:
        parent[last] = chance.choice([*_list_lookalikes(now), chance.choice(TEXTS), None, ""])
    return made


def _list_lookalikes(value: Any) -> list[Any]:
    """Values that may look like this one."""
    found: list[Any] = [str(value), json.dumps(value), [value], {"a": value}]
    if isinstance(value, list):
        found += [", ".join(map(str, value)), "\n".join(map(str, value)), [*value, ""]]
        found += [[", ".join(map(str, value))], ["\n".join(map(str, value))]]
    if isinstance(value, str):
        found += [value.replace("_", " "), value.split(", "), value.split("\n"), f"{value}\u200b"]
    return found
