"""The rows that changes touch, before and after, and the comparison of two trial runs. Pure.

Statements may run one after the other in one transaction. A later one may touch rows that an
earlier one wrote; values in them that are set at run time count as such in the later one, too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from bot.tools import ToolError
from bot.tools.database.assigned_values import (
    ColumnsSetAtRun,
    is_text_of_time,
    list_columns_set_at_run,
)
from bot.tools.database.catalog import Relation
from bot.tools.database.statement import Statement


@contextmanager
def add_statement_number_to_errors(number: int, statements: Sized) -> Iterator[None]:
    """Add the statement's number to any error inside the block, if there are several statements."""
    try:
        yield
    except Exception as error:
        if len(statements) == 1:
            raise
        place = f"statement {number}: "
        if isinstance(error, ToolError):
            raise ToolError(f"{place}{error}") from None
        error.add_note(place)  # the sentence for people is made elsewhere; it begins with this note
        raise


def statement_number_prefix(error: BaseException | None) -> str:
    """Return the number that was added to an error ("statement 2: "); "" if none was."""
    return "".join(getattr(error, "__notes__", ()))


Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ValueAtRun:
    """Stands for a value that is only set when the change runs."""

    # the part that is the same in every run: "86400 s later", or the text around a time
    note: str = ""

    def __str__(self) -> str:
        return f"(set at run time{self.note and ': '}{self.note})"


@dataclass(frozen=True, slots=True)
class RowChange:
    """One touched row; `before` is None if it is added, `after` is None if it is deleted."""

    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class TableRowChanges:
    """The rows of one table that are touched; their values are in the order of `columns`."""

    table: str
    columns: tuple[str, ...]  # those that may be read
    key: tuple[str, ...]  # columns that identify a row; () if the table has no key
    hidden: tuple[str, ...]  # columns that are never read
    rows: tuple[RowChange, ...]
    # rows that could only be counted, and why; their values are neither shown nor compared
    counted: int = 0
    why: str = ""
    # no stable key: it is unknown which old row became which new row
    loose: bool = False

    @property
    def total(self) -> int:
        """How many rows of the table are touched."""
        gone = sum(row.after is None for row in self.rows)
        added = sum(row.before is None for row in self.rows)
        return len(self.rows) + self.counted - (min(gone, added) if self.loose else 0)

    def get_row_key(self, row: Row) -> Row:
        """Return the values of a row's key; all its values if there is no key."""
        return tuple(row[self.columns.index(each)] for each in self.key) or row


@dataclass(frozen=True, slots=True)
class Change:
    """The rows that a statement touches, by table; the table that it names comes first."""

    tables: tuple[TableRowChanges, ...]

    @property
    def total(self) -> int:
        """How many rows are touched in all tables."""
        return sum(each.total for each in self.tables)

    @property
    def target(self) -> TableRowChanges:
        """The rows of the table that the statement names."""
        return self.tables[0]

    def digest(self) -> str:
        """Return a SHA-256 (hex) over all touched rows, with their values before and after."""
        lines = [
            [each.table, each.columns, each.counted, sorted(map(_dump_row_change, each.rows))]
            for each in self.tables
        ]
        first, *others = lines
        body = json.dumps([first, *sorted(others)], ensure_ascii=True)
        return hashlib.sha256(body.encode()).hexdigest()


def _dump_row_change(row: RowChange) -> str:
    return json.dumps(
        [_tag_values_with_types(row.before), _tag_values_with_types(row.after)], ensure_ascii=True
    )


def _tag_values_with_types(row: Row | None) -> Any:
    """Return a row as JSON in which the text 1, the number 1 and a ValueAtRun differ."""
    if row is None:
        return None
    return [[type(each).__name__, _format_value_for_digest(each)] for each in row]


