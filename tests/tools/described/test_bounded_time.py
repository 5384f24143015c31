"""Schemas and values made to take long: each is refused within little time of the processor."""

from __future__ import annotations

import json
from time import thread_time
from typing import Any

import pytest
from pydantic import ValidationError

from bot.tools.arguments import load_arguments
from bot.tools.described.checking import (
    MAX_CHECK_SECONDS,
    MAX_ERRORS,
    SchemaChecker,
    dump_schema,
    normalise_schema,
)
from tests.tools.described.test_described import fields, tool_of

NOBODY: Any = object()  # names are not looked up for these


def listed(item: Any, **more: Any) -> dict[str, Any]:
    """The schema of one list of these."""
    return fields(a={"type": "array", "items": item, **more})


def nested(depth: int) -> Any:
    """Lists within one another."""
    return [nested(depth - 1)] if depth else 5


_KEYED = [{"required": [f"k{n}"], "properties": {f"k{n}": {"const": n}}} for n in range(800)]
_MANY = {"type": "object", "properties": {f"p{n}": {"minimum": 0} for n in range(50)}}
_NODE = {"$ref": "#/$defs/n"}
_LIST = {"type": "array", "items": _NODE}
_FORK = {"anyOf": [_LIST, {**_LIST, "minItems": 1}, {"type": "string"}]}
LONG: dict[str, tuple[dict[str, Any], Any]] = {
    "alternatives": (listed({"anyOf": _KEYED}), {"a": [{"k799": 799}] * 2_000}),
    "patterns": (
        {"type": "object", "patternProperties": {f"^{n}a*$": {} for n in range(2_500)}},
        {f"k{n}": "x" for n in range(20_000)},
    ),
    "choices": (listed({"enum": [[n] for n in range(9_000)]}), {"a": [[8_999]] * 20_000}),
    "fields": (listed(_MANY), {"a": [{f"p{n}": n for n in range(50)}] * 4_000}),
    "different": (listed({}, uniqueItems=True), {"a": [[n] for n in range(400_000)]}),
    "contained": (
        fields(a={"type": "array", "contains": {"anyOf": _KEYED[:300]}, "minContains": 2}),
        {"a": [{"z": 1}] * 3_000},
    ),
    "addresses": (listed({"format": "email"}), {"a": ["a@" + "b" * 900_000] * 30}),
    "names": (
        {"propertyNames": {"anyOf": [{"pattern": f"^(a|aa)+{n}$"} for n in range(500)]}},
        {f"a{'a' * 50}{n}": 1 for n in range(5_000)},
    ),
    "within": ({**fields(a=_NODE), "$defs": {"n": _FORK}}, {"a": nested(18)}),
}


@pytest.mark.parametrize("name", LONG)
def test_a_check_ends_in_time(name: str) -> None:
    """A sentence says that it was too much, soon after the time is over."""
    schema, value = LONG[name]
    checker = SchemaChecker(normalise_schema(dump_schema(schema)))
    began = thread_time()
    with pytest.raises(ValidationError, match="too large or nested to be checked"):
        checker.check("act", value)
    # jsonschema takes a moment between two looks at the clock
    assert thread_time() - began < 2 * MAX_CHECK_SECONDS + 0.5


FEW = {
    "what is missing": (
        listed({"type": "object", "required": [f"r{n}" for n in range(9_000)]}),
        {"a": [{}] * 3_000},
    ),
    "what is of the wrong kind": (listed({"type": "string"}), {"a": [1] * 200_000}),
    "no alternative": (listed({"oneOf": _KEYED[:200]}), {"a": [{"z": 1}] * 90}),
    "a long list of choices": (listed({"enum": [[*range(400), n] for n in range(45)]}), {"a": [1]}),
}


@pytest.mark.parametrize("name", FEW)
def test_much_that_is_wrong_is_told_in_short(name: str) -> None:
    """However much is wrong, the first of it is told, in little time."""
    schema, value = FEW[name]
    checker = SchemaChecker(normalise_schema(dump_schema(schema)))
    began = thread_time()
    with pytest.raises(ValidationError) as raised:
        checker.check("act", value)
    assert raised.value.error_count() <= MAX_ERRORS
    assert thread_time() - began < 2 * MAX_CHECK_SECONDS + 0.5


def test_what_was_checked_before_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An approved call is not turned away because its check takes a little longer than it did."""
    monkeypatch.setattr("bot.tools.described.checking.MAX_RECHECK_SECONDS", 10.0)
    tool, text = (
        tool_of(listed(_MANY)),
        json.dumps({"a": [{f"p{n}": n for n in range(50)}] * 4_000}),
    )
    with pytest.raises(ValidationError, match="too large or nested to be checked"):
        load_arguments(tool, text, NOBODY)
    assert load_arguments(tool, text).model_dump_json()
