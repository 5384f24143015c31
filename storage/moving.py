"""A record goes into another database with all that waits in it: all of it, or nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from storage import audit, copies
from storage.backups import BackupError
from storage.chain import Head
from storage.columns import altered
from storage.copies import Copied
from storage.examination import Examined, examine
from storage.pouring import counts, pour, tables
from storage.store import Store
from storage.transaction import Transaction

MOVED = "record.moved"
PATIENCE = 5.0  # seconds for sessions to end that have just been given up
_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'countersign'"
    " AND datname = current_database() AND pid <> pg_backend_pid()"
)


@dataclass(frozen=True, slots=True)
class Moved:
    """What is in the other database now."""

    counts: Mapping[str, int]  # rows, by table
    found: Examined
    before: bool = False  # it was there already
    aside: str = ""  # the schema in which what was there before is kept


def move(source: Store, target: Store, at: datetime) -> Moved:
    """Copy all of `source`, which this process alone holds, into the empty `target`.

    From before the first row is there, `source` says of itself that it was left for a copy: who
    starts on it all the same has what was open asked again. Raises BackupError.
    """
    alone(target)
    before = _leave(source, target.database.name, at)
    try:
        with source.read() as tx:
            known = examine(tx, source.chain, audit.head(tx)).problems
            with target.write() as into:
                return _moved(tx, into, known, at, before)
    except BaseException:
        with source.write() as tx:
            copies.forget(tx)
            if before is not None:
                copies.note(tx, before)
        raise


def replace(source: Store, target: Store, known: list[str] | None, at: datetime) -> Moved:
    """Put all of `source`, whose problems are `known`, in the place of what is in `target`.

    `known` None: nobody can tell them. What was there is kept in a schema of its own. Raises
    BackupError.
    """
    alone(target)
    with source.read() as tx, target.write() as into:
        aside = _keep(into, at) if any(counts(into).values()) else ""
        everything = ", ".join(_named(into, each.name) for each in tables())
        for statement in (
            *target.database.not_append_only(),
            f"TRUNCATE {everything}",
            *target.database.append_only(),
        ):
            into.exec_driver_sql(statement)
        there = pour(tx, into)
        head = audit.head(tx)
        found = Examined(head) if known is None else _as_it_was(into, head, known)
        if row := copies.noted(tx):
            copies.note(into, altered(row, seq=None))
    return Moved(there, found, aside=aside)


def alone(target: Store) -> None:
    """Raise BackupError while another process of ours works with that database."""
    until = time.monotonic() + PATIENCE
    while True:
        with target.read() as tx:
            others = int(tx.exec_driver_sql(_OTHERS).scalar())
        if not others:
            return
        if time.monotonic() > until:
            who = "another process works" if others == 1 else f"{others} other processes work"
            raise BackupError(f"{who} with {target.database.name}; stop that first")
        time.sleep(0.1)


def _leave(source: Store, name: str, at: datetime) -> Copied | None:
    """Have the record say that it was left; returns what it said of itself before."""
    why = f"it was copied to {name} on {at:%Y-%m-%d %H:%M:%S} UTC, where it may have gone on"
    with source.write() as tx:
        before = copies.noted(tx)
        copies.note(tx, Copied(at=at, why=why))
    return before


def _moved(
    tx: Transaction, into: Transaction, known: list[str], at: datetime, before: Copied | None
) -> Moved:
    """Copy in these two transactions, and read on the other side what has arrived."""
    head, there = audit.head(tx), counts(into)
    if any(there.values()):
        if head.seq and audit.head_at(into, head.seq) == head:
            return Moved(there, Examined(head), before=True)
        raise BackupError("the other database holds a record already, and nothing is written over")
    poured = pour(tx, into)
    found = _as_it_was(into, head, known)
    if before is not None:  # what is asked again at a start here is asked again there
        copies.note(into, altered(before, seq=None))
    audit.record(into, MOVED, at=at, actor="system", data={"rows": sum(poured.values())})
    return Moved(poured, found)


def _as_it_was(into: Transaction, head: Head, known: list[str]) -> Examined:
    """What is found there; BackupError for a problem that is not `known` of where it came from."""
    found = examine(into, into.chain, head)
    if odd := [each for each in found.problems if each not in known]:
        raise BackupError("\n  ".join(["it did not arrive as it was:", *odd]))
    return found


def _keep(into: Transaction, at: datetime) -> str:
    """Keep a copy of each table in a schema of their own; returns its name."""
    schema = f"countersign_before_restore_{at:%Y%m%dt%H%M%Sz}"
    into.exec_driver_sql(f"CREATE SCHEMA {schema}")
    for table in tables():
        name = _named(into, table.name)
        into.exec_driver_sql(f"CREATE TABLE {schema}.{name} AS TABLE {name}")
    return schema


def _named(tx: Transaction, name: str) -> str:
    return str(tx.dialect.identifier_preparer.quote(name))
