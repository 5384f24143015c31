"""The audit: its rows, the evidence in them, and the head file that notes the newest row.

`record` is the only function that appends rows. A call's arguments are stored beside the sealed
data, which holds their seal: so they can be purged and the chain still holds. Once committed, each
row is also a line of the log.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import BindParameter, bindparam, func, select
from sqlmodel import col

from storage import digest
from storage.audit_log import REASON_KEYS, AuditLine, is_free_text_reason
from storage.masking import ValuePath, mask_secrets_in_json, replace_values_at_paths
from storage.models import Audit, Call, Revision, Run
from storage.states import CallStatus
from storage.transaction import Transaction, build_insert, fetch_rows, iterate_rows

MAX_UNREADABLE_ARGUMENT_CHARS = 4000


def build_revision_evidence(
    tx: Transaction, row: Revision, secret: Collection[ValuePath]
) -> dict[str, Any]:
    """Return the audit data of a revision that people are shown.

    `secret`: paths to the values that are kept by digest.
    """
    return {
        "revision": row.number,
        "digest": row.digest,
        "arguments": _replace_secret_values(tx, row.call_id, json.loads(row.arguments), secret),
        "sealed": compute_arguments_seal(tx.chain, row),
    }


def compute_arguments_seal(chain: digest.AuditChainSealer, row: Revision) -> str:
    """Return the keyed digest of the stored arguments, exactly as they would run."""
    return chain.sign("revision", row.call_id, row.number, row.arguments)


def build_refusal_evidence(
    tx: Transaction, call_id: str, text: str, secret: Collection[ValuePath]
) -> dict[str, Any]:
    """Return the audit data of a proposed call that was refused without asking anybody."""
    try:
        return {
            "arguments": _replace_secret_values(tx, call_id, digest.parse_json_object(text), secret)
        }
    except digest.NonCanonicalValueError:  # it is not known where a secret would be
        kept = f"{len(text)} characters" if secret else text[:MAX_UNREADABLE_ARGUMENT_CHARS]
        return {"arguments": kept, "sealed": tx.chain.sign("refused", call_id, text)}


def _replace_secret_values(
    tx: Transaction, call_id: str, values: dict[str, Any], secret: Collection[ValuePath]
) -> dict[str, Any]:
    """Return the values with each secret one replaced by a digest.

    Digests are equal only within this call.
    """

    def sealed_value(path: ValuePath, value: Any) -> str:
        name = path[0] if len(path) == 1 else digest.canonical_json(list(path))
        return f"secret {tx.chain.sign('secret', call_id, name, digest.canonical_json(value))[:16]}"

    found: dict[str, Any] = replace_values_at_paths(values, secret, sealed_value)
    return found


# stored apart from a row's other data, as a purge empties them: arguments, and people's words
PAYLOAD_KEYS = ("arguments", "content")
REASON_KEY = "reason"  # the same, unless it is empty
SEAL_KEY = "payload"  # the name in `data` of the seal over the payload
SAID_KEY = "said"  # in `data`: what a person said became of an unknown call
PURGE_EVENT = "run.purged"  # a row about requests that were purged
PURGED_RUNS_KEY = "runs"  # in its data: their ids; older builds wrote a row for each request
_SELECT_LAST_ROW = select(col(Audit.seq), col(Audit.hash)).order_by(col(Audit.seq).desc()).limit(1)
_SELECT_HASH_BY_SEQ = select(col(Audit.hash)).where(col(Audit.seq) == bindparam("seq_"))
_WANTED_PARAMETER: BindParameter[Any] = bindparam("wanted_")
_SELECT_RUN_ID_OF_CALL = (
    select(col(Call.run_id)).where(col(Call.id) == _WANTED_PARAMETER).scalar_subquery()
)
# with OR instead of coalesce, PostgreSQL would read the whole audit
_SELECT_ROWS_OF_REQUEST = (
    select(Audit)
    .where(col(Audit.run_id) == func.coalesce(_SELECT_RUN_ID_OF_CALL, _WANTED_PARAMETER))
    .order_by(col(Audit.seq))
)
_SELECT_PURGED_AT = select(col(Run.purged_at)).where(col(Run.id) == _WANTED_PARAMETER)
_SELECT_PURGE_ROWS = select(Audit).where(
    col(Audit.run_id) == "",  # in older builds, the id of the purged request
    col(Audit.event) == PURGE_EVENT,
    col(Audit.at) == bindparam("at_"),
    col(Audit.data).contains(_WANTED_PARAMETER),
)


def record_event(
    tx: Transaction,
    event: str,
    *,
    at: datetime,
    actor: str,
    run_id: str = "",
    call_id: str = "",
    call: Call | None = None,
    data: Mapping[str, Any] | None = None,
    since: datetime | None = None,
) -> None:
    """Append one row to the audit; `data` must be JSON and must hold no secret fields.

    `call`: the call that the event is about, instead of `run_id` and `call_id`. `since`: when the
    wait or request that this event ends began; it is passed to observers, not stored.

    What looks like a secret is masked. A row about a call also says under which policy, model and
    version it was written.
    """
    if call is not None:
        run_id, call_id = call.run_id, call.id
    details = mask_secrets_in_json(dict(data or {}))
    if call_id and (under := tx.chain.under()):
        details["under"] = dict(under)
    payload_parts = {
        name: details.pop(name) for name in [*details] if _is_payload_value(name, details[name])
    }
    payload = _encode_storable_json(payload_parts) if payload_parts else ""
    if payload:
        details[SEAL_KEY] = _compute_payload_seal(tx.chain, run_id, call_id, event, payload)
    text = _encode_storable_json(details)
    before = get_audit_head(tx)
    tx.head = tx.chain.compute_next_audit_head(before, at, run_id, call_id, actor, event, text)
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
    tx.execute(build_insert(Audit), row)
    watched = details | {each: payload_parts[each] for each in REASON_KEYS if each in payload_parts}
    tx.appended.append(AuditLine(tx.head.seq, event, actor, run_id, call_id, watched, at, since))


def _encode_storable_json(value: Any) -> str:
    """Return canonical JSON with lone surrogates replaced: no database stores them."""
    return digest.encode_json(value).encode("utf-8", "replace").decode()


def get_audit_head(tx: Transaction) -> digest.AuditHead:
    """Return the audit chain's newest row, also one that this transaction has appended."""
    if tx.head is None:
        last = tx.execute(_SELECT_LAST_ROW)
        tx.head = digest.AuditHead(*last[0]) if last else digest.AuditHead()
    return tx.head


