"""What people and the clock decide, each in the caller's transaction: vote, edit, expire, cancel, resolve, remake.

Whether a person may decide is settled before (bot.authority); whether the decision still counts is settled here, by
compare-and-swap on status, revision and deadline. The loser gets a typed outcome that says what happened instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, update
from sqlmodel import col

from storage import audit, calls, moves, runs
from storage.models import Call, Plan, Revision, Run, Vote
from storage.states import CallStatus, RunStatus

C = CallStatus


@dataclass(frozen=True, slots=True)
class Applied:
    """It counts."""

    call: Call


@dataclass(frozen=True, slots=True)
class Decided:
    """Somebody, or the clock, was first; `call` as it stands now."""

    call: Call


@dataclass(frozen=True, slots=True)
class Stale:
    """The button belongs to an older revision."""

    call: Call


@dataclass(frozen=True, slots=True)
class TooLate:
    """It was stored at or after the deadline."""

    call: Call


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no such call."""


Outcome = Applied | Decided | Stale | TooLate | Gone


def look(tx: Connection, call_id: str, revision: int, at: datetime) -> Outcome:
    """What a decision on this revision, stored at `at`, would meet; Applied means it is open."""
    call = calls.get(tx, call_id)
    if call is None:
        return Gone()
    if call.status is not C.PENDING:
        return Decided(call)
    if call.revision != revision:
        return Stale(call)
    if call.deadline is not None and at >= call.deadline:
        return TooLate(call)
    return Applied(call)


def vote(
    tx: Connection, call_id: str, revision: int, verb: str, person: str, *, at: datetime, reason: str = ""
) -> Outcome:
    """Approve or reject (`verb`) one revision, as of the moment `at` when the click was stored."""
    if verb not in ("approve", "reject"):
        raise ValueError(f"unknown verb {verb!r}")
    found = look(tx, call_id, revision, at)
    if not isinstance(found, Applied):
        return found
    call = found.call
    row = Vote(call_id=call.id, revision=revision, person=person, verb=verb, digest=call.digest, created_at=at)
    row.reason = reason
    calls.add_vote(tx, row)
    target = C.APPROVED if verb == "approve" else C.REJECTED
    details = {"digest": call.digest, "reason": reason}
    output = rejected_output(person, reason) if target is C.REJECTED else ""
    if not moves.call(tx, call, target, at=at, actor=person, data=details, decided_at=at, note=reason, output=output):
        raise RuntimeError("a call moved inside the writer's own transaction")
    runs.free(tx, call.run_id, at=at, actor=person)
    return Applied(calls.get(tx, call_id) or call)


def rejected_output(person: str, reason: str) -> str:
    """What the model is told of a rejection; the reason is quoted and bounded."""
    quoted = f' Their reason, quoted: "{reason[:500]}"' if reason else " They gave no reason."
    return f"REJECTED by <@{person}>; it was not run.{quoted} Do not propose the same call again unchanged."


def edit(
    tx: Connection,
    call_id: str,
    revision: int,
    person: str,
    *,
    at: datetime,
    arguments: str,
    digest: str,
    gate: str,
    deadline: datetime | None,
    preview: str,
    expects: str = "",
) -> Outcome:
    """Make the next revision: earlier votes count no longer and every older button is dead."""
    found = look(tx, call_id, revision, at)
    if not isinstance(found, Applied):
        return found
    call, number = found.call, revision + 1
    calls.add_revision(
        tx,
        Revision(call_id=call.id, number=number, arguments=arguments, digest=digest, author=person, created_at=at),
    )
    _renumber(tx, call, number, digest=digest, gate=gate, deadline=deadline, preview=preview, expects=expects)
    details = {"revision": number, "digest": digest, "tool": call.tool}
    audit.record(tx, "call.edited", at=at, actor=person, run_id=call.run_id, call_id=call.id, data=details)
    moves.touch(tx, call.plan_id)
    return Applied(calls.get(tx, call_id) or call)


def _renumber(tx: Connection, call: Call, number: int, **columns: object) -> None:
    where = (col(Call.id) == call.id, col(Call.revision) == call.revision)
    tx.execute(update(Call).where(*where).values(revision=number, **columns))


def ask_again(
    tx: Connection, call: Call, *, at: datetime, actor: str, why: str, deadline: datetime, digest: str, **shown: str
) -> bool:
    """APPROVED or RUNNING -> PENDING as a new revision of the same arguments; RUNNING only where nothing was done.

    `shown`: what the new card stands on: gate, preview, expects.
    """
    current = calls.revision(tx, call.id, call.revision)
    if current is None:
        return False
    number = call.revision + 1
    row = Revision(call_id=call.id, number=number, arguments=current.arguments, digest=digest, author="agent")
    row.created_at = at
    if not moves.call(tx, call, C.PENDING, at=at, actor=actor, data={"why": why}, deadline=deadline, note=why):
        return False
    calls.add_revision(tx, row)
    _renumber(tx, call, number, digest=digest, **shown)
    return True


