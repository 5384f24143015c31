"""The Edit dialog at Slack's limits: long values, many fields, bounds and options."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError

from bot.cards.field_layout import reword_pydantic_message
from tests.messages.fields_support import (
    Everything,
    dumped,
    edited,
    element,
    errors,
    tool_for,
    view_of,
)

TOOL = tool_for(Everything, secret=frozenset({"token"}))
NOW = dumped(Everything(name="Ana"))
LONG = "x" * 200


@pytest.mark.parametrize(("size", "sections"), [(2900, 0), (3001, 2), (12_001, 1)])
def test_too_long_for_an_input(size: int, sections: int) -> None:
    """What Slack would refuse as a value to start with is shown, in parts or by length.

    It is kept.
    """
    arguments = NOW | {"name": "y" * size}
    view = view_of(TOOL, arguments)
    assert sum("Name (fixed" in str(b.get("text", "")) for b in view["blocks"]) == sections
    shown = "".join(b["text"]["text"] for b in view["blocks"] if b["type"] == "section")
    assert shown.count("y") >= size or size > 12_000 or not sections
    assert edited(TOOL, arguments, count="5") == {"count": 5}


def test_length_counts_as_slack_counts() -> None:
    """An ampersand is five characters to Slack.

    So 700 of them still go into an input, and 601 more do not.
    """
    assert any(
        b.get("block_id") == "f:name" for b in view_of(TOOL, NOW | {"name": "&" * 600})["blocks"]
    )
    assert not any(
        b.get("block_id") == "f:name" for b in view_of(TOOL, NOW | {"name": "&" * 601})["blocks"]
    )


def test_enormous_models_stay_within_slack() -> None:
    """More than fits into a modal is named and kept; the modal stays one that Slack takes."""
    wide = type("Wide", (BaseModel,), {"__annotations__": {f"field_{n}": str for n in range(130)}})
    arguments = {f"field_{n}": "😀" * 1400 for n in range(130)}
    view = view_of(tool_for(wide), arguments, approve=True)
    assert len(json.dumps(view)) < 250_000
    assert "Field 129" in json.dumps(view)
    few = {f"field_{n}": "x" for n in range(130)}
    assert len(view_of(tool_for(wide), few, approve=True)["blocks"]) == 97
    assert edited(tool_for(wide), few, field_0="y") == {"field_0": "y"}


def test_bounds_that_slack_checks_are_never_too_strict() -> None:
    """Integer bounds are passed on as they are.

    A decimal's exclusive bound and a rounded one are not.
    """

    class Bounded(BaseModel):
        count: int = Field(default=5, gt=0, lt=10)
        ratio: float = Field(default=0.5, gt=0, le=1)
        fine: Decimal = Field(default=Decimal("0.1"), le=Decimal("0.12345678901234567890"))

    tool, now = tool_for(Bounded), dumped(Bounded())
    count = element(tool, now, "f:count")
    assert (count["min_value"], count["max_value"], count["is_decimal_allowed"]) == (
        "1",
        "9",
        False,
    )
    ratio = element(tool, now, "f:ratio")
    assert ("min_value" in ratio, ratio["max_value"]) == (False, "1")
    assert not {"min_value", "max_value"} & element(tool, now | {"count": 50}, "f:count").keys()
    assert "max_value" not in element(tool, now, "f:fine")


def test_many_options_are_typed() -> None:
    """Over a hundred options do not fit a menu: the value is typed.

    Only one that exists is taken.
    """
    many = Enum("many", {f"n{n}": n for n in range(101)})  # type: ignore[misc]  # made on the spot

    class Chosen(BaseModel):
        few: Literal[LONG + "a", LONG + "b"]  # type: ignore[valid-type]  # too long to tell apart in a menu
        one: many

    Chosen.model_rebuild(_types_namespace={"many": many})
    tool = tool_for(Chosen)
    now = {"few": LONG + "a", "one": 5}
    assert element(tool, now, "f:one")["type"] == "plain_text_input"
    assert edited(tool, now, one="100", few=LONG + "b") == {"one": 100, "few": LONG + "b"}
    assert errors(tool, now, one="101") == {"f:one": "This is not one of the allowed values."}


def test_options_that_look_alike() -> None:
    """Options that Slack could not tell apart, or would take for ours, are still told apart."""

    class Alike(BaseModel):
        sign: Literal["(unset)", "", "b"] | None = None
        number: Literal[1, "1"] = 1
        ours: Literal["(unset)", "b"] | None = None

    tool, now = tool_for(Alike), dumped(Alike())
    assert edited(tool, now, sign="0") == {"sign": "(unset)"}
    assert edited(tool, now, ours="0") == {"ours": "(unset)"}
    assert edited(tool, now | {"sign": "b"}, sign="(unset)") == {"sign": None}
    assert edited(tool, now, number='"1"') == {"number": "1"}


@pytest.mark.parametrize(
    ("kind", "entered", "says"),
    [
        (int, "x", "Please enter a whole number."),
        (int, 1.5, "Please enter a whole number."),
        (Decimal, "a lot", "Please enter a number."),
        (bool, "perhaps", "Please say yes or no."),
        (date, "soon", "Please enter a date, like 2026-11-21."),
        (AwareDatetime, "2026-11-21T14:30:00", "Please add the time zone, like 14:30+01:00."),
        (
            Annotated[str, Field(pattern="^[a-z]$")],
            "1",
            "This does not have the expected format",
        ),
        (Annotated[Decimal, Field(decimal_places=2)], "1.234", "This should have no more than 2"),
        (Annotated[str, Field(min_length=3)], "a", "This should have at least 3 characters."),
    ],
)
def test_errors_are_said_as_a_colleague_would(kind: Any, entered: object, says: str) -> None:
    """None of Pydantic's own terms stands at a field."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(entered)
    [error] = caught.value.errors()
    said = reword_pydantic_message(error["type"], error["msg"])
    assert said.startswith(says)
    assert not any(term in said for term in ("Input", "parse", "pattern", "valid "))
