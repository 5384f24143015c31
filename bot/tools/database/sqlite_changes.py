"""Finds the rows that a change touches in SQLite, with temporary triggers that record them.

SQLite itself says which tables a statement can reach, by foreign keys and by triggers. Each of them
gets temporary triggers, which see every row that is added, changed or deleted, by any means. Their
records have to account for every row that SQLite counted, or the change is refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlglot import exp

from bot.tools import ToolError
from bot.tools.database import row_changes
from bot.tools.database.assigned_values import list_inserted_values
from bot.tools.database.catalog import Catalog, Relation, quote_name
from bot.tools.database.statement import Statement


def read_highest_row_numbers(
    raw: sqlite3.Connection, tables: Iterable[tuple[Relation, str]]
) -> Mapping[str, int]:
    """Return the highest row number so far of each table whose row numbers SQLite assigns.

    `tables`: each with the name of the column that identifies its rows.
    """
    counters: dict[str, int] = {}
    if raw.execute("SELECT 1 FROM main.sqlite_schema WHERE name = 'sqlite_sequence'").fetchone():
        counters = dict(raw.execute("SELECT lower(name), seq FROM main.sqlite_sequence").fetchall())
    highest_by_table = {}
    for table, identity in tables:
        types = {column.name: column.type.upper() for column in table.columns}
        if [types[name] for name in table.key] == ["INTEGER"] and "id" in identity:
            text = f"SELECT max({quote_name(identity)}) FROM main.{quote_name(table.name)}"
            ((highest,),) = raw.execute(text).fetchall()
            highest_by_table[table.name] = max(highest or 0, counters.get(table.name.lower()) or 0)
    return highest_by_table


def mark_generated_row_numbers(
    change: row_changes.Change, highest: Mapping[str, int], given: frozenset[str]
) -> row_changes.Change:
    """Return the change with ValueAtRun for the numbers that SQLite assigns to added rows.

    The numbers follow the `highest` of each table, which may have changed when the change runs.
    `given`: the folded names of the columns that the statement sets itself.
    """
    tables = []
    for table in change.tables:
        start = highest.get(table.table)
        is_number_set = table is change.target and {each.lower() for each in table.key} <= given
        if start is not None and table.key and not is_number_set:
            at = table.columns.index(table.key[0])
            rows = tuple(_mark_generated_number(row, at, start) for row in table.rows)
            table = replace(table, rows=rows)
        tables.append(table)
    return row_changes.Change(tuple(tables))


def _mark_generated_number(
    row: row_changes.RowChange, at: int, start: int
) -> row_changes.RowChange:
    if row.before is not None or row.after is None:
        return row
    number = row.after[at]
    if not isinstance(number, int) or number <= start:
        return row
    further = number - start - 1
    told = row_changes.ValueAtRun(f"the next number{f' + {further}' * bool(further)}")
    after = (*row.after[:at], told, *row.after[at + 1 :])
    return row_changes.RowChange(None, after)


_TRIGGER_EVENTS = (("INSERT", False, True), ("UPDATE", True, True), ("DELETE", True, False))
_TOO_MANY_ROWS_ERROR = "countersign: too many rows"
# a context in which only that statement may run; gives its SqliteAuthorizer
StatementGuard = Callable[[Statement], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class WatchedTable:
    """A table whose row changes temporary triggers record."""

    table: Relation
    number: int
    # columns that cannot change unnoticed: the rowid, or the key if there is none
    identity: tuple[str, ...]
    columns: tuple[str, ...]
    hidden: tuple[str, ...]

    @property
    def log_table_name(self) -> str:
        """The name of the temporary table in which the triggers record rows."""
        return f"countersign_rows_{self.number}"


def run_changes_tracking_rows(
    raw: sqlite3.Connection,
    catalog: Catalog,
    guarded: StatementGuard,
    named: Sequence[tuple[Statement, Relation]],
    max_rows: int,
) -> tuple[row_changes.Change, ...]:
    """Run checked changes in order, each given with its table; see Session.run_changes."""
    statements = [statement for statement, _ in named]
    start = datetime.now(UTC)  # noqa: TID251  # what SQLite took from that clock is looked for
    touched: set[str] = set()
    for number, each in enumerate(statements, 1):
        with row_changes.add_statement_number_to_errors(number, statements):
            touched |= _run_guarded(raw, guarded, each, f"EXPLAIN {each.text_without_explain}")
    watched = _create_watch_triggers(raw, catalog, touched, max_rows)
    highest = read_highest_row_numbers(raw, [(each.table, each.identity[0]) for each in watched])

    def trial() -> list[row_changes.Change]:
        changes: list[row_changes.Change] = []
        read_counts = {each.number: 0 for each in watched}
        for number, each in enumerate(statements, 1):
            with row_changes.add_statement_number_to_errors(number, statements):
                changes.append(_run_trial(raw, guarded, each, watched, read_counts))
            row_changes.check_row_limit(changes, max_rows)
        return changes

    try:
        raw.execute("SAVEPOINT countersign_trial")
        first_trial = trial()
        raw.execute("ROLLBACK TO countersign_trial")
        second_trial = trial()
    except sqlite3.IntegrityError as error:
        if str(error) != _TOO_MANY_ROWS_ERROR:
            raise
        raise row_changes.TooManyRowsError(max_rows) from None
    return row_changes.merge_trials_of_statements(
        first_trial,
        second_trial,
        _build_run_period_until_now(start),
        named,
        lambda change, *named: mark_generated_row_numbers(
            change, highest, _list_given_columns(*named)
        ),
    )


def _list_given_columns(statement: Statement, table: Relation) -> frozenset[str]:
    """Return the folded names of the columns to which an INSERT itself gives a value, not NULL."""
    names, rows = list_inserted_values(statement, table)
    numbered = {
        name
        for row in rows
        for name, value in zip(names, row, strict=False)
        if isinstance(value, exp.Null)
    }
    return frozenset(names) - numbered


def _run_trial(
    raw: sqlite3.Connection,
    guarded: StatementGuard,
    statement: Statement,
    watched: list[WatchedTable],
    read: dict[int, int],
) -> row_changes.Change:
    """Run one statement and return the rows it has touched. `read`: see `_read_recorded_rows`."""
    assert statement.target is not None
    before = raw.total_changes
    logs = {each.log_table_name for each in watched}
    changed = _run_guarded(raw, guarded, statement, statement.text, logs)
    if not changed <= {each.table.name for each in watched}:
        raise ToolError("it changes tables that cannot be watched")
    target = statement.target.name.lower()
    return _read_recorded_rows(raw, watched, target, raw.total_changes - before, read)


def _run_guarded(
    raw: sqlite3.Connection,
    guarded: StatementGuard,
    statement: Statement,
    text: str,
    logs: Set[str] = frozenset(),
) -> set[str]:
    """Run SQL that is allowed only what the statement may do; return the tables it may change.

    `logs`: the temporary tables of the bot's triggers.
    """
    with guarded(statement) as guard:
        guard.logs = logs
        raw.execute(text).fetchall()
        changed: set[str] = guard.changed
    return changed


def _create_watch_triggers(
    raw: sqlite3.Connection, catalog: Catalog, names: set[str], max_rows: int
) -> list[WatchedTable]:
    """Create triggers that record the changed rows of these tables, at most `max_rows` of each.

    Raises ToolError for a table whose rows cannot be watched.
    """
    kinds = {
        name.lower(): (kind, bool(without))
        for _, name, kind, _, without, *_ in raw.execute("PRAGMA main.table_list")
    }
    watched = []
    for number, name in enumerate(sorted(names)):
        table, (kind, without_rowid) = catalog.tables.get(name.lower()), kinds[name.lower()]
        if table is None or kind != "table":
            raise ToolError(f"it would change {name}, a {kind} table, whose rows cannot be watched")
        watched_table = _build_watched_table(table, catalog, number, without_rowid)
        for text in _build_trigger_statements(watched_table, max_rows):
            raw.execute(text)
        watched.append(watched_table)
    return watched


def _build_watched_table(
    table: Relation, catalog: Catalog, number: int, without_rowid: bool
) -> WatchedTable:
    hidden = tuple(
        each.name for each in table.columns if catalog.fold_column_name(each) in table.secret
    )
    columns = tuple(each.name for each in table.columns if each.name not in hidden)
    column_names = {each.name.lower() for each in table.columns}
    row_id_names = [each for each in ("rowid", "_rowid_", "oid") if each not in column_names]
    identity = table.key if without_rowid else tuple(row_id_names[:1])
    if not identity or set(identity) & set(hidden):
        raise ToolError(f"the rows of {table.name} cannot be told apart by what may be read")
    return WatchedTable(table, number, identity, columns, hidden)


def _build_trigger_statements(watched: WatchedTable, max_rows: int) -> list[str]:
    seen = [*watched.identity, *watched.columns]
    fields = ", ".join(f"{side}{at}" for side in "on" for at in range(len(seen)))
    texts = [
        f"CREATE TEMP TABLE {watched.log_table_name} (seq INTEGER PRIMARY KEY, kind TEXT, {fields})"
    ]
    for event, has_old, has_new in _TRIGGER_EVENTS:
        values = [
            f"{side}.{quote_name(each)}" if there else "NULL"
            for side, there in (("OLD", has_old), ("NEW", has_new))
            for each in seen
        ]
        texts.append(
            f"CREATE TEMP TRIGGER countersign_watch_{watched.number}_{event.lower()} AFTER {event} "
            f"ON main.{quote_name(watched.table.name)} BEGIN "
            f"INSERT INTO {watched.log_table_name} "
            f"VALUES (NULL, '{event[0]}', {', '.join(values)}); "
            f"SELECT RAISE(ABORT, '{_TOO_MANY_ROWS_ERROR}') WHERE last_insert_rowid() > "
            f"{row_changes.compute_row_event_limit(max_rows)}; "
            "END"
        )
    return texts


@dataclass(slots=True)
class _TracedRow:
    """One row's values before and after the statement, while its events are followed."""

    before: row_changes.Row | None
    after: row_changes.Row | None


