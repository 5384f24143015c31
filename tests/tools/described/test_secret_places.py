"""Where a schema calls a value secret, people are shown a mask, however it says so; for tools of
programs and of servers alike.
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
S: dict[str, Any] = {"type": "string", "writeOnly": True}
P: dict[str, Any] = {"type": "string", "format": "password"}


def one(part: dict[str, Any], **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema with one value, and that value."""
    return {"properties": {"s": part}, **more}, {"s": WORD}


def defs(**parts: Any) -> dict[str, Any]:
    """Parts to refer to."""
    return {"$defs": parts}


PLACES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "at the top": one(S),
    "a password": one(P),
    "or null": one({"anyOf": [S, {"type": "null"}]}),
    "types in a list": one({"type": ["string", "null"], "writeOnly": True}),
    "one of": one({"oneOf": [P, {"type": "integer"}]}),
    "all of": one({"allOf": [{"type": "string"}, {"writeOnly": True}]}),
    "then": one({"if": {"minLength": 1}, "then": S}),
    "else": one({"if": {"type": "integer"}, "else": S}),
    "a reference": one({"$ref": "#/$defs/x"}, **defs(x=S)),
    "beside a reference": one({"$ref": "#/$defs/x", "writeOnly": True}, **defs(x={})),
    "two references": one({"$ref": "#/$defs/y"}, **defs(x=S, y={"$ref": "#/$defs/x"})),
    "an escaped reference": one({"$ref": "#/$defs/a~1b%25"}, **{"$defs": {"a/b%": S}}),
    "an older reference": one({"$ref": "#/definitions/x"}, definitions={"x": S}),
    "a reference to another value": (
        {"properties": {"s": {"$ref": "#/properties/t"}, "t": S}},
        {"s": WORD},
    ),
    "itself": (
        {"properties": {"k": {"$ref": "#"}, "s": S}},
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
    "a pattern": ({"patternProperties": {"^s": S}}, {"s1": WORD}),
    "any other": ({"additionalProperties": S}, {"zz": WORD}),
    "any other within": (
        {"properties": {"o": {"type": "object", "additionalProperties": S}}},
        {"o": {"zz": WORD}},
    ),
    "items": (
        {"properties": {"s": {"type": "array", "items": S}}},
        {"s": ["a", WORD]},
    ),
    "first items": (
        {"properties": {"s": {"type": "array", "prefixItems": [{}, S]}}},
        {"s": [1, WORD]},
    ),
    "first items of old": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"s": {"type": "array", "items": [{}], "additionalItems": S}},
        },
        {"s": [1, WORD]},
    ),
    "contains": ({"properties": {"s": {"type": "array", "contains": S}}}, {"s": [1, WORD]}),
    "a dependent schema": (
        {
            "properties": {"t": {}},
            "additionalProperties": True,
            "dependentSchemas": {"t": {"properties": {"s": S}}},
        },
        {"t": 1, "s": WORD},
    ),
    "a dependency": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {"t": {}},
            "additionalProperties": True,
            "dependencies": {"t": {"properties": {"s": S}}},
        },
        {"t": 1, "s": WORD},
    ),
    "all of the whole": ({"allOf": [{"properties": {"s": S}}]}, {"s": WORD}),
    "one of the whole": (
        {"anyOf": [{"properties": {"s": S}}, {"properties": {"t": S}}]},
        {"s": WORD},
    ),
    "then of the whole": (
        {
            "properties": {"t": {}},
            "additionalProperties": True,
            "if": {"required": ["t"]},
            "then": {"properties": {"s": S}},
        },
        {"t": 1, "s": WORD},
    ),
    "a secret object": (
        {"properties": {"o": {"type": "object", "writeOnly": True, "properties": {"a": {}}}}},
        {"o": {"a": WORD}},
    ),
    "a secret list": ({"properties": {"o": {"type": "array", "writeOnly": True}}}, {"o": [WORD]}),
    "data in a text": one(
        {"type": "string", "contentSchema": {"type": "object", "properties": {"p": S}}}
    ),
    "capitals": one({"type": "string", "format": "Password"}),
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
            **defs(x={"anyOf": [{"additionalProperties": {"oneOf": [S]}}]}),
        },
        {"a": {"b": [{"c": {"z": WORD}}]}},
    ),
}
REFUSED = {  # what we could not tell of: the tool is not taken
    "an anchor": one({"$ref": "#x"}, **defs(x={"$anchor": "x", **S})),
    "a dynamic reference": one({"$dynamicRef": "#x"}, **defs(x={"$dynamicAnchor": "x", **S})),
    "a recursive one": one({"$recursiveRef": "#"}),
    "another document": one({"$ref": "https://schemas.example/x"}),
    "unevaluated": ({"unevaluatedProperties": S}, {"s": WORD}),
    "unevaluated items": one({"type": "array", "unevaluatedItems": S}),
    "a part with a name": one({"$id": "https://schemas.example/o", **S}),
    "a look ahead": ({"patternProperties": {"^(?=s)": S}}, {"s": WORD}),
}


@pytest.mark.parametrize("make", [of_program, of_server])
@pytest.mark.parametrize("place", PLACES)
def test_no_place_in_a_schema_hides_a_secret_mark(place: str, make: Any) -> None:
    """It is in no row of a card, in no dialog, in no masked record, and in no text of the tool."""
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
def test_what_cannot_be_resolved_is_no_tool(place: str) -> None:
    """A server's tool whose schema we could not follow is not taken; nor is a program's action."""
    schema, _ = REFUSED[place]
    with pytest.raises(UnfitSchemaError):
        of_server({"type": "object", **copy.deepcopy(schema)})
    with pytest.raises(AssertionError):
        of_program({"type": "object", **copy.deepcopy(schema)})


def test_an_error_quotes_no_secret() -> None:
    """What is wrong with a secret value is said without it."""
    tool = of_server({"type": "object", "properties": {"s": {**S, "maxLength": 3, "enum": ["x"]}}})
    with pytest.raises(ValidationError) as caught:
        load_arguments(tool, json.dumps({"s": WORD}))
    assert not any(WORD in each["msg"] for each in caught.value.errors())
