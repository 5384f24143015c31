"""Webhooks: events of requests to be sent to programs' addresses, until they are accepted.

Each row is one event, stored as soon as it has happened; it holds nothing of the request itself.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    String,
    UniqueConstraint,
    bindparam,
    cast,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import aliased
from sqlmodel import Field, col

from storage import columns
from storage.models import Call, Run, new_id
from storage.programs import ProgramApiKey
from storage.states import CALL_FINAL, CallStatus, RunStatus
from storage.transaction import Transaction, fetch_rows, insert_row_if_absent


class WebhookKind(StrEnum):
    """The kind of event that a webhook reports."""

    DECIDED = "request.decided"  # nobody is asked any more
    ENDED = "request.ended"  # nothing more comes of it, or nobody knows what came of it


class Webhook(columns.Row, table=True):
    """An event to send to a program."""

    __tablename__ = "webhook"
    __table_args__ = (UniqueConstraint("run_id", "kind", "about"),)
    id: str = Field(default_factory=new_id, primary_key=True)  # by it a repetition is known
    run_id: str
    kind: WebhookKind = columns.enum_column(WebhookKind, index=False)
    about: str  # which of several: a call's revision, UNSURE or AFTER_ALL
    key_id: str  # of the key that asked
    made_at: datetime = columns.time_column()  # when it happened; before that, when it was asked
    waits: bool = Field(default=False, index=True)  # it has not happened yet
    # when it is tried next; None before it has happened, and when it is told or given up
    due_at: datetime | None = columns.time_column(nullable=True, index=True)
    attempts: int = 0
    told_at: datetime | None = columns.time_column(nullable=True)
    error: str = ""  # of the last attempt


class UnstoredWebhook(NamedTuple):
    """An event that is to be sent and is not stored as a webhook yet."""

    run_id: str
    key_id: str
    kind: WebhookKind
    about: str


# that it has ended; that nobody knows what came of it
AFTER_ALL, UNSURE = "end", "unknown"
# tried again after these; a day in all
PAUSES = tuple(
    timedelta(seconds=each) for each in (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 28_800)
)
_SAME = ("run_id", "kind", "about")
_OTHER: Any = aliased(Webhook)
_REVISION = cast(func.coalesce(col(Call.revision), 0), String)
_OF_OTHERS = (
    select(col(Webhook.run_id), col(Webhook.key_id), _REVISION)
    .join(Run, col(Run.id) == col(Webhook.run_id))
    .join(Call, col(Call.run_id) == col(Run.id), isouter=True)
    .where(col(Webhook.waits).is_(True))
)
_TAKEN_BACK = (col(Call.id).is_(None)) & (col(Run.status) == RunStatus.CANCELLED)


def _not_stored_condition(kind: WebhookKind, about: Any) -> ColumnElement[bool]:
    return ~exists().where(
        _OTHER.run_id == col(Webhook.run_id), _OTHER.kind == kind, _OTHER.about == about
    )


_DECIDED = _OF_OTHERS.where(
    or_(col(Call.status) != CallStatus.PENDING, _TAKEN_BACK),
    _not_stored_condition(WebhookKind.DECIDED, _REVISION),
)
_UNSURE = _OF_OTHERS.where(
    col(Call.status) == CallStatus.UNKNOWN, _not_stored_condition(WebhookKind.ENDED, UNSURE)
)
_ENDED = _OF_OTHERS.where(or_(col(Call.status).in_(CALL_FINAL), _TAKEN_BACK))
_FORGOTTEN = (
    select(col(ProgramApiKey.id), col(Run.id))
    .join(
        Run,
        (col(Run.client) == col(ProgramApiKey.name)) & (col(Run.team) == col(ProgramApiKey.team)),
    )
    .where(
        col(ProgramApiKey.webhook) != "",
        col(ProgramApiKey.revoked_at).is_(None),
        col(Run.created_at) >= col(ProgramApiKey.made_at),
        ~exists().where(col(Webhook.run_id) == col(Run.id)),
    )
)
_WAITING = select(func.count()).select_from(Webhook).where(col(Webhook.waits).is_(True))
_IN_TURN = (col(Webhook.due_at), col(Webhook.kind))
_PLACES = (
    select(
        col(Webhook.id),
        func.row_number().over(partition_by=col(Webhook.key_id), order_by=_IN_TURN).label("place"),
    )
    .where(col(Webhook.due_at) <= bindparam("now_"))
    .subquery()
)
_DUE = (
    select(Webhook)
    .join(_PLACES, _PLACES.c.id == col(Webhook.id))
    .order_by(_PLACES.c.place, *_IN_TURN)
    .limit(bindparam("most_"))
)
_NEXT = select(func.min(col(Webhook.due_at)))
_BEGUN = (
    update(Webhook)
    .where(
        col(Webhook.id) == bindparam("id_"),
        col(Webhook.attempts) == bindparam("before_"),
        col(Webhook.due_at).is_not(None),
    )
    .values(attempts=bindparam("attempts"), due_at=bindparam("due_at"))
)


def register_request_for_webhooks(
    tx: Transaction, key_id: str, run_id: str, *, at: datetime
) -> None:
    """Store that the key's address gets events of this request; repeating it changes nothing."""
    row = Webhook(
        run_id=run_id,
        kind=WebhookKind.ENDED,
        about=AFTER_ALL,
        key_id=key_id,
        made_at=at,
        waits=True,
    )
    insert_row_if_absent(tx, row, _SAME)


