"""Moves calls and runs on without a vote: expired, started by the clock, cancelled, answered.

Also withdrawn and superseded. Each function works in the caller's transaction. Calls that have
already started are allowed to finish, and their outcome is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from storage import call_outputs, calls, inbox, moves, outbox, runs, sub_agents, trail
from storage.decisions import (
    AppliedDecision,
    DecidableCall,
    UndecidableOutcome,
    check_revision_is_decidable,
)
from storage.models import Call, PersonAnswer, Run, Vote
from storage.states import CallStatus, RunStatus
from storage.transaction import Transaction, insert_row

C = CallStatus
NOT_RUN_AGAIN_NOTE = "it was not run again"


def expire_call_if_overdue(tx: Transaction, call: Call, *, at: datetime, output: str = "") -> bool:
    """Deny a pending call whose deadline has passed, or give up waiting on an UNKNOWN one.

    `output`: the model's text for a pending call, else the usual one. False if the deadline
    has not passed, or the call has ended meanwhile.
    """
    if call.deadline is None or call.deadline > at or not calls.is_waiting_for_people(call):
        return False
    if call.status is C.UNKNOWN:
        conditions = {"id": call.id, "status": C.UNKNOWN, "deadline": call.deadline}
        if tx.update_rows(Call, conditions, deadline=None) != 1:
            return False
        trail.record_event(tx, "call.given_up", at=at, actor="clock", call=call)
        moves.mark_plan_changed(tx, call.plan_id, call.id)
    else:
        output_text = output or call_outputs.EXPIRED
        if not moves.change_call_status(
            tx, call, C.EXPIRED, at=at, actor="clock", decided_at=at, output=output_text, note=""
        ):
            return False
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor="clock")
    return True


def invalidate_pending_call(
    tx: Transaction, call_id: str, revision: int, *, at: datetime, output: str, note: str
) -> None:
    """Invalidate a call that could not run as people were shown it, if it still waits for them."""
    found = check_revision_is_decidable(tx, call_id, revision, at)
    if isinstance(found, DecidableCall):
        call, actor = found.call, "system"
        moves.change_call_status(
            tx,
            call,
            C.INVALIDATED,
            at=at,
            actor=actor,
            data={"why": note},
            output=output,
            note=note,
        )
        moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor=actor)


def approve_scheduled_call(
    tx: Transaction, call: Call, votes: Sequence[Vote], at: datetime
) -> bool:
    """Set a call that people approved for a later start to APPROVED, and let its run go on.

    `votes`: the approvals; its approval is valid from that time. False if the time has not come,
    or the call does not wait for it any more.
    """
    if not calls.is_scheduled(call) or call.starts_at is None or call.starts_at > at:
        return False
    audit_data = {"votes": [vote.person for vote in votes], "digest": call.digest}
    moves.change_call_status(
        tx,
        call,
        C.APPROVED,
        at=at,
        actor="clock",
        data=audit_data,
        decided_at=call.starts_at,
        note=votes[-1].reason,
    )
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor="clock")
    return True


def _end_open_calls(
    tx: Transaction,
    run: Run,
    target: CallStatus,
    *,
    at: datetime,
    actor: str,
    output: str,
    note: str = "",
) -> int:
    """End pending and approved calls, and calls that sub-agents work on; return how many ended.

    A call that was to run again stays unknown, and is not counted.
    """
    ended_count = 0
    for call in calls.list_calls_of_all_open_plans(tx, run.id):
        if give_up_rerun(tx, call, at=at, actor=actor):
            continue
        if call.status in (C.PENDING, C.APPROVED):
            why: dict[str, Any] = {"output": output, **({"note": note} if note else {})}
            ended_count += moves.change_call_status(
                tx, call, target, at=at, actor=actor, decided_at=at, **why
            )
        elif call.status is C.ENTRUSTED:
            output_text = call_outputs.stopped_sub_agent_output(
                output, _cancel_sub_agent_run(tx, run, call, at=at, actor=actor)
            )
            ended_count += moves.change_call_status(
                tx,
                call,
                target,
                at=at,
                actor=actor,
                output=output_text,
                decided_at=at,
                finished_at=at,
            )
        elif call.status is C.UNKNOWN and call.deadline is not None:
            _stop_asking_for_outcome(tx, call)
    return ended_count


def give_up_rerun(tx: Transaction, call: Call, *, at: datetime, actor: str) -> bool:
    """Mark a call UNKNOWN again that was to run once more and no longer will; False for any other.

    That it was not run would not be true: its first start may have had its effect. Nobody is asked
    about it.
    """
    if call.status is not C.APPROVED or not trail.was_outcome_unknown(tx, call):
        return False
    output, note = call_outputs.WORKER_LOST, NOT_RUN_AGAIN_NOTE
    return moves.change_call_status(
        tx, call, C.UNKNOWN, at=at, actor=actor, output=output, note=note, deadline=None
    )


def _stop_asking_for_outcome(tx: Transaction, call: Call) -> None:
    tx.update_rows(Call, {"id": call.id}, deadline=None)
    moves.mark_plan_changed(tx, call.plan_id, call.id)


def cancel_run(tx: Transaction, run: Run, *, at: datetime, actor: str, note: str = "") -> bool:
    """Cancel a run and its calls that have not started; running calls finish and are recorded.

    `note`: the reason, for its cards. False if the run had ended.
    """
    if not runs.is_run_open(run):
        return False
    _end_open_calls(
        tx,
        run,
        C.CANCELLED,
        at=at,
        actor=actor,
        output=call_outputs.CANCELLED,
        note=note,
    )
    # no worker has the run: a crash interrupted its running calls
    if run.status is not RunStatus.RUNNING:
        _mark_running_calls_unknown(tx, run, at=at)
    if not moves.change_run_status(tx, run, RunStatus.CANCELLED, at=at, actor=actor):
        return False
    outbox.withdraw_open_streams(tx, run.id)  # their writer may be dead, and no other will follow
    close_plans_of_ended_run(tx, run, at=at)
    return True


def close_plans_of_ended_run(tx: Transaction, run: Run, *, at: datetime) -> None:
    """Append an ended run's call outputs to the transcript, for each plan whose calls all ended.

    Nobody is asked any more what became of its UNKNOWN calls.
    """
    for call in calls.list_calls_of_all_open_plans(tx, run.id):
        if call.status is C.UNKNOWN:
            _stop_asking_for_outcome(tx, call)
    for plan in calls.list_open_plans(tx, run.id):
        runs.close_plan_if_all_final(tx, run, calls.list_calls_of_plan(tx, plan.id), at=at)


def supersede_calls_of_ended_run(tx: Transaction, run: Run, *, at: datetime) -> None:
    """Supersede the open calls of a run that nobody will continue (FAILED or CANCELLED)."""
    output = call_outputs.RUN_ABANDONED
    _end_open_calls(tx, run, C.SUPERSEDED, at=at, actor=run.requester, output=output)
    _mark_running_calls_unknown(tx, run, at=at)
    close_plans_of_ended_run(tx, run, at=at)


def cancel_calls_of_failed_sub_agent(tx: Transaction, run: Run, *, at: datetime) -> None:
    """Cancel the open calls of a sub-agent's FAILED run, which nobody will retry."""
    output = call_outputs.SUB_AGENT_FAILED
    _end_open_calls(tx, run, C.CANCELLED, at=at, actor="worker", output=output)
    _mark_running_calls_unknown(tx, run, at=at)
    close_plans_of_ended_run(tx, run, at=at)


