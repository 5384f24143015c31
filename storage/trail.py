"""The audit: its rows, the evidence in them, and the file that notes how far it has come.

`record` is the only door to it. What a call was given stands beside the sealed data, under a seal
in it: so it can be purged, and the chain holds. Once committed, each row is a line of the log as
well.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import BindParameter, bindparam, or_, select
from sqlmodel import col

from storage.audit_log import WORD, AuditLine
from storage.chain import FIRST, Chain, Head
from storage.digest import OddValueError, canonical_json, parse_object
from storage.masking import ValuePath, mask_data, replace_at_paths
from storage.models import Audit, Call, Revision, Run
from storage.transaction import Transaction, insert_into, rows

if TYPE_CHECKING:
    from storage.transaction import Transaction


# What the audit keeps of arguments: readable, with secret fields by a keyed digest only.

MOST_EVIDENCE = 4000  # characters of arguments that cannot be read


def evidence_of_revision(
    tx: Transaction, row: Revision, secret: Collection[ValuePath | str]
) -> dict[str, Any]:
    """What people were to be shown as this revision; `secret`: fields, or
    paths to values, that are kept by digest."""
    return {
        "revision": row.number,
        "digest": row.digest,
        "arguments": _readable(tx, row.call_id, json.loads(row.arguments), secret),
        "sealed": seal_of_arguments(tx.chain, row),
    }


def seal_of_arguments(chain: Chain, row: Revision) -> str:
    """The keyed digest of the stored arguments, exactly as they would run."""
    return chain.sign("revision", row.call_id, row.number, row.arguments)


def evidence_of_refusal(
    tx: Transaction, call_id: str, text: str, secret: Collection[ValuePath | str]
) -> dict[str, Any]:
    """What the model proposed and nobody was asked about, in its own words."""
    try:
        return {"arguments": _readable(tx, call_id, parse_object(text), secret)}
    except OddValueError:  # where a secret would stand is not known
        kept = f"{len(text)} characters" if secret else text[:MOST_EVIDENCE]
        return {"arguments": kept, "sealed": tx.chain.sign("refused", call_id, text)}


def _readable(
    tx: Transaction, call_id: str, values: dict[str, Any], secret: Collection[ValuePath | str]
) -> dict[str, Any]:
    """The values; each secret one by a digest that is equal only within this call."""

    def sealed_value(path: ValuePath, value: Any) -> str:
        name = path[0] if len(path) == 1 else canonical_json(list(path))
        return f"secret {tx.chain.sign('secret', call_id, name, canonical_json(value))[:16]}"

    paths = [(each,) if isinstance(each, str) else each for each in secret]
    found: dict[str, Any] = replace_at_paths(values, paths, sealed_value)
    return found


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
    told = mask_data(dict(data or {}))
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


def report_end(tx: Transaction, since: datetime | None) -> None:
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


def all_rows(tx: Transaction) -> Iterator[Audit]:
    """All rows, oldest first, read a few thousand at a time."""
    seq = 0
    while found := rows(tx, Audit, _AFTER, seq_=seq):
        yield from found
        seq = found[-1].seq or 0


def rows_between(tx: Transaction, since: datetime, until: datetime) -> Iterator[Audit]:
    """The rows of the time [since, until), in their order, read a few thousand at a time."""
    seq = 0
    while found := rows(tx, Audit, _BETWEEN, seq_=seq, since_=since, until_=until):
        yield from found
        seq = found[-1].seq or 0


def rows_about(tx: Transaction, wanted: str) -> list[Audit]:
    """The rows of a request, or of the request that a call is part of; by either id."""
    found = rows(tx, Audit, _ABOUT, wanted_=wanted)
    rows_about = next((row.run_id for row in found if row.run_id), "")
    return found + [row for row in rows(tx, Audit, _PURGED, wanted_=rows_about) if row not in found]


def purged_requests(row: Audit, data: Mapping[str, Any]) -> list[str]:
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


def row_as_read(row: Audit) -> dict[str, Any]:
    """All that a row says: with its payload, where that was not purged."""
    data: dict[str, Any] = json.loads(row.data)
    if row.payload:
        data |= json.loads(row.payload)
        data.pop(SEAL, None)
    return data


def is_payload_intact(chain: Chain, row: Audit) -> bool:
    """Whether the row's payload is the one that its data has sealed, or is not there any more."""
    if not row.payload:
        return True
    seal = _sealed(chain, row.run_id, row.call_id, row.event, row.payload)
    return bool(json.loads(row.data).get(SEAL) == seal)


