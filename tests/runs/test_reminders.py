"""Reminders about a waiting call: whom they name, and none about what another process decided."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bot.policy.authority import Person
from bot.policy.evaluation import parse
from storage import moves
from storage.states import CallStatus
from tests.runs.fakes import BEN, POLICY
from tests.runs.harness import LoopHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """A call for which people are reminded after ten minutes."""
    made = LoopHarness(tmp_path / "countersign.db")
    made.core.policy.policy = parse(POLICY.replace('"1h"', '"1h"\nreminders = ["10m"]'))
    yield made
    made.stop()


def list_reminders(harness: LoopHarness) -> list[str]:
    """The texts of the reminders so far."""
    return [each.body for each in harness.all()[3] if each.key.startswith("nudge:")]


def propose_and_wait(harness: LoopHarness, minutes: int = 11) -> None:
    """People are asked, and do not answer for so long."""
    harness.model.script = [[("note", "once")]]
    harness.say("please")
    harness.loop.tick()
    harness.work()
    harness.clock.at += timedelta(minutes=minutes)


def act_during_lookups(harness: LoopHarness, act: Callable[[], object]) -> None:
    """Have `act` done while the next people are looked up."""
    find_people = harness.directory.find_people

    def find(users: Collection[str]) -> dict[str, Person]:
        harness.directory.find_people = find_people  # type: ignore[method-assign] # once only
        act()
        return find_people(users)

    harness.directory.find_people = find  # type: ignore[method-assign]  # until then


@pytest.mark.parametrize("is_ended", [False, True])
def test_nobody_is_reminded_of_a_call_that_ends_meanwhile(
    harness: LoopHarness, *, is_ended: bool
) -> None:
    """Another process cancels it while the people are looked up."""
    propose_and_wait(harness)
    [call] = harness.all()[1]

    def end() -> None:
        with harness.store.write() as tx:
            moves.change_call_status(
                tx, call, CallStatus.CANCELLED, at=harness.clock.now(), actor=BEN, output="ended"
            )

    if is_ended:
        act_during_lookups(harness, end)
    harness.loop.tick()
    assert len(list_reminders(harness)) == (not is_ended)
    told = [each for each in harness.all()[2] if each.event == "call.told"]
    assert [each.call_id for each in told] == ([] if is_ended else [call.id])
    harness.loop.tick()
    assert len(list_reminders(harness)) == (not is_ended)


def test_a_requester_who_may_decide_is_reminded(harness: LoopHarness) -> None:
    """By name, as they are."""
    policy = POLICY.replace('["@shop-leads"]', '["requester"]\nreminders = ["10m"]')
    harness.core.policy.policy = parse(policy)
    propose_and_wait(harness)
    harness.loop.tick()
    [text] = list_reminders(harness)
    assert f"<@{BEN}>" in text