def expire(tx: Connection, call: Call, *, at: datetime) -> bool:
    """The deadline falls: a pending call is denied; an unknown one is given up, and the model is told so."""
    if call.deadline is None or call.deadline > at:
        return False
    if call.status is C.UNKNOWN:
        where = (col(Call.id) == call.id, col(Call.status) == C.UNKNOWN, col(Call.deadline) == call.deadline)
        if tx.execute(update(Call).where(*where).values(deadline=None)).rowcount != 1:
            return False
        audit.record(tx, "call.given_up", at=at, actor="clock", run_id=call.run_id, call_id=call.id)
        moves.touch(tx, call.plan_id)
    else:
        output = "EXPIRED: nobody decided before the deadline, so it was not run. This is not a person's rejection."
        if not moves.call(tx, call, C.EXPIRED, at=at, actor="clock", decided_at=at, output=output):
            return False
    runs.free(tx, call.run_id, at=at, actor="clock")
    return True


def _end_undecided(tx: Connection, run: Run, target: CallStatus, *, at: datetime, actor: str, output: str) -> int:
    plan = calls.open_plan(tx, run.id)
    ended = 0
    for call in calls.of_plan(tx, plan.id) if plan else ():
        if call.status in (C.PENDING, C.APPROVED):
            ended += moves.call(tx, call, target, at=at, actor=actor, output=output, decided_at=at)
        elif call.status is C.UNKNOWN and call.deadline is not None:
            tx.execute(update(Call).where(col(Call.id) == call.id).values(deadline=None))
            moves.touch(tx, call.plan_id)
    return ended


def cancel(tx: Connection, run: Run, *, at: datetime, actor: str) -> bool:
    """End a run: what was not started never will be; what runs is let finish and recorded. False when it had ended."""
    if not runs.is_open(run):
        return False
    _end_undecided(tx, run, C.CANCELLED, at=at, actor=actor, output="CANCELLED by the requester; it was not run.")
    if run.status is not RunStatus.RUNNING:  # handed back after a crash, and no worker has taken it up yet
        _lose_running(tx, run, at=at)
    if not moves.run(tx, run, RunStatus.CANCELLED, at=at, actor=actor):
        return False
    close_cancelled(tx, run, at=at)
    return True


def close_cancelled(tx: Connection, run: Run, *, at: datetime) -> None:
    """Put what became of a cancelled run's calls into the transcript, once none of them runs any more."""
    plan = calls.open_plan(tx, run.id)
    if plan is None:
        return
    for call in calls.of_plan(tx, plan.id):
        if call.status is C.UNKNOWN:  # nobody is asked about a request that is over
            tx.execute(update(Call).where(col(Call.id) == call.id).values(deadline=None))
            moves.touch(tx, call.plan_id)
    runs.close_plan(tx, run, plan, at=at)


def leave_behind(tx: Connection, run: Run, *, at: datetime) -> None:
    """Nobody will go on with this run (FAILED, or CANCELLED in mid-call): what it had not started never will be."""
    output = "SUPERSEDED: a new request was made in this thread, so it was not run."
    _end_undecided(tx, run, C.SUPERSEDED, at=at, actor=run.requester, output=output)
    _lose_running(tx, run, at=at)
    close_cancelled(tx, run, at=at)


def _lose_running(tx: Connection, run: Run, *, at: datetime) -> None:
    """Calls whose worker is no more: nobody will write down how they ended."""
    plan = calls.open_plan(tx, run.id)
    for call in calls.of_plan(tx, plan.id) if plan else ():
        if call.status is C.RUNNING:
            said = "UNKNOWN: it was started, and its end is not known."
            moves.call(tx, call, C.UNKNOWN, at=at, actor="system", output=said)


def remake(tx: Connection, run: Run, *, at: datetime) -> int:
    """The requester asked for something else: what was not started is superseded. Returns how many calls were."""
    output = "SUPERSEDED: the requester wrote something new before this was decided, so it was not run."
    ended = _end_undecided(tx, run, C.SUPERSEDED, at=at, actor=run.requester, output=output)
    runs.free(tx, run.id, at=at, actor=run.requester)
    return ended


def resolve(tx: Connection, call_id: str, revision: int, person: str, verb: str, *, at: datetime) -> Outcome:
    """A person says how an UNKNOWN call ended (`done`, `not_done`) or that it should run again (`again`)."""
    targets = {"done": C.SUCCEEDED, "not_done": C.FAILED, "again": C.APPROVED}
    call = calls.get(tx, call_id)
    if call is None:
        return Gone()
    if call.status is not C.UNKNOWN or call.deadline is None:
        return Decided(call)
    if call.revision != revision:
        return Stale(call)
    if at >= call.deadline:
        return TooLate(call)
    said = {
        "done": f"It is not certain from here, but <@{person}> looked and says that it DID happen.",
        "not_done": f"FAILED: <@{person}> looked and says that it did NOT happen.",
        "again": "",
    }[verb]
    moves.call(tx, call, targets[verb], at=at, actor=person, data={"said": verb}, output=said, deadline=None)
    if verb == "again":
        audit.record(tx, "call.vote_again", at=at, actor=person, run_id=call.run_id, call_id=call.id)
    runs.free(tx, call.run_id, at=at, actor=person)
    return Applied(calls.get(tx, call_id) or call)


def plan_calls(tx: Connection, plan: Plan, only: Sequence[str]) -> list[Call]:
    """The pending calls of a plan among the ids `only` (those on the card that was clicked), in order."""
    return [call for call in calls.of_plan(tx, plan.id) if call.id in only and call.status is C.PENDING]
