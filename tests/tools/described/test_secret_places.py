"""A value that its schema marks as secret is masked for people, however the schema says so; for
tools of programs and of servers alike.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from pydantic import ValidationError

from bot.cards.button_codec import CallTarget
from bot.cards.edit_form import render_edit_dialog
from bot.cards.field_values import list_argument_values
from bot.tools.arguments import build_readable_arguments, dump_arguments, load_arguments
from bot.tools.described.checking import UnfitSchemaError
from bot.tools.runner import mask_call_secrets
from tests.approvals.every_leaf import of_program, of_server, texts

WORD = "hush-4711"
SECRET: dict[str, Any] = {"type": "string", "writeOnly": True}
PASSWORD: dict[str, Any] = {"type": "string", "format": "password"}


def describe(part: dict[str, Any], **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema with one value `s`, and arguments that have it."""
    return {"properties": {"s": part}, **more}, {"s": WORD}


def defs(**parts: Any) -> dict[str, Any]:
    """Parts of a schema, to refer to."""
    return {"$defs": parts}


PLACES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "at the top": describe(SECRET),
    "a password": describe(PASSWORD),
    "or null": describe({"anyOf": [SECRET, {"type": "null"}]}),
    "types in a list": describe({"type": ["string", "null"], "writeOnly": True}),
    "one of": describe({"oneOf": [PASSWORD, {"type": "integer"}]}),
    "all of": describe({"allOf": [{"type": "string"}, {"writeOnly": True}]}),
    "then": describe({"if": {"minLength": 1}, "then": SECRET}),
    "else": describe({"if": {"type": "integer"}, "else": SECRET}),
    "a reference": describe({"$ref": "#/$defs/x"}, **defs(x=SECRET)),
    "beside a reference": describe({"$ref": "#/$defs/x", "writeOnly": True}, **defs(x={})),
    "two references": describe({"$ref": "#/$defs/y"}, **defs(x=SECRET, y={"$ref": "#/$defs/x"})),
    "an escaped reference": describe({"$ref": "#/$defs/a~1b%25"}, **{"$defs": {"a/b%": SECRET}}),
    "an older reference": describe({"$ref": "#/definitions/x"}, definitions={"x": SECRET}),
    "a reference to another value": (
        {"properties": {"s": {"$ref": "#/properties/t"}, "t": SECRET}},
        {"s": WORD},
    ),
    "itself": (
        {"properties": {"k": {"$ref": "#"}, "s": SECRET}},
        {"k": {"k": {"s": WORD}}},
    ),
    "the whole of it": (
        {"writeOnly": True, "properties": {"s": {"type": "string"}, "o": {"type": "object"}}},
        {"s": WORD, "o": {}},
    ),
    "the whole, open": ({"format": "password", "additionalProperties": True}, {"s": WORD}),
    "the whole, by a part": (
        {"allOf": [{"writeOnly": True}], "properties": {"o": {"additionalProperties": {}}}},
        {"o": {"inner": WORD}},
    ),
    "the whole, by a reference": (
        {"$ref": "#/$defs/x", **defs(x={"writeOnly": True, "properties": {"s": {}}})},
        {"s": WORD},
    ),
    "a pattern": ({"patternProperties": {"^s": SECRET}}, {"s1": WORD}),
    "any other": ({"additionalProperties": SECRET}, {"zz": WORD}),
    "any other within": (
        {"properties": {"o": {"type": "object", "additionalProperties": SECRET}}},
        {"o": {"zz": WORD}},
    ),
    "items": (
        {"properties": {"s": {"type": "array", "items": SECRET}}},
        {"s": ["a", WORD]},
    ),
    "first items": (
        {"properties": {"s": {"type": "array", "prefixItems": [{}, SECRET]}}},
        {"s": [1, WORD]},
    ),
    "first items of old": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"s": {"type": "array", "items": [{}], "additionalItems": SECRET}},
        },
        {"s": [1, WORD]},
    ),
    "contains": (
        {"properties": {"s": {"type": "array", "contains": SECRET}}},
        {"s": [1, WORD]},
    ),
    "a dependent schema": (
        {
            "properties": {"t": {}},
            "additionalProperties": True,
            "dependentSchemas": {"t": {"properties": {"s": SECRET}}},
        },
        {"t": 1, "s": WORD},
    ),
    "a dependency": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"t": {}},
            "additionalProperties": True,
            "dependencies": {"t": {"properties": {"s": SECRET}}},
        },
        {"t": 1, "s": WORD},
    ),
    "all of the whole": ({"allOf": [{"properties": {"s": SECRET}}]}, {"s": WORD}),
    "one of the whole": (
        {"anyOf": [{"properties": {"s": SECRET}}, {"properties": {"t": SECRET}}]},
        {"s": WORD},
    ),
    "then of the whole": (
        {
            "properties": {"t": {}},
            "additionalProperties": True,
            "if": {"required": ["t"]},
            "then": {"properties": {"s": SECRET}},
        },
        {"t": 1, "s": WORD},
    ),
    "a secret object": (
        {"properties": {"o": {"type": "object", "writeOnly": True, "properties": {"a": {}}}}},
        {"o": {"a": WORD}},
    ),
    "a secret list": ({"properties": {"o": {"type": "array", "writeOnly": True}}}, {"o": [WORD]}),
    "data in a text": describe(
        {"type": "string", "contentSchema": {"type": "object", "properties": {"p": SECRET}}}
    ),
    "capitals": describe({"type": "string", "format": "Password"}),
    "far below": (
        {
            "properties": {
                "a": {
                    "type": "object",
                    "properties": {
                        "b": {
                            "type": "array",
                            "items": {"properties": {"c": {"$ref": "#/$defs/x"}}},
                        }
                    },
                }
            },
            **defs(x={"anyOf": [{"additionalProperties": {"oneOf": [SECRET]}}]}),
        },
        {"a": {"b": [{"c": {"z": WORD}}]}},
    ),
}
REFUSED = {  # we could not tell what is secret, so the tool is refused
    "an anchor": describe({"$ref": "#x"}, **defs(x={"$anchor": "x", **SECRET})),
    "a dynamic reference": describe(
        {"$dynamicRef": "#x"}, **defs(x={"$dynamicAnchor": "x", **SECRET})
    ),
    "a recursive one": describe({"$recursiveRef": "#"}),
    "another document": describe({"$ref": "https://schemas.example/x"}),
    "unevaluated": ({"unevaluatedProperties": SECRET}, {"s": WORD}),
    "unevaluated items": describe({"type": "array", "unevaluatedItems": SECRET}),
    "a part with a name": describe({"$id": "https://schemas.example/o", **SECRET}),
    "a look ahead": ({"patternProperties": {"^(?=s)": SECRET}}, {"s": WORD}),
}


