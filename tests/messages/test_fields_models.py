"""The Edit dialog of unusual models: rules, secrets, names, values that fit no input."""

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
    dump,
    edit,
    fill_in,
    find_block,
    find_element,
    list_errors,
    make_tool,
    render_view,
    submit,
)

TOOL = make_tool(Everything, secret=frozenset({"token"}))
NOW = dump(Everything(name="Ana"))


class Range(BaseModel):
    """A model with a rule across fields, and one for a field that nobody may edit."""

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


def test_an_error_without_an_input_is_about_the_whole_form() -> None:
    """It comes from a rule of the model, or is about a value that has no input.

    If there is only one input, the error is shown there.
    """
    tool = make_tool(Range, editable=frozenset({"low", "high"}))
    now = dump(Range())
    assert list_errors(tool, now, low="3") == {"": "Low must not be above high."}
    assert list_errors(tool, now, high="99") == {"": "Hidden: Ok does not go with 99."}
    one = make_tool(Range, editable=frozenset({"high"}))
    assert list_errors(one, now, high="0") == {"f:high": "Low must not be above high."}


def test_an_error_about_a_secret_does_not_repeat_the_validator() -> None:
    """The validator's words contain the secret."""
    tool = make_tool(Range, secret=frozenset({"hidden"}))
    assert list_errors(tool, dump(Range(hidden="pass")), high="99") == {
        "": "Hidden: This is not valid."
    }


def test_forged_input_for_fixed_and_secret_values_is_ignored() -> None:
    """The dialog has no inputs for them."""
    tool = make_tool(Everything, secret=frozenset({"token"}), editable=frozenset({"name", "token"}))
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


def test_secrets_are_kept_by_an_edit_of_something_else() -> None:
    """One is secret by the tool's settings, one by its type."""
    parsed = submit(TOOL, NOW | {"password": "hunter22"}, name="Ben")
    assert isinstance(parsed, ParsedEdit)
    assert (parsed.arguments["token"], parsed.arguments["password"]) == ("s3cret-value", "hunter22")


def test_save_and_approve_is_a_checkbox() -> None:
    """It is shown only where it may count, starts empty, and is read when ticked."""
    assert not any(b.get("block_id") == "then" for b in render_view(TOOL, NOW)["blocks"])
    view = render_view(TOOL, NOW, approve=True)
    assert "initial_options" not in find_block(view, "then")["element"]
    parsed = parse_edit_submission(TOOL, NOW, fill_in(view, then=["approve"], name="Ben"))
    assert isinstance(parsed, ParsedEdit)
    assert parsed.approve
    assert parsed.changed


def test_titles_descriptions_and_lengths_become_those_of_inputs() -> None:
    """A field of more than 150 characters has several lines."""

    class Worded(BaseModel):
        order_id: str = Field(min_length=2, max_length=10)
        note: str = Field(
            default="", title="Note for <Ana>", description="Said to & about her", max_length=151
        )
        told: list[str] = Field(default=[], description="Who hears it")

    view = render_view(make_tool(Worded), {"order_id": "12", "note": "", "told": ["x"]})
    order, note = find_block(view, "f:order_id"), find_block(view, "f:note")
    assert (order["label"]["text"], note["label"]["text"]) == ("Order id", "Note for <Ana>")
    assert note["hint"]["text"] == "Said to & about her"
    assert find_block(view, "f:told")["hint"]["text"].startswith("Who hears it. One per line.")
    assert (order["element"]["min_length"], order["element"]["max_length"]) == (2, 10)
    assert (order["optional"], note["optional"]) == (False, True)
    assert (order["element"]["multiline"], note["element"]["multiline"]) == (False, True)
    assert find_element(make_tool(Worded), {"order_id": "z\nz", "note": ""}, "f:order_id")[
        "multiline"
    ]
    # Slack counts four ampersands as twenty characters, but the model accepts them.
    assert "max_length" not in find_element(
        make_tool(Worded), {"order_id": "&&&&", "note": ""}, "f:order_id"
    )


@pytest.mark.parametrize(("now", "told"), [(None, False), ("call back", False), ("", True)])
def test_the_hint_about_empty_text_is_shown_only_for_an_empty_text(
    now: str | None, told: bool
) -> None:
    """It says how to write an empty text."""
    hint = find_block(render_view(TOOL, NOW | {"note": now}), "f:note")["hint"]["text"]
    assert hint.startswith("Leave it empty for none")
    assert ('write "" for an empty text' in hint) == told


