"""Between the approval and the effect: whatever is no longer what was shown does not run, and says
so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bot.policy.evaluate import parse
from bot.tools import Effect, ToolContext, tool
from storage import audit
from storage.models import Call
from storage.states import CallStatus
from tests.storage.cast import ANA, BEN, CLEO, POLICY, Note, click, make_tools
from tests.storage.crew import Crash, Crew

C = CallStatus


def approved(path: Path, name: str = "note") -> Crew:
    """A request whose one call was approved by Ana, and not taken up yet."""
    made = Crew(path)
    made.model.script = [[(name, "as shown")]]
    made.say("please")
    made.loop.tick()
    made.work()
    call = made.all()[1][0]
    made.arrive(lambda key: click(key, "approve", f"{call.id}:1", ANA))
    made.loop.tick()
    assert made.all()[1][0].status is C.APPROVED
    return made


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """An approved note."""
    made = approved(tmp_path / "db")
    yield made
    made.stop()


def tamper(crew: Crew, *statements: str) -> None:
    """Change the database by hand, past the triggers."""
    with closing(sqlite3.connect(crew.path, isolation_level=None)) as raw:
        for table in ("revision", "vote"):
            for verb in ("update", "delete"):
                raw.execute(f"DROP TRIGGER {table}_no_{verb}")
        for statement in statements:
            raw.execute(statement)


def worked(crew: Crew) -> Call:
    """Let the workers do what there is to do; the call as it ended."""
    crew.work()
    assert crew.wrong == []
    return crew.all()[1][0]


def test_what_was_shown_runs(crew: Crew) -> None:
    """X01: the approved call runs once, with what was shown, and the model hears by whom it was
    approved.
    """
    call = worked(crew)
    assert (call.status, crew.effects[call.id]) == (C.SUCCEEDED, 1)
    assert f"Approved by <@{ANA}>" in call.output


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
def test_what_was_changed_by_hand_does_not_run(crew: Crew, what: str) -> None:
    """B01: anything altered in storage after the card was shown is refused, audited, and told to
    the model.
    """
    tamper(crew, *TAMPERED[what])
    call = worked(crew)
    assert (call.status, sum(crew.effects.values())) == (C.INVALIDATED, 0)
    assert call.output.startswith("INVALIDATED: it was not run, because")
    told = [row for row in crew.all()[2] if row.call_id == call.id]
    assert [row.event for row in told] == ["call.born.pending", "call.approved", "call.invalidated"]
    assert '"why"' in told[-1].data
    with crew.store.read() as tx:
        assert audit.verify(tx) is None


def test_a_tool_that_is_gone(crew: Crew) -> None:
    """B07: after a deploy without the tool the call is invalidated, and the run goes on."""
    del crew.core.tools.tools["note"]
    call = worked(crew)
    assert (call.status, crew.effects[call.id]) == (C.INVALIDATED, 0)
    assert "no longer there" in call.note
    assert crew.all()[0][0].status == "completed"


class Louder(Note):
    loud: bool = False


def test_a_tool_with_another_schema(crew: Crew) -> None:
    """B07: the same name with another schema, or another effect on the world, is another tool."""

    @tool(title="Note", effect="Note", does=Effect.WRITE, name="note")
    def note(args: Louder, context: ToolContext) -> str:
        raise AssertionError("it ran")

    crew.core.tools.tools["note"] = note
    assert worked(crew).status is C.INVALIDATED


def test_a_tool_that_became_dangerous(crew: Crew) -> None:
    """B07: what was approved as a change that can be put right is not run as one that cannot."""
    crew.core.tools.tools["note"] = next(
        each for each in make_tools(lambda *_: "ran") if each.name == "wipe"
    )
    assert worked(crew).status is C.INVALIDATED


def test_policy_now_denies(crew: Crew) -> None:
    """B05: a yes of a person does not override a rule that forbids it now."""
    crew.core.policy = parse(
        POLICY + '[[rule]]\ntool = "note"\nverdict = "deny"\nreason = "Stocktaking."\n'
    )
    call = worked(crew)
    assert (call.status, crew.effects[call.id]) == (C.INVALIDATED, 0)
    assert "Stocktaking." in call.output


def test_policy_now_asks_others(crew: Crew) -> None:
    """B06, B12: when others must approve now, the old yes is not enough.

    Theirs, on a card of its own, is.
    """
    crew.core.policy = parse(
        POLICY + '[[rule]]\ntool = "note"\nverdict = "ask"\napprovers = ["@finance"]\n'
    )
    call = worked(crew)
    assert (call.status, call.revision, crew.effects[call.id]) == (C.PENDING, 2, 0)
    for person in (ANA, CLEO):
        crew.arrive(lambda key, person=person: click(key, "approve", f"{call.id}:2", person))  # type: ignore[misc] # mypy cannot tell a lambda with a default
    crew.loop.tick()
    assert (worked(crew).status, crew.effects[call.id]) == (C.SUCCEEDED, 1)
    refused = [row.actor for row in crew.all()[2] if row.event == "decision.refused"]
    assert (refused, [vote.person for vote in crew.votes(call.id, 2)]) == ([ANA], [CLEO])


def test_policy_now_allows(crew: Crew) -> None:
    """B06: a rule that was relaxed meanwhile does not stand in the way of what people approved."""
    crew.core.policy = parse(POLICY + '[[rule]]\ntool = "note"\nverdict = "allow"\n')
    assert worked(crew).status is C.SUCCEEDED


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("name", "again"), [("note", 0), ("wipe", 0), ("put", 1)])
def test_a_death_around_the_effect(tmp_path: Path, name: str, again: int, when: str) -> None:
    """X06: after a crash between RUNNING and the result nothing runs again, but what is idempotent,
    under its key.
    """
    crew = approved(tmp_path / "db", name)
    crew.pool.die = when
    with pytest.raises(Crash):
        crew.work()
    assert crew.all()[1][0].status is C.RUNNING
    crew.stop()
    crew.start()
    call = worked(crew)
    assert crew.effects[call.id] == (when == "after") + again
    assert call.status is (C.SUCCEEDED if again else C.UNKNOWN)
    crew.stop()


def test_a_death_before_the_next_model_turn(tmp_path: Path) -> None:
    """X07, X08: when the process dies, or the model fails, after the result, the tool is not run
    again.
    """
    crew = approved(tmp_path / "db")
    crew.model.script = ["crash"]
    with pytest.raises(Crash):
        crew.work()
    crew.stop()
    crew.start()
    crew.model.script = ["fail"]
    call = worked(crew)
    assert (call.status, crew.effects[call.id], crew.all()[0][0].status) == (
        C.SUCCEEDED,
        1,
        "failed",
    )
    crew.arrive(lambda key: click(key, "retry", call.run_id, BEN))
    crew.loop.tick()
    assert (worked(crew).status, crew.effects[call.id], crew.all()[0][0].status) == (
        C.SUCCEEDED,
        1,
        "completed",
    )
    assert crew.model.wrong == []
    crew.stop()
