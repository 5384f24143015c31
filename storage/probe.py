"""Whether the database takes a commit at this moment; what is committed says nothing new."""

from __future__ import annotations

from storage.store import Store

# each changes a page and no row's meaning: a commit that changes nothing asks nothing of the disk
SAME_AGAIN = {
    "sqlite": "PRAGMA user_version = 0",
    "postgresql": "UPDATE alembic_version SET version_num = version_num",
}


def commit_something(store: Store) -> None:
    """Commit, durably; raises what the database does where it cannot."""
    with store.write() as tx:
        tx.exec_driver_sql(SAME_AGAIN[tx.dialect.name])
