"""Purging of old requests' contents, such that the decisions stay verifiable.

Arguments, answers and results are emptied. Transcripts, Slack's payloads, the messages to Slack and
attached files are deleted. Statuses, digests, gates, votes with their reasons, revisions' authors
and the audit's chain stay.

It is done for a hundred requests at a time, through existing indexes: the time needed grows with
what is purged, and other writers do not wait for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import String, bindparam, cast, delete, exists, func, literal, or_, select, update
from sqlalchemy.orm import aliased
from sqlmodel import col

from storage import calls, inbox, trail
from storage.columns import UtcTime
from storage.delegations import Delegation
from storage.models import PURGED, Audit, Call, Delivery, Item, Message, PersonAnswer, Revision, Run
from storage.passkeys import SigningLink
from storage.states import (
    RUN_OPEN_STATUSES,
    CallStatus,
    DeliveryKind,
    DeliveryStatus,
    MessageStatus,
)
from storage.transaction import Transaction, fetch_rows
from storage.transcripts import AttachedFile

MAX_RUNS_PER_TRANSACTION = 100  # purged together
DELIVERIES_PER_TRANSACTION = 5000  # examined together
# what Slack delivers, and may deliver again for some hours
_SLACK_DELIVERY_KINDS = (
    DeliveryKind.ACTION,
    DeliveryKind.SUBMISSION,
    DeliveryKind.EVENT,
    DeliveryKind.MESSAGE,
)
_RUN_IN_THREAD: Any = aliased(Run)
OPEN_CALL_CONDITION = or_(
    calls.BLOCKING_RUN_CONDITION, col(Call.status).in_((CallStatus.APPROVED, CallStatus.RUNNING))
)
FINISHED_MESSAGE_STATUSES = (MessageStatus.SENT, MessageStatus.FAILED)
_SAME_THREAD_CONDITIONS = [
    getattr(_RUN_IN_THREAD, name) == getattr(Run, name) for name in ("team", "channel", "thread_ts")
]
_BEFORE_PARAMETER: Any = bindparam("before_")
# placeholders for run ids; see `build_run_id_parameters`
RUN_ID_PARAMETERS: list[Any] = [
    bindparam(f"run_{number}") for number in range(MAX_RUNS_PER_TRANSACTION)
]
_SELECT_PURGEABLE_RUNS = select(Run).where(
    col(Run.purged_at).is_(None),
    col(Run.updated_at) < _BEFORE_PARAMETER,
    ~exists().where(
        *_SAME_THREAD_CONDITIONS,  # including the run itself
        or_(
            _RUN_IN_THREAD.status.in_(RUN_OPEN_STATUSES),
            _RUN_IN_THREAD.updated_at >= _BEFORE_PARAMETER,
        ),
    ),
    ~exists().where(col(Call.run_id) == col(Run.id), OPEN_CALL_CONDITION),
    ~exists().where(
        col(Message.run_id) == col(Run.id), col(Message.status).not_in(FINISHED_MESSAGE_STATUSES)
    ),
)
_SELECT_NEXT_PURGEABLE_IDS = (
    _SELECT_PURGEABLE_RUNS.where(col(Run.id) > bindparam("after_"))
    .order_by(col(Run.id))
    .limit(MAX_RUNS_PER_TRANSACTION)
    .with_only_columns(col(Run.id))
)
_SELECT_STILL_PURGEABLE = _SELECT_PURGEABLE_RUNS.where(col(Run.id).in_(RUN_ID_PARAMETERS)).order_by(
    col(Run.id)
)
SELECT_CALL_IDS_OF_RUNS = select(col(Call.id)).where(col(Call.run_id).in_(RUN_ID_PARAMETERS))
_UPDATE_PURGED_AT = (
    update(Run)
    .where(col(Run.id).in_(RUN_ID_PARAMETERS))
    .values(
        purged_at=func.coalesce(col(Run.purged_at), bindparam("at_", type_=UtcTime())),
        reworded="{}",
        error="",
    )
)
_EMPTY_CONTENTS = (
    update(Item).where(col(Item.run_id).in_(RUN_ID_PARAMETERS)).values(body=PURGED),
    update(Revision)
    .where(col(Revision.call_id).in_(SELECT_CALL_IDS_OF_RUNS))
    .values(arguments=PURGED),
    update(PersonAnswer)
    .where(col(PersonAnswer.call_id).in_(SELECT_CALL_IDS_OF_RUNS))
    .values(given=PURGED),
    update(Audit)
    .where(col(Audit.run_id).in_(RUN_ID_PARAMETERS), col(Audit.payload) != "")
    .values(payload=""),
    update(Call)
    .where(col(Call.run_id).in_(RUN_ID_PARAMETERS))
    .values(
        names="{}",
        preview_in_thread=None,
        **dict.fromkeys(("reason", "preview", "preview_rows", "expects", "output", "note"), ""),
    ),
    update(Call)
    .where(col(Call.run_id).in_(RUN_ID_PARAMETERS), col(Call.action) != "")
    .values(action="{}"),
    update(Delivery)
    .where(col(Delivery.run_id).in_(RUN_ID_PARAMETERS))
    .values(body="{}", answer=""),
    delete(Message).where(col(Message.run_id).in_(RUN_ID_PARAMETERS)),
    delete(AttachedFile).where(col(AttachedFile.run_id).in_(RUN_ID_PARAMETERS)),
)
# Empty rows that nothing refers to. The newest row of each table stays, since its number would be
# used again; so do programs' deliveries: a program may use the same key again.
_DELETE_EMPTIED_ROWS = (
    delete(Item).where(
        col(Item.run_id).in_(RUN_ID_PARAMETERS),
        col(Item.seq) < select(func.max(col(Item.seq))).scalar_subquery(),
    ),
    delete(Delivery).where(
        col(Delivery.run_id).in_(RUN_ID_PARAMETERS),
        col(Delivery.kind).in_(_SLACK_DELIVERY_KINDS),
        col(Delivery.seq) < inbox.SELECT_NEWEST_SEQ.scalar_subquery(),
    ),
)
_SEQ_RANGE_CONDITIONS = (
    col(Delivery.seq) > bindparam("after_"),
    col(Delivery.seq) <= bindparam("until_"),
)
_OLD_DELIVERY_CONDITIONS = (
    *_SEQ_RANGE_CONDITIONS,
    col(Delivery.run_id).is_(None),
    col(Delivery.status).in_((DeliveryStatus.DONE, DeliveryStatus.BROKEN)),
    col(Delivery.received_at) < _BEFORE_PARAMETER,
)
# Slack redelivers nothing after so long. The newest stays, since its number would be used again.
_DELETE_OLD_CLICKS = delete(Delivery).where(
    *_OLD_DELIVERY_CONDITIONS,
    col(Delivery.kind).in_((*inbox.CLICK_KINDS, DeliveryKind.EVENT)),
    col(Delivery.seq) < inbox.SELECT_NEWEST_SEQ.scalar_subquery(),
)
_EMPTY_OLD_MESSAGES = (
    update(Delivery)
    .where(*_OLD_DELIVERY_CONDITIONS, col(Delivery.body) != "{}")
    .values(body="{}", answer="", note="")
)
_EMPTY_OLD_DELEGATION_NOTES = (
    update(Delegation)
    .where(
        or_(
            col(Delegation.until) < _BEFORE_PARAMETER,
            col(Delegation.revoked_at) < _BEFORE_PARAMETER,
        ),
        col(Delegation.words) != "",
    )
    .values(words="")
)
_DELETE_OLD_SIGNING_LINKS = delete(SigningLink).where(
    col(SigningLink.expires_at) < _BEFORE_PARAMETER
)
# key prefixes of private replies to a click, and of signing links; the delivery's seq follows
PRIVATE_KEY_PREFIXES = ("private:", "sign:")
_SELECTS_OF_OLD_PRIVATE_KEYS = [
    select(literal(each).concat(cast(col(Delivery.seq), String))).where(
        *_SEQ_RANGE_CONDITIONS, col(Delivery.received_at) < _BEFORE_PARAMETER
    )
    for each in PRIVATE_KEY_PREFIXES
]
_DELETE_OLD_PRIVATE_MESSAGES = delete(Message).where(
    col(Message.run_id) == "",
    col(Message.status).in_(FINISHED_MESSAGE_STATUSES),
    col(Message.key).in_(
        _SELECTS_OF_OLD_PRIVATE_KEYS[0].union_all(*_SELECTS_OF_OLD_PRIVATE_KEYS[1:])
    ),
)


def list_requests_to_purge(tx: Transaction, before: datetime, after: str = "") -> list[str]:
    """Return ids of requests with nothing open and no change in their thread since `before`.

    At most MAX_RUNS_PER_TRANSACTION ids, in order, beginning after the id `after`.
    """
    return list(tx.scalars(_SELECT_NEXT_PURGEABLE_IDS, {"before_": before, "after_": after}))


def purge_requests(
    tx: Transaction, run_ids: Iterable[str], before: datetime, *, at: datetime, actor: str
) -> list[Run]:
    """Purge those of these requests that are still old enough, and return them.

    Takes at most MAX_RUNS_PER_TRANSACTION ids. Writes one audit row.
    """
    found = fetch_rows(
        tx, Run, _SELECT_STILL_PURGEABLE, before_=before, **build_run_id_parameters(run_ids)
    )
    if found:
        ids = [run.id for run in found]
        empty_request_contents(tx, ids, at=at)
        places = build_run_id_parameters(ids)
        for statement in _DELETE_EMPTIED_ROWS:
            tx.execute(statement, places)
        data = {"older_than": before.isoformat(), trail.PURGED_RUNS_KEY: ids}
        trail.record_event(tx, trail.PURGE_EVENT, at=at, actor=actor, data=data)
    return found


def empty_request_contents(tx: Transaction, run_ids: Iterable[str], *, at: datetime) -> None:
    """Mark requests as purged and erase their contents, without an audit row.

    Takes at most MAX_RUNS_PER_TRANSACTION ids.
    """
    tx.overwrite_erased_data()
    places = build_run_id_parameters(run_ids)
    tx.execute(_UPDATE_PURGED_AT, {**places, "at_": at})
    for statement in _EMPTY_CONTENTS:
        tx.execute(statement, places)


def purge_old_deliveries(tx: Transaction, before: datetime, after: int = 0) -> int:
    """Delete old clicks, dialogs and events, and empty old messages that started no request.

    Considers the deliveries before `before` with the next DELIVERIES_PER_TRANSACTION numbers after
    `after`. Returns how many were changed.
    """
    tx.overwrite_erased_data()
    given = {"before_": before, "after_": after, "until_": after + DELIVERIES_PER_TRANSACTION}
    tx.execute(_DELETE_OLD_PRIVATE_MESSAGES, given)
    return sum(
        tx.execute(each, given).rowcount for each in (_DELETE_OLD_CLICKS, _EMPTY_OLD_MESSAGES)
    )


def erase_old_delegation_notes_and_links(tx: Transaction, before: datetime) -> None:
    """Erase notes of delegations, and delete private signing links, that ended before `before`."""
    tx.overwrite_erased_data()
    for statement in (_EMPTY_OLD_DELEGATION_NOTES, _DELETE_OLD_SIGNING_LINKS):
        tx.execute(statement, {"before_": before})


def build_run_id_parameters(run_ids: Iterable[str]) -> Mapping[str, str]:
    """Return SQL parameters for these run ids; unused parameters get a value that is no id."""
    given = dict.fromkeys((each.key for each in RUN_ID_PARAMETERS), "-")
    return given | {f"run_{number}": each for number, each in enumerate(run_ids)}
