"""Limits over a time: splitting an amount does not slip under them, whatever is open, at once or
forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field

from bot.tools import Effect, Tool, ToolContext, ToolError, tool
from storage.states import CallStatus
from tests.stories.kit import Kit
from tests.stories.world import SUPPORT, Turn, World, action_ids, arrived, ask, reject, words

C = CallStatus
DAY = 86_400
UNLIMITED = '[defaults]\napprovers = ["@shop-leads"]\n\n[[rule]]\nname = "small"\ntool = "pay"\nverdict = "allow"\n'
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
        return f"paid {args.amount}"

    return pay


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, list[Decimal]]]:
    """A world where up to 500 a day are paid unasked."""
    paid: list[Decimal] = []
    world = World(tmp_path_factory.mktemp("spending"), [pay_tool(paid), *Kit().tools], POLICY)
    yield world, paid
    world.close()


@pytest.fixture
def world(made: tuple[World, list[Decimal]]) -> Iterator[World]:
    """It, at rest, on a day of its own."""
    world, paid = made
    paid.clear()
    yield world
    world.reset()
    if world.policy != POLICY:
        world.policy = POLICY
        world.restart()
    world.clock.advance(91 * DAY)


@pytest.fixture
def paid(made: tuple[World, list[Decimal]]) -> list[Decimal]:
    """What was paid in this story, in order."""
    return made[1]


def pay(world: World, *amounts: str, how: str = "well", who: str = "ben") -> str:
    """Someone has the agent pay these amounts in one plan; returns the thread."""
    return ask(world, *(("pay", {"amount": amount, "how": how}) for amount in amounts), who=who)


def done(world: World, thread: str, who: str = "ben") -> list[CallStatus]:
    """How its calls ended, once the agent has answered."""
    world.said(SUPPORT, thread, "That is all.", who)
    world.settle()
    return [call.status for call in world.calls_in(thread)]


def answers(world: World) -> None:
    """The agent will say that it is done."""
    world.planner.script(Turn(text="That is all."))


def approve(world: World, thread: str) -> None:
    """A shop lead approves the first call that the thread's card shows."""
    answers(world)
    world.person("ana").click(SUPPORT, world.card(SUPPORT, thread)["ts"], "approve")
    arrived(world)


def asked(world: World, thread: str) -> list[CallStatus]:
    """How its calls stand, once a card is there.

    The agent has nothing more to say until `answers`.
    """
    world.card(SUPPORT, thread)
    world.settle()
    world.planner.clear()
    return [call.status for call in world.calls_in(thread)]


def test_splitting_does_not_slip_under(world: World, paid: list[Decimal]) -> None:
    """200 and 200 run unasked and so does the last 100.00; one cent more is asked."""
    for amount in ("200.00", "200.00", "100.00"):
        assert done(world, pay(world, amount)) == [C.SUCCEEDED]
    thread = pay(world, "0.01")
    assert asked(world, thread) == [C.PENDING]
    assert sum(paid) == 500
    approve(world, thread)
    assert done(world, thread) == [C.SUCCEEDED]
    assert sum(paid) == Decimal("500.01")


def test_in_one_plan(world: World, paid: list[Decimal]) -> None:
    """Three times 200 proposed together: the first two are allowed, the third is asked, and none
    runs before.
    """
    thread = pay(world, "200.00", "200.00", "200.00")
    assert asked(world, thread) == [C.APPROVED, C.APPROVED, C.PENDING]
    assert paid == []
    approve(world, thread)
    assert done(world, thread) == [C.SUCCEEDED] * 3
    assert sum(paid) == 600


def test_across_threads(world: World, paid: list[Decimal]) -> None:
    """What waits for people in one thread counts in the other.

    Another requester has a sum of their own.
    """
    first = pay(world, "600.00")
    assert asked(world, first) == [C.PENDING]
    second = pay(world, "1.00")
    assert asked(world, second) == [C.PENDING]
    assert done(world, pay(world, "500.00", who="dan"), "dan") == [C.SUCCEEDED]
    assert paid == [500]


def test_the_window_passes(world: World, paid: list[Decimal]) -> None:
    """A day after it was paid it counts no more, and not a minute earlier."""
    assert done(world, pay(world, "450.00")) == [C.SUCCEEDED]
    world.clock.advance(DAY - 60)
    assert asked(world, pay(world, "100.00")) == [C.PENDING]
    world.reset()
    world.clock.advance(61)
    assert done(world, pay(world, "100.00")) == [C.SUCCEEDED]
    assert paid == [450, 100]


def test_what_came_to_nothing_does_not_count(world: World, paid: list[Decimal]) -> None:
    """Failed, rejected and expired payments leave the sum as it was."""
    assert done(world, pay(world, "400.00", how="refused")) == [C.FAILED]
    thread = pay(world, "600.00")
    reject(world, "ana", SUPPORT, world.card(SUPPORT, thread), "too much")
    assert done(world, thread) == [C.REJECTED]
    thread = pay(world, "700.00")
    assert asked(world, thread) == [C.PENDING]
    answers(world)
    world.clock.advance(4 * 3600 + 1)
    assert done(world, thread) == [C.EXPIRED]
    assert done(world, pay(world, "500.00")) == [C.SUCCEEDED]
    assert paid == [500]


def test_what_may_have_happened_counts(world: World, paid: list[Decimal]) -> None:
    """A payment of which nobody knows the end counts as if it had happened (X06)."""
    thread = pay(world, "400.00", how="lost")
    world.slack.wait(lambda: [call.status for call in world.calls_in(thread)] == [C.UNKNOWN])
    world.planner.clear()
    assert asked(world, pay(world, "101.00")) == [C.PENDING]
    answers(world)
    world.clock.advance(2 * 3600)
    assert done(world, thread) == [C.UNKNOWN]
    assert asked(world, pay(world, "100.01")) == [C.PENDING]
    assert paid == [400]


def test_allowed_before_either_ran(world: World, paid: list[Decimal]) -> None:
    """Two payments allowed under an older policy wait for other steps; when they run the limit
    holds between them.

    The younger one gives way to the older, whichever is taken up first.
    """
    world.policy = UNLIMITED
    world.restart()
    threads = []
    for _ in range(2):
        threads.append(ask(world, ("pay", {"amount": "300.00"}), ("note", {"text": "first this"})))
        assert asked(world, threads[-1]) == [C.APPROVED, C.PENDING]
    world.policy = POLICY
    world.restart()
    world.person("ana").click(SUPPORT, world.card(SUPPORT, threads[1])["ts"], "approve")
    world.said(SUPPORT, threads[1], "policy changed after this was approved")
    world.settle()
    assert [call.status for call in world.calls_in(threads[1])] == [C.PENDING, C.APPROVED]
    approve(world, threads[0])
    assert done(world, threads[0]) == [C.SUCCEEDED] * 2
    assert paid == [300]
    [again] = [m for m in world.thread(SUPPORT, threads[1]) if "approve" in action_ids(m)]
    assert "asks to pay 300" in words(again)
    answers(world)
    world.person("ana").click(SUPPORT, again["ts"], "approve")
    assert done(world, threads[1]) == [C.SUCCEEDED] * 2
    assert paid == [300, 300]
