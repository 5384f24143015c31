"""Statements that run one after the other in one transaction: what each of them does. PURE.

A later statement may meet rows that an earlier one has left. What of them is set at run time is so
for the later one too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlglot import exp

from bot.tools import ToolError
from bot.tools.database.statement import Statement

# At which of several statements something went wrong. PURE.


@contextmanager
def note_statement(number: int, statements: Sized) -> Iterator[None]:
    """Have what goes wrong inside say at which of several statements it did."""
    try:
        yield
    except Exception as error:
        if len(statements) == 1:
            raise
        place = f"statement {number}: "
        if isinstance(error, ToolError):
            raise ToolError(f"{place}{error}") from None
        error.add_note(place)  # what the database says is put into words elsewhere
        raise


def statement_place(error: BaseException | None) -> str:
    """What `placed` has noted: "statement 2: ", or nothing."""
    return "".join(getattr(error, "__notes__", ()))


# Two trials of one change made one: what came out differently is set at run time. PURE.

# All rows that a change touches, in every table, before and after, and their digest. PURE.

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ValueAtRun:
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
    return value.note if isinstance(value, ValueAtRun) else repr(value)


# The time of a run, recognised in the values that it wrote. PURE.

_EPOCH_DAY = 2440587.5  # the Julian day of 1970-01-01
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d(:?\d\d)?)?")


@dataclass(frozen=True, slots=True)
class Moment:
    """From when to when a change ran, by the database's clock."""

    start: datetime  # UTC
    end: datetime
    # how the database writes these times down
    texts: tuple[str, ...] = ()
    # the transaction's own time, to the microsecond, where it has one
    exact: datetime | None = None

    def told(self, value: Any) -> Any:
        """An AtRun where a value is of this moment, or a whole number of seconds from it."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return ValueAtRun() if self._counts(float(value)) else value
        if not isinstance(value, str):
            return value
        if _TIME.fullmatch(value) and (found := self._time(value)):
            return found
        note = value
        for text in self.texts:
            note = note.replace(text, "…")
        return value if note == value else ValueAtRun("" if note == "…" else note)

    def _counts(self, value: float) -> bool:
        """Whether a number is this moment as seconds or milliseconds since 1970, or Julian days."""
        start, end = self.start.timestamp() - 1, self.end.timestamp() + 1
        days = [each / 86_400 + _EPOCH_DAY for each in (start, end)]
        return (
            start <= value <= end
            or start * 1000 <= value <= end * 1000
            or days[0] <= value <= days[1]
        )

    def _time(self, text: str) -> ValueAtRun | None:
        whole, fraction, zone = text[:19], "", text[19:]
        if zone.startswith("."):
            fraction = re.match(r"\.\d+", zone)[0]  # type: ignore[index]  # it has one
            zone = zone[len(fraction) :]
        micro = timedelta(microseconds=int(fraction[1:].ljust(6, "0") or 0))
        try:
            read = datetime.fromisoformat(whole + zone) + micro
        except (ValueError, OverflowError):  # 0000-00-00, say
            return None
        at = read if read.tzinfo else read.replace(tzinfo=UTC)
        if self.start <= at <= self.end:
            return ValueAtRun()
        if self.exact is None or at.microsecond != self.exact.microsecond or not at.microsecond:
            return None
        return ValueAtRun(f"{(at - self.exact).total_seconds():+.0f} s")


def moment_between(start: datetime, end: datetime, zones: Sequence[timedelta] = ()) -> Moment:
    """The moment of a database that writes whole seconds in UTC and the `zones`."""
    first, last = start.replace(microsecond=0), end.replace(microsecond=0)
    seconds = [first + timedelta(seconds=at) for at in range(int((last - first).seconds) + 1)]
    texts = [
        (each + zone).strftime(form)
        for each in seconds
        for zone in (timedelta(), *zones)
        for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")
    ]
    return Moment(first, end + timedelta(seconds=1), tuple(dict.fromkeys(texts)))


# what gives another value with time or each time it is called, as it is written
_ANEW = re.compile(
    r"""\b(?:current_(?:date|time|timestamp)|localtime(?:stamp)?|random\w*|gen_random_uuid|nextval
    |now|(?:clock|statement|transaction)_timestamp)\b|\(\s*\)
    |'(?:now|today|tomorrow|yesterday)\b""",
    re.IGNORECASE | re.VERBOSE,
)


def most_events(most: int) -> int:
    """So many events are looked at, where `most` rows may change: a row may change repeatedly."""
    return most * 8 + 1000


class UnforeseenError(ToolError):
    """Two trials of a change did not touch the same rows."""

    def __init__(self) -> None:
        super().__init__(
            "which rows it touches cannot be foreseen: chance decides, or somebody changes them now"
        )


class TooManyError(ToolError):
    """The change touches more rows than the settings allow."""

    def __init__(self, most: int, count: int | None = None) -> None:
        touched = f"more than {most:,}" if count is None else f"{count:,}"
        super().__init__(f"it touches {touched} rows, and at most {most:,} may change at once")


def refuse_too_many(changes: Sequence[Change], most: int) -> None:
    """Raise TooManyError when the changes together touch more rows than the settings allow."""
    total = sum(each.total for each in changes)
    if total > most:
        raise TooManyError(most, total)