def find_audit_head_at(tx: Transaction, seq: int) -> digest.AuditHead | None:
    """Return the number and keyed hash of the audit row `seq`; None if it does not exist."""
    seal = digest.FIRST_PREVIOUS_HASH if seq == 0 else tx.scalar(_SELECT_HASH_BY_SEQ, {"seq_": seq})
    return digest.AuditHead(seq, seal) if seal else None


def iterate_audit_rows_between(
    tx: Transaction, since: datetime, until: datetime
) -> Iterator[Audit]:
    """Yield the audit rows of the time [since, until) in order."""
    return iterate_rows(tx, Audit, col(Audit.at) >= since, col(Audit.at) < until)


def was_outcome_unknown(tx: Transaction, call: Call) -> bool:
    """Return whether the call was started once and nobody knew how it ended."""
    about = {"run_id": call.run_id, "call_id": call.id, "event": f"call.{CallStatus.UNKNOWN}"}
    return tx.find_row(Audit, **about) is not None


def find_outcome_reporter(tx: Transaction, call: Call) -> str:
    """Return the id of the person who said how a call of unknown outcome ended; "" for nobody."""
    ended = {"run_id": call.run_id, "call_id": call.id, "event": f"call.{call.status}"}
    row = tx.find_row(Audit, **ended)
    return row.actor if row is not None and SAID_KEY in get_audit_row_data(row) else ""


def map_surfaces_by_vote(tx: Transaction, call: Call) -> dict[tuple[str, str], str]:
    """Return where votes on a call's revision were cast if not in Slack, by person and verb."""
    rows = tx.list_rows(Audit, run_id=call.run_id, call_id=call.id)
    found = ((row.actor, get_audit_row_data(row)) for row in rows)
    return {
        (actor, data["vote"]): data["surface"]
        for actor, data in found
        if data.keys() >= {"vote", "surface"} and data.get("revision") == call.revision
    }


def list_audit_rows_of_request(tx: Transaction, request_or_call_id: str) -> list[Audit]:
    """Return the audit rows of a request, given its id or the id of one of its calls."""
    found = fetch_rows(tx, Audit, _SELECT_ROWS_OF_REQUEST, wanted_=request_or_call_id)
    run_id = next((row.run_id for row in found if row.run_id), "")
    if purged_at := tx.scalar(_SELECT_PURGED_AT, {"wanted_": run_id}):
        found += fetch_rows(tx, Audit, _SELECT_PURGE_ROWS, wanted_=run_id, at_=purged_at)
    return found


def list_purged_request_ids(row: Audit, data: Mapping[str, Any]) -> list[str]:
    """Return the ids of the requests that this row reports as purged, if any."""
    if row.event != PURGE_EVENT:
        return []
    return [row.run_id] if row.run_id else list(data[PURGED_RUNS_KEY])


def _is_payload_value(name: str, value: Any) -> bool:
    """Return whether a value is stored in the payload, the part of an audit row a purge empties.

    These are arguments, and free text of people.
    """
    return (
        name in PAYLOAD_KEYS
        or (name == REASON_KEY and bool(value))
        or is_free_text_reason(name, value)
    )


def _compute_payload_seal(
    chain: digest.AuditChainSealer, run_id: str, call_id: str, event: str, payload: str
) -> str:
    return chain.sign("payload", run_id, call_id, event, payload)


