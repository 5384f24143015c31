"""All rows that a change touches, in every table, before and after, and their digest. PURE.

A value that only the run can give (a time, a sequence's next number, a random one) is an AtRun: it
compares equal from one run to the next, and says of itself that it will be another.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class AtRun:
    """A value that is set when the change runs."""

    # what of it is the same each time: "86400 s later", or the text around it
    note: str = ""

    def __str__(self) -> str:
        return f"(set at run time{self.note and ': '}{self.note})"


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row: None before where it is added, None after where it is gone."""

    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of one table; their values are in the order of `columns`."""

    table: str
    columns: tuple[str, ...]  # those that may be read
    key: tuple[str, ...]  # those of them by which a row is found again; () where there is no key
    hidden: tuple[str, ...]  # columns that are never read
    rows: tuple[RowChange, ...]
    # rows that could only be counted, and why: what they are is neither shown nor compared
    counted: int = 0
    why: str = ""
    # without a lasting key: which row before has become which one after is not known
    loose: bool = False

    @property
    def total(self) -> int:
        """How many rows of the table are touched."""
        gone = sum(row.after is None for row in self.rows)
        added = sum(row.before is None for row in self.rows)
        return len(self.rows) + self.counted - (min(gone, added) if self.loose else 0)

    def key_of(self, row: Row) -> Row:
        """The values of a row's key; all values where there is none."""
        return tuple(row[self.columns.index(each)] for each in self.key) or row


@dataclass(frozen=True, slots=True)
class Change:
    """What a change does, the table that it names first."""

    tables: tuple[TableRows, ...]

    @property
    def total(self) -> int:
        """How many rows are touched in all tables."""
        return sum(each.total for each in self.tables)

    @property
    def target(self) -> TableRows:
        """The rows of the table that the statement names."""
        return self.tables[0]

    def digest(self) -> str:
        """The fingerprint of all of it: which rows, from what to what."""
        lines = [
            [each.table, each.columns, each.counted, sorted(map(_line, each.rows))]
            for each in self.tables
        ]
        first, *others = lines
        body = json.dumps([first, *sorted(others)], ensure_ascii=True)
        return hashlib.sha256(body.encode()).hexdigest()


def _line(row: RowChange) -> str:
    return json.dumps([_plain(row.before), _plain(row.after)], ensure_ascii=True)


def _plain(row: Row | None) -> Any:
    """A row in JSON: the text 1 is told from the number 1, and both from an AtRun."""
    if row is None:
        return None
    return [[type(each).__name__, _text(each)] for each in row]


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value.note if isinstance(value, AtRun) else repr(value)
