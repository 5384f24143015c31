"""What a trial of a change would leave behind although it is rolled back.

A view, a check, row security, a trigger may call a function that reaches out of the transaction: to
another server, a file, a setting of the session. Such a change is not tried out. Numbers taken from
a sequence are the one thing that a trial does leave behind.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from sqlglot import exp

from bot.tools import ToolError
from bot.tools.database.sql.functions import acts_beyond
from bot.tools.database.sql.statement import Statement

_CALL = re.compile(r'([A-Za-z_]\w*|"(?:[^"]|"")+")\s*\(')
# what a rollback does undo, or what only tells
_WITHIN = {
    "pg_notify",
    "pg_trigger_depth",
    "pg_advisory_xact_lock",
    "pg_backend_pid",
    "pg_current_xact_id",
}
# of the tables read or written what is computed, and of all tables what their triggers run
_TEXTS = """
    WITH RECURSIVE used(oid) AS (
        SELECT c.oid FROM pg_catalog.pg_class c
            WHERE c.relkind IN ('r', 'p', 'v', 'm') AND lower(c.relname) = ANY(%(tables)s)
        UNION SELECT d.refobjid FROM used u
            JOIN pg_catalog.pg_rewrite r ON r.ev_class = u.oid
            JOIN pg_catalog.pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
                AND d.refclassid = 'pg_class'::regclass)
    SELECT 'the view ' || c.relname, pg_catalog.pg_get_viewdef(c.oid)
        FROM used JOIN pg_catalog.pg_class c USING (oid) WHERE c.relkind = 'v'
    UNION ALL SELECT 'the row security of ' || polrelid::regclass, pg_catalog.concat_ws(' ',
            pg_catalog.pg_get_expr(polqual, polrelid),
            pg_catalog.pg_get_expr(polwithcheck, polrelid))
        FROM used JOIN pg_catalog.pg_policy ON polrelid = used.oid
    UNION ALL SELECT 'a default of ' || adrelid::regclass, pg_catalog.pg_get_expr(adbin, adrelid)
        FROM used JOIN pg_catalog.pg_attrdef ON adrelid = used.oid
    UNION ALL SELECT 'the check ' || conname, pg_catalog.pg_get_constraintdef(o.oid)
        FROM pg_catalog.pg_constraint o
        WHERE contype = 'c' AND (conrelid IN (SELECT oid FROM used) OR contypid IN (
            SELECT atttypid FROM used JOIN pg_catalog.pg_attribute ON attrelid = used.oid))
    UNION ALL SELECT 'the rule ' || rulename || ' of ' || ev_class::regclass,
            pg_catalog.pg_get_ruledef(r.oid)
        FROM used JOIN pg_catalog.pg_rewrite r ON ev_class = used.oid AND rulename <> '_RETURN'
    UNION ALL SELECT 'the operator ' || oprname || ' of this database', oprcode::regproc || '('
        FROM pg_catalog.pg_operator o WHERE o.oid >= 16384
    UNION ALL SELECT 'a cast of this database', castfunc::regproc || '('
        FROM pg_catalog.pg_cast c WHERE c.oid >= 16384 AND castfunc <> 0"""
_TRIGGERS = """
    SELECT c.relname::text, 'the trigger ' || tgname || ' of ' || tgrelid::regclass,
        pg_catalog.quote_ident(p.proname) || '('
    FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc p ON p.oid = tgfoid
        JOIN pg_catalog.pg_class c ON c.oid = tgrelid
    WHERE NOT tgisinternal AND tgenabled <> 'D'"""
_REFERENCES = """
    SELECT p.relname::text, c.relname::text FROM pg_catalog.pg_constraint f
        JOIN pg_catalog.pg_class p ON p.oid = confrelid
        JOIN pg_catalog.pg_class c ON c.oid = conrelid
    WHERE contype = 'f' AND (confdeltype NOT IN ('a', 'r') OR confupdtype NOT IN ('a', 'r'))"""
_FUNCTIONS = """
    SELECT p.proname::text, p.pronamespace = 'pg_catalog'::regnamespace, lanname::text,
        lanpltrusted, pg_catalog.concat(p.prosrc, pg_catalog.pg_get_function_sqlbody(p.oid)),
        CASE WHEN lanname = 'c' THEN EXISTS (SELECT FROM pg_catalog.pg_depend d
            JOIN pg_catalog.pg_extension e ON e.oid = d.refobjid
            JOIN pg_catalog.pg_available_extension_versions v
                ON v.name = e.extname AND v.version = e.extversion AND v.trusted
            WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e') END
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang
    WHERE proname = ANY(%s)"""
Raw = psycopg.Connection[Any]


def refuse_lasting(raw: Raw, statement: Statement) -> None:
    """Raise ToolError where a trial would do what its rollback does not undo."""
    reached = _reached(raw, {each.name.lower() for each in statement.tree.find_all(exp.Table)})
    values = {"tables": sorted(reached)}
    texts = [*raw.execute(_TEXTS, values).fetchall()]
    texts += [
        (what, text)
        for table, what, text in raw.execute(_TRIGGERS).fetchall()
        if table.lower() in reached
    ]
    for what, text in texts:
        # that numbers are taken for new rows is what a sequence is for
        known = {"nextval"} if what.startswith(("a default", "the trigger")) else set()
        if why := _reaching(raw, called(text or ""), known):
            raise ToolError(f"it cannot be tried out, and so not be made: {what} {why}")


def called(text: str) -> frozenset[str]:
    """The functions that an expression or a function's body could call by name."""
    return frozenset(
        each.lower() if each[0] != '"' else each[1:-1].replace('""', '"')
        for each in _CALL.findall(text)
    )


def _reached(raw: Raw, tables: set[str]) -> set[str]:
    """The tables with those to which foreign keys and triggers lead from them, as far as names
    tell.
    """
    acting = raw.execute(_REFERENCES).fetchall()
    bodies = raw.execute(
        "SELECT DISTINCT c.relname::text, p.prosrc FROM pg_catalog.pg_trigger t "
        "JOIN pg_catalog.pg_proc p ON p.oid = tgfoid JOIN pg_catalog.pg_class c ON c.oid = tgrelid "
        "WHERE NOT tgisinternal AND tgenabled <> 'D'"
    ).fetchall()
    known = -1
    while known != len(tables):
        known = len(tables)
        tables = tables | {child.lower() for parent, child in acting if parent.lower() in tables}
        for table, body in bodies:
            if table.lower() in tables:
                tables = tables | {each.lower() for each in re.findall(r"\w+", body)}
    return tables


def _reaching(raw: Raw, names: frozenset[str], seen: set[str]) -> str:
    """Why one of these functions reaches out of a transaction; "" where none does."""
    new = sorted(names - seen)
    seen |= names
    if not new:
        return ""
    for name, builtin, language, trusted, body, extension in raw.execute(
        _FUNCTIONS, (new,)
    ).fetchall():
        beyond = name == "nextval" or acts_beyond(name)
        if builtin and beyond and name not in _WITHIN:
            return f"calls {name}, which no rollback undoes"
        if builtin or language == "internal":
            continue
        if (language == "c" and not extension) or (
            language != "c" and not trusted and language != "sql"
        ):
            return f"calls {name}, which may reach out of the database"
        if language == "plpgsql" and re.search(r"\bexecute\b", body, re.IGNORECASE):
            return f"calls {name}, which makes up its statements as it runs"
        if why := _reaching(raw, called(body), seen):
            return why
    return ""
