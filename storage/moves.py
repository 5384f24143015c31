"""The only module that changes a status: each change is one guarded update.

A call's or run's change is stored with its audit row. Each function returns True when it changed
the row and False when another change was first. A change not in `storage.states` raises
IllegalStatusChangeError: a bug, never a race.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, case, or_, select, update
from sqlmodel import col

from storage import states, trail
from storage.calls import RUN_IS_BLOCKED_CONDITION
from storage.columns import build_thread_conditions, hide_from_indexes
from storage.models import Call, Delivery, Message, Plan, Run
from storage.transaction import (
    Transaction,
    fetch_first_row,
    fetch_readable_rows,
    fetch_rows,
    insert_row,
    insert_row_if_absent,
)

_SELECT_ORPHANED_RUNS = select(Run).where(
    col(Run.status) == states.RunStatus.RUNNING, col(Run.lease_until) <= bindparam("now_")
)
_SELECT_INTERRUPTED_RUNS = select(Run).where(
    hide_from_indexes(Run.status) == states.RunStatus.CANCELLED.value,
    col(Run.id).in_(
        select(col(Call.run_id)).where(
            col(Call.status) == states.CallStatus.RUNNING, col(Call.action) == ""
        )
    ),
)
_SELECT_INTERRUPTED_LAPSED = _SELECT_INTERRUPTED_RUNS.where(
    or_(col(Run.lease_until).is_(None), col(Run.lease_until) <= bindparam("now_"))
)
_UPDATE_LEASE = (
    update(Run)
    .where(col(Run.id) == bindparam("id_"), col(Run.lease_until).is_not(None))
    .values(lease_until=bindparam("lease_until"))
)


def renew_lease(tx: Transaction, run_id: str, fence: int, lease_until: datetime) -> bool:
    """Extend a running run's lease; False if the fence has changed or the run is not running."""
    held = {"id": run_id, "fence": fence, "status": states.RunStatus.RUNNING}
    return tx.update_rows(Run, held, lease_until=lease_until) == 1


def extend_lease_even_if_cancelled(tx: Transaction, run_id: str, until: datetime) -> None:
    """Extend the lease of a run that this process works on, even if it was cancelled meanwhile."""
    tx.execute(_UPDATE_LEASE, {"id_": run_id, "lease_until": until})


def list_runs_with_expired_lease(tx: Transaction, now: datetime) -> list[Run]:
    """Return the RUNNING runs whose lease has expired."""
    return fetch_readable_rows(tx, Run, col(Run.id), _SELECT_ORPHANED_RUNS, now_=now)


def list_cancelled_runs_with_running_calls(
    tx: Transaction, now: datetime | None = None
) -> list[Run]:
    """Return the cancelled runs with a RUNNING call; with `now`, those without a valid lease.

    Calls that programs run themselves do not count.
    """
    if now is None:
        return fetch_rows(tx, Run, _SELECT_INTERRUPTED_RUNS)
    return fetch_rows(tx, Run, _SELECT_INTERRUPTED_LAPSED, now_=now)


