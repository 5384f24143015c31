"""What would be on the disk after a power failure: the database as it was when last waited for.

All that SQLite wrote since is thrown away. What is waited for is taken from the product: a durable
commit, or the file that it hands to fsync.
"""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest
from sqlalchemy import make_url

PARTS = ("", "-wal")


class Power:
    """The copy of a database that survives a power failure."""

    def __init__(self, folder: Path, url: str) -> None:
        parsed = make_url(url)
        self.lock = threading.Lock()
        self._kept = folder / "on the disk"
        self._database = Path(parsed.database or "")
        self._watching = False

    def watch(self) -> None:
        """Keep it from now on, in the process that writes."""
        self._kept.mkdir(exist_ok=True)
        self._watching = True
        self.keep()
        patch, fsync = pytest.MonkeyPatch(), os.fsync

        def synced(file: int) -> None:
            name = os.readlink(f"/proc/self/fd/{file}")
            fsync(file)
            if name.endswith("-wal"):  # the store's lock is held: nobody writes meanwhile
                self.keep()

        patch.setattr(os, "fsync", synced)

    def keep(self) -> None:
        """All that is written now is on the disk; nothing happens unless it is watched."""
        if not self._watching:
            return
        with self.lock:
            _copy(self._database, self._kept / "db")

    def fail(self) -> None:
        """Put the database back to what is on the disk; its process is dead."""
        Path(f"{self._database}-shm").unlink(missing_ok=True)
        _copy(self._kept / "db", self._database)


def copied(database: Path, folder: Path) -> Path:
    """Return a copy of a database as it stands, made anew in that folder."""
    folder.mkdir(exist_ok=True)
    (folder / "db-shm").unlink(missing_ok=True)
    _copy(database, folder / "db")
    return folder / "db"


def _copy(database: Path, other: Path) -> None:
    for part in PARTS:
        source, target = Path(f"{database}{part}"), Path(f"{other}{part}")
        if source.exists():
            shutil.copyfile(source, target)
        else:
            target.unlink(missing_ok=True)
