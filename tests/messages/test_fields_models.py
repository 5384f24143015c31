"""The Edit dialog over unusual models: rules, secrets, names, values that fit no input."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    EmailStr,
    Field,
    computed_field,
    field_validator,
    model_validator,
)

from bot.cards.button_codec import CallTarget
from bot.cards.edit_form import ParsedEdit, parse_edit_submission, render_edit_dialog
from bot.cards.field_layout import FieldErrors
from bot.cards.field_values import list_argument_values
from tests.messages.fields_support import (
    Address,
    Everything,
    block,
    dumped,
    edited,
    element,
    errors,
    submit,
    tool_for,
    typed,
    view_of,
)

TOOL = tool_for(Everything, secret=frozenset({"token"}))
NOW = dumped(Everything(name="Ana"))


class Range(BaseModel):
    """Rules across fields, and one on a field that nobody may edit."""

    fixed: str = "ok"
    low: int = 1
    high: int = 2
    hidden: str = "ok"

    @model_validator(mode="after")
    def _ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self

    @field_validator("hidden", mode="after")
    @classmethod
    def _fits(cls, hidden: str, info: Any) -> str:
        if info.data.get("high") == 99:
            raise ValueError(f"{hidden} does not go with 99")
        return hidden


def test_errors_without_an_input_of_their_own() -> None:
    """A rule of the whole model, or about a value without an input, is about the whole form.

    Where there is one input only, it stands there.
    """
    tool = tool_for(Range, editable=frozenset({"low", "high"}))
    now = dumped(Range())
    assert errors(tool, now, low="3") == {"": "Low must not be above high."}
    assert errors(tool, now, high="99") == {"": "Hidden: Ok does not go with 99."}
    one = tool_for(Range, editable=frozenset({"high"}))
    assert errors(one, now, high="0") == {"f:high": "Low must not be above high."}


def test_error_at_a_secret_says_nothing_of_it() -> None:
    """The words of a validator about a secret are not passed on."""
    tool = tool_for(Range, secret=frozenset({"hidden"}))
    assert errors(tool, dumped(Range(hidden="pass")), high="99") == {
        "": "Hidden: This is not valid."
    }


def test_read_only_and_secret_values_ignore_the_state() -> None:
    """A state made up for a value that has no input changes nothing."""
    tool = tool_for(Everything, secret=frozenset({"token"}), editable=frozenset({"name", "token"}))
    forged = {"value": "forged"}
    state = {
        "f:token": {"v": forged},
        "f:note": {"v": forged},
        "f:nonsense": {"v": forged},
        "f:name": {"v": {"value": "B"}},
    }
    parsed = parse_edit_submission(tool, NOW, state)
    assert isinstance(parsed, ParsedEdit)
    assert parsed.arguments == NOW | {"name": "B"}


def test_secrets_survive_an_edit() -> None:
    """A secret of either sort is the same after an edit of something else."""
    parsed = submit(TOOL, NOW | {"password": "hunter22"}, name="Ben")
    assert isinstance(parsed, ParsedEdit)
    assert (parsed.arguments["token"], parsed.arguments["password"]) == ("s3cret-value", "hunter22")


def test_save_and_approve_is_a_box_to_tick() -> None:
    """It is offered only where it may count, starts empty, and is read when ticked."""
    assert not any(b.get("block_id") == "then" for b in view_of(TOOL, NOW)["blocks"])
    view = view_of(TOOL, NOW, approve=True)
    assert "initial_options" not in block(view, "then")["element"]
    parsed = parse_edit_submission(TOOL, NOW, typed(view, then=["approve"], name="Ben"))
    assert isinstance(parsed, ParsedEdit)
    assert parsed.approve
    assert parsed.changed


def test_labels_hints_and_lines() -> None:
    """Titles, descriptions and lengths of the model are those of the inputs."""

    class Worded(BaseModel):
        order_id: str = Field(min_length=2, max_length=10)
        note: str = Field(
            default="", title="Note for <Ana>", description="Said to & about her", max_length=151
        )
        told: list[str] = Field(default=[], description="Who hears it")

    view = view_of(tool_for(Worded), {"order_id": "12", "note": "", "told": ["x"]})
    order, note = block(view, "f:order_id"), block(view, "f:note")
    assert (order["label"]["text"], note["label"]["text"]) == ("Order id", "Note for <Ana>")
    assert note["hint"]["text"] == "Said to & about her"
    assert block(view, "f:told")["hint"]["text"].startswith("Who hears it. One per line.")
    assert (order["element"]["min_length"], order["element"]["max_length"]) == (2, 10)
    assert (order["optional"], note["optional"]) == (False, True)
    assert (order["element"]["multiline"], note["element"]["multiline"]) == (False, True)
    assert element(tool_for(Worded), {"order_id": "z\nz", "note": ""}, "f:order_id")["multiline"]
    # Four ampersands are twenty characters to Slack, which must not refuse what the model takes.
    assert "max_length" not in element(
        tool_for(Worded), {"order_id": "&&&&", "note": ""}, "f:order_id"
    )


@pytest.mark.parametrize(("now", "told"), [(None, False), ("call back", False), ("", True)])
def test_only_who_has_an_empty_text_hears_of_it(now: str | None, told: bool) -> None:
    """How to write an empty text is said where there is one, and nobody else is bothered by it."""
    hint = block(view_of(TOOL, NOW | {"note": now}), "f:note")["hint"]["text"]
    assert hint.startswith("Leave it empty for none")
    assert ('write "" for an empty text' in hint) == told


def test_hidden_characters_are_pointed_out() -> None:
    """An input cannot show them, so the hint says which there are."""
    view = view_of(TOOL, NOW | {"name": "evil\u202etxt.exe\u200b\u200b"})
    hint = block(view, "f:name")["hint"]["text"]
    assert "⟨U+202E⟩ × 1" in hint
    assert "⟨U+200B⟩ × 2" in hint


class Aliased(BaseModel):
    """Other names outside than inside."""

    model_config = ConfigDict(extra="forbid")

    note: str = Field(default="", validation_alias=AliasChoices("n1", "n2"), pattern="^[a-z]*$")
    order: Annotated[int, Field(alias="orderId", lt=100)]

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def double(self) -> int:
        return self.order * 2


@pytest.mark.parametrize("by_alias", [False, True])
def test_aliases_name_the_fields(by_alias: bool) -> None:
    """Aliased fields are read, validated and blamed by either name.

    Computed ones are left alone.
    """
    model = type("Outside", (Aliased,), {"model_config": ConfigDict(serialize_by_alias=by_alias)})
    tool = tool_for(model)
    now = dumped(model(orderId=7))
    assert ("orderId" in now) == by_alias
    assert edited(tool, now, note="abc") == {"note": "abc"}
    assert errors(tool, now, note="ABC").keys() == {"f:note"}
    assert errors(tool, now, order="100").keys() == {"f:order"}
    assert [value.label for value in list_argument_values(tool, now)] == ["Note", "Order"]


class Node(BaseModel):
    """A model within itself."""

    name: str
    parent: Node | None = None
    children: list[Node] = []

    @field_validator("name")
    @classmethod
    def _wordy(cls, name: str) -> str:
        if name == "long":
            raise ValueError("the reason is this: " + "because " * 40)
        return name


def test_a_model_within_itself() -> None:
    """Recursion ends after one level, and below it is JSON.

    Errors from down there arrive where they belong.
    """
    tool, now = tool_for(Node), dumped(Node(name="a", parent=Node(name="b")))
    assert edited(tool, now, parent__name="c")["parent"] == {
        "name": "c",
        "parent": None,
        "children": [],
    }
    found = errors(tool, now, parent__children='[{"name": "x", "children": [{}]}]', name="long")
    assert found["f:parent.children"] == "At 1 › children › 1 › name: A value is needed here."
    assert found["f:name"].startswith("The reason is this: because")
    assert found["f:name"].endswith("…")


def test_values_that_fit_no_widget() -> None:
    """A value that the input of its kind would not take stands in one that does."""

    class Odd(BaseModel):
        email: EmailStr = "ü@example.com"
        anything: Any = None
        precise: Decimal = Decimal("0.12345678901234567890")
        when: str = Field(default="soon", json_schema_extra={"format": "date"})

    tool, now = tool_for(Odd), dumped(Odd())
    assert {element(tool, now, f"f:{name}")["type"] for name in now} == {"plain_text_input"}
    assert edited(tool, now, anything="[1]") == {"anything": [1]}


def test_a_missing_key_stays_missing_until_given() -> None:
    """Arguments stored before a field was added take the model's default, not an empty value."""
    tool = tool_for(Address)
    assert submit(tool, {"city": "Bonn"}) == ParsedEdit(
        {"city": "Bonn"}, changed=False, approve=False
    )
    assert edited(tool, {"city": "Bonn"}, city="Berlin") == {
        "city": "Berlin",
        "zip_code": None,
        "country": "DE",
    }


def test_nothing_to_edit_is_no_error() -> None:
    """A modal without inputs still opens and changes nothing."""
    tool = tool_for(Address, editable=frozenset())
    view = render_edit_dialog(
        tool, {"city": "Bonn"}, target=CallTarget("c", 1), save_and_approve=False
    )
    assert not any(b["type"] == "input" for b in view["blocks"])
    assert not isinstance(parse_edit_submission(tool, {"city": "Bonn"}, {}), FieldErrors)


def test_a_text_that_has_to_be_given_is_not_called_optional() -> None:
    """Not while it is given; one that is empty may stay so, and one with a default be emptied."""

    class Command(BaseModel):
        command: str
        note: str = ""

    def optional(**arguments: str) -> list[bool]:
        view = view_of(tool_for(Command), arguments)
        return [block(view, f"f:{name}")["optional"] for name in ("command", "note")]

    assert optional(command="ls", note="for Ana") == [False, True]
    assert optional(command="", note="") == [True, True]
