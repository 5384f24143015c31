"""Whether what was approved is enough at the start: by then time, policy or a grant may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import col

from bot.approvals import grants as remembered
from bot.cards.action_names import DialogId, InputBlockId
from bot.policy.evaluation import parse
from bot.policy.gates import GrantOffer
from storage import calls, grants, moves
from storage.models import Call
from storage.states import CallStatus, RunStatus
from tests.runs.fakes import ANA, BEN, CLEO, POLICY
from tests.runs.harness import Crash, LoopHarness, approved
from tests.storage.builders import HOUR, click, submission

C = CallStatus
Begin = Callable[..., LoopHarness]
NOTE = '[[rule]]\ntool = "note"\nverdict = "ask"\n'
MINUTE = timedelta(minutes=1)


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begins a request whose calls wait, under a policy with these lines for notes."""
    made: list[LoopHarness] = []

    def begun(
        lines: str = "", texts: Sequence[str] = ("as shown",), first: str = "note"
    ) -> LoopHarness:
        harness = LoopHarness(tmp_path / f"{len(made)}.db")
        made.append(harness)
        policy(harness, lines)
        harness.model.script = [
            [("note" if number else first, text) for number, text in enumerate(texts)]
        ]
        harness.say("please")
        harness.loop.tick()
        harness.work()
        return harness

    yield begun
    for each in made:
        each.stop()


def policy(harness: LoopHarness, lines: str) -> None:
    """What holds for notes from now on."""
    harness.core.policy.policy = parse(f"{POLICY}{NOTE}{lines}")


def press(harness: LoopHarness, action: str, person: str, index: int = 0) -> None:
    """A click on the first revision of a call, decided at once."""
    call = harness.all()[1][index]
    harness.arrive(lambda key: click(key, action, f"{call.id}:1", person))
    harness.loop.tick()


def worked(harness: LoopHarness) -> Call:
    """Let the workers do what there is to do; the first call as it stands then."""
    harness.work()
    assert harness.wrong == []
    return harness.all()[1][0]


@pytest.mark.parametrize(("waited", "status"), [(86_400, C.SUCCEEDED), (86_401, C.PENDING)])
def test_an_approval_that_had_to_wait(begin: Begin, waited: int, status: CallStatus) -> None:
    """Longer than a day, whatever it waited for: it is asked again, and says why."""
    harness = begin()
    press(harness, "approve", ANA)
    harness.clock.at += timedelta(seconds=waited)
    call = worked(harness)
    assert call.status is status
    assert ("had not started" in call.note) is (status is C.PENDING)
    assert harness.effects[call.id] == (status is C.SUCCEEDED)


def test_what_nobody_approved_grows_no_older(begin: Begin) -> None:
    """What policy allows, or was remembered, waits for the rest of its plan as long as it takes."""
    allowed = begin(texts=("one", "two"), first="free")
    granted = begin(EVERYWHERE, texts=("one", "two"))
    on_grant(granted)
    for each in (allowed, granted):
        each.clock.at += 45 * MINUTE
        press(each, "approve", ANA, 1)
        each.clock.at += MINUTE
        assert runs_on_it(each).status is C.SUCCEEDED


RUN_AGAIN = {
    "what people had approved": "note",
    "what policy allows": "free",
    "what was remembered": "note",
}


@pytest.mark.parametrize("days", [0, 3])
@pytest.mark.parametrize("what", RUN_AGAIN)
def test_a_yes_to_run_it_again_grows_old(begin: Begin, what: str, days: int) -> None:
    """Nobody knew how it ended and somebody had it run again; then nobody worked for three days:
    it does not run unasked, whyever it had been approved before, and still nobody knows.
    """
    tool = RUN_AGAIN[what]
    harness = begin(EVERYWHERE, texts=("one", "two"), first=tool)
    if what == "what was remembered":
        on_grant(harness)
    elif tool == "note":
        press(harness, "approve", ANA)
    press(harness, "approve", ANA, 1)
    harness.outcome = "loses"
    call = runs_on_it(harness)
    assert (call.status, harness.effects[call.id]) == (C.UNKNOWN, 1)
    press(harness, "run_again", BEN if tool == "free" else ANA)  # whoever asked may say so there
    assert harness.all()[1][0].status is C.APPROVED
    harness.clock.at += timedelta(days=days)
    call = runs_on_it(harness)
    assert call.status is (C.UNKNOWN if days else C.SUCCEEDED)
    assert harness.effects[call.id] == (1 if days else 2)


@pytest.mark.parametrize("days", [0, 3])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_start_that_a_crash_cut_short_grows_old(tmp_path: Path, when: str, days: int) -> None:
    """A tool that may be run twice is run again after a crash; three days later nobody is sure that
    it is still wanted, and people are asked.
    """
    harness = approved(tmp_path / "db", "put")
    harness.pool.die = when
    with suppress(Crash):
        harness.work()
    harness.stop()
    harness.clock.at += timedelta(days=days)
    harness.start()
    call = runs_on_it(harness)
    assert call.status is (C.UNKNOWN if days else C.SUCCEEDED)
    assert harness.effects[call.id] == (when == "after") + (not days)
    harness.stop()


