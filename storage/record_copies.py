"""Copies all rows of one record into another, between any kinds of database.

Each side uses one transaction. The source's own copy note is not copied, and the target's schema
must exist.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Any

from sqlalchemy import Table, delete
from sqlmodel import Field, SQLModel

from storage import columns
from storage.delegations import Delegation as Delegation
from storage.digest import AuditChainSealer, AuditHead
from storage.inbox import GreetedPerson as GreetedPerson
from storage.passkeys import Passkey as Passkey
from storage.programs import ProgramApiKey as ProgramApiKey
from storage.replicas import ChannelSender, Pause, Replica
from storage.transaction import Transaction, insert_row, replace_nul_characters, wrap_driver_error
from storage.transcripts import AttachedFile as AttachedFile
from storage.webhooks import Webhook as Webhook


class CopyNote(columns.Row, table=True):
    """A note that this database is a copy, or was copied to another."""

    __tablename__ = "copied"
    seq: int | None = Field(default=None, primary_key=True)
    at: datetime = columns.time_column()
    why: str  # the reason for the note, for people
    version: str = ""  # the version of Countersign that made the copy
    key_id: str = ""  # id of the key that its audit continues under
    head_seq: int = 0  # the newest audit row at the time
    head_hash: str = ""
    counts: str = columns.text_column("{}")  # JSON: number of rows by table
    # JSON: problems of the record that were found when it was copied
    problems: str = columns.text_column("[]")
    seal: str = ""  # covers all of these columns; "" if only `why` is set
    # the key itself, if it was to be included
    signing_key: str = columns.text_column("")

    @property
    def audit_head(self) -> AuditHead:
        """Return the number and hash of the audit row that was newest when the copy was made."""
        return AuditHead(self.head_seq, self.head_hash)

    @property
    def known_problems(self) -> list[str]:
        """Return the problems that the record had when it was copied."""
        found: list[str] = json.loads(self.problems)
        return found

    def has_valid_seal(self, chain: AuditChainSealer) -> bool:
        """Return whether the note is unchanged since it was signed with a key of `chain`."""
        return self.seal == _compute_seal(self, chain.find_sealer_by_key_id(self.key_id) or chain)

    def describe_missing_rows(self, counts: Mapping[str, int]) -> str:
        """Return which tables do not have the recorded number of rows; "" if all do."""
        due: dict[str, int] = json.loads(self.counts)
        there = {name: counts.get(name, 0) for name in due}
        odd = [
            f"{there[name]} of {due[name]} rows in {name}"
            for name in due
            if there[name] != due[name]
        ]
        return ", ".join(odd)


def find_copy_note(tx: Transaction) -> CopyNote | None:
    """Return the note that the record is a copy, or was copied; None if there is none."""
    return tx.find_row(CopyNote, order_by="seq")


def replace_copy_note(tx: Transaction, row: CopyNote) -> None:
    """Store a note that the record is a copy, or was copied, in place of any earlier one."""
    delete_copy_note(tx)
    insert_row(tx, row)


def delete_copy_note(tx: Transaction) -> bool:
    """Delete the note that the record is a copy, or was copied; True if there was one."""
    return tx.execute(delete(CopyNote)).rowcount > 0


def seal_copy_note(row: CopyNote, chain: AuditChainSealer) -> CopyNote:
    """Return a copy of the note, signed with the key of `chain` so that changes are detected."""
    mine = columns.copy_row_with_changes(row, key_id=chain.key_id)
    return columns.copy_row_with_changes(mine, seal=_compute_seal(mine, chain))


def _compute_seal(row: CopyNote, chain: AuditChainSealer) -> str:
    said = (row.at.isoformat(), row.why, row.version, row.counts, row.problems)
    return chain.sign("copied", *said, row.head_seq, row.head_hash)


ROWS_PER_FETCH = 5000
IDLE_TRANSACTION_TIMEOUT = "10min"  # then the server ends an idle transaction
# the record's notes about itself, and what processes tell each other
_TABLES_NOT_COPIED = {str(each.__tablename__) for each in (CopyNote, ChannelSender, Pause, Replica)}


class UnreadableRowsError(Exception):
    """Raised when rows to be copied cannot be read; it names the table and the reason."""


def list_record_tables() -> list[Table]:
    """Return the tables that make up the record, each after those that it refers to."""
    return [each for each in SQLModel.metadata.sorted_tables if each.name not in _TABLES_NOT_COPIED]


def count_rows_by_table(tx: Transaction) -> dict[str, int]:
    """Return the number of rows in each table of the record."""
    return {each.name: _count_rows(tx, each) for each in list_record_tables()}


def copy_rows(source: Transaction, target: Transaction) -> dict[str, int]:
    """Copy every row of `source` into the empty tables of `target`; return how many, by table.

    Raises UnreadableRowsError for faults of the source, DBAPIError if the target refuses
    rows, and ValueError if rows are missing there afterwards.
    """
    row_counts = {}
    for tx in (source, target):
        _lift_time_limits(tx)
    for table in list_record_tables():
        row_counts[table.name] = _count_rows(source, table)
        with closing(_read_all_rows(source, table)) as rows:  # closed even if the target is full
            _insert_rows(target, table, rows)
        copied_count = _count_rows(target, table)
        if copied_count != row_counts[table.name]:
            raise ValueError(
                f"{copied_count} of {row_counts[table.name]} rows arrived in {table.name}"
            )
    if target.dialect.name != "sqlite":
        _advance_sequences(target)
    return row_counts


def _lift_time_limits(tx: Transaction) -> None:
    if tx.dialect.name != "sqlite":
        for limit in ("statement_timeout", "lock_timeout"):
            tx.exec_driver_sql(f"SET LOCAL {limit} TO 0")
        tx.exec_driver_sql(
            f"SET LOCAL idle_in_transaction_session_timeout TO '{IDLE_TRANSACTION_TIMEOUT}'"
        )


def _count_rows(tx: Transaction, table: Table) -> int:
    sql = f"SELECT count(*) FROM {quote_name(tx, table.name)}"  # noqa: S608 # our own names
    return int(tx.exec_driver_sql(sql).scalar())


def quote_name(tx: Transaction, name: str) -> str:
    """Return the name of a table or column as SQL."""
    return str(tx.dialect.identifier_preparer.quote(name))


def _list_quoted_columns(tx: Transaction, table: Table) -> str:
    return ", ".join(quote_name(tx, each.name) for each in table.columns)


def _read_all_rows(tx: Transaction, table: Table) -> Generator[Sequence[Any]]:
    """Yield every row in the order of the primary key, read a few thousand at a time."""
    key = ", ".join(quote_name(tx, each.name) for each in table.primary_key.columns)
    where = f"{quote_name(tx, table.name)} ORDER BY {key}"
    sql = f"SELECT {_list_quoted_columns(tx, table)} FROM {where}"  # noqa: S608 # our own names
    base: Any = tx.dialect.loaded_dbapi.Error
    try:
        if tx.dialect.name == "sqlite":
            yield from tx.raw.execute(sql)
        else:
            with tx.raw.cursor(name="poured") as cursor:
                cursor.itersize = ROWS_PER_FETCH
                cursor.execute(sql)
                yield from cursor
    except base as error:
        raise UnreadableRowsError(f"{table.name}: {error}") from error


def _insert_rows(tx: Transaction, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    base: Any = tx.dialect.loaded_dbapi.Error
    into = f"{quote_name(tx, table.name)} ({_list_quoted_columns(tx, table)})"
    try:
        if tx.dialect.name == "sqlite":
            sql = f"INSERT INTO {into} VALUES ({', '.join('?' for _ in table.columns)})"  # noqa: S608 # our own names
            tx.raw.executemany(sql, rows)
            return
        sql = f"COPY {into} FROM STDIN"
        with tx.raw.cursor() as cursor, cursor.copy(sql) as copy:
            for row in rows:
                copy.write_row([*map(replace_nul_characters, row)])
    except base as error:
        raise wrap_driver_error(error, tx.dialect, sql, ()) from error


def _advance_sequences(tx: Transaction) -> None:
    """Set each sequence to continue after the last copied number."""
    for table in list_record_tables():
        if "seq" in table.columns:
            name = quote_name(tx, table.name)
            tx.exec_driver_sql(
                f"SELECT setval(pg_get_serial_sequence('{name}', 'seq'), max(seq))"  # noqa: S608 # our own names
                f" FROM {name} HAVING max(seq) IS NOT NULL"
            )
