"""Makes many copies of real requests in SQL: the record after years of use.

A copy has the rows of its original with ids, threads, people and times of its own. Only the audit's
chain is not real, and some texts that repeat within a request are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Boolean, Table

from bench.fakes import APPROVER, ASKER
from bench.offline import Bench
from storage.columns import UtcTime
from storage.models import Audit, Call, Delivery, Item, Message, Plan, Revision, Run, Vote
from storage.store import Store
from storage.transaction import Transaction

OF_RUN = (Run, Plan, Call, Revision, Vote, Item, Message, Delivery, Audit)  # parents first
MOST = {Item: 2, Message: 3, Delivery: 1, Audit: 3}  # rows of one request
SOME = 25_000  # requests in one transaction
DAY = 86_400_000_000  # microseconds
BETWEEN = 30_000_000  # microseconds from one request to the next
NUMBERED = ("hash", "digest")  # texts that end in the copy's number
CALLS_OF = (Revision, Vote)  # they have a call_id and no run_id


@dataclass(frozen=True, slots=True)
class Kind:
    """The original of a set of copies, and what differs in them."""

    run_id: str
    first: int  # the number in the ids of the first copy
    requester: str  # SQL over n
    is_pending: bool


class Copies:
    """Makes copies in one record, which nobody else writes during that time."""

    def __init__(self, bench: Bench, decided: str, pending: str) -> None:
        """Take the ids of a decided request and a pending one."""
        self._store: Store = bench.store
        asked = f"CASE WHEN n % 1000 = 0 THEN '{ASKER}' ELSE 'U' || (n / 100) END"
        self._decided = Kind(decided, 10_000_000_000, asked, is_pending=False)
        self._pending = Kind(pending, 20_000_000_000, "'U' || (n / 10)", is_pending=True)

    def make(self, decided: int, pending: int) -> None:
        """Make so many copies of each."""
        with self._store.write() as tx:
            tx.exec_driver_sql(
                "UPDATE message SET status = 'sent', shown = wanted, ts = '1700000000.000001'"
            )
            tx.exec_driver_sql("UPDATE delivery SET status = 'done'")
        for kind, count in ((self._decided, decided), (self._pending, pending)):
            for first in range(1, count + 1, SOME):
                with self._store.write(durable=False) as tx:
                    _lift_limits(tx)
                    for sql in _build_statements(
                        tx, kind, first, min(first + SOME - 1, count), count
                    ):
                        tx.exec_driver_sql(sql)
        if self._store.is_multi_process:  # the server would do it by itself later
            with self._store.write() as tx:
                tx.exec_driver_sql("ANALYZE")


def _lift_limits(tx: Transaction) -> None:
    """Turn off a server's foreign keys and time limits for this transaction."""
    if tx.dialect.name != "sqlite":
        for limit in ("statement_timeout", "idle_in_transaction_session_timeout"):
            tx.exec_driver_sql(f"SET LOCAL {limit} TO 0")
        tx.exec_driver_sql("SET LOCAL session_replication_role TO replica")


def _build_statements(
    tx: Transaction, kind: Kind, first: int, last: int, count: int
) -> Iterator[str]:
    """Return the statements that make the copies with these numbers."""
    ids = {
        name: str(tx.exec_driver_sql(f"SELECT id FROM {table} WHERE {whose}").scalar())
        for name, table, whose in (
            ("r", "run", f"id = '{kind.run_id}'"),
            ("p", "plan", f"run_id = '{kind.run_id}'"),
            ("c", '"call"', f"run_id = '{kind.run_id}'"),
        )
    }
    numbers = (
        f"WITH RECURSIVE numbers(n) AS (SELECT CAST({first} AS bigint)"
        f" UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})"
    )
    for model in OF_RUN:
        table: Table = model.__dict__["__table__"]
        columns = [each for each in table.columns if each.name != "seq"]
        names = ", ".join(f'"{each.name}"' for each in columns)
        of, whose = ("call_id", ids["c"]) if model in CALLS_OF else ("run_id", ids["r"])
        of = "id" if model is Run else of
        order = "seq" if "seq" in table.columns else "id"
        found = tx.exec_driver_sql(
            f"SELECT {names} FROM \"{table.name}\" WHERE {of} = '{whose}'"
            f" ORDER BY {order} LIMIT {MOST.get(model, 1)}"
        )
        for index, row in enumerate(found):
            values = [
                _build_column(table, each.name, value, kind, ids, index, count)
                for each, value in zip(columns, row, strict=True)
            ]
            into = names
            if model is Audit:  # its rows need consecutive numbers
                last = int(tx.exec_driver_sql("SELECT max(seq) FROM audit").scalar())
                into, values = f"{names}, seq", [*values, f"{last + 1 - first} + n"]
            yield (
                f'INSERT INTO "{table.name}" ({into}) {numbers}'
                f" SELECT {', '.join(values)} FROM numbers"
            )


def _build_column(
    table: Table,
    column: str,
    value: Any,
    kind: Kind,
    ids: dict[str, str],
    index: int,
    count: int,
) -> str:
    """Return SQL over n for one column of a copy, from the original's value."""
    number, place = f"({kind.first} + n)", f"{table.name}.{column}"
    if isinstance(table.columns[column].type, UtcTime) and value is not None:
        return _build_moment(column, int(value), kind, count)
    if column == "requester":
        return kind.requester
    if place == "vote.person":
        return f"CASE WHEN n % 20 = 0 THEN '{APPROVER}' ELSE 'A' || (n / 100) END"
    if column == "thread_ts" or place == "message.ts":
        return f"'1' || {number} || '.{index if column == 'ts' else 0:06}'"
    if column in NUMBERED and value:
        return f"'{value[:50]}{index}' || {number}"
    if value is None:
        return "NULL"
    if isinstance(table.columns[column].type, Boolean):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, str):
        return str(value)
    made = "'" + value.replace("'", "''") + "'"
    for name, old in ids.items():
        if old in value:
            made = f"replace({made}, '{old}', '{name}' || {number})"
    if column == "key" and not any(old in value for old in ids.values()):
        made = f"{made} || {number}"
    return made


def _build_moment(column: str, value: int, kind: Kind, count: int) -> str:
    """Return SQL for a time: decided requests end one after another until yesterday, others are
    open.
    """
    if not kind.is_pending:
        return f"{value - DAY} - ({count} - n) * {BETWEEN}"
    if column in ("deadline", "next_at"):
        return f"{value + DAY} + n * 1000"
    return f"{value} - n * 1000"
