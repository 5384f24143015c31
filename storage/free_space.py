"""What lies free in an SQLite file: given back to the disk bit by bit, or all at once.

A file that was made before `keep_track` was called for new ones gives nothing back bit by bit until
it was written anew once.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

STEP = 400  # pages that are given back in one transaction
SOON = 200  # milliseconds in which readers may end
INCREMENTAL = 2  # what SQLite answers of a file that can


def keep_track(raw: sqlite3.Connection) -> None:
    """Have an empty file, or one that is written anew next, keep track of what lies free in it."""
    raw.execute("PRAGMA auto_vacuum=INCREMENTAL")


def give_back(raw: sqlite3.Connection, spare: float) -> bool:
    """Give STEP free pages at most back in the transaction that there is, but for that part of the
    whole file; whether more are left.
    """
    if _said(raw, "auto_vacuum") != INCREMENTAL:
        return False
    too_many = _said(raw, "freelist_count") - int(spare * _said(raw, "page_count"))
    if too_many > 0:
        for _ in range(min(too_many, STEP)):  # the driver steps a statement without columns once
            raw.execute("PRAGMA incremental_vacuum(1)")
    return too_many > STEP


def write_back(raw: sqlite3.Connection) -> None:
    """Have all of the log in the file and empty the log, unless somebody reads for longer."""
    waits = _said(raw, "busy_timeout")
    raw.execute(f"PRAGMA busy_timeout={SOON}")
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    raw.execute(f"PRAGMA busy_timeout={waits}")


def rewrite(raw: sqlite3.Connection, path: Path) -> str:
    """Write the file at `path` anew without what lies free, the log emptied; why not, or "".

    Where there is no room for a second one, what can be given back bit by bit is.
    """
    size = _said(raw, "page_size") * (_said(raw, "page_count") - _said(raw, "freelist_count"))
    needed = 2 * size  # SQLite writes all of it aside first, and then into the log
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        why = f"that takes {needed:,} bytes on the disk, and {free:,} are free"
    else:
        try:
            keep_track(raw)
            raw.execute("VACUUM")
            why = ""
        except sqlite3.OperationalError as error:
            why = str(error)
    if why:
        _bit_by_bit(raw)
    write_back(raw)
    return why


def _bit_by_bit(raw: sqlite3.Connection) -> None:
    more = True
    while more:
        raw.execute("BEGIN IMMEDIATE")
        more = give_back(raw, 0.0)
        raw.execute("COMMIT")


def _said(raw: sqlite3.Connection, name: str) -> int:
    with closing(raw.execute(f"PRAGMA {name}")) as found:
        return int(found.fetchone()[0])
