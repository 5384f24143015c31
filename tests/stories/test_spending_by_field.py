"""Spending limits for each currency and each customer, over all requesters."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field

from bot.tools import Effect, Tool, ToolContext, tool
from storage.states import CallStatus
from tests.stories.harness import Harness
from tests.stories.steps import ask

C = CallStatus
POLICY = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "the currency's day is full"
tool = "pay"
when = 'spent("pay", "amount", "24h", "same currency", "by anyone") + args.amount > 100.0'
verdict = "ask"

[[rule]]
name = "the third for a customer"
tool = "pay"
when = 'count("pay", "7d", "same customer", "by anyone") >= 2'
verdict = "ask"

[[rule]]
tool = "pay"
verdict = "allow"
"""


class Payment(BaseModel):
    amount: Decimal = Field(title="Amount", max_digits=8, decimal_places=2)
    currency: str = Field("EUR", title="Currency", pattern="^[A-Z]{3}$")
    customer: int | None = Field(None, title="Customer")


def build_pay_tool() -> Tool[Any]:
    """Build a payment tool that always succeeds."""

    @tool(title="Pay", effect="Pay {amount} {currency}", does=Effect.WRITE)
    def pay(args: Payment, context: ToolContext) -> str:
        return "paid"

    return pay


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot that pays up to 100 a day in each currency, and twice for each customer."""
    return own_harness([build_pay_tool()], POLICY)


def request_payment(harness: Harness, who: str, amount: str, **fields: Any) -> CallStatus:
    """Have someone request a payment; return its status once the bot is at rest."""
    harness.planner.clear_script()
    thread = ask(harness, ("pay", {"amount": amount, **fields}), who=who)
    harness.slack.wait(lambda: harness.calls_in(thread))
    harness.settle()
    [call] = harness.calls_in(thread)
    return call.status


def test_each_currency_has_its_own_limit(harness: Harness) -> None:
    """Payments of different requesters count together."""
    assert request_payment(harness, "ben", "80.00", customer=1) is C.SUCCEEDED
    assert request_payment(harness, "dan", "70.00", customer=2, currency="USD") is C.SUCCEEDED
    assert request_payment(harness, "dan", "21.00", customer=3) is C.PENDING
    assert request_payment(harness, "ben", "30.00", customer=4, currency="USD") is C.SUCCEEDED
    assert request_payment(harness, "ben", "0.01", customer=5, currency="USD") is C.PENDING


def test_payments_are_counted_for_each_customer(harness: Harness) -> None:
    """The third payment for one customer is asked; different people requested the others."""
    assert request_payment(harness, "ben", "1.00", customer=1) is C.SUCCEEDED
    assert request_payment(harness, "dan", "1.00", customer=1) is C.SUCCEEDED
    assert request_payment(harness, "cleo", "1.00", customer=2) is C.SUCCEEDED
    assert request_payment(harness, "cleo", "1.00", customer=1) is C.PENDING


def test_a_payment_without_a_customer_is_asked(harness: Harness) -> None:
    """The condition about the customer cannot be evaluated, so the call is not allowed."""
    assert request_payment(harness, "ben", "1.00") is C.PENDING
