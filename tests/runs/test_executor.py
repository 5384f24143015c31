"""Between approval and effect: a call that is no longer what was shown does not run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from bot.cards.action_names import DialogId
from bot.cards.sentences import NOTHING_TO_RETRY_REPLY
from bot.policy.evaluation import parse
from bot.tools import Effect, ToolContext, tool
from storage import outbox
from storage.models import Call
from storage.states import CallStatus
from tests.record_checks import find_first_broken_row
from tests.runs.fakes import ANA, BEN, CLEO, POLICY, Note, make_tools
from tests.runs.harness import Crash, LoopHarness, approved, interrupted
from tests.storage.builders import click, submission

C = CallStatus


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """An approved note."""
    made = approved(tmp_path / "db")
    yield made
    made.stop()


def tamper(harness: LoopHarness, *statements: str) -> None:
    """Change the database by hand, without the triggers."""
    with closing(sqlite3.connect(harness.path, isolation_level=None)) as raw:
        for table in ("revision", "vote"):
            for verb in ("update", "delete"):
                raw.execute(f"DROP TRIGGER {table}_no_{verb}")
        for statement in statements:
            raw.execute(statement)


def work_and_get_call(harness: LoopHarness) -> Call:
    """Let the workers do all work; returns the call as it ended."""
    harness.work()
    assert harness.wrong == []
    return harness.all()[1][0]


def test_an_approved_call_runs_once_as_shown(harness: LoopHarness) -> None:
    """The model hears who approved it."""
    call = work_and_get_call(harness)
    assert (call.status, harness.effects[call.id]) == (C.SUCCEEDED, 1)
    assert f"Approved by <@{ANA}>" in call.output


def test_a_short_call_is_drawn_only_at_its_end(harness: LoopHarness) -> None:
    """A running call is drawn after a second (tests/stories/test_crash.py)."""
    plan_id = harness.all()[1][0].plan_id
    with harness.store.read() as tx:
        [before] = outbox.list_cards_of_plan(tx, plan_id)
    assert work_and_get_call(harness).status is C.SUCCEEDED
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
def test_a_call_changed_by_hand_in_the_database_does_not_run(
    harness: LoopHarness, what: str
) -> None:
    """The change is audited and told."""
    tamper(harness, *TAMPERED[what])
    call = work_and_get_call(harness)
    assert (call.status, sum(harness.effects.values())) == (C.INVALIDATED, 0)
    assert call.output.startswith("INVALIDATED: it was not run, because")
    told = [row for row in harness.all()[2] if row.call_id == call.id]
    assert [row.event for row in told] == ["call.born.pending", "call.approved", "call.invalidated"]
    assert '"why"' in told[-1].payload
    with harness.store.read() as tx:
        assert find_first_broken_row(tx) is None


def test_a_call_whose_tool_is_gone_is_invalidated(harness: LoopHarness) -> None:
    """The run goes on."""
    del harness.core.tools.tools["note"]
    call = work_and_get_call(harness)
    assert (call.status, harness.effects[call.id]) == (C.INVALIDATED, 0)
    assert "no longer there" in call.note
    assert harness.all()[0][0].status == "completed"


class Louder(Note):
    loud: bool = False


def test_a_tool_with_another_schema_is_another_tool(harness: LoopHarness) -> None:
    """One with another kind of effect would be, too."""

    @tool(title="Note", effect="Note", does=Effect.WRITE, name="note")
    def note(args: Louder, context: ToolContext) -> str:
        raise AssertionError("it ran")

    harness.core.tools.tools["note"] = note
    assert work_and_get_call(harness).status is C.INVALIDATED


def test_a_tool_that_became_destructive_is_another_tool(harness: LoopHarness) -> None:
    """People approved a change that can be undone."""
    harness.core.tools.tools["note"] = next(
        each for each in make_tools(lambda *_: "ran") if each.name == "wipe"
    )
    assert work_and_get_call(harness).status is C.INVALIDATED


def test_a_rule_that_denies_now_overrides_an_approval(harness: LoopHarness) -> None:
    """The model is told its reason."""
    harness.core.policy.policy = parse(
        POLICY + '[[rule]]\ntool = "note"\nverdict = "deny"\nreason = "Stocktaking."\n'
    )
    call = work_and_get_call(harness)
    assert (call.status, harness.effects[call.id]) == (C.INVALIDATED, 0)
    assert "Stocktaking." in call.output


def test_if_policy_now_asks_others_the_old_approval_is_not_enough(harness: LoopHarness) -> None:
    """The others approve on a card of its own, within the shorter of the two deadlines."""
    asks = 'verdict = "ask"\napprovers = ["@finance"]\ndeadline = "2h"\n'
    harness.core.policy.policy = parse(f'{POLICY}[[rule]]\ntool = "note"\n{asks}')
    call = work_and_get_call(harness)
    assert (call.status, call.revision, harness.effects[call.id]) == (C.PENDING, 2, 0)
    assert call.deadline == harness.clock.now() + timedelta(hours=1)
    for person in (ANA, CLEO):
        harness.arrive(lambda key, person=person: click(key, "approve", f"{call.id}:2", person))  # type: ignore[misc] # mypy cannot tell a lambda with a default
    harness.loop.tick()
    assert (work_and_get_call(harness).status, harness.effects[call.id]) == (C.SUCCEEDED, 1)
    refused = [row.actor for row in harness.all()[2] if row.event == "decision.refused"]
    assert (refused, [vote.person for vote in harness.votes(call.id, 2)]) == ([ANA], [CLEO])


def test_if_policy_now_has_a_start_time_the_call_is_asked_again(harness: LoopHarness) -> None:
    """It was approved to run at once."""
    at = 'approvers = ["@shop-leads"]\nrun_at = "22:00 Europe/Berlin"\n'
    harness.core.policy.policy = parse(f'{POLICY}[[rule]]\ntool = "note"\nverdict = "ask"\n{at}')
    call = work_and_get_call(harness)
    assert (call.status, call.revision, harness.effects[call.id]) == (C.PENDING, 2, 0)


TIMED = POLICY.replace('"1h"', '"1h"\nrun_at = "22:00 UTC"')
GLASS = TIMED.replace('"1h"', f'"1h"\nbreak_glass = ["{ANA}"]')


@pytest.mark.parametrize(("by_then", "ends"), [(GLASS, C.SUCCEEDED), (TIMED, C.PENDING)])
def test_break_glass_that_policy_no_longer_allows_is_asked_again(
    tmp_path: Path, by_then: str, ends: CallStatus
) -> None:
    """Others had approved it for its start time; its deadline has passed, too."""
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
    assert (work_and_get_call(made).status, made.effects[call.id]) == (ends, ends is C.SUCCEEDED)
    made.stop()


@pytest.mark.parametrize(
    "asks",
    [
        'approvers = ["@shop-leads"]\ndeadline = "2h"\n',
        'approvers = ["@shop-leads", "@finance"]\n',
    ],
)
def test_an_approval_that_meets_the_changed_policy_is_enough(
    harness: LoopHarness, asks: str
) -> None:
    """Nobody is asked again."""
    harness.core.policy.policy = parse(f'{POLICY}[[rule]]\ntool = "note"\nverdict = "ask"\n{asks}')
    call = work_and_get_call(harness)
    assert (call.status, call.revision, harness.effects[call.id]) == (C.SUCCEEDED, 1, 1)


def test_a_rule_that_allows_now_does_not_stop_an_approved_call(harness: LoopHarness) -> None:
    """The rule was relaxed meanwhile."""
    harness.core.policy.policy = parse(POLICY + '[[rule]]\ntool = "note"\nverdict = "allow"\n')
    assert work_and_get_call(harness).status is C.SUCCEEDED


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("name", "again"), [("note", 0), ("wipe", 0), ("put", 1)])
def test_after_a_crash_around_the_effect_only_idempotent_tools_rerun(
    tmp_path: Path, name: str, again: int, when: str
) -> None:
    """The crash is between RUNNING and the result; the second run has the same key."""
    harness = approved(tmp_path / "db", name)
    harness.pool.die = when
    with pytest.raises(Crash):
        harness.work()
    assert harness.all()[1][0].status is C.RUNNING
    harness.stop()
    harness.start()
    call = work_and_get_call(harness)
    assert harness.effects[call.id] == (when == "after") + again
    assert call.status is (C.SUCCEEDED if again else C.UNKNOWN)
    starts = [row.data for row in harness.all()[2] if row.event == "call.running"]
    assert len(starts) == 1 + again
    assert all(call.digest in data for data in starts)
    harness.stop()


def test_a_call_that_may_not_rerun_after_a_crash_is_unknown(tmp_path: Path) -> None:
    """It is no longer what was shown; that it was not run would not be true."""
    harness = interrupted(tmp_path / "db", "put")
    tamper(harness, "UPDATE call SET digest = 'x'")
    call = work_and_get_call(harness)
    assert (call.status, harness.effects[call.id]) == (C.UNKNOWN, 1)
    assert call.deadline is not None
    harness.stop()


def test_a_crash_before_the_next_model_turn_repeats_no_tool(tmp_path: Path) -> None:
    """A failing model does not either."""
    harness = approved(tmp_path / "db")
    harness.model.script = ["crash"]
    with pytest.raises(Crash):
        harness.work()
    harness.stop()
    harness.start()
    harness.model.script = ["fail"]
    call = work_and_get_call(harness)
    assert (call.status, harness.effects[call.id], harness.all()[0][0].status) == (
        C.SUCCEEDED,
        1,
        "failed",
    )
    harness.arrive(lambda key: click(key, "retry", call.run_id, BEN))
    harness.loop.tick()
    assert (
        work_and_get_call(harness).status,
        harness.effects[call.id],
        harness.all()[0][0].status,
    ) == (
        C.SUCCEEDED,
        1,
        "completed",
    )
    assert harness.model.wrong == []
    turns = harness.model.turns
    harness.arrive(lambda key: click(key, "retry", call.run_id, BEN))
    harness.loop.tick()
    harness.work()
    assert harness.model.turns == turns
    assert any(NOTHING_TO_RETRY_REPLY in message.body for message in harness.all()[3])
    harness.stop()


def test_only_the_requester_says_what_became_of_a_call_that_policy_allowed(tmp_path: Path) -> None:
    """Nobody was asked to approve it."""
    harness = LoopHarness(tmp_path / "db")
    harness.model.script, harness.outcome = [[("free", "as asked")]], "loses"
    harness.say("please")
    harness.loop.tick()
    call = work_and_get_call(harness)
    for person, ends in ((ANA, C.UNKNOWN), (BEN, C.SUCCEEDED)):
        harness.arrive(
            lambda key, person=person: click(key, "resolve_done", f"{call.id}:1", person)  # type: ignore[misc] # mypy cannot tell a lambda with a default
        )
        harness.loop.tick()
        assert harness.all()[1][0].status is ends
    harness.stop()
