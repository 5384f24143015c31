"""Whether the database takes a commit at this moment, and has room for more.

What is committed says nothing new.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.store import Store
    from storage.transaction import Transaction

# each changes a page and no row's meaning: a commit that changes nothing asks nothing of the disk
SAME_AGAIN = {
    "sqlite": "PRAGMA user_version = 0",
    "postgresql": "UPDATE alembic_version SET version_num = version_num",
}
ROOM = 256 * 1024  # bytes that there has to be on the disk, which a full one's last page has not
# as much, sorted where it does not fit into memory: the server writes it to the database's own disk
SORTED = "SELECT max(n) FROM (SELECT repeat('x', 100) || n AS n FROM generate_series(1, 3000) AS n "
SORTED += "ORDER BY n OFFSET 0) AS sorted"


def commit_something(store: Store) -> None:
    """Commit, durably, and write as much as ROOM beside it, which is not kept.

    Raises what the database does where it cannot, and OSError where there is no room for its file.
    """
    with store.write(counted=False) as tx:
        if store.shared:
            _sort_on_disk(tx)
        tx.exec_driver_sql(SAME_AGAIN[tx.dialect.name])
    if not store.shared:
        _write_beside(store.path)


def _sort_on_disk(tx: Transaction) -> None:
    tx.exec_driver_sql("SET LOCAL work_mem = '64kB'")
    tx.exec_driver_sql(SORTED)


def _write_beside(path: Path) -> None:
    with TemporaryFile(dir=path.parent, buffering=0) as file:  # unbuffered: closing writes nothing
        rest = os.urandom(ROOM)
        while rest:
            rest = rest[os.write(file.fileno(), rest) :]
