"""Forms in which people ask for a tool: what they show, what is required, how they are read."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, Field

from bot.cards.button_codec import (
    DialogSubject,
    FormContext,
    FormSource,
    FormTarget,
    decode_dialog_subject,
)
from bot.cards.field_layout import FieldErrors
from bot.cards.request_form import (
    MAX_MENU_OPTIONS,
    MAX_QUOTE_CHARS,
    CompletedRequestForm,
    RequestForm,
    RequestFormChoice,
    build_default_values,
    can_ask_with_form,
    list_template_value_problems,
    parse_form_submission,
    prefill_with_message_text,
    render_request_form_dialog,
    render_request_picker_dialog,
)
from bot.tools import Effect, Tool, ToolContext, tool
from slack_sandbox.blockkit import blocks as checker


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    city: str = Field(title="City")
    floor: int | None = None


class Order(BaseModel):
    what: str = Field(title="What", max_length=80)
    amount: Decimal = Field(title="Amount", gt=0)
    size: Size = Size.LARGE
    gift: bool = False
    wanted: bool
    to: Address
    bill_to: Address | None = None
    when: date | None
    notes: str = Field("", title="Notes", max_length=2000)
    pin: str | None = Field(None, title="Pin")


@tool(title="Order something", effect="Order {what}", does=Effect.WRITE, secret={"pin"})
def order(args: Order, context: ToolContext) -> str:
    return args.what


TARGET = FormTarget(FormSource.TOOL, "order", FormContext("C0SUPPORT"))
FILLED: dict[str, Any] = {
    "f:what": {"v": {"value": "a chair"}},
    "f:amount": {"v": {"value": "12.50"}},
    "f:wanted": {"v": {"selected_option": {"value": "yes"}}},
    "f:to.city": {"v": {"value": "Basel"}},
    "f:size": {"v": {"selected_option": {"value": "large"}}},
    "f:gift": {"v": {"selected_option": {"value": "no"}}},
    "f:bill_to": {"v": {"selected_option": {"value": "no"}}},
    "why": {"text": {"value": " we sit on the floor "}},
}


def make_form(of: Tool[Any] = order, **fixed: Any) -> RequestForm:
    """Make a new form of a tool."""
    return RequestForm(of, of.title, {**build_default_values(of), **fixed}, frozenset(fixed))


def map_inputs(view: dict[str, Any]) -> dict[str, bool]:
    """Map the inputs of a form to whether they may be left empty."""
    return {b["block_id"]: b["optional"] for b in view["blocks"] if b["type"] == "input"}


def test_only_fields_without_a_default_are_required() -> None:
    """A choice and yes or no always have a value. The form does not ask for a secret."""
    view = render_request_form_dialog(make_form(), TARGET)
    assert checker.check_view(view) == []
    found = map_inputs(view)
    needed = {"f:what", "f:amount", "f:wanted", "f:to.city", "f:size", "f:gift", "f:bill_to"}
    assert {name for name, optional in found.items() if not optional} == needed
    assert not [each for each in found if "pin" in each]
    assert "Pin" not in str(view)


def test_a_filled_in_form_is_read_with_its_defaults() -> None:
    """The words for the approver are read as well."""
    filled = parse_form_submission(make_form(), FILLED)
    assert isinstance(filled, CompletedRequestForm)
    assert filled.reason == "we sit on the floor"
    args = filled.arguments
    assert isinstance(args, Order)
    assert (args.what, args.amount, args.size, args.to.city, args.wanted, args.when) == (
        "a chair",
        Decimal("12.50"),
        Size.LARGE,
        "Basel",
        True,
        None,
    )


def test_an_untouched_form_has_errors_at_its_required_fields() -> None:
    """Slack submits nothing for it."""
    found = parse_form_submission(make_form(), {})
    assert isinstance(found, FieldErrors)
    assert found.errors["f:what"] == "A value is needed here."
    assert found.errors["f:to.city"] == "A value is needed here."


def test_a_fixed_field_is_text_and_cannot_be_changed() -> None:
    """A value that is submitted for it all the same is ignored."""
    made = make_form(what="a lamp")
    view = render_request_form_dialog(made, TARGET)
    assert "f:what" not in map_inputs(view)
    assert "a lamp" in str(view["blocks"])
    filled = parse_form_submission(made, FILLED)
    assert isinstance(filled, CompletedRequestForm)
    assert filled.values["what"] == "a lamp"


def test_a_messages_text_prefills_the_one_free_text_field() -> None:
    """The field is required. A text that is too long for it, or blank, is not used."""
    assert (
        prefill_with_message_text(order, build_default_values(order), "a chair for two")["what"]
        == "a chair for two"
    )
    long = "a chair " * 20
    assert "what" not in prefill_with_message_text(order, build_default_values(order), long)
    assert prefill_with_message_text(
        order, build_default_values(order), " "
    ) == build_default_values(order)


class Sealed(BaseModel):
    password: str


@tool(title="Log in", effect="Log in", does=Effect.WRITE, secret={"password"})
def log_in(args: Sealed, context: ToolContext) -> str:
    return "in"


def test_a_tool_that_needs_a_secret_has_no_form() -> None:
    """A tool with an optional secret has one."""
    assert can_ask_with_form(order)
    assert not can_ask_with_form(log_in)


@pytest.mark.parametrize(
    ("fixed", "wrong"),
    [
        ({"what": "x", "size": "small"}, []),
        ({"wat": 1}, ["order has no field 'wat'"]),
        ({"amount": "-1"}, ["amount: input should be greater than 0"]),
        ({"pin": "1"}, ["pin is secret, so no form may contain it"]),
    ],
)
def test_a_template_with_unknown_or_wrong_values_has_problems(
    fixed: dict[str, Any], wrong: list[str]
) -> None:
    """Each is named; other fields may be missing."""
    assert list_template_value_problems(order, fixed) == wrong


def test_any_quoted_message_fits_the_metadata() -> None:
    """Slack accepts the dialogs, and the target is read as it was written."""
    quoted = '\U0001f600\u202e"\\\n' * MAX_QUOTE_CHARS
    target = FormTarget(
        FormSource.TEMPLATE,
        "é" * 60,
        FormContext("C0SUPPORT", quoted[:MAX_QUOTE_CHARS], "https://x/" * 20),
    )
    for view in (
        render_request_form_dialog(make_form(), target),
        render_request_picker_dialog([CHOICE], target.form_context),
    ):
        assert len(view["private_metadata"]) <= 3000
        assert checker.check_view(view) == []
    found = decode_dialog_subject(render_request_form_dialog(make_form(), target))
    assert isinstance(found, DialogSubject)
    assert found.target == target


CHOICE = RequestFormChoice(FormSource.TOOL, "order", "Order something", "write")


def test_a_picker_counts_the_tools_that_do_not_fit() -> None:
    """Slack's menus have a maximum number of options."""
    choices = [
        RequestFormChoice(FormSource.TOOL, f"t{n}", f"{n} " + "x" * 90, "read")
        for n in range(MAX_MENU_OPTIONS + 7)
    ]
    view = render_request_picker_dialog(choices, FormContext())
    assert checker.check_view(view) == []
    assert "There are 7 more" in str(view)