def _format_value_for_digest(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value.note if isinstance(value, ValueAtRun) else repr(value)


_UNIX_EPOCH_JULIAN_DAY = 2440587.5
_EPOCH_PATTERN = re.compile(r"\d{10}(\d{3})?(\.\d+)?")
_TIME_PATTERN = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d(:?\d\d)?|Z)?")


@dataclass(frozen=True, slots=True)
class TrialTimeSpan:
    """The time span in which a trial run of a change took place, by the database's clock."""

    start: datetime  # UTC
    end: datetime
    # start and end as the database writes times and days
    texts: tuple[str, ...] = ()
    days: tuple[str, ...] = ()
    # the transaction's own time, to the microsecond, if the database has one
    exact: datetime | None = None

    def mark_value_if_trial_time(self, value: Any) -> Any:
        """Return ValueAtRun for a value that is this run's time, or whole seconds before or after.

        Any other value is returned as it is. A difference of seconds is only recognised from the
        transaction's own time (`exact`).
        """
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float | Decimal) or _EPOCH_PATTERN.fullmatch(str(value)):
            return ValueAtRun() if self._is_numeric_run_time(float(value)) else value
        if not isinstance(value, str):
            return value
        if _TIME_PATTERN.fullmatch(value) and (found := self._match_time_text(value)):
            return found
        return _mark_times_in_text(value, self.texts)

    def mark_joined_value(self, value: Any) -> ValueAtRun | None:
        """Return ValueAtRun for text joined to a time or a day; its note is the text that stays.

        Returns None for None.
        """
        if value is None:
            return None
        found = _mark_times_in_text(str(value), (*self.texts, *self.days))
        return found if isinstance(found, ValueAtRun) else ValueAtRun()

    def _is_numeric_run_time(self, value: float) -> bool:
        """Whether a number is the run's time in (milli)seconds since 1970, or in Julian days."""
        start, end = self.start.timestamp() - 1, self.end.timestamp() + 1
        days = [each / 86_400 + _UNIX_EPOCH_JULIAN_DAY for each in (start, end)]
        return (
            start <= value <= end
            or start * 1000 <= value <= end * 1000
            or days[0] <= value <= days[1]
        )

    def _match_time_text(self, text: str) -> ValueAtRun | None:
        try:
            read = datetime.fromisoformat(text)
        except ValueError:  # 0000-00-00, for example
            return None
        at = read if read.tzinfo else read.replace(tzinfo=UTC)
        if self.start <= at <= self.end:
            return ValueAtRun()
        return self._match_rounded_time(at)

    def _match_rounded_time(self, at: datetime) -> ValueAtRun | None:
        """Return ValueAtRun for `exact`, rounded or cut to any digit, or whole seconds from it.

        Many times are round, so from a rounded one only days, or 5 minutes each up to 15 hours.
        """
        if self.exact is None:
            return None
        for digits in range(6, -1, -1):
            unit = timedelta(microseconds=10 ** (6 - digits))
            cut = self.exact - (self.exact - datetime.min.replace(tzinfo=UTC)) % unit
            for rounded in (cut, cut + unit):
                seconds = (at - rounded).total_seconds()
                near = abs(seconds) <= 54_000
                step = 1 if digits == 6 else 300 if near else 86_400
                if seconds == 0 or (seconds % step == 0 and (at.second or at.microsecond)):
                    return ValueAtRun(f"{seconds:+.0f} s" if seconds else "")
        return None


def _mark_times_in_text(value: str, texts: Sequence[str]) -> str | ValueAtRun:
    note = value
    for text in sorted(texts, key=len, reverse=True):  # a rounded time may begin a longer one
        if text in note:
            note = re.sub(rf"{re.escape(text)}(?:\.\d+)?", "…", note)
    return value if note == value else ValueAtRun("" if note == "…" else note)