def test_hidden_characters_of_a_value_are_listed_in_the_hint() -> None:
    """The input itself cannot show them."""
    view = render_view(TOOL, NOW | {"name": "evil\u202etxt.exe\u200b\u200b"})
    hint = find_block(view, "f:name")["hint"]["text"]
    assert "⟨U+202E⟩ × 1" in hint
    assert "⟨U+200B⟩ × 2" in hint


class Aliased(BaseModel):
    """A model whose fields have other names outside."""

    model_config = ConfigDict(extra="forbid")

    note: str = Field(default="", validation_alias=AliasChoices("n1", "n2"), pattern="^[a-z]*$")
    order: Annotated[int, Field(alias="orderId", lt=100)]

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def double(self) -> int:
        return self.order * 2


@pytest.mark.parametrize("by_alias", [False, True])
def test_fields_with_aliases_can_be_edited(by_alias: bool) -> None:
    """They are read and validated by either name; computed fields are left alone."""
    model = type("Outside", (Aliased,), {"model_config": ConfigDict(serialize_by_alias=by_alias)})
    tool = make_tool(model)
    now = dump(model(orderId=7))
    assert ("orderId" in now) == by_alias
    assert edit(tool, now, note="abc") == {"note": "abc"}
    assert list_errors(tool, now, note="ABC").keys() == {"f:note"}
    assert list_errors(tool, now, order="100").keys() == {"f:order"}
    assert [value.label for value in list_argument_values(tool, now)] == ["Note", "Order"]


class Node(BaseModel):
    """A model that contains itself."""

    name: str
    parent: Node | None = None
    children: list[Node] = []

    @field_validator("name")
    @classmethod
    def _wordy(cls, name: str) -> str:
        if name == "long":
            raise ValueError("the reason is this: " + "because " * 40)
        return name


def test_a_recursive_model_is_edited_as_json_below_one_level() -> None:
    """Errors below that level are shown at the input with the JSON."""
    tool, now = make_tool(Node), dump(Node(name="a", parent=Node(name="b")))
    assert edit(tool, now, parent__name="c")["parent"] == {
        "name": "c",
        "parent": None,
        "children": [],
    }
    found = list_errors(
        tool, now, parent__children='[{"name": "x", "children": [{}]}]', name="long"
    )
    assert found["f:parent.children"] == "At 1 › children › 1 › name: A value is needed here."
    assert found["f:name"].startswith("The reason is this: because")
    assert found["f:name"].endswith("…")


def test_a_value_that_its_usual_input_refuses_is_a_text() -> None:
    """It is typed into a plain text input."""

    class Odd(BaseModel):
        email: EmailStr = "ü@example.com"
        anything: Any = None
        precise: Decimal = Decimal("0.12345678901234567890")
        when: str = Field(default="soon", json_schema_extra={"format": "date"})

    tool, now = make_tool(Odd), dump(Odd())
    assert {find_element(tool, now, f"f:{name}")["type"] for name in now} == {"plain_text_input"}
    assert edit(tool, now, anything="[1]") == {"anything": [1]}


def test_missing_arguments_take_defaults_only_when_something_is_edited() -> None:
    """They were stored before the fields were added; they do not become empty values."""
    tool = make_tool(Address)
    assert submit(tool, {"city": "Bonn"}) == ParsedEdit(
        {"city": "Bonn"}, changed=False, approve=False
    )
    assert edit(tool, {"city": "Bonn"}, city="Berlin") == {
        "city": "Berlin",
        "zip_code": None,
        "country": "DE",
    }


def test_a_dialog_without_inputs_opens_and_changes_nothing() -> None:
    """No field of the tool may be edited."""
    tool = make_tool(Address, editable=frozenset())
    view = render_edit_dialog(
        tool, {"city": "Bonn"}, target=CallTarget("c", 1), save_and_approve=False
    )
    assert not any(b["type"] == "input" for b in view["blocks"])
    assert not isinstance(parse_edit_submission(tool, {"city": "Bonn"}, {}), FieldErrors)


def test_a_required_text_is_optional_only_while_it_is_empty() -> None:
    """An empty text may stay empty; a text with a default may be emptied."""

    class Command(BaseModel):
        command: str
        note: str = ""

    def list_optional(**arguments: str) -> list[bool]:
        view = render_view(make_tool(Command), arguments)
        return [find_block(view, f"f:{name}")["optional"] for name in ("command", "note")]

    assert list_optional(command="ls", note="for Ana") == [False, True]
    assert list_optional(command="", note="") == [True, True]
