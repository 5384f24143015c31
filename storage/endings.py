"""Calls and runs that end without a vote: expired, cancelled, withdrawn, superseded, abandoned.

Each in the caller's transaction, in the `words` that the model is told. What had started is let
finish, and is recorded.
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
    """The deadline falls: a pending call is denied.

    An unknown one is given up. `output`: what the model is told of a pending one, else as `words`.
    False where it is not due, or somebody has ended it meanwhile.
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
    """The calls of the run's plans that are not answered yet."""
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
    """End what was not started, and what sub-agents work on: with it they end, too."""
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
    """End a run: what was not started never will be; what runs is let finish and recorded.

    `note`: why, for its cards. False when it had ended.
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
    """Put what became of a cancelled run's calls into the transcript, once none of them runs any
    more.
    """
    for call in _open_calls(tx, run):
        if call.status is C.UNKNOWN:  # nobody is asked about a request that is over
            tx.execute(update(Call).where(col(Call.id) == call.id).values(deadline=None))
            moves.touch(tx, call.plan_id, call.id)
    for plan in calls.open_plans(tx, run.id):
        runs.close_plan(tx, run, calls.of_plan(tx, plan.id), at=at)


def close_calls_left_behind(tx: Transaction, run: Run, *, at: datetime, words: Outputs) -> None:
    """Nobody will go on with this run (FAILED, or CANCELLED in mid-call): what it had not started
    never will be.
    """
    output = words.left_behind()
    _end_undecided(tx, run, C.SUPERSEDED, at=at, actor=run.requester, output=output, words=words)
    _lose_running(tx, run, at=at, words=words)
    close_cancelled(tx, run, at=at)


def abandon_sub_agent(tx: Transaction, run: Run, *, at: datetime, words: Outputs) -> None:
    """A sub-agent's run has FAILED, and nobody takes it up again: its cards end with it."""
    output = words.abandoned()
    _end_undecided(tx, run, C.CANCELLED, at=at, actor="worker", output=output, words=words)
    _lose_running(tx, run, at=at, words=words)
    close_cancelled(tx, run, at=at)


def _stop(
    tx: Transaction, run: Run, call: Call, *, at: datetime, actor: str, words: Outputs
) -> list[sub_agents.SubAgentCall]:
    """End the run of a call that a sub-agent works on; returns what that has done."""
    child = sub_agents.run_of_call(tx, run.root_id, call.id)
    if child is None:
        return []
    cancel_run(tx, child, at=at, actor=actor, words=words)
    return sub_agents.recorded_actions(tx, child)


def end_elicitations(
    tx: Transaction, run: Run, call: Call, *, at: datetime, words: Outputs
) -> None:
    """End what a server has asked amid this call of the run: nobody waits for an answer."""
    for asking in sub_agents.asking_runs(tx, run.root_id, call.id):
        end_question(tx, asking, at=at, words=words)


def end_question(tx: Transaction, asking: Run, *, at: datetime, words: Outputs) -> None:
    """End one question of a server; where nobody has seen it by then, nobody will."""
    if cancel_run(tx, asking, at=at, actor="system", words=words):
        for each in inbox.held_messages(tx, asking.id):
            inbox.settle_delivery(tx, each, "no longer needed")


def _lose_running(tx: Transaction, run: Run, *, at: datetime, words: Outputs) -> None:
    """Calls whose worker is no more: nobody will write down how they ended."""
    for call in _open_calls(tx, run):
        if call.status is C.RUNNING:
            said = words.lost()
            end_elicitations(tx, run, call, at=at, words=words)
            moves.call(tx, call, C.UNKNOWN, at=at, actor="system", output=said)


def supersede_run(tx: Transaction, run: Run, *, at: datetime, words: Outputs) -> int:
    """The requester asked for something else: what was not started is superseded, and answered.

    Returns how many calls were. It is the model that says so, in a run that is at work.
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
    """The requester takes a pending call back.

    Raises when it has moved since it was read in this transaction.
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
    """What was not started of the run's plan is superseded, with the feedback for the model.

    Returns how many calls.
    """
    output = words.sent_back(person, feedback)
    ended = _end_undecided(tx, run, C.SUPERSEDED, at=at, actor=person, output=output, words=words)
    runs.set_counters(tx, run, rounds=run.rounds + 1)
    runs.free_if_decided(tx, run.id, at=at, actor=person)
    return ended
