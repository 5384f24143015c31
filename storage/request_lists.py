"""Queries for what people look up: waiting calls, recent requests, decisions, a linked request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, exists, func, or_, select
from sqlmodel import col

from storage import calls, runs, sub_agents
from storage.columns import hide_from_indexes
from storage.models import Call, Message, Run, Vote
from storage.states import CallStatus
from storage.transaction import Transaction, fetch_readable_rows, fetch_rows

_SELECT_WAITING_CALLS = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(col(Call.status) == bindparam("status_"), col(Call.deadline) > bindparam("at_"))
    .where(col(Run.team) == bindparam("team_"))
    .order_by(col(Call.deadline))
    .limit(bindparam("most_"))
)
_OWN_REQUEST_CONDITIONS = (
    col(Run.team) == bindparam("team_"),
    col(Run.requester) == bindparam("person_"),
)
_OWN_ROOT_REQUEST_CONDITIONS = (*_OWN_REQUEST_CONDITIONS, col(Run.parent_call) == "")
_CHANNEL_CONDITION = hide_from_indexes(Run.channel) == bindparam("channel_")


def _build_recent_requests_query(*where: ColumnElement[bool]) -> Select[Any]:
    """Return a query for a person's newest requests.

    To read few rows, it first takes the `most_` requests that changed last, which an index finds.
    The newest requests were made no earlier than the oldest of these, so they changed after that
    time, too.
    """
    moved = col(Run.updated_at)
    lately = select(col(Run.created_at)).where(*where).order_by(moved.desc())
    enough = lately.limit(bindparam("most_")).subquery()
    oldest = select(func.min(enough.c.created_at)).scalar_subquery()
    found = select(Run).where(*where, moved >= oldest)
    return found.order_by(col(Run.created_at).desc()).limit(bindparam("most_"))


_SELECT_RECENT_REQUESTS = _build_recent_requests_query(*_OWN_ROOT_REQUEST_CONDITIONS)
_SELECT_RECENT_IN_CHANNEL = _build_recent_requests_query(
    *_OWN_ROOT_REQUEST_CONDITIONS, _CHANNEL_CONDITION
)


def list_waiting_calls(
    tx: Transaction, team: str, at: datetime, limit: int, status: CallStatus = CallStatus.PENDING
) -> list[Call]:
    """Return a workspace's calls that wait for people at that moment, earliest deadline first.

    At most `limit`, for all approvers. `status`: PENDING, or UNKNOWN for those whose outcome a
    person has to report.
    """
    given = {"team_": team, "at_": at, "most_": limit, "status_": status}
    return fetch_readable_rows(tx, Call, col(Call.id), _SELECT_WAITING_CALLS, **given)


def list_recent_requests(
    tx: Transaction, team: str, person: str, limit: int, channel: str = ""
) -> list[Run]:
    """Return up to `limit` of a person's newest requests; `channel`: of that channel only.

    A sub-agent's run is part of its request.
    """
    given = {"team_": team, "person_": person, "most_": limit}
    if channel:
        return fetch_readable_rows(
            tx, Run, col(Run.id), _SELECT_RECENT_IN_CHANNEL, **given, channel_=channel
        )
    return fetch_readable_rows(tx, Run, col(Run.id), _SELECT_RECENT_REQUESTS, **given)


MAX_ROWS_EXAMINED = 100  # a person's newest votes, and their requests that changed last
_SELECT_DECIDED_CALLS = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(
        col(Call.asked_at).is_not(None),
        col(Call.decided_at) >= bindparam("since_"),
        # answering a question is no decision
        col(Call.status).not_in((CallStatus.PENDING, CallStatus.ANSWERED)),
    )
    .order_by(col(Call.decided_at).desc())
    .limit(bindparam("most_"))
)
# no call of a finished request is decided after its `updated_at`; one of an open request may be
_OWN_OPEN_REQUEST_CONDITION = and_(
    *_OWN_REQUEST_CONDITIONS, col(Run.status).in_(calls.UNFINISHED_RUN_STATUSES)
)
_SELECT_RECENTLY_MOVED_RUNS = (
    select(col(Run.id))
    .where(*_OWN_REQUEST_CONDITIONS, col(Run.updated_at) >= bindparam("since_"))
    .order_by(col(Run.updated_at).desc())
    .limit(MAX_ROWS_EXAMINED)
)
_SELECT_CALLS_VOTED_ON = (
    select(col(Vote.call_id))
    .where(col(Vote.person) == bindparam("person_"), col(Vote.created_at) >= bindparam("since_"))
    .order_by(col(Vote.created_at).desc())
    .limit(MAX_ROWS_EXAMINED)
)
_HAS_VOTED_CONDITION = exists().where(
    col(Vote.call_id) == col(Call.id),
    hide_from_indexes(Vote.person) == bindparam("person_"),
    col(Vote.created_at) >= bindparam("since_"),
)
_DECIDED_LATER_CONDITION = col(Call.decided_at) >= bindparam("at_least_")
_TEAM_CONDITION = hide_from_indexes(Run.team) == bindparam("team_")


# For each kind of a person's decisions: a query that searches the newest rows, one that tells
# whether there are more, and one that searches all rows since the earliest time that the last
# wanted decision can have.
_DECIDED_CALL_SEARCHES = (
    (
        _SELECT_DECIDED_CALLS.where(
            or_(col(Run.id).in_(_SELECT_RECENTLY_MOVED_RUNS), _OWN_OPEN_REQUEST_CONDITION)
        ),
        _SELECT_RECENTLY_MOVED_RUNS.offset(MAX_ROWS_EXAMINED).limit(1),
        _SELECT_DECIDED_CALLS.where(
            _DECIDED_LATER_CONDITION,
            or_(
                and_(*_OWN_REQUEST_CONDITIONS, col(Run.updated_at) >= bindparam("at_least_")),
                _OWN_OPEN_REQUEST_CONDITION,
            ),
        ),
    ),
    (
        _SELECT_DECIDED_CALLS.where(_TEAM_CONDITION, col(Call.id).in_(_SELECT_CALLS_VOTED_ON)),
        _SELECT_CALLS_VOTED_ON.offset(MAX_ROWS_EXAMINED).limit(1),
        # reads everybody's, newest first, until there are enough of this person's
        _SELECT_DECIDED_CALLS.where(
            _DECIDED_LATER_CONDITION, _TEAM_CONDITION, _HAS_VOTED_CONDITION
        ),
    ),
)
_SEARCHES_IN_CHANNEL = tuple(
    (newest.where(_CHANNEL_CONDITION), more, every.where(_CHANNEL_CONDITION))
    for newest, more, every in _DECIDED_CALL_SEARCHES
)
CALLS_PER_PAGE = 500
_SELECT_DECIDED_BETWEEN = (
    select(Call)
    .where(
        or_(col(Call.decided_at) > bindparam("after_"), col(Call.id) > bindparam("id_")),
        col(Call.decided_at) >= bindparam("after_"),
        col(Call.decided_at) < bindparam("until_"),
        col(Call.status).not_in((CallStatus.PENDING, CallStatus.ANSWERED)),
    )
    .order_by(col(Call.decided_at), col(Call.id))
    .limit(CALLS_PER_PAGE)
)
_SELECT_CALLS_BY_DIGEST = (
    select(Call)
    .join(Run, col(Run.id) == col(Call.run_id))
    .where(_TEAM_CONDITION)
    .where(col(Call.digest) >= bindparam("low_"), col(Call.digest) < bindparam("high_"))
    .limit(2)
)


def list_decided_calls_involving_person(
    tx: Transaction, team: str, person: str, since: datetime, limit: int, channel: str = ""
) -> list[Call]:
    """Return calls decided after `since` by this person or on their requests, newest first.

    `channel`: of that channel only.
    """
    parameters: dict[str, Any] = {"team_": team, "person_": person, "since_": since, "most_": limit}
    parameters |= {"channel_": channel} if channel else {}
    calls_by_id: dict[str, Call] = {}
    for newest, has_more, every in _SEARCHES_IN_CHANNEL if channel else _DECIDED_CALL_SEARCHES:
        decided = fetch_readable_rows(tx, Call, col(Call.id), newest, **parameters)
        if tx.execute(has_more, parameters):
            last = decided[-1].decided_at if len(decided) == limit else since
            decided = fetch_readable_rows(
                tx, Call, col(Call.id), every, **parameters, at_least_=last
            )
        calls_by_id |= {call.id: call for call in decided}
    return sorted(calls_by_id.values(), key=lambda each: each.decided_at or since, reverse=True)[
        :limit
    ]


def iterate_calls_decided_between(
    tx: Transaction, since: datetime, until: datetime
) -> Iterator[Call]:
    """Yield the calls that were decided in the time [since, until) in order, a page at a time."""
    after, last = since, ""
    while found := fetch_rows(
        tx, Call, _SELECT_DECIDED_BETWEEN, after_=after, id_=last, until_=until
    ):
        yield from found
        after, last = found[-1].decided_at or since, found[-1].id


def find_request_by_id_or_digest(tx: Transaction, team: str, text: str) -> Run | None:
    """Return the root request of the run or call with this id or digest ("#1a2b3c4d"), or None."""
    run = runs.find_run(tx, text)
    if run is None:
        call = calls.find_call(tx, text) or _find_call_by_digest(tx, team, text.removeprefix("#"))
        run = runs.get_run(tx, call.run_id) if call else None
    return sub_agents.get_root_run(tx, run) if run is not None and run.team == team else None


def _find_call_by_digest(tx: Transaction, team: str, digest: str) -> Call | None:
    """Return the one call whose digest begins with this text; None if there are none or several."""
    if not re.fullmatch(r"[0-9a-f]{8,64}", digest):
        return None
    # "g" is greater than any hex digit
    found = fetch_rows(
        tx, Call, _SELECT_CALLS_BY_DIGEST, team_=team, low_=digest, high_=f"{digest}g"
    )
    return found[0] if len(found) == 1 else None


def find_request_of_message(
    tx: Transaction, team: str, channel: str, ts: str, thread_ts: str
) -> Run | None:
    """Return the request that a message is about, else the newest in its thread; or None."""
    message = tx.find_row(Message, ts=ts, channel=channel)
    run = runs.find_run(tx, message.run_id) if message and message.run_id else None
    run = run or runs.find_newest_run_in_thread(tx, team, channel, thread_ts)
    return sub_agents.get_root_run(tx, run) if run is not None and run.team == team else None
