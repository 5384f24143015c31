"""Checks that the record is complete: the audit's chain, its end, and the rows it describes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlmodel import col

from storage import trail
from storage.digest import AuditChainSealer, AuditHead
from storage.models import PURGED, Audit, Call, Revision, Run, Vote
from storage.passkeys import VoteSignature
from storage.personal_data import PERSON_FORGOTTEN_EVENT
from storage.transaction import Transaction, iterate_rows

MAX_PROBLEMS = 20  # in the report; one is enough to know that the record is unsound


@dataclass(slots=True)
class ExaminationResult:
    """The result of checking the record: the audit's newest row, the problems, and remarks."""

    head: AuditHead = field(default_factory=AuditHead)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add_problem(self, text: str) -> None:
        """Add a problem, unless there are MAX_PROBLEMS (20) already."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(text)


@dataclass(slots=True)
class _AuditClaims:
    """What the audit says about the other tables."""

    status: dict[str, str] = field(default_factory=dict)  # newest status of calls and runs, by id
    votes: Counter[tuple[str, int, str, str, str]] = field(default_factory=Counter)
    # seal of the arguments and id of its key, by call id and revision
    sealed: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    purged: dict[str, datetime] = field(default_factory=dict)  # when requests were purged, by id
    emptied: dict[int, str] = field(default_factory=dict)  # rows without payload: their request ids
    forgotten: dict[str, datetime] = field(default_factory=dict)  # when people were erased, by id


def examine_audit_and_rows(
    tx: Transaction, chain: AuditChainSealer, noted: AuditHead | None, *, has_note: bool = True
) -> ExaminationResult:
    """Check the whole record and return what was found.

    `noted`: the head in the head file; compared only if `has_note`.
    """
    found, said = ExaminationResult(), _AuditClaims()
    _verify_chain(tx, chain, found, said)
    if has_note:
        _compare_with_head_file(tx, noted, found)
    if not found.problems:
        _compare_rows(tx, found, said)
        _compare_arguments(tx, chain, found, said)
        _check_purges(tx, found, said)
    return found


def _verify_chain(
    tx: Transaction, chain: AuditChainSealer, result: ExaminationResult, claims: _AuditClaims
) -> None:
    """Verify the audit chain row by row, up to the first row that breaks it."""
    strangers: Counter[str] = Counter()
    for row in iterate_rows(tx, Audit):
        sealer = chain.find_sealer_by_key_id(row.key_id)
        if sealer is None:
            strangers[row.key_id] += 1
            good = (row.seq, row.previous) == (result.head.seq + 1, result.head.hash)
        else:
            good = trail.is_valid_next_row(sealer, result.head, row)
        if not good:
            where = f"row {row.seq} of the audit"
            result.add_problem(
                f"{where} was changed, or is not the one that followed the row before it"
            )
            return
        result.head = AuditHead(row.seq or 0, row.hash)
        _collect_claims(row, json.loads(row.data), claims)
    for key, row_count in strangers.items():
        rows = _count_rows(row_count, "of the audit")
        result.add_problem(
            f"{rows} sealed with the key {key}, and the key in use is {chain.key_id}:"
            " only the old key can show whether that was changed"
        )


def _count_rows(number: int, where: str = "") -> str:
    """Return the number with its noun and verb: "1 row is", "3 rows of the audit are"."""
    noun, verb = ("row", "is") if number == 1 else ("rows", "are")
    return " ".join(filter(None, [str(number), noun, where, verb]))


def _collect_claims(row: Audit, data: dict[str, Any], claims: _AuditClaims) -> None:
    subject_id = row.call_id or row.run_id
    claims.purged |= dict.fromkeys(trail.list_purged_request_ids(row, data), row.at)
    if row.event == PERSON_FORGOTTEN_EVENT:
        claims.forgotten[data["person"]] = row.at
    if trail.SEAL_KEY in data and not row.payload:
        claims.emptied[row.seq or 0] = row.run_id
    if subject_id and "from" in data and "to" in data:  # else they are a channel's modes or ids
        claims.status[subject_id] = data["to"]
    elif row.event.startswith("call.born."):
        claims.status[subject_id] = row.event.removeprefix("call.born.")
    elif row.event == "run.born":
        claims.status[subject_id] = "ready"
    if "sealed" in data and "revision" in data:
        claims.sealed[row.call_id, data["revision"]] = (data["sealed"], row.key_id)
    if "vote" in data:
        signed = data.get("passkey", "")
        claims.votes[row.call_id, data["revision"], row.actor, data["vote"], signed] += 1


def _compare_with_head_file(
    tx: Transaction, noted: AuditHead | None, result: ExaminationResult
) -> None:
    if result.problems:
        return
    if noted is None:
        if result.head.seq:
            result.add_problem("the head file is missing or not signed with the key in use")
    elif noted.seq > result.head.seq:
        missing = noted.seq - result.head.seq
        result.add_problem(
            f"the audit had reached row {noted.seq}: {_count_rows(missing)} missing at its end"
        )
    elif trail.find_audit_head_at(tx, noted.seq) != noted:
        result.add_problem(f"row {noted.seq} of the audit is not the one that the head file names")
    elif noted != result.head:
        rows = _count_rows(result.head.seq - noted.seq, "of the audit")
        result.remarks.append(
            f"{rows} not yet in the head file, as while the bot works and after a crash"
        )


def _compare_rows(tx: Transaction, result: ExaminationResult, claims: _AuditClaims) -> None:
    for name, model in (("call", Call), ("run", Run)):
        for key, status in tx.execute(select(col(model.id), col(model.status))):
            if key not in claims.status:
                result.add_problem(f"the audit does not mention {name} {key}")
            elif claims.status.pop(key) != status:
                result.add_problem(f"{name} {key} is {status}, and the audit does not say so")
    for key in claims.status:
        result.add_problem(f"the audit mentions {key}, which is missing")
    names = ("call_id", "revision", "person", "verb", "passkey_id")
    votes = Counter(tx.execute(select(*(col(getattr(Vote, name)) for name in names))))
    kept = Counter(tx.execute(select(*(col(getattr(VoteSignature, name)) for name in names))))
    for vote in Counter({each: n for each, n in votes.items() if each[4]}) - kept:
        result.add_problem(f"the signature of {vote[2]}'s vote on call {vote[0]} is missing")
    for vote in votes - claims.votes:
        result.add_problem(f"the audit does not mention {vote[2]}'s vote on call {vote[0]}")
    for vote in claims.votes - votes:
        result.add_problem(f"{vote[2]}'s vote on call {vote[0]} is missing")


def _compare_arguments(
    tx: Transaction, chain: AuditChainSealer, found: ExaminationResult, said: _AuditClaims
) -> None:
    of_run = tx.execute(select(col(Call.id), col(Call.run_id)))
    purged = {call_id for call_id, run_id in of_run if run_id in said.purged}
    for each in iterate_rows(tx, Revision):
        if each.arguments == PURGED and each.call_id in purged:
            continue
        seal, key = said.sealed.get((each.call_id, each.number), ("", ""))
        if seal and seal != trail.compute_arguments_seal(
            chain.find_sealer_by_key_id(key) or chain, each
        ):
            where = f"revision {each.number} of call {each.call_id}"
            found.add_problem(f"the arguments of {where} are not those that the audit has sealed")


def _check_purges(tx: Transaction, found: ExaminationResult, said: _AuditClaims) -> None:
    """Add remarks on purges; emptied data without a purge in the audit is a problem."""
    for seq, run in said.emptied.items():
        if run not in said.purged:
            found.add_problem(f"what row {seq} of the audit kept of arguments was removed")
    marked = set(tx.scalars(select(col(Run.id)).where(col(Run.purged_at).is_not(None))))
    for run in marked - said.purged.keys():
        found.add_problem(f"run {run} is marked as purged, and the audit does not say so")
    if said.purged:
        last = max(said.purged.values())
        many = "1 request" if len(said.purged) == 1 else f"{len(said.purged)} requests"
        found.remarks.append(f"the payload of {many} was purged, the last on {last:%Y-%m-%d}")
    for person, at in said.forgotten.items():
        found.remarks.append(f"what {person} asked and wrote was erased on {at:%Y-%m-%d}")