def _read_recorded_rows(
    raw: sqlite3.Connection,
    watched: list[WatchedTable],
    target: str,
    counted: int,
    read_counts: dict[int, int],
) -> row_changes.Change:
    """Return the rows that triggers recorded since the last reading, the table `target` first.

    `counted`: how many rows SQLite says were changed since, the triggers' records included. Raises
    ToolError if that is more than was recorded, or if the records are no sequence of changes.
    `read_counts`: how many records of each table have been read so far, brought up to date.
    """
    event_count, tables = 0, []
    for each in watched:
        text = f"SELECT * FROM temp.{each.log_table_name} WHERE seq > ? ORDER BY seq"
        events = raw.execute(text, (read_counts[each.number],)).fetchall()
        event_count += len(events)
        read_counts[each.number] += len(events)
        rows = _replay_events(events, len(each.identity), len(each.columns), each.table.name)
        key = each.table.key if set(each.table.key) <= set(each.columns) else ()
        tables.append(
            row_changes.TableRowChanges(each.table.name, each.columns, key, each.hidden, rows)
        )
    if counted - event_count > event_count:
        raise ToolError("it changes rows in a way that cannot be watched")
    # tables without touched rows are left out, except the one that the statement names
    shown_tables = [each for each in tables if each.rows or each.table.lower() == target]
    return row_changes.Change(
        tuple(sorted(shown_tables, key=lambda one: (one.table.lower() != target, one.table)))
    )


