"""Queries for the Home tab: what waits in a workspace, what one person asked for of late."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, select
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
_OF_LATE = (
    select(Run)
    .where(col(Run.team) == bindparam("team_"), col(Run.requester) == bindparam("person_"))
    .where(col(Run.parent_call) == "")
    .order_by(col(Run.created_at).desc())
    .limit(bindparam("most_"))
)
_CHANNEL = col(Run.channel).concat("")  # else SQLite may look through everybody's requests in it
_OF_LATE_IN = _OF_LATE.where(bindparam("channel_") == _CHANNEL)


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
