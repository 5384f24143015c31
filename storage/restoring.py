"""A backup is looked at, and put in the place of a record.

It is looked at in a copy, so that the file stays as it is and an older schema can be brought up to
date. What was there before is kept under another name.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from storage import audit, copies, files, shapes, sqlite
from storage.backups import NAME, Backup, BackupError, store_in
from storage.chain import Chain
from storage.columns import altered
from storage.connections import WAIT, is_foreign
from storage.copies import Copied
from storage.digest import parse_key
from storage.examination import Examined, examine
from storage.pouring import counts
from storage.reading import ReadOnly
from storage.store import unfit, version
from storage.transaction import Transaction

LOGS = ("-wal", "-shm")  # what SQLite lays beside a database
UNDATED = "it is a copy of a database"


@dataclass(frozen=True, slots=True)
class Taken:
    """A copy of a backup that is looked at: sound as a file, ours, and no newer than we are."""

    file: Path  # the backup as it was named
    folder: Path  # where the copy is
    sealed_by: str  # the id of the key that its audit goes on under; "" for an empty one
    signing_key: bytes  # empty where it is not in the backup

    @property
    def database(self) -> Path:
        """The copy."""
        return self.folder / NAME

    def ready(self, key: bytes, now: datetime, *, lost: bool = False) -> Backup:
        """Make the copy fit to be started on, under this key; all of it is read.

        `lost`: its own key is, so nobody can tell whether something was changed. Raises BackupError
        where something was since it was written, and SchemaError where its schema cannot be brought
        up to date.
        """
        store, chain = store_in(self.folder, key), Chain(key)
        with closing(store.open(exclusive=False)):
            with store.read() as tx:
                there, row = counts(tx), copies.noted(tx)
                found = Examined(audit.head(tx)) if lost else self._examined(tx, chain, row)
            known = row.known if row else []
            if odd := [each for each in found.problems if each not in known]:
                raise BackupError("\n  ".join([f"{self.file} is not sound:", *odd]))
            with store.write() as into:
                copies.note(into, altered(row or Copied(at=now, why=UNDATED), signing_key=""))
        self._damaged_unless(files.one_file(self.database))
        _switch_to_log(self.database)
        return Backup(self.file, there, found, self.database.stat().st_size)

    def _examined(self, tx: Transaction, chain: Chain, row: Copied | None) -> Examined:
        """What is wrong with it: its rows among themselves, and with what it says it has."""
        if row is None or not row.seal:
            found = examine(tx, chain, audit.head(tx))
            found.remarks.append(f"{UNDATED}, so rows that are missing at its end cannot be told")
            return found
        found = examine(tx, chain, row.head)
        if not row.is_sealed_by(chain):
            found.wrong("what it says of itself was changed")
        elif missing := row.missing(counts(tx)):
            found.wrong(missing)
        return found

    def _damaged_unless(self, sound: str) -> None:
        if sound:
            raise BackupError(f"{self.file} is damaged: {sound}")


@contextmanager
def taken(file: Path, beside: Path) -> Iterator[Taken]:
    """Take a copy of the backup in `file` into a folder `beside` that path, until the `with` ends.

    Raises BackupError for what is no backup of ours, damaged or newer, and OSError.
    """
    if not file.is_file():
        raise BackupError(f"there is no file {file}")
    with files.workshop(beside) as folder:
        copy = folder / NAME
        sqlite.create(copy)
        shutil.copyfile(file, copy)
        log = file.with_name(f"{file.name}{LOGS[0]}")
        if log.is_file():  # the copy was made by hand
            shutil.copyfile(log, folder / f"{NAME}{LOGS[0]}")
        try:
            sealed_by, key = _told(copy, file)
        except sqlite3.Error as error:
            raise BackupError(f"{file} is damaged, or no backup: {error}") from error
        yield Taken(file, folder, sealed_by, key)


def _told(copy: Path, file: Path) -> tuple[str, bytes]:
    """The id of the key that it is sealed with, and the key where it is in it."""
    if is_foreign(copy):
        raise BackupError(f"{file} is the database of another application")
    with closing(ReadOnly(f"sqlite:///{copy}")) as looked_at:
        schema = version(looked_at)
        wrong = unfit(looked_at, schema, reading=True)
    if wrong:
        raise BackupError(wrong.replace(str(copy), str(file)))
    if schema is None:
        raise BackupError(f"{file} holds no record")
    if wrong := files.one_file(copy):
        raise BackupError(f"{file} is damaged: {wrong}")
    with closing(sqlite3.connect(copy, isolation_level=None)) as raw:
        shapes.guarded(raw, schema)
        last = raw.execute("SELECT key_id FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
        row = raw.execute("SELECT key_id, signing_key FROM copied LIMIT 1").fetchone()
    key_id, key = row or (*(last or ("",)), "")
    return key_id, parse_key(key) if key else b""


def put(taken: Taken, path: Path, now: datetime) -> Path | None:
    """Put the copy, made `ready`, in the place of the database at `path`, which nobody else uses.

    Returns where that one is kept now; None where there was none. Whenever this is cut short, there
    is the one or the other. Raises BackupError while somebody reads the old one.
    """
    aside = path.with_name(f"{path.name}.before-restore-{now:%Y%m%dT%H%M%S.%fZ}")
    if there := path.exists():
        _quieten(path)
        files.keep(path, aside)
    for end in LOGS:  # of a damaged one, or of one that is not there: nothing else may read them
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").rename(f"{aside}{end}")
    taken.database.replace(path)
    files.on_disk(path.parent)
    return aside if there else None


def _switch_to_log(path: Path) -> None:
    """Have it written by way of a log already, so that the next start need not switch it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute("PRAGMA journal_mode=WAL")


def _quieten(path: Path) -> None:
    """Have all of a database in one file; one that is damaged is kept with what lies beside it."""
    try:
        with closing(sqlite3.connect(path, timeout=WAIT, isolation_level=None)) as raw:
            raw.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BackupError(f"{path} is being read by another program; end that first") from None
    except sqlite3.DatabaseError:
        return
