"""One person's data: export of everything held about them, and its erasure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import String, and_, bindparam, cast, delete, func, literal, or_, select, update
from sqlmodel import SQLModel, col

from storage import grants, inbox, purge, trail
from storage.columns import build_thread_conditions
from storage.delegations import Delegation
from storage.models import (
    Attempt,
    Audit,
    Call,
    Delivery,
    Item,
    Message,
    ModeSwitch,
    PersonAnswer,
    Plan,
    Revision,
    Run,
    Vote,
)
from storage.passkeys import Passkey, SigningLink, VoteSignature
from storage.programs import ProgramApiKey
from storage.states import RUN_OPEN_STATUSES, DeliveryKind, DeliveryStatus
from storage.store import STEP_PAUSE_SECONDS, Store
from storage.transaction import Transaction, fetch_rows
from storage.transcripts import AttachedFile
from storage.webhooks import Webhook

PERSON_FORGOTTEN_EVENT = "person.forgotten"  # the last audit row of each erasure
_PERSON_PARAMETER: Any = bindparam("person_")
_RUN_ID_PARAMETERS = purge.RUN_ID_PARAMETERS
_SELECTS_OF_RUNS_OF_PERSON = (
    select(col(Run.id)).where(col(Run.requester) == _PERSON_PARAMETER),
    select(col(Delivery.run_id)).where(
        col(Delivery.user) == _PERSON_PARAMETER, col(Delivery.run_id).is_not(None)
    ),
    select(col(AttachedFile.run_id)).where(col(AttachedFile.person) == _PERSON_PARAMETER),
    # transcripts name the author of a quote like this: "Ben (<@UBEN00001>)"
    select(col(Item.run_id)).where(
        col(Item.body).contains(literal("(<@").concat(_PERSON_PARAMETER))
    ),
    *(
        select(col(Call.run_id)).where(col(Call.id).in_(select(of).where(*whose)))
        for of, *whose in (
            (col(Vote.call_id), col(Vote.person) == _PERSON_PARAMETER, col(Vote.reason) != ""),
            (col(PersonAnswer.call_id), col(PersonAnswer.person) == _PERSON_PARAMETER),
            (col(Revision.call_id), col(Revision.author) == _PERSON_PARAMETER),
        )
    ),
)
_ROOT_ID_COLUMN = func.coalesce(col(Run.root_id), "")
_SELECT_THREAD_OF_RUN = select(
    col(Run.team), col(Run.channel), col(Run.thread_ts), _ROOT_ID_COLUMN
).where(col(Run.id) == bindparam("id_"))
_SELECT_RUNS_OF_SAME_THREAD = select(col(Run.id)).where(
    or_(
        and_(*build_thread_conditions(Run), col(Run.thread_ts) != ""),
        col(Run.root_id) == bindparam("root_"),
    )
)
_SETTLED_STATUSES = (DeliveryStatus.DONE, DeliveryStatus.BROKEN)
_SELECTS_OF_OPEN_RUNS = (
    select(col(Run.id)).where(
        col(Run.id).in_(_RUN_ID_PARAMETERS), col(Run.status).in_(RUN_OPEN_STATUSES)
    ),
    select(col(Call.run_id)).where(
        col(Call.run_id).in_(_RUN_ID_PARAMETERS), purge.OPEN_CALL_CONDITION
    ),
    select(col(Message.run_id)).where(
        col(Message.run_id).in_(_RUN_ID_PARAMETERS),
        col(Message.status).not_in(purge.FINISHED_MESSAGE_STATUSES),
    ),
)
_SELECT_UNPURGED_RUNS = select(col(Run.id)).where(
    col(Run.id).in_(_RUN_ID_PARAMETERS), col(Run.purged_at).is_(None)
)
_SELECT_PINNED_GRANTS = select(grants.Grant).where(
    or_(
        col(grants.Grant.call_id).in_(purge.SELECT_CALL_IDS_OF_RUNS),
        col(grants.Grant.requester) == _PERSON_PARAMETER,
    ),
    col(grants.Grant.pinned) != "{}",
)
_UPDATE_GRANT_UNPINNED = (
    update(grants.Grant).where(col(grants.Grant.id) == bindparam("id_")).values(pinned="{}")
)
# what an ordinary purge leaves in requests, and the key by which a program knows its request
_EXTRA_ERASING_UPDATES = (
    update(Delivery)
    .where(col(Delivery.run_id).in_(_RUN_ID_PARAMETERS), col(Delivery.note) != "")
    .values(note=""),
    update(Delivery)
    .where(col(Delivery.run_id).in_(_RUN_ID_PARAMETERS), col(Delivery.kind) == DeliveryKind.PROGRAM)
    .values(key=literal("forgotten:").concat(cast(col(Delivery.seq), String))),
    update(Webhook)
    .where(col(Webhook.run_id).in_(_RUN_ID_PARAMETERS), col(Webhook.error) != "")
    .values(error=""),
)
# clicks and dialogs have no request id; what they are about is in their payload
_SELECT_SETTLED_CLICKS = select(col(Delivery.seq), col(Delivery.user), col(Delivery.body)).where(
    col(Delivery.seq) > bindparam("after_"),
    col(Delivery.seq) <= bindparam("until_"),
    col(Delivery.status).in_(_SETTLED_STATUSES),
    col(Delivery.run_id).is_(None),
    or_(col(Delivery.body) != "{}", col(Delivery.answer) != "", col(Delivery.note) != ""),
)
_UPDATE_CLICK_EMPTIED = (
    update(Delivery)
    .where(col(Delivery.seq) == bindparam("seq_"))
    .values(body="{}", answer="", note="")
)
# messages to one person or about no request: they have no request id
_PRIVATE_MESSAGE_COLUMNS = (
    Message.seq,
    Message.key,
    Message.recipient,
    Message.channel,
    Message.body,
)
_SELECT_PRIVATE_MESSAGES = select(*map(col, _PRIVATE_MESSAGE_COLUMNS)).where(
    col(Message.run_id) == "", col(Message.status).in_(purge.FINISHED_MESSAGE_STATUSES)
)
_DELETE_MESSAGE_BY_SEQ = delete(Message).where(col(Message.seq) == bindparam("seq_"))
_DELETE_MESSAGE_BY_KEY = delete(Message).where(
    col(Message.key) == bindparam("key_"), col(Message.status).in_(purge.FINISHED_MESSAGE_STATUSES)
)
_SELECT_PLANS = select(col(Plan.id)).where(col(Plan.run_id).in_(_RUN_ID_PARAMETERS))
_ID_PATTERN = re.compile(r"[\w-]{22}", re.ASCII)
_SELECT_DELEGATIONS_GIVEN = select(col(Delegation.id)).where(
    col(Delegation.giver) == _PERSON_PARAMETER
)
_UPDATE_DELEGATION_NOTES = (
    update(Delegation)
    .where(col(Delegation.giver) == _PERSON_PARAMETER, col(Delegation.words) != "")
    .values(words="")
)
_ERASE_PASSKEY_NAMES_AND_LINKS = (  # the passkeys stay: signatures refer to them
    update(Passkey).where(col(Passkey.person) == _PERSON_PARAMETER).values(name=""),
    delete(SigningLink).where(col(SigningLink.person) == _PERSON_PARAMETER),
)
_UPDATE_VOTE_REASONS = (
    update(Vote)
    .where(
        col(Vote.person) == _PERSON_PARAMETER,
        col(Vote.reason) != "",
        col(Vote.call_id).in_(
            select(col(Call.id))
            .join(Run, col(Run.id) == col(Call.run_id))
            .where(col(Run.purged_at).is_not(None))
        ),
    )
    .values(reason="")
)
_VOTE_TRIGGER_PATTERN = re.compile(r"\bvote_no_update\b")  # keeps votes append-only
_COUNT_VOTE_REASONS = select(func.count()).where(
    col(Vote.person) == _PERSON_PARAMETER, col(Vote.reason) != ""
)
# builds before 0.1.0 sealed the reason of a vote together with the rest of its row
_COUNT_SEALED_REASONS = (
    select(func.count())
    .where(col(Audit.actor) == _PERSON_PARAMETER, col(Audit.data).contains('"reason": "'))
    .where(~col(Audit.data).contains('"reason": ""'))
)


@dataclass(frozen=True, slots=True)
class RequestsOfPerson:
    """The requests in which a person asked or wrote, grouped by thread."""

    closed_threads: Sequence[Sequence[str]]  # request ids
    open_threads: Sequence[Sequence[str]]  # with something open, or a message still to be sent
    erasable_count: int  # how many in closed threads nothing has emptied yet
    erasable_count_of_others: int  # how many of these other people made
    sealed_row_count: int  # audit rows with words that cannot be removed


@dataclass(frozen=True, slots=True)
class ErasureResult:
    """The result of erasing a person's data."""

    emptied_requests: int  # how many this erasure emptied
    emptied_votes: int  # how many votes lost their reason
    open_requests: Sequence[str]  # one request of each thread left because something in it is open
    sealed_row_count: int  # audit rows with words that cannot be removed


