"""Finds the rows that a change touches in PostgreSQL, checked against the server's own counts.

The change runs twice in one snapshot (REPEATABLE READ), the first time up to a savepoint. The
server counts the rows that it adds, changes and deletes in each table, by triggers and cascades
too; all of them have to be found. The rows of the statement's table are found by the keys that
RETURNING gives, others by which transaction wrote them (xmin) or ended them (xmax).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.types.string import TextLoader
from sqlglot import exp

from bot.tools import ToolError
from bot.tools.database import row_changes
from bot.tools.database.catalog import Catalog, Column, Relation, quote_name
from bot.tools.database.statement import Statement

RawConnection = psycopg.Connection[Any]
_NUMBER_AND_BYTES_TYPES = frozenset(
    ("bool", "bytea", "float4", "float8", "int2", "int4", "int8", "numeric", "oid")
)


def open_row_cursor(raw: RawConnection) -> psycopg.Cursor[Any]:
    """Return a cursor that reads all values but numbers and bytes as the server's own text."""
    cursor = raw.cursor()
    for each in raw.adapters.types:
        kept = each.name in _NUMBER_AND_BYTES_TYPES
        for oid in {each.oid * (not kept), each.array_oid} - {0}:
            cursor.adapters.register_loader(oid, TextLoader)
    return cursor


# a table's rows that the server counts as added, changed, deleted; changed twice counts twice
WriteCounts = Counter[str]
_SELECT_WRITE_COUNTS = """
    SELECT relid, schemaname, n_tup_ins, n_tup_upd, n_tup_del
    FROM pg_catalog.pg_stat_xact_all_tables
    WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 AND schemaname !~ '^pg_toast'"""
_SELECT_TABLES = """
    SELECT c.oid, c.relname::text, n.nspname::text, c.relpages,
        pg_catalog.has_table_privilege(c.oid, 'SELECT'),
        ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid
            AND a.attnum > 0 AND NOT a.attisdropped
            AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY a.attnum),
        pg_catalog.json_object_agg(a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod))::text
            AS types, pg_catalog.row_security_active(c.oid)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT attisdropped
    WHERE c.oid = ANY(%s::oid[]) GROUP BY c.oid, n.oid"""
_SELECT_INHERITING_TABLES = """
    WITH RECURSIVE kin(oid) AS (SELECT %s::regclass::oid
        UNION SELECT i.inhrelid FROM kin JOIN pg_catalog.pg_inherits i ON i.inhparent = kin.oid)
    SELECT oid FROM kin"""
_SELECT_COLUMN_NAMES = """
    SELECT DISTINCT attname::text FROM pg_catalog.pg_attribute
    WHERE attrelid = ANY(%s::oid[]) AND attnum > 0 AND NOT attisdropped"""
# locks that mean changes that the row counts do not show: TRUNCATE, ALTER, writes to foreign tables
_SELECT_UNWATCHED_LOCKS = """
    SELECT mode = 'RowExclusiveLock' FROM pg_catalog.pg_locks
    WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'relation'
        AND (mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
            OR mode = 'RowExclusiveLock' AND relation IN (
                SELECT oid FROM pg_catalog.pg_class WHERE relkind = 'f'))"""


@dataclass(frozen=True, slots=True)
class ReadableTable:
    """A table, and the SQL names to read its rows by."""

    relation: Relation  # from the catalog
    label: str  # name that people read
    name: str  # quoted, with its schema
    source: str  # what follows FROM
    oid: int
    pages: int
    columns: tuple[str, ...]  # neither secret nor forbidden to the role
    key: tuple[str, ...]
    types: Mapping[str, str]
    all_readable: bool  # the role may read the table as a whole
    some_hidden: bool  # row security may hide rows from the role

    @property
    def select_list(self) -> str:
        """The readable columns as a list for a SELECT; "NULL" if there are none."""
        return ", ".join(map(quote_name, self.columns)) or "NULL"

    def build_table_row_changes(
        self, rows: Sequence[row_changes.RowChange], **more: Any
    ) -> row_changes.TableRowChanges:
        """Return these rows as TableRowChanges of this table."""
        hidden = [each.name for each in self.relation.columns if each.name not in self.columns]
        return row_changes.TableRowChanges(
            self.label, self.columns, self.key, tuple(hidden), tuple(rows), **more
        )