def test_what_was_allowed_and_is_asked_by_now(begin: Begin) -> None:
    """Nobody has approved it, so it waits for people."""
    harness = begin(texts=("one", "two"), first="free")
    strict = POLICY.replace('verdict = "allow"', 'verdict = "ask"')
    harness.core.policy.policy = parse(strict)
    press(harness, "approve", ANA, 1)
    call = runs_on_it(harness)
    assert (call.tool, call.status, harness.effects[call.id]) == ("free", C.PENDING, 0)


@pytest.mark.parametrize(("waited", "status"), [(5, C.SUCCEEDED), (6, C.PENDING)])
def test_a_rule_says_how_long_an_approval_is_good(
    begin: Begin, waited: int, status: CallStatus
) -> None:
    """From the click, though its sibling is decided long after it."""
    harness = begin('good_for = "5h"\n', texts=("one", "two"))
    press(harness, "approve", ANA)
    harness.clock.at += timedelta(hours=waited - 1)
    press(harness, "approve", ANA, 1)
    harness.clock.at += timedelta(hours=1)
    assert worked(harness).status is status


@pytest.mark.parametrize(("good_for", "status"), [("29m", C.PENDING), ("30m", C.SUCCEEDED)])
def test_an_approval_that_is_too_old_by_now(
    begin: Begin, good_for: str, status: CallStatus
) -> None:
    """How long it is good counts as policy says it now, if that is less than the card said."""
    harness = begin(texts=("one", "two"))
    press(harness, "approve", ANA)
    harness.clock.at += 30 * MINUTE
    press(harness, "approve", ANA, 1)
    policy(harness, f'good_for = "{good_for}"\n')
    assert worked(harness).status is status


@pytest.mark.parametrize(("deadline", "status"), [("30m", C.PENDING), ("31m", C.SUCCEEDED)])
def test_a_vote_after_the_deadline_that_holds_by_now(
    begin: Begin, deadline: str, status: CallStatus
) -> None:
    """It came too late for it, and people are asked again."""
    harness = begin()
    harness.clock.at += 30 * MINUTE
    press(harness, "approve", ANA)
    policy(harness, f'deadline = "{deadline}"\n')
    assert worked(harness).status is status


def test_reasons_that_are_wanted_by_now(begin: Begin) -> None:
    """Who approved was not asked for one; where they were, and no more is wanted, it is enough."""
    harness = begin()
    press(harness, "approve", ANA)
    policy(harness, 'reasons = "always"\n')
    assert worked(harness).status is C.PENDING
    fewer = begin('reasons = "reject"\n')
    press(fewer, "approve", ANA)
    policy(fewer, "self_approval = true\n")
    assert worked(fewer).status is C.SUCCEEDED


@pytest.mark.parametrize(
    ("shown", "now"), [("never", "reject"), ("always", "approve"), ("always", "reject")]
)
def test_reasons_that_nobody_lacks(begin: Begin, shown: str, now: str) -> None:
    """Nobody is asked again for a reason that was given, or for one of a rejection."""
    harness = begin(f'reasons = "{shown}"\n')
    call = harness.all()[1][0]
    about, words = {"call": call.id, "revision": 1}, {InputBlockId.NOTE: {"text": {"value": "ok"}}}
    if shown == "never":
        press(harness, "approve", ANA)
    else:
        harness.arrive(lambda key: submission(key, DialogId.REVIEW, about, words, ANA))
        harness.loop.tick()
    policy(harness, f'reasons = "{now}"\n')
    assert worked(harness).status is C.SUCCEEDED


@pytest.mark.parametrize(("veto", "status"), [(1, C.PENDING), (2, C.SUCCEEDED)])
def test_a_rejection_that_is_one_too_many_by_now(
    begin: Begin, veto: int, status: CallStatus
) -> None:
    """It did not end it then; where one is enough now, people are asked again."""
    harness = begin("veto = 3\n")
    press(harness, "reject_now", CLEO)
    press(harness, "approve", ANA)
    assert harness.all()[1][0].status is C.APPROVED
    policy(harness, f"veto = {veto}\n")
    assert worked(harness).status is status


def test_who_approved_cannot_be_looked_up(begin: Begin) -> None:
    """Under another gate that is no yes; under the same nobody is looked up again."""
    harness, same = begin(), begin()
    for each in (harness, same):
        press(each, "approve", ANA)
        each.directory.down = True
    policy(harness, 'approvers = ["@shop-leads", "@finance"]\n')
    assert worked(harness).status is not C.SUCCEEDED
    assert sum(harness.effects.values()) == 0
    assert worked(same).status is C.SUCCEEDED