def find_requests_of_person(tx: Transaction, person: str) -> RequestsOfPerson:
    """Return the requests in which this person (a Slack user id) asked or wrote."""
    wrote = {
        each
        for found in _SELECTS_OF_RUNS_OF_PERSON
        for each in tx.scalars(found, {"person_": person})
    }
    asked = tx.scalars(_SELECTS_OF_RUNS_OF_PERSON[0], {"person_": person})
    threads = list(_group_by_thread(tx, sorted(wrote)))
    opened = [each for each in threads if has_open_request(tx, each)]
    closed = [each for each in threads if each not in opened]
    erasable = {
        each
        for thread in closed
        for some in _split_into_chunks(thread)
        for each in tx.scalars(_SELECT_UNPURGED_RUNS, purge.build_run_id_parameters(some))
    }
    sealed = int(tx.scalar(_COUNT_SEALED_REASONS, {"person_": person}))
    of_others = len(erasable.difference(asked))
    return RequestsOfPerson(closed, opened, len(erasable), of_others, sealed)


def has_open_request(tx: Transaction, run_ids: Sequence[str]) -> bool:
    """Return whether any of these requests is still open or has messages to be sent."""
    return any(
        tx.execute(each, purge.build_run_id_parameters(some))
        for some in _split_into_chunks(run_ids)
        for each in _SELECTS_OF_OPEN_RUNS
    )