class TouchedTableReader:
    """The tables that one transaction touches, by OID; a table's partitions count as the table."""

    def __init__(self, raw: RawConnection, catalog: Catalog, table: Relation) -> None:
        """`table`: the one that the statement names. Raises ToolError if it cannot be watched."""
        self._raw, self._catalog = raw, catalog
        self._known = {(each.schema, each.name): each for each in catalog.tables.values()}
        name = f"{quote_name(table.schema)}.{quote_name(table.name)}"
        self._family = [oid for (oid,) in self.query(_SELECT_INHERITING_TABLES, (name,))]
        self.found: dict[int, ReadableTable | None] = {}
        target = self.load_tables([self._family[0]])[self._family[0]]
        if target is None:
            raise ToolError(f"the rows of {table.name} cannot be watched")
        if len(self._family) > 1:  # the tables that inherit from it are read through it
            target = replace(target, source=target.name, relation=self._add_parts_columns(table))
            if table.kind != "partitioned":  # no key holds for other tables that inherit
                target = replace(target, key=())
            self.found[target.oid] = target
        self.target = target

    def _add_parts_columns(self, table: Relation) -> Relation:
        """Return the table with the columns that only tables inheriting from it have."""
        known = {each.name for each in table.columns}
        more = [Column(name, "") for (name,) in self.query(_SELECT_COLUMN_NAMES, (self._family,))]
        return replace(
            table, columns=(*table.columns, *(each for each in more if each.name not in known))
        )

    def query(self, text: str, values: Sequence[Any] = ()) -> list[row_changes.Row]:
        """Run a query of the bot's own and return its rows."""
        return self._raw.execute(text.encode(), tuple(values) or None).fetchall()

    def read_rows(self, text: str, values: Sequence[Any] = ()) -> list[row_changes.Row]:
        """Run a query for the rows of a touched table; see `open_row_cursor`."""
        return open_row_cursor(self._raw).execute(text.encode(), tuple(values) or None).fetchall()

    def count_writes(self) -> dict[int, WriteCounts]:
        """Return what the transaction has done so far to each table, by OID.

        Raises ToolError if it did more than change rows.
        """
        rows = self.query(_SELECT_WRITE_COUNTS)
        if any(schema in ("pg_catalog", "information_schema") for _, schema, *_ in rows):
            raise ToolError("it changes more than rows, which cannot be watched")
        counts: dict[int, WriteCounts] = {}
        for oid, _, added, changed, deleted in rows:
            own = counts.setdefault(self._family[0] if oid in self._family else oid, Counter())
            own.update(added=added, changed=changed, deleted=deleted)
        for (is_foreign,) in self.query(_SELECT_UNWATCHED_LOCKS):
            what = "changes a foreign table" if is_foreign else "locks or alters whole tables"
            raise ToolError(f"it {what}, which cannot be watched")
        return counts

    def load_tables(self, oids: list[int]) -> dict[int, ReadableTable | None]:
        """Return the tables with these OIDs; None for one that the tools may not read."""
        if new := [oid for oid in oids if oid not in self.found]:
            for oid, name, schema, pages, whole, readable, types, part in self.query(
                _SELECT_TABLES, (new,)
            ):
                relation = self._known.get((schema, name))
                self.found[oid] = None
                if relation is None:
                    continue
                first = schema == self._catalog.schemas[0]
                columns = [
                    each.name
                    for each in relation.columns
                    if each.name in readable
                    and self._catalog.fold_column_name(each) not in relation.secret
                ]
                key = relation.key if set(relation.key) <= set(columns) else ()
                full = f"{quote_name(schema)}.{quote_name(name)}"
                self.found[oid] = ReadableTable(
                    relation,
                    name if first else f"{schema}.{name}",
                    full,
                    f"ONLY {full}",
                    oid,
                    pages,
                    tuple(columns),
                    key,
                    json.loads(types),
                    whole,
                    part,
                )
        return {oid: self.found.get(oid) for oid in oids}


MAX_SCANNED_PAGES = 100_000  # of 8 kB each; a larger table is not searched for written rows
_TRANSACTION_TIME_TEXTS = ", ".join(  # as columns of each precision hold it
    form.format(precision)
    for precision in range(6, -1, -1)
    for form in (
        "pg_catalog.now()::timestamptz({})::text",
        "pg_catalog.now()::timestamp({})::text",
        "pg_catalog.to_json(pg_catalog.now()::timestamptz({})) #>> '{{}}'",
        "pg_catalog.to_json(pg_catalog.now()::timestamp({})) #>> '{{}}'",
        "pg_catalog.now()::timetz({})::text",
        "pg_catalog.now()::time({})::text",
    )
)
_SELECT_TRANSACTION_TIMES = f"""
    SELECT pg_catalog.now()::timestamptz(6) AT TIME ZONE 'UTC',
        pg_catalog.clock_timestamp() AT TIME ZONE 'UTC',
        ARRAY[{_TRANSACTION_TIME_TEXTS}], CURRENT_DATE::text"""
