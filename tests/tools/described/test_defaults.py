"""Defaults of a JSON Schema: what runs if a value is left out is what people see."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from bot.tools.arguments import dump_arguments, load_new_arguments
from bot.tools.described import build_argument_model
from tests.messages.fields_support import make_tool
from tests.tools.described.samples import EDIT_FILE, FETCH

SIZE = {"type": "integer", "default": 3}
NULLABLE = {"type": ["integer", "null"], "default": 3}
BOX = {"type": "object", "properties": {"size": SIZE, "name": {"type": "string"}}}
EITHER = {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}


def fill_in(schema: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The arguments that are stored and shown when these are given."""
    tool = make_tool(build_argument_model(schema, "it"))
    stored: dict[str, Any] = json.loads(dump_arguments(load_new_arguments(tool, json.dumps(given))))
    return stored


@pytest.mark.parametrize(
    ("schema", "given", "stored"),
    [
        (
            FETCH.schema,
            {"url": "https://a.example", "raw": True},
            {"url": "https://a.example", "raw": True, "max_length": 5000},
        ),
        (
            EDIT_FILE.schema,
            {"path": "a", "edits": []},
            {"path": "a", "edits": [], "dryRun": False},
        ),
        ({"properties": {"size": SIZE}}, {"size": None}, {"size": 3}),  # null is "not given"
        ({"properties": {"size": SIZE}}, {"size": 0}, {"size": 0}),
        ({"properties": {"due date": {"default": "today"}}}, {}, {"due date": "today"}),
        ({"properties": {"box": BOX}}, {"box": {"name": "x"}}, {"box": {"name": "x", "size": 3}}),
        ({"properties": {"box": BOX}}, {}, {}),
        (
            {"properties": {"boxes": {"type": "array", "items": BOX}}},
            {"boxes": [{"size": 4}, {}]},
            {"boxes": [{"size": 4}, {"size": 3}]},
        ),
        (
            {"properties": {"box": {**BOX, "default": {"size": 9}}}},
            {},
            {"box": {"size": 9}},
        ),
        # null is a value of its own here
        ({"properties": {"size": {**SIZE, "type": ["integer", "null"]}}}, {}, {"size": 3}),
        (
            {"properties": {"size": {**SIZE, "type": ["integer", "null"]}}},
            {"size": None},
            {"size": None},
        ),
    ],
)
def test_a_value_that_is_left_out_gets_its_default(
    schema: dict[str, Any], given: dict[str, Any], stored: dict[str, Any]
) -> None:
    """Also within objects and lists of them."""
    assert fill_in(schema, given) == stored


def test_a_default_that_the_schema_refuses_is_left_out() -> None:
    """The others are filled in."""
    wrong = {"type": "integer", "minimum": 10, "default": 3}
    schema = {"properties": {"a": wrong, "size": SIZE, "b": {"enum": ["x"], "default": "y"}}}
    assert fill_in(schema, {}) == {"size": 3}


def test_a_refused_default_does_not_keep_many_others_away() -> None:
    """Each is checked with all others, not by itself."""
    wrong = {"type": "integer", "minimum": 10, "default": 3}
    schema = {"properties": {"a": wrong, "boxes": {"type": "array", "items": BOX}}}
    began = time.process_time()
    assert fill_in(schema, {"boxes": [{}] * 3000}) == {"boxes": [{"size": 3}] * 3000}
    assert time.process_time() - began < 20


def test_of_alternatives_only_one_is_there() -> None:
    """The one that is given."""
    schema = {"properties": {"a": SIZE, "b": SIZE, "c": SIZE}, **EITHER}
    assert fill_in(schema, {"b": 1}) == {"b": 1, "c": 3}


def test_an_argument_without_a_default_stays_away() -> None:
    """It has no value that anybody could show."""
    assert fill_in({"properties": {"note": {"type": "string"}}}, {}) == {}
