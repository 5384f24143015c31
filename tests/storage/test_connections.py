"""Connections to the file: one that cannot be made, one that is taken while all are closed."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack

import pytest
from sqlalchemy.exc import DBAPIError

from storage.database_errors import is_temporary_database_error
from storage.sqlite import MAX_IDLE_CONNECTIONS, SqliteFile
from storage.sqlite_connections import SyncSwitchConnection
from storage.store import ReadOnlyStore, Store

pytestmark = pytest.mark.file


def test_one_that_cannot_be_prepared_is_not_kept_locked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file's connection fails at the start, the next start finds it free."""
    store.close()
    monkeypatch.setattr("storage.sqlite_connections.PRAGMAS", ("PRAGMA (",))
    with pytest.raises(sqlite3.OperationalError) as failed:
        Store(f"sqlite:///{store.path}").open()
    monkeypatch.undo()
    again = Store(f"sqlite:///{store.path}").open()  # while the failure still holds what it saw
    assert failed.value.__traceback__ is not None
    again.close()


def test_a_file_that_cannot_be_opened_may_be_there_another_time(store: Store) -> None:
    """That a new connection cannot be made is a temporary fault, as all that the file causes."""
    other = ReadOnlyStore(store.path.with_name("other.db"))
    with pytest.raises(DBAPIError) as failed, other.read():
        pass
    assert is_temporary_database_error(failed.value)


def test_what_is_taken_while_all_are_closed_is_not_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that a transaction has just taken when all are closed serves that one alone."""
    file = store.database
    assert isinstance(file, SqliteFile)
    with store.write():
        pass
    [taken] = file._idle
    monkeypatch.setattr(
        SyncSwitchConnection, "set_waits_for_disk", lambda _, **__: file.close_idle_connections()
    )
    with store.write():
        pass
    assert taken not in file._idle


def test_a_burst_leaves_no_more_connections_than_are_kept(store: Store) -> None:
    """As many are open as transactions are; what is beyond a few is closed when it is given back,
    and the others serve whoever comes next.
    """
    file = store.database
    assert isinstance(file, SqliteFile)
    with ExitStack() as burst:
        taken = [burst.enter_context(store.read()).raw for _ in range(3 * MAX_IDLE_CONNECTIONS)]
    assert len(file._idle) == MAX_IDLE_CONNECTIONS
    closed = [each for each in taken if each not in file._idle]
    assert len(closed) == 2 * MAX_IDLE_CONNECTIONS
    with pytest.raises(sqlite3.ProgrammingError):
        closed[0].execute("SELECT 1")
    with store.write() as tx:
        assert tx.raw in taken
        assert len(file._idle) == MAX_IDLE_CONNECTIONS - 1


def test_a_transaction_that_is_over_asks_nothing_of_its_connection(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be closed by then, or another's: whether rows were changed is known all the same."""
    monkeypatch.setattr("storage.sqlite.MAX_IDLE_CONNECTIONS", 0)
    with store.write() as tx:
        tx.exec_driver_sql("INSERT INTO contact VALUES ('T', 'U', 1)")
    assert tx.has_changes
    with store.write() as tx:
        tx.exec_driver_sql("SELECT * FROM contact")
    assert not tx.has_changes
    with pytest.raises(DBAPIError, match="closed database"):
        tx.exec_driver_sql("SELECT 1")