def erase_personal_data(
    store: Store,
    person: str,
    *,
    at: datetime,
    actor: str,
    should_stop: Callable[[], bool] = lambda: False,
) -> ErasureResult:
    """Erase this person's data in all closed requests, a hundred at a time, until `should_stop`.

    Repeating it goes on with what was left. The text is removed from the rows and from the disk;
    other writers wait for some milliseconds at a time.
    """
    with store.read() as tx:
        requests = find_requests_of_person(tx, person)
        erased_ids = {
            each
            for thread in requests.closed_threads
            for some in _split_into_chunks(thread)
            for each in _list_request_plan_and_call_ids(tx, some)
        }
        newest_seq = inbox.get_newest_delivery_seq(tx)
    emptied = 0
    for pack in _group_into_batches(requests.closed_threads):
        if should_stop():
            break
        with store.write() as tx:
            emptied += _empty_closed_threads(tx, pack, person, at, actor)
        time.sleep(STEP_PAUSE_SECONDS)
    for after in range(0, newest_seq, purge.DELIVERIES_PER_TRANSACTION):
        with store.write() as tx:
            _erase_clicks(tx, person, erased_ids, after)
        time.sleep(STEP_PAUSE_SECONDS)
    with store.write() as tx:
        votes = _erase_notes_and_messages(store, tx, person, erased_ids)
        with_open = tuple(each[0] for each in requests.open_threads)
        audit_data = {"person": person, "requests": emptied, "votes": votes, "open": len(with_open)}
        trail.record_event(tx, PERSON_FORGOTTEN_EVENT, at=at, actor=actor, data=audit_data)
    store.release_all_free_pages(should_stop=should_stop)
    return ErasureResult(emptied, votes, with_open, requests.sealed_row_count)


def _list_request_plan_and_call_ids(tx: Transaction, run_ids: Sequence[str]) -> set[str]:
    named = purge.build_run_id_parameters(run_ids)
    return {
        *run_ids,
        *tx.scalars(_SELECT_PLANS, named),
        *tx.scalars(purge.SELECT_CALL_IDS_OF_RUNS, named),
    }


def _erase_clicks(tx: Transaction, person: str, ids: set[str], after: int) -> None:
    """Erase this person's clicks and dialogs, and others' that concern these requests."""
    tx.overwrite_erased_data()
    among = {"after_": after, "until_": after + purge.DELIVERIES_PER_TRANSACTION}
    for seq, user, body in tx.execute(_SELECT_SETTLED_CLICKS, among):
        if user == person or not ids.isdisjoint(_ID_PATTERN.findall(body)):
            tx.execute(_UPDATE_CLICK_EMPTIED, {"seq_": seq})
            for each in purge.PRIVATE_KEY_PREFIXES:
                tx.execute(_DELETE_MESSAGE_BY_KEY, {"key_": f"{each}{seq}"})


