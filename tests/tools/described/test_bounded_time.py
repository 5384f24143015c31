"""Schemas and values that are made to take long: each is refused in little processor time."""

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
from tests.tools.described.test_described import describe_object, make_tool

NOBODY: Any = object()  # names are not looked up for these


def describe_list(item: Any, **more: Any) -> dict[str, Any]:
    """The schema of an object with one list of these items."""
    return describe_object(a={"type": "array", "items": item, **more})


def nest_lists(depth: int) -> Any:
    """Lists within lists, so many levels deep."""
    return [nest_lists(depth - 1)] if depth else 5


_KEYED = [{"required": [f"k{n}"], "properties": {f"k{n}": {"const": n}}} for n in range(800)]
_MANY = {"type": "object", "properties": {f"p{n}": {"minimum": 0} for n in range(50)}}
_NODE = {"$ref": "#/$defs/n"}
_LIST = {"type": "array", "items": _NODE}
_FORK = {"anyOf": [_LIST, {**_LIST, "minItems": 1}, {"type": "string"}]}
SLOW_CHECKS: dict[str, tuple[dict[str, Any], Any]] = {
    "alternatives": (describe_list({"anyOf": _KEYED}), {"a": [{"k799": 799}] * 2_000}),
    "patterns": (
        {"type": "object", "patternProperties": {f"^{n}a*$": {} for n in range(2_500)}},
        {f"k{n}": "x" for n in range(20_000)},
    ),
    "choices": (describe_list({"enum": [[n] for n in range(9_000)]}), {"a": [[8_999]] * 20_000}),
    "fields": (describe_list(_MANY), {"a": [{f"p{n}": n for n in range(50)}] * 4_000}),
    "different": (describe_list({}, uniqueItems=True), {"a": [[n] for n in range(400_000)]}),
    "contained": (
        describe_object(a={"type": "array", "contains": {"anyOf": _KEYED[:300]}, "minContains": 2}),
        {"a": [{"z": 1}] * 3_000},
    ),
    "addresses": (describe_list({"format": "email"}), {"a": ["a@" + "b" * 900_000] * 30}),
    "names": (
        {"propertyNames": {"anyOf": [{"pattern": f"^(a|aa)+{n}$"} for n in range(500)]}},
        {f"a{'a' * 50}{n}": 1 for n in range(5_000)},
    ),
    "within": ({**describe_object(a=_NODE), "$defs": {"n": _FORK}}, {"a": nest_lists(18)}),
}


@pytest.mark.parametrize("name", SLOW_CHECKS)
def test_a_check_that_takes_too_long_is_given_up(name: str) -> None:
    """The error says so in a sentence, soon after the time is over."""
    schema, value = SLOW_CHECKS[name]
    checker = SchemaChecker(normalise_schema(dump_schema(schema)))
    began = thread_time()
    with pytest.raises(ValidationError, match="too large or nested to be checked"):
        checker.check("act", value)
    # jsonschema takes a moment between two looks at the clock
    assert thread_time() - began < 2 * MAX_CHECK_SECONDS + 0.5


MANY_ERRORS = {
    "what is missing": (
        describe_list({"type": "object", "required": [f"r{n}" for n in range(9_000)]}),
        {"a": [{}] * 3_000},
    ),
    "what is of the wrong kind": (describe_list({"type": "string"}), {"a": [1] * 200_000}),
    "no alternative": (describe_list({"oneOf": _KEYED[:200]}), {"a": [{"z": 1}] * 90}),
    "a long list of choices": (
        describe_list({"enum": [[*range(400), n] for n in range(45)]}),
        {"a": [1]},
    ),
}


@pytest.mark.parametrize("name", MANY_ERRORS)
def test_of_many_errors_only_the_first_are_reported(name: str) -> None:
    """This takes little time, too."""
    schema, value = MANY_ERRORS[name]
    checker = SchemaChecker(normalise_schema(dump_schema(schema)))
    began = thread_time()
    with pytest.raises(ValidationError) as raised:
        checker.check("act", value)
    assert raised.value.error_count() <= MAX_ERRORS
    assert thread_time() - began < 2 * MAX_CHECK_SECONDS + 0.5


def test_stored_arguments_are_given_more_time_to_be_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An approved call is not refused because its second check takes a little longer."""
    monkeypatch.setattr("bot.tools.described.checking.MAX_RECHECK_SECONDS", 10.0)
    tool, text = (
        make_tool(describe_list(_MANY)),
        json.dumps({"a": [{f"p{n}": n for n in range(50)}] * 4_000}),
    )
    with pytest.raises(ValidationError, match="too large or nested to be checked"):
        load_arguments(tool, text, NOBODY)
    assert load_arguments(tool, text).model_dump_json()
