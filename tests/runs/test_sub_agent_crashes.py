"""A process that dies around a sub-agent's birth or end leaves one run for one call."""

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
from tests.runs.promises import all_came_to_an_end, look
from tests.storage.builders import click, submission

C, R = CallStatus, RunStatus


@pytest.fixture
def harness(tmp_path: Path) -> LoopHarness:
    """The product without its edges."""
    return LoopHarness(tmp_path / "db")


def begin(harness: LoopHarness, *script: object) -> None:
    """Ben asks; the models do this."""
    harness.model.script = list(script)  # type: ignore[arg-type]  # as the machine writes them
    harness.say("please")
    harness.loop.tick()


def crashed(harness: LoopHarness) -> None:
    """Work until the process dies, and start another one."""
    with pytest.raises(Crash):
        harness.work()
    harness.stop()
    harness.start()


def note(harness: LoopHarness) -> Call:
    """The note that is to be written."""
    [found] = [call for call in harness.all()[1] if call.tool == "note"]
    return found


def approve(harness: LoopHarness) -> None:
    """Ana approves of the note."""
    call = note(harness)
    harness.arrive(lambda key: click(key, "approve", f"{call.id}:{call.revision}", ANA))
    harness.loop.tick()


@pytest.mark.parametrize("when", ["before", "after"])
def test_dying_before_the_birth_makes_one_run(harness: LoopHarness, when: str) -> None:
    """It dies around what says the task: the next process asks the sub-agent once."""
    begin(harness, [("desk", "a")], [("note", "b")], "answer", "answer")
    harness.pool.die = when
    crashed(harness)
    look(harness)
    harness.work()
    assert len(harness.all()[0]) == 2
    approve(harness)
    harness.work()
    look(harness)
    all_came_to_an_end(harness)
    assert harness.effects[note(harness).id] == 1
    assert {run.status for run in harness.all()[0]} == {R.COMPLETED}


@pytest.mark.parametrize("turn", ["the child's first", "the child's last", "the parent's last"])
def test_dying_in_a_turn_takes_it_again(harness: LoopHarness, turn: str) -> None:
    """Whichever agent's turn it was, it is taken again, and nothing happens twice."""
    at = ["the child's first", "the child's last", "the parent's last"].index(turn)
    script: list[object] = [[("desk", "a")], [("note", "b")], "answer", "answer"]
    begin(harness, *script[: at + 1], "crash", *script[at + 1 :])
    if at == 0:
        crashed(harness)
    harness.work()
    approve(harness)
    if at > 0:
        crashed(harness)
    harness.work()
    look(harness)
    all_came_to_an_end(harness)
    assert harness.effects[note(harness).id] == 1
    assert [call.status for call in harness.all()[1]] == [C.SUCCEEDED, C.SUCCEEDED]


def test_dying_in_its_effect_leaves_it_unknown(harness: LoopHarness) -> None:
    """A sub-agent's call that was cut off is asked about, and both agents wait for that."""
    begin(harness, [("desk", "a")], [("note", "b")], "answer", "answer")
    harness.work()
    approve(harness)
    harness.pool.die = "after"
    crashed(harness)
    harness.work()
    look(harness)
    assert note(harness).status is C.UNKNOWN
    assert {run.status for run in harness.all()[0]} == {R.WAITING}


def test_all_agents_share_one_budget_of_calls(tmp_path: Path) -> None:
    """What sub-agents propose counts with their request: beyond the limit they are refused."""
    harness = LoopHarness(tmp_path / "db", max_calls=3)
    begin(harness, [("desk", "a")], [("peek", "b"), ("peek", "c"), ("peek", "d")])
    harness.work()
    statuses = [call.status for call in harness.all()[1]]
    assert sorted(statuses) == [C.REFUSED, C.SUCCEEDED, C.SUCCEEDED, C.SUCCEEDED]


def test_all_agents_share_one_budget_of_turns(tmp_path: Path) -> None:
    """Once it is used up, a sub-agent stops, its parent hears why, and stops as well."""
    harness = LoopHarness(tmp_path / "db", max_turns=3)
    begin(harness, [("desk", "a")], [("peek", "b")], [("peek", "c")], [("peek", "d")])
    harness.work()
    assert harness.model.turns == 3
    [desk] = [call for call in harness.all()[1] if call.tool == "desk"]
    assert (desk.status, "3 turns" in desk.output) == (C.FAILED, True)


def test_two_at_once_cannot_pass_the_limit_of_turns(tmp_path: Path) -> None:
    """One sub-agent's turn is under way, the last one there is: the other takes none beside it."""
    harness = LoopHarness(tmp_path / "db", max_turns=2)
    begin(harness, [("desk", "a"), ("desk", "b")])
    ask, beside = harness.model.take_turn, list[str]()

    def amid(*given: Any) -> Any:
        """Another worker takes up whoever else is ready."""
        children = [run for run in harness.all()[0] if run.parent_call and run.status is R.READY]
        for run in children:
            beside.append(run.id)
            harness.worker.advance_run(run.id)
        return ask(*given)

    harness.model.take_turn = amid  # type: ignore[method-assign]  # what happens meanwhile
    harness.work()
    assert beside
    assert harness.model.turns == 2
    outputs = [call.output for call in harness.all()[1] if call.status is C.FAILED]
    assert any("2 turns, which is its limit" in each for each in outputs)


def test_a_tower_of_sub_agents_has_a_top(harness: LoopHarness) -> None:
    """The second may ask nobody further: such a call is refused to it, and it has no such tool."""
    begin(harness, [("desk", "a")], [("desk", "b")], [("desk", "c")])
    harness.work()
    assert sorted(call.status for call in harness.all()[1]) == [C.REFUSED, C.SUCCEEDED, C.SUCCEEDED]
    assert len(harness.all()[0]) == 3
    all_came_to_an_end(harness)


def test_a_sub_agent_that_fails_holds_nobody_up(harness: LoopHarness) -> None:
    """Its model cannot be had: its parent hears so and goes on."""
    begin(harness, [("desk", "a")], [("peek", "b")], "fail", "answer")
    harness.work()
    look(harness)
    child = next(run for run in harness.all()[0] if run.parent_call)
    assert child.status is R.FAILED
    assert harness.all()[1][0].status is C.FAILED
    assert {run.status for run in harness.all()[0]} == {R.FAILED, R.COMPLETED}


def test_a_rejection_counts_in_all_of_the_request(harness: LoopHarness) -> None:
    """Another sub-agent cannot have the same done, and what policy would allow it is asked."""
    begin(harness, [("desk", "a")], [("note", "b")], "answer", [("desk", "c")])
    harness.model.script.append([("note", "b"), ("free", "d")])
    harness.work()
    state = {
        "words": {"text": {"value": "no"}},
        "reason": {"preset": {"selected_option": {"value": "other"}}},
    }
    about = DialogSubject(DialogId.REJECT, CallTarget(note(harness).id, 1))
    metadata = json.loads(encode_dialog_metadata(about))
    harness.arrive(lambda key: submission(key, about.dialog, metadata, state, ANA))
    harness.loop.tick()
    harness.work()
    look(harness)
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