_INCREMENT_PLAN_REVISION = (
    update(Plan).where(col(Plan.id) == bindparam("id_")).values(revision=col(Plan.revision) + 1)
)
_IS_POSTED_CONDITION = (col(Message.status) == states.MessageStatus.SENT) | (
    (col(Message.status) == states.MessageStatus.FAILED) & (col(Message.ts) != "")
)
# only cards, their copies and a request's reaction belong to a plan
_REDRAW_PLAN_MESSAGES = (
    update(Message)
    .where(col(Message.plan_id) == bindparam("plan_id_"))
    .values(
        wanted=col(Message.wanted) + 1,
        status=case((_IS_POSTED_CONDITION, states.MessageStatus.STALE), else_=col(Message.status)),
    )
)
_REDRAW_FAILED_MESSAGES = (
    update(Message)
    .where(col(Message.status) == states.MessageStatus.FAILED, col(Message.ts) != "")
    .where(col(Message.kind).in_(states.DRAWN_MESSAGE_KINDS))
    .values(
        wanted=col(Message.wanted) + 1, status=states.MessageStatus.STALE, attempts=0, due_at=None
    )
)
# a long plan has cards of five calls each: those that show this call, or are not up to date yet
_REDRAW_CALL_MESSAGES = _REDRAW_PLAN_MESSAGES.where(
    (col(Message.kind) == states.MessageKind.MARK)
    | col(Message.body).contains(bindparam("call_"))
    | (col(Message.wanted) > col(Message.shown))
)
_HAS_CALL_TO_RUN_CONDITION = (
    select(col(Call.id))
    .where(
        col(Call.plan_id) == bindparam("plan_id_"),
        col(Call.status) == states.CallStatus.APPROVED,
        col(Call.action) == "",
    )
    .exists()
)
# while the plan has a call to run, the next change draws this one as well
_REDRAW_UNLESS_CALLS_TO_RUN = _REDRAW_CALL_MESSAGES.values(
    status=case(
        (_HAS_CALL_TO_RUN_CONDITION, col(Message.status)),
        (_IS_POSTED_CONDITION, states.MessageStatus.STALE),
        else_=col(Message.status),
    )
)
_UPDATE_SHOWN = (
    update(Message)
    .where(col(Message.seq) == bindparam("seq_"), col(Message.status) == bindparam("status_"))
    .values(
        status=case(
            (col(Message.wanted) > bindparam("shown"), states.MessageStatus.STALE),
            else_=states.MessageStatus.SENT,
        ),
        **{name: bindparam(name) for name in ("ts", "shown", "attempts", "due_at", "error")},
    )
)
_CLOSE_STREAMS = (
    update(Message)
    .where(col(Message.run_id) == bindparam("run_id_"))
    .where(col(Message.status) == states.MessageStatus.STREAMING)
    .values(status=states.MessageStatus.CLOSING, body=bindparam("body"))
)
_CLAIM_RUN = (
    update(Run)
    .where(col(Run.id) == bindparam("id_"), col(Run.status) == states.RunStatus.READY)
    .values(
        status=states.RunStatus.RUNNING,
        fence=col(Run.fence) + 1,
        **{name: bindparam(name) for name in ("lease_until", "updated_at")},
    )
    .returning(Run.__table__)  # type: ignore[attr-defined]  # SQLModel does not tell
)
_UPDATE_WAITING_TO_READY = (
    update(Run)
    .where(
        col(Run.id) == bindparam("id_"),
        col(Run.status) == states.RunStatus.WAITING,
        ~RUN_IS_BLOCKED_CONDITION,
    )
    .values(status=states.RunStatus.READY, lease_until=None, updated_at=bindparam("updated_at"))
)
_SELECT_ASKED_IN_OF_RUN = select(col(Run.asked_in)).where(col(Run.id) == bindparam("id_"))
_SELECT_ASKED_IN_OF_THREAD = (
    select(col(Run.asked_in))
    .where(*build_thread_conditions(Run))
    .order_by(col(Run.created_at).desc())
    .limit(1)
)


class StaleFenceError(Exception):
    """Raised when another worker has claimed the run, so this worker's fence is no longer valid."""


def change_call_status(
    tx: Transaction,
    row: Call,
    target: states.CallStatus,
    *,
    at: datetime,
    actor: str,
    event: str = "",
    data: Mapping[str, Any] | None = None,
    draws: bool = True,
    **columns: Any,
) -> bool:
    """Change a call's status from the one `row` was read with to `target`, with an audit row.

    Its cards are marked to be redrawn, unless `draws` is False because the next change follows at
    once.
    """
    states.require_allowed_status_change(states.CALL_TRANSITIONS, row.status, target)
    conditions = {"id": row.id, "status": row.status, "revision": row.revision}
    if row.action and target in (states.CallStatus.PENDING, states.CallStatus.APPROVED):
        columns |= {"claimant": "", "held_until": None}  # a program must claim it again
    if tx.update_rows(Call, conditions, status=target, **columns) != 1:
        return False
    audit_data = {"from": row.status, "to": target, "tool": row.tool, "revision": row.revision}
    audit_data |= data or {}
    event = event or f"call.{target}"
    since = row.asked_at if row.status is states.CallStatus.PENDING else None
    trail.record_event(tx, event, at=at, actor=actor, call=row, data=audit_data, since=since)
    voted = target in (states.CallStatus.APPROVED, states.CallStatus.REJECTED)
    if row.status is states.CallStatus.PENDING and not voted:
        mark_plan_changed(tx, row.plan_id, "")
        # it may be a question, and the head of every card counts those
        mark_cards_for_redraw(tx, row.plan_id)
    else:
        ran = row.status is states.CallStatus.RUNNING and target is states.CallStatus.SUCCEEDED
        mark_plan_changed(tx, row.plan_id, row.id if draws else "", goes_on=ran)
    return True


def record_call_restart(tx: Transaction, row: Call, *, at: datetime) -> None:
    """Record in the audit that a RUNNING call is started again, as its tool allows."""
    data = {"again": True, "tool": row.tool, "revision": row.revision, "digest": row.digest}
    trail.record_event(tx, "call.running", at=at, actor="worker", call=row, data=data)


