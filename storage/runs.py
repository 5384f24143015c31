"""Queries over runs and their transcripts, with counters of turns and tokens.

A status is changed only by `moves`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, case, func, literal, or_, select, update
from sqlalchemy.orm import aliased
from sqlmodel import col

from storage import calls, moves, transcripts
from storage.calls import UNFINISHED_RUN_STATUSES
from storage.columns import build_thread_conditions
from storage.models import Call, Delivery, Item, Plan, Run
from storage.states import MODEL_DRIVEN_SOURCES, RUN_OPEN_STATUSES, CallStatus, RunSource, RunStatus
from storage.transaction import (
    Transaction,
    fetch_first_row,
    fetch_readable_rows,
    fetch_rows,
    insert_row,
)

Requester = tuple[str, str, str]  # workspace, person, and the program that asks in their name


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """One run that a worker may take."""

    run_id: str
    requester: Requester
    has_approved_call: bool  # the next step is a call that people approved, not a model turn
    was_worked_on: bool = False  # a worker has had it before


def _open_call_condition(which: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the SQL condition that an open plan of the run has a call that meets `which`."""
    ready_runs = select(col(Call.id)).join(Plan, col(Plan.id) == col(Call.plan_id))
    return ready_runs.where(
        col(Plan.run_id) == col(Run.id), col(Plan.answered).is_(False), which
    ).exists()


_ROOT_RUN: Any = aliased(Run)
# a sub-agent works for the program that made the request; a server's question is the server's
_CLIENT_COLUMN = case(
    (col(Run.source) == RunSource.RUN, col(_ROOT_RUN.client)), else_=col(Run.client)
)
# a worker that runs an approved call is waiting for the answer to a server's question
_HAS_APPROVED_CALL_CONDITION = or_(
    col(Run.source) == RunSource.SERVER,
    and_(
        _open_call_condition(calls.APPROVED_BY_PEOPLE_CONDITION),
        ~_open_call_condition(calls.BLOCKING_RUN_CONDITION),
    ),
)
_SELECT_READY_RUNS = (
    select(
        col(Run.id),
        col(Run.team),
        col(Run.requester),
        _CLIENT_COLUMN,
        case((_HAS_APPROVED_CALL_CONDITION, literal(1)), else_=literal(0)),
        col(Run.fence),
    )
    .join(_ROOT_RUN, col(_ROOT_RUN.id) == col(Run.root_id), isouter=True)
    .where(col(Run.status) == RunStatus.READY, col(Run.thread_ts) != "")
    .order_by(col(Run.updated_at))
)
_SELECT_RUNS_READY_BEFORE = _SELECT_READY_RUNS.where(col(Run.updated_at) <= bindparam("before_"))
_SELECT_READY_RUN_BY_ID = _SELECT_READY_RUNS.where(col(Run.id) == bindparam("id_"))


def list_ready_runs(tx: Transaction, before: datetime | None = None) -> list[ReadyRun]:
    """Return the runs a worker may take, oldest first; `before`: only those ready by that time."""
    if before is None:
        return _fetch_ready_runs(tx, _SELECT_READY_RUNS, {})
    return _fetch_ready_runs(tx, _SELECT_RUNS_READY_BEFORE, {"before_": before})


def list_run_if_ready(tx: Transaction, run_id: str) -> list[ReadyRun]:
    """Return the run in a list if a worker may take it, else an empty list."""
    return _fetch_ready_runs(tx, _SELECT_READY_RUN_BY_ID, {"id_": run_id})


def _fetch_ready_runs(tx: Transaction, statement: Any, given: dict[str, Any]) -> list[ReadyRun]:
    return [
        ReadyRun(str(run_id), (team, person, client or ""), bool(decided), bool(fence))
        for run_id, team, person, client, decided, fence in tx.execute(statement, given)
    ]


