"""Whether an approval is still enough when its call starts: time, policy or grant may differ."""

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
from tests.runs.harness import Crash, LoopHarness, approved, interrupted
from tests.storage.builders import HOUR, click, submission

C = CallStatus
Begin = Callable[..., LoopHarness]
NOTE = '[[rule]]\ntool = "note"\nverdict = "ask"\n'
MINUTE = timedelta(minutes=1)


@pytest.fixture
def begin_request(tmp_path: Path) -> Iterator[Begin]:
    """Begins a request whose calls wait, under a policy with these lines for notes."""
    made: list[LoopHarness] = []

    def begun(
        lines: str = "", texts: Sequence[str] = ("as shown",), first: str = "note"
    ) -> LoopHarness:
        harness = LoopHarness(tmp_path / f"{len(made)}.db")
        made.append(harness)
        set_policy(harness, lines)
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


def set_policy(harness: LoopHarness, lines: str) -> None:
    """Set the policy for notes."""
    harness.core.policy.policy = parse(f"{POLICY}{NOTE}{lines}")


def click_button(harness: LoopHarness, action: str, person: str, index: int = 0) -> None:
    """A click on the first revision of a call, decided at once."""
    call = harness.all()[1][index]
    harness.arrive(lambda key: click(key, action, f"{call.id}:1", person))
    harness.loop.tick()


def work_and_get_call(harness: LoopHarness) -> Call:
    """Let the workers do all work; returns the first call as it is then."""
    harness.work()
    assert harness.wrong == []
    return harness.all()[1][0]


@pytest.mark.parametrize(("waited", "status"), [(86_400, C.SUCCEEDED), (86_401, C.PENDING)])
def test_an_approval_older_than_a_day_is_asked_again(
    begin_request: Begin, waited: int, status: CallStatus
) -> None:
    """It is, whatever the call waited for; the note says why."""
    harness = begin_request()
    click_button(harness, "approve", ANA)
    harness.clock.at += timedelta(seconds=waited)
    call = work_and_get_call(harness)
    assert call.status is status
    assert ("had not started" in call.note) is (status is C.PENDING)
    assert harness.effects[call.id] == (status is C.SUCCEEDED)


def test_calls_allowed_by_policy_or_grant_do_not_expire_while_waiting(begin_request: Begin) -> None:
    """They wait for the rest of their plan."""
    allowed = begin_request(texts=("one", "two"), first="free")
    granted = begin_request(EVERYWHERE, texts=("one", "two"))
    approve_by_grant(granted)
    for each in (allowed, granted):
        each.clock.at += 45 * MINUTE
        click_button(each, "approve", ANA, 1)
        each.clock.at += MINUTE
        assert work_without_vote_check(each).status is C.SUCCEEDED


RUN_AGAIN = {
    "what people had approved": "note",
    "what policy allows": "free",
    "what was remembered": "note",
}


@pytest.mark.parametrize("days", [0, 3])
@pytest.mark.parametrize("what", RUN_AGAIN)
def test_a_decision_to_run_an_unknown_call_again_expires(
    begin_request: Begin, what: str, days: int
) -> None:
    """After three days it does not run unasked, however it had been approved first."""
    tool = RUN_AGAIN[what]
    harness = begin_request(EVERYWHERE, texts=("one", "two"), first=tool)
    if what == "what was remembered":
        approve_by_grant(harness)
    elif tool == "note":
        click_button(harness, "approve", ANA)
    click_button(harness, "approve", ANA, 1)
    harness.outcome = "loses"
    call = work_without_vote_check(harness)
    assert (call.status, harness.effects[call.id]) == (C.UNKNOWN, 1)
    click_button(
        harness, "run_again", BEN if tool == "free" else ANA
    )  # the requester may say so there
    assert harness.all()[1][0].status is C.APPROVED
    harness.clock.at += timedelta(days=days)
    call = work_without_vote_check(harness)
    assert call.status is (C.UNKNOWN if days else C.SUCCEEDED)
    assert harness.effects[call.id] == (1 if days else 2)


@pytest.mark.parametrize("days", [0, 3])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_call_interrupted_by_a_crash_is_not_repeated_days_later(
    tmp_path: Path, when: str, days: int
) -> None:
    """Its tool may run twice; after three days people are asked whether it is still wanted."""
    harness = approved(tmp_path / "db", "put")
    harness.pool.die = when
    with suppress(Crash):
        harness.work()
    harness.stop()
    harness.clock.at += timedelta(days=days)
    harness.start()
    call = work_without_vote_check(harness)
    assert call.status is (C.UNKNOWN if days else C.SUCCEEDED)
    assert harness.effects[call.id] == (when == "after") + (not days)
    harness.stop()


