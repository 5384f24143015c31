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
from storage.chain import Chain, Head
from storage.models import PURGED, Audit, Call, Revision, Run, Vote
from storage.personal_data import FORGOTTEN
from storage.transaction import Transaction, rows

MOST = 20  # problems that are told; one is enough


@dataclass(slots=True)
class Examination:
    """The result of a check: the chain's head, the problems found, and remarks."""

    head: Head = field(default_factory=Head)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def wrong(self, text: str) -> None:
        """Add a problem, up to MOST of them."""
        if len(self.problems) < MOST:
            self.problems.append(text)


@dataclass(slots=True)
class _Said:
    """What the audit says about the other tables."""

    status: dict[str, str] = field(default_factory=dict)  # of calls and runs, by id
    votes: Counter[tuple[str, int, str, str]] = field(default_factory=Counter)
    # of arguments, by revision: the seal, and the id of its key
    sealed: dict[tuple[str, int], tuple[str, str]] = field(default_factory=dict)
    purged: dict[str, datetime] = field(default_factory=dict)  # requests, with when
    emptied: dict[int, str] = field(default_factory=dict)  # rows without their payload: whose
    forgotten: dict[str, datetime] = field(default_factory=dict)  # people, with when


def examine(
    tx: Transaction, chain: Chain, noted: Head | None, *, has_note: bool = True
) -> Examination:
    """Check the whole record and return what was found.

    `noted`: the head in the head file; compared only if `has_note`.
    """
    found, said = Examination(), _Said()
    _walk(tx, chain, found, said)
    if has_note:
        _end(tx, noted, found)
    if not found.problems:
        _rows(tx, found, said)
        _arguments(tx, chain, found, said)
        _purged(tx, found, said)
    return found


def _walk(tx: Transaction, chain: Chain, found: Examination, said: _Said) -> None:
    """Verify the chain row by row, up to the first row that breaks it."""
    strangers: Counter[str] = Counter()
    for row in trail.all_rows(tx):
        sealer = chain.of(row.key_id)
        if sealer is None:
            strangers[row.key_id] += 1
            good = (row.seq, row.previous) == (found.head.seq + 1, found.head.hash)
        else:
            good = trail.is_next_row(sealer, found.head, row)
        if not good:
            where = f"row {row.seq} of the audit"
            found.wrong(f"{where} was changed, or is not the one that followed the row before it")
            return
        found.head = Head(row.seq or 0, row.hash)
        _hear(row, json.loads(row.data), said)
    for key, many in strangers.items():
        found.wrong(
            f"{many} rows of the audit are sealed with the key {key}, and the key in use is"
            f" {chain.key_id}: only the old key can tell whether they were changed"
        )


def _hear(row: Audit, data: dict[str, Any], said: _Said) -> None:
    """Collect what the row says about other tables."""
    about = row.call_id or row.run_id
    said.purged |= dict.fromkeys(trail.purged_requests(row, data), row.at)
    if row.event == FORGOTTEN:
        said.forgotten[data["person"]] = row.at
    if trail.SEAL in data and not row.payload:
        said.emptied[row.seq or 0] = row.run_id
    if "from" in data and "to" in data:
        said.status[about] = data["to"]
    elif row.event.startswith("call.born."):
        said.status[about] = row.event.removeprefix("call.born.")
    elif row.event == "run.born":
        said.status[about] = "ready"
    if "sealed" in data and "revision" in data:
        said.sealed[row.call_id, data["revision"]] = (data["sealed"], row.key_id)
    if "vote" in data:
        said.votes[row.call_id, data["revision"], row.actor, data["vote"]] += 1


def _end(tx: Transaction, noted: Head | None, found: Examination) -> None:
    """Compare the end of the chain with the head file."""
    if found.problems:
        return
    if noted is None:
        if found.head.seq:
            found.wrong("the head file is missing or not signed with the key in use")
    elif noted.seq > found.head.seq:
        missing = noted.seq - found.head.seq
        found.wrong(f"the audit had come to row {noted.seq}: {missing} rows are missing at its end")
    elif trail.head_at(tx, noted.seq) != noted:
        found.wrong(f"row {noted.seq} of the audit is another one than the head file says")
    elif noted != found.head:
        behind = found.head.seq - noted.seq
        found.remarks.append(
            f"the head file is {behind} rows behind, as while the bot works and after a crash"
        )


def _rows(tx: Transaction, found: Examination, said: _Said) -> None:
    """Compare calls, runs and votes with what the audit says about them."""
    for name, model in (("call", Call), ("run", Run)):
        for key, status in tx.execute(select(col(model.id), col(model.status))):
            if key not in said.status:
                found.wrong(f"the audit knows nothing of {name} {key}")
            elif said.status.pop(key) != status:
                found.wrong(f"{name} {key} is {status}, and the audit does not say so")
    for key in said.status:
        found.wrong(f"the audit speaks of {key}, which is not there")
    columns = (Vote.call_id, Vote.revision, Vote.person, Vote.verb)
    votes = Counter(tx.execute(select(*map(col, columns))))
    for vote in votes - said.votes:
        found.wrong(f"the audit knows nothing of {vote[2]}'s vote on call {vote[0]}")
    for vote in said.votes - votes:
        found.wrong(f"{vote[2]}'s vote on call {vote[0]} is not there")


def _arguments(tx: Transaction, chain: Chain, found: Examination, said: _Said) -> None:
    """Compare the stored arguments with their seals in the audit."""
    runs_of = {row[0]: row[1] for row in tx.execute(select(col(Call.id), col(Call.run_id)))}
    for each in rows(tx, Revision, select(Revision)):
        if each.arguments == PURGED and runs_of.get(each.call_id) in said.purged:
            continue
        seal, key = said.sealed.get((each.call_id, each.number), ("", ""))
        if seal and seal != trail.seal_of_arguments(chain.of(key) or chain, each):
            where = f"revision {each.number} of call {each.call_id}"
            found.wrong(f"the arguments of {where} are not those that the audit has sealed")


def _purged(tx: Transaction, found: Examination, said: _Said) -> None:
    """Add remarks on purges; emptied data without a purge in the audit is a problem."""
    for seq, run in said.emptied.items():
        if run not in said.purged:
            found.wrong(f"what row {seq} of the audit kept of arguments was taken away")
    marked = set(tx.scalars(select(col(Run.id)).where(col(Run.purged_at).is_not(None))))
    for run in marked - said.purged.keys():
        found.wrong(f"run {run} is marked as purged, and the audit does not say so")
    if said.purged:
        last = max(said.purged.values())
        many = "1 request" if len(said.purged) == 1 else f"{len(said.purged)} requests"
        found.remarks.append(f"the payload of {many} was purged, the last on {last:%Y-%m-%d}")
    for person, at in said.forgotten.items():
        found.remarks.append(f"what {person} asked and wrote was erased on {at:%Y-%m-%d}")
