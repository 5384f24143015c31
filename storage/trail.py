"""The audit: what happened, appended in the same transaction as the fact, and sealed in a chain.

`record` is the only door to it. What a call was given stands beside the sealed data, under a seal
in it: so it can be purged, and the chain holds. Once committed, each row is a line of the log as
well.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, bindparam, or_, select
from sqlmodel import col

from storage.audit_log import WORD, AuditLine
from storage.chain import FIRST, Chain, Head
from storage.masking import masked_data
from storage.models import Audit, Call, Run
from storage.transaction import Transaction, insert_into, rows

# what of a row's data is kept apart, for a purge may empty it: arguments, and people's words
PAYLOAD = ("arguments", "content")
REASON = "reason"  # the same, where there is one
WHY = ("why", "refused")  # the same, where it is more than a word of ours
SEAL = "payload"  # what the seal over it is called in the data
PURGE = "run.purged"  # the event of a row about requests that were emptied
PURGED_RUNS = "runs"  # which, in its data; one of an earlier build is about its own request
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode
_LAST = select(col(Audit.seq), col(Audit.hash)).order_by(col(Audit.seq).desc()).limit(1)
_SEAL = select(col(Audit.hash)).where(col(Audit.seq) == bindparam("seq_"))
_WANTED: BindParameter[Any] = bindparam("wanted_")
_OWN = select(col(Call.run_id)).where(col(Call.id) == _WANTED)
_ABOUT = (
    select(Audit)
    .where(or_(col(Audit.run_id) == _WANTED, col(Audit.run_id).in_(_OWN)))
    .order_by(col(Audit.seq))
)
_PURGED = select(Audit).where(
    col(Audit.event) == PURGE,
    col(Audit.at) == select(col(Run.purged_at)).where(col(Run.id) == _WANTED).scalar_subquery(),
    col(Audit.data).contains(_WANTED),
)
_SOME = 5000  # rows that are read at once
_AFTER = (
    select(Audit).where(col(Audit.seq) > bindparam("seq_")).order_by(col(Audit.seq)).limit(_SOME)
)
_BETWEEN = _AFTER.where(col(Audit.at) >= bindparam("since_"), col(Audit.at) < bindparam("until_"))


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

    What looks like a secret is masked. A row about a call also says under which policy, model and
    version it came about.
    """
    told = masked_data(dict(data or {}))
    if call_id and (under := tx.chain.under()):
        told["under"] = dict(under)
    apart = {name: told.pop(name) for name in [*told] if _is_apart(name, told[name])}
    payload = _encode(apart) if apart else ""
    if payload:
        told[SEAL] = _sealed(tx.chain, run_id, call_id, event, payload)
    text = _encode(told)
    before = head(tx)
    tx.head = tx.chain.seal(before, at, run_id, call_id, actor, event, text)
    row = {
        "seq": tx.head.seq,
        "at": at,
        "run_id": run_id,
        "call_id": call_id,
        "actor": actor,
        "event": event,
        "data": text,
        "payload": payload,
        "key_id": tx.chain.key_id,
        "previous": before.hash,
        "hash": tx.head.hash,
    }
    tx.execute(insert_into(Audit), row)
    watched = told | {each: apart[each] for each in WHY if each in apart}
    tx.appended.append(AuditLine(tx.head.seq, event, actor, run_id, call_id, watched, at))


def ends(tx: Transaction, since: datetime | None) -> None:
    """Tell who watches when that had begun which the last row ends; it is not stored."""
    tx.appended[-1] = tx.appended[-1]._replace(since=since)


def head(tx: Transaction) -> Head:
    """How far the chain has come, with what this transaction has appended."""
    if tx.head is None:
        last = tx.execute(_LAST)
        tx.head = Head(*last[0]) if last else Head()
    return tx.head


def head_at(tx: Transaction, seq: int) -> Head | None:
    """How far the chain had come with that row; None where it is not there."""
    seal = FIRST if seq == 0 else tx.scalar(_SEAL, {"seq_": seq})
    return Head(seq, seal) if seal else None


def every(tx: Transaction) -> Iterator[Audit]:
    """All rows, oldest first, read a few thousand at a time."""
    seq = 0
    while found := rows(tx, Audit, _AFTER, seq_=seq):
        yield from found
        seq = found[-1].seq or 0


def between(tx: Transaction, since: datetime, until: datetime) -> Iterator[Audit]:
    """The rows of the time [since, until), in their order, read a few thousand at a time."""
    seq = 0
    while found := rows(tx, Audit, _BETWEEN, seq_=seq, since_=since, until_=until):
        yield from found
        seq = found[-1].seq or 0


def about(tx: Transaction, wanted: str) -> list[Audit]:
    """The rows of a request, or of the request that a call is part of; by either id."""
    found = rows(tx, Audit, _ABOUT, wanted_=wanted)
    about = next((row.run_id for row in found if row.run_id), "")
    return found + [row for row in rows(tx, Audit, _PURGED, wanted_=about) if row not in found]


def purged(row: Audit, data: Mapping[str, Any]) -> list[str]:
    """The requests that this row says were emptied, if any."""
    if row.event != PURGE:
        return []
    return [row.run_id] if row.run_id else list(data[PURGED_RUNS])


def _is_apart(name: str, value: Any) -> bool:
    """Whether this is kept apart: arguments, and what was said in more than a word of ours."""
    if name in WHY:
        return not WORD.fullmatch(str(value))
    return name in PAYLOAD or (name == REASON and bool(value))


def _sealed(chain: Chain, run_id: str, call_id: str, event: str, payload: str) -> str:
    return chain.sign("payload", run_id, call_id, event, payload)


def said(row: Audit) -> dict[str, Any]:
    """All that a row says: with its payload, where that was not purged."""
    data: dict[str, Any] = json.loads(row.data)
    if row.payload:
        data |= json.loads(row.payload)
        data.pop(SEAL, None)
    return data


def holds(chain: Chain, row: Audit) -> bool:
    """Whether the row's payload is the one that its data has sealed, or is not there any more."""
    if not row.payload:
        return True
    seal = _sealed(chain, row.run_id, row.call_id, row.event, row.payload)
    return bool(json.loads(row.data).get(SEAL) == seal)


def follows(chain: Chain, before: Head, row: Audit) -> bool:
    """Whether this row is the next after `before`, sealed as it stands with the key of `chain`."""
    own = chain.seal(before, row.at, row.run_id, row.call_id, row.actor, row.event, row.data)
    is_next = (row.seq, row.previous, row.hash) == (own.seq, before.hash, own.hash)
    return is_next and holds(chain, row)


def verify(tx: Transaction) -> int | None:
    """The `seq` of the first row that breaks the chain, or None when all of it holds.

    It says nothing of rows that are missing at the end; the head file does.
    """
    before = Head()
    for row in every(tx):
        if not follows(tx.chain.of(row.key_id) or tx.chain, before, row):
            return row.seq
        before = Head(row.seq or 0, row.hash)
    return None
