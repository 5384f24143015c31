"""Requests of programs: which key asked them, how many it did, and how they stand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, func, or_, select, update
from sqlmodel import col

from storage import calls, client_keys, inbox, runs, trail
from storage.client_keys import ClientKey
from storage.models import Call, Delivery, Run
from storage.states import CALL_FINAL, CallStatus, DeliveryKind, RunSource, RunStatus
from storage.transaction import Transaction, first, readable, rows

# Calls that a program executes itself: claimed once, held for a while, reported by who has it.

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


def claim_call(tx: Transaction, call: Call, claimant: str, *, at: datetime, actor: str) -> bool:
    """Give an approved call to this claimant (a hash), and have its run go on to start it.

    False where it is no longer to be had.
    """
    given = {"id_": call.id, "revision_": call.revision, "claimant": claimant}
    if tx.execute(_CLAIM, given).rowcount != 1:
        return False
    data = {"revision": call.revision, "digest": call.digest, "claimant": claimant}
    about = {"run_id": call.run_id, "call_id": call.id}
    trail.record(tx, "call.claimed", at=at, actor=actor, data=data, **about)
    runs.free(tx, call.run_id, at=at, actor=actor)
    return True


def renew_claim(tx: Transaction, call: Call, lease: timedelta, *, at: datetime) -> bool:
    """Hold a claimed call for so long from now on; False where it is no longer under way."""
    given = {"id_": call.id, "claimant_": call.claimant, "held_until": at + lease}
    return tx.execute(_RENEW, given).rowcount == 1


def lapsed_claims(tx: Transaction, now: datetime) -> list[Call]:
    """Claimed calls of whose program nothing was heard in time."""
    return readable(tx, Call, col(Call.id), _LAPSED, now_=now)


def next_claim_lapse(tx: Transaction) -> datetime | None:
    """When the next of them lapses."""
    found: datetime | None = tx.scalar(_NEXT)
    return found


HOUR = timedelta(hours=1)  # in which the requests of one key are counted
ASKED_BY = "key"  # in what is stored of a request: the id of the key
OVER = (RunStatus.COMPLETED, RunStatus.CANCELLED)
Mark = tuple[Any, ...]  # is another whenever the request stands otherwise
_ASKED = (
    select(col(Run.created_at))
    .where(col(Run.client) == bindparam("client_"), col(Run.created_at) > bindparam("since_"))
    .order_by(col(Run.created_at).desc())
    .limit(1)
    .offset(bindparam("earlier_"))
)
_BEGAN_WITH = (
    select(Delivery)
    .where(col(Delivery.run_id) == bindparam("run_"), col(Delivery.kind) == DeliveryKind.PROGRAM)
    .order_by(col(Delivery.seq))
    .limit(1)
)
_OF_CLIENT = (
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
_LET_GO = (
    update(Delivery).where(col(Delivery.seq) == bindparam("seq_")).values(key=bindparam("free_"))
)
_MARK = (
    select(col(Run.status), col(Call.status), col(Call.revision))
    .select_from(Run)
    .join(Call, col(Call.run_id) == col(Run.id), isouter=True)
    .where(col(Run.id) == bindparam("run_"))
)


def delivery_key(client: str, key: str) -> str:
    """What a delivery is called that this client asked with a key of its own."""
    return f"program@{client}:{key}" if client else f"program:{key}"


def has_asked(tx: Transaction, client: str, key: str, *, while_open: bool = False) -> bool:
    """Whether this client has asked something with this key of its own; `while_open`: and it goes
    on.
    """
    found = inbox.find(tx, delivery_key(client, key))
    return found is not None and not (while_open and _is_over(tx, found.run_id))


def let_go(tx: Transaction, name: str) -> None:
    """Have what a delivery is called be free again, where its request is over.

    The delivery stays, and is called something else.
    """
    found = inbox.find(tx, name)
    if found is not None and _is_over(tx, found.run_id):
        tx.execute(_LET_GO, {"seq_": found.seq, "free_": f"{name} {found.seq}"})


def _is_over(tx: Transaction, run_id: str | None) -> bool:
    """Whether nothing more will come of a request, unless people say what became of it."""
    found = calls.of_run(tx, run_id or "")
    if found:
        return all(each.status in CALL_FINAL or each.status is CallStatus.UNKNOWN for each in found)
    run = runs.get(tx, run_id or "")
    return run is None or run.status in OVER


def asked_with(tx: Transaction, key: ClientKey, idempotency: str) -> str | None:
    """The request that this key asked with a key of its program's own; None for none."""
    found = inbox.find(tx, delivery_key(key.name, idempotency))
    run = runs.get(tx, found.run_id) if found is not None and found.run_id else None
    return run.id if run is not None and belongs_to(tx, run, key) else None


def began_with(tx: Transaction, run_id: str) -> Delivery | None:
    """What a program asked when this request began; None where no program did."""
    return first(tx, Delivery, _BEGAN_WITH, run_=run_id)


def belongs_to(tx: Transaction, run: Run, key: ClientKey) -> bool:
    """Whether this key asked the request, or goes on for the one that did.

    Its first row says which that was; one of an earlier build or a purged one does not, and then it
    is the one that had the name at that time.
    """
    if (run.source, run.client, run.team) != (RunSource.PROGRAM, key.name, key.team):
        return False
    if key.is_account:
        return True
    delivery = began_with(tx, run.id)
    asked_by = json.loads(delivery.body).get(ASKED_BY) if delivery else None
    asker = (
        client_keys.get(tx, asked_by)
        if asked_by
        else client_keys.of_that_time(tx, run.team, run.client, run.created_at)
    )
    return asker is not None and key.goes_on_for(asker)


def asked_by(
    tx: Transaction, key: ClientKey, before: tuple[datetime, str], most: int
) -> list[tuple[Run, bool]]:
    """So many requests of this key's name, the newest first, from this time and id back; with each
    whether it belongs to the key.
    """
    at, run_id = before
    values = {"client_": key.name, "team_": key.team, "at_": at, "id_": run_id, "most_": most}
    return [(run, belongs_to(tx, run, key)) for run in rows(tx, Run, _OF_CLIENT, **values)]


def asked_before(tx: Transaction, client: str, number: int, since: datetime) -> datetime | None:
    """When this client asked its last request but `number` - 1; None if not after `since`."""
    values = {"client_": client, "since_": since, "earlier_": number - 1}
    found: datetime | None = tx.scalar(_ASKED, values)
    return found


def marks(tx: Transaction, run_ids: Iterable[str]) -> Mapping[str, Mark]:
    """How these requests stand, each by a mark that changes when that does."""
    return {each: tuple(tx.execute(_MARK, {"run_": each})) for each in run_ids}
