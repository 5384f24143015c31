"""Connections to the SQLite file: some that cannot be made, some used while all are closed."""

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


def test_a_connection_that_cannot_be_prepared_leaves_no_lock(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start finds the file free."""
    store.close()
    monkeypatch.setattr("storage.sqlite_connections.PRAGMAS", ("PRAGMA (",))
    with pytest.raises(sqlite3.OperationalError) as failed:
        Store(f"sqlite:///{store.path}").open()
    monkeypatch.undo()
    again = Store(f"sqlite:///{store.path}").open()  # while the error is still referenced
    assert failed.value.__traceback__ is not None
    again.close()


def test_a_failed_connection_is_a_temporary_error(store: Store) -> None:
    """Other faults of the file are temporary as well."""
    other = ReadOnlyStore(store.path.with_name("other.db"))
    with pytest.raises(DBAPIError) as failed, other.read():
        pass
    assert is_temporary_database_error(failed.value)


def test_a_connection_in_use_while_all_are_closed_is_not_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It serves its transaction alone."""
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


def test_connections_beyond_the_kept_few_are_closed_after_a_burst(store: Store) -> None:
    """There are as many as transactions meanwhile; the kept ones serve the next transactions."""
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


def test_an_ended_transaction_does_not_use_its_connection(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be closed or in use again; whether rows were changed is still known."""
    monkeypatch.setattr("storage.sqlite.MAX_IDLE_CONNECTIONS", 0)
    with store.write() as tx:
        tx.exec_driver_sql("INSERT INTO contact VALUES ('T', 'U', 1)")
    assert tx.has_changes
    with store.write() as tx:
        tx.exec_driver_sql("SELECT * FROM contact")
    assert not tx.has_changes
    with pytest.raises(DBAPIError, match="closed database"):
        tx.exec_driver_sql("SELECT 1")
