"""The authorizer of SQLite: asked about each step of a statement before the step is done.

It refuses what reads a secret column, whatever the statement, its views and its triggers, and
every step that reads or changes anything but the rows of tables. It decides by what SQLite does:
the action, the table, the database, the function. Never by the place in the statement, whose name a
text can choose.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Set
from typing import Any

from bot.tools.database.sql.catalog import Catalog, Relation
from bot.tools.database.sql.tokens import StatementError, Token

# all that may be called: they compute, and touch nothing. Operators are functions here as well.
_COMPUTING = """
-> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling changes char coalesce concat
concat_ws cos cosh count cume_dist current_date current_time current_timestamp date datetime
degrees dense_rank exp first_value floor format glob group_concat hex ifnull if iif instr json
json_array json_array_length json_error_position json_extract json_group_array
json_group_object json_insert json_object json_patch json_pretty json_quote json_remove
json_replace json_set json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array
jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set
julianday lag last_insert_rowid last_value lead length like likelihood likely ln log log10 log2
lower ltrim max median min mod nth_value ntile nullif octet_length percent_rank percentile
percentile_cont percentile_disc pi pow power printf quote radians random randomblob rank
replace round row_number rtrim sign sin sinh soundex sqlite_version sqrt strftime string_agg
substr substring sum tan tanh time timediff total total_changes trim trunc typeof unhex unicode
unistr unistr_quote unixepoch unlikely upper zeroblob
"""
_FUNCTIONS = frozenset(_COMPUTING.split())
_TABLE_FUNCTIONS = {"json_each", "json_tree"}  # those that only compute
_CHANGES = {
    sqlite3.SQLITE_INSERT: "insert",
    sqlite3.SQLITE_UPDATE: "update",
    sqlite3.SQLITE_DELETE: "delete",
}


class Guard:
    """The authorizer: says of each step of one statement whether it may be
    (https://sqlite.org/c3ref/set_authorizer).

    What it is told about where a step stands decides nothing about reading: a WITH can take any
    name. Only a trigger can make a change that is not the statement's own.
    """

    def __init__(
        self,
        catalog: Catalog,
        target: str = "",
        verbs: frozenset[str] = frozenset(),
        reached: Set[str] = frozenset(),
        others: Set[str] = frozenset(),
    ) -> None:
        """`verbs`: what may be done to the table `target` (its folded name); without, nothing may
        be changed. `reached`: tables that foreign keys take it to. `others`: the folded names of
        all that SQLite could read beside the catalog's tables; no WITH may have one of them.
        """
        self._catalog, self._target, self._verbs = catalog, target, verbs
        self._reached, self._others = reached, others
        self._secret = {name for table in catalog.tables.values() for name in table.secret}
        self.refused = ""

    def __call__(self, action: int, first: Any, second: Any, place: Any, inner: Any) -> int:
        """SQLITE_OK or SQLITE_DENY.

        `inner` is the view, WITH or trigger that does it, None for the statement itself.
        """
        why = ""
        if action == sqlite3.SQLITE_READ:
            why = self._unread(str(first), str(second), place, inner)
        elif action == sqlite3.SQLITE_FUNCTION:
            why = "" if str(second).lower() in _FUNCTIONS else f"{second} cannot be called"
        elif action in _CHANGES:
            why = self._unchanged(_CHANGES[action], str(first), place, inner)
        elif action not in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            why = f"it would do more than read and change rows (SQLite's action {action})"
        self.refused = self.refused or why
        return sqlite3.SQLITE_DENY if why else sqlite3.SQLITE_OK

    def _unread(self, table: str, column: str, place: Any, inner: Any) -> str:
        """Why this column cannot be read."""
        name = table.lower()
        found = self._catalog.tables.get(name) if place in ("main", None) else None
        if found is None:  # that a WITH is read at all is told, not which of its columns
            known = name.startswith(("sqlite_", "pragma_")) or name in self._others
            allowed = not (column or known) or name in _TABLE_FUNCTIONS
            return "" if allowed else f"{table} is no table that can be read"
        if found.kind == "virtual":
            return f"{found.name} is a virtual table; those cannot be used"
        if found.kind == "view" and self._secret and joins_unseen(found, self._secret):
            return f"the view {found.name} joins by what is secret"
        if column.lower() in found.secret:
            where = f" (read by {inner})" if inner else ""
            return f"{found.name}.{column} is secret{where}; name the columns that are not"
        return ""

    def _unchanged(self, verb: str, table: str, place: Any, inner: Any) -> str:
        """Why this table cannot be changed so: a statement changes its own table, triggers and
        foreign keys what else the owner made them change.
        """
        found = self._catalog.tables.get(table.lower())
        if not self._verbs:
            return f"it would change {table}, and a query changes nothing"
        if place != "main" or found is None or found.kind != "table":
            return f"{table} is no table that can be changed"
        own = table.lower() == self._target and verb in self._verbs
        if inner is not None or own or table.lower() in self._reached:
            return ""
        return f"it would {verb} rows of {table}, which it does not say"


def refuse_joins(tokens: tuple[Token, ...], catalog: Catalog) -> None:
    """Refuse NATURAL JOIN and USING over a secret column: SQLite does not ask its authorizer about
    the columns that they compare.
    """
    secret = {name for table in catalog.tables.values() for name in table.secret}
    if not secret:
        return
    if any(each.word == "natural" for each in tokens):
        raise StatementError("NATURAL JOIN is not allowed here; name the columns with ON")
    for at, each in enumerate(tokens):
        for name in _listed(tokens[at + 1 :]) if each.word == "using" else ():
            if name in secret:
                raise StatementError(f"{name} is secret; rows cannot be joined by it")


def _listed(tokens: tuple[Token, ...]) -> list[str]:
    """The folded names in the parentheses that the tokens begin with."""
    names: list[str] = []
    for each in tokens[1:]:
        if each.text == ")":
            break
        names.append(each.text.strip("\"'").replace('""', '"').lower())
    return names if tokens and tokens[0].text == "(" else []


def joins_unseen(view: Relation, secret: set[str]) -> bool:
    """Whether a view joins by one of these in the way that SQLite does not ask about."""
    lists = re.findall(r"\busing\s*\(([^)]*)\)", view.definition, re.IGNORECASE)
    names = {name.strip().strip("\"'`[]").lower() for each in lists for name in each.split(",")}
    return bool(names & secret or re.search(r"\bnatural\b", view.definition, re.IGNORECASE))
