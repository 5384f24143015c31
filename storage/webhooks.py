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
from storage.states import CALL_FINAL_STATUSES, CallStatus, RunStatus
from storage.transaction import Transaction, fetch_rows, insert_row_if_absent


class WebhookKind(StrEnum):
    """The kind of event that a webhook reports."""

    DECIDED = "request.decided"  # no call waits for approval any more
    ENDED = "request.ended"  # nothing more will happen, or the outcome is unknown


class Webhook(columns.Row, table=True):
    """An event to send to a program."""

    __tablename__ = "webhook"
    __table_args__ = (UniqueConstraint("run_id", "kind", "about"),)
    id: str = Field(default_factory=new_id, primary_key=True)  # for receivers to recognise repeats
    run_id: str
    kind: WebhookKind = columns.enum_column(WebhookKind, index=False)
    about: str  # which event of the kind: a call's revision, ABOUT_UNKNOWN or ABOUT_END
    key_id: str  # id of the API key that made the request
    made_at: datetime = columns.time_column()  # time of the event, or of the request until then
    waits: bool = Field(default=False, index=True)  # the event has not happened yet
    # next attempt; None before the event, and once it was delivered or given up
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


# values of `about` for the request's end, and for an outcome that is unknown
ABOUT_END = "end"
ABOUT_UNKNOWN = "unknown"
# between attempts; a day in all
RETRY_INTERVALS = tuple(
    timedelta(seconds=each) for each in (5, 30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 28_800)
)
_IDENTITY_COLUMNS = ("run_id", "kind", "about")
_STORED_WEBHOOK: Any = aliased(Webhook)
_REVISION_COLUMN = cast(func.coalesce(col(Call.revision), 0), String)
_SELECT_UNSTORED = (
    select(col(Webhook.run_id), col(Webhook.key_id), _REVISION_COLUMN)
    .join(Run, col(Run.id) == col(Webhook.run_id))
    .join(Call, col(Call.run_id) == col(Run.id), isouter=True)
    .where(col(Webhook.waits).is_(True))
)
_CANCELLED_CONDITION = (col(Call.id).is_(None)) & (col(Run.status) == RunStatus.CANCELLED)


def _not_stored_condition(kind: WebhookKind, about: Any) -> ColumnElement[bool]:
    return ~exists().where(
        _STORED_WEBHOOK.run_id == col(Webhook.run_id),
        _STORED_WEBHOOK.kind == kind,
        _STORED_WEBHOOK.about == about,
    )


_SELECT_UNSTORED_DECIDED = _SELECT_UNSTORED.where(
    or_(col(Call.status) != CallStatus.PENDING, _CANCELLED_CONDITION),
    _not_stored_condition(WebhookKind.DECIDED, _REVISION_COLUMN),
)
_SELECT_UNSTORED_UNKNOWN = _SELECT_UNSTORED.where(
    col(Call.status) == CallStatus.UNKNOWN, _not_stored_condition(WebhookKind.ENDED, ABOUT_UNKNOWN)
)
_SELECT_UNSTORED_ENDED = _SELECT_UNSTORED.where(
    or_(col(Call.status).in_(CALL_FINAL_STATUSES), _CANCELLED_CONDITION)
)
_SELECT_RUNS_WITHOUT_WEBHOOK = (
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
_COUNT_WAITING = select(func.count()).select_from(Webhook).where(col(Webhook.waits).is_(True))
_DUE_ORDER = (col(Webhook.due_at), col(Webhook.kind))
_SELECT_QUEUE_PLACES = (
    select(
        col(Webhook.id),
        func.row_number()
        .over(partition_by=col(Webhook.key_id), order_by=_DUE_ORDER)
        .label("place"),
    )
    .where(col(Webhook.due_at) <= bindparam("now_"))
    .subquery()
)
_SELECT_DUE = (
    select(Webhook)
    .join(_SELECT_QUEUE_PLACES, _SELECT_QUEUE_PLACES.c.id == col(Webhook.id))
    .order_by(_SELECT_QUEUE_PLACES.c.place, *_DUE_ORDER)
    .limit(bindparam("most_"))
)
_SELECT_NEXT_DUE_AT = select(func.min(col(Webhook.due_at)))
_UPDATE_ATTEMPT = (
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
        about=ABOUT_END,
        key_id=key_id,
        made_at=at,
        waits=True,
    )
    insert_row_if_absent(tx, row, _IDENTITY_COLUMNS)


def register_missed_requests(tx: Transaction, *, at: datetime) -> int:
    """Register for webhooks requests whose process died before doing so; return how many."""
    found = tx.execute(_SELECT_RUNS_WITHOUT_WEBHOOK)
    for key_id, run_id in found:
        register_request_for_webhooks(tx, key_id, run_id, at=at)
    return len(found)


def count_requests_awaiting_webhooks(tx: Transaction) -> int:
    """Return the number of requests that still have an event to come."""
    return tx.scalar(_COUNT_WAITING) or 0


def list_unstored_webhooks(tx: Transaction) -> list[UnstoredWebhook]:
    """Return the events that have happened and are not stored yet; decisions first."""
    kinds = (
        (_SELECT_UNSTORED_DECIDED, WebhookKind.DECIDED, ""),
        (_SELECT_UNSTORED_UNKNOWN, WebhookKind.ENDED, ABOUT_UNKNOWN),
        (_SELECT_UNSTORED_ENDED, WebhookKind.ENDED, ABOUT_END),
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
    if found.about == ABOUT_END:
        held = {"run_id": found.run_id, "waits": True}
        tx.update_rows(Webhook, held, waits=False, made_at=at, due_at=at)
        return
    row = Webhook(**found._asdict(), made_at=at, due_at=at)
    insert_row_if_absent(tx, row, _IDENTITY_COLUMNS)


def list_due_webhooks(tx: Transaction, now: datetime, limit: int) -> list[Webhook]:
    """Return up to `limit` webhooks to be tried now: the longest due of each key, then the next.

    So a program whose address takes nothing does not hold up others.
    """
    return fetch_rows(tx, Webhook, _SELECT_DUE, now_=now, most_=limit)


def find_next_webhook_time(tx: Transaction) -> datetime | None:
    """Return when the next webhook is to be tried; None if there is none."""
    found: datetime | None = tx.scalar(_SELECT_NEXT_DUE_AT)
    return found


def begin_webhook_attempt(tx: Transaction, row: Webhook, *, at: datetime) -> bool:
    """Count an attempt and set the time of the next; False if another process has begun it.

    After the last pause there is no next one.
    """
    pause = RETRY_INTERVALS[row.attempts] if row.attempts < len(RETRY_INTERVALS) else None
    due_at = at + pause if pause is not None else None
    attempt = {"attempts": row.attempts + 1, "due_at": due_at}
    return (
        tx.execute(_UPDATE_ATTEMPT, {"id_": row.id, "before_": row.attempts, **attempt}).rowcount
        == 1
    )


def mark_webhook_delivered(tx: Transaction, row: Webhook, *, at: datetime) -> None:
    """Record that the program's address has accepted the webhook."""
    tx.update_rows(Webhook, {"id": row.id}, told_at=at, due_at=None, error="")


def record_failed_webhook_attempt(tx: Transaction, row: Webhook, why: str) -> None:
    """Record that an attempt failed; the webhook is tried again when it is due."""
    tx.update_rows(Webhook, {"id": row.id}, error=why[:200])


def give_up_webhook(tx: Transaction, row: Webhook, why: str) -> None:
    """Record that the webhook is not tried any more, and why."""
    tx.update_rows(Webhook, {"id": row.id}, due_at=None, error=why[:200])
