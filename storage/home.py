"""Queries for the Home tab: what waits in a workspace, what one person asked for of late."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, select
from sqlmodel import col

from storage.models import Call, Run
from storage.states import CallStatus
from storage.transaction import Transaction, readable

_WAITING = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(col(Call.status) == bindparam("status_"), col(Call.deadline) > bindparam("at_"))
    .where(col(Run.team) == bindparam("team_"))
    .order_by(col(Call.deadline))
    .limit(bindparam("most_"))
)
_MINE = (
    col(Run.team) == bindparam("team_"),
    col(Run.requester) == bindparam("person_"),
    col(Run.parent_call) == "",
)
_CHANNEL = col(Run.channel).concat("")  # else SQLite may look through everybody's requests in it


def _of_late(*where: ColumnElement[bool]) -> Select[Any]:
    """A person's newest requests. One that has not moved since a moment was not made since then:
    so as many that moved lately, by the index on that, say how far back there are others.
    """
    moved = col(Run.updated_at)
    lately = select(col(Run.created_at)).where(*where).order_by(moved.desc())
    enough = lately.limit(bindparam("most_")).subquery()
    oldest = select(func.min(enough.c.created_at)).scalar_subquery()
    found = select(Run).where(*where, moved >= oldest)
    return found.order_by(col(Run.created_at).desc()).limit(bindparam("most_"))


_OF_LATE = _of_late(*_MINE)
_OF_LATE_IN = _of_late(*_MINE, bindparam("channel_") == _CHANNEL)


def waiting(
    tx: Transaction, team: str, at: datetime, most: int, status: CallStatus = CallStatus.PENDING
) -> list[Call]:
    """The calls of a workspace that wait for people at that moment, the first deadline first.

    At most so many, whoever may decide them. `status`: PENDING, or UNKNOWN for those of which
    somebody has to say what became of them.
    """
    given = {"team_": team, "at_": at, "most_": most, "status_": status}
    return readable(tx, Call, col(Call.id), _WAITING, **given)


def of_late(tx: Transaction, team: str, person: str, most: int, channel: str = "") -> list[Run]:
    """The newest requests of a person, at most so many; `channel`: of that one only.

    A sub-agent's run is part of its request.
    """
    given = {"team_": team, "person_": person, "most_": most}
    if channel:
        return readable(tx, Run, col(Run.id), _OF_LATE_IN, **given, channel_=channel)
    return readable(tx, Run, col(Run.id), _OF_LATE, **given)
