"""Spending limits over a time: which payments count in the sum, and when calls are asked."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field

from bot.demo.model_server import Turn
from bot.tools import Effect, Tool, ToolContext, ToolError, tool
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import action_ids, words
from tests.stories.steps import arrived, ask, reject

C = CallStatus
DAY = 86_400
UNLIMITED = """
[defaults]
approvers = ["@shop-leads"]

[[rule]]
name = "small"
tool = "pay"
verdict = "allow"
"""
LIMIT = """
[[rule]]
name = "large days"
tool = "pay"
when = 'spent("pay", "amount", "24h") + args.amount > 500.0'
verdict = "ask"
deadline = "4h"
"""
POLICY = UNLIMITED.replace("\n[[rule]]", LIMIT + "\n[[rule]]", 1)


class Amount(BaseModel):
    amount: Decimal = Field(title="Amount", max_digits=8, decimal_places=2)
    how: str = Field("well", title="How it goes")


def build_pay_tool(paid: list[Decimal]) -> Tool[Any]:
    """Build a payment tool that fails, or loses its outcome, if the arguments say so."""

    @tool(title="Pay", effect="Pay {amount}", does=Effect.WRITE)
    def pay(args: Amount, context: ToolContext) -> str:
        if args.how == "refused":
            raise ToolError("the bank says no")
        paid.append(args.amount)
        if args.how == "lost":
            raise ConnectionResetError("the line went dead")
        if args.how == "broken":
            raise RuntimeError("the receipt could not be printed")
        return f"paid {args.amount}"

    return pay


@pytest.fixture(scope="module")
def paying_bot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, list[Decimal]]]:
    """A bot that pays up to 500 a day without asking, and its payments."""
    paid: list[Decimal] = []
    harness = Harness(
        tmp_path_factory.mktemp("spending"), [build_pay_tool(paid), *FakeTools().tools], POLICY
    )
    yield harness, paid
    harness.close()


@pytest.fixture
def harness(paying_bot: tuple[Harness, list[Decimal]]) -> Iterator[Harness]:
    """The module's bot, on a day without earlier payments."""
    harness, paid = paying_bot
    paid.clear()
    yield harness
    harness.reset()
    if harness.policy != POLICY:
        harness.policy = POLICY
        harness.restart()
    harness.clock.advance(91 * DAY)


@pytest.fixture
def paid(paying_bot: tuple[Harness, list[Decimal]]) -> list[Decimal]:
    """The payments of this story, in order."""
    return paying_bot[1]


def request_payments(harness: Harness, *amounts: str, how: str = "well", who: str = "ben") -> str:
    """Have someone request these payments in one plan; return the thread."""
    return ask(harness, *(("pay", {"amount": amount, "how": how}) for amount in amounts), who=who)


def wait_for_end(harness: Harness, thread: str, who: str = "ben") -> list[CallStatus]:
    """Wait for the agent's answer, and return the statuses of the thread's calls."""
    harness.said(SUPPORT, thread, "That is all.", who)
    harness.settle()
    return [call.status for call in harness.calls_in(thread)]


def script_answer(harness: Harness) -> None:
    """Script the agent's answer that it is done."""
    harness.planner.script(Turn(text="That is all."))


def approve(harness: Harness, thread: str) -> None:
    """Have a shop lead approve the first call on the thread's card."""
    script_answer(harness)
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    arrived(harness)


def wait_for_card(harness: Harness, thread: str) -> list[CallStatus]:
    """Wait for a card, drop the scripted answer, and return the statuses of the thread's calls."""
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.planner.clear_script()
    return [call.status for call in harness.calls_in(thread)]


def test_splitting_an_amount_keeps_to_the_limit(harness: Harness, paid: list[Decimal]) -> None:
    """200, 200 and 100 run without asking; one cent more is asked."""
    for amount in ("200.00", "200.00", "100.00"):
        assert wait_for_end(harness, request_payments(harness, amount)) == [C.SUCCEEDED]
    thread = request_payments(harness, "0.01")
    assert wait_for_card(harness, thread) == [C.PENDING]
    assert sum(paid) == 500
    approve(harness, thread)
    assert wait_for_end(harness, thread) == [C.SUCCEEDED]
    assert sum(paid) == Decimal("500.01")


def test_calls_of_one_plan_count_together(harness: Harness, paid: list[Decimal]) -> None:
    """Of three payments of 200 two are allowed, the third is asked, and none runs before that."""
    thread = request_payments(harness, "200.00", "200.00", "200.00")
    assert wait_for_card(harness, thread) == [C.APPROVED, C.APPROVED, C.PENDING]
    assert paid == []
    approve(harness, thread)
    assert wait_for_end(harness, thread) == [C.SUCCEEDED] * 3
    assert sum(paid) == 600


def test_the_sum_counts_calls_of_all_threads(harness: Harness, paid: list[Decimal]) -> None:
    """Also waiting calls; another requester has a sum of their own."""
    first = request_payments(harness, "600.00")
    assert wait_for_card(harness, first) == [C.PENDING]
    second = request_payments(harness, "1.00")
    assert wait_for_card(harness, second) == [C.PENDING]
    assert wait_for_end(harness, request_payments(harness, "500.00", who="dan"), "dan") == [
        C.SUCCEEDED
    ]
    assert paid == [500]


def test_a_payment_counts_for_one_day(harness: Harness, paid: list[Decimal]) -> None:
    """A minute before the day is over it still counts."""
    assert wait_for_end(harness, request_payments(harness, "450.00")) == [C.SUCCEEDED]
    harness.clock.advance(DAY - 60)
    assert wait_for_card(harness, request_payments(harness, "100.00")) == [C.PENDING]
    harness.reset()
    harness.clock.advance(61)
    assert wait_for_end(harness, request_payments(harness, "100.00")) == [C.SUCCEEDED]
    assert paid == [450, 100]


