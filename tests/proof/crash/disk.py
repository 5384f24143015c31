"""What would be on the disk after a power failure: the database as of the last wait for it.

All that SQLite wrote since is thrown away. The waits are those of the product: a durable commit, or
the file that it hands to fsync.
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
        # path to its inode and a descriptor, never closed: closing one ends SQLite's locks on the
        # file for the whole process, and others would take the file for unused
        self._files: dict[Path, tuple[int, int]] = {}

    def watch(self) -> None:
        """Keep the copy from now on, in the process that writes."""
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
        """All that is written now is on the disk; does nothing unless it is watched."""
        if not self._watching:
            return
        with self.lock:
            for part in PARTS:
                target = self._kept / f"db{part}"
                try:
                    target.write_bytes(self._read(Path(f"{self._database}{part}")))
                except FileNotFoundError:
                    target.unlink(missing_ok=True)

    def _read(self, path: Path) -> bytes:
        """Return the content of a file that SQLite has open; raises FileNotFoundError."""
        inode = path.stat().st_ino
        if path not in self._files or self._files[path][0] != inode:
            self._files[path] = (inode, os.open(path, os.O_RDONLY))
        file = self._files[path][1]
        return os.pread(file, os.fstat(file).st_size, 0)

    def fail(self) -> None:
        """Restore the database to what is on the disk; its process is dead."""
        Path(f"{self._database}-shm").unlink(missing_ok=True)
        for part in PARTS:
            source, target = self._kept / f"db{part}", Path(f"{self._database}{part}")
            if source.exists():
                shutil.copyfile(source, target)
            else:
                target.unlink(missing_ok=True)