_WRITTEN_CONDITION = "pg_catalog.age(xmin) <= 0"  # written by this transaction
_ROW_PLACE = "tableoid::text || ' ' || ctid::text"
# Row versions deleted, replaced or locked by this transaction. If two of its statements did so, the
# row has a multixact id; another transaction's may match as well, but unchanged rows do no harm.
_ENDED_CONDITION = (
    "xmax <> 0 AND (pg_catalog.age(xmax) <= 0 OR pg_catalog.mxid_age(xmax) BETWEEN 1 AND 10000)"
)

StatementRunner = Callable[[Statement, str], list[row_changes.Row]]


@dataclass(slots=True)
class TrialRunResult:
    """The result of one trial run of a change: the row keys that it returned, the rows it wrote."""

    keys: list[row_changes.Row] | None  # of its table's rows; None if it cannot return them
    counts: dict[int, WriteCounts] = field(default_factory=dict)
    # by table OID: written rows, each with its place (ctid)
    after: dict[int, list[tuple[str, row_changes.Row]]] = field(default_factory=dict)
    # by table OID: places of old row versions that are still there
    remaining_places: dict[int, set[str]] = field(default_factory=dict)


def run_changes_tracking_rows(
    raw: RawConnection,
    catalog: Catalog,
    named: Sequence[tuple[Statement, Relation]],
    run: StatementRunner,
    max_rows: int,
) -> tuple[row_changes.Change, ...]:
    """Run statements in order, each given with its table; return the rows that each touches.

    All run twice, see Session.run_changes. `run` takes a statement and a list of columns in SQL,
    which it makes the statement return.
    """
    statements = [statement for statement, _ in named]
    if raw.execute("SHOW track_counts").fetchone() != ("on",):
        raise ToolError(
            "its server does not count changed rows (track_counts is off): no change can be shown"
        )

    def trial() -> tuple[list[row_changes.Change], list[row_changes.Change]]:
        first, last = list[row_changes.Change](), list[row_changes.Change]()
        for number, (statement, table) in enumerate(named, 1):
            with row_changes.add_statement_number_to_errors(number, statements):
                watch = ChangeTrialRunner(raw, catalog, statement, table, later=number > 1)
                once, again = watch.run_change_twice(run, max_rows)
            first.append(once)
            last.append(again)
            row_changes.check_row_limit(last, max_rows)
        return first, last

    raw.execute("SAVEPOINT countersign_call")
    once, again = trial()
    if len(named) > 1:  # both runs of a statement began alike: repeat the whole call, too
        raw.execute("ROLLBACK TO SAVEPOINT countersign_call")
        once, (_, again) = again, trial()
    return row_changes.merge_trials_of_statements(once, again, _read_run_period(raw), named)


