"""Requests of programs, by the name of the key that asked: how many, and how they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, select, update
from sqlmodel import col

from storage import calls, inbox, runs
from storage.models import Call, Delivery, Run
from storage.states import CALL_FINAL, CallStatus, RunStatus
from storage.transaction import Transaction

HOUR = timedelta(hours=1)  # in which the requests of one key are counted
OVER = (RunStatus.COMPLETED, RunStatus.CANCELLED)
Mark = tuple[Any, ...]  # is another whenever the request stands otherwise
_ASKED = (
    select(col(Run.created_at))
    .where(col(Run.client) == bindparam("client_"), col(Run.created_at) > bindparam("since_"))
    .order_by(col(Run.created_at).desc())
    .limit(1)
    .offset(bindparam("earlier_"))
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


def asked_with(tx: Transaction, client: str, key: str) -> str | None:
    """The request that this client asked with a key of its own; None for none."""
    found = inbox.find(tx, delivery_key(client, key))
    return found.run_id if found is not None and found.run_id else None


def asked_before(tx: Transaction, client: str, number: int, since: datetime) -> datetime | None:
    """When this client asked its last request but `number` - 1; None if not after `since`."""
    values = {"client_": client, "since_": since, "earlier_": number - 1}
    found: datetime | None = tx.scalar(_ASKED, values)
    return found


def marks(tx: Transaction, run_ids: Iterable[str]) -> Mapping[str, Mark]:
    """How these requests stand, each by a mark that changes when that does."""
    return {each: tuple(tx.execute(_MARK, {"run_": each})) for each in run_ids}