def test_a_call_that_policy_now_asks_about_waits_for_people(begin_request: Begin) -> None:
    """Policy allowed it before, so nobody has approved it."""
    harness = begin_request(texts=("one", "two"), first="free")
    strict = POLICY.replace('verdict = "allow"', 'verdict = "ask"')
    harness.core.policy.policy = parse(strict)
    click_button(harness, "approve", ANA, 1)
    call = work_without_vote_check(harness)
    assert (call.tool, call.status, harness.effects[call.id]) == ("free", C.PENDING, 0)


@pytest.mark.parametrize(("waited", "status"), [(5, C.SUCCEEDED), (6, C.PENDING)])
def test_a_rule_says_how_long_an_approval_is_good(
    begin_request: Begin, waited: int, status: CallStatus
) -> None:
    """The time begins with the click, though another call of the plan is decided long after it."""
    harness = begin_request('good_for = "5h"\n', texts=("one", "two"))
    click_button(harness, "approve", ANA)
    harness.clock.at += timedelta(hours=waited - 1)
    click_button(harness, "approve", ANA, 1)
    harness.clock.at += timedelta(hours=1)
    assert work_and_get_call(harness).status is status


@pytest.mark.parametrize(("good_for", "status"), [("29m", C.PENDING), ("30m", C.SUCCEEDED)])
def test_a_shorter_good_for_in_the_policy_applies_at_the_start(
    begin_request: Begin, good_for: str, status: CallStatus
) -> None:
    """The card had said a longer time."""
    harness = begin_request(texts=("one", "two"))
    click_button(harness, "approve", ANA)
    harness.clock.at += 30 * MINUTE
    click_button(harness, "approve", ANA, 1)
    set_policy(harness, f'good_for = "{good_for}"\n')
    assert work_and_get_call(harness).status is status


@pytest.mark.parametrize(("deadline", "status"), [("30m", C.PENDING), ("31m", C.SUCCEEDED)])
def test_a_vote_after_a_shortened_deadline_is_asked_again(
    begin_request: Begin, deadline: str, status: CallStatus
) -> None:
    """The deadline is that of the policy at the start."""
    harness = begin_request()
    harness.clock.at += 30 * MINUTE
    click_button(harness, "approve", ANA)
    set_policy(harness, f'deadline = "{deadline}"\n')
    assert work_and_get_call(harness).status is status


def test_an_approval_without_a_reason_now_required_is_asked_again(begin_request: Begin) -> None:
    """A changed gate that requires no more reasons is met."""
    harness = begin_request()
    click_button(harness, "approve", ANA)
    set_policy(harness, 'reasons = "always"\n')
    assert work_and_get_call(harness).status is C.PENDING
    fewer = begin_request('reasons = "reject"\n')
    click_button(fewer, "approve", ANA)
    set_policy(fewer, "self_approval = true\n")
    assert work_and_get_call(fewer).status is C.SUCCEEDED


@pytest.mark.parametrize(
    ("shown", "now"), [("never", "reject"), ("always", "approve"), ("always", "reject")]
)
def test_given_reasons_and_reasons_of_rejections_are_enough(
    begin_request: Begin, shown: str, now: str
) -> None:
    """Nobody is asked again."""
    harness = begin_request(f'reasons = "{shown}"\n')
    call = harness.all()[1][0]
    about, words = {"call": call.id, "revision": 1}, {InputBlockId.NOTE: {"text": {"value": "ok"}}}
    if shown == "never":
        click_button(harness, "approve", ANA)
    else:
        harness.arrive(lambda key: submission(key, DialogId.REVIEW, about, words, ANA))
        harness.loop.tick()
    set_policy(harness, f'reasons = "{now}"\n')
    assert work_and_get_call(harness).status is C.SUCCEEDED


@pytest.mark.parametrize(("veto", "status"), [(1, C.PENDING), (2, C.SUCCEEDED)])
def test_an_earlier_rejection_that_now_vetoes_is_asked_again(
    begin_request: Begin, veto: int, status: CallStatus
) -> None:
    """The veto was larger when the card was shown."""
    harness = begin_request("veto = 3\n")
    click_button(harness, "reject_now", CLEO)
    click_button(harness, "approve", ANA)
    assert harness.all()[1][0].status is C.APPROVED
    set_policy(harness, f"veto = {veto}\n")
    assert work_and_get_call(harness).status is status


