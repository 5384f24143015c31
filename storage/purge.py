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
from storage.states import RUN_OPEN, CallStatus, DeliveryKind, DeliveryStatus, MessageStatus
from storage.transaction import Transaction, fetch_rows
from storage.transcripts import AttachedFile

SOME = 100  # requests that are emptied in one transaction
MANY = 5000  # deliveries that are looked at in one
# what Slack delivers, and delivers again for some hours at most
_OF_SLACK = (DeliveryKind.ACTION, DeliveryKind.SUBMISSION, DeliveryKind.EVENT, DeliveryKind.MESSAGE)
_OTHER: Any = aliased(Run)
OPEN_CALL = or_(calls.HOLDS_UP, col(Call.status).in_((CallStatus.APPROVED, CallStatus.RUNNING)))
DONE = (MessageStatus.SENT, MessageStatus.FAILED)
_SAME_THREAD = [
    getattr(_OTHER, name) == getattr(Run, name) for name in ("team", "channel", "thread_ts")
]
_BEFORE: Any = bindparam("before_")
# places for the ids of so many requests, which `named` fills
RUNS: list[Any] = [bindparam(f"run_{number}") for number in range(SOME)]
_DUE = select(Run).where(
    col(Run.purged_at).is_(None),
    col(Run.updated_at) < _BEFORE,
    ~exists().where(
        *_SAME_THREAD,  # its own row among them
        or_(_OTHER.status.in_(RUN_OPEN), _OTHER.updated_at >= _BEFORE),
    ),
    ~exists().where(col(Call.run_id) == col(Run.id), OPEN_CALL),
    ~exists().where(col(Message.run_id) == col(Run.id), col(Message.status).not_in(DONE)),
)
_NEXT_DUE = (
    _DUE.where(col(Run.id) > bindparam("after_"))
    .order_by(col(Run.id))
    .limit(SOME)
    .with_only_columns(col(Run.id))
)
_STILL_DUE = _DUE.where(col(Run.id).in_(RUNS)).order_by(col(Run.id))
CALLS_OF_RUNS = select(col(Call.id)).where(col(Call.run_id).in_(RUNS))
_MARK = (
    update(Run)
    .where(col(Run.id).in_(RUNS))
    .values(
        purged_at=func.coalesce(col(Run.purged_at), bindparam("at_", type_=UtcTime())),
        reworded="{}",
        error="",
    )
)
_EMPTY = (
    update(Item).where(col(Item.run_id).in_(RUNS)).values(body=PURGED),
    update(Revision).where(col(Revision.call_id).in_(CALLS_OF_RUNS)).values(arguments=PURGED),
    update(PersonAnswer).where(col(PersonAnswer.call_id).in_(CALLS_OF_RUNS)).values(given=PURGED),
    update(Audit).where(col(Audit.run_id).in_(RUNS), col(Audit.payload) != "").values(payload=""),
    update(Call)
    .where(col(Call.run_id).in_(RUNS))
    .values(
        names="{}",
        preview_in_thread=None,
        **dict.fromkeys(("reason", "preview", "preview_rows", "expects", "output", "note"), ""),
    ),
    update(Call).where(col(Call.run_id).in_(RUNS), col(Call.action) != "").values(action="{}"),
    update(Delivery).where(col(Delivery.run_id).in_(RUNS)).values(body="{}", answer=""),
    delete(Message).where(col(Message.run_id).in_(RUNS)),
    delete(AttachedFile).where(col(AttachedFile.run_id).in_(RUNS)),
)
# What is of no use once it is empty, and nobody refers to. The newest of each stays, as its number
# would be given again; and so do the keys of programs, which may ask with the same one again.
_DELETE = (
    delete(Item).where(
        col(Item.run_id).in_(RUNS),
        col(Item.seq) < select(func.max(col(Item.seq))).scalar_subquery(),
    ),
    delete(Delivery).where(
        col(Delivery.run_id).in_(RUNS),
        col(Delivery.kind).in_(_OF_SLACK),
        col(Delivery.seq) < inbox.NEWEST.scalar_subquery(),
    ),
)
_AMONG = (col(Delivery.seq) > bindparam("after_"), col(Delivery.seq) <= bindparam("until_"))
_OLD = (
    *_AMONG,
    col(Delivery.run_id).is_(None),
    col(Delivery.status).in_((DeliveryStatus.DONE, DeliveryStatus.BROKEN)),
    col(Delivery.received_at) < _BEFORE,
)
# Nothing is delivered twice after so long. The newest stays, as its number would be given again.
_OLD_CLICKS = delete(Delivery).where(
    *_OLD,
    col(Delivery.kind).in_((*inbox.CLICKS, DeliveryKind.EVENT)),
    col(Delivery.seq) < inbox.NEWEST.scalar_subquery(),
)
_OLD_WORDS = (
    update(Delivery).where(*_OLD, col(Delivery.body) != "{}").values(body="{}", answer="", note="")
)
_OLD_DELEGATIONS = (
    update(Delegation)
    .where(
        or_(col(Delegation.until) < _BEFORE, col(Delegation.revoked_at) < _BEFORE),
        col(Delegation.words) != "",
    )
    .values(words="")
)
_OLD_LINKS = delete(SigningLink).where(col(SigningLink.expires_at) < _BEFORE)
# what people were told in private of a click, and the links that they got: with its delivery's seq
PRIVATE_KEYS = ("private:", "sign:")
_OLD_KEYS = [
    select(literal(each).concat(cast(col(Delivery.seq), String))).where(
        *_AMONG, col(Delivery.received_at) < _BEFORE
    )
    for each in PRIVATE_KEYS
]
_OLD_PRIVATE = delete(Message).where(
    col(Message.run_id) == "",
    col(Message.status).in_(DONE),
    col(Message.key).in_(_OLD_KEYS[0].union_all(*_OLD_KEYS[1:])),
)