EVERYWHERE = 'remember = [{where = "everywhere", uses = 2}]\n'


def on_grant(harness: LoopHarness) -> str:
    """Have the call run on a remembered approval of Ana's, in the place of votes."""
    run, call = harness.all()[0][0], harness.all()[1][0]
    offer, now = GrantOffer(where="everywhere", uses=2), harness.clock.now()
    with harness.store.write() as tx:
        policy_ = harness.core.policy
        grant = remembered.save_approval_as_grant(tx, policy_, run, call, ANA, offer, now=now)
        assert grant is not None
        tx.execute(
            update(Call).where(col(Call.id) == call.id).values(grant_id=grant.id, decided_at=None)
        )
        waits = calls.find_call(tx, call.id)
        assert waits is not None
        moves.change_call_status(tx, waits, C.APPROVED, at=now, actor="policy")
        moves.resume_run_if_unblocked(tx, run.id, at=now, actor="policy")
    return grant.id


def uses(harness: LoopHarness, grant_id: str) -> int:
    """How often it may be used yet."""
    with harness.store.read() as tx:
        grant = grants.find_grant(tx, grant_id)
    assert grant is not None
    return grant.uses


def runs_on_it(harness: LoopHarness) -> Call:
    """Let it run, without a look at votes; the call as it stands then."""
    harness.work()
    return harness.all()[1][0]


def test_a_remembered_approval_is_used_up_by_the_start(begin: Begin) -> None:
    """Once, and it does not grow old."""
    harness = begin(EVERYWHERE)
    grant = on_grant(harness)
    harness.clock.at += HOUR
    assert (runs_on_it(harness).status, uses(harness, grant)) == (C.SUCCEEDED, 1)


def test_a_remembered_approval_that_holds_no_longer(begin: Begin) -> None:
    """Revoked, its giver gone, or its rule changed: people are asked, and it is not used up."""

    def revoked(harness: LoopHarness, grant: str) -> None:
        with harness.store.write() as tx:
            grants.revoke_grant(tx, grant, ANA, harness.clock.now())

    def left(harness: LoopHarness, _grant: str) -> None:
        harness.directory.groups["shop-leads"] = frozenset({CLEO})

    def changed(harness: LoopHarness, _grant: str) -> None:
        policy(harness, f'{EVERYWHERE}deadline = "50m"\n')

    for happens in (revoked, left, changed):
        harness = begin(EVERYWHERE)
        grant = on_grant(harness)
        happens(harness, grant)
        call = runs_on_it(harness)
        assert (call.status, call.revision, uses(harness, grant)) == (C.PENDING, 2, 2)
        assert "saved approval for this no longer holds" in call.note
        assert harness.effects[call.id] == 0


def executed(harness: LoopHarness, meanwhile: Callable[[Any, Any], None]) -> Call:
    """Take the run up and execute its call, after something that happens in between."""
    no_portal: Any = None
    executor = harness.core.build_executor(harness.pool, no_portal)
    now = harness.clock.now()
    with harness.store.write() as tx:
        run = moves.claim_run(tx, harness.all()[0][0].id, at=now, lease_until=now + HOUR)
        assert run is not None
    call = harness.all()[1][0]
    with harness.store.write() as tx:
        meanwhile(tx, run)
    assert executor.execute_call(run, call) is None
    return harness.all()[1][0]


def test_a_request_that_is_over_starts_nothing(begin: Begin) -> None:
    """Cancelled while a worker was on its way to it."""
    harness = begin()
    press(harness, "approve", ANA)

    def cancelled(tx: Any, run: Any) -> None:
        moves.change_run_status(tx, run, RunStatus.CANCELLED, at=harness.clock.now())

    call = executed(harness, cancelled)
    assert (call.status, harness.effects[call.id]) == (C.APPROVED, 0)


def test_what_is_of_no_revision_starts_nothing(begin: Begin) -> None:
    """A call whose arguments are not there is left as it is."""
    harness = begin()
    press(harness, "approve", ANA)

    def lost(tx: Any, run: Any) -> None:
        tx.execute(update(Call).where(col(Call.run_id) == run.id).values(revision=7))

    call = executed(harness, lost)
    assert (call.status, sum(harness.effects.values())) == (C.APPROVED, 0)


def test_a_tool_that_is_gone_after_a_crash(tmp_path: Path) -> None:
    """Nobody knows what became of it, and it is not run again though it might have been."""
    harness = approved(tmp_path / "db", "put")
    harness.pool.die = "after"
    with pytest.raises(Crash):
        harness.work()
    harness.stop()
    harness.start()
    del harness.core.tools.tools["put"]
    call = worked(harness)
    assert (call.status, harness.effects[call.id]) == (C.UNKNOWN, 1)
    harness.stop()