def build_whole_second_time_span(
    start: datetime, end: datetime, zones: Sequence[timedelta] = ()
) -> TrialTimeSpan:
    """Return the time span of a trial run in a database that writes times in whole seconds.

    It writes them in UTC or in one of `zones`, given as offsets from UTC.
    """
    first, last = start.replace(microsecond=0), end.replace(microsecond=0)
    seconds = [first + timedelta(seconds=at) for at in range(int((last - first).seconds) + 1)]
    texts = [
        (each + zone).strftime(form)
        for each in seconds
        for zone in (timedelta(), *zones)
        for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%H:%M:%S")
    ]
    days = tuple(dict.fromkeys(each[:10] for each in texts if each[4] == "-"))
    return TrialTimeSpan(first, end + timedelta(seconds=1), tuple(dict.fromkeys(texts)), days)


def is_same_value(one: Any, other: Any) -> bool:
    """Whether two values are the same to a database: 1 and 1.0 are not, and NaN is NaN."""
    return type(one) is type(other) and repr(one) == repr(other)


def compute_row_event_limit(max_rows: int) -> int:
    """Return how many row writes are read at most if `max_rows` may change, some repeatedly."""
    return max_rows * 8 + 1000


class UnpredictableRowsError(ToolError):
    """Raised when two trial runs of a change did not touch the same rows."""

    def __init__(self) -> None:
        super().__init__(
            "which rows it touches cannot be predicted: chance decides, triggers undo what they "
            "did themselves, or somebody is changing the rows"
        )


class TooManyRowsError(ToolError):
    """Raised when a change touches more rows than the settings allow."""

    def __init__(self, most: int, count: int | None = None) -> None:
        touched = f"more than {most:,}" if count is None else f"{count:,}"
        super().__init__(f"it touches {touched} rows, and at most {most:,} may change at once")


def check_row_limit(changes: Sequence[Change], limit: int) -> None:
    """Raise TooManyRowsError when the changes together touch more than `limit` rows."""
    total = sum(each.total for each in changes)
    if total > limit:
        raise TooManyRowsError(limit, total)


def mark_values_set_at_run(
    first_trial: Change, second_trial: Change, moment: TrialTimeSpan, set_at_run: ColumnsSetAtRun
) -> Change:
    """Return `second_trial`, with ValueAtRun where it differs from the first or has the run's time.

    `set_at_run`: columns of the statement's table that get a new value in each run, see
    `list_columns_set_at_run`. Raises UnpredictableRowsError if the two trials did not touch the
    same rows.
    """
    check_same_rows_touched(first_trial, second_trial)
    first_tables = {each.table: each for each in first_trial.tables}
    tables = []
    for each in second_trial.tables:
        twin = first_tables[each.table]
        alike = _list_added_rows(twin) & _list_added_rows(each)
        twins = dict(zip(_list_row_keys(twin, alike), twin.rows, strict=True))
        static = set_at_run if each is second_trial.target else ColumnsSetAtRun({}, {})
        added, changed = (
            {at: one[name.lower()] for at, name in enumerate(each.columns) if name.lower() in one}
            for one in static
        )
        rows = [
            _mark_values_at_run(
                row, twins.get(key), moment, added if row.before is None else changed
            )
            for row, key in zip(each.rows, _list_row_keys(each, alike), strict=True)
        ]
        tables.append(replace(each, rows=tuple(rows)))
    return Change(tuple(tables))


def check_same_rows_touched(first_trial: Change, second_trial: Change) -> None:
    """Raise UnpredictableRowsError if two trial runs of a change touched different rows."""
    if [_summarise_touched_rows(each) for each in first_trial.tables] != [
        _summarise_touched_rows(each) for each in second_trial.tables
    ]:
        raise UnpredictableRowsError


def _summarise_touched_rows(table: TableRowChanges) -> tuple[str, int, list[str]]:
    return table.table, table.total, sorted(repr(row.before) for row in table.rows)


def _list_added_rows(table: TableRowChanges) -> set[str]:
    return {f"added {row.after!r}" for row in table.rows if row.before is None}


