"""Argument models whose own code fails: no request and no entered value is lost."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Json,
    PlainSerializer,
    field_serializer,
    field_validator,
)

from bot.tools import Effect, ToolContext, tool
from storage.states import CallStatus, RunStatus
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import arrived, ask, open_modal, typed


class Odd(BaseModel):
    """Validators raise errors Pydantic does not catch, and a serializer writes another value."""

    amount: str = "1"
    near: dict[str, str] = {}

    @field_validator("amount")
    @classmethod
    def is_number(cls, value: str) -> str:
        return str(Decimal(value))

    @field_validator("near")
    @classmethod
    def has_city(cls, value: dict[str, str]) -> dict[str, str]:
        return value if not value or value["city"] else {}

    @field_serializer("amount")
    def write(self, value: str) -> str:
        return "thirteen" if value == "13" else value


class Package(BaseModel):
    """Bytes that are no text, and JSON within JSON: both are written otherwise than read."""

    model_config = ConfigDict(val_json_bytes="base64")
    data: bytes = b""
    inner: Json[list[int]] | None = None


class Fee(BaseModel):
    """Each value changes when it is read or written."""

    model_config = ConfigDict(validate_default=True)
    fee: Annotated[int, AfterValidator(lambda value: value * 2)] = 0
    tip: Annotated[int, PlainSerializer(lambda value: value * 100)] = 0
    most: Annotated[int, AfterValidator(lambda value: value - (value > 100))] = 0


@tool(title="Charge a fee", effect="Charge {fee} and {tip}, {most} at most", does=Effect.WRITE)
def charge_fee(args: Fee, context: ToolContext) -> str:
    """Charge a fee."""
    return repr(args)


@tool(title="Pay oddly", effect="Pay {amount}", does=Effect.WRITE)
def pay_oddly(args: Odd, context: ToolContext) -> str:
    """Pay an amount."""
    return args.amount


@tool(title="Store a package", effect="Store it", does=Effect.WRITE)
def store_package(args: Package, context: ToolContext) -> str:
    """Store a package."""
    return repr(args)


TOOLS = [pay_oddly, store_package, charge_fee]
OTHER = "the tool reads back other values than it writes"
FAILED = "the tool's own check of these values failed ({})"


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (("pay_oddly", {"amount": "abc"}), FAILED.format("InvalidOperation")),
        (("pay_oddly", {"near": {"town": "Bonn"}}), FAILED.format("KeyError")),
        (("pay_oddly", {"amount": "13"}), FAILED.format("InvalidOperation")),
        (("store_package", {"data": "3q2+7w=="}), "bytes have to be text in UTF-8"),
        (("store_package", {"data": "aGk="}), "data: "),
        (("store_package", {"inner": "[1, 2]"}), "inner: JSON input should be"),
        (("charge_fee", {"fee": 5}), OTHER),
        (("charge_fee", {"tip": 1}), OTHER),
        (("charge_fee", {"most": 500}), OTHER),
    ],
)
def test_a_call_that_cannot_be_checked_is_refused(
    harness: Harness, call: tuple[str, Any], why: str
) -> None:
    """The model is told why, and the request goes on."""
    thread = ask(harness, call)
    arrived(harness)
    [refused] = harness.calls_in(thread)
    assert refused.status is CallStatus.REFUSED
    assert refused.output.startswith("INVALID ARGUMENTS")
    assert why in refused.output
    assert harness.run_in(thread).status is RunStatus.COMPLETED


def test_an_edit_that_cannot_be_checked_keeps_the_dialog_open(harness: Harness) -> None:
    """The dialog shows the error; a better value is then saved."""
    thread = ask(harness, ("pay_oddly", {"amount": "12"}))
    arrived(harness)
    open_modal(harness, "ben", SUPPORT, harness.card(SUPPORT, thread), "edit")
    person = harness.person("ben")
    for wrong, why in (
        ("abc", "The tool's own check of these values failed (InvalidOperation)."),
        ("13", "The tool cannot read these values again once they are stored."),
    ):
        sent = person.submit(typed(amount=wrong))
        assert why in str(sent) + str(person.view())
    assert person.submit(typed(amount="14"))["outcome"] == "closed"
    harness.said(SUPPORT, thread, "Amount: 12 → 14")


def test_an_edit_that_would_be_read_otherwise_keeps_the_dialog_open(harness: Harness) -> None:
    """What would run is what people see, or it is not saved."""
    thread = ask(harness, ("charge_fee", {"most": 99}))
    arrived(harness)
    open_modal(harness, "ben", SUPPORT, harness.card(SUPPORT, thread), "edit")
    person = harness.person("ben")
    sent = person.submit(typed(most="500"))
    assert "cannot read these values again" in str(sent) + str(person.view())
    assert person.submit(typed(most="98"))["outcome"] == "closed"