def _erase_notes_and_messages(store: Store, tx: Transaction, person: str, ids: set[str]) -> int:
    """Erase this person's delegation notes, names of passkeys, private messages, vote reasons.

    Messages about their delegations or these requests are deleted, too. Returns the number of
    votes.
    """
    tx.overwrite_erased_data()
    gave = set(tx.scalars(_SELECT_DELEGATIONS_GIVEN, {"person_": person}))
    for statement in (_UPDATE_DELEGATION_NOTES, *_ERASE_PASSKEY_NAMES_AND_LINKS):
        tx.execute(statement, {"person_": person})
    for seq, key, recipient, channel, body in tx.execute(_SELECT_PRIVATE_MESSAGES):
        is_theirs = person in (recipient, channel) or not gave.isdisjoint(key.split(":"))
        if is_theirs or not ids.isdisjoint(_ID_PATTERN.findall(body)):
            tx.execute(_DELETE_MESSAGE_BY_SEQ, {"seq_": seq})
    return _erase_vote_reasons(store, tx, person)


def _empty_closed_threads(
    tx: Transaction, threads: Iterable[Sequence[str]], person: str, at: datetime, actor: str
) -> int:
    """Erase the requests' contents in these threads, unless a thread is open; return how many."""
    run_ids = [each for thread in threads if not has_open_request(tx, thread) for each in thread]
    emptied = 0
    for some in _split_into_chunks(run_ids):
        id_parameters = purge.build_run_id_parameters(some)
        unpurged_ids = tx.scalars(_SELECT_UNPURGED_RUNS, id_parameters)
        purge.empty_request_contents(tx, some, at=at)
        for grant in fetch_rows(
            tx, grants.Grant, _SELECT_PINNED_GRANTS, person_=person, **id_parameters
        ):
            grants.revoke_grant(tx, grant.id, actor, at)
            tx.execute(_UPDATE_GRANT_UNPINNED, {"id_": grant.id})
        for statement in _EXTRA_ERASING_UPDATES:
            tx.execute(statement, id_parameters)
        if unpurged_ids:
            data = {"person": person, trail.PURGED_RUNS_KEY: unpurged_ids}
            trail.record_event(tx, trail.PURGE_EVENT, at=at, actor=actor, data=data)
        emptied += len(unpurged_ids)
    return emptied


def _erase_vote_reasons(store: Store, tx: Transaction, person: str) -> int:
    """Erase the reasons of this person's votes in purged requests, only these; return how many.

    Who voted, and how, stays.
    """
    if not tx.scalar(_COUNT_VOTE_REASONS, {"person_": person}):
        return 0
    database = store.database
    for statement in filter(_VOTE_TRIGGER_PATTERN.search, database.list_drop_trigger_statements()):
        tx.exec_driver_sql(statement)
    many = tx.execute(_UPDATE_VOTE_REASONS, {"person_": person}).rowcount
    for statement in filter(
        _VOTE_TRIGGER_PATTERN.search, database.list_create_trigger_statements()
    ):
        tx.exec_driver_sql(statement)
    return many