def build_recent_runs_condition(also: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the condition for a requester's runs that changed after `since_` or meet `also`.

    The requester is repeated on each side of the OR so that SQLite can use an index for each.
    """
    own = (col(Run.team) == bindparam("team_"), col(Run.requester) == bindparam("requester_"))
    return or_(and_(*own, col(Run.updated_at) > bindparam("since_")), and_(*own, also))


# what was asked with an API key counts for that key's own limit, and not for its person's
_ASKED_BY_KEY_CONDITION = (col(Run.source) == RunSource.PROGRAM) & (col(Run.client) != "")
# FILTER, as with a WHERE condition SQLite would read everybody's pending calls
_COUNT_PENDING_OF_REQUESTER = (
    select(func.count().filter(col(Call.status) == CallStatus.PENDING))
    .select_from(Run)
    .join(Call, col(Run.id) == col(Call.run_id))
    .where(col(Run.team) == bindparam("team_"), col(Run.requester) == bindparam("requester_"))
    .where(col(Run.status).in_(UNFINISHED_RUN_STATUSES), ~_ASKED_BY_KEY_CONDITION)
)
# A run that has not changed since then has no call that was asked since.
_SELECT_ASKED_TIMES_SINCE = (
    select(col(Call.asked_at))
    .select_from(Run)
    .join(Call, col(Run.id) == col(Call.run_id))
    .where(build_recent_runs_condition(col(Run.status).in_(UNFINISHED_RUN_STATUSES)))
    .where(col(Call.asked_at) > bindparam("since_"), ~_ASKED_BY_KEY_CONDITION)
    .order_by(col(Call.asked_at).desc())
    .limit(1)
    .offset(bindparam("earlier_"))
)


def count_pending_calls_of_requester(tx: Transaction, team: str, requester: str) -> int:
    """Return how many of this requester's calls are pending, without those asked with API keys."""
    return tx.scalar(_COUNT_PENDING_OF_REQUESTER, {"team_": team, "requester_": requester}) or 0


def find_earlier_approval_ask_time(
    tx: Transaction, team: str, requester: str, number: int, since: datetime
) -> datetime | None:
    """Return when people were asked to approve a requester's call, `number` asks before the newest.

    Calls asked with API keys do not count. None if there is none after `since`.
    """
    values_ = {"team_": team, "requester_": requester, "since_": since, "earlier_": number}
    found: datetime | None = tx.scalar(_SELECT_ASKED_TIMES_SINCE, values_)
    return found


_UPDATE_REQUEST_THREAD = (
    update(Run)
    .where(col(Run.root_id) == bindparam("id_"), col(Run.thread_ts) == "")
    .values(channel=bindparam("channel"), thread_ts=bindparam("thread_ts"))
    .returning(col(Run.id))
)
_SELECT_NEWEST_RUN_IN_THREAD = (
    select(Run)
    .where(
        *build_thread_conditions(Run),
        col(Run.parent_call) == "",
    )
    .order_by(col(Run.created_at).desc(), col(Run.id))
    .limit(1)
)
_SELECT_RUN_BEGUN_IN_THREAD = (
    select(Run)
    .join(Delivery, col(Delivery.run_id) == col(Run.id))
    .where(
        *build_thread_conditions(Delivery),
        col(Run.requester) == bindparam("requester_"),
    )
    .order_by(col(Delivery.seq).desc())
    .limit(1)
)
_SUM_TOKENS_SINCE = select(func.sum(col(Run.tokens))).where(
    col(Run.parent_call) == "",  # a sub-agent's tokens are counted in its request
    build_recent_runs_condition(col(Run.status) == RunStatus.RUNNING),
)
_NOT_COMPACTION_CONDITION = ~col(Item.body).startswith(transcripts.COMPACTION_PREFIX)
_SELECT_USER_MESSAGES_UNTIL = (
    select(col(Item.body))
    .where(col(Item.run_id) == bindparam("id_"), col(Item.created_at) <= bindparam("until_"))
    .where(col(Item.body).startswith('{"role": "user"'))
    .order_by(col(Item.seq))
)
_SELECT_NEWEST_ITEM = (
    select(col(Item.body))
    .where(col(Item.run_id) == bindparam("id_"), _NOT_COMPACTION_CONDITION)
    .order_by(col(Item.seq).desc())
    .limit(1)
)
_INCREMENT_RUN_COUNTS = (
    update(Run)
    .where(col(Run.id) == bindparam("id_"))
    .values(
        turns=col(Run.turns) + 1,
        **{
            name: col(getattr(Run, name)) + bindparam(f"{name}_")
            for name in ("tokens", "calls", "cards")
        },
    )
)
_INCREMENT_TOKENS = (
    update(Run)
    .where(col(Run.id).in_((bindparam("id_"), bindparam("root_"))))
    .values(tokens=col(Run.tokens) + bindparam("tokens_"))
)
_INCREMENT_COUNTS_IF_FENCED = (
    _INCREMENT_RUN_COUNTS.where(col(Run.fence) == bindparam("fence_"))
    .where(col(Run.status) == RunStatus.RUNNING)
    .returning(Run.__table__)  # type: ignore[attr-defined]  # SQLModel does not tell
)


def find_run(tx: Transaction, run_id: str) -> Run | None:
    """Return the run with that id, or None."""
    return tx.find_row(Run, id=run_id)


def get_run(tx: Transaction, run_id: str) -> Run:
    """Return the run that a plan, call or run refers to; a foreign key keeps it there."""
    return tx.get_row(Run, id=run_id)


def is_requester_of_run(tx: Transaction, run_id: str, person: str) -> bool:
    """Return whether this person is the run's requester."""
    run = find_run(tx, run_id)
    return run is not None and run.requester == person


def set_request_thread(tx: Transaction, run_id: str, channel: str, ts: str) -> bool:
    """Set the thread of a request that had none, also for its sub-agents; False if it has one.

    From now on a worker may take the runs.
    """
    given = {"id_": run_id, "channel": channel, "thread_ts": ts}
    found = tx.scalars(_UPDATE_REQUEST_THREAD, given)
    tx.ready += found
    return bool(found)


def find_newest_run_in_thread(
    tx: Transaction, team: str, channel: str, thread_ts: str
) -> Run | None:
    """Return the newest run of a thread, of any status, ignoring sub-agents' runs; or None."""
    return fetch_first_row(
        tx, Run, _SELECT_NEWEST_RUN_IN_THREAD, team_=team, channel_=channel, thread_ts_=thread_ts
    )


def find_newest_run_of_person_in_thread(
    tx: Transaction, team: str, channel: str, thread_ts: str, requester: str
) -> Run | None:
    """Return the requester's run with the newest message in the thread; None if there is none.

    The run itself may go on in another place.
    """
    given = {"team_": team, "channel_": channel, "thread_ts_": thread_ts}
    return fetch_first_row(tx, Run, _SELECT_RUN_BEGUN_IN_THREAD, **given, requester_=requester)


def is_run_open(run: Run | None) -> bool:
    """Return whether the run exists and is READY, RUNNING or WAITING."""
    return run is not None and run.status in RUN_OPEN_STATUSES


def is_run_without_model(run: Run | None) -> bool:
    """Return whether no model proposes the run's calls: a form, program or server asked."""
    return run is not None and run.source not in MODEL_DRIVEN_SOURCES


def get_run_with_fence(tx: Transaction, run_id: str, fence: int) -> Run:
    """Return the run if it still has this fence; raise moves.StaleFenceError otherwise."""
    run = get_run(tx, run_id)
    if run.fence != fence:
        raise moves.StaleFenceError(run_id)
    return run


_SELECT_OPEN_RUN_OF_REQUESTER = (
    select(col(Run.id))
    .where(col(Run.team) == bindparam("team_"), col(Run.requester) == bindparam("requester_"))
    .where(col(Run.status).in_(RUN_OPEN_STATUSES))
    .limit(1)
)


def has_open_run(tx: Transaction, team: str, requester: str) -> bool:
    """Return whether this person has an open request."""
    given = {"team_": team, "requester_": requester}
    return tx.scalar(_SELECT_OPEN_RUN_OF_REQUESTER, given) is not None


def list_open_and_failed_runs(tx: Transaction) -> list[Run]:
    """Return the runs that are open or FAILED."""
    where = col(Run.status).in_(calls.UNFINISHED_RUN_STATUSES)
    return fetch_readable_rows(tx, Run, col(Run.id), select(Run).where(where))


_SELECT_OPEN_RUNS_OF_REQUEST = (
    select(Run)
    .where(col(Run.root_id) == bindparam("root_"), col(Run.status).in_(RUN_OPEN_STATUSES))
    .order_by(col(Run.created_at), col(Run.id))
)


def list_open_runs_of_request(tx: Transaction, root_id: str) -> list[Run]:
    """Return the open runs of a request, oldest first: its first run and its sub-agents'."""
    return fetch_rows(tx, Run, _SELECT_OPEN_RUNS_OF_REQUEST, root_=root_id)


def store_edited_message_text(tx: Transaction, run: Run, ts: str, text: str | None) -> None:
    """Store the new text of an edited message of the run; None removes it (the original counts)."""
    now = {key: words for key, words in json.loads(run.reworded).items() if key != ts}
    now |= {} if text is None else {ts: text}
    tx.update_rows(Run, {"id": run.id}, reworded=json.dumps(now))


def add_turn_to_counters(tx: Transaction, run: Run, *, tokens: int, calls: int, cards: bool) -> Run:
    """Count a turn of the run and return the run; StaleFenceError if the worker has lost the run.

    A sub-agent's turn also counts for its request. `cards`: people are asked.
    """
    used = {"tokens_": tokens, "calls_": calls, "cards_": int(cards)}
    counted = fetch_first_row(
        tx, Run, _INCREMENT_COUNTS_IF_FENCED, id_=run.id, fence_=run.fence, **used
    )
    if counted is None:
        raise moves.StaleFenceError(run.id)
    if counted.parent_call:  # the whole request has one budget
        tx.execute(_INCREMENT_RUN_COUNTS, {"id_": counted.root_id, **used})
    return counted


def add_tokens_to_run(tx: Transaction, run: Run, tokens: int) -> None:
    """Add tokens used outside a turn to the run; a sub-agent's also to its request."""
    tx.execute(_INCREMENT_TOKENS, {"id_": run.id, "root_": run.root_id, "tokens_": tokens})


def sum_requester_tokens_since(tx: Transaction, run: Run, since: datetime) -> int:
    """Return the total tokens of this requester's runs that changed after `since`.

    Each such run counts with all its tokens; RUNNING ones always count.
    """
    return int(
        tx.scalar(
            _SUM_TOKENS_SINCE, {"team_": run.team, "requester_": run.requester, "since_": since}
        )
        or 0
    )


def append_transcript_item(
    tx: Transaction, run: Run, body: dict[str, Any], *, at: datetime
) -> None:
    """Append one item to the run's transcript, as the model sends or sees it."""
    text = json.dumps(body, ensure_ascii=False)
    row = Item(run_id=run.id, turn=run.turns, body=text, created_at=at)
    insert_row(tx, row)


def list_user_messages_until(tx: Transaction, run_id: str, until: datetime) -> list[dict[str, Any]]:
    """Return the user messages among the run's items that were stored by `until`, in order."""
    return [
        json.loads(body)
        for body in tx.scalars(_SELECT_USER_MESSAGES_UNTIL, {"id_": run_id, "until_": until})
    ]


def needs_model_answer(tx: Transaction, run_id: str) -> bool:
    """Return whether the newest item of the run is a person's message or a tool's output."""
    newest = tx.scalar(_SELECT_NEWEST_ITEM, {"id_": run_id})
    item = json.loads(newest) if newest else {}
    return item.get("role") == "user" or item.get("type") == "function_call_output"


def close_plan_if_all_final(
    tx: Transaction, run: Run, plan_calls: Sequence[Call], *, at: datetime
) -> bool:
    """Append one output for each call of an open plan, in the model's order, once all are settled.

    `plan_calls`: the plan's calls as they are now. False if there are none or some are not settled.
    """
    if not plan_calls or not all(calls.has_final_outcome(call) for call in plan_calls):
        return False
    for call in plan_calls:
        call_id_field = {"call_id": call.provider_id}
        if is_run_without_model(run):  # no model proposed it: it is added with its output
            current = calls.find_revision(tx, call.id, call.revision)
            function_fields = {
                "name": call.tool,
                "arguments": current.arguments if current else "{}",
            }
            append_transcript_item(
                tx, run, {"type": "function_call", **call_id_field, **function_fields}, at=at
            )
        append_transcript_item(
            tx, run, {"type": "function_call_output", **call_id_field, "output": call.output}, at=at
        )
    calls.mark_plan_outputs_in_transcript(tx, plan_calls[0].plan_id)
    return True
