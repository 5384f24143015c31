"""Functions that end calls and runs without a vote: expired, cancelled, withdrawn, superseded.

Each function works in the caller's transaction and takes the model's texts from `words`. Calls that
have already started are allowed to finish, and their outcome is recorded.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import update
from sqlmodel import col

from storage import calls, inbox, moves, outbox, runs, sub_agents, trail
from storage.decisions import Outputs
from storage.models import Call, Run
from storage.states import CallStatus, RunStatus
from storage.transaction import Transaction

C = CallStatus


def expire_call(
    tx: Transaction, call: Call, *, at: datetime, words: Outputs, output: str = ""
) -> bool:
    """Deny a pending call whose deadline has passed, or give up waiting on an UNKNOWN one.

    `output`: the model's text for a pending call, else taken from `words`. False if the deadline
    has not passed, or the call has ended meanwhile.
    """
    if call.deadline is None or call.deadline > at or not calls.waits(call):
        return False
    if call.status is C.UNKNOWN:
        where = (
            col(Call.id) == call.id,
            col(Call.status) == C.UNKNOWN,
            col(Call.deadline) == call.deadline,
        )
        if tx.execute(update(Call).where(*where).values(deadline=None)).rowcount != 1:
            return False
        trail.record(tx, "call.given_up", at=at, actor="clock", run_id=call.run_id, call_id=call.id)
        moves.touch(tx, call.plan_id, call.id)
    else:
        said = output or words.expired()
        if not moves.call(tx, call, C.EXPIRED, at=at, actor="clock", decided_at=at, output=said):
            return False
    runs.free_if_decided(tx, call.run_id, at=at, actor="clock")
    return True


def _open_calls(tx: Transaction, run: Run) -> list[Call]:
    """Return the calls of the run's plans whose outputs the model has not received."""
    plans = calls.open_plans(tx, run.id)
    return [call for plan in plans for call in calls.of_plan(tx, plan.id)]


def _end_undecided(
    tx: Transaction,
    run: Run,
    target: CallStatus,
    *,
    at: datetime,
    actor: str,
    output: str,
    words: Outputs,
    note: str = "",
) -> int:
    """End pending and approved calls, and calls that sub-agents work on; return how many ended."""
    ended = 0
    for call in _open_calls(tx, run):
        if call.status in (C.PENDING, C.APPROVED):
            why: dict[str, Any] = {"output": output, **({"note": note} if note else {})}
            ended += moves.call(tx, call, target, at=at, actor=actor, decided_at=at, **why)
        elif call.status is C.ENTRUSTED:
            said = words.stopped(output, _stop(tx, run, call, at=at, actor=actor, words=words))
            ended += moves.call(
                tx, call, target, at=at, actor=actor, output=said, decided_at=at, finished_at=at
            )
        elif call.status is C.UNKNOWN and call.deadline is not None:
            tx.execute(update(Call).where(col(Call.id) == call.id).values(deadline=None))
            moves.touch(tx, call.plan_id, call.id)
    return ended


def cancel_run(
    tx: Transaction, run: Run, *, at: datetime, actor: str, words: Outputs, note: str = ""
) -> bool:
    """Cancel a run and its calls that have not started; running calls finish and are recorded.

    `note`: the reason, for its cards. False if the run had ended.
    """
    if not runs.is_open(run):
        return False
    _end_undecided(
        tx,
        run,
        C.CANCELLED,
        at=at,
        actor=actor,
        output=words.cancelled(),
        words=words,
        note=note,
    )
    # handed back after a crash, and no worker has taken it up yet
    if run.status is not RunStatus.RUNNING:
        _lose_running(tx, run, at=at, words=words)
    if not moves.run(tx, run, RunStatus.CANCELLED, at=at, actor=actor):
        return False
    outbox.close_streams(tx, run.id)  # whoever wrote to one may be dead, and no other comes
    close_cancelled(tx, run, at=at)
    return True


def close_cancelled(tx: Transaction, run: Run, *, at: datetime) -> None:
    """Append a cancelled run's call outputs to the transcript once none of its calls is running."""
    for call in _open_calls(tx, run):
        if call.status is C.UNKNOWN:  # nobody is asked about a request that is over
            tx.execute(update(Call).where(col(Call.id) == call.id).values(deadline=None))
            moves.touch(tx, call.plan_id, call.id)
    for plan in calls.open_plans(tx, run.id):
        runs.close_plan(tx, run, calls.of_plan(tx, plan.id), at=at)


