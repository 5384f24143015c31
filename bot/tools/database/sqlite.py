"""SQLite for the database tools: opened read-only by default, with an authorizer for statements."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from bot.tools import Table, ToolError
from bot.tools.database import session
from bot.tools.database.catalog import (
    Catalog,
    Relation,
    mark_secret_columns,
    quote_name,
    reflect_tables,
)
from bot.tools.database.config import Database
from bot.tools.database.row_changes import Change, statement_number_prefix
from bot.tools.database.sqlite_changes import run_changes_tracking_rows
from bot.tools.database.statement import Statement, StatementError, Token

# all functions that may be called: they only compute. Some operators count as functions here.
_ALLOWED_FUNCTION_NAMES = """
-> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling changes char coalesce concat
concat_ws cos cosh count cume_dist current_date current_time current_timestamp date datetime
degrees dense_rank exp first_value floor format glob group_concat hex ifnull if iif instr json
json_array json_array_insert json_array_length json_error_position json_extract json_group_array
json_group_object json_insert json_object json_patch json_pretty json_quote json_remove
json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract
jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove
jsonb_replace jsonb_set
julianday lag last_insert_rowid last_value lead length like likelihood likely ln log log10 log2
lower ltrim max median min mod nth_value ntile nullif octet_length percent_rank percentile
percentile_cont percentile_disc pi pow power printf quote radians random randomblob rank
replace round row_number rtrim sign sin sinh soundex sqlite_version sqrt strftime string_agg
substr substring sum tan tanh time timediff total total_changes trim trunc typeof unhex unicode
unistr unistr_quote unixepoch unlikely upper zeroblob
"""
_ALLOWED_FUNCTIONS = frozenset(_ALLOWED_FUNCTION_NAMES.split())
_ALLOWED_TABLE_FUNCTIONS = {"json_each", "json_tree"}  # they only compute
_VERB_BY_ACTION = {
    sqlite3.SQLITE_INSERT: "insert",
    sqlite3.SQLITE_UPDATE: "update",
    sqlite3.SQLITE_DELETE: "delete",
}


class SqliteAuthorizer:
    """Allows or denies each step of one statement (https://sqlite.org/c3ref/set_authorizer).

    A step may belong to a view, WITH or trigger. Its name does not decide what may be read, since a
    WITH can have any name. Of the three, only a trigger can change rows.
    """

    def __init__(
        self,
        catalog: Catalog,
        target: str,
        verbs: Set[str],
        reached: Set[str] = frozenset(),
        others: Set[str] = frozenset(),
    ) -> None:
        """`verbs`: the changes allowed to the table `target` (in lower case); empty: only reading.

        `reached`: tables whose rows change by foreign keys. `others`: the folded names of all that
        SQLite could read beside the catalog's tables; no WITH may have one of these names.
        """
        self._catalog, self._target, self._verbs = catalog, target, verbs
        self._reached, self._others = reached, others
        self._secret = {name for table in catalog.tables.values() for name in table.secret}
        self.refused = ""
        self.logs: Set[str] = frozenset()  # temporary tables in which the bot's triggers note rows
        self.changed: set[str] = set()  # tables of the database that the statement may change

    def __call__(self, action: int, first: Any, second: Any, place: Any, inner: Any) -> int:
        """Return SQLITE_OK or SQLITE_DENY for one step.

        `inner` is the view, WITH or trigger that takes the step, None for the statement itself.
        """
        if (action, place) == (sqlite3.SQLITE_INSERT, "temp") and inner and first in self.logs:
            return sqlite3.SQLITE_OK  # only the bot's own triggers reach temporary tables
        why = ""
        if action in _VERB_BY_ACTION and place == "main":
            self.changed.add(str(first))
        if action == sqlite3.SQLITE_READ:
            why = self._find_read_refusal(str(first), str(second), place, inner)
        elif action == sqlite3.SQLITE_FUNCTION:
            why = "" if str(second).lower() in _ALLOWED_FUNCTIONS else f"{second} cannot be called"
        elif action in _VERB_BY_ACTION:
            why = self._find_change_refusal(_VERB_BY_ACTION[action], str(first), place, inner)
        elif action not in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            why = f"it would do more than read and change rows (SQLite's action {action})"
        self.refused = self.refused or why
        return sqlite3.SQLITE_DENY if why else sqlite3.SQLITE_OK

    def _find_read_refusal(self, table: str, column: str, place: Any, inner: Any) -> str:
        name = table.lower()
        relation = self._catalog.tables.get(name) if place in ("main", None) else None
        if relation is None:  # a WITH: SQLite reports that it is read, but not which columns
            known = name.startswith(("sqlite_", "pragma_")) or name in self._others
            allowed = not (column or known) or name in _ALLOWED_TABLE_FUNCTIONS
            return "" if allowed else f"{table} is not a table that can be read"
        if relation.kind == "virtual":
            return f"{relation.name} is a virtual table; those cannot be used"
        if (
            relation.kind == "view"
            and self._secret
            and has_implicit_secret_join(relation, self._secret)
        ):
            return f"the view {relation.name} joins by what is secret"
        if column.lower() in relation.secret:
            where = f" (read by {inner})" if inner else ""
            return f"{relation.name}.{column} is secret{where}; name the columns that are not"
        return ""

    def _find_change_refusal(self, verb: str, table: str, place: Any, inner: Any) -> str:
        """Return why this table cannot be changed in this way; "" if it can.

        A statement may change its own table; triggers and foreign keys may change others.
        """
        relation = self._catalog.tables.get(table.lower())
        if not self._verbs:
            return f"it would change {table}, and a query changes nothing"
        if place != "main" or relation is None or relation.kind != "table":
            return f"{table} is not a table that can be changed"
        is_target = table.lower() == self._target and verb in self._verbs
        if inner is not None or is_target or table.lower() in self._reached:
            return ""
        return f"it would {verb} rows of {table}, which it does not say"


def check_no_implicit_secret_joins(tokens: tuple[Token, ...], catalog: Catalog) -> None:
    """Raise StatementError for NATURAL JOIN and USING over a secret column.

    SQLite does not ask its authorizer about the columns that they compare.
    """
    secret = {name for table in catalog.tables.values() for name in table.secret}
    if not secret:
        return
    if any(each.word == "natural" for each in tokens):
        raise StatementError("NATURAL JOIN is not allowed here; name the columns with ON")
    for at, each in enumerate(tokens):
        for name in _parse_names_in_parentheses(tokens[at + 1 :]) if each.word == "using" else ():
            if name in secret:
                raise StatementError(f"{name} is secret; rows cannot be joined by it")


def _parse_names_in_parentheses(tokens: tuple[Token, ...]) -> list[str]:
    """Return the folded names in the parentheses with which the tokens begin; [] without any."""
    names: list[str] = []
    for each in tokens[1:]:
        if each.text == ")":
            break
        names.append(each.text.strip("\"'").replace('""', '"').lower())
    return names if tokens and tokens[0].text == "(" else []


def has_implicit_secret_join(view: Relation, secret: set[str]) -> bool:
    """Whether a view joins by NATURAL or by USING a secret column, which SQLite does not check."""
    lists = re.findall(r"\busing\s*\(([^)]*)\)", view.definition, re.IGNORECASE)
    names = {name.strip().strip("\"'`[]").lower() for each in lists for name in each.split(",")}
    return bool(names & secret or re.search(r"\bnatural\b", view.definition, re.IGNORECASE))


_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LENGTH: 10_000_000,  # bytes of any one value
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 50,
}
_INNOCUOUS_FLAG = 0x200000  # of a function that may be called with trusted_schema=OFF
_PRAGMAS = (
    "foreign_keys=ON",
    "cell_size_check=ON",
    "temp_store=MEMORY",
)
# conflicts that delete rows, for which SQLite runs triggers only if they may be recursive
_REPLACE_PATTERN = re.compile(r"\breplace\b(?!\s*\()", re.IGNORECASE)
_INSTRUCTIONS_PER_CHECK = 1_000  # between two checks of the deadline
_INERT_KEY_ACTIONS = {"NO ACTION", "RESTRICT"}  # foreign keys with these change no other row
# errors of COMMIT that mean that nothing was changed
_NOT_COMMITTED_CODES = ("BUSY", "FULL", "READONLY", "CONSTRAINT", "INTERRUPT", "LOCKED")
_NOT_COMMITTED_ERROR_NAMES = tuple(f"SQLITE_{each}" for each in _NOT_COMMITTED_CODES)


class SqliteSource:
    """One SQLite file that can be opened."""

    def __init__(self, database: Database, bot_database: Path | None) -> None:
        """`bot_database`: the file of Countersign's own database, which is never opened."""
        self.database, self._own = database, bot_database

    @contextmanager
    def open(self, *, writes: bool, timeout: float | None = None) -> Iterator[session.Session]:
        """Return a context with a transaction on the existing file; IMMEDIATE if it `writes`."""
        path, seconds = self.database.path, timeout or self.database.timeout
        session.check_not_countersign_database(path, self._own)
        if not path.is_file():
            raise ToolError(f"the file of the database {self.database.name} is not there")
        uri = f"{path.as_uri()}?mode={'rw' if writes else 'ro'}"

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(
                uri,
                uri=True,
                isolation_level=None,
                cached_statements=0,
                check_same_thread=False,
                timeout=timeout or self.database.lock_timeout,
            )

        engine = create_engine(
            "sqlite+pysqlite://", creator=connect, poolclass=NullPool, hide_parameters=True
        )
        sentence = partial(_database_error_sentence, seconds=seconds)
        with session.open_connection(engine, sqlite3.Error, sentence) as (connection, raw):
            _configure_transaction(raw, writes, time.monotonic() + seconds)
            # checked again: meanwhile the name may have come to mean another file
            session.check_not_countersign_database(path, self._own)
            yield SqliteSession(self.database, connection)


def _configure_transaction(raw: sqlite3.Connection, writes: bool, deadline: float) -> None:
    if hasattr(raw, "enable_load_extension"):  # some builds of Python cannot load extensions at all
        raw.enable_load_extension(False)
    raw.text_factory = lambda value: value.decode("utf-8", "backslashreplace")
    for limit, value in _LIMITS.items():
        raw.setlimit(limit, value)
    for pragma in (*_PRAGMAS, f"query_only={'OFF' if writes else 'ON'}"):
        raw.execute(f"PRAGMA {pragma}")
    raw.execute(f"PRAGMA trusted_schema={'ON' if _calls_harmless_functions(raw) else 'OFF'}")
    # loads both functions now: loading reads the schema, which the authorizer refuses later
    raw.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
    raw.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS_PER_CHECK)
    raw.execute("BEGIN IMMEDIATE" if writes else "BEGIN")


