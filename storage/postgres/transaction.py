"""A transaction on PostgreSQL. What its commit came to is known, even where the server was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy.engine import Dialect
from sqlalchemy.exc import DBAPIError

from storage.chain import Chain
from storage.postgres.session import ServerSession
from storage.statement import Row, driver_error
from storage.transaction import Trace, Transaction


class PostgresTransaction(Transaction):
    """A transaction on PostgreSQL."""

    __slots__ = ("_changed", "_return", "_session", "_was_committed")

    def __init__(
        self,
        session: ServerSession,
        give_back: Callable[[ServerSession], None],
        was_committed: Callable[[str], bool],
        dialect: Dialect,
        trace: Trace | None,
        chain: Chain,
        *,
        writes: bool,
    ) -> None:
        """Of a session that has begun it, and goes to `give_back` at the end.

        `was_committed` tells it of a transaction by its number.
        """
        self._session, self._return, self._was_committed = session, give_back, was_committed
        self._changed = False
        self._begin_with(session.raw, dialect, trace, chain, writes=writes, durable=True)

    @property
    def changed(self) -> bool:
        """Whether it has changed any row."""
        return self._changed

    def overwrite(self) -> None:
        """Nothing: the server frees what was deleted when it next vacuums."""

    def command(self, sql: str) -> None:
        """Run COMMIT or ROLLBACK."""
        try:
            if sql == "COMMIT" and not self.writes:
                self._session.end_reading()
            else:
                self._session.end(sql)
        except psycopg.Error as error:
            raise driver_error(error, self.dialect, sql, ()) from error

    def _is_open(self) -> bool:
        return self._session.status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def _release(self) -> None:
        self._return(self._session)

    def _fetch(self, sql: str, values: Any) -> tuple[list[Row], int]:
        if type(values) is not list:  # somebody's own words
            found, many = self._session.ask(sql, values or None)
        else:
            try:
                found, many = self._session.run(sql, values)
            except psycopg.DataError:
                cleaned = _without_nul(values)
                if cleaned == values:
                    raise
                found, many = self._session.run(sql, cleaned)
        self._changed = self._changed or (self.writes and many > 0)
        return found, many

    def _commit(self) -> None:
        if self._session.status == TransactionStatus.INERROR:  # COMMIT would roll back, silently
            self._undo()
            raise RuntimeError("a statement of this transaction had failed, and it went on")
        try:
            super()._commit()
        except DBAPIError:
            # the connection is gone: whether the server had heard, it alone knows
            if not (self.writes and self._session.is_broken and self._stands()):
                raise
            if self._trace is not None:
                self._trace.committed(self)

    def _stands(self) -> bool:
        return self._was_committed(self._session.number)


def _without_nul(values: list[Any]) -> list[Any]:
    """Values as PostgreSQL takes them: it keeps no text with a NUL in it."""
    return [
        each.replace("\0", "\N{REPLACEMENT CHARACTER}") if isinstance(each, str) else each
        for each in values
    ]
