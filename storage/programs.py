"""Programs that ask for approvals: their API keys (no secret is stored) and their requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import Index, and_, bindparam, func, or_, select, update
from sqlmodel import Field, col

from storage import calls, columns, inbox, moves, runs, trail
from storage.models import Call, Delivery, Run
from storage.states import CALL_FINAL_STATUSES, CallStatus, DeliveryKind, RunSource, RunStatus
from storage.transaction import (
    Transaction,
    fetch_first_row,
    fetch_readable_rows,
    fetch_rows,
    insert_row,
)


class ProgramApiKey(columns.Row, table=True):
    """The API key of a program, without its secret, and the person who answers for it."""

    __tablename__ = "client_key"
    __table_args__ = (Index("ix_client_key_name", "team", "name"),)
    id: str = Field(primary_key=True)  # the part of the key that is not secret
    team: str
    name: str  # the program's name
    person: str  # Slack user id of the person responsible for it
    is_service: bool = False  # it may make requests in any colleague's name
    tools: str = columns.text_column("[]")  # JSON: patterns of the tools and actions it may request
    per_hour: int  # most requests in an hour
    hash: str  # SHA-256 of the secret, in hex
    # the address that gets events of its requests; "" for none
    webhook: str = columns.text_column("")
    made_at: datetime = columns.time_column()
    revoked_at: datetime | None = columns.time_column(nullable=True)

    @property
    def is_bot_account(self) -> bool:
        """Return whether the key is that of the bot's system account, used at the local socket."""
        return not self.name

    def may_ask_for(self, tool: str) -> bool:
        """Return whether one of the key's patterns matches the name of this tool or action."""
        return any(fnmatchcase(tool, each) for each in self.tool_patterns)

    @property
    def tool_patterns(self) -> tuple[str, ...]:
        """Return name patterns of tools that the key may ask for; `*` matches any characters."""
        return tuple(json.loads(self.tools))

    def may_continue_requests_of(self, other: ProgramApiKey) -> bool:
        """Return whether this key may see and continue what the other key of its name requested.

        That needs the same person to answer for both, and the same permissions.
        """
        mine, theirs = (
            (each.team, each.name, each.person, each.is_service, frozenset(each.tool_patterns))
            for each in (self, other)
        )
        return mine == theirs


def build_bot_account_key(team: str) -> ProgramApiKey:
    """Return the key of the bot's own system account: any tool, in any colleague's name.

    It is never stored, is good only for the socket beside the database, and has no secret.
    """
    return ProgramApiKey(
        id="",
        team=team,
        name="",
        person="",
        is_service=True,
        tools='["*"]',
        per_hour=0,
        hash="",
        made_at=datetime.min.replace(tzinfo=UTC),
    )


_SELECT_KEYS = select(ProgramApiKey).order_by(col(ProgramApiKey.made_at), col(ProgramApiKey.id))
_SELECT_KEYS_OF_NAME = (
    select(ProgramApiKey)
    .where(*columns.build_conditions(ProgramApiKey, ("team", "name")))
    .order_by(col(ProgramApiKey.made_at).desc())
)
_SELECT_KEY_AT_TIME = _SELECT_KEYS_OF_NAME.where(
    col(ProgramApiKey.made_at) <= bindparam("at_")
).limit(1)
_SELECT_VALID_KEYS_OF_NAME = _SELECT_KEYS_OF_NAME.where(col(ProgramApiKey.revoked_at).is_(None))


def store_api_key(
    tx: Transaction, row: ProgramApiKey, by: str, *, keep_current: bool = False
) -> bool:
    """Store a new API key; False if its name has one, unless `keep_current` allows a second.

    `by`: who made it, for the audit. `keep_current`: accept the new key next to the old one if both
    have the same person and tools. A name whose key was revoked may be used again. Only a new key
    for the same person and tools can go on with the old one's requests.
    """
    there = find_current_api_key(tx, row.team, row.name)
    if there is not None and not (keep_current and row.may_continue_requests_of(there)):
        return False
    insert_row(tx, row)
    data = {
        "key": row.id,
        "name": row.name,
        "person": row.person,
        "service": row.is_service,
        "tools": list(row.tool_patterns),
        "per_hour": row.per_hour,
        "webhook": row.webhook,
    }
    trail.record_event(tx, "key.made", at=row.made_at, actor=by, data=data)
    return True


def find_api_key(tx: Transaction, key_id: str) -> ProgramApiKey | None:
    """Return the key with that id, revoked or not; None if there is none."""
    return tx.find_row(ProgramApiKey, id=key_id)