def is_next_row(chain: Chain, before: Head, row: Audit) -> bool:
    """Whether this row is the next after `before`, sealed as it stands with the key of `chain`."""
    own = chain.seal(before, row.at, row.run_id, row.call_id, row.actor, row.event, row.data)
    is_next = (row.seq, row.previous, row.hash) == (own.seq, before.hash, own.hash)
    return is_next and is_payload_intact(chain, row)


def verify(tx: Transaction) -> int | None:
    """The `seq` of the first row that breaks the chain, or None when all of it holds.

    It says nothing of rows that are missing at the end; the head file does.
    """
    before = Head()
    for row in all_rows(tx):
        if not is_next_row(tx.chain.of(row.key_id) or tx.chain, before, row):
            return row.seq
        before = Head(row.seq or 0, row.hash)
    return None


# How far the audit has come, noted in a small file beside the database.

log = logging.getLogger("countersign.audit")
_LINE = 256  # bytes; of the two lines one is written at a time, so a torn write spoils only that
_MARK = "countersign-head"


def head_path(database: Path) -> Path:
    """Where the head of that database's audit is noted."""
    return database.with_name(f"{database.name}.head")


class HeadFile:
    """The note of how far one audit has come."""

    def __init__(self, path: Path, chain: Chain) -> None:
        """Signs with the key of `chain`; makes nothing yet."""
        self.path, self._chain = path, chain
        self._file: int | None = None
        self._noted: Head | None = None

    def read(self) -> Head | None:
        """The newest head that was noted; None where there is none, or none that is signed.

        One noted under another key cannot be checked, and is only compared with the rows.
        """
        try:
            text = self.path.read_bytes().decode("ascii", "replace")
        except FileNotFoundError:
            return None
        lines = (text[start : start + _LINE].split() for start in range(0, len(text), _LINE))
        found = [head for head in map(self._parsed, lines) if head]
        return max(found, key=lambda head: head.seq, default=None)

    def _parsed(self, line: list[str]) -> Head | None:
        if len(line) != 5 or line[0] != _MARK or not line[1].isdecimal():
            return None
        _, seq, seal, key, signature = line
        signer = self._chain.of(key)
        if signer and not hmac.compare_digest(signature, signer.sign(_MARK, seq, seal)):
            return None
        return Head(int(seq), seal)

    def contradicts(self, tx: Transaction) -> str:
        """Why the rows are not those of the record's last life; "" where they may be."""
        noted = self.read()  # before the rows: it is never ahead
        last = tx.exec_driver_sql("SELECT max(seq) FROM audit").scalar() or 0
        if noted is None:
            return f"there is no {self.path.name} that says how far it had come" if last else ""
        there = tx.exec_driver_sql("SELECT hash FROM audit WHERE seq = ?", (noted.seq,)).scalar()
        if noted.seq == 0 or there == noted.hash:
            return ""
        if last < noted.seq:
            return f"it ends at row {last} of the audit, and had come to row {noted.seq}"
        return f"row {noted.seq} of the audit is another one than it was"

    def keep(self, head: Head) -> None:
        """Write it down; that it cannot be is logged, for the rows are there already."""
        if head == self._noted:
            return
        try:
            if self._file is None:
                self._file = self._open()
            os.pwrite(self._file, self._line(head), head.seq % 2 * _LINE)
        except OSError as error:
            log.error("%s cannot be written: %s", self.path, error)
        else:
            self._noted = head

    def _line(self, head: Head) -> bytes:
        seq, key = str(head.seq), self._chain.key_id
        line = " ".join((_MARK, seq, head.hash, key, self._chain.sign(_MARK, seq, head.hash)))
        return f"{line:<{_LINE - 1}}\n".encode()

    def _open(self) -> int:
        new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        if new:  # a power failure must not take the file itself
            os.pwrite(file, b" " * 2 * _LINE, 0)
            os.fsync(file)
        return file

    def begin_unless_there(self) -> None:
        """Note that a new record is empty, so that one without a file is known to lack rows.

        Without, a death between the first row and its note would look like an older record.
        """
        if self.read() is None:
            self.keep(Head())

    def begin(self, head: Head) -> None:
        """Note this head in the place of one that belongs to another life of the record."""
        self.close()
        self.path.unlink(missing_ok=True)
        self._noted = None
        self.keep(head)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
