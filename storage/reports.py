"""What people were asked about over a time, and what they said: for reports. Reads only.

No arguments are read, so what was purged of them changes no report.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage.models import Call, Revision, Run, Vote
from storage.states import CallStatus, Verb
from storage.transaction import Transaction

_TEAM: Any = bindparam("team_")
# questions are asked too, and decide nothing: no policy put them to approvers
_DECIDED_BY_PEOPLE = col(Call.gate).contains('"verdict":"ask"')
_ASKED = (
    col(Call.asked_at).is_not(None),
    _DECIDED_BY_PEOPLE,
    col(Call.created_at) >= bindparam("since_"),
)
_IN_TIME = (*_ASKED, col(Call.created_at) < bindparam("until_"), col(Run.team) == _TEAM)
_CALLS = (
    select(col(Call.id), col(Call.tool), col(Call.status), col(Call.decided_at), col(Run.requester))
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(*_IN_TIME)
    .order_by(col(Call.created_at), col(Call.id))
)
_REVISIONS = (
    select(
        col(Revision.call_id), col(Revision.number), col(Revision.author), col(Revision.created_at)
    )
    .join(Call, col(Call.id) == col(Revision.call_id))
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(*_IN_TIME)
    .order_by(col(Revision.seq))
)
_VOTES = (
    select(
        col(Vote.call_id),
        col(Vote.revision),
        col(Vote.person),
        col(Vote.verb),
        col(Vote.created_at),
    )
    .join(Call, col(Call.id) == col(Vote.call_id))
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(*_IN_TIME)
    .order_by(col(Vote.seq))
)


@dataclass(frozen=True, slots=True)
class Drafted:
    """One revision of a call: by whom, and since when it was shown.

    By one of `storage.calls.WRITERS`, or a person by id.
    """

    author: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Said:
    """One person's vote, with the number of the revision that it was given on."""

    person: str
    verb: Verb
    revision: int
    at: datetime


@dataclass(frozen=True, slots=True)
class AskedCall:
    """One call that people were asked about, as it stands."""

    id: str
    tool: str
    status: CallStatus
    decided_at: datetime | None
    requester: str
    drafts: dict[int, Drafted]  # by the revision's number
    votes: tuple[Said, ...]  # oldest first


def asked(tx: Transaction, team: str, since: datetime, until: datetime) -> list[AskedCall]:
    """The calls of a workspace that were proposed in [since, until) and put to people, in order."""
    given = {"team_": team, "since_": since, "until_": until}
    drafts: defaultdict[str, dict[int, Drafted]] = defaultdict(dict)
    for call, number, author, at in tx.execute(_REVISIONS, given):
        drafts[call][number] = Drafted(author, at)
    votes: defaultdict[str, tuple[Said, ...]] = defaultdict(tuple)
    for call, revision, person, verb, at in tx.execute(_VOTES, given):
        votes[call] += (Said(person, verb, revision, at),)
    return [
        AskedCall(call, tool, status, decided_at, requester, drafts[call], votes[call])
        for call, tool, status, decided_at, requester in tx.execute(_CALLS, given)
    ]