def _list_row_keys(table: TableRowChanges, alike: Set[str]) -> Iterable[Any]:
    """Yield each row's key before the change, with a number among the rows with that key.

    The key of an added row is the whole row if both trials added it (`alike`), else "".
    """
    seen: Counter[str] = Counter()
    for row in table.rows:
        key = f"added {row.after!r}"
        if row.before is not None:
            key = repr(table.get_row_key(row.before))
        elif key not in alike:
            key = ""
        seen[key] += 1
        yield key, seen[key]


def _mark_values_at_run(
    row: RowChange, twin: RowChange | None, moment: TrialTimeSpan, set_at_run: Mapping[int, bool]
) -> RowChange:
    if row.after is None:
        return row
    after = list(row.after)
    other = twin.after if twin and twin.after and len(twin.after) == len(after) else None
    for at, value in enumerate(after):
        if at in set_at_run and not is_text_of_time(value):  # a stored 'now' was meant as text
            marked = moment.mark_joined_value(value)
            known = (
                set_at_run[at]
                and other is not None
                and marked == moment.mark_joined_value(other[at])
            )
            after[at] = marked if known else ValueAtRun()
        elif other is not None and not is_same_value(other[at], value):
            # the database's clock may have reached the next second between the two runs
            marked = moment.mark_value_if_trial_time(value)
            after[at] = (
                marked if marked == moment.mark_value_if_trial_time(other[at]) else ValueAtRun()
            )
        elif row.before is None or not is_same_value(row.before[at], value):
            after[at] = moment.mark_value_if_trial_time(value)
    return replace(row, after=tuple(after))


class RowsOfEarlierStatements:
    """The rows that earlier statements of one trial run wrote, with values set at run time."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], Row] = {}

    def mark_values_from_earlier_statements(self, change: Change) -> Change:
        """Return a later statement's change with ValueAtRun in rows that earlier ones wrote."""
        return Change(
            tuple(
                replace(
                    each,
                    rows=tuple(self._mark_row_values_at_run(each.table, row) for row in each.rows),
                )
                for each in change.tables
            )
        )

    def _mark_row_values_at_run(self, table: str, row: RowChange) -> RowChange:
        told = self._told.get((table, repr(row.before)))
        if told is None or row.before is None:
            return row
        if row.after is None:
            return RowChange(told, None)
        sides = zip(told, row.before, row.after, strict=True)
        after = tuple(said if is_same_value(old, new) else new for said, old, new in sides)
        return RowChange(told, after)

    def remember_written_rows(self, change: Change, at_run: Change) -> None:
        """Store the rows that a statement wrote; `at_run`: the same change with its ValueAtRun."""
        for each, said in zip(change.tables, at_run.tables, strict=False):
            for row, other in zip(each.rows, said.rows, strict=False):
                if row.after is not None and other.after not in (None, row.after):
                    self._told[each.table, repr(row.after)] = other.after


def merge_trials_of_statements(
    first_trial: Sequence[Change],
    second_trial: Sequence[Change],
    moment: TrialTimeSpan,
    statements: Sequence[tuple[Statement, Relation]],
    number: Callable[[Change, Statement, Relation], Change] = lambda change, *_: change,
) -> tuple[Change, ...]:
    """Merge two trial runs of several statements into one Change for each statement.

    Each comes with its table, and is merged as by `mark_values_set_at_run`. `number` returns a
    change with ValueAtRun in place of the row numbers that the database itself gives to added rows.
    """
    first, last = RowsOfEarlierStatements(), RowsOfEarlierStatements()
    result = []
    for first_change, second_change, named in zip(
        first_trial, second_trial, statements, strict=True
    ):
        merged = mark_values_set_at_run(
            number(first.mark_values_from_earlier_statements(first_change), *named),
            number(last.mark_values_from_earlier_statements(second_change), *named),
            moment,
            list_columns_set_at_run(*named),
        )
        first.remember_written_rows(first_change, merged)
        last.remember_written_rows(second_change, merged)
        result.append(merged)
    return tuple(result)
