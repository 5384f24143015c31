"""Connections to the file: what happens where one cannot be made."""

from __future__ import annotations

import sqlite3

import pytest

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
