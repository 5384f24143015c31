"""Purging what was said in requests of long ago, so that what was decided stays verifiable.

Emptied are arguments, answers, transcripts, results, Slack's payloads; the messages to Slack go,
and so do attached files.
Statuses, digests, gates, votes with their words, revisions' authors and the audit's chain stay.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    String,
    bindparam,
    cast,
    delete,
    exists,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import aliased
from sqlmodel import col

from storage import audit, calls
from storage.attached import AttachedFile
from storage.delegations import Delegation
from storage.models import (
    PURGED,
    Audit,
    Call,
    Delivery,
    Item,
    Message,
    PersonAnswer,
    Revision,
    Run,
)
from storage.states import RUN_OPEN, CallStatus, DeliveryStatus, MessageStatus
from storage.transaction import Transaction, first, rows

PURGE = "run.purged"  # the audit's event
_OTHER: Any = aliased(Run)
_OPEN_CALL = or_(calls.HOLDS_UP, col(Call.status).in_((CallStatus.APPROVED, CallStatus.RUNNING)))
_DONE = (MessageStatus.SENT, MessageStatus.FAILED)
_SAME_THREAD = [
    getattr(_OTHER, name) == getattr(Run, name) for name in ("team", "channel", "thread_ts")
]
_DUE = (
    select(Run)
    .where(
        col(Run.purged_at).is_(None),
        col(Run.updated_at) < bindparam("before_"),
        ~exists().where(
            *_SAME_THREAD,  # its own row among them
            or_(_OTHER.status.in_(RUN_OPEN), _OTHER.updated_at >= bindparam("before_")),
        ),
        ~exists().where(col(Call.run_id) == col(Run.id), _OPEN_CALL),
        ~exists().where(col(Message.run_id) == col(Run.id), col(Message.status).not_in(_DONE)),
    )
    .limit(bindparam("most_"))
)
_STILL_DUE = _DUE.where(col(Run.id) == bindparam("run_"))
_RUN: Any = bindparam("run_")
_OF_RUN = select(col(Call.id)).where(col(Call.run_id) == _RUN)
_MARK = (
    update(Run)
    .where(col(Run.id) == _RUN)
    .values(purged_at=bindparam("at_"), reworded="{}", error="")
)
_EMPTY = (
    update(Item).where(col(Item.run_id) == _RUN).values(body=PURGED),
    update(Revision).where(col(Revision.call_id).in_(_OF_RUN)).values(arguments=PURGED),
    update(PersonAnswer).where(col(PersonAnswer.call_id).in_(_OF_RUN)).values(given=PURGED),
    update(Audit).where(col(Audit.run_id) == _RUN, col(Audit.payload) != "").values(payload=""),
    update(Call)
    .where(col(Call.run_id) == _RUN)
    .values(
        names="{}",
        preview_in_thread=None,
        **dict.fromkeys(("reason", "preview", "preview_rows", "expects", "output", "note"), ""),
    ),
    update(Delivery).where(col(Delivery.run_id) == _RUN).values(body="{}", answer=""),
    delete(Message).where(col(Message.run_id) == _RUN),
    delete(AttachedFile).where(col(AttachedFile.run_id) == _RUN),
)
_BEFORE: Any = bindparam("before_")
_OLD_CLICKS = (
    update(Delivery)
    .where(
        col(Delivery.run_id).is_(None),
        col(Delivery.status).in_((DeliveryStatus.DONE, DeliveryStatus.BROKEN)),
        col(Delivery.received_at) < bindparam("before_"),
        col(Delivery.body) != "{}",
    )
    .values(body="{}", answer="")
)
_OLD_DELEGATIONS = (
    update(Delegation)
    .where(
        or_(col(Delegation.until) < _BEFORE, col(Delegation.revoked_at) < _BEFORE),
        col(Delegation.words) != "",
    )
    .values(words="")
)
# what people were told in private, of clicks of that time: `private:<seq of the delivery>`
_OLD_PRIVATE = delete(Message).where(
    col(Message.run_id) == "",
    col(Message.status).in_(_DONE),
    col(Message.key).in_(
        select(literal("private:").concat(cast(col(Delivery.seq), String))).where(
            col(Delivery.received_at) < bindparam("before_")
        )
    ),
)


def due(tx: Transaction, before: datetime, most: int = 500) -> list[str]:
    """Ids of requests in whose thread nothing has moved since then and nothing is open."""
    return [run.id for run in rows(tx, Run, _DUE, before_=before, most_=most)]


def purge(tx: Transaction, run_id: str, before: datetime, *, at: datetime, actor: str) -> bool:
    """Empty one request, and write down that it was; False where it is not due any more."""
    run = first(tx, Run, _STILL_DUE, before_=before, most_=1, run_=run_id)
    if run is None:
        return False
    tx.overwrite()
    tx.execute(_MARK, {"run_": run_id, "at_": at})
    for statement in _EMPTY:
        tx.execute(statement, {"run_": run_id})
    data = {"older_than": before.isoformat()}
    audit.record(tx, PURGE, at=at, actor=actor, run_id=run_id, data=data)
    return True


def purge_clicks(tx: Transaction, before: datetime) -> int:
    """Empty what Slack delivered before then that began no request, and what givers said of
    delegations that had ended; returns how many deliveries.
    """
    tx.overwrite()
    tx.execute(_OLD_DELEGATIONS, {"before_": before})
    tx.execute(_OLD_PRIVATE, {"before_": before})
    return tx.execute(_OLD_CLICKS, {"before_": before}).rowcount
