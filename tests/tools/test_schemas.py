"""The argument schemas that a model provider gets."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, Field, create_model
from slack_sdk import WebClient

from bot.clock import SystemClock
from bot.slack.directory import SlackDirectory
from bot.tools import Effect, Registry, Tool, ToolContext, registration, tool
from bot.tools.described import build_argument_model
from bot.tools.registration import REASON_FIELD
from bot.tools.shop_tools import build_order_tools
from bot.tools.slack_tools import build_slack_tools
from bot.tools.web_shop import Shop
from tests.model_stand_in.responses_checks import check_tool

CLIENT = WebClient("xoxb-never-used", base_url="http://127.0.0.1:9/")
TOOLS: list[Tool[Any]] = [
    *build_order_tools(Shop(Path("never-made.db"))),
    *build_slack_tools(CLIENT, SlackDirectory(CLIENT, SystemClock())),
]
SAMPLES: dict[str, dict[str, Any]] = {
    "look_up_order": {"order_id": 1042},
    "search_orders": {"customer": "Mara", "status": "shipped", "limit": 5},
    "refund_order": {"order_id": 1042, "amount": "40.00", "reason": "damaged"},
    "change_address": {
        "order_id": 1044,
        "address": {
            "street": "Rosenweg 5",
            "postal_code": "50674",
            "city": "Köln",
            "country": "Germany",
        },
        "notify": False,
    },
    "cancel_order": {"order_id": 1043, "reason": "changed her mind", "restock": True},
    "list_channels": {},
    "list_people": {"query": "dan"},
    "post_message": {"channel": "#general", "text": "Hello", "external_ok": False},
    "schedule_message": {"channel": "#general", "text": "Hello", "at": "2026-12-01T09:00:00Z"},
    "create_channel": {"name": "returns", "private": False},
    "invite": {"channel": "#general", "people": ["@dan"]},
    "set_topic": {"channel": "#general", "topic": "Returns"},
}
each_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)


def list_objects(node: Any) -> list[dict[str, Any]]:
    """List every object schema in a schema, the outermost first."""
    if isinstance(node, list):
        return [found for each in node for found in list_objects(each)]
    if not isinstance(node, dict):
        return []
    here = [node] if node.get("type") == "object" else []
    return here + [found for each in node.values() for found in list_objects(each)]


def test_each_tool_has_its_effect_and_idempotence() -> None:
    """Policy rules match on these: a change here changes what people are asked."""
    assert {tool.name: (tool.does.value, tool.idempotent) for tool in TOOLS} == {
        "look_up_order": ("read", True),
        "search_orders": ("read", True),
        "refund_order": ("write", True),
        "change_address": ("write", True),
        "cancel_order": ("destructive", True),
        "list_channels": ("read", True),
        "list_people": ("read", True),
        "post_message": ("write", False),
        "schedule_message": ("write", False),
        "create_channel": ("write", False),
        "invite": ("write", True),
        "set_topic": ("write", True),
    }
    Registry().add(*TOOLS)


@each_tool
def test_a_tools_schema_allows_no_unknown_keys(tool: Tool[Any]) -> None:
    """This holds at any depth. The schema itself is valid."""
    schema = tool.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False)
    assert schema["type"] == "object"
    assert all(found["additionalProperties"] is False for found in list_objects(schema))
    assert set(schema.get("required", [])) <= set(schema["properties"])
    assert (REASON_FIELD in schema["properties"]) == (tool.does is not Effect.READ)


@each_tool
def test_each_tool_has_a_description_and_field_titles(tool: Tool[Any]) -> None:
    """The titles are for the card and the edit form."""
    assert len(tool.description) > 20
    assert all(field.title for field in tool.arguments.model_fields.values())


@each_tool
def test_a_tools_schema_and_model_class_accept_the_same(tool: Tool[Any]) -> None:
    """The model class also accepts its own dump, unchanged."""
    sample = SAMPLES[tool.name]
    asked = sample | ({REASON_FIELD: "She asked."} if tool.needs_reason else {})
    jsonschema.validate(asked, tool.schema())
    args = tool.arguments.model_validate(sample)
    again = tool.arguments.model_validate_json(args.model_dump_json())
    assert again == args
    assert tool.effect_sentence(args) != ""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**asked, "surprise": 1}, tool.schema())


class Line(BaseModel):
    """One thing that is paid."""

    title: str = Field(title="What it is called")


class Payment(BaseModel):
    """A note of ours that no model needs."""

    amount: Decimal = Field(title="Amount (EUR)", gt=0, max_digits=5, decimal_places=2)
    text: str = Field("", title="Text", max_length=3000, description="What it is for.")
    lines: list[Line] | None = Field(None, title="Lines", max_length=5)
    until: int | None = Field(title="Until")


@tool(title="Pay", effect="Pay {amount}", does=Effect.WRITE)
def pay(_args: Payment, _context: ToolContext) -> None:
    """Pay somebody."""


def test_the_schema_has_nothing_that_tells_the_model_nothing() -> None:
    """It lacks titles, our docstrings, nulls that may be left out, and long bounds; it has a field
    that is named like a keyword, and a title that says more than the name.
    """
    assert pay.schema() == {
        "type": "object",
        "additionalProperties": False,
        "$defs": {
            "Line": {
                "type": "object",
                "description": "One thing that is paid.",
                "properties": {"title": {"type": "string", "description": "What it is called"}},
                "required": ["title"],
            }
        },
        "properties": {
            "amount": {
                "description": "Amount (EUR)",
                "anyOf": [
                    {"type": "number", "exclusiveMinimum": 0, "maximum": 999.99},
                    {"type": "string", "pattern": r"^[0-9]{1,3}([.][0-9]{1,2})?$"},
                ],
            },
            "text": {"type": "string", "default": "", "description": "What it is for."},
            "lines": {"type": "array", "maxItems": 5, "items": {"$ref": "#/$defs/Line"}},
            "until": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "reason_for_approver": {
                "type": "string",
                "maxLength": 500,
                "description": "Why, for the approver.",
            },
        },
        "required": ["amount", "until", "reason_for_approver"],
    }


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (r"^INV-\d{6}$", "^INV-[0-9]{6}$"),
        (r"^[\w.-]+@\w+\.example$", "^[A-Za-z0-9_.-]+@[A-Za-z0-9_]+[.]example$"),
        (r"^\S+\s?[^\s\/]$", r"^[^ \t\n\r]+[ \t\n\r]?[^ \t\n\r/]$"),
        (r"^[\]\\-]\\[\D]$", r"^[\]\\-]\\[\D]$"),
    ],
)
def test_patterns_are_spelt_out_for_the_model(pattern: str, written: str) -> None:
    """Some servers' grammars cannot read shorthands and escapes, so they are spelt out where that
    is possible. Validation uses the original pattern.
    """

    args = create_model("Args", code=(str, Field(pattern=pattern)))
    assert registration.build_tool_schema(args)["properties"]["code"]["pattern"] == written
    assert args.model_json_schema()["properties"]["code"]["pattern"] == pattern
    for text in ("INV-123456", "INV-12345", "a.b@c.example", "a.b@cXexample", "x y", "xyz", "-\\D"):
        assert bool(re.search(pattern, text)) is bool(re.search(written, text)), text


SHAPE = {"type": "object", "properties": {"id": {"type": "string"}, "slug": {"type": "string"}}}
MANY = {"type": "array"}


@pytest.mark.parametrize(
    "odd",
    [
        SHAPE | {"oneOf": [{"required": ["id"]}, {"required": ["slug"]}]},
        SHAPE | {"anyOf": [{"required": ["id"]}, {"required": ["slug"]}]},
        SHAPE | {"allOf": [{"if": {"required": ["id"]}, "then": {"required": ["slug"]}}]},
        SHAPE | {"not": {"required": ["id", "slug"]}},
        SHAPE | {"enum": [{"id": "a"}, {"slug": "b"}]},
        {"type": "object"},
        {"properties": {"keys": MANY}},
        {"properties": {"keys": {"type": ["array", "null"]}}},
        {"properties": {"pair": MANY | {"prefixItems": [{"type": "string"}]}}},
        {"properties": {"rows": MANY | {"items": MANY}}},
        {"properties": {"rows": {"$ref": "#/$defs/Rows"}}, "$defs": {"Rows": MANY}},
    ],
    ids=json.dumps,
)
def test_no_servers_tool_makes_the_model_refuse_all_requests(odd: dict[str, Any]) -> None:
    """OpenAI refuses a whole request for one schema that has choices at the top level, or an array
    that does not say what is in it; other servers' tools have such schemas.
    """
    schema = registration.build_tool_schema(build_argument_model(odd, "odd"))
    check_tool({"type": "function", "name": "odd", "parameters": schema, "strict": False}, "tools")


def test_an_array_of_fixed_places_says_what_is_in_it() -> None:
    """As Pydantic writes a tuple."""
    args = create_model("Args", place=(tuple[float, float], ...))
    schema = registration.build_tool_schema(args)
    check_tool({"type": "function", "name": "go", "parameters": schema, "strict": False}, "tools")
