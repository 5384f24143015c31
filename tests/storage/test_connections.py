"""Connections to the file: one that cannot be made, one that is taken while all are closed."""

from __future__ import annotations

import sqlite3

import pytest

from storage.connections import FileConnection
from storage.sqlite import SqliteFile
from storage.store import Store

pytestmark = pytest.mark.file


def test_one_that_cannot_be_prepared_is_not_kept_locked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file's connection fails at the start, the next start finds it free."""
    store.close()
    monkeypatch.setattr("storage.connections.PRAGMAS", ("PRAGMA (",))
    with pytest.raises(sqlite3.OperationalError) as failed:
        Store(f"sqlite:///{store.path}").open()
    monkeypatch.undo()
    again = Store(f"sqlite:///{store.path}").open()  # while the failure still holds what it saw
    assert failed.value.__traceback__ is not None
    again.close()


def test_what_is_taken_while_all_are_closed_is_not_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that a transaction has just taken when all are closed serves that one alone."""
    file = store.database
    assert isinstance(file, SqliteFile)
    with store.write():
        pass
    [taken] = file._idle
    monkeypatch.setattr(FileConnection, "wait", lambda _, **__: file.disconnect())
    with store.write():
        pass
    assert taken not in file._idle
