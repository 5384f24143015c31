"""The authorizer of SQLite: asked about each step of a statement before the step is done.

It refuses ATTACH, DETACH, PRAGMA, transactions, savepoints, schema changes, extensions and unknown
functions, whatever the parser thought.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from bot.tools.database.catalog import Catalog
from bot.tools.database.session import Secrets
from bot.tools.database.sql.allowlist import FUNCTIONS

# what the authorizer calls these operators
_OPERATORS = {"like", "glob", "->", "->>", "is", "match"}
# in views and triggers neither
_NEVER = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"}
_CHANGES = {
    sqlite3.SQLITE_INSERT: "insert",
    sqlite3.SQLITE_UPDATE: "update",
    sqlite3.SQLITE_DELETE: "delete",
}


class Guard:
    """The authorizer: says of each step of one statement whether it may be
    (https://sqlite.org/c3ref/set_authorizer).
    """

    def __init__(
        self, verb: str, target: str, catalog: Catalog, secrets: Secrets, reached: set[str]
    ) -> None:
        """`secrets`: the secret columns it was found to mention.

        `reached`: tables that foreign keys take it to.
        """
        self._verb, self._target, self._catalog, self._secrets = verb, target, catalog, secrets
        self._reached = reached
        self._functions = FUNCTIONS["sqlite"] | _OPERATORS
        self.refused = ""

    def __call__(self, action: int, first: Any, second: Any, place: Any, inner: Any) -> int:
        """SQLITE_OK or SQLITE_DENY.

        `inner` is the view or trigger that does it, None for the statement itself.
        """
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and self._may_read(str(first), str(second), inner):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and self._may_call(str(second).lower(), inner):
            return sqlite3.SQLITE_OK
        if action in _CHANGES and self._may_change(
            _CHANGES[action], str(first).lower(), place, inner
        ):
            return sqlite3.SQLITE_OK
        self.refused = f"do what this statement may not (action {action}: {first} {second})"
        return sqlite3.SQLITE_DENY

    def _may_call(self, function: str, inner: Any) -> bool:
        return function not in _NEVER if inner is not None else function in self._functions

    def _may_read(self, table: str, column: str, inner: Any) -> bool:
        found = self._catalog.tables.get(table.lower())
        if found is None:  # that a WITH is read at all is told, not which of its columns
            return not column and not table.lower().startswith("sqlite_")
        key = (table.lower(), column.lower())
        return inner is not None or key[1] not in found.secret or key in self._secrets

    def _may_change(self, verb: str, table: str, place: Any, inner: Any) -> bool:
        """The statement's own table, by its own verb.

        Elsewhere only what triggers and foreign keys do with it.
        """
        if self._verb == "select" or place != "main" or table not in self._catalog.tables:
            return False
        return (
            inner is not None
            or table in self._reached
            or (table == self._target and verb == self._verb)
        )
