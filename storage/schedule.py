"""Deadlines of calls, and when people have to be notified before them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, select
from sqlmodel import col

from storage.models import Call, Delivery, Message, Run
from storage.states import (
    MESSAGE_OPEN_STATUSES,
    RUN_OPEN_STATUSES,
    CallStatus,
    DeliveryStatus,
    RunStatus,
)
from storage.transaction import Transaction, fetch_readable_rows

_COUNT_PENDING_CALLS = select(func.count(), func.min(col(Call.asked_at))).where(
    col(Call.status) == CallStatus.PENDING, col(Call.starts_at).is_(None)
)
_COUNT_OPEN_RUNS_BY_STATUS = (
    select(col(Run.status), func.count())
    .where(col(Run.status).in_(sorted(RUN_OPEN_STATUSES)))
    .group_by(col(Run.status))
)
_COUNT_UNSENT_MESSAGES = select(func.count(), func.min(col(Message.seq))).where(
    col(Message.status).in_(MESSAGE_OPEN_STATUSES)
)
_COUNT_NEW_DELIVERIES = select(func.count(), func.min(col(Delivery.received_at))).where(
    col(Delivery.status) == DeliveryStatus.NEW
)


@dataclass(frozen=True, slots=True)
class Backlog:
    """Numbers and ages of what is open: calls, runs, messages and deliveries."""

    pending: int  # number of calls
    oldest_asked: datetime | None
    runs: dict[RunStatus, int]
    unsent: int  # number of messages
    oldest_unsent: int | None  # its seq
    unread: int  # number of deliveries
    oldest_unread: datetime | None


def count_backlog(tx: Transaction) -> Backlog:
    """Return the numbers and ages of pending calls, open runs, unsent messages, new deliveries."""
    pending, asked = tx.execute(_COUNT_PENDING_CALLS)[0]
    unsent, first = tx.execute(_COUNT_UNSENT_MESSAGES)[0]
    unread, received = tx.execute(_COUNT_NEW_DELIVERIES)[0]
    runs = {RunStatus(status): number for status, number in tx.execute(_COUNT_OPEN_RUNS_BY_STATUS)}
    return Backlog(pending, asked, runs, unsent, first, unread, received)


_STATUSES_WITH_DEADLINE = (CallStatus.PENDING, CallStatus.UNKNOWN)
_HAS_DEADLINE_CONDITION = col(Call.status).in_(_STATUSES_WITH_DEADLINE)
_SELECT_DUE_CALLS = (
    select(col(Call.id), col(Call.plan_id))
    .where(
        _HAS_DEADLINE_CONDITION,
        # without this PostgreSQL counts decided calls' past deadlines, and estimates too many rows
        col(Call.deadline) >= bindparam("nearest"),
        col(Call.deadline) <= bindparam("horizon"),
    )
    .order_by(col(Call.deadline), col(Call.position))
)
_SELECT_CALLS_TO_REMIND_OF = (
    select(Call)
    .where(col(Call.status) == CallStatus.PENDING, col(Call.next_at) <= bindparam("now_"))
    .order_by(col(Call.next_at))
    .limit(100)
)
_SELECT_CALLS_TO_LOOK_AT = (
    select(Call)
    .where(col(Call.look_due_at) <= bindparam("now_"))
    .order_by(col(Call.look_due_at))
    .limit(100)
)
_SELECT_NEXT_LOOK_AT = select(func.min(col(Call.look_due_at))).where(
    col(Call.look_due_at).is_not(None)
)
_SELECT_NEXT_REMINDER_AT = select(func.min(col(Call.next_at))).where(
    col(Call.status) == CallStatus.PENDING,
    col(Call.next_at).is_not(None),  # needed to use the partial index
)
# for one status: for both at once PostgreSQL would read every waiting call
_SELECT_NEXT_DEADLINE = select(func.min(col(Call.deadline))).where(
    col(Call.status) == bindparam("status_")
)


def list_call_and_plan_ids_due_by(tx: Transaction, horizon: datetime) -> list[tuple[str, str]]:
    """Return (call id, plan id) of calls whose deadline is at or before `horizon`, earliest first.

    Rows with unreadable other columns are included.
    """
    nearest = find_next_deadline(tx)
    if nearest is None or nearest > horizon:
        return []
    found = tx.execute(_SELECT_DUE_CALLS, {"nearest": nearest, "horizon": horizon})
    return [(call_id, plan_id) for call_id, plan_id in found]


def find_next_deadline(tx: Transaction) -> datetime | None:
    """Return the nearest deadline of a call that waits for people; None if there is none."""
    moments = [
        tx.scalar(_SELECT_NEXT_DEADLINE, {"status_": each}) for each in _STATUSES_WITH_DEADLINE
    ]
    return min((each for each in moments if each is not None), default=None)


def list_calls_to_notify_about(tx: Transaction, now: datetime) -> list[Call]:
    """Return up to 100 pending calls about which people must be notified, longest due first."""
    return fetch_readable_rows(tx, Call, col(Call.id), _SELECT_CALLS_TO_REMIND_OF, now_=now)


def find_next_notification_time(tx: Transaction) -> datetime | None:
    """Return when people next have to be told of a call to decide or look at; None if never."""
    moments = [tx.scalar(_SELECT_NEXT_REMINDER_AT), tx.scalar(_SELECT_NEXT_LOOK_AT)]
    return min((each for each in moments if each is not None), default=None)


def list_calls_to_look_at(tx: Transaction, due_by: datetime) -> list[Call]:
    """Return up to 100 calls run without approval for people to look at, due by `due_by`."""
    return fetch_readable_rows(tx, Call, col(Call.id), _SELECT_CALLS_TO_LOOK_AT, now_=due_by)


def mark_people_asked_to_look(
    tx: Transaction, call: Call, *, moments: int, look_due_at: datetime | None
) -> bool:
    """Record that people were asked to look at a call; False if it has changed meanwhile."""
    held = {"id": call.id, "look_due_at": call.look_due_at}
    columns = {"told_moments": moments, "look_due_at": look_due_at}
    return tx.update_rows(Call, held, **columns) == 1


def _build_pending_revision_key(call: Call) -> dict[str, Any]:
    return {"id": call.id, "revision": call.revision, "status": CallStatus.PENDING}


def mark_people_notified(
    tx: Transaction, call: Call, *, stage: int, moments: int, next_at: datetime | None
) -> bool:
    """Record that people were notified about a call; False if it has changed meanwhile."""
    told = {"told_stage": call.told_stage, "told_moments": call.told_moments}
    held = _build_pending_revision_key(call) | told
    columns = {"told_stage": stage, "told_moments": moments, "next_at": next_at}
    return tx.update_rows(Call, held, **columns) == 1


def assign_call(tx: Transaction, call: Call, assignee: str, by: str) -> bool:
    """Record that `by` hands a pending call to `assignee`; False if it has changed meanwhile."""
    held = _build_pending_revision_key(call)
    return tx.update_rows(Call, held, assignee=assignee, assigned_by=by) == 1
