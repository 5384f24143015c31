"""Crashes around the start or end of a sub-agent leave one run for one call; shared limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bot.cards.action_names import DialogId
from bot.cards.button_codec import CallTarget, DialogSubject, encode_dialog_metadata
from storage.models import Call
from storage.states import CallStatus, RunStatus
from tests.runs.fakes import ANA
from tests.runs.harness import Crash, LoopHarness
from tests.runs.promises import check_all_ended, check_promises
from tests.storage.builders import click, submission

C, R = CallStatus, RunStatus


@pytest.fixture
def harness(tmp_path: Path) -> LoopHarness:
    """The product without its edges."""
    return LoopHarness(tmp_path / "db")


def begin_request(harness: LoopHarness, *script: object) -> None:
    """Ben asks; the models follow the script."""
    harness.model.script = list(script)  # type: ignore[arg-type]  # as the machine writes them
    harness.say("please")
    harness.loop.tick()


def crash_and_restart(harness: LoopHarness) -> None:
    """Work until the process dies, and start another one."""
    with pytest.raises(Crash):
        harness.work()
    harness.stop()
    harness.start()


def get_note(harness: LoopHarness) -> Call:
    """The call of the note that is to be written."""
    [found] = [call for call in harness.all()[1] if call.tool == "note"]
    return found


def approve_note(harness: LoopHarness) -> None:
    """Ana approves the note."""
    call = get_note(harness)
    harness.arrive(lambda key: click(key, "approve", f"{call.id}:{call.revision}", ANA))
    harness.loop.tick()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_before_a_sub_agent_starts_makes_one_run(harness: LoopHarness, when: str) -> None:
    """The crash is around the tool that says the task."""
    begin_request(harness, [("desk", "a")], [("note", "b")], "answer", "answer")
    harness.pool.die = when
    crash_and_restart(harness)
    check_promises(harness)
    harness.work()
    assert len(harness.all()[0]) == 2
    approve_note(harness)
    harness.work()
    check_promises(harness)
    check_all_ended(harness)
    assert harness.effects[get_note(harness).id] == 1
    assert {run.status for run in harness.all()[0]} == {R.COMPLETED}


@pytest.mark.parametrize("turn", ["the child's first", "the child's last", "the parent's last"])
def test_a_model_turn_interrupted_by_a_crash_is_repeated(harness: LoopHarness, turn: str) -> None:
    """It may be that of any agent, and nothing happens twice."""
    at = ["the child's first", "the child's last", "the parent's last"].index(turn)
    script: list[object] = [[("desk", "a")], [("note", "b")], "answer", "answer"]
    begin_request(harness, *script[: at + 1], "crash", *script[at + 1 :])
    if at == 0:
        crash_and_restart(harness)
    harness.work()
    approve_note(harness)
    if at > 0:
        crash_and_restart(harness)
    harness.work()
    check_promises(harness)
    check_all_ended(harness)
    assert harness.effects[get_note(harness).id] == 1
    assert [call.status for call in harness.all()[1]] == [C.SUCCEEDED, C.SUCCEEDED]


def test_a_sub_agents_call_interrupted_by_a_crash_is_unknown(harness: LoopHarness) -> None:
    """People are asked about it, and both agents wait."""
    begin_request(harness, [("desk", "a")], [("note", "b")], "answer", "answer")
    harness.work()
    approve_note(harness)
    harness.pool.die = "after"
    crash_and_restart(harness)
    harness.work()
    check_promises(harness)
    assert get_note(harness).status is C.UNKNOWN
    assert {run.status for run in harness.all()[0]} == {R.WAITING}


def test_all_agents_of_a_request_share_the_limit_of_calls(tmp_path: Path) -> None:
    """Calls beyond it are refused."""
    harness = LoopHarness(tmp_path / "db", max_calls=3)
    begin_request(harness, [("desk", "a")], [("peek", "b"), ("peek", "c"), ("peek", "d")])
    harness.work()
    statuses = [call.status for call in harness.all()[1]]
    assert sorted(statuses) == [C.REFUSED, C.SUCCEEDED, C.SUCCEEDED, C.SUCCEEDED]


def test_all_agents_of_a_request_share_the_limit_of_turns(tmp_path: Path) -> None:
    """The sub-agent stops, its parent hears why, and stops as well."""
    harness = LoopHarness(tmp_path / "db", max_turns=3)
    begin_request(harness, [("desk", "a")], [("peek", "b")], [("peek", "c")], [("peek", "d")])
    harness.work()
    assert harness.model.turns == 3
    [desk] = [call for call in harness.all()[1] if call.tool == "desk"]
    assert (desk.status, "3 turns" in desk.output) == (C.FAILED, True)


def test_two_sub_agents_at_once_cannot_exceed_the_limit_of_turns(tmp_path: Path) -> None:
    """One has the last turn, and the other gets none."""
    harness = LoopHarness(tmp_path / "db", max_turns=2)
    begin_request(harness, [("desk", "a"), ("desk", "b")])
    ask, beside = harness.model.take_turn, list[str]()

    def take_turn_beside(*given: Any) -> Any:
        """Another worker advances the other sub-agent meanwhile."""
        children = [run for run in harness.all()[0] if run.parent_call and run.status is R.READY]
        for run in children:
            beside.append(run.id)
            harness.worker.advance_run(run.id)
        return ask(*given)

    harness.model.take_turn = take_turn_beside  # type: ignore[method-assign]  # what happens meanwhile
    harness.work()
    assert beside
    assert harness.model.turns == 2
    outputs = [call.output for call in harness.all()[1] if call.status is C.FAILED]
    assert any("2 turns, which is its limit" in each for each in outputs)


def test_a_sub_agent_of_a_sub_agent_may_ask_no_other(harness: LoopHarness) -> None:
    """Such a call is refused, and it has no such tool."""
    begin_request(harness, [("desk", "a")], [("desk", "b")], [("desk", "c")])
    harness.work()
    assert sorted(call.status for call in harness.all()[1]) == [C.REFUSED, C.SUCCEEDED, C.SUCCEEDED]
    assert len(harness.all()[0]) == 3
    check_all_ended(harness)


def test_the_parent_of_a_failed_sub_agent_goes_on(harness: LoopHarness) -> None:
    """It is told of the failure."""
    begin_request(harness, [("desk", "a")], [("peek", "b")], "fail", "answer")
    harness.work()
    check_promises(harness)
    child = next(run for run in harness.all()[0] if run.parent_call)
    assert child.status is R.FAILED
    assert harness.all()[1][0].status is C.FAILED
    assert {run.status for run in harness.all()[0]} == {R.FAILED, R.COMPLETED}


def test_a_rejection_counts_for_all_agents_of_the_request(harness: LoopHarness) -> None:
    """Another sub-agent's same call is refused, and what policy would allow it is asked."""
    begin_request(harness, [("desk", "a")], [("note", "b")], "answer", [("desk", "c")])
    harness.model.script.append([("note", "b"), ("free", "d")])
    harness.work()
    state = {
        "words": {"text": {"value": "no"}},
        "reason": {"preset": {"selected_option": {"value": "other"}}},
    }
    about = DialogSubject(DialogId.REJECT, CallTarget(get_note(harness).id, 1))
    metadata = json.loads(encode_dialog_metadata(about))
    harness.arrive(lambda key: submission(key, about.dialog, metadata, state, ANA))
    harness.loop.tick()
    harness.work()
    check_promises(harness)
    assert [(call.tool, call.status) for call in harness.all()[1]] == [
        ("desk", C.SUCCEEDED),
        ("note", C.REJECTED),
        ("desk", C.ENTRUSTED),
        ("note", C.REFUSED),
        ("free", C.PENDING),
    ]
    free = harness.all()[1][-1]
    assert [row.event for row in harness.all()[2] if row.call_id == free.id] == [
        "call.born.pending"
    ]