def get_audit_row_data(row: Audit) -> dict[str, Any]:
    """Return all data of a row, including its payload if that was not purged."""
    data: dict[str, Any] = json.loads(row.data)
    if row.payload:
        data |= json.loads(row.payload)
        data.pop(SEAL_KEY, None)
    return data


def is_payload_intact(chain: digest.AuditChainSealer, row: Audit) -> bool:
    """Return whether the row's payload matches its keyed hash; True if it was purged."""
    if not row.payload:
        return True
    seal = _compute_payload_seal(chain, row.run_id, row.call_id, row.event, row.payload)
    return bool(json.loads(row.data).get(SEAL_KEY) == seal)


def is_valid_next_row(chain: digest.AuditChainSealer, before: digest.AuditHead, row: Audit) -> bool:
    """Return whether this row directly follows `before` and `chain` confirms its keyed hash."""
    own = chain.compute_next_audit_head(
        before, row.at, row.run_id, row.call_id, row.actor, row.event, row.data
    )
    is_next = (row.seq, row.previous, row.hash) == (own.seq, before.hash, own.hash)
    return is_next and is_payload_intact(chain, row)


log = logging.getLogger("countersign.audit")
_LINE_BYTES = 256  # the file has two lines, written in turn: a torn write spoils only one
_HEAD_FILE_MARK = "countersign-head"


def audit_head_file_path(database: Path) -> Path:
    """Return the path of the file that notes the newest row of this database's audit."""
    return database.with_name(f"{database.name}.head")


class AuditHeadFile:
    """The file that notes the newest row of one audit."""

    def __init__(self, path: Path, chain: digest.AuditChainSealer) -> None:
        self.path, self._chain = path, chain
        self._file: int | None = None
        self._written_head: digest.AuditHead | None = None

    def read_head(self) -> digest.AuditHead | None:
        """Return the newest audit row noted in the file; None if none has a valid signature.

        A head signed with an unknown key cannot be checked, and is accepted for comparison with the
        rows.
        """
        try:
            text = self.path.read_bytes().decode("ascii", "replace")
        except FileNotFoundError:
            return None
        lines = (
            text[start : start + _LINE_BYTES].split() for start in range(0, len(text), _LINE_BYTES)
        )
        found = [head for head in map(self._parse_line, lines) if head]
        return max(found, key=lambda head: head.seq, default=None)

    def _parse_line(self, line: list[str]) -> digest.AuditHead | None:
        if len(line) != 5 or line[0] != _HEAD_FILE_MARK or not line[1].isdecimal():
            return None
        _, seq, seal, key, signature = line
        signer = self._chain.find_sealer_by_key_id(key)
        if signer and not hmac.compare_digest(signature, signer.sign(_HEAD_FILE_MARK, seq, seal)):
            return None
        return digest.AuditHead(int(seq), seal)

    def describe_head_mismatch(self, tx: Transaction) -> str:
        """Return why the audit does not match the row noted in the file; "" if it may match."""
        noted = self.read_head()  # read before the rows: the file is never ahead of them
        last = tx.exec_driver_sql("SELECT max(seq) FROM audit").scalar() or 0
        if noted is None:
            return f"there is no {self.path.name}, which says what its last row was" if last else ""
        there = tx.exec_driver_sql("SELECT hash FROM audit WHERE seq = ?", (noted.seq,)).scalar()
        if noted.seq == 0 or there == noted.hash:
            return ""
        if last < noted.seq:
            return f"it ends at row {last} of the audit, but had reached row {noted.seq}"
        return f"row {noted.seq} of the audit is not the one it was"

    def write_head(self, head: digest.AuditHead) -> None:
        """Note the newest audit row in the file; a failure is only logged: the row is stored."""
        if head == self._written_head:
            return
        try:
            if self._file is None:
                self._file = self._open_file()
            os.pwrite(self._file, self._format_line(head), head.seq % 2 * _LINE_BYTES)
        except OSError as error:
            log.error("%s cannot be written: %s", self.path, error)
        else:
            self._written_head = head

    def _format_line(self, head: digest.AuditHead) -> bytes:
        seq, key = str(head.seq), self._chain.key_id
        line = " ".join(
            (
                _HEAD_FILE_MARK,
                seq,
                head.hash,
                key,
                self._chain.sign(_HEAD_FILE_MARK, seq, head.hash),
            )
        )
        return f"{line:<{_LINE_BYTES - 1}}\n".encode()

    def _open_file(self) -> int:
        new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        if new:  # so that a power failure cannot lose the file itself
            os.pwrite(file, b" " * 2 * _LINE_BYTES, 0)
            os.fsync(file)
        return file

    def create_if_missing(self) -> None:
        """Note that a new record has no rows yet, so that a missing file later means missing rows.

        Otherwise a crash between the first row and its note would look like an older record.
        """
        if self.read_head() is None:
            self.write_head(digest.AuditHead())

    def replace_file(self, head: digest.AuditHead) -> None:
        """Replace the file with one that notes only this newest audit row."""
        self.close()
        self.path.unlink(missing_ok=True)
        self._written_head = None
        self.write_head(head)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
