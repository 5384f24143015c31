"""Requests of programs, by the name of the key that asked: how many, and how they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select
from sqlmodel import col

from storage import inbox
from storage.models import Call, Run
from storage.transaction import Transaction

Mark = tuple[Any, ...]  # is another whenever the request stands otherwise
_ASKED = (
    select(col(Run.created_at))
    .where(col(Run.client) == bindparam("client_"), col(Run.created_at) > bindparam("since_"))
    .order_by(col(Run.created_at).desc())
    .limit(1)
    .offset(bindparam("earlier_"))
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


def has_asked(tx: Transaction, client: str, key: str) -> bool:
    """Whether this client has asked something with this key of its own."""
    return inbox.has(tx, delivery_key(client, key))


def asked_before(tx: Transaction, client: str, number: int, since: datetime) -> datetime | None:
    """When this client asked its last request but `number` - 1; None if not after `since`."""
    values = {"client_": client, "since_": since, "earlier_": number - 1}
    found: datetime | None = tx.scalar(_ASKED, values)
    return found


def marks(tx: Transaction, run_ids: Iterable[str]) -> Mapping[str, Mark]:
    """How these requests stand, each by a mark that changes when that does."""
    return {each: tuple(tx.execute(_MARK, {"run_": each})) for each in run_ids}