def register_missed_requests(tx: Transaction, *, at: datetime) -> int:
    """Register for webhooks requests whose process died before doing so; return how many."""
    found = tx.execute(_FORGOTTEN)
    for key_id, run_id in found:
        register_request_for_webhooks(tx, key_id, run_id, at=at)
    return len(found)


def count_requests_awaiting_webhooks(tx: Transaction) -> int:
    """Return the number of requests that still have an event to come."""
    return tx.scalar(_WAITING) or 0


def list_unstored_webhooks(tx: Transaction) -> list[UnstoredWebhook]:
    """Return the events that have happened and are not stored yet; decisions first."""
    kinds = (
        (_DECIDED, WebhookKind.DECIDED, ""),
        (_UNSURE, WebhookKind.ENDED, UNSURE),
        (_ENDED, WebhookKind.ENDED, AFTER_ALL),
    )
    return [
        UnstoredWebhook(run_id, key_id, kind, about or revision)
        for statement, kind, about in kinds
        for run_id, key_id, revision in tx.execute(statement)
    ]


def make_webhook_due(tx: Transaction, found: UnstoredWebhook, *, at: datetime) -> None:
    """Make an event due now: store it, or release the row that waits for the request's end.

    Repeating it changes nothing.
    """
    if found.about == AFTER_ALL:
        held = {"run_id": found.run_id, "waits": True}
        tx.update_rows(Webhook, held, waits=False, made_at=at, due_at=at)
        return
    row = Webhook(**found._asdict(), made_at=at, due_at=at)
    insert_row_if_absent(tx, row, _SAME)


def list_due_webhooks(tx: Transaction, now: datetime, limit: int) -> list[Webhook]:
    """Return up to `limit` webhooks to be tried now: the longest due of each key, then the next.

    So a program whose address takes nothing does not hold up others.
    """
    return fetch_rows(tx, Webhook, _DUE, now_=now, most_=limit)


def find_next_webhook_time(tx: Transaction) -> datetime | None:
    """Return when the next webhook is to be tried; None if there is none."""
    found: datetime | None = tx.scalar(_NEXT)
    return found


def begin_webhook_attempt(tx: Transaction, row: Webhook, *, at: datetime) -> bool:
    """Count an attempt and set the time of the next; False if another process has begun it.

    After the last pause there is no next one.
    """
    pause = PAUSES[row.attempts] if row.attempts < len(PAUSES) else None
    due_at = at + pause if pause is not None else None
    attempt = {"attempts": row.attempts + 1, "due_at": due_at}
    return tx.execute(_BEGUN, {"id_": row.id, "before_": row.attempts, **attempt}).rowcount == 1


def mark_webhook_delivered(tx: Transaction, row: Webhook, *, at: datetime) -> None:
    """Record that the program's address has accepted the webhook."""
    tx.update_rows(Webhook, {"id": row.id}, told_at=at, due_at=None, error="")


def record_failed_webhook_attempt(tx: Transaction, row: Webhook, why: str) -> None:
    """Record that an attempt failed; the webhook is tried again when it is due."""
    tx.update_rows(Webhook, {"id": row.id}, error=why[:200])


def give_up_webhook(tx: Transaction, row: Webhook, why: str) -> None:
    """Record that the webhook is not tried any more, and why."""
    tx.update_rows(Webhook, {"id": row.id}, due_at=None, error=why[:200])
