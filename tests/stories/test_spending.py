"""Limits over a time: splitting an amount does not slip under them, whatever is open."""

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


def pay_tool(paid: list[Decimal]) -> Tool[Any]:
    """A payment that fails, or is lost, when told so."""

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
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, list[Decimal]]]:
    """A bot where up to 500 a day are paid unasked."""
    paid: list[Decimal] = []
    harness = Harness(
        tmp_path_factory.mktemp("spending"), [pay_tool(paid), *FakeTools().tools], POLICY
    )
    yield harness, paid
    harness.close()


@pytest.fixture
def harness(made: tuple[Harness, list[Decimal]]) -> Iterator[Harness]:
    """It, at rest, on a day of its own."""
    harness, paid = made
    paid.clear()
    yield harness
    harness.reset()
    if harness.policy != POLICY:
        harness.policy = POLICY
        harness.restart()
    harness.clock.advance(91 * DAY)


@pytest.fixture
def paid(made: tuple[Harness, list[Decimal]]) -> list[Decimal]:
    """What was paid in this story, in order."""
    return made[1]


def pay(harness: Harness, *amounts: str, how: str = "well", who: str = "ben") -> str:
    """Someone has the agent pay these amounts in one plan; returns the thread."""
    return ask(harness, *(("pay", {"amount": amount, "how": how}) for amount in amounts), who=who)


def done(harness: Harness, thread: str, who: str = "ben") -> list[CallStatus]:
    """How its calls ended, once the agent has answered."""
    harness.said(SUPPORT, thread, "That is all.", who)
    harness.settle()
    return [call.status for call in harness.calls_in(thread)]


def answers(harness: Harness) -> None:
    """The agent will say that it is done."""
    harness.planner.script(Turn(text="That is all."))


def approve(harness: Harness, thread: str) -> None:
    """A shop lead approves the first call that the thread's card shows."""
    answers(harness)
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    arrived(harness)


def asked(harness: Harness, thread: str) -> list[CallStatus]:
    """How its calls stand, once a card is there.

    The agent has nothing more to say until `answers`.
    """
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.planner.clear_script()
    return [call.status for call in harness.calls_in(thread)]


def test_splitting_does_not_slip_under(harness: Harness, paid: list[Decimal]) -> None:
    """200 and 200 run unasked and so does the last 100.00; one cent more is asked."""
    for amount in ("200.00", "200.00", "100.00"):
        assert done(harness, pay(harness, amount)) == [C.SUCCEEDED]
    thread = pay(harness, "0.01")
    assert asked(harness, thread) == [C.PENDING]
    assert sum(paid) == 500
    approve(harness, thread)
    assert done(harness, thread) == [C.SUCCEEDED]
    assert sum(paid) == Decimal("500.01")


def test_in_one_plan(harness: Harness, paid: list[Decimal]) -> None:
    """Of three times 200 proposed together two are allowed, and the third is asked.

    None runs before.
    """
    thread = pay(harness, "200.00", "200.00", "200.00")
    assert asked(harness, thread) == [C.APPROVED, C.APPROVED, C.PENDING]
    assert paid == []
    approve(harness, thread)
    assert done(harness, thread) == [C.SUCCEEDED] * 3
    assert sum(paid) == 600


def test_sums_count_across_threads(harness: Harness, paid: list[Decimal]) -> None:
    """What waits for people in one thread counts in the other.

    Another requester has a sum of their own.
    """
    first = pay(harness, "600.00")
    assert asked(harness, first) == [C.PENDING]
    second = pay(harness, "1.00")
    assert asked(harness, second) == [C.PENDING]
    assert done(harness, pay(harness, "500.00", who="dan"), "dan") == [C.SUCCEEDED]
    assert paid == [500]


def test_the_window_passes(harness: Harness, paid: list[Decimal]) -> None:
    """A day after it was paid it counts no more, and not a minute earlier."""
    assert done(harness, pay(harness, "450.00")) == [C.SUCCEEDED]
    harness.clock.advance(DAY - 60)
    assert asked(harness, pay(harness, "100.00")) == [C.PENDING]
    harness.reset()
    harness.clock.advance(61)
    assert done(harness, pay(harness, "100.00")) == [C.SUCCEEDED]
    assert paid == [450, 100]


