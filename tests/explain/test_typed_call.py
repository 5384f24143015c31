"""A call typed as words: each value becomes what the tool's model makes of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import pytest
from pydantic import BaseModel

from bot.cli.read_only_core import FailingSlackDirectory
from bot.explain.typed_call import TypedCallError, parse_typed_call
from bot.tools import Effect, Registry, ToolContext, tool
from bot.tools.described import build_argument_model
from tests.messages.fields_support import make_tool

OFF = FailingSlackDirectory("Slack is not asked")


class Everything(BaseModel):
    """Fields of many types."""

    amount: Decimal
    name: str = ""
    often: int | None = 3
    sure: bool = False
    kind: Literal["a", "b"] = "a"
    tags: list[str] = []
    parts: dict[str, Decimal] = {}


@tool(title="Take everything", effect="Take {amount}", does=Effect.WRITE)
def take(args: Everything, _context: ToolContext) -> str:
    """Take it."""
    return str(args)


@pytest.mark.parametrize(
    ("word", "field", "value"),
    [
        ("amount=12345678901234567890.10", "amount", Decimal("12345678901234567890.10")),
        ("name=123", "name", "123"),
        ("name=null", "name", "null"),
        ("name=a=b", "name", "a=b"),
        ('name=", "often": 1', "name", '", "often": 1'),
        ("often=7", "often", 7),
        ("often=null", "often", None),
        ("sure=true", "sure", True),
        ("kind=b", "kind", "b"),
        ('tags=["x", "y"]', "tags", ["x", "y"]),
        ('parts={"x": "0.10"}', "parts", {"x": Decimal("0.10")}),
    ],
)
def test_typed_values_stay_exact(word: str, field: str, value: object) -> None:
    """Words are read as JSON only if the field does not accept them as text."""
    _, args = parse_typed_call(
        _tools(), ["take", *([] if field == "amount" else ["amount=1"]), word], OFF, None
    )
    assert getattr(args, field) == value
    assert str(getattr(args, field)) == str(value)


@pytest.mark.parametrize(
    "word", ['often=1, "sure": true', 'tags=["x"', 'parts={"a": 1, "a": 2}', "often=1e400"]
)
def test_a_value_that_fits_no_field_is_refused(word: str) -> None:
    """It is neither text for the field nor one JSON value, and adds no other argument."""
    with pytest.raises(TypedCallError):
        parse_typed_call(_tools(), ["take", "amount=1", word], OFF, None)


def test_a_default_of_a_json_schema_is_an_argument() -> None:
    """As in a call that the agent proposes."""
    force = {"type": "boolean", "default": True}
    schema = {"properties": {"branch": {"type": "string"}, "force": force}}
    registry = Registry()
    registry.add(make_tool(build_argument_model(schema, "push")))
    _, args = parse_typed_call(registry, ["act", "branch=main"], OFF, None)
    assert args.model_dump() == {"branch": "main", "force": True}


def _tools() -> Registry:
    registry = Registry()
    registry.add(take)
    return registry
