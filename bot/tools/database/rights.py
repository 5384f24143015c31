"""What a role of PostgreSQL may do too much: rights that no tool needs, and reading what is secret.

PostgreSQL keeps a column secret by not granting SELECT on it. A role that can read one is refused,
with the statements that take the right away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bot.tools import ToolError
from bot.tools.database.config import Database
from bot.tools.database.sql.catalog import quoted

_ROLES = "pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER')"  # it can become any of them
_TOO_MUCH = f"""
    SELECT string_agg(DISTINCT rolname, ', ') FROM pg_catalog.pg_roles r
    WHERE {_ROLES} AND (
        rolsuper OR rolbypassrls OR rolreplication OR rolcreaterole OR rolname IN (
            'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program',
            'pg_signal_backend', 'pg_read_all_data', 'pg_write_all_data', 'pg_read_all_stats',
            'pg_monitor'))"""
_RECORD = f"""
    SELECT 1 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
    WHERE n.nspname = 'countersign' AND c.relname = 'audit' AND EXISTS (
        SELECT FROM pg_catalog.pg_roles r WHERE {_ROLES}
            AND pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE'))"""
_OURS = "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"
_COLUMNS = f"""
    SELECT c.oid::int8, a.attnum::int, n.nspname::text, c.relname::text, a.attname::text,
        c.relkind::text, coalesce(c.reloptions::text ~ 'security_invoker=(true|on|yes|1)', false)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {_OURS} ORDER BY 3, 4, 2"""
# Which column (0: anything) of one is read by which column (0: the whole) of another: tables that
# inherit, generated columns, foreign keys, views, and views that use a whole row.
_FLOWS = """
    SELECT i.inhparent::int8, a.attnum::int, i.inhrelid::int8, b.attnum::int
        FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.inhparent
        JOIN pg_catalog.pg_attribute b ON b.attrelid = i.inhrelid AND b.attname = a.attname
        WHERE a.attnum > 0
    UNION ALL SELECT d.refobjid::int8, d.refobjsubid, a.attrelid::int8, a.attnum
        FROM pg_catalog.pg_attribute a
        LEFT JOIN pg_catalog.pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
        JOIN pg_catalog.pg_depend d ON d.refobjid = a.attrelid AND d.refobjsubid > 0 AND (
            d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = a.attrelid
                AND d.objsubid = a.attnum
            OR d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = f.oid)
        WHERE a.attgenerated <> '' AND d.refobjsubid <> a.attnum
    UNION ALL SELECT confrelid::int8, k.other::int, conrelid::int8, k.own::int
        FROM pg_catalog.pg_constraint
        CROSS JOIN ROWS FROM (pg_catalog.unnest(conkey), pg_catalog.unnest(confkey))
            AS k(own, other) WHERE contype = 'f'
    UNION ALL SELECT d.refobjid::int8, d.refobjsubid, r.ev_class::int8, 0
        FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_depend d
        ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
            AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid <> r.ev_class
        WHERE r.rulename = '_RETURN' AND (
            d.refobjsubid > 0 OR r.ev_action::text LIKE '%:varattno 0 %')"""
_READABLE = f"""
    SELECT t.table_oid, t.number FROM unnest(%s::int8[], %s::int[]) AS t(table_oid, number)
    JOIN pg_catalog.pg_class c ON c.oid = t.table_oid::oid
    WHERE EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE {_ROLES} AND
            pg_catalog.has_schema_privilege(r.oid, c.relnamespace, 'USAGE'))
        AND EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE {_ROLES} AND
            pg_catalog.has_column_privilege(r.oid, c.oid, t.number::int2, 'SELECT'))"""
_GRANTED = f"""
    SELECT DISTINCT g.oid::int8, coalesce(r.rolname::text, '') FROM (
        SELECT c.oid, acl.grantee, acl.privilege_type FROM pg_catalog.pg_class c,
            pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) acl
        UNION SELECT a.attrelid, acl.grantee, acl.privilege_type FROM pg_catalog.pg_attribute a,
            pg_catalog.aclexplode(a.attacl) acl) g
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
    WHERE g.oid = ANY(%s::oid[]) AND g.privilege_type = 'SELECT'
        AND (g.grantee = 0 OR {_ROLES}) ORDER BY 2"""
Place = tuple[int, int]  # a table's OID and a column's number


class RightsError(ToolError):
    """The role may do too much; `remedy` has the SQL that takes it away, a statement a line."""

    def __init__(self, message: str, remedy: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass
class _Relation:
    name: str
    full: str  # quoted, with its schema
    invoker: bool  # a view that reads with the rights of who asks
    columns: dict[int, str] = field(default_factory=dict)


def refuse_rights(raw: psycopg.Connection[Any], database: Database) -> None:
    """Raise RightsError when the role may do too much."""
    found = raw.execute(_TOO_MUCH).fetchone()
    if found and found[0]:
        raise RightsError(
            f"the role may do too much ({found[0]}): the database tools need one that is no "
            "superuser, reads no server files, runs no programs and goes past no row security"
        )
    if raw.execute(_RECORD).fetchone():
        raise RightsError(
            "the role can reach Countersign's own record, which is kept there: no tool may",
            ("REVOKE ALL ON SCHEMA countersign FROM PUBLIC, CURRENT_ROLE",),
        )
    relations = _relations(raw)
    secret = _secret(raw, relations, database)
    seen = _readable(raw, relations, secret, database)
    if not seen:
        return
    names = sorted({_name(relations[oid], number) for oid, number in seen})
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    raise RightsError(
        f"the role can read what is secret ({', '.join(names[:8])}{more}); nothing is read or "
        "changed there until an operator takes that right away (countersign doctor tells how)",
        tuple(_remedy(raw, relations, secret, {oid for oid, _ in seen})),
    )


def _name(relation: _Relation, number: int) -> str:
    return f"{relation.name}.{relation.columns[number]}"


def _relations(raw: psycopg.Connection[Any]) -> dict[int, _Relation]:
    relations: dict[int, _Relation] = {}
    for oid, number, schema, name, column, _, invoker in raw.execute(_COLUMNS).fetchall():
        full = f"{quoted(schema)}.{quoted(name)}"
        relations.setdefault(oid, _Relation(name, full, invoker)).columns[number] = column
    return relations


def _secret(
    raw: psycopg.Connection[Any], relations: dict[int, _Relation], database: Database
) -> set[Place]:
    """The columns that are secret, and all those of views that read one."""
    secret = {
        (oid, number)
        for oid, each in relations.items()
        for number, column in each.columns.items()
        if database.is_secret(each.name, column)
    }
    flows: list[tuple[int, int, int, int]] = raw.execute(_FLOWS.encode()).fetchall()
    known = -1
    while known != len(secret):
        known = len(secret)
        holders = {oid for oid, _ in secret}
        for from_oid, number, oid, to in flows:
            reads = (from_oid, number) in secret or (number == 0 and from_oid in holders)
            if reads and oid in relations:
                secret |= {(oid, each) for each in ([to] if to else relations[oid].columns)}
    return secret


def _readable(
    raw: psycopg.Connection[Any],
    relations: dict[int, _Relation],
    secret: Iterable[Place],
    database: Database,
) -> list[Place]:
    """Those that the role can read, unless the operator has said that they tell nothing."""
    asked = [
        (oid, number)
        for oid, number in secret
        if not relations[oid].invoker
        and not database.is_open(relations[oid].name, relations[oid].columns[number])
    ]
    values = ([oid for oid, _ in asked], [number for _, number in asked])
    return raw.execute(_READABLE, values).fetchall()


def _remedy(
    raw: psycopg.Connection[Any],
    relations: dict[int, _Relation],
    secret: set[Place],
    tables: set[int],
) -> Iterable[str]:
    """The statements: a right on a whole table is replaced by one on its other columns."""
    for oid, grantee in raw.execute(_GRANTED, (sorted(tables),)).fetchall():
        table, who = relations[oid], quoted(grantee) if grantee else "PUBLIC"
        yield f"REVOKE SELECT ON {table.full} FROM {who};"
        left = [quoted(name) for at, name in table.columns.items() if (oid, at) not in secret]
        if left:
            yield f"GRANT SELECT ({', '.join(left)}) ON {table.full} TO {who};"