class ChangeTrialRunner:
    """Runs one change twice, first rolled back, and reports the rows that it touches."""

    def __init__(
        self,
        raw: RawConnection,
        catalog: Catalog,
        statement: Statement,
        table: Relation,
        *,
        later: bool,
    ) -> None:
        """`table`: the one that the statement changes. `later`: other statements ran before it."""
        self._raw, self._statement, self._later = raw, statement, later
        self._tables = TouchedTableReader(raw, catalog, table)
        self._target = self._tables.target
        self._before: dict[int, list[tuple[str, row_changes.Row]]] = {}
        self._earlier: dict[int, set[str]] = {}  # places of rows that earlier statements wrote

    def run_change_twice(
        self, run: StatementRunner, max_rows: int
    ) -> tuple[row_changes.Change, row_changes.Change]:
        """Run the change twice, first rolled back; return the rows that each run touched."""
        self._raw.execute("SAVEPOINT countersign_trial")
        once = self._run_trial(run, max_rows)
        self._raw.execute("ROLLBACK TO SAVEPOINT countersign_trial")
        self._read_previous_rows(once, max_rows)
        again = self._run_trial(run, max_rows)
        if once.counts != again.counts:
            raise row_changes.UnpredictableRowsError
        first, last = (self._build_change(each, again) for each in (once, again))
        row_changes.check_same_rows_touched(first, last)
        return first, last

    def _run_trial(self, run: StatementRunner, max_rows: int) -> TrialRunResult:
        earlier = self._tables.count_writes()
        trial = TrialRunResult(self._run_statement(run))
        self._raw.execute("SET CONSTRAINTS ALL IMMEDIATE")  # no check is left for COMMIT
        counts = self._tables.count_writes().items()
        new_counts = {oid: count - earlier.get(oid, Counter()) for oid, count in counts}
        trial.counts = {oid: count for oid, count in new_counts.items() if count}
        touched = sum(each.total() for each in trial.counts.values())
        if touched > row_changes.compute_row_event_limit(max_rows):
            raise row_changes.TooManyRowsError(max_rows)
        for oid, table in self._tables.load_tables(list(trial.counts)).items():
            rows = self._read_written_rows(table, trial, max_rows) if table else None
            if table and rows is not None:
                trial.after[oid] = rows
                trial.remaining_places[oid] = self._list_remaining_places(table)
        return trial

    def _run_statement(self, run: StatementRunner) -> list[row_changes.Row] | None:
        """Run the statement; return the keys of its table's rows, None if it cannot return them."""
        tree, key = self._statement.tree, self._target.key
        plain = isinstance(tree, exp.Insert | exp.Update | exp.Delete)
        if not key or not plain or tree.args.get("returning"):
            run(self._statement, "")
            return None
        named = _quote_statement_table(self._statement)
        return run(self._statement, ", ".join(f"{named}.{quote_name(each)}" for each in key))

    def _list_keys_of_all_rows(self, trial: TrialRunResult) -> list[row_changes.Row] | None:
        """Return the keys of all touched rows of the target table; None unless all are known."""
        total, keys = trial.counts.get(self._target.oid, Counter[str]()).total(), trial.keys
        return keys if keys is not None and len(keys) == total == len({*map(repr, keys)}) else None

    def _read_written_rows(
        self, found: ReadableTable, trial: TrialRunResult, max_rows: int
    ) -> list[tuple[str, row_changes.Row]] | None:
        """Return the rows of a table that the change has written, each with its place (ctid).

        They are in the order of writing. None if they cannot be read.
        """
        keys = self._list_keys_of_all_rows(trial) if found is self._target else None
        if keys is not None:
            places = {repr(key): at for at, key in enumerate(keys)}
            at = [found.columns.index(each) for each in found.key]
            # a key may be written otherwise than the equal one that was asked for: 1.0 for 1
            rows = sorted(
                self._read_rows_by_key(found, keys),
                key=lambda row: places.get(repr(tuple(row[each] for each in at)), len(keys)),
            )
            return [("", row) for row in rows]
        if not found.all_readable or found.pages > MAX_SCANNED_PAGES:
            return None
        # the snapshot predates our transaction id, so visible rows with it or a later id are ours
        return self._read_rows_with_places(found, _WRITTEN_CONDITION, (), max_rows)

    def _read_rows_with_places(
        self, table: ReadableTable, condition: str, order: Sequence[str], max_rows: int
    ) -> list[tuple[str, row_changes.Row]]:
        """Return rows that meet a condition, with their places (ctid); raises TooManyRowsError."""
        limit = row_changes.compute_row_event_limit(max_rows)
        order_list = ", ".join([*map(quote_name, order), "tableoid", "ctid"])
        rows = self._tables.read_rows(
            f"SELECT {_ROW_PLACE}, {table.select_list} FROM {table.source} "
            f"WHERE {condition} ORDER BY {order_list} LIMIT {limit + 1}"
        )
        if len(rows) > limit:
            raise row_changes.TooManyRowsError(max_rows)
        return [(place, tuple(row)) for place, *row in rows]

    def _read_rows_by_key(
        self, table: ReadableTable, keys: list[row_changes.Row]
    ) -> list[row_changes.Row]:
        """Return the rows of the statement's table with these keys, sorted by key."""
        if not keys:
            return []
        names = ", ".join(map(quote_name, table.key))
        typed = ", ".join(f"k{at}::{table.types[each]}" for at, each in enumerate(table.key))
        placeholders = ", ".join(f"k{at}" for at, _ in enumerate(table.key))
        arrays = ", ".join("pg_catalog.unnest(%s::text[])" for _ in table.key)
        text = (
            f"SELECT {table.select_list} FROM {table.source} WHERE ({names}) IN (SELECT {typed} "
            "FROM ROWS FROM ("
        ).replace("%", "%%")
        order = f"ORDER BY {names}".replace("%", "%%")
        return self._tables.read_rows(
            f"{text}{arrays}) AS k({placeholders})) {order}",
            [list(each) for each in zip(*keys, strict=True)],
        )

    def _read_previous_rows(self, trial: TrialRunResult, max_rows: int) -> None:
        for oid, table in self._tables.load_tables(list(trial.counts)).items():
            if table is None or oid not in trial.after:
                continue
            keys = self._list_keys_of_all_rows(trial) if table is self._target else None
            if keys is not None:
                rows = self._read_rows_by_key(table, keys)
                self._before[oid] = [("", row) for row in rows]
                if len(rows) == trial.counts[oid]["changed"] + trial.counts[oid]["deleted"]:
                    continue  # otherwise keys were changed, and the old rows had others
            if table.all_readable:
                self._before[oid] = self._read_rows_with_places(
                    table, _ENDED_CONDITION, table.key, max_rows
                )
                if self._later:
                    written_query = (
                        f"SELECT {_ROW_PLACE} FROM {table.source} WHERE {_WRITTEN_CONDITION}"
                    )
                    self._earlier[oid] = {place for (place,) in self._tables.query(written_query)}

    def _list_remaining_places(self, found: ReadableTable) -> set[str]:
        """Return the places (ctid) of old rows that still exist, since they were only locked."""
        places = [place for place, _ in self._before.get(found.oid, []) if place]
        if not places:
            return set()
        source = found.source.replace("%", "%%")
        text = f"SELECT {_ROW_PLACE} FROM {source} WHERE ctid = ANY(%s::tid[])"
        found_places = self._tables.query(text, ([each.split(" ")[1] for each in places],))
        return {place for (place,) in found_places}

    def _build_change(self, trial: TrialRunResult, last: TrialRunResult) -> row_changes.Change:
        """Return the rows that one trial run changed, without those that were only locked.

        `last`: the trial run in which the locked rows were found.
        """
        tables: list[row_changes.TableRowChanges] = []
        for oid, count in trial.counts.items():
            table = self._tables.found.get(oid)
            if table is None:
                ((name,),) = self._tables.query("SELECT %s::oid::regclass::text", (oid,))
                tables.append(
                    row_changes.TableRowChanges(
                        name, (), (), (), (), count.total(), "may not be read"
                    )
                )
            elif oid not in trial.after:
                why = "only counted" if table.all_readable else "may not be read as a whole"
                tables.append(table.build_table_row_changes((), counted=count.total(), why=why))
            else:
                remaining_places = last.remaining_places.get(oid, set())
                before = [
                    row for place, row in self._before.get(oid, []) if place not in remaining_places
                ]
                earlier_places = self._earlier.get(oid, set())
                after = [row for place, row in trial.after[oid] if place not in earlier_places]
                tables.append(_pair_rows_by_key(table, before, after, count))
        target_tables = [each for each in tables if each.table == self._target.label]
        others = sorted(
            (each for each in tables if each not in target_tables), key=lambda one: one.table
        )
        return row_changes.Change(
            (*(target_tables or [self._target.build_table_row_changes(())]), *others)
        )