def test_an_earlier_rejection_without_a_reason_now_vetoes(begin_request: Begin) -> None:
    """Only approvals need a reason."""
    harness = begin_request('veto = 3\nreasons = "approve"\n')
    click_button(harness, "reject_now", CLEO)
    about = {"call": harness.all()[1][0].id, "revision": 1}
    words = {InputBlockId.NOTE: {"text": {"value": "it is fine"}}}
    harness.arrive(lambda key: submission(key, DialogId.REVIEW, about, words, ANA))
    harness.loop.tick()
    assert harness.all()[1][0].status is C.APPROVED
    set_policy(harness, 'veto = 1\nreasons = "approve"\n')
    assert work_and_get_call(harness).status is C.PENDING


def test_a_changed_gate_needs_its_approvers_looked_up(begin_request: Begin) -> None:
    """Under the same gate nobody is looked up again."""
    harness, same = begin_request(), begin_request()
    for each in (harness, same):
        click_button(each, "approve", ANA)
        each.directory.down = True
    set_policy(harness, 'approvers = ["@shop-leads", "@finance"]\n')
    assert work_and_get_call(harness).status is not C.SUCCEEDED
    assert sum(harness.effects.values()) == 0
    assert work_and_get_call(same).status is C.SUCCEEDED


EVERYWHERE = 'remember = [{where = "everywhere", uses = 2}]\n'


def approve_by_grant(harness: LoopHarness) -> str:
    """Have the call approved by a grant of Ana's instead of votes."""
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


def get_remaining_uses(harness: LoopHarness, grant_id: str) -> int:
    """How often the grant may still be used."""
    with harness.store.read() as tx:
        grant = grants.find_grant(tx, grant_id)
    assert grant is not None
    return grant.uses


def work_without_vote_check(harness: LoopHarness) -> Call:
    """Let the workers do all work, without a look at votes; returns the first call."""
    harness.work()
    return harness.all()[1][0]


def test_the_start_of_a_call_uses_up_its_grant(begin_request: Begin) -> None:
    """It does so once, and the grant has not become too old."""
    harness = begin_request(EVERYWHERE)
    grant = approve_by_grant(harness)
    harness.clock.at += HOUR
    assert (work_without_vote_check(harness).status, get_remaining_uses(harness, grant)) == (
        C.SUCCEEDED,
        1,
    )


def test_a_call_whose_grant_no_longer_counts_is_asked_again(begin_request: Begin) -> None:
    """It was revoked, its giver left, or its rule changed; it is not used up."""

    def revoked(harness: LoopHarness, grant: str) -> None:
        with harness.store.write() as tx:
            grants.revoke_grant(tx, grant, ANA, harness.clock.now())

    def left(harness: LoopHarness, _grant: str) -> None:
        harness.directory.groups["shop-leads"] = frozenset({CLEO})

    def changed(harness: LoopHarness, _grant: str) -> None:
        set_policy(harness, f'{EVERYWHERE}deadline = "50m"\n')

    for happens in (revoked, left, changed):
        harness = begin_request(EVERYWHERE)
        grant = approve_by_grant(harness)
        happens(harness, grant)
        call = work_without_vote_check(harness)
        assert (call.status, call.revision, get_remaining_uses(harness, grant)) == (C.PENDING, 2, 2)
        assert "saved approval for this no longer holds" in call.note
        assert harness.effects[call.id] == 0


def execute_after(harness: LoopHarness, meanwhile: Callable[[Any, Any], None]) -> Call:
    """Claim the run and execute its call, after something that happens in between."""
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


def test_a_request_cancelled_before_the_start_runs_nothing(begin_request: Begin) -> None:
    """A worker had already claimed it."""
    harness = begin_request()
    click_button(harness, "approve", ANA)

    def cancelled(tx: Any, run: Any) -> None:
        moves.change_run_status(tx, run, RunStatus.CANCELLED, at=harness.clock.now())

    call = execute_after(harness, cancelled)
    assert (call.status, harness.effects[call.id]) == (C.APPROVED, 0)


def test_a_call_without_its_arguments_is_not_started(begin_request: Begin) -> None:
    """It is left as it is."""
    harness = begin_request()
    click_button(harness, "approve", ANA)

    def lost(tx: Any, run: Any) -> None:
        tx.execute(update(Call).where(col(Call.run_id) == run.id).values(revision=7))

    call = execute_after(harness, lost)
    assert (call.status, sum(harness.effects.values())) == (C.APPROVED, 0)


def test_an_interrupted_call_whose_tool_is_gone_is_unknown(tmp_path: Path) -> None:
    """It is not run again, though its tool might have been."""
    harness = interrupted(tmp_path / "db", "put")
    del harness.core.tools.tools["put"]
    call = work_and_get_call(harness)
    assert (call.status, harness.effects[call.id]) == (C.UNKNOWN, 1)
    harness.stop()