def find_current_api_key(tx: Transaction, team: str, name: str) -> ProgramApiKey | None:
    """Return the newest valid key of that name; None if there is none."""
    return fetch_first_row(tx, ProgramApiKey, _SELECT_VALID_KEYS_OF_NAME, team_=team, name_=name)


def find_api_key_at(tx: Transaction, team: str, name: str, at: datetime) -> ProgramApiKey | None:
    """Return the newest key of that name made at or before `at`; None if there is none."""
    return fetch_first_row(tx, ProgramApiKey, _SELECT_KEY_AT_TIME, team_=team, name_=name, at_=at)


def list_api_keys(tx: Transaction) -> list[ProgramApiKey]:
    """Return all keys, oldest first, including revoked ones."""
    return fetch_rows(tx, ProgramApiKey, _SELECT_KEYS)


def revoke_api_keys(tx: Transaction, team: str, name: str, by: str, *, at: datetime) -> bool:
    """Revoke the key with that id, or all valid keys of that name; False if there is none."""
    one = find_api_key(tx, name.removeprefix("csk_").removesuffix("_…"))
    found = [one] if one is not None and one.team == team and one.revoked_at is None else []
    found = found or fetch_rows(
        tx, ProgramApiKey, _SELECT_VALID_KEYS_OF_NAME, team_=team, name_=name
    )
    for each in found:
        tx.update_rows(ProgramApiKey, {"id": each.id, "revoked_at": None}, revoked_at=at)
        trail.record_event(
            tx, "key.revoked", at=at, actor=by, data={"key": each.id, "name": each.name}
        )
    return bool(found)


# Calls that a program runs itself: claimed once, held by a lease, reported by the claimant.