def _group_by_thread(tx: Transaction, run_ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield these requests, each with all others of its thread or its root request."""
    seen: set[str] = set()
    for run_id in run_ids:
        if run_id in seen:
            continue
        thread_run_ids, todo, places = [run_id], [run_id], set()
        seen.add(run_id)
        while todo:
            [place] = tx.execute(_SELECT_THREAD_OF_RUN, {"id_": todo.pop()})
            if place in places:
                continue
            places.add(place)
            names = ("team_", "channel_", "thread_ts_", "root_")
            neighbour_ids = tx.scalars(
                _SELECT_RUNS_OF_SAME_THREAD, dict(zip(names, place, strict=True))
            )
            new_ids = [each for each in neighbour_ids if each not in seen]
            seen.update(new_ids)
            thread_run_ids += new_ids
            todo += new_ids
        yield thread_run_ids


def _group_into_batches(threads: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    """Yield the threads in groups of at most a hundred requests; a longer thread is one group."""
    pack: list[Sequence[str]] = []
    for thread in threads:
        if pack and sum(map(len, pack)) + len(thread) > purge.MAX_RUNS_PER_TRANSACTION:
            yield pack
            pack = []
        pack.append(thread)
    if pack:
        yield pack


def _split_into_chunks(run_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (
        run_ids[start : start + purge.MAX_RUNS_PER_TRANSACTION]
        for start in range(0, len(run_ids), purge.MAX_RUNS_PER_TRANSACTION)
    )


_SECRET_COLUMNS_BY_TABLE = {"client_key": {"hash"}, "signing_link": {"hash"}}  # never exported
_MODELS_WITH_RUN_ID: tuple[Any, ...] = (Plan, Call, Item, Message, Delivery, AttachedFile, Audit)
_MODELS_WITH_CALL_ID: tuple[Any, ...] = (Revision, Vote, VoteSignature, PersonAnswer, Attempt)


def export_personal_data(tx: Transaction, person: str) -> dict[str, Any]:
    """Return what is held about this person (a Slack user id), as JSON types.

    `asked`: every row of the requests that they made, by table. `elsewhere`: this person's rows in
    the requests of others, or in no request. `emptied_with`: the requests of others that `forget`
    would empty too, because this person's text is part of them.
    """
    own_run_ids = select(col(Run.id)).where(col(Run.requester) == person)
    calls = select(col(Call.id)).where(col(Call.run_id).in_(own_run_ids))
    rows_by_table: dict[str, list[dict[str, Any]]] = {
        "run": _fetch_rows_as_dicts(tx, Run, col(Run.requester) == person)
    }
    for model in _MODELS_WITH_RUN_ID:
        rows_by_table[_table_name(model)] = _fetch_rows_as_dicts(
            tx, model, col(model.run_id).in_(own_run_ids)
        )
    for model in _MODELS_WITH_CALL_ID:
        rows_by_table[_table_name(model)] = _fetch_rows_as_dicts(
            tx, model, col(model.call_id).in_(calls)
        )
    elsewhere = {
        _table_name(model): _fetch_rows_as_dicts(tx, model, *where)
        for model, where in _conditions_for_rows_elsewhere(person, own_run_ids, calls)
    }
    threads = find_requests_of_person(tx, person)
    own = {row["id"] for row in rows_by_table["run"]}
    emptied = [
        each for thread in (*threads.closed_threads, *threads.open_threads) for each in thread
    ]
    return {
        "asked": rows_by_table,
        "elsewhere": elsewhere,
        "emptied_with": sorted({*emptied} - own),
    }


def _conditions_for_rows_elsewhere(
    person: str, mine: Any, calls: Any
) -> Iterator[tuple[type[SQLModel], tuple[Any, ...]]]:
    """Yield each table with the condition for the person's rows outside their own requests."""
    yield Vote, (col(Vote.person) == person, col(Vote.call_id).not_in(calls))
    signed = col(VoteSignature.person) == person
    yield VoteSignature, (signed, col(VoteSignature.call_id).not_in(calls))
    yield Passkey, (col(Passkey.person) == person,)
    yield SigningLink, (col(SigningLink.person) == person,)
    answered = col(PersonAnswer.person) == person
    yield PersonAnswer, (answered, col(PersonAnswer.call_id).not_in(calls))
    yield Revision, (col(Revision.author) == person, col(Revision.call_id).not_in(calls))
    in_none_of_theirs = or_(col(Delivery.run_id).is_(None), col(Delivery.run_id).not_in(mine))
    yield Delivery, (col(Delivery.user) == person, in_none_of_theirs)
    quoted = col(Item.body).contains(f"(<@{person}>)")
    yield Item, (quoted, col(Item.run_id).not_in(mine))
    is_private_message = or_(col(Message.recipient) == person, col(Message.channel) == person)
    yield Message, (is_private_message, col(Message.run_id).not_in(mine))
    yield AttachedFile, (col(AttachedFile.person) == person, col(AttachedFile.run_id).not_in(mine))
    yield Audit, (col(Audit.actor) == person, col(Audit.run_id).not_in(mine))
    yield ModeSwitch, (col(ModeSwitch.person) == person,)
    yield Delegation, (or_(col(Delegation.giver) == person, col(Delegation.delegate) == person),)
    yield (
        grants.Grant,
        (or_(col(grants.Grant.requester) == person, col(grants.Grant.given_by) == person),),
    )
    yield ProgramApiKey, (col(ProgramApiKey.person) == person,)
    yield inbox.GreetedPerson, (col(inbox.GreetedPerson.person) == person,)


def _fetch_rows_as_dicts(
    tx: Transaction, model: type[SQLModel], *where: Any
) -> list[dict[str, Any]]:
    """Return rows as dicts by column, ordered by primary key.

    Times are in the form 2026-11-24T22:00:00+00:00.
    """
    table: Any = model.__dict__["__table__"]
    hidden = _SECRET_COLUMNS_BY_TABLE.get(table.name, set())
    statement = select(model).where(*where).order_by(*table.primary_key.columns)
    found = tx.execute(statement)
    return [_to_json_row(dict(zip(found.columns, row, strict=True)), hidden) for row in found]


def _to_json_row(row: Mapping[str, Any], hidden: set[str]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
        if name not in hidden
    }


def _table_name(model: type[SQLModel]) -> str:
    return str(model.__dict__["__table__"].name)
