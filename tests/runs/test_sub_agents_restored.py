"""A backup that is put back while a sub-agent is at work: nothing it did is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.models import Call
from storage.states import CallStatus, RunStatus
from tests.runs.fakes import ANA
from tests.runs.harness import Crash, LoopHarness
from tests.runs.promises import all_came_to_an_end, each_errand_is_one_run, look
from tests.runs.test_restored import back_up, put_back
from tests.storage.builders import click

C, R = CallStatus, RunStatus


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """A request whose agent has asked a sub-agent."""
    made = LoopHarness(tmp_path / "countersign.db")
    made.model.script = [[("desk", "a")], [("note", "once")]]
    made.say("please")
    made.loop.tick()
    yield made
    made.stop()


def note(harness: LoopHarness) -> Call:
    """What the sub-agent proposed."""
    [found] = [call for call in harness.all()[1] if call.tool == "note"]
    return found


def approve(harness: LoopHarness, revision: int) -> None:
    """Ana approves of that revision, and everybody goes on."""
    value = f"{note(harness).id}:{revision}"
    harness.arrive(lambda key: click(key, "approve", value, ANA))
    harness.loop.tick()
    harness.work()


def test_its_card_is_asked_anew_and_both_go_on(harness: LoopHarness) -> None:
    """Its call had run since the copy was made: only a new approval has it run again."""
    harness.work()
    copy = back_up(harness)
    approve(harness, 1)
    assert harness.effects[note(harness).id] == 1
    put_back(harness, copy)
    each_errand_is_one_run(*harness.all()[:2])
    approve(harness, 1)
    assert harness.effects[note(harness).id] == 1
    assert {run.status for run in harness.all()[0]} == {R.WAITING}
    approve(harness, 2)
    assert harness.effects[note(harness).id] == 2
    all_came_to_an_end(harness)
    assert {run.status for run in harness.all()[0]} == {R.COMPLETED}


def test_one_that_asks_nobody_ends_with_its_request(harness: LoopHarness) -> None:
    """What became of it since is not known, and nobody would be asked: both are over."""
    harness.model.script.insert(1, "crash")
    with pytest.raises(Crash):
        harness.work()
    copy = back_up(harness)
    harness.stop()
    harness.start()
    harness.work()
    put_back(harness, copy)
    look(harness)
    assert {run.status for run in harness.all()[0]} == {R.CANCELLED}
    [desk] = [call for call in harness.all()[1] if call.tool == "desk"]
    assert desk.status is C.CANCELLED
    harness.work()
    all_came_to_an_end(harness)
    assert len(harness.over) == 1
