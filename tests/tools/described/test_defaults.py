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


BOXED = {"size": 3}
NOTHING = {"type": "null"}
WIDE = {"properties": {"width": {"type": "number"}, "unit": {"default": "m"}}}
LONG = {"properties": {"length": {"type": "number"}, "unit": {"default": "ft"}}}
WIDE_OR_LONG = {
    "anyOf": [{**WIDE, "required": ["width"]}, {**LONG, "required": ["length"]}],
}
KINDS = {
    "oneOf": [
        {"properties": {"kind": {"const": "post"}, "to": {"default": "all"}}},
        {"properties": {"kind": {"enum": ["mail"]}, "copies": SIZE}},
    ]
}
NODE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "properties": {
                "size": SIZE,
                "child": {"anyOf": [{"$ref": "#/$defs/node"}, NOTHING], "default": None},
            }
        }
    },
}


def nest(schema: dict[str, Any], levels: int) -> dict[str, Any]:
    """A schema within so many objects, each with the one key "in"."""
    for _ in range(levels):
        schema = {"type": "object", "properties": {"in": schema}}
    return schema


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


@pytest.mark.parametrize(
    ("schema", "given", "stored"),
    [
        ({"anyOf": [BOX, NOTHING]}, {}, {"size": 3}),
        ({"anyOf": [BOX, NOTHING, {"type": "string"}]}, {}, {"size": 3}),
        ({"anyOf": [BOX, NOTHING]}, None, None),
        ({"type": "array", "items": {"anyOf": [BOX, NOTHING]}}, [{}, None], [{"size": 3}, None]),
        (
            {"anyOf": [{"type": "array", "items": BOX}, {"type": "array", "items": SIZE}, NOTHING]},
            [{}],
            [{"size": 3}],
        ),
        ({"allOf": [{"anyOf": [BOX, {"type": "string"}]}]}, {}, {"size": 3}),
        (WIDE_OR_LONG, {"length": 1}, {"length": 1, "unit": "ft"}),
        (WIDE_OR_LONG, {"length": 1, "width": 2}, {"length": 1, "width": 2}),  # fits both
        ({"anyOf": [{}, BOX]}, {}, {}),
        ({"anyOf": [BOX, {"type": "array"}]}, [], []),
        (KINDS, {"kind": "mail"}, {"kind": "mail", "copies": 3}),
        # a default beside the alternatives says which it is
        (
            {"anyOf": KINDS["oneOf"], "properties": {"kind": {"default": "post"}}},
            {},
            {"kind": "post", "to": "all"},
        ),
        (
            {"additionalProperties": BOX},
            {"a": {}, "b": {"size": 1}},
            {"a": BOXED, "b": {"size": 1}},
        ),
        ({"patternProperties": {"^a": BOX}}, {"a": {}, "b": {}}, {"a": BOXED, "b": {}}),
        ({"prefixItems": [SIZE, BOX], "items": {}}, [1, {}, {}], [1, BOXED, {}]),
        # what is within a default that was filled in
        ({"properties": {"box": {**BOX, "default": {}}}}, {}, {"box": BOXED}),
        ({"properties": {"box": {"anyOf": [BOX, NOTHING], "default": {}}}}, {}, {"box": BOXED}),
    ],
)
def test_a_value_within_another_gets_its_default(
    schema: dict[str, Any], given: Any, stored: Any
) -> None:
    """Behind references, and of alternatives in the only one that fits, however deep."""
    defs = {"$defs": {"it": schema}, "properties": {"value": {"$ref": "#/$defs/it"}}}
    assert fill_in(defs, {"value": given}) == {"value": stored}
    deep = {**nest({"$ref": "#/$defs/it"}, 6), "$defs": {"it": schema}}
    for _ in range(6):
        given, stored = {"in": given}, {"in": stored}
    assert fill_in(deep, given) == stored


def test_a_schema_that_contains_itself_has_its_defaults_filled_in() -> None:
    """As deep as values are given."""
    assert fill_in(NODE, {"child": {"child": {}}}) == {
        "size": 3,
        "child": {**BOXED, "child": BOXED},
    }
    endless = {"properties": {"child": {"$ref": "#", "default": {}}, "size": SIZE}}
    assert fill_in(endless, {}) == {"size": 3, "child": {"size": 3}}


def test_defaults_that_make_more_and_more_of_each_other_are_left_out() -> None:
    """Twelve levels, each with ten of the next one, would be endless."""
    levels = {
        str(n): {
            "properties": {k: {"$ref": f"#/$defs/{n + 1}", "default": {}} for k in "abcdefghij"}
        }
        for n in range(12)
    }
    schema = {"properties": {"size": SIZE}, "$ref": "#/$defs/0", "$defs": {**levels, "12": BOX}}
    began = time.process_time()
    assert fill_in(schema, {"size": 1}) == {"size": 1}
    assert time.process_time() - began < 5


def test_many_alternatives_are_decided_in_linear_time() -> None:
    """Each value is looked at once more, not once for each of the others."""
    kinds = [{**each, "required": ["kind"]} for each in KINDS["oneOf"]]
    schema = {"properties": {"all": {"type": "array", "items": {"anyOf": [*kinds, NOTHING]}}}}
    took = []
    for many in (100, 1000):
        began = time.process_time()
        stored = fill_in(schema, {"all": [{"kind": "mail"}] * many})
        took.append(time.process_time() - began)
        assert stored == {"all": [{"kind": "mail", "copies": 3}] * many}
    assert took[1] < 40 * took[0]


def test_a_default_that_the_schema_refuses_is_left_out() -> None:
    """The others are filled in."""
    wrong = {"type": "integer", "minimum": 10, "default": 3}
    schema = {"properties": {"a": wrong, "size": SIZE, "b": {"enum": ["x"], "default": "y"}}}
    assert fill_in(schema, {}) == {"size": 3}


def test_an_object_with_a_default_that_is_refused_is_left_out() -> None:
    """Its own, and those within it."""
    box = {**BOX, "default": {"name": 5}}
    assert fill_in({"properties": {"box": box, "size": SIZE}}, {}) == {"size": 3}
    wrong = {"properties": {"deep": {"properties": {"a": {"type": "string", "default": 1}}}}}
    schema = {"properties": {"box": {**wrong, "default": {"deep": {}}}, "size": SIZE}}
    assert fill_in(schema, {}) == {"size": 3, "box": {"deep": {}}}


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