def _replay_events(
    events: list[row_changes.Row], ids: int, columns: int, table: str
) -> tuple[row_changes.RowChange, ...]:
    """Return each row's values before its first recorded event and after its last."""
    alive: dict[row_changes.Row, _TracedRow] = {}
    gone: dict[row_changes.Row, _TracedRow] = {}  # a deleted row may come back, as with REPLACE
    all_rows: list[_TracedRow] = []
    wide = ids + columns
    for _, kind, *values in events:
        old, new = tuple(values[:wide]), tuple(values[wide:])
        if kind != "I":
            row = alive.pop(old[:ids], None)
            if row is None:
                row = _TracedRow(old[ids:], old[ids:])
                all_rows.append(row)
            if row.after != old[ids:]:
                raise ToolError(f"what its triggers do to {table} cannot be followed")
            row.after = None
            gone[old[:ids]] = row
        elif (row := gone.pop(new[:ids], None)) is None:
            row = _TracedRow(None, None)
            all_rows.append(row)
        if kind != "D":
            if new[:ids] in alive:
                raise ToolError(f"what its triggers do to {table} cannot be followed")
            row.after, alive[new[:ids]] = new[ids:], row
            gone.pop(old[:ids], None)
    kept = [row_changes.RowChange(row.before, row.after) for row in all_rows]
    return tuple(row for row in kept if row.before is not None or row.after is not None)


def _build_run_period_until_now(start: datetime) -> row_changes.TrialTimeSpan:
    """Return the time span from `start` (UTC) until now, as SQLite writes UTC and local time."""
    end = datetime.now(UTC)  # noqa: TID251  # the same
    zone = end.astimezone().utcoffset() or timedelta()
    return row_changes.build_whole_second_time_span(start, end, [zone])
