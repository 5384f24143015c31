"""Between approval and effect: what is no longer what was shown does not run, and says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from bot.cards.action_names import DialogId
from bot.policy.evaluation import parse
from bot.tools import Effect, ToolContext, tool
from storage import outbox
from storage.models import Call
from storage.states import CallStatus
from tests.record_checks import find_first_broken_row
from tests.runs.fakes import ANA, BEN, CLEO, POLICY, Note, make_tools
from tests.runs.harness import Crash, LoopHarness, approved
from tests.storage.builders import click, submission

C = CallStatus


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """An approved note."""
    made = approved(tmp_path / "db")
    yield made
    made.stop()


def tamper(harness: LoopHarness, *statements: str) -> None:
    """Change the database by hand, past the triggers."""
    with closing(sqlite3.connect(harness.path, isolation_level=None)) as raw:
        for table in ("revision", "vote"):
            for verb in ("update", "delete"):
                raw.execute(f"DROP TRIGGER {table}_no_{verb}")
        for statement in statements:
            raw.execute(statement)


def worked(harness: LoopHarness) -> Call:
    """Let the workers do what there is to do; the call as it ended."""
    harness.work()
    assert harness.wrong == []
    return harness.all()[1][0]


def test_what_was_shown_runs(harness: LoopHarness) -> None:
    """The approved call runs once, with what was shown.

    The model hears by whom it was approved.
    """
    call = worked(harness)
    assert (call.status, harness.effects[call.id]) == (C.SUCCEEDED, 1)
    assert f"Approved by <@{ANA}>" in call.output


def test_what_is_over_at_once_is_drawn_at_its_end_alone(harness: LoopHarness) -> None:
    """That it runs is drawn once it takes a second (tests/stories/test_crash.py)."""
    plan_id = harness.all()[1][0].plan_id
    with harness.store.read() as tx:
        [before] = outbox.list_cards_of_plan(tx, plan_id)
    assert worked(harness).status is C.SUCCEEDED
    with harness.store.read() as tx:
        [after] = outbox.list_cards_of_plan(tx, plan_id)
    assert after.wanted == before.wanted + 1


TAMPERED = {
    "the arguments": ("UPDATE revision SET arguments = replace(arguments, 'shown', 'slipped in')",),
    "the arguments' digest": ("UPDATE revision SET digest = 'x'",),
    "the call's digest": ("UPDATE call SET digest = 'x'",),
    "both digests": ("UPDATE revision SET digest = 'x'", "UPDATE call SET digest = 'x'"),
    "the vote's digest": ("UPDATE vote SET digest = 'x'",),
    "the gate": ("UPDATE call SET gate = replace(gate, 'shop-leads', 'everyone')",),
    "the requester": ("UPDATE run SET requester = 'UDAN00001'",),
    "the tool": ("UPDATE call SET tool = 'wipe'",),
    "the vote is gone": ("DELETE FROM vote",),
    "the vote was for another revision": ("UPDATE vote SET revision = 2",),
    "a field too many": ("""UPDATE revision SET arguments = '{"more":1,"text":"as shown"}'""",),
    "arguments that are no JSON": ("UPDATE revision SET arguments = '{'",),
    "arguments written differently": (
        """UPDATE revision SET arguments = '{"text": "as shown"}'""",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_was_changed_by_hand_does_not_run(harness: LoopHarness, what: str) -> None:
    """Anything altered in storage after the card was shown is refused, audited and told."""
    tamper(harness, *TAMPERED[what])
    call = worked(harness)
    assert (call.status, sum(harness.effects.values())) == (C.INVALIDATED, 0)
    assert call.output.startswith("INVALIDATED: it was not run, because")
    told = [row for row in harness.all()[2] if row.call_id == call.id]
    assert [row.event for row in told] == ["call.born.pending", "call.approved", "call.invalidated"]
    assert '"why"' in told[-1].payload
    with harness.store.read() as tx:
        assert find_first_broken_row(tx) is None


def test_a_tool_that_is_gone(harness: LoopHarness) -> None:
    """After a deploy without the tool the call is invalidated, and the run goes on."""
    del harness.core.tools.tools["note"]
    call = worked(harness)
    assert (call.status, harness.effects[call.id]) == (C.INVALIDATED, 0)
    assert "no longer there" in call.note
    assert harness.all()[0][0].status == "completed"


class Louder(Note):
    loud: bool = False


def test_a_tool_with_another_schema(harness: LoopHarness) -> None:
    """The same name with another schema, or another effect on the world, is another tool."""

    @tool(title="Note", effect="Note", does=Effect.WRITE, name="note")
    def note(args: Louder, context: ToolContext) -> str:
        raise AssertionError("it ran")

    harness.core.tools.tools["note"] = note
    assert worked(harness).status is C.INVALIDATED


def test_a_tool_that_became_dangerous(harness: LoopHarness) -> None:
    """What was approved as a change that can be put right is not run as one that cannot."""
    harness.core.tools.tools["note"] = next(
        each for each in make_tools(lambda *_: "ran") if each.name == "wipe"
    )
    assert worked(harness).status is C.INVALIDATED


def test_policy_now_denies(harness: LoopHarness) -> None:
    """A yes of a person does not override a rule that forbids it now."""
    harness.core.policy.policy = parse(
        POLICY + '[[rule]]\ntool = "note"\nverdict = "deny"\nreason = "Stocktaking."\n'
    )
    call = worked(harness)
    assert (call.status, harness.effects[call.id]) == (C.INVALIDATED, 0)
    assert "Stocktaking." in call.output


def test_policy_now_asks_others(harness: LoopHarness) -> None:
    """When others must approve now, the old yes is not enough. Theirs, on a card of its own, is."""
    harness.core.policy.policy = parse(
        POLICY + '[[rule]]\ntool = "note"\nverdict = "ask"\napprovers = ["@finance"]\n'
    )
    call = worked(harness)
    assert (call.status, call.revision, harness.effects[call.id]) == (C.PENDING, 2, 0)
    for person in (ANA, CLEO):
        harness.arrive(lambda key, person=person: click(key, "approve", f"{call.id}:2", person))  # type: ignore[misc] # mypy cannot tell a lambda with a default
    harness.loop.tick()
    assert (worked(harness).status, harness.effects[call.id]) == (C.SUCCEEDED, 1)
    refused = [row.actor for row in harness.all()[2] if row.event == "decision.refused"]
    assert (refused, [vote.person for vote in harness.votes(call.id, 2)]) == ([ANA], [CLEO])


def test_policy_now_names_a_time(harness: LoopHarness) -> None:
    """What was approved to run at once is asked again, as it would start at another time."""
    at = 'approvers = ["@shop-leads"]\nrun_at = "22:00 Europe/Berlin"\n'
    harness.core.policy.policy = parse(f'{POLICY}[[rule]]\ntool = "note"\nverdict = "ask"\n{at}')
    call = worked(harness)
    assert (call.status, call.revision, harness.effects[call.id]) == (C.PENDING, 2, 0)


TIMED = POLICY.replace('"1h"', '"1h"\nrun_at = "22:00 UTC"')
GLASS = TIMED.replace('"1h"', f'"1h"\nbreak_glass = ["{ANA}"]')


@pytest.mark.parametrize(("by_then", "ends"), [(GLASS, C.SUCCEEDED), (TIMED, C.PENDING)])
def test_policy_no_longer_lets_who_ran_it_before_its_time(
    tmp_path: Path, by_then: str, ends: CallStatus
) -> None:
    """Though others had approved it for its time: after its deadline, too, it is asked again."""
    made = LoopHarness(tmp_path / "db")
    made.core.policy.policy = parse(GLASS)
    made.model.script = [[("note", "as shown")]]
    made.say("please")
    made.loop.tick()
    made.work()
    [call] = made.all()[1]
    made.arrive(lambda key: click(key, "approve", f"{call.id}:1", CLEO))
    made.loop.tick()
    assert made.all()[1][0].starts_at is not None
    made.clock.at += timedelta(hours=2)
    about, words = {"target": f"{call.id}:1"}, {"words": {"text": {"value": "all is down"}}}
    dialog = DialogId.BREAK_GLASS
    made.arrive(lambda key: submission(key, dialog, about, words, ANA))
    made.loop.tick()
    assert made.all()[1][0].status is C.APPROVED
    made.core.policy.policy = parse(by_then)
    assert (worked(made).status, made.effects[call.id]) == (ends, ends is C.SUCCEEDED)
    made.stop()


@pytest.mark.parametrize(
    "asks",
    [
        'approvers = ["@shop-leads"]\ndeadline = "2h"\n',
        'approvers = ["@shop-leads", "@finance"]\n',
    ],
)
def test_policy_asks_otherwise_and_the_yes_is_enough(harness: LoopHarness, asks: str) -> None:
    """Where who has approved is enough for what policy asks by now, nobody is asked again."""
    harness.core.policy.policy = parse(f'{POLICY}[[rule]]\ntool = "note"\nverdict = "ask"\n{asks}')
    call = worked(harness)
    assert (call.status, call.revision, harness.effects[call.id]) == (C.SUCCEEDED, 1, 1)


def test_policy_now_allows(harness: LoopHarness) -> None:
    """A rule that was relaxed meanwhile does not stand in the way of what people approved."""
    harness.core.policy.policy = parse(POLICY + '[[rule]]\ntool = "note"\nverdict = "allow"\n')
    assert worked(harness).status is C.SUCCEEDED


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("name", "again"), [("note", 0), ("wipe", 0), ("put", 1)])
def test_a_death_around_the_effect(tmp_path: Path, name: str, again: int, when: str) -> None:
    """After a crash between RUNNING and the result nothing runs again.

    Only what is idempotent does, under its key.
    """
    harness = approved(tmp_path / "db", name)
    harness.pool.die = when
    with pytest.raises(Crash):
        harness.work()
    assert harness.all()[1][0].status is C.RUNNING
    harness.stop()
    harness.start()
    call = worked(harness)
    assert harness.effects[call.id] == (when == "after") + again
    assert call.status is (C.SUCCEEDED if again else C.UNKNOWN)
    starts = [row.data for row in harness.all()[2] if row.event == "call.running"]
    assert len(starts) == 1 + again
    assert all(call.digest in data for data in starts)
    harness.stop()


def test_a_death_before_the_next_model_turn(tmp_path: Path) -> None:
    """When the process dies, or the model fails, after the result, the tool is not run again."""
    harness = approved(tmp_path / "db")
    harness.model.script = ["crash"]
    with pytest.raises(Crash):
        harness.work()
    harness.stop()
    harness.start()
    harness.model.script = ["fail"]
    call = worked(harness)
    assert (call.status, harness.effects[call.id], harness.all()[0][0].status) == (
        C.SUCCEEDED,
        1,
        "failed",
    )
    harness.arrive(lambda key: click(key, "retry", call.run_id, BEN))
    harness.loop.tick()
    assert (worked(harness).status, harness.effects[call.id], harness.all()[0][0].status) == (
        C.SUCCEEDED,
        1,
        "completed",
    )
    assert harness.model.wrong == []
    harness.stop()