def _cancel_sub_agent_run(
    tx: Transaction, run: Run, call: Call, *, at: datetime, actor: str
) -> list[sub_agents.NonReadingSubAgentCall]:
    """Cancel the sub-agent's run for this call; return those of its calls that do not only read."""
    child = sub_agents.find_sub_agent_run(tx, run.root_id, call.id)
    if child is None:
        return []
    cancel_run(tx, child, at=at, actor=actor)
    return sub_agents.list_non_reading_sub_agent_calls(tx, child)


def cancel_elicitations_of_call(tx: Transaction, run: Run, call: Call, *, at: datetime) -> None:
    """Cancel the questions that an MCP server asked people during this call and still waits for."""
    for asking in sub_agents.list_open_elicitation_runs(tx, run.root_id, call.id):
        cancel_elicitation_run(tx, asking, at=at)


def cancel_elicitation_run(tx: Transaction, asking: Run, *, at: datetime) -> None:
    """Cancel an MCP server's question to people, and mark messages held for it as done."""
    if cancel_run(tx, asking, at=at, actor="system"):
        for each in inbox.list_messages_held_for_run(tx, asking.id):
            inbox.mark_delivery_done(tx, each, "no longer needed")


def _mark_running_calls_unknown(tx: Transaction, run: Run, *, at: datetime) -> None:
    """Set running calls whose worker is gone to UNKNOWN: nobody will report how they ended.

    A call that a program runs itself stays RUNNING until it reports, or its claim lapses.
    """
    for call in calls.list_calls_of_all_open_plans(tx, run.id):
        if call.status is C.RUNNING and not call.action:
            said = call_outputs.WORKER_LOST
            cancel_elicitations_of_call(tx, run, call, at=at)
            moves.change_call_status(tx, call, C.UNKNOWN, at=at, actor="system", output=said)