def insert_call(
    tx: Transaction, row: Call, *, at: datetime, actor: str, data: Mapping[str, Any] | None = None
) -> None:
    """Insert a new call, with its audit row."""
    if row.status not in states.CALL_INITIAL_STATUSES:
        raise states.IllegalStatusChangeError(f"a call is not born {row.status}")
    insert_row(tx, row)
    details = {"tool": row.tool, "digest": row.digest, "revision": row.revision, **(data or {})}
    trail.record_event(tx, f"call.born.{row.status}", at=at, actor=actor, call=row, data=details)


def change_run_status(
    tx: Transaction,
    row: Run,
    target: states.RunStatus,
    *,
    at: datetime,
    actor: str = "worker",
    fence: int | None = None,
    data: Mapping[str, Any] | None = None,
    **columns: Any,
) -> bool:
    """Change a run's status from the one `row` was read with to `target`, with an audit row.

    With `fence`, only if the run still has that fence.
    """
    states.require_allowed_status_change(states.RUN_TRANSITIONS, row.status, target)
    conditions = {"id": row.id, "status": row.status} | ({} if fence is None else {"fence": fence})
    columns |= {"status": target, "updated_at": at}
    # a call of a cancelled run may still be running, under the same lease
    if target not in (states.RunStatus.RUNNING, states.RunStatus.CANCELLED):
        columns.setdefault("lease_until", None)
    if tx.update_rows(Run, conditions, **columns) != 1:
        return False
    details = {"from": row.status, "to": target, **(data or {})}
    event, since = f"run.{target}", row.created_at
    trail.record_event(tx, event, at=at, actor=actor, run_id=row.id, data=details, since=since)
    tx.ready += [row.id] if target is states.RunStatus.READY and row.thread_ts else []
    return True


def insert_run(tx: Transaction, row: Run, *, at: datetime) -> None:
    """Insert a new run, with its audit row."""
    if row.status not in states.RUN_INITIAL_STATUSES:
        raise states.IllegalStatusChangeError(f"a run is not born {row.status}")
    row.root_id = row.root_id or row.id
    row.asked_in = row.asked_in or _find_asked_in_channel(tx, row)
    insert_row(tx, row)
    place = {"channel": row.channel, "thread_ts": row.thread_ts, "source": row.source}
    if row.parent_call:
        place |= {"call": row.parent_call}
    actor = (row.client or "agent") if row.parent_call else row.requester  # or the server that asks
    trail.record_event(tx, "run.born", at=at, actor=actor, run_id=row.id, data=place)
    tx.ready += [row.id] if row.thread_ts else []


def _find_asked_in_channel(tx: Transaction, row: Run) -> str:
    """Return the channel a new run was asked in, from its request or its thread's newest run."""
    place = {"team_": row.team, "channel_": row.channel, "thread_ts_": row.thread_ts}
    if row.parent_call:
        found = tx.scalar(_SELECT_ASKED_IN_OF_RUN, {"id_": row.root_id})
    else:
        found = tx.scalar(_SELECT_ASKED_IN_OF_THREAD, place) if row.thread_ts else ""
    return str(found or row.channel)


def claim_run(tx: Transaction, run_id: str, *, at: datetime, lease_until: datetime) -> Run | None:
    """Change a run from READY to RUNNING with the next fence; return the row, None if not READY."""
    given = {"id_": run_id, "lease_until": lease_until, "updated_at": at}
    row = fetch_first_row(tx, Run, _CLAIM_RUN, **given)
    if row is not None:
        data = {"from": states.RunStatus.READY, "to": states.RunStatus.RUNNING}
        trail.record_event(tx, "run.running", at=at, actor="worker", run_id=run_id, data=data)
    return row


def resume_run_if_unblocked(tx: Transaction, run_id: str, *, at: datetime, actor: str) -> bool:
    """Change a run from WAITING to READY if no call of its open plans holds it up any more."""
    states.require_allowed_status_change(
        states.RUN_TRANSITIONS, states.RunStatus.WAITING, states.RunStatus.READY
    )
    if tx.execute(_UPDATE_WAITING_TO_READY, {"id_": run_id, "updated_at": at}).rowcount != 1:
        return False
    data = {"from": states.RunStatus.WAITING, "to": states.RunStatus.READY}
    trail.record_event(tx, "run.ready", at=at, actor=actor, run_id=run_id, data=data)
    tx.ready.append(run_id)
    return True