def insert_columns(statement: Statement) -> frozenset[str]:
    """The folded names of the columns that an INSERT names."""
    tree = statement.tree
    named = isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema)
    return frozenset(each.name.lower() for each in (tree.this.expressions if named else ()))


def generated_columns(statement: Statement) -> frozenset[str]:
    """The folded names of the columns that a statement sets to what every run makes anew."""
    tree = statement.change
    if tree is None:
        return frozenset()
    conflict = tree.args.get("conflict")
    pairs = [
        (column.name, [each.expression])
        for each in [*(tree.expressions or ()), *(conflict.expressions if conflict else ())]
        if isinstance(each, exp.EQ)
        for column in each.this.find_all(exp.Column)
    ]
    if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema):
        names = [each.name for each in tree.this.expressions]
        source = tree.args.get("expression")
        if isinstance(source, exp.Values):
            rows = [getattr(each, "expressions", [each]) for each in source.expressions]
        else:
            rows = [getattr(source, "selects", [])]
        pairs += [
            (name, [row[at] for row in rows if at < len(row)]) for at, name in enumerate(names)
        ]
    return frozenset(
        name.lower()
        for name, values in pairs
        if any(_ANEW.search(each.sql(statement.dialect)) for each in values)
    )


def merge_trials(once: Change, again: Change, moment: Moment, made: frozenset[str]) -> Change:
    """Return `again` with an AtRun for what was another value `once`, or is of this `moment`.

    `made`: names of columns of the statement's table whose values it makes anew by each run. Raises
    UnforeseenError where the two have not touched the same rows.
    """
    refuse_random_rows(once, again)
    known = {each.table: each for each in once.tables}
    tables = []
    for each in again.tables:
        twins = _by_key(known[each.table]) if each.table in known else {}
        static = made if each is again.target else frozenset()
        places = [at for at, name in enumerate(each.columns) if name.lower() in static]
        rows = [
            _settled(row, twins.get(key), moment, places)
            for row, key in zip(each.rows, _keys(each), strict=True)
        ]
        tables.append(replace(each, rows=tuple(rows)))
    return Change(tuple(tables))


def refuse_random_rows(once: Change, again: Change) -> None:
    """Raise UnforeseenError where two trials have not touched the same rows."""
    if [_touched(each) for each in once.tables] != [_touched(each) for each in again.tables]:
        raise UnforeseenError


def _touched(table: TableRows) -> tuple[str, int, list[str]]:
    """Which rows of a table were there before, and how many in all."""
    return table.table, table.total, sorted(repr(row.before) for row in table.rows)


def _keys(table: TableRows) -> Iterable[Any]:
    """What tells the rows of two trials apart: the key before, and the number among its equals."""
    seen: Counter[str] = Counter()
    for row in table.rows:
        key = "" if row.before is None else repr(table.key_of(row.before))
        seen[key] += 1
        yield key, seen[key]


def _by_key(table: TableRows) -> dict[Any, RowChange]:
    return dict(zip(_keys(table), table.rows, strict=True))


def _settled(row: RowChange, twin: RowChange | None, moment: Moment, made: list[int]) -> RowChange:
    if row.after is None:
        return row
    after = list(row.after)
    other = twin.after if twin and twin.after and len(twin.after) == len(after) else None
    for at, value in enumerate(after):
        if at in made:
            after[at] = ValueAtRun()
        elif other is not None and other[at] != value:
            told = moment.told(value)  # the clock's next second may have begun between the two
            after[at] = told if told == moment.told(other[at]) else ValueAtRun()
        elif row.before is None or row.before[at] != value:
            after[at] = moment.told(value)
    return replace(row, after=tuple(after))


class RemainingRows:
    """The rows that the statements so far have left in one trial, with what is told of them."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], Row] = {}

    def met(self, change: Change) -> Change:
        """Return a change by a later statement, with what is told of the rows that it has met."""
        return Change(
            tuple(
                replace(each, rows=tuple(self._met(each.table, row) for row in each.rows))
                for each in change.tables
            )
        )

    def _met(self, table: str, row: RowChange) -> RowChange:
        told = self._told.get((table, repr(row.before)))
        if told is None or row.before is None:
            return row
        if row.after is None:
            return RowChange(told, None)
        sides = zip(told, row.before, row.after, strict=True)
        return RowChange(told, tuple(said if old == new else new for said, old, new in sides))

    def keep(self, change: Change, told: Change) -> None:
        """Keep what a statement has left, and what is told of it."""
        for each, said in zip(change.tables, told.tables, strict=False):
            for row, other in zip(each.rows, said.rows, strict=False):
                if row.after is not None and other.after not in (None, row.after):
                    self._told[each.table, repr(row.after)] = other.after


def merge_statement_trials(
    once: Sequence[Change],
    again: Sequence[Change],
    moment: Moment,
    statements: Sequence[Statement],
    number: Callable[[Change, Statement], Change] = lambda change, _: change,
) -> tuple[Change, ...]:
    """Two trials of the statements made one, as `settled` does it with one statement.

    `number` says which numbers of added rows the database gives.
    """
    first, last = RemainingRows(), RemainingRows()
    result = []
    for one, other, statement in zip(once, again, statements, strict=True):
        made = merge_trials(
            number(first.met(one), statement),
            number(last.met(other), statement),
            moment,
            generated_columns(statement),
        )
        first.keep(one, made)
        last.keep(other, made)
        result.append(made)
    return tuple(result)
