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
    dump,
    edit,
    find_element,
    list_errors,
    make_tool,
    render_view,
)

TOOL = make_tool(Everything, secret=frozenset({"token"}))
NOW = dump(Everything(name="Ana"))
LONG = "x" * 200


@pytest.mark.parametrize(("size", "sections"), [(2900, 0), (3001, 2), (12_001, 1)])
def test_a_value_too_long_for_an_input_is_shown_and_kept(size: int, sections: int) -> None:
    """Slack would refuse it as an initial value. It is shown in parts or by its length."""
    arguments = NOW | {"name": "y" * size}
    view = render_view(TOOL, arguments)
    assert sum("Name (fixed" in str(b.get("text", "")) for b in view["blocks"]) == sections
    shown = "".join(b["text"]["text"] for b in view["blocks"] if b["type"] == "section")
    assert shown.count("y") >= size or size > 12_000 or not sections
    assert edit(TOOL, arguments, count="5") == {"count": 5}


def test_lengths_are_counted_as_slack_counts_them() -> None:
    """Slack counts an ampersand as five characters: 600 fit into an input, 601 do not."""
    assert any(
        b.get("block_id") == "f:name"
        for b in render_view(TOOL, NOW | {"name": "&" * 600})["blocks"]
    )
    assert not any(
        b.get("block_id") == "f:name"
        for b in render_view(TOOL, NOW | {"name": "&" * 601})["blocks"]
    )


def test_a_dialog_of_an_enormous_model_is_within_slacks_limits() -> None:
    """Fields that do not fit are named and kept."""
    wide = type("Wide", (BaseModel,), {"__annotations__": {f"field_{n}": str for n in range(130)}})
    arguments = {f"field_{n}": "😀" * 1400 for n in range(130)}
    view = render_view(make_tool(wide), arguments, approve=True)
    assert len(json.dumps(view)) < 250_000
    assert "Field 129" in json.dumps(view)
    few = {f"field_{n}": "x" for n in range(130)}
    assert len(render_view(make_tool(wide), few, approve=True)["blocks"]) == 97
    assert edit(make_tool(wide), few, field_0="y") == {"field_0": "y"}


def test_bounds_given_to_slack_are_never_too_strict() -> None:
    """Bounds of integers are passed on; exclusive or rounded bounds of decimals are not."""

    class Bounded(BaseModel):
        count: int = Field(default=5, gt=0, lt=10)
        ratio: float = Field(default=0.5, gt=0, le=1)
        fine: Decimal = Field(default=Decimal("0.1"), le=Decimal("0.12345678901234567890"))

    tool, now = make_tool(Bounded), dump(Bounded())
    count = find_element(tool, now, "f:count")
    assert (count["min_value"], count["max_value"], count["is_decimal_allowed"]) == (
        "1",
        "9",
        False,
    )
    ratio = find_element(tool, now, "f:ratio")
    assert ("min_value" in ratio, ratio["max_value"]) == (False, "1")
    assert (
        not {"min_value", "max_value"} & find_element(tool, now | {"count": 50}, "f:count").keys()
    )
    assert "max_value" not in find_element(tool, now, "f:fine")


def test_a_choice_of_more_than_100_options_is_typed() -> None:
    """They do not fit a menu. Only an existing option is accepted."""
    many = Enum("many", {f"n{n}": n for n in range(101)})  # type: ignore[misc]  # made on the spot

    class Chosen(BaseModel):
        few: Literal[LONG + "a", LONG + "b"]  # type: ignore[valid-type]  # too long to tell apart in a menu
        one: many

    Chosen.model_rebuild(_types_namespace={"many": many})
    tool = make_tool(Chosen)
    now = {"few": LONG + "a", "one": 5}
    assert find_element(tool, now, "f:one")["type"] == "plain_text_input"
    assert edit(tool, now, one="100", few=LONG + "b") == {"one": 100, "few": LONG + "b"}
    assert list_errors(tool, now, one="101") == {"f:one": "This is not one of the allowed values."}


def test_options_that_look_alike_are_told_apart() -> None:
    """Slack could not tell them apart, or would take them for our own option."""

    class Alike(BaseModel):
        sign: Literal["(unset)", "", "b"] | None = None
        number: Literal[1, "1"] = 1
        ours: Literal["(unset)", "b"] | None = None

    tool, now = make_tool(Alike), dump(Alike())
    assert edit(tool, now, sign="0") == {"sign": "(unset)"}
    assert edit(tool, now, ours="0") == {"ours": "(unset)"}
    assert edit(tool, now | {"sign": "b"}, sign="(unset)") == {"sign": None}
    assert edit(tool, now, number='"1"') == {"number": "1"}


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
def test_errors_at_fields_are_in_plain_words(kind: Any, entered: object, says: str) -> None:
    """They have none of Pydantic's own terms."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(entered)
    [error] = caught.value.errors()
    said = reword_pydantic_message(error["type"], error["msg"])
    assert said.startswith(says)
    assert not any(term in said for term in ("Input", "parse", "pattern", "valid "))
