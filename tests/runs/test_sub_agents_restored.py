"""A backup restored while a sub-agent works: nothing it did is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.models import Call
from storage.states import CallStatus, RunStatus
from tests.runs.fakes import ANA
from tests.runs.harness import Crash, LoopHarness
from tests.runs.promises import check_all_ended, check_entrusted_calls, check_promises
from tests.runs.test_restored_backups import back_up, put_back
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


def get_note(harness: LoopHarness) -> Call:
    """The call that the sub-agent proposed."""
    [found] = [call for call in harness.all()[1] if call.tool == "note"]
    return found


def approve_note(harness: LoopHarness, revision: int) -> None:
    """Ana approves that revision, and everybody goes on."""
    value = f"{get_note(harness).id}:{revision}"
    harness.arrive(lambda key: click(key, "approve", value, ANA))
    harness.loop.tick()
    harness.work()


def test_a_restored_sub_agents_call_needs_a_new_approval(harness: LoopHarness) -> None:
    """It had run since the copy was made; both agents go on."""
    harness.work()
    copy = back_up(harness)
    approve_note(harness, 1)
    assert harness.effects[get_note(harness).id] == 1
    put_back(harness, copy)
    check_entrusted_calls(*harness.all()[:2])
    assert sum("older copy" in each.body for each in harness.all()[3]) == 1  # their thread is told
    approve_note(harness, 1)
    assert harness.effects[get_note(harness).id] == 1
    assert {run.status for run in harness.all()[0]} == {R.WAITING}
    approve_note(harness, 2)
    assert harness.effects[get_note(harness).id] == 2
    check_all_ended(harness)
    assert {run.status for run in harness.all()[0]} == {R.COMPLETED}


def test_a_restored_sub_agent_that_asks_nobody_ends_with_its_request(harness: LoopHarness) -> None:
    """What it did since the copy is not known."""
    harness.model.script.insert(1, "crash")
    with pytest.raises(Crash):
        harness.work()
    copy = back_up(harness)
    harness.stop()
    harness.start()
    harness.work()
    put_back(harness, copy)
    check_promises(harness)
    assert {run.status for run in harness.all()[0]} == {R.CANCELLED}
    [desk] = [call for call in harness.all()[1] if call.tool == "desk"]
    assert desk.status is C.CANCELLED
    harness.work()
    check_all_ended(harness)
    assert len(harness.over) == 1