def _calls_harmless_functions(raw: sqlite3.Connection) -> bool:
    """Whether the schema calls functions that SQLite takes for unsafe, but only allowed ones.

    SQLite 3.38 to 3.40 take JSON functions for unsafe. Otherwise it need not be trusted.
    """
    unsafe = raw.execute(
        "SELECT lower(name) FROM pragma_function_list WHERE NOT flags & ?", (_INNOCUOUS_FLAG,)
    ).fetchall()
    found = raw.execute("SELECT lower(sql) FROM main.sqlite_schema WHERE sql IS NOT NULL")
    words = {word for (text,) in found for word in re.findall(r"\w+|->>?", text)}
    called = words & {name for (name,) in unsafe}
    return bool(called) and called <= _ALLOWED_FUNCTIONS


class SqliteSession(session.Session):
    """One transaction on an SQLite file."""

    _raw: sqlite3.Connection

    def _read_catalog(self) -> Catalog:
        """Return the main database's tables, views and virtual tables, without SQLite's own."""
        listed = self._raw.execute("PRAGMA main.table_list").fetchall()
        kinds = {
            name: {"table": "table", "view": "view"}.get(kind, "virtual")
            for _, name, kind, *_ in listed
            if not name.lower().startswith("sqlite_") and self._can_list_columns(name)
        }
        views = dict(
            self._raw.execute("SELECT name, sql FROM main.sqlite_schema WHERE type = 'view'")
        )
        tables = reflect_tables(
            self.connection,
            None,
            kinds,
            definition=views,
            keys=self._list_unique_keys(),
            references=self._list_references_by_table(),
        )
        catalog = Catalog("sqlite", ("main",), {each.name.lower(): each for each in tables})
        return mark_secret_columns(catalog, self.database)

    def _can_list_columns(self, name: str) -> bool:
        """Whether SQLite can list the columns: not of a view whose tables are gone, for example."""
        try:
            self._raw.execute(f"PRAGMA main.table_xinfo({quote_name(name)})").close()
        except sqlite3.OperationalError:
            return False
        return True

    def run_query(self, statement: Statement, limit: int) -> Table:
        with self._guard_statement(statement):
            cursor = self._raw.execute(statement.text)
            found, more = session.limit_rows(cursor, limit)
            columns = tuple(str(each[0]) for each in cursor.description or ())
            cursor.close()
        return Table(f"Rows from {self.database.name}", columns, found, more)

    def check_statement(self, statement: Statement) -> None:
        with self._guard_statement(statement):
            self._raw.execute(f"EXPLAIN {statement.text_without_explain}").close()

    def _run_changes(self, named: Sequence[tuple[Statement, Relation]]) -> tuple[Change, ...]:
        self._set_recursive_triggers([each for each, _ in named])
        return run_changes_tracking_rows(
            self._raw, self.catalog, self._guard_statement, named, self.database.max_changes
        )

    def _set_recursive_triggers(self, statements: Sequence[Statement]) -> None:
        """Allow recursive triggers only where rows may be replaced.

        Otherwise they stay off, as in other programs: the usual trigger that stamps an updated row
        would call itself for ever.
        """
        found = self._raw.execute("SELECT sql FROM main.sqlite_schema WHERE sql IS NOT NULL")
        texts = [*(each.text for each in statements), *(text for (text,) in found)]
        replaces = any(map(_REPLACE_PATTERN.search, texts))
        self._raw.execute(f"PRAGMA recursive_triggers={'ON' if replaces else 'OFF'}")

    def describe_server_and_role(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def can_change_tables(self) -> bool:
        return True  # otherwise BEGIN IMMEDIATE would have failed

    def commit(self) -> None:
        try:
            self._raw.execute("COMMIT")
        except sqlite3.Error as error:
            code = str(getattr(error, "sqlite_errorname", ""))
            if not code.startswith(_NOT_COMMITTED_ERROR_NAMES):
                raise ConnectionError(
                    f"the change was made, but saving it to disk failed: {code}"
                ) from None
            raise

    def _list_foreign_keys(self) -> list[tuple[str, str, str, str | None, str, str]]:
        """Return all foreign keys: table, column, other table, column there, and both actions."""
        return self._raw.execute(
            'SELECT t.name, k."from", k."table", coalesce(k."to", (SELECT p.name FROM '
            'pragma_table_info(k."table") AS p WHERE p.pk = k.seq + 1)), k.on_update, k.on_delete '
            "FROM main.sqlite_schema AS t, pragma_foreign_key_list(t.name) AS k "
            "WHERE t.type = 'table'"
        ).fetchall()

    def _list_unique_keys(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Return the columns of each table's unique indexes, "" for a computed one."""
        rows = self._raw.execute(
            "SELECT t.name, l.name, coalesce(x.name, '') FROM main.sqlite_schema AS t, "
            'pragma_index_list(t.name) AS l, pragma_index_xinfo(l.name) AS x WHERE l."unique" '
            "AND x.key AND t.type = 'table'"
        ).fetchall()
        indexes_by_table: dict[str, dict[str, tuple[str, ...]]] = {}
        for table, index, column in rows:
            columns = indexes_by_table.setdefault(table, {})
            columns[index] = (*columns.get(index, ()), column)
        return {table: tuple(each.values()) for table, each in indexes_by_table.items()}

    def _list_references_by_table(self) -> dict[str, tuple[tuple[str, str, str], ...]]:
        """Return each table's foreign keys as (its column, other table, column there)."""
        found: dict[str, tuple[tuple[str, str, str], ...]] = {}
        for table, own, other, column, *_ in self._list_foreign_keys():
            if column:
                found[table] = (*found.get(table, ()), (own, other, column))
        return found

    def _list_cascaded_tables(self, target: str) -> set[str]:
        """Return the tables whose rows change with those of `target`, by foreign keys."""
        found = {target}
        acting = [
            each for each in self._list_foreign_keys() if not {*each[4:]} <= _INERT_KEY_ACTIONS
        ]
        while more := {each[0].lower() for each in acting if each[2].lower() in found} - found:
            found |= more
        return found - {target}

    def _list_names_outside_catalog(self) -> set[str]:
        """Return the folded names of everything in SQLite beside the catalog's tables."""
        named = {name for _, name, *_ in self._raw.execute("PRAGMA table_list").fetchall()}
        named |= {name for (name,) in self._raw.execute("PRAGMA module_list").fetchall()}
        return {each.lower() for each in named} - set(self.catalog.tables)

    @contextmanager
    def _guard_statement(self, statement: Statement) -> Iterator[SqliteAuthorizer]:
        """Set an authorizer inside the block: only reads, and the statement's change, may run."""
        check_no_implicit_secret_joins(statement.tokens, self.catalog)
        name, verbs, reached = "", set[str](), set[str]()
        if statement.target is not None and statement.verb != "select":
            name = statement.target.name.lower()
            verbs = {statement.verb, *(["update"] if statement.tree.args.get("conflict") else [])}
            reached = self._list_cascaded_tables(name)
        others = self._list_names_outside_catalog()
        guard = SqliteAuthorizer(self.catalog, name, verbs, reached, others)
        self._raw.set_authorizer(guard)
        try:
            yield guard
        except sqlite3.Error:
            if guard.refused:
                raise ToolError(guard.refused) from None
            raise
        finally:
            self._raw.set_authorizer(None)


def _database_error_sentence(error: Any, seconds: float) -> str:
    """Return a message for people about an SQLite error, mostly in SQLite's own words.

    It holds no secret: nothing that reads one has begun.
    """
    text = next(iter(str(error).splitlines()), "") or type(error).__name__
    if text == "interrupted":
        return f"it took longer than {seconds:g} s and was stopped; nothing was changed"
    if getattr(error, "sqlite_errorname", "") in (
        "SQLITE_READONLY_ROLLBACK",
        "SQLITE_READONLY_RECOVERY",
    ):
        return (
            "a program was stopped in the middle of a change, which has to be undone first: "
            "whoever owns the database has to open it once"
        )
    if "locked" in text:
        return (
            "another program holds the database; nothing was changed. Trying again later may work"
        )
    return f"{statement_number_prefix(error)}the database says: {text[:300]}"