@pytest.mark.parametrize("make", [of_program, of_server])
@pytest.mark.parametrize("place", PLACES)
def test_a_secret_mark_is_found_anywhere_in_a_schema(place: str, make: Any) -> None:
    """The value is in no row of a card, no dialog, no masked record and no text of the tool."""
    schema, given = PLACES[place]
    tool = make({"type": "object", **copy.deepcopy(schema)})
    stored = dump_arguments(load_arguments(tool, json.dumps(given)))
    as_read = build_readable_arguments(tool, stored)
    assert WORD in stored
    assert not any(WORD in row.text for row in list_argument_values(tool, as_read))
    modal = render_edit_dialog(
        tool, as_read, target=CallTarget("call-1", 1), save_and_approve=False
    )
    assert not any(WORD in text for text in texts(modal["blocks"]))
    assert WORD not in json.dumps(tool.mask_arguments(json.loads(stored)))
    args = load_arguments(tool, stored)
    assert WORD not in tool.effect_sentence(args)
    assert WORD not in mask_call_secrets(tool, args, f"sent {WORD} on")


@pytest.mark.parametrize("place", REFUSED)
def test_a_schema_that_cannot_be_resolved_is_refused(place: str) -> None:
    """This holds for a server's tool and for a program's action."""
    schema, _ = REFUSED[place]
    with pytest.raises(UnfitSchemaError):
        of_server({"type": "object", **copy.deepcopy(schema)})
    with pytest.raises(AssertionError):
        of_program({"type": "object", **copy.deepcopy(schema)})


def test_an_error_does_not_quote_the_secret_it_is_about() -> None:
    """The value is too long, and not one of those allowed."""
    tool = of_server(
        {"type": "object", "properties": {"s": {**SECRET, "maxLength": 3, "enum": ["x"]}}}
    )
    with pytest.raises(ValidationError) as caught:
        load_arguments(tool, json.dumps({"s": WORD}))
    assert not any(WORD in each["msg"] for each in caught.value.errors())