def test_payments_that_did_not_happen_do_not_count(harness: Harness, paid: list[Decimal]) -> None:
    """After a refused, a rejected and an expired one the whole limit can be paid."""
    assert wait_for_end(harness, request_payments(harness, "400.00", how="refused")) == [C.FAILED]
    thread = request_payments(harness, "600.00")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "too much")
    assert wait_for_end(harness, thread) == [C.REJECTED]
    thread = request_payments(harness, "700.00")
    assert wait_for_card(harness, thread) == [C.PENDING]
    script_answer(harness)
    harness.clock.advance(4 * 3600 + 1)
    assert wait_for_end(harness, thread) == [C.EXPIRED]
    assert wait_for_end(harness, request_payments(harness, "500.00")) == [C.SUCCEEDED]
    assert paid == [500]


def test_a_payment_with_unknown_outcome_counts(harness: Harness, paid: list[Decimal]) -> None:
    """It counts as if it had happened, also when nobody resolves it in time."""
    thread = request_payments(harness, "400.00", how="lost")
    harness.slack.wait(lambda: [call.status for call in harness.calls_in(thread)] == [C.UNKNOWN])
    harness.planner.clear_script()
    assert wait_for_card(harness, request_payments(harness, "101.00")) == [C.PENDING]
    script_answer(harness)
    harness.clock.advance(2 * 3600)
    assert wait_for_end(harness, thread) == [C.UNKNOWN]
    assert wait_for_card(harness, request_payments(harness, "100.01")) == [C.PENDING]
    assert paid == [400]


def test_a_payment_failed_after_its_effect_counts(harness: Harness, paid: list[Decimal]) -> None:
    """Only failures that the tool itself raises as a refusal are left out of the sum."""
    assert wait_for_end(harness, request_payments(harness, "400.00", how="broken")) == [C.FAILED]
    assert wait_for_card(harness, request_payments(harness, "100.01")) == [C.PENDING]
    harness.reset()
    harness.clock.advance(DAY)
    assert wait_for_end(harness, request_payments(harness, "500.00")) == [C.SUCCEEDED]
    assert paid == [400, 500]


def wait_for_lost_payments(harness: Harness, thread: str, number: int) -> str:
    """Wait until this many payments of the thread are lost; return the card that asks about it."""

    def count_lost() -> int:
        return sum(harness.audit_of(c).count("call.unknown") for c in harness.calls_in(thread))

    harness.slack.wait(lambda: count_lost() == number)
    harness.settle()  # before this the card may be about the earlier loss
    return str(harness.card(SUPPORT, thread, "ben", having="resolve_not_done")["ts"])


def test_the_requester_cannot_free_a_lost_payment(harness: Harness, paid: list[Decimal]) -> None:
    """Ben has a lost payment run again, then says that it did not happen: both count."""
    thread = request_payments(harness, "200.00", how="lost")
    card = wait_for_lost_payments(harness, thread, 1)
    harness.person("ben").click(SUPPORT, card, "run_again")
    card = wait_for_lost_payments(harness, thread, 2)
    harness.person("ben").click(SUPPORT, card, "resolve_not_done")
    assert wait_for_end(harness, thread) == [C.FAILED]
    assert wait_for_card(harness, request_payments(harness, "100.01")) == [C.PENDING]
    assert paid == [200, 200]


def test_a_payment_an_approver_says_did_not_happen_does_not_count(
    harness: Harness, paid: list[Decimal]
) -> None:
    """Its outcome was unknown before."""
    thread = request_payments(harness, "600.00", how="lost")
    assert wait_for_card(harness, thread) == [C.PENDING]
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    card = wait_for_lost_payments(harness, thread, 1)
    script_answer(harness)
    harness.person("ana").click(SUPPORT, card, "resolve_not_done")
    assert wait_for_end(harness, thread) == [C.FAILED]
    assert wait_for_end(harness, request_payments(harness, "500.00")) == [C.SUCCEEDED]


def test_the_limit_is_checked_again_when_allowed_calls_start(
    harness: Harness, paid: list[Decimal]
) -> None:
    """Two payments, allowed under an older policy, wait for the other calls of their plans.

    The younger one is asked again, though it is to start first.
    """
    harness.policy = UNLIMITED
    harness.restart()
    threads = []
    for _ in range(2):
        threads.append(
            ask(harness, ("pay", {"amount": "300.00"}), ("note", {"text": "first this"}))
        )
        assert wait_for_card(harness, threads[-1]) == [C.APPROVED, C.PENDING]
    harness.policy = POLICY
    harness.restart()
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, threads[1])["ts"], "approve")
    harness.said(SUPPORT, threads[1], "what the policy says about this has changed since")
    harness.settle()
    assert [call.status for call in harness.calls_in(threads[1])] == [C.PENDING, C.APPROVED]
    approve(harness, threads[0])
    assert wait_for_end(harness, threads[0]) == [C.SUCCEEDED] * 2
    assert paid == [300]
    [new_card] = [m for m in harness.thread(SUPPORT, threads[1]) if "approve" in action_ids(m)]
    assert "asks to pay 300" in words(new_card)
    script_answer(harness)
    harness.person("ana").click(SUPPORT, new_card["ts"], "approve")
    assert wait_for_end(harness, threads[1]) == [C.SUCCEEDED] * 2
    assert paid == [300, 300]