def supersede_unstarted_calls_of_run(tx: Transaction, run: Run, *, at: datetime) -> int:
    """Supersede the run's calls that have not started, and append their outputs for the model.

    Called when the model says, in a running run, that the requester asked for something else.
    Returns how many calls ended.
    """
    output = call_outputs.SUPERSEDED_BY_MESSAGE
    ended = _end_open_calls(tx, run, C.SUPERSEDED, at=at, actor=run.requester, output=output)
    for plan in calls.list_open_plans(tx, run.id):
        runs.close_plan_if_all_final(tx, run, calls.list_calls_of_plan(tx, plan.id), at=at)
    return ended


def withdraw_call(tx: Transaction, call: Call, person: str, *, at: datetime) -> None:
    """Cancel a pending call at its requester's wish.

    Raises RuntimeError if the call has moved since it was read in this transaction.
    """
    output = call_outputs.WITHDRAWN
    if not moves.change_call_status(
        tx, call, C.CANCELLED, at=at, actor=person, output=output, decided_at=at, note="withdrawn"
    ):
        raise RuntimeError("a call moved inside the writer's own transaction")
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor=person)


def send_back_plan(tx: Transaction, run: Run, person: str, feedback: str, *, at: datetime) -> None:
    """Supersede the run's calls that have not started, with the person's feedback for the model."""
    output = call_outputs.plan_sent_back_output(person, feedback)
    _end_open_calls(tx, run, C.SUPERSEDED, at=at, actor=person, output=output)
    tx.update_rows(Run, {"id": run.id}, rounds=run.rounds + 1)
    moves.resume_run_if_unblocked(tx, run.id, at=at, actor=person)


def store_person_answer(
    tx: Transaction,
    call_id: str,
    revision: int,
    person: str,
    *,
    at: datetime,
    given: str,
    declined: bool,
    output: str,
) -> AppliedDecision | UndecidableOutcome:
    """Store a person's answer to a question, given at the moment `at`, and let the run go on.

    `given`: canonical JSON of the values; `output`: the text for the model. Returns the outcome,
    which tells a second person that another was first.
    """
    check_result = check_revision_is_decidable(tx, call_id, revision, at)
    if not isinstance(check_result, DecidableCall):
        return check_result
    call = check_result.call
    row = PersonAnswer(
        call_id=call.id,
        revision=revision,
        person=person,
        given=given,
        declined=declined,
        created_at=at,
    )
    insert_row(tx, row)
    digest = tx.chain.sign("answer", call.id, given)
    moved = moves.change_call_status(
        tx,
        call,
        C.ANSWERED,
        at=at,
        actor=person,
        event="question.answered",
        data={"answer": digest, "declined": declined},
        decided_at=at,
        finished_at=at,
        output=output,
    )
    if not moved:
        raise RuntimeError("a call moved inside the writer's own transaction")
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor=person)
    return AppliedDecision(call)
