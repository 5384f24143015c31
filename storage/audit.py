"""The audit: what happened, appended in the same transaction as the fact, hash-chained from its
first row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import col

from storage.masking import masked_data
from storage.models import Audit
from storage.transaction import Transaction, insert_into, rows

FIRST = "0" * 64
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
_LAST = select(col(Audit.hash)).order_by(col(Audit.seq).desc()).limit(1)


def _hash(
    previous: str, at: datetime, run_id: str, call_id: str, actor: str, event: str, data: str
) -> str:
    body = json.dumps([previous, at.isoformat(), run_id, call_id, actor, event, data])
    return hashlib.sha256(body.encode()).hexdigest()


def record(
    tx: Transaction,
    event: str,
    *,
    at: datetime,
    actor: str,
    run_id: str = "",
    call_id: str = "",
    data: Mapping[str, Any] | None = None,
) -> None:
    """Append one row; `data` must be JSON and must hold no secret fields.

    What looks like a secret is masked.
    """
    text = _encode(masked_data(data or {}))
    previous = tx.audited or tx.scalar(_LAST) or FIRST
    row = {
        "at": at,
        "run_id": run_id,
        "call_id": call_id,
        "actor": actor,
        "event": event,
        "data": text,
        "previous": previous,
        "hash": _hash(previous, at, run_id, call_id, actor, event, text),
    }
    tx.execute(insert_into(Audit), row)
    tx.audited = str(row["hash"])


def verify(tx: Transaction) -> int | None:
    """The `seq` of the first row that breaks the chain, or None when all of it holds."""
    previous = FIRST
    for row in rows(tx, Audit, select(Audit).order_by(col(Audit.seq))):
        if row.previous != previous or row.hash != _hash(
            previous, row.at, row.run_id, row.call_id, row.actor, row.event, row.data
        ):
            return row.seq
        previous = row.hash
    return None