def list_requests_to_purge(tx: Transaction, before: datetime, after: str = "") -> list[str]:
    """Return ids of requests with nothing open and no change in their thread since `before`.

    SOME at most, in order, beginning after the id `after`.
    """
    return list(tx.scalars(_NEXT_DUE, {"before_": before, "after_": after}))


def purge_requests(
    tx: Transaction, run_ids: Iterable[str], before: datetime, *, at: datetime, actor: str
) -> list[Run]:
    """Erase the contents of these requests (SOME at most) if still old enough; return those erased.

    Writes one audit row.
    """
    found = fetch_rows(tx, Run, _STILL_DUE, before_=before, **build_run_id_parameters(run_ids))
    if found:
        ids = [run.id for run in found]
        empty_request_contents(tx, ids, at=at)
        places = build_run_id_parameters(ids)
        for statement in _DELETE:
            tx.execute(statement, places)
        data = {"older_than": before.isoformat(), trail.PURGED_RUNS: ids}
        trail.record_event(tx, trail.PURGE, at=at, actor=actor, data=data)
    return found


def empty_request_contents(tx: Transaction, run_ids: Iterable[str], *, at: datetime) -> None:
    """Mark requests (SOME at most) as purged and erase their contents, without an audit row."""
    tx.overwrite_erased_data()
    places = build_run_id_parameters(run_ids)
    tx.execute(_MARK, {**places, "at_": at})
    for statement in _EMPTY:
        tx.execute(statement, places)


def purge_old_deliveries(tx: Transaction, before: datetime, after: int = 0) -> int:
    """Delete old clicks, dialogs and events, and empty old messages that started no request.

    Considers the deliveries before `before` with the next MANY numbers after `after`. Returns
    how many were changed.
    """
    tx.overwrite_erased_data()
    given = {"before_": before, "after_": after, "until_": after + MANY}
    tx.execute(_OLD_PRIVATE, given)
    return sum(tx.execute(each, given).rowcount for each in (_OLD_CLICKS, _OLD_WORDS))


def erase_old_delegation_notes_and_links(tx: Transaction, before: datetime) -> None:
    """Erase notes of delegations, and delete private signing links, that ended before `before`."""
    tx.overwrite_erased_data()
    for statement in (_OLD_DELEGATIONS, _OLD_LINKS):
        tx.execute(statement, {"before_": before})


def build_run_id_parameters(run_ids: Iterable[str]) -> Mapping[str, str]:
    """Return SQL parameters for these run ids; unused parameters get a value that is no id."""
    given = dict.fromkeys((each.key for each in RUNS), "-")
    return given | {f"run_{number}": each for number, each in enumerate(run_ids)}