def test_what_came_to_nothing_does_not_count(harness: Harness, paid: list[Decimal]) -> None:
    """Failed, rejected and expired payments leave the sum as it was."""
    assert done(harness, pay(harness, "400.00", how="refused")) == [C.FAILED]
    thread = pay(harness, "600.00")
    reject(harness, "ana", SUPPORT, harness.card(SUPPORT, thread), "too much")
    assert done(harness, thread) == [C.REJECTED]
    thread = pay(harness, "700.00")
    assert asked(harness, thread) == [C.PENDING]
    answers(harness)
    harness.clock.advance(4 * 3600 + 1)
    assert done(harness, thread) == [C.EXPIRED]
    assert done(harness, pay(harness, "500.00")) == [C.SUCCEEDED]
    assert paid == [500]


def test_what_may_have_happened_counts(harness: Harness, paid: list[Decimal]) -> None:
    """A payment of which nobody knows the end counts as if it had happened."""
    thread = pay(harness, "400.00", how="lost")
    harness.slack.wait(lambda: [call.status for call in harness.calls_in(thread)] == [C.UNKNOWN])
    harness.planner.clear_script()
    assert asked(harness, pay(harness, "101.00")) == [C.PENDING]
    answers(harness)
    harness.clock.advance(2 * 3600)
    assert done(harness, thread) == [C.UNKNOWN]
    assert asked(harness, pay(harness, "100.01")) == [C.PENDING]
    assert paid == [400]


def test_what_raised_after_its_effect_counts(harness: Harness, paid: list[Decimal]) -> None:
    """A tool that raises has failed, but may have paid before: only what it refuses itself is not
    in the sum.
    """
    assert done(harness, pay(harness, "400.00", how="broken")) == [C.FAILED]
    assert asked(harness, pay(harness, "100.01")) == [C.PENDING]
    harness.reset()
    harness.clock.advance(DAY)
    assert done(harness, pay(harness, "500.00")) == [C.SUCCEEDED]
    assert paid == [400, 500]


def unknown(harness: Harness, thread: str, number: int) -> str:
    """Wait until so many payments of the thread were lost; returns the card that asks about it."""

    def lost() -> int:
        return sum(harness.audit_of(c).count("call.unknown") for c in harness.calls_in(thread))

    harness.slack.wait(lambda: lost() == number)
    harness.settle()  # until then the card may be the one about the loss before
    return str(harness.card(SUPPORT, thread, "ben", having="resolve_not_done")["ts"])


def test_the_word_of_who_asked_frees_nothing(harness: Harness, paid: list[Decimal]) -> None:
    """Who asked has a lost payment run again, and then says that it did not happen: both count."""
    thread = pay(harness, "200.00", how="lost")
    card = unknown(harness, thread, 1)
    harness.person("ben").click(SUPPORT, card, "run_again")
    card = unknown(harness, thread, 2)
    harness.person("ben").click(SUPPORT, card, "resolve_not_done")
    assert done(harness, thread) == [C.FAILED]
    assert asked(harness, pay(harness, "100.01")) == [C.PENDING]
    assert paid == [200, 200]


def test_the_word_of_an_approver_counts(harness: Harness, paid: list[Decimal]) -> None:
    """An approver says that a lost payment did not happen: it is in the sum no more."""
    thread = pay(harness, "600.00", how="lost")
    assert asked(harness, thread) == [C.PENDING]
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    card = unknown(harness, thread, 1)
    answers(harness)
    harness.person("ana").click(SUPPORT, card, "resolve_not_done")
    assert done(harness, thread) == [C.FAILED]
    assert done(harness, pay(harness, "500.00")) == [C.SUCCEEDED]


def test_allowed_before_either_ran(harness: Harness, paid: list[Decimal]) -> None:
    """Two payments allowed under an older policy wait for other steps.

    When they run the limit holds between them.

    The younger one gives way to the older, whichever is taken up first.
    """
    harness.policy = UNLIMITED
    harness.restart()
    threads = []
    for _ in range(2):
        threads.append(
            ask(harness, ("pay", {"amount": "300.00"}), ("note", {"text": "first this"}))
        )
        assert asked(harness, threads[-1]) == [C.APPROVED, C.PENDING]
    harness.policy = POLICY
    harness.restart()
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, threads[1])["ts"], "approve")
    harness.said(SUPPORT, threads[1], "what the policy says about this has changed since")
    harness.settle()
    assert [call.status for call in harness.calls_in(threads[1])] == [C.PENDING, C.APPROVED]
    approve(harness, threads[0])
    assert done(harness, threads[0]) == [C.SUCCEEDED] * 2
    assert paid == [300]
    [again] = [m for m in harness.thread(SUPPORT, threads[1]) if "approve" in action_ids(m)]
    assert "asks to pay 300" in words(again)
    answers(harness)
    harness.person("ana").click(SUPPORT, again["ts"], "approve")
    assert done(harness, threads[1]) == [C.SUCCEEDED] * 2
    assert paid == [300, 300]