CLAIM_LEASE_DURATION = timedelta(minutes=5)  # without a sign of life, unless a claim asks for more
_CLAIM_CALL = (
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
_HELD_CALL_CONDITIONS = (col(Call.status) == CallStatus.RUNNING, col(Call.held_until).is_not(None))
_SELECT_LAPSED_CALLS = select(Call).where(
    *_HELD_CALL_CONDITIONS, col(Call.held_until) <= bindparam("now_")
)
_SELECT_NEXT_LEASE_END = select(func.min(col(Call.held_until))).where(*_HELD_CALL_CONDITIONS)


def claim_call(tx: Transaction, call: Call, claimant: str, *, at: datetime, actor: str) -> bool:
    """Assign an approved call to the claimant (a hash) that will run it, and let its run go on.

    False if the call cannot be claimed any more.
    """
    given = {"id_": call.id, "revision_": call.revision, "claimant": claimant}
    if tx.execute(_CLAIM_CALL, given).rowcount != 1:
        return False
    data = {"revision": call.revision, "digest": call.digest, "claimant": claimant}
    trail.record_event(tx, "call.claimed", at=at, actor=actor, call=call, data=data)
    moves.resume_run_if_unblocked(tx, call.run_id, at=at, actor=actor)
    return True


def renew_claim(tx: Transaction, call: Call, lease: timedelta, *, at: datetime) -> bool:
    """Extend a claimed call's lease to `at + lease`; False if the call is no longer running."""
    held = {"id": call.id, "status": CallStatus.RUNNING, "claimant": call.claimant}
    return tx.update_rows(Call, held, held_until=at + lease) == 1


def list_calls_with_lapsed_claim(tx: Transaction, now: datetime) -> list[Call]:
    """Return the claimed calls whose program has not reported before the lease expired."""
    return fetch_readable_rows(tx, Call, col(Call.id), _SELECT_LAPSED_CALLS, now_=now)


def find_next_claim_lapse(tx: Transaction) -> datetime | None:
    """Return when the next claim's lease expires; None if no call is claimed and running."""
    found: datetime | None = tx.scalar(_SELECT_NEXT_LEASE_END)
    return found


RATE_LIMIT_PERIOD = timedelta(hours=1)  # in which a key's requests are counted
KEY_ID_FIELD = "key"  # in a stored request: the id of the key that was used
FINISHED_RUN_STATUSES = (RunStatus.COMPLETED, RunStatus.CANCELLED)
StatusFingerprint = tuple[Any, ...]  # differs whenever the request's status does
_SELECT_REQUEST_TIME = (
    select(col(Run.created_at))
    .where(col(Run.client) == bindparam("client_"), col(Run.created_at) > bindparam("since_"))
    .order_by(col(Run.created_at).desc())
    .limit(1)
    .offset(bindparam("earlier_"))
)
_SELECT_REQUESTS_OF_CLIENT = (
    select(Run)
    .where(
        col(Run.client) == bindparam("client_"),
        col(Run.team) == bindparam("team_"),
        col(Run.source) == RunSource.PROGRAM,
        or_(
            col(Run.created_at) < bindparam("at_"),
            and_(col(Run.created_at) == bindparam("at_"), col(Run.id) < bindparam("id_")),
        ),
    )
    .order_by(col(Run.created_at).desc(), col(Run.id).desc())
    .limit(bindparam("most_"))
)
_SELECT_STATUS_FINGERPRINT = (
    select(col(Run.status), col(Call.status), col(Call.revision))
    .select_from(Run)
    .join(Call, col(Call.run_id) == col(Run.id), isouter=True)
    .where(col(Run.id) == bindparam("run_"))
)


def build_delivery_key(client: str, key: str) -> str:
    """Return the delivery key for a request that this client sent with its own idempotency key."""
    return f"program@{client}:{key}" if client else f"program:{key}"


def has_request_with_idempotency_key(
    tx: Transaction, client: str, key: str, *, while_open: bool = False
) -> bool:
    """Return whether this client has sent a request with this idempotency key.

    `while_open`: only count a request that is not over.
    """
    found = inbox.find_delivery(tx, build_delivery_key(client, key))
    return found is not None and not (while_open and _is_request_over(tx, found.run_id))


def free_delivery_key_of_ended_request(tx: Transaction, name: str) -> None:
    """Free a delivery key for reuse if its request is over.

    The delivery stays, under another key.
    """
    found = inbox.find_delivery(tx, name)
    if found is not None and _is_request_over(tx, found.run_id):
        tx.update_rows(Delivery, {"seq": found.seq}, key=f"{name} {found.seq}")


def _is_request_over(tx: Transaction, run_id: str | None) -> bool:
    """Return whether a request has ended, apart from people resolving an UNKNOWN call."""
    found = calls.list_calls_of_run(tx, run_id or "")
    if found:
        return all(
            each.status in CALL_FINAL_STATUSES or each.status is CallStatus.UNKNOWN
            for each in found
        )
    run = runs.find_run(tx, run_id or "")
    return run is None or run.status in FINISHED_RUN_STATUSES


def find_request_by_idempotency_key(
    tx: Transaction, key: ProgramApiKey, idempotency: str
) -> str | None:
    """Return the id of this key's request with that idempotency key; None if there is none."""
    found = inbox.find_delivery(tx, build_delivery_key(key.name, idempotency))
    run = runs.find_run(tx, found.run_id) if found is not None and found.run_id else None
    return run.id if run is not None and is_request_of_key(tx, run, key) else None


def find_first_program_delivery(tx: Transaction, run_id: str) -> Delivery | None:
    """Return the delivery with which a program started this request; None if no program did."""
    return tx.find_row(Delivery, order_by="seq", run_id=run_id, kind=DeliveryKind.PROGRAM)


def is_request_of_key(tx: Transaction, run: Run, key: ProgramApiKey) -> bool:
    """Return whether this key, or one that it succeeds, made the request.

    The request's first delivery names the key. An older or purged one does not; then the key that
    had the name at that time counts.
    """
    if (run.source, run.client, run.team) != (RunSource.PROGRAM, key.name, key.team):
        return False
    if key.is_bot_account:
        return True
    delivery = find_first_program_delivery(tx, run.id)
    key_id = json.loads(delivery.body).get(KEY_ID_FIELD) if delivery else None
    if key_id:
        asker = find_api_key(tx, key_id)
    else:
        asker = find_api_key_at(tx, run.team, run.client, run.created_at)
    return asker is not None and key.may_continue_requests_of(asker)


def list_requests_under_key_name(
    tx: Transaction, key: ProgramApiKey, before: tuple[datetime, str], limit: int
) -> list[tuple[Run, bool]]:
    """Return up to `limit` requests of this key's name, newest first, before that time and id.

    With each: whether the request belongs to the key.
    """
    at, run_id = before
    values = {"client_": key.name, "team_": key.team, "at_": at, "id_": run_id, "most_": limit}
    return [
        (run, is_request_of_key(tx, run, key))
        for run in fetch_rows(tx, Run, _SELECT_REQUESTS_OF_CLIENT, **values)
    ]


def find_time_of_nth_newest_request(
    tx: Transaction, client: str, number: int, since: datetime
) -> datetime | None:
    """Return when this client made the `number`-th newest request; None if not after `since`."""
    values = {"client_": client, "since_": since, "earlier_": number - 1}
    found: datetime | None = tx.scalar(_SELECT_REQUEST_TIME, values)
    return found


def get_status_fingerprints(
    tx: Transaction, run_ids: Iterable[str]
) -> Mapping[str, StatusFingerprint]:
    """Return for each run id a tuple that changes whenever the request's status changes."""
    return {each: tuple(tx.execute(_SELECT_STATUS_FINGERPRINT, {"run_": each})) for each in run_ids}
