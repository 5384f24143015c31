"""What functions a statement can reach in PostgreSQL, and that none of them acts beyond it.

A transaction that is rolled back, or only reads, does not hold every function: one ends another
session, takes a lock, asks another server. Whoever writes a view, a default or an operator can have
them call one. So before a statement is given to the server, the server is asked for all functions
of the names that are spelled in it, wherever they stand, and for all that the server itself would
call: by views, row security, defaults, checks, triggers, rules, indexes, operators, casts, domains.
Those are found by number in the parse trees that the server keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg

from bot.tools import ToolError
from bot.tools.database.sql.functions import acts_beyond, computes
from bot.tools.database.sql.tokens import StatementError, lex

_MADE = 16384  # what has a number from here on was made by somebody, not by PostgreSQL
_NAME_LENGTH = 63  # bytes of a name that the server looks at
# trigger functions and those with internal arguments cannot be called by a statement
_NAMED_FUNCTIONS = """
    SELECT p.oid::int8, p.proname::text FROM pg_catalog.pg_proc p
    WHERE p.proname = ANY(%s) AND p.prorettype NOT IN (2279, 3838)
        AND NOT 2281 = ANY(p.proargtypes)
        AND (%s OR pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))"""
_NAMED_RELATIONS = """
    SELECT c.oid::int8, c.relname::text, n.nspname IN ('pg_catalog', 'pg_toast')
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = ANY(%s) AND c.relkind IN ('r', 'v', 'm', 'p', 'f', 'i')"""
_FUNCTIONS = """
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
# of each: what it is, its parse tree, a function that it calls, a relation that it leads to
_READ = """
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
_WRITTEN = """
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
# what is called without being spelled in any text
_EVERYWHERE = """
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
_CALLED = re.compile(r":(?:funcid|opfuncid|aggfnoid|winfnoid|\w+RangeFunc|tsmhandler) ([1-9]\d*)")
_RELATED = re.compile(r":relid ([1-9]\d*)")
_WORD = re.compile(r'[^\W\d][\w$]*|"(?:[^"]|"")+"')
# by language, what makes up a statement or a name
_DYNAMIC = {
    "sql": re.compile(r"u&[\"']", re.IGNORECASE),
    "plpgsql": re.compile(r"\bexecute\b|u&[\"']", re.IGNORECASE),
    "": re.compile(r"spi|exec|prepare|eval|u&[\"']", re.IGNORECASE),
}
Raw = psycopg.Connection[Any]


class _Function(NamedTuple):
    oid: int
    name: str
    kind: str  # a: an aggregate
    volatile: bool
    language: str
    trusted: bool
    source: str
    body: str | None  # its parse tree, where the server keeps one
    defaults: str | None  # of its arguments, as a parse tree
    trusted_extension: bool
    others: list[int]  # those that it stands for, or is made of


class StatementReach:
    """Follows what one statement can reach."""

    def __init__(self, raw: Raw, *, writes: bool) -> None:
        """`writes`: the transaction may change rows."""
        self._raw, self._writes = raw, writes
        # to be looked at, with what calls them; where numbers are taken, other things are allowed
        self._functions: dict[tuple[int, bool], str] = {}
        self._relations: set[int] = set()
        self._seen_functions: set[tuple[int, bool]] = set()
        self._seen_relations: set[int] = set()

    def refuse(self, text: str) -> None:
        """Raise ToolError where the statement `text` could reach a function that does more than
        compute, or StatementError where it names one, or a table of the server's own.
        """
        words = _spelled(text)
        for oid, name in self._raw.execute(_NAMED_FUNCTIONS, (words, False)).fetchall():
            self._functions[oid, False] = "" if oid < _MADE else f"the function {name}"
        self._name_relations(words, "")
        self._take(self._raw.execute(_EVERYWHERE).fetchall())
        while self._functions or self._relations:
            self._look_at_functions()
            self._look_at_relations()

    def _name_relations(self, words: list[str], what: str) -> None:
        for oid, name, server in self._raw.execute(_NAMED_RELATIONS, (words,)).fetchall():
            if server and not what:
                raise StatementError(f"{name} is the server's own; the tool tables tells more")
            self._relations.add(oid)

    def _take(self, rows: Iterable[tuple[str, str | None, int, int]]) -> None:
        for what, tree, function, relation in rows:
            for oid in filter(None, [function, *map(int, _CALLED.findall(tree or ""))]):
                self._functions.setdefault((oid, _takes_numbers(what)), what)
            found = [relation, *map(int, _RELATED.findall(tree or ""))]
            self._relations |= {oid for oid in found if oid}

    def _look_at_relations(self) -> None:
        new = {oid for oid in self._relations if oid >= _MADE} - self._seen_relations
        self._relations = set()
        self._seen_relations |= new
        if new:
            text = _READ + (_WRITTEN if self._writes else "")
            self._take(self._raw.execute(text.encode(), {"oids": list(new)}).fetchall())

    def _look_at_functions(self) -> None:
        new = {key: at for key, at in self._functions.items() if key not in self._seen_functions}
        self._functions = {}
        self._seen_functions |= set(new)
        if not new:
            return
        oids = list({oid for oid, _ in new})
        known = {found.oid: found for found in map(_Function._make, self._ask(_FUNCTIONS, oids))}
        for (oid, _), what in new.items():
            if oid in known:
                self._look_at(known[oid], what)

    def _ask(self, text: str, oids: list[int]) -> list[tuple[Any, ...]]:
        return self._raw.execute(text.encode(), (oids,)).fetchall()

    def _look_at(self, found: _Function, what: str) -> None:
        """Look at a function that `what` calls ("": the statement itself)."""
        if found.oid < _MADE:
            given = found.name == "nextval" and what and (not self._writes or _takes_numbers(what))
            if not (given or computes(found.name, volatile=found.volatile, owners=bool(what))):
                raise self._refusal(what, found.name, "which no rollback undoes")
            return
        if why := _closed(found):
            raise self._refusal(what, found.name, why)
        self._take([(what, f"{found.body or ''} {found.defaults or ''}", 0, 0)])
        self._take([(what, "", oid, 0) for oid in found.others])
        if found.body is None and found.language not in ("c", "internal"):
            # all functions and tables that its text could mean by its words
            words = _folded(_WORD.findall(found.source))
            named = self._raw.execute(_NAMED_FUNCTIONS, (words, True)).fetchall()
            self._take([(what, "", oid, 0) for oid, _ in named])
            self._name_relations(words, what)

    def _refusal(self, what: str, name: str, why: str) -> ToolError:
        if not what:
            return StatementError(f"the function {name} is not allowed")
        ahead = "it cannot be tried out, and so not be made" if self._writes else "it is not run"
        if what == f"the function {name}":
            return ToolError(f"{ahead}: it names {what}, {why}")
        return ToolError(f"{ahead}: {what} calls {name}, {why}")


def _closed(found: _Function) -> str:
    """Why nobody can tell what a function of somebody's reaches; "" where one can."""
    if found.kind == "a":
        return ""  # the functions that it is made of tell
    if found.language == "c":
        may = (found.trusted_extension or not found.volatile) and not acts_beyond(found.name)
        return "" if may else "which may reach out of the database"
    if found.language == "internal":
        return "" if found.others else "which may reach out of the database"
    if found.language != "sql" and not found.trusted:
        return "which may reach out of the database"
    if found.body is None and _DYNAMIC.get(found.language, _DYNAMIC[""]).search(found.source):
        return "which makes up its statements as it runs"
    return ""


def _takes_numbers(what: str) -> bool:
    """Whether numbers are taken there for new rows, which is what a sequence is for."""
    return what.startswith(("a default", "the trigger"))


def _spelled(text: str) -> list[str]:
    """All names that are spelled in a statement."""
    return _folded(each.text for each in lex(text) if each.kind in ("word", "quoted"))


def _folded(words: Iterable[str]) -> list[str]:
    """The names as the server compares them."""
    names = {each[1:-1].replace('""', '"') if each[0] == '"' else each.lower() for each in words}
    return sorted({each.encode()[:_NAME_LENGTH].decode(errors="ignore") for each in names})
