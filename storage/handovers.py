"""Calls that a program executes itself: claimed once, held for a while, reported by who has it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import bindparam, func, select, update
from sqlmodel import col

from storage import audit, runs
from storage.models import Call
from storage.states import CallStatus
from storage.transaction import Transaction, readable

LEASE = timedelta(minutes=5)  # that a claim holds without a sign of life, unless it says longer
_CLAIM = (
    update(Call)
    .where(
        col(Call.id) == bindparam("id_"),
        col(Call.revision) == bindparam("revision_"),
        col(Call.status) == CallStatus.APPROVED,
        col(Call.action) != "",
        col(Call.claimant) == "",
    )
    .values(claimant=bindparam("claimant"))
)
_RENEW = (
    update(Call)
    .where(col(Call.id) == bindparam("id_"), col(Call.status) == CallStatus.RUNNING)
    .where(col(Call.claimant) == bindparam("claimant_"))
    .values(held_until=bindparam("held_until"))
)
_HELD = (col(Call.status) == CallStatus.RUNNING, col(Call.held_until).is_not(None))
_LAPSED = select(Call).where(*_HELD, col(Call.held_until) <= bindparam("now_"))
_NEXT = select(func.min(col(Call.held_until))).where(*_HELD)


def claim(tx: Transaction, call: Call, claimant: str, *, at: datetime, actor: str) -> bool:
    """Give an approved call to this claimant (a hash), and have its run go on to start it.

    False where it is no longer to be had.
    """
    given = {"id_": call.id, "revision_": call.revision, "claimant": claimant}
    if tx.execute(_CLAIM, given).rowcount != 1:
        return False
    data = {"revision": call.revision, "digest": call.digest, "claimant": claimant}
    about = {"run_id": call.run_id, "call_id": call.id}
    audit.record(tx, "call.claimed", at=at, actor=actor, data=data, **about)
    runs.free(tx, call.run_id, at=at, actor=actor)
    return True


def renew(tx: Transaction, call: Call, lease: timedelta, *, at: datetime) -> bool:
    """Hold a claimed call for so long from now on; False where it is no longer under way."""
    given = {"id_": call.id, "claimant_": call.claimant, "held_until": at + lease}
    return tx.execute(_RENEW, given).rowcount == 1


def lapsed(tx: Transaction, now: datetime) -> list[Call]:
    """Claimed calls of whose program nothing was heard in time."""
    return readable(tx, Call, col(Call.id), _LAPSED, now_=now)


def next_lapse(tx: Transaction) -> datetime | None:
    """When the next of them lapses."""
    found: datetime | None = tx.scalar(_NEXT)
    return found