def _read_run_period(raw: RawConnection) -> row_changes.TrialTimeSpan:
    ((start, end, texts, day),) = raw.execute(_SELECT_TRANSACTION_TIMES.encode()).fetchall()
    at, until = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (start, end))
    return row_changes.TrialTimeSpan(at, until, tuple(dict.fromkeys(texts)), (day,), at)


def _quote_statement_table(statement: Statement) -> str:
    """Return the name or alias that a statement uses for its table, quoted."""
    assert statement.target is not None
    alias = statement.target.args.get("alias")
    this = alias.this if alias is not None and alias.this is not None else statement.target.this
    return quote_name(this.name if this.args.get("quoted") else this.name.lower())


def _pair_rows_by_key(
    table: ReadableTable,
    before: list[row_changes.Row],
    after: list[row_changes.Row],
    count: WriteCounts,
) -> row_changes.TableRowChanges:
    """Return one table's rows before and after a change, paired by key where it has one.

    Raises UnpredictableRowsError if all rows can be read, but they are not as many as the server
    counted.
    """
    if not table.some_hidden and (
        len(after) - len(before) != count["added"] - count["deleted"]
        or len(after) > count["added"] + count["changed"]
    ):
        raise row_changes.UnpredictableRowsError
    shape = table.build_table_row_changes(())
    later = {repr(shape.get_row_key(row)): row for row in after} if table.key else {}
    rows = [
        row_changes.RowChange(row, later.pop(repr(shape.get_row_key(row)), None)) for row in before
    ]
    added = list(later.values()) if table.key else after
    gone = any(each.after is None for each in rows)
    loose = bool(gone and added and count["changed"])
    rows += [row_changes.RowChange(None, row) for row in added]
    unseen = max(0, count.total() - len(rows)) if table.some_hidden else 0
    why = "hidden by row security" if unseen else ""
    return table.build_table_row_changes(rows, loose=loose, counted=unseen, why=why)