def mark_plan_changed(
    tx: Transaction, plan_id: str, call_id: str, *, goes_on: bool = False
) -> None:
    """Increase the plan's revision, and mark the messages that show this call to be redrawn.

    `call_id`: "" if nothing is to be redrawn. `goes_on`: more calls of the plan are run at once; as
    long as one is still to run, the redraw is left to the next change.
    """
    tx.execute(_INCREMENT_PLAN_REVISION, {"id_": plan_id})
    if call_id:
        redraw_call = _REDRAW_UNLESS_CALLS_TO_RUN if goes_on else _REDRAW_CALL_MESSAGES
        tx.execute(redraw_call, {"plan_id_": plan_id, "call_": f'"{call_id}"'})


def mark_cards_for_redraw(tx: Transaction, plan_id: str) -> None:
    """Mark all cards of this plan, and its request's reaction, to be redrawn, even failed ones."""
    tx.execute(_REDRAW_PLAN_MESSAGES, {"plan_id_": plan_id})


def mark_failed_cards_for_redraw(tx: Transaction) -> None:
    """Mark for another redraw every card in Slack whose last redraw failed."""
    states.require_allowed_status_change(
        states.MESSAGE_TRANSITIONS, states.MessageStatus.FAILED, states.MessageStatus.STALE
    )
    tx.execute(_REDRAW_FAILED_MESSAGES)


def insert_message(tx: Transaction, row: Message) -> bool:
    """Insert a new message; False, and no change, if one with the same key exists."""
    if row.status not in states.MESSAGE_INITIAL_STATUSES:
        raise states.IllegalStatusChangeError(f"a message is not born {row.status}")
    return insert_row_if_absent(tx, row)


def change_message_status(
    tx: Transaction, row: Message, target: states.MessageStatus, **columns: Any
) -> bool:
    """Change a message's status from the one `row` was read with to `target`."""
    return _update_status_if_unchanged(tx, row, target, columns)


def give_up_stream(tx: Transaction, row: Message, target: states.MessageStatus) -> bool:
    """Give up a message to be streamed that is not in Slack; False if Slack has begun it by now."""
    return _update_status_if_unchanged(tx, row, target, {"error": "the stream never began"}, ts="")


def record_message_version_in_slack(
    tx: Transaction, row: Message, *, ts: str, version: int
) -> bool:
    """Record that Slack has this `version` of a message: SENT, or STALE if it is outdated."""
    states.require_allowed_status_change(
        states.MESSAGE_TRANSITIONS, row.status, states.MessageStatus.SENT
    )
    given = {"seq_": row.seq, "status_": row.status, "ts": ts, "shown": version}
    return (
        tx.execute(_UPDATE_SHOWN, {**given, "attempts": 0, "due_at": None, "error": ""}).rowcount
        == 1
    )


def close_open_streams(tx: Transaction, run_id: str, body: str) -> bool:
    """Mark messages that this run streams to Slack to be closed with `body`; True if any."""
    return tx.execute(_CLOSE_STREAMS, {"run_id_": run_id, "body": body}).rowcount > 0


def insert_delivery(tx: Transaction, row: Delivery) -> bool:
    """Insert a delivery; False if its key exists already (a redelivery)."""
    if row.status not in states.DELIVERY_INITIAL_STATUSES:
        raise states.IllegalStatusChangeError(f"a delivery is not born {row.status}")
    return insert_row_if_absent(tx, row)


def change_delivery_status(
    tx: Transaction, row: Delivery, target: states.DeliveryStatus, **columns: Any
) -> bool:
    """Change a delivery's status from the one `row` was read with to `target`."""
    return _update_status_if_unchanged(tx, row, target, columns)


def change_delivery_status_if_unedited(
    tx: Transaction, row: Delivery, target: states.DeliveryStatus, **columns: Any
) -> bool:
    """Change a delivery's status, but only if its body is the same as when `row` was read."""
    return _update_status_if_unchanged(tx, row, target, columns, body=row.body)


def _update_status_if_unchanged(
    tx: Transaction,
    row: Message | Delivery,
    target: states.MessageStatus | states.DeliveryStatus,
    columns: dict[str, Any],
    **also: Any,
) -> bool:
    """Change a row's status if it, and the columns in `also`, are unchanged since they were read.

    Raises IllegalStatusChangeError for a move that its machine does not have.
    """
    moves: dict[Any, Any] = (
        states.MESSAGE_TRANSITIONS if isinstance(row, Message) else states.DELIVERY_TRANSITIONS
    )
    states.require_allowed_status_change(moves, row.status, target)
    held = {"seq": row.seq, "status": row.status, **also}
    return tx.update_rows(type(row), held, status=target, **columns) == 1
