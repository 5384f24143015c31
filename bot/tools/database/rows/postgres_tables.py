"""The tables of a PostgreSQL database that one transaction touches: what the server counts in
each, and what of them may be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from bot.tools import ToolError
from bot.tools.database.rows.change import Row, RowChange, TableRows
from bot.tools.database.sql.catalog import Catalog, Relation, quoted

Raw = psycopg.Connection[Any]
_COUNTS = """
    SELECT relid, schemaname, n_tup_ins, n_tup_upd, n_tup_del
    FROM pg_catalog.pg_stat_xact_all_tables
    WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 AND schemaname !~ '^pg_toast'"""
_TABLE = """
    SELECT c.oid, c.relname::text, n.nspname::text, c.relpages,
        pg_catalog.has_table_privilege(c.oid, 'SELECT'),
        ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid
            AND a.attnum > 0 AND NOT a.attisdropped
            AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT') ORDER BY a.attnum),
        pg_catalog.json_object_agg(a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod))::text
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT attisdropped
    WHERE c.oid = ANY(%s::oid[]) GROUP BY c.oid, n.oid"""
_FAMILY = """
    WITH RECURSIVE kin(oid) AS (SELECT %s::regclass::oid
        UNION SELECT i.inhrelid FROM kin JOIN pg_catalog.pg_inherits i ON i.inhparent = kin.oid)
    SELECT oid FROM kin"""
# what locks whole tables changes more than rows, and the counts would not tell: TRUNCATE, ALTER
_LOCKS = """
    SELECT count(*) FROM pg_catalog.pg_locks
    WHERE pid = pg_catalog.pg_backend_pid() AND locktype = 'relation'
        AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')"""


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows of a table the server has added, changed and deleted."""

    added: int
    changed: int
    deleted: int

    @property
    def total(self) -> int:
        """All of them; a row that was changed twice counts twice."""
        return self.added + self.changed + self.deleted

    def plus(self, other: Written) -> Written:
        """Both together."""
        return Written(
            self.added + other.added, self.changed + other.changed, self.deleted + other.deleted
        )

    def less(self, other: Written) -> Written:
        """What has been added to the `other` counts."""
        return Written(
            self.added - other.added, self.changed - other.changed, self.deleted - other.deleted
        )


NONE = Written(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Found:
    """One table as it can be read."""

    relation: Relation  # as the catalog has it
    label: str  # as people are told of it
    name: str  # with its schema, quoted
    source: str  # what stands after FROM
    oid: int
    pages: int
    columns: tuple[str, ...]  # neither secret nor forbidden to the role
    key: tuple[str, ...]
    types: Mapping[str, str]
    all_readable: bool  # the role may read the table as a whole

    @property
    def listed(self) -> str:
        """The columns for a SELECT."""
        return ", ".join(map(quoted, self.columns)) or "NULL"

    def shaped(self, rows: Sequence[RowChange], **more: Any) -> TableRows:
        """These rows as rows of this table."""
        hidden = [each.name for each in self.relation.columns if each.name not in self.columns]
        return TableRows(self.label, self.columns, self.key, tuple(hidden), tuple(rows), **more)


class Touched:
    """The tables that one transaction touches, by OID; the parts of a table count as the table."""

    def __init__(self, raw: Raw, catalog: Catalog, table: Relation) -> None:
        """`table`: the one that the statement names. Raises ToolError where it cannot be read."""
        self._raw, self._catalog = raw, catalog
        self._known = {(each.schema, each.name): each for each in catalog.tables.values()}
        name = f"{quoted(table.schema)}.{quoted(table.name)}"
        self._family = [oid for (oid,) in self.ask(_FAMILY, (name,))]
        self.found: dict[int, Found | None] = {}
        target = self.look_up([self._family[0]])[self._family[0]]
        if target is None or table.kind == "foreign":
            raise ToolError(f"{table.name} is a {table.kind} table, whose rows cannot be watched")
        if len(self._family) > 1:  # its parts are read by its own name
            target = replace(target, source=target.name)
            self.found[target.oid] = target
        self.target = target

    def ask(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a query of our own."""
        return self._raw.execute(text.encode(), tuple(values) or None).fetchall()

    def counts(self) -> dict[int, Written]:
        """What the transaction has done so far to each table.

        Raises ToolError where it did more than change rows.
        """
        rows = self.ask(_COUNTS)
        if any(schema in ("pg_catalog", "information_schema") for _, schema, *_ in rows):
            raise ToolError("it changes more than rows, which cannot be watched")
        counts: dict[int, Written] = {}
        for oid, _, *numbers in rows:
            own = self._family[0] if oid in self._family else oid
            counts[own] = Written(*numbers).plus(counts.get(own, NONE))
        if self.ask(_LOCKS)[0][0]:
            raise ToolError("it locks or alters whole tables, which cannot be watched")
        return counts

    def look_up(self, oids: list[int]) -> dict[int, Found | None]:
        """The tables with these OIDs; None for one that the tools may not read."""
        if new := [oid for oid in oids if oid not in self.found]:
            for oid, name, schema, pages, whole, readable, types in self.ask(_TABLE, (new,)):
                relation = self._known.get((schema, name))
                self.found[oid] = None
                if relation is None:
                    continue
                first = schema == self._catalog.schemas[0]
                columns = [
                    each.name
                    for each in relation.columns
                    if each.name in readable
                    and self._catalog.column_key(each) not in relation.secret
                ]
                key = relation.key if set(relation.key) <= set(columns) else ()
                full = f"{quoted(schema)}.{quoted(name)}"
                self.found[oid] = Found(
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
                )
        return {oid: self.found.get(oid) for oid in oids}
