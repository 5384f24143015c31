"""Files that are whole or not there: made in a folder of their own, and put in place at once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


def _mark(path: Path) -> str:
    return f".{path.name}.part-"


@contextmanager
def workshop(path: Path) -> Iterator[Path]:
    """A folder beside `path` that only its owner enters, for the time of the `with`."""
    folder = Path(tempfile.mkdtemp(prefix=_mark(path), dir=path.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear(path: Path) -> None:
    """Take away what processes left behind that were killed at it; nobody may be at it now."""
    for folder in path.parent.glob(f"{_mark(path)}*"):
        shutil.rmtree(folder, ignore_errors=True)


def one_file(database: Path) -> str:
    """Put all of an SQLite database into one file, on the disk; what is wrong with it, or ""."""
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")
        (found,) = raw.execute("PRAGMA integrity_check(1)").fetchone()
        broken = raw.execute("PRAGMA foreign_key_check").fetchone()
    on_disk(database)
    if found != "ok":
        return str(found)
    return f"a row of {broken[0]} refers to one that is not there" if broken else ""


def on_disk(path: Path) -> None:
    """Return once this file, or the names in this folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish(new: Path, path: Path) -> None:
    """Give the file `new` the name `path`; FileExistsError where something has it already."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, as of a stick
        if path.exists():
            raise FileExistsError(path) from None
        new.rename(path)
    on_disk(path.parent)


def keep(path: Path, aside: Path) -> None:
    """Give the file at `path` the name `aside` as well; FileExistsError where something has it.

    What is put at `path` afterwards takes its place at once: there is no moment without a file.
    """
    try:
        os.link(path, aside)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        shutil.copy2(path, aside)
        on_disk(aside)
