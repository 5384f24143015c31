"""How much somebody has asked of late: what limits are kept by."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, and_, bindparam, func, or_, select
from sqlmodel import col

from storage.calls import UNFINISHED
from storage.models import Call, Run
from storage.states import CallStatus, RunSource
from storage.transaction import Transaction


def lately(also: ColumnElement[bool]) -> ColumnElement[bool]:
    """The requester's runs that have moved since then, or are so `also`.

    Each side says whose, so that each has an index; else SQLite would look through all they asked.
    """
    own = (col(Run.team) == bindparam("team_"), col(Run.requester) == bindparam("requester_"))
    return or_(and_(*own, col(Run.updated_at) > bindparam("since_")), and_(*own, also))


# what a key has asked is held by the key's own limit, and is no part of its person's
_BY_KEY = (col(Run.source) == RunSource.PROGRAM) & (col(Run.client) != "")
# A filter: for a condition SQLite would look through every pending call of everybody
_PENDING_OF = (
    select(func.count().filter(col(Call.status) == CallStatus.PENDING))
    .select_from(Run)
    .join(Call, col(Run.id) == col(Call.run_id))
    .where(col(Run.team) == bindparam("team_"), col(Run.requester) == bindparam("requester_"))
    .where(col(Run.status).in_(UNFINISHED), ~_BY_KEY)
)
# Runs that have not moved since then hold nothing that was asked since.
_ASKED_SINCE = (
    select(col(Call.asked_at))
    .select_from(Run)
    .join(Call, col(Run.id) == col(Call.run_id))
    .where(lately(col(Run.status).in_(UNFINISHED)))
    .where(col(Call.asked_at) > bindparam("since_"), ~_BY_KEY)
    .order_by(col(Call.asked_at).desc())
    .limit(1)
    .offset(bindparam("earlier_"))
)


def pending_of(tx: Transaction, team: str, requester: str) -> int:
    """How many calls of this requester wait for people, but those that keys have asked."""
    return tx.scalar(_PENDING_OF, {"team_": team, "requester_": requester}) or 0


def last_asked(
    tx: Transaction, team: str, requester: str, number: int, since: datetime
) -> datetime | None:
    """When people were asked about the last but `number` of this requester's calls, but those that
    keys have asked; None if not after `since`.
    """
    values_ = {"team_": team, "requester_": requester, "since_": since, "earlier_": number}
    found: datetime | None = tx.scalar(_ASKED_SINCE, values_)
    return found
