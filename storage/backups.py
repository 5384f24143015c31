"""A copy of the whole record in one SQLite file, from either kind of database, while the bot works.

The file is a record of its own that says what it is (`storage.copies`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from storage import audit, copies, files
from storage.chain import Chain
from storage.columns import altered
from storage.copies import Copied
from storage.digest import key_text
from storage.examination import Examined, examine
from storage.pouring import LostRowsError, pour
from storage.store import Store

NAME = "record.db"  # in its workshop


class BackupError(Exception):
    """Nothing was backed up, or nothing put back: a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that holds a record, and what was found when all of it was read again."""

    path: Path
    counts: Mapping[str, int]  # rows, by table
    found: Examined
    size: int  # bytes


def store_in(folder: Path, key: bytes) -> Store:
    """The database that is made in this folder; BackupError where its name cannot be said."""
    url = f"sqlite:///{folder / NAME}"
    if make_url(url).database != str(folder / NAME):
        raise BackupError(f"{folder.parent} holds a ? or a %: choose another folder")
    return Store(url, key=key)


def make(
    source: Store, path: Path, key: bytes, *, at: datetime, version: str, with_key: bool = False
) -> Backup:
    """Write all of `source` as it stands at one moment into a new file at `path`.

    `source` is only read, and not held up. The file is whole or not there. `with_key`: the key is
    in it. Raises BackupError.
    """
    if path.exists():
        raise BackupError(f"{path} is there already, and a backup writes over nothing")
    kept = key_text(key) if with_key else ""
    row = Copied(at=at, why=f"it is the backup of {at:%Y-%m-%d %H:%M:%S} UTC", version=version)
    try:
        with files.workshop(path) as folder:
            made = _written(source, folder, key, altered(row, signing_key=kept))
            files.publish(folder / NAME, path)
    except LostRowsError as error:
        raise BackupError(f"the record cannot be read ({error}); keep older backups") from error
    except FileExistsError:
        raise BackupError(f"{path} is there by now, and a backup writes over nothing") from None
    except (OSError, DBAPIError, sqlite3.Error) as error:
        raise BackupError(f"the backup cannot be written: {why(error)}") from error
    return Backup(path, *made, path.stat().st_size)


def _written(
    source: Store, folder: Path, key: bytes, row: Copied
) -> tuple[Mapping[str, int], Examined]:
    """Write the record into the folder, read it again, and return what was found."""
    made, chain = store_in(folder, key), Chain(key)
    with closing(made.open(exclusive=False)):
        with made.write() as into, source.read() as tx:  # a server waits for no disk of ours
            counts = pour(tx, into)
            head = audit.head(tx)
        with made.write() as into:
            found = examine(into, chain, head)
            row = altered(
                row,
                head_seq=head.seq,
                head_hash=head.hash,
                counts=json.dumps(counts, sort_keys=True),
                problems=json.dumps(found.problems),
            )
            copies.note(into, copies.sealed(row, chain))
    if wrong := files.one_file(folder / NAME):
        raise LostRowsError(wrong)
    return counts, found


def why(error: Exception) -> str:
    """What an error of the system or of a database says, for people."""
    if isinstance(error, DBAPIError):
        return str(error.orig).strip()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)
