"""Finds the defaults that a JSON Schema has for values that were left out of arguments.

Of alternatives, the one counts that alone fits the value; if several might, none is looked into.
"""

from __future__ import annotations

import copy
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from bot.tools.declared_values import ValuePath
from bot.tools.described import SchemaBasedArguments, SchemaError, checking, split_null_from_schema
from bot.tools.registration import Schema, replace_inner_schemas

DefaultByPath = tuple[ValuePath, Any]
DEFAULT_WORK = 100  # what one default counts in the limit of what a check may take
_ALTERNATIVES = ("anyOf", "oneOf")
_JSON_TYPES: dict[str, type] = {"object": dict, "array": list}


def list_missing_defaults(arguments: BaseModel) -> list[DefaultByPath]:
    """Return the defaults of values that were left out, with where they belong: keys and places.

    A default comes before those within it. None for a model that was not made from a JSON Schema,
    as that has its defaults already.
    """
    if not isinstance(arguments, SchemaBasedArguments):
        return []
    checker = arguments.get_schema_checker()
    return [] if checker is None else _build_finder(checker).list_missing(arguments)


@lru_cache(512)
def _build_finder(checker: checking.SchemaChecker) -> _DefaultFinder:
    return _DefaultFinder(checker)


@dataclass(frozen=True, slots=True)
class _Place:
    """A value within the arguments, and the parts of the schema that describe it."""

    path: ValuePath
    value: Any
    parts: list[Schema]
    default_of: frozenset[int]  # ids of the parts whose defaults this value lies in


class _DefaultFinder:
    """Walks through arguments and their schema together."""

    def __init__(self, checker: checking.SchemaChecker) -> None:
        self._checker, self._schema = checker, checker.schema
        self._with_defaults = _find_parts_with_defaults(checker.schema)
        self._defaults: dict[int, Any] = {}  # by the id of the part
        self._closures: dict[int, list[Schema]] = {}

    def list_missing(self, arguments: BaseModel) -> list[DefaultByPath]:
        """Return the defaults of values that were left out; none if there are too many to check."""
        found: list[DefaultByPath] = []
        if not self._with_defaults:
            return found
        top = _Place((), arguments.model_dump(mode="json"), [self._schema], frozenset())
        left = deque([top])
        try:
            with checking.limit_checks():
                while left:
                    left.extend(self._fill_in(left.popleft(), found))
        except checking.UNCHECKABLE_ERRORS:
            return []
        return found

    def _fill_in(self, place: _Place, found: list[DefaultByPath]) -> list[_Place]:
        """Add the defaults of one object to it and to `found`; return the values within it."""
        described: list[Schema] = []
        new = self._follow(place.parts, described)
        added: dict[str | int, int] = {}  # the part whose default it is, by key
        while new:  # alternatives are decided once the defaults beside them are there
            if isinstance(place.value, dict):
                self._set_defaults(place, new, added, found)
            described += new
            options = [part[key] for part in new for key in _ALTERNATIVES if key in part]
            chosen = [each for some in options for each in self._choose(some, place.value)]
            new = self._follow(chosen, described)
        inner = []
        for step, value in _list_inner_values(place.value):
            if parts := self._list_inner_parts(described, step):
                default_of = {added[step]} if step in added else set[int]()
                path = (*place.path, step)
                inner.append(_Place(path, value, parts, place.default_of | default_of))
        return inner

    def _set_defaults(
        self,
        place: _Place,
        parts: list[Schema],
        added: dict[str | int, int],
        found: list[DefaultByPath],
    ) -> None:
        for part in parts:
            for key, inner in part.get("properties", {}).items():
                if key in place.value or id(inner) in place.default_of:
                    continue
                if (default := self._get_default(inner)) is not None:
                    checking.spend_work(DEFAULT_WORK)
                    place.value[key] = copy.deepcopy(default)
                    found.append(((*place.path, key), default))
                    added[key] = id(inner)

    def _get_default(self, part: Schema) -> Any:
        if id(part) not in self._with_defaults:
            return None
        if id(part) not in self._defaults:
            default = None
            with suppress(SchemaError):
                default = split_null_from_schema(part, self._schema)[0].get("default")
            self._defaults[id(part)] = default  # once it is known: other threads look here, too
        return self._defaults[id(part)]

    def _follow(self, parts: Iterable[Schema], known: Iterable[Schema]) -> list[Schema]:
        """Return these parts and those that they refer to, but for those that are known."""
        found = {id(inner): inner for each in parts for inner in self._list_closure(each)}
        checking.spend_work(len(found))
        for each in known:
            found.pop(id(each), None)
        return [*found.values()]

    def _list_closure(self, part: Schema) -> list[Schema]:
        """Return a part of the schema and all others that it says hold for the same value."""
        if id(part) not in self._closures:
            found: dict[int, Schema] = {}
            left = [part]
            while left:
                each = left.pop(0)
                if id(each) not in found:
                    found[id(each)] = each
                    left += _list_same_value_parts(each, self._schema)
            self._closures[id(part)] = [*found.values()]
        return self._closures[id(part)]

    def _choose(self, options: list[Schema], value: Any) -> list[Schema]:
        """Return the one of several alternatives that fits a value; none if several do."""
        if not any(id(each) in self._with_defaults for each in options):
            return []
        possible = [
            each
            for each in options
            if all(_may_describe(part, value) for part in self._list_closure(each))
        ]
        if len(possible) > 1:  # of one alone it is known, as the whole value fits the schema
            possible = [each for each in possible if self._checker.accepts(each, value)]
        return possible if len(possible) == 1 else []

    def _list_inner_parts(self, parts: list[Schema], step: str | int) -> list[Schema]:
        """Return the parts with defaults that describe the value at a key or place of a value."""
        every = (
            inner
            for part in parts
            for inner in (
                _list_property_parts(part, step)
                if isinstance(step, str)
                else _list_item_parts(part, step)
            )
        )
        return [each for each in every if id(each) in self._with_defaults]


