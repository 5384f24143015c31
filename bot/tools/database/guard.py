"""The authorizer of SQLite: asked about each step of a statement before the step is done.

It refuses what reads a secret column, whatever the statement, its views and its triggers, and
every step that reads or changes anything but the rows of tables.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Set
from typing import Any

from bot.tools.database.sql.catalog import Catalog, Relation
from bot.tools.database.sql.tokens import StatementError, Token

_NEVER = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_offset"}
_TABLE_FUNCTIONS = {"json_each", "json_tree"}  # those that only compute
_CHANGES = {
    sqlite3.SQLITE_INSERT: "insert",
    sqlite3.SQLITE_UPDATE: "update",
    sqlite3.SQLITE_DELETE: "delete",
}


class Guard:
    """The authorizer: says of each step of one statement whether it may be
    (https://sqlite.org/c3ref/set_authorizer).

    What it is told about where a step stands is not believed for reading: a WITH can take the name
    of a view.
    """

    def __init__(
        self,
        catalog: Catalog,
        target: str = "",
        verbs: frozenset[str] = frozenset(),
        reached: Set[str] = frozenset(),
    ) -> None:
        """`verbs`: what may be done to the table `target` (its folded name); without, nothing may
        be changed. `reached`: tables that foreign keys take it to.
        """
        self._catalog, self._target, self._verbs = catalog, target, verbs
        self._reached = reached
        self._secret = {name for table in catalog.tables.values() for name in table.secret}
        self.refused = ""

    def __call__(self, action: int, first: Any, second: Any, place: Any, inner: Any) -> int:
        """SQLITE_OK or SQLITE_DENY.

        `inner` is the view, WITH or trigger that does it, None for the statement itself.
        """
        why = ""
        if action == sqlite3.SQLITE_READ:
            why = self._unread(str(first), str(second), inner)
        elif action == sqlite3.SQLITE_FUNCTION:
            why = f"{second} cannot be called" if str(second).lower() in _NEVER else ""
        elif action in _CHANGES:
            why = self._unchanged(_CHANGES[action], str(first), place, inner)
        elif action not in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            why = f"it would do more than read and change rows (SQLite's action {action})"
        self.refused = self.refused or why
        return sqlite3.SQLITE_DENY if why else sqlite3.SQLITE_OK

    def _unread(self, table: str, column: str, inner: Any) -> str:
        """Why this column cannot be read."""
        found = self._catalog.tables.get(table.lower())
        if found is None:  # that a WITH is read at all is told, not which of its columns
            plain = not column and not table.lower().startswith("sqlite_")
            allowed = plain or table.lower() in _TABLE_FUNCTIONS
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