def close_calls_left_behind(tx: Transaction, run: Run, *, at: datetime, words: Outputs) -> None:
    """Supersede the open calls of a run that nobody will continue (FAILED or CANCELLED)."""
    output = words.left_behind()
    _end_undecided(tx, run, C.SUPERSEDED, at=at, actor=run.requester, output=output, words=words)
    _lose_running(tx, run, at=at, words=words)
    close_cancelled(tx, run, at=at)


def abandon_sub_agent(tx: Transaction, run: Run, *, at: datetime, words: Outputs) -> None:
    """Cancel the open calls of a sub-agent's FAILED run, which nobody will retry."""
    output = words.abandoned()
    _end_undecided(tx, run, C.CANCELLED, at=at, actor="worker", output=output, words=words)
    _lose_running(tx, run, at=at, words=words)
    close_cancelled(tx, run, at=at)


def _stop(
    tx: Transaction, run: Run, call: Call, *, at: datetime, actor: str, words: Outputs
) -> list[sub_agents.SubAgentCall]:
    """Cancel the sub-agent's run that works on this call; return the actions it has recorded."""
    child = sub_agents.run_of_call(tx, run.root_id, call.id)
    if child is None:
        return []
    cancel_run(tx, child, at=at, actor=actor, words=words)
    return sub_agents.recorded_actions(tx, child)


def end_elicitations(
    tx: Transaction, run: Run, call: Call, *, at: datetime, words: Outputs
) -> None:
    """Cancel the questions a server asked people during this call; nobody waits for the answers."""
    for asking in sub_agents.asking_runs(tx, run.root_id, call.id):
        end_question(tx, asking, at=at, words=words)


def end_question(tx: Transaction, asking: Run, *, at: datetime, words: Outputs) -> None:
    """Cancel one question of a server, and settle the deliveries still held for it."""
    if cancel_run(tx, asking, at=at, actor="system", words=words):
        for each in inbox.held_messages(tx, asking.id):
            inbox.settle_delivery(tx, each, "no longer needed")


def _lose_running(tx: Transaction, run: Run, *, at: datetime, words: Outputs) -> None:
    """Set running calls whose worker is gone to UNKNOWN: nobody will report how they ended."""
    for call in _open_calls(tx, run):
        if call.status is C.RUNNING:
            said = words.lost()
            end_elicitations(tx, run, call, at=at, words=words)
            moves.call(tx, call, C.UNKNOWN, at=at, actor="system", output=said)


def supersede_run(tx: Transaction, run: Run, *, at: datetime, words: Outputs) -> int:
    """Supersede the run's calls that have not started, and append their outputs for the model.

    Called when the model says, in a running run, that the requester asked for something else.
    Returns how many calls ended.
    """
    output = words.superseded()
    ended = _end_undecided(
        tx, run, C.SUPERSEDED, at=at, actor=run.requester, output=output, words=words
    )
    for plan in calls.open_plans(tx, run.id):
        runs.close_plan(tx, run, calls.of_plan(tx, plan.id), at=at)
    return ended


def withdraw_call(
    tx: Transaction, call: Call, person: str, *, at: datetime, words: Outputs
) -> None:
    """Cancel a pending call at its requester's wish.

    Raises RuntimeError if the call has moved since it was read in this transaction.
    """
    output = words.withdrawn()
    if not moves.call(
        tx, call, C.CANCELLED, at=at, actor=person, output=output, decided_at=at, note="withdrawn"
    ):
        raise RuntimeError("a call moved inside the writer's own transaction")
    runs.free_if_decided(tx, call.run_id, at=at, actor=person)


def send_back_plan(
    tx: Transaction, run: Run, person: str, feedback: str, *, at: datetime, words: Outputs
) -> int:
    """Supersede the run's calls that have not started, with the person's feedback for the model.

    Returns how many calls ended.
    """
    output = words.sent_back(person, feedback)
    ended = _end_undecided(tx, run, C.SUPERSEDED, at=at, actor=person, output=output, words=words)
    runs.set_counters(tx, run, rounds=run.rounds + 1)
    runs.free_if_decided(tx, run.id, at=at, actor=person)
    return ended