def _may_describe(part: Schema, value: Any) -> bool:
    """Return whether a part of the schema may fit a value, by what is quickly seen."""
    kinds = part["type"] if isinstance(part.get("type"), list) else [part.get("type", "")]
    if "type" in part and not any(isinstance(value, _JSON_TYPES.get(each, ())) for each in kinds):
        return False
    if not isinstance(value, dict):
        return True
    texts = ((inner, value.get(key)) for key, inner in part.get("properties", {}).items())
    return all(key in value for key in part.get("required", ())) and not any(
        isinstance(given, str)
        and given not in (inner.get("enum", [given]) if "const" not in inner else [inner["const"]])
        for inner, given in texts
    )


def _list_inner_values(value: Any) -> Iterable[tuple[str | int, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return ((step, each) for step, each in pairs if isinstance(each, dict | list))


def _list_property_parts(part: Schema, key: str) -> Iterator[Schema]:
    patterns = part.get("patternProperties", {})
    named = [part["properties"][key]] if key in part.get("properties", ()) else []
    matches = (checking.compile_re2_pattern(each).search(key) for each in patterns)
    named += [each for each, match in zip(patterns.values(), matches, strict=True) if match]
    more = part.get("additionalProperties")
    yield from named or ([more] if isinstance(more, dict) else [])


def _list_item_parts(part: Schema, place: int) -> Iterator[Schema]:
    first = part.get("prefixItems", [])
    if place < len(first):
        yield first[place]
    elif isinstance(part.get("items"), dict):
        yield part["items"]


def _list_same_value_parts(part: Schema, whole: Schema) -> list[Schema]:
    reference = part.get("$ref")
    target = [checking.get_referenced_schema(whole, reference)] if reference else []
    return [*target, *part.get("allOf", ())]


def _find_parts_with_defaults(whole: Schema) -> set[int]:
    """Return the ids of the parts of a schema that have a default, or lead to one that has."""
    users: dict[int, list[int]] = defaultdict(list)  # the parts that lead to a part
    left, reached = [whole], set[int]()
    found: list[int] = []
    while left:
        part = left.pop()
        inner = _list_inner_schemas(part)
        for each in [*inner, *_list_same_value_parts(part, whole)]:
            users[id(each)].append(id(part))
        found += [id(part)] if part.get("default") is not None else []
        left += inner
    while found:
        if (reaching := found.pop()) not in reached:
            reached.add(reaching)
            found += users[reaching]
    return reached


def _list_inner_schemas(part: Schema) -> list[Schema]:
    found: list[Schema] = []
    replace_inner_schemas(part, lambda each, _: found.append(each))
    return found
