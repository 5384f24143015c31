"""Queries for what people may look up: what was decided of late, and one request by its link."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage import calls, children, runs
from storage.models import Call, Message, Run, Vote
from storage.states import CallStatus
from storage.transaction import Transaction, first, readable, rows

_TEAM = col(Run.team).concat("")  # alone, SQLite would look through everybody's requests
_DECIDED = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(
        col(Call.asked_at).is_not(None),
        col(Call.decided_at) >= bindparam("since_"),
        # a question that was answered decided nothing
        col(Call.status).not_in((CallStatus.PENDING, CallStatus.ANSWERED)),
    )
    .order_by(col(Call.decided_at).desc())
    .limit(bindparam("most_"))
)
_ON_REQUESTS = _DECIDED.where(
    col(Run.team) == bindparam("team_"),
    col(Run.requester) == bindparam("person_"),
    col(Run.updated_at) >= bindparam("since_"),
)
_VOTED = select(col(Vote.call_id)).where(
    col(Vote.person) == bindparam("person_"), col(Vote.created_at) >= bindparam("since_")
)
_BY_PERSON = _DECIDED.where(bindparam("team_") == _TEAM, col(Call.id).in_(_VOTED))
_AT = select(Message).where(
    col(Message.ts) == bindparam("ts_"), col(Message.channel) == bindparam("channel_")
)
_OF_PERSON = (_ON_REQUESTS, _BY_PERSON)
_CHANNEL = col(Run.channel).concat("")  # the same for everybody's requests in a channel
_OF_PERSON_IN = tuple(each.where(bindparam("channel_") == _CHANNEL) for each in _OF_PERSON)
_BY_DIGEST = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(bindparam("team_") == _TEAM)
    .where(col(Call.digest) >= bindparam("low_"), col(Call.digest) < bindparam("high_"))
    .limit(2)
)


def decided(
    tx: Transaction, team: str, person: str, since: datetime, most: int, channel: str = ""
) -> list[Call]:
    """The calls decided since then by this person or on their requests, the newest first;
    `channel`: of that one only.
    """
    given: dict[str, Any] = {"team_": team, "person_": person, "since_": since, "most_": most}
    statements = _OF_PERSON_IN if channel else _OF_PERSON
    given |= {"channel_": channel} if channel else {}
    found = {
        call.id: call
        for statement in statements
        for call in readable(tx, Call, col(Call.id), statement, **given)
    }
    newest = sorted(found.values(), key=lambda each: each.decided_at or since, reverse=True)
    return newest[:most]


def by_id(tx: Transaction, team: str, text: str) -> Run | None:
    """The request of that id, or of the call of that id or fingerprint ("#1a2b3c4d")."""
    run = runs.get(tx, text)
    call = None if run else calls.get(tx, text) or _by_digest(tx, team, text.removeprefix("#"))
    run = runs.get(tx, call.run_id) if call else run
    return children.root(tx, run) if run is not None and run.team == team else None


def _by_digest(tx: Transaction, team: str, digest: str) -> Call | None:
    """The one call whose fingerprint begins so; None where there is none, or are several."""
    if not re.fullmatch(r"[0-9a-f]{8,64}", digest):
        return None
    # "g" comes after every digit of a fingerprint
    found = rows(tx, Call, _BY_DIGEST, team_=team, low_=digest, high_=f"{digest}g")
    return found[0] if len(found) == 1 else None


def at(tx: Transaction, team: str, channel: str, ts: str, thread_ts: str) -> Run | None:
    """The request to which a message belongs: one of ours about it, else any in its thread."""
    message = first(tx, Message, _AT, ts_=ts, channel_=channel)
    run = runs.get(tx, message.run_id) if message and message.run_id else None
    run = run or runs.in_thread(tx, team, channel, thread_ts)
    return children.root(tx, run) if run is not None and run.team == team else None
