"""Checks that a PostgreSQL role has no rights that tools do not need, and cannot read secrets.

PostgreSQL keeps a column secret if SELECT on it is not granted. A role that can read one is
refused, with the statements that revoke the right. Also checks which functions a statement reaches.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg

from bot.tools import ToolError
from bot.tools.database import statement
from bot.tools.database.catalog import quote_name
from bot.tools.database.config import Database

# Which functions a statement can reach in PostgreSQL; none may do more than compute.

_FIRST_USER_OID = 16384  # PostgreSQL's own objects have lower numbers
_MAX_NAME_BYTES = 63  # the server ignores the rest of a longer name
# trigger functions and those with internal arguments cannot be called by a statement
_SELECT_FUNCTIONS_BY_NAME = """
    SELECT p.oid::int8, p.proname::text FROM pg_catalog.pg_proc p
    WHERE p.proname = ANY(%s) AND p.prorettype NOT IN (2279, 3838)
        AND NOT 2281 = ANY(p.proargtypes)
        AND (%s OR pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))"""
_SELECT_RELATIONS_BY_NAME = """
    SELECT c.oid::int8, c.relname::text, n.nspname IN ('pg_catalog', 'pg_toast'), c.relkind = 'f'
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = ANY(%s) AND c.relkind IN ('r', 'v', 'm', 'p', 'f', 'i')"""
_SELECT_FUNCTIONS = """
    SELECT p.oid::int8, p.proname::text, p.prokind::text, p.provolatile = 'v', l.lanname::text,
        l.lanpltrusted, p.prosrc, pg_catalog.to_jsonb(p) ->> 'prosqlbody', p.proargdefaults::text,
        EXISTS (SELECT FROM pg_catalog.pg_depend d
            JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
            JOIN pg_catalog.pg_available_extension_versions v
                ON v.name = e.extname AND v.version = e.extversion AND v.trusted
            WHERE l.lanname = 'c' AND d.classid = 'pg_catalog.pg_proc'::regclass
                AND d.objid = p.oid AND d.deptype = 'e'),
        ARRAY(SELECT b.oid::int8 FROM pg_catalog.pg_proc b
            WHERE l.lanname = 'internal' AND p.oid >= 16384 AND b.oid < 16384
                AND b.prosrc = p.prosrc)
        || ARRAY(SELECT pg_catalog.unnest(ARRAY[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn,
            aggdeserialfn, aggmtransfn, aggminvtransfn, aggmfinalfn]::int8[])
            FROM pg_catalog.pg_aggregate a WHERE a.aggfnoid = p.oid)
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
    WHERE p.oid = ANY(%s::oid[])"""
# columns: description, parse tree, OID of a function it calls, OID of a relation it leads to
_SELECT_READ_REFERENCES = """
    SELECT 'the view ' || c.relname, r.ev_action::text, 0::int8, 0::int8
        FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class
        WHERE c.oid = ANY(%(oids)s::oid[]) AND r.rulename = '_RETURN'
    UNION ALL SELECT 'the row security of ' || polrelid::regclass,
            pg_catalog.concat_ws(' ', polqual::text, polwithcheck::text), 0, 0
        FROM pg_catalog.pg_policy WHERE polrelid = ANY(%(oids)s::oid[])
    UNION ALL SELECT 'a computed column of ' || adrelid::regclass, adbin::text, 0, 0
        FROM pg_catalog.pg_attrdef JOIN pg_catalog.pg_attribute a
            ON attrelid = adrelid AND attnum = adnum AND a.attgenerated <> ''
        WHERE adrelid = ANY(%(oids)s::oid[])
    UNION ALL SELECT '', '', 0, inhrelid::int8
        FROM pg_catalog.pg_inherits WHERE inhparent = ANY(%(oids)s::oid[])"""
_UNION_WRITE_REFERENCES = """
    UNION ALL SELECT 'the rule ' || rulename || ' of ' || ev_class::regclass,
            pg_catalog.concat_ws(' ', ev_action::text, ev_qual::text), 0, 0
        FROM pg_catalog.pg_rewrite WHERE ev_class = ANY(%(oids)s::oid[]) AND rulename <> '_RETURN'
    UNION ALL SELECT 'a default of ' || adrelid::regclass, adbin::text, 0, 0
        FROM pg_catalog.pg_attrdef WHERE adrelid = ANY(%(oids)s::oid[])
    UNION ALL SELECT 'the check ' || conname, conbin::text, 0, 0
        FROM pg_catalog.pg_constraint WHERE contype = 'c' AND conrelid = ANY(%(oids)s::oid[])
    UNION ALL SELECT 'the trigger ' || tgname || ' of ' || tgrelid::regclass, tgqual::text,
            tgfoid::int8, 0
        FROM pg_catalog.pg_trigger
        WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgrelid = ANY(%(oids)s::oid[])
    UNION ALL SELECT 'the index ' || indexrelid::regclass,
            pg_catalog.concat_ws(' ', indexprs::text, indpred::text), 0, 0
        FROM pg_catalog.pg_index WHERE indrelid = ANY(%(oids)s::oid[])
    UNION ALL SELECT 'the parts of ' || partrelid::regclass, partexprs::text, 0, 0
        FROM pg_catalog.pg_partitioned_table WHERE partrelid = ANY(%(oids)s::oid[])
    UNION ALL SELECT '', '', 0, conrelid::int8
        FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid = ANY(%(oids)s::oid[])
            AND (confdeltype NOT IN ('a', 'r') OR confupdtype NOT IN ('a', 'r'))"""
# what is called without being named in any text, such as a cast or an operator
_SELECT_UNSPELLED_REFERENCES = """
    SELECT 'the operator ' || oprname || ' of this database', '', oprcode::int8, 0::int8
        FROM pg_catalog.pg_operator WHERE oid >= 16384
    UNION ALL SELECT 'a cast of this database', '', castfunc::int8, 0
        FROM pg_catalog.pg_cast WHERE oid >= 16384 AND castfunc <> 0
    UNION ALL SELECT 'the check ' || conname, conbin::text, 0, 0
        FROM pg_catalog.pg_constraint WHERE contype = 'c' AND contypid <> 0 AND oid >= 16384
    UNION ALL SELECT 'an operator class of this database', '', amproc::int8, 0
        FROM pg_catalog.pg_amproc WHERE oid >= 16384
    UNION ALL SELECT 'a range of this database', '', pg_catalog.unnest(
            ARRAY[rngsubdiff, rngcanonical]::int8[]), 0
        FROM pg_catalog.pg_range WHERE rngtypid >= 16384"""
_CALLED_OID_PATTERN = re.compile(
    r":(?:funcid|opfuncid|aggfnoid|winfnoid|\w+RangeFunc|tsmhandler) ([1-9]\d*)"
)
_RELATION_OID_PATTERN = re.compile(r":relid ([1-9]\d*)")
_IDENTIFIER_PATTERN = re.compile(r'[^\W\d][\w$]*|"(?:[^"]|"")+"')
# by language: what may build a statement or a name at run time
_DYNAMIC_SQL_PATTERNS = {
    "sql": re.compile(r"u&[\"']", re.IGNORECASE),
    "plpgsql": re.compile(r"\bexecute\b|u&[\"']", re.IGNORECASE),
    "": re.compile(r"spi|exec|prepare|eval|u&[\"']", re.IGNORECASE),
}
# COPY writes files of the server and runs programs, which READ ONLY and a rollback do not undo
_COPY_PATTERN = re.compile(
    r"\bcopy\s*(?:\(|\s[\w$.\"]+\s*(?:\([^)]*\)\s*)?(?:from|to)\b)", re.IGNORECASE
)
RawConnection = psycopg.Connection[Any]


class _Function(NamedTuple):
    oid: int
    name: str
    kind: str  # "a": an aggregate
    volatile: bool
    language: str
    trusted: bool
    source: str
    body: str | None  # its parse tree, where the server keeps one
    defaults: str | None  # of its arguments, as a parse tree
    trusted_extension: bool
    others: list[int]  # OIDs of the functions that it stands for, or is made of


class StatementReachChecker:
    """Follows which functions and tables one statement can reach."""

    def __init__(self, raw: RawConnection, *, writes: bool) -> None:
        self._raw, self._writes = raw, writes
        # still to be checked: (OID, whether nextval is allowed there) → what calls it
        self._functions: dict[tuple[int, bool], str] = {}
        self._relations: set[int] = set()
        self._seen_functions: set[tuple[int, bool]] = set()
        self._seen_relations: set[int] = set()

    def check_statement(self, text: str) -> None:
        """Raise ToolError if a statement could reach a function that does more than compute.

        The error is a StatementError if the text itself names such a function, or a table of the
        server's own.
        """
        tokens = statement.tokenize(text)
        words = _fold_names(each.text for each in tokens if each.kind in ("word", "quoted"))
        for oid, name in self._raw.execute(_SELECT_FUNCTIONS_BY_NAME, (words, False)).fetchall():
            self._functions[oid, False] = "" if oid < _FIRST_USER_OID else f"the function {name}"
        self._queue_named_relations(words, "")
        self._queue_references(self._raw.execute(_SELECT_UNSPELLED_REFERENCES).fetchall())
        while self._functions or self._relations:
            self._check_queued_functions()
            self._follow_queued_relations()

    def _queue_named_relations(self, words: list[str], what: str) -> None:
        for oid, name, server, foreign in self._raw.execute(
            _SELECT_RELATIONS_BY_NAME, (words,)
        ).fetchall():
            if server and not what:
                raise statement.StatementError(
                    f"{name} is the server's own; the tool tables shows more"
                )
            if foreign and what and self._writes:  # its server may not know of rollbacks
                raise ToolError(
                    f"it cannot be tried out, and so not be made: {what} names the foreign table "
                    f"{name}"
                )
            self._relations.add(oid)

    def _queue_references(self, rows: Iterable[tuple[str, str | None, int, int]]) -> None:
        for what, tree, function, relation in rows:
            for oid in filter(None, [function, *map(int, _CALLED_OID_PATTERN.findall(tree or ""))]):
                self._functions.setdefault((oid, _may_call_nextval(what)), what)
            found = [relation, *map(int, _RELATION_OID_PATTERN.findall(tree or ""))]
            self._relations |= {oid for oid in found if oid}

    def _follow_queued_relations(self) -> None:
        new = {oid for oid in self._relations if oid >= _FIRST_USER_OID} - self._seen_relations
        self._relations = set()
        self._seen_relations |= new
        if new:
            text = _SELECT_READ_REFERENCES + (_UNION_WRITE_REFERENCES if self._writes else "")
            self._queue_references(self._raw.execute(text.encode(), {"oids": list(new)}).fetchall())

    def _check_queued_functions(self) -> None:
        new = {key: at for key, at in self._functions.items() if key not in self._seen_functions}
        self._functions = {}
        self._seen_functions |= set(new)
        if not new:
            return
        oids = list({oid for oid, _ in new})
        rows = self._raw.execute(_SELECT_FUNCTIONS.encode(), (oids,)).fetchall()
        function_by_oid = {function.oid: function for function in map(_Function._make, rows)}
        for (oid, _), what in new.items():
            if oid in function_by_oid:
                self._check_function(function_by_oid[oid], what)

    def _check_function(self, function: _Function, what: str) -> None:
        """Check a function; queue what it reaches. `what` calls it: "" is the statement itself."""
        if function.oid < _FIRST_USER_OID:
            is_nextval_allowed = (
                function.name == "nextval"
                and what
                and (not self._writes or _may_call_nextval(what))
            )
            if not (
                is_nextval_allowed
                or statement.is_allowed_postgres_function(
                    function.name, volatile=function.volatile, owners=bool(what)
                )
            ):
                raise self._build_refusal(what, function.name, "which no rollback undoes")
            return
        if why := _explain_unknown_reach(function):
            raise self._build_refusal(what, function.name, why)
        self._queue_references([(what, f"{function.body or ''} {function.defaults or ''}", 0, 0)])
        self._queue_references([(what, "", oid, 0) for oid in function.others])
        if function.body is None and function.language not in ("c", "internal"):
            # every function and table that a word of its source could name
            words = _fold_names(_IDENTIFIER_PATTERN.findall(function.source))
            named_functions = self._raw.execute(_SELECT_FUNCTIONS_BY_NAME, (words, True)).fetchall()
            self._queue_references([(what, "", oid, 0) for oid, _ in named_functions])
            self._queue_named_relations(words, what)

    def _build_refusal(self, what: str, name: str, why: str) -> ToolError:
        if not what:
            return statement.StatementError(f"the function {name} is not allowed")
        ahead = "it cannot be tried out, and so not be made" if self._writes else "it is not run"
        if what == f"the function {name}":
            return ToolError(f"{ahead}: it names {what}, {why}")
        return ToolError(f"{ahead}: {what} calls {name}, {why}")


def _explain_unknown_reach(function: _Function) -> str:
    """Return why it is unknown what a user-defined function reaches; "" if it can be followed."""
    if function.kind == "a":
        return ""  # judged by the functions that it is made of
    if function.language == "c":
        is_harmless = (
            function.trusted_extension or not function.volatile
        ) and not statement.is_unsafe_postgres_function(function.name)
        return "" if is_harmless else "which may reach out of the database"
    if function.language == "internal":
        return "" if function.others else "which may reach out of the database"
    if function.language != "sql" and not function.trusted:
        return "which may reach out of the database"
    if function.body is None and _COPY_PATTERN.search(function.source):
        return "which may reach out of the database"
    if function.body is None and _DYNAMIC_SQL_PATTERNS.get(
        function.language, _DYNAMIC_SQL_PATTERNS[""]
    ).search(function.source):
        return "which builds its statements as it runs"
    return ""


def _may_call_nextval(what: str) -> bool:
    """Whether this caller may use nextval: column defaults and triggers may, to number new rows."""
    return what.startswith(("a default", "the trigger"))


def _fold_names(words: Iterable[str]) -> list[str]:
    """Return the names as the server compares them, sorted, each once."""
    names = {each[1:-1].replace('""', '"') if each[0] == '"' else each.lower() for each in words}
    return sorted({each.encode()[:_MAX_NAME_BYTES].decode(errors="ignore") for each in names})


_SESSION_ROLE_CONDITION = "pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER')"
_SELECT_EXCESSIVE_ROLES = f"""
    SELECT string_agg(DISTINCT rolname, ', ') FROM pg_catalog.pg_roles r
    WHERE {_SESSION_ROLE_CONDITION} AND (
        rolsuper OR rolbypassrls OR rolreplication OR rolcreaterole OR rolname IN (
            'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program',
            'pg_signal_backend', 'pg_read_all_data', 'pg_write_all_data', 'pg_read_all_stats',
            'pg_monitor'))"""
_SELECT_CAN_READ_RECORD = f"""
    SELECT 1 FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
    WHERE n.nspname = 'countersign' AND c.relname = 'audit' AND EXISTS (
        SELECT FROM pg_catalog.pg_roles r WHERE {_SESSION_ROLE_CONDITION}
            AND pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE'))"""
_USER_SCHEMA_CONDITION = "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"
_SELECT_COLUMNS = f"""
    SELECT c.oid::int8, a.attnum::int, n.nspname::text, c.relname::text, a.attname::text,
        coalesce(c.reloptions::text ~ 'security_invoker=(true|on|yes|1)', false)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND {_USER_SCHEMA_CONDITION} ORDER BY 3, 4, 2"""
# Which column (0: any) of one relation is read by which column (0: all) of another: tables that
# inherit (both ways: who reads the parent reads the child's rows), generated columns, foreign keys,
# views, and views that use a whole row.
_SELECT_COLUMN_FLOWS = """
    SELECT a.attrelid::int8, a.attnum::int, b.attrelid::int8, b.attnum::int
        FROM pg_catalog.pg_inherits
        JOIN pg_catalog.pg_attribute a ON a.attrelid IN (inhparent, inhrelid)
        JOIN pg_catalog.pg_attribute b ON b.attrelid IN (inhparent, inhrelid)
            AND b.attrelid <> a.attrelid AND b.attname = a.attname
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
_SELECT_READABLE_COLUMNS = f"""
    SELECT t.table_oid, t.number FROM unnest(%s::int8[], %s::int[]) AS t(table_oid, number)
    JOIN pg_catalog.pg_class c ON c.oid = t.table_oid::oid
    WHERE EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE {_SESSION_ROLE_CONDITION} AND
            pg_catalog.has_schema_privilege(r.oid, c.relnamespace, 'USAGE'))
        AND EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE {_SESSION_ROLE_CONDITION} AND
            pg_catalog.has_column_privilege(r.oid, c.oid, t.number::int2, 'SELECT'))"""
_SELECT_READ_GRANTS = f"""
    SELECT DISTINCT g.oid::int8, coalesce(r.rolname::text, '') FROM (
        SELECT c.oid, acl.grantee, acl.privilege_type FROM pg_catalog.pg_class c,
            pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) acl
        UNION SELECT a.attrelid, acl.grantee, acl.privilege_type FROM pg_catalog.pg_attribute a,
            pg_catalog.aclexplode(a.attacl) acl) g
    LEFT JOIN pg_catalog.pg_roles r ON r.oid = g.grantee
    WHERE g.oid = ANY(%s::oid[]) AND g.privilege_type = 'SELECT'
        AND (g.grantee = 0 OR {_SESSION_ROLE_CONDITION}) ORDER BY 2"""
ColumnNumber = tuple[int, int]  # a table's OID and a column's number


class ExcessiveRoleRightsError(ToolError):
    """Raised for a role with too many rights; `remedy` has SQL that revokes them, one a line."""

    def __init__(self, message: str, remedy: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass
class _Relation:
    name: str
    full: str  # quoted, with its schema
    invoker: bool  # security_invoker: a view that reads with the caller's rights
    columns: dict[int, str] = field(default_factory=dict)


def check_role_rights(raw: RawConnection, database: Database) -> None:
    """Raise ExcessiveRoleRightsError if the role has too many rights or can read secret columns."""
    excessive = raw.execute(_SELECT_EXCESSIVE_ROLES).fetchone()
    if excessive and excessive[0]:
        raise ExcessiveRoleRightsError(
            f"the role may do too much ({excessive[0]}): the database tools need one that is no "
            "superuser, reads no server files, runs no programs and does not bypass row security"
        )
    if raw.execute(_SELECT_CAN_READ_RECORD).fetchone():
        raise ExcessiveRoleRightsError(
            "the role can reach Countersign's own record, which is kept there: no tool may",
            ("REVOKE ALL ON SCHEMA countersign FROM PUBLIC, CURRENT_ROLE",),
        )
    relations = _load_relations(raw)
    secret = _list_secret_columns(raw, relations, database)
    readable_columns = _list_readable_secret_columns(raw, relations, secret, database)
    if not readable_columns:
        return
    names = sorted(
        {f"{relations[oid].name}.{relations[oid].columns[at]}" for oid, at in readable_columns}
    )
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    raise ExcessiveRoleRightsError(
        f"the role can read what is secret ({', '.join(names[:8])}{more}); nothing is read or "
        "changed there until an operator takes that right away (countersign doctor shows how)",
        tuple(
            _build_revoke_statements(raw, relations, secret, {oid for oid, _ in readable_columns})
        ),
    )


def _load_relations(raw: RawConnection) -> dict[int, _Relation]:
    relations: dict[int, _Relation] = {}
    for oid, number, schema, name, column, invoker in raw.execute(_SELECT_COLUMNS).fetchall():
        full = f"{quote_name(schema)}.{quote_name(name)}"
        relations.setdefault(oid, _Relation(name, full, invoker)).columns[number] = column
    return relations


def _list_secret_columns(
    raw: RawConnection, relations: dict[int, _Relation], database: Database
) -> set[ColumnNumber]:
    """Return the secret columns and all that take values from them; of a view, all its columns."""
    secret = {
        (oid, number)
        for oid, each in relations.items()
        for number, column in each.columns.items()
        if database.is_secret(each.name, column)
    }
    flows: list[tuple[int, int, int, int]] = raw.execute(_SELECT_COLUMN_FLOWS.encode()).fetchall()
    known = -1
    while known != len(secret):
        known = len(secret)
        holders = {oid for oid, _ in secret}
        for from_oid, number, oid, to in flows:
            reads = (from_oid, number) in secret or (number == 0 and from_oid in holders)
            if reads and oid in relations:
                secret |= {(oid, each) for each in ([to] if to else relations[oid].columns)}
    return secret


def _list_readable_secret_columns(
    raw: RawConnection,
    relations: dict[int, _Relation],
    secret: Iterable[ColumnNumber],
    database: Database,
) -> list[ColumnNumber]:
    """Return the secret columns that the role can read, except those declared not secret."""
    candidates = [
        (oid, number)
        for oid, number in secret
        if not relations[oid].invoker
        and not database.is_declared_not_secret(relations[oid].name, relations[oid].columns[number])
    ]
    values = ([oid for oid, _ in candidates], [number for _, number in candidates])
    return raw.execute(_SELECT_READABLE_COLUMNS, values).fetchall()


def _build_revoke_statements(
    raw: RawConnection,
    relations: dict[int, _Relation],
    secret: set[ColumnNumber],
    tables: set[int],
) -> Iterable[str]:
    """Yield SQL that replaces a SELECT right on a whole table by one on its other columns."""
    for oid, grantee in raw.execute(_SELECT_READ_GRANTS, (sorted(tables),)).fetchall():
        table, who = relations[oid], quote_name(grantee) if grantee else "PUBLIC"
        yield f"REVOKE SELECT ON {table.full} FROM {who};"
        left = [quote_name(name) for at, name in table.columns.items() if (oid, at) not in secret]
        if left:
            yield f"GRANT SELECT ({', '.join(left)}) ON {table.full} TO {who};"
