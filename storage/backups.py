"""Backups, restores and moves of a whole database: each is complete or does not happen."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from storage import record_copies, sqlite, trail
from storage import schema as schema_upgrade
from storage.chain import Chain, Head
from storage.columns import altered_row
from storage.digest import key_text, parse_key
from storage.examination import Examination, examine
from storage.record_copies import CopyNote, LostRowsError, copy_rows, counts, record_tables
from storage.sqlite_connections import WAIT, is_foreign
from storage.store import ReadOnly, Store, unfit_reason, version
from storage.transaction import Transaction

# Restoring: a backup is checked, and replaces the database.

# A copy of the whole record in one SQLite file, from either kind of database, while the bot
# works.

# Files that are complete or absent: written in a temporary folder, then renamed.


def _mark(path: Path) -> str:
    return f".{path.name}.part-"


@contextmanager
def working_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that only its owner can enter; then delete it."""
    folder = Path(tempfile.mkdtemp(prefix=_mark(path), dir=path.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_working_folder(path: Path) -> None:
    """Delete the working folders of killed processes; none may be in use now."""
    for folder in path.parent.glob(f"{_mark(path)}*"):
        shutil.rmtree(folder, ignore_errors=True)


def flatten_log(database: Path) -> str:
    """Move an SQLite database's log into its file, synced to disk; return a fault found, or ""."""
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")
        (found,) = raw.execute("PRAGMA integrity_check(1)").fetchone()
        broken = raw.execute("PRAGMA foreign_key_check").fetchone()
    sync_to_disk(database)
    if found != "ok":
        return str(found)
    return f"a row of {broken[0]} refers to one that is not there" if broken else ""


def sync_to_disk(path: Path) -> None:
    """Return once this file, or the file names in this folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def publish(new: Path, path: Path) -> None:
    """Put the file `new` in place under the name `path`; FileExistsError if `path` exists."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, as of a stick
        if path.exists():
            raise FileExistsError(path) from None
        new.rename(path)
    sync_to_disk(path.parent)


def keep_aside(path: Path, aside: Path) -> None:
    """Give the file at `path` the second name `aside`; FileExistsError if `aside` exists.

    A file renamed to `path` afterwards replaces it at once: there is no moment without a file.
    """
    try:
        os.link(path, aside)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        shutil.copy2(path, aside)
        sync_to_disk(aside)


NAME = "record.db"  # in its workshop


class BackupError(Exception):
    """Raised when a backup or restore did not happen; its message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup file, with the result of checking all of its rows."""

    path: Path
    counts: Mapping[str, int]  # rows, by table
    found: Examination
    size: int  # bytes


def open_store_in(folder: Path, key: bytes) -> Store:
    """Return the store for the database in this folder; BackupError if its path fits no URL."""
    url = f"sqlite:///{folder / NAME}"
    if make_url(url).database != str(folder / NAME):
        raise BackupError(f"{folder.parent} holds a ? or a %: choose another folder")
    return Store(url, key=key)


def make_backup(
    source: Store, path: Path, key: bytes, *, at: datetime, version: str, with_key: bool = False
) -> Backup:
    """Write a consistent snapshot of `source` to a new file at `path`.

    `source` is only read, and not held up. The file is complete or not there. `with_key`: store the
    key in it. Raises BackupError.
    """
    if path.exists():
        raise BackupError(f"{path} is there already, and a backup writes over nothing")
    kept = key_text(key) if with_key else ""
    row = CopyNote(at=at, why=f"it is the backup of {at:%Y-%m-%d %H:%M:%S} UTC", version=version)
    try:
        with working_folder(path) as folder:
            made = _written(source, folder, key, altered_row(row, signing_key=kept))
            publish(folder / NAME, path)
    except LostRowsError as error:
        raise BackupError(f"the record cannot be read ({error}); keep older backups") from error
    except FileExistsError:
        raise BackupError(f"{path} is there by now, and a backup writes over nothing") from None
    except (OSError, DBAPIError, sqlite3.Error) as error:
        raise BackupError(f"the backup cannot be written: {error_sentence(error)}") from error
    return Backup(path, *made, path.stat().st_size)


def _written(
    source: Store, folder: Path, key: bytes, row: CopyNote
) -> tuple[Mapping[str, int], Examination]:
    """Copy the record into the folder, check the copy, and return the result."""
    made, chain = open_store_in(folder, key), Chain(key)
    with closing(made.open(exclusive=False)):
        with made.write() as into, source.read() as tx:  # a server waits for no disk of ours
            counts = copy_rows(tx, into)
            head = trail.head(tx)
        with made.write() as into:
            found = examine(into, chain, head)
            row = altered_row(
                row,
                head_seq=head.seq,
                head_hash=head.hash,
                counts=json.dumps(counts, sort_keys=True),
                problems=json.dumps(found.problems),
            )
            record_copies.write_copy_note(into, record_copies.sealed_copy(row, chain))
    if wrong := flatten_log(folder / NAME):
        raise LostRowsError(wrong)
    return counts, found


def error_sentence(error: Exception) -> str:
    """Return the text of a system or database error, for people."""
    if isinstance(error, DBAPIError):
        return str(error.orig).strip()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


LOGS = ("-wal", "-shm")  # what SQLite lays beside a database
UNDATED = "it is a copy of a database"


@dataclass(frozen=True, slots=True)
class OpenedBackup:
    """A working copy of a backup: an intact Countersign file, not newer than this build."""

    file: Path  # the backup as it was named
    folder: Path  # where the copy is
    sealed_by: str  # the id of the key that its audit goes on under; "" for an empty one
    signing_key: bytes  # empty where it is not in the backup

    @property
    def database(self) -> Path:
        """Return the path of the working copy."""
        return self.folder / NAME

    def ready(self, key: bytes, now: datetime, *, lost: bool = False) -> Backup:
        """Check and upgrade the working copy so that the bot can start on it with this key.

        `lost`: the backup's own key is lost, so changes to it cannot be detected. Raises
        BackupError if something was changed since it was written, and SchemaError if its schema
        cannot be brought up to date.
        """
        store, chain = open_store_in(self.folder, key), Chain(key)
        with closing(store.open(exclusive=False)):
            with store.read() as tx:
                there, row = counts(tx), record_copies.read_copy_note(tx)
                found = Examination(trail.head(tx)) if lost else self._examined(tx, chain, row)
            known = row.known if row else []
            if odd := [each for each in found.problems if each not in known]:
                raise BackupError("\n  ".join([f"{self.file} is not sound:", *odd]))
            with store.write() as into:
                record_copies.write_copy_note(
                    into, altered_row(row or CopyNote(at=now, why=UNDATED), signing_key="")
                )
        self._damaged_unless(flatten_log(self.database))
        _switch_to_log(self.database)
        return Backup(self.file, there, found, self.database.stat().st_size)

    def _examined(self, tx: Transaction, chain: Chain, row: CopyNote | None) -> Examination:
        """Return what is wrong with the copy: in its rows, and compared with its own note."""
        if row is None or not row.seal:
            found = examine(tx, chain, trail.head(tx))
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
def taken(file: Path, beside: Path) -> Iterator[OpenedBackup]:
    """Yield a working copy of the backup in `file`, in a folder `beside` that path.

    Raises BackupError for a file that is not a Countersign backup, is damaged or newer, and
    OSError.
    """
    if not file.is_file():
        raise BackupError(f"there is no file {file}")
    with working_folder(beside) as folder:
        copy = folder / NAME
        sqlite.create(copy)
        shutil.copyfile(file, copy)
        log = file.with_name(f"{file.name}{LOGS[0]}")
        if log.is_file():  # the copy was made by hand
            shutil.copyfile(log, folder / f"{NAME}{LOGS[0]}")
        try:
            sealed_by, key = _copied_from(copy, file)
        except sqlite3.Error as error:
            raise BackupError(f"{file} is damaged, or no backup: {error}") from error
        yield OpenedBackup(file, folder, sealed_by, key)


def _copied_from(copy: Path, file: Path) -> tuple[str, bytes]:
    """Return the id of the key that sealed the backup, and the key itself if stored in it."""
    if is_foreign(copy):
        raise BackupError(f"{file} is the database of another application")
    with closing(ReadOnly(f"sqlite:///{copy}")) as looked_at:
        schema = version(looked_at)
        wrong = unfit_reason(looked_at, schema, reading=True)
    if wrong:
        raise BackupError(wrong.replace(str(copy), str(file)))
    if schema is None:
        raise BackupError(f"{file} holds no record")
    if wrong := flatten_log(copy):
        raise BackupError(f"{file} is damaged: {wrong}")
    with closing(sqlite3.connect(copy, isolation_level=None)) as raw:
        schema_upgrade.restore_triggers(raw, schema)
        last = raw.execute("SELECT key_id FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
        row = raw.execute("SELECT key_id, signing_key FROM copied LIMIT 1").fetchone()
    key_id, key = row or (*(last or ("",)), "")
    return key_id, parse_key(key) if key else b""


def put_back(taken: OpenedBackup, path: Path, now: datetime) -> Path | None:
    """Replace the database at `path`, which nobody else uses, with the copy made `ready`.

    Returns the path to which the old database was moved; None if there was none. If this is
    interrupted, one of the two is in place. Raises BackupError while another program reads the old
    one.
    """
    aside = path.with_name(f"{path.name}.before-restore-{now:%Y%m%dT%H%M%S.%fZ}")
    if there := path.exists():
        _quieten(path)
        keep_aside(path, aside)
    for end in LOGS:  # of a damaged one, or of one that is not there: nothing else may read them
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").rename(f"{aside}{end}")
    taken.database.replace(path)
    sync_to_disk(path.parent)
    return aside if there else None


def _switch_to_log(path: Path) -> None:
    """Switch the file to write-ahead mode, so that the next start does not have to."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute("PRAGMA journal_mode=WAL")


def _quieten(path: Path) -> None:
    """Move a database's log into its file; a damaged database is left with its log beside it."""
    try:
        with closing(sqlite3.connect(path, timeout=WAIT, isolation_level=None)) as raw:
            raw.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BackupError(f"{path} is being read by another program; end that first") from None
    except sqlite3.DatabaseError:
        return


MOVED = "record.moved"
PATIENCE = 5.0  # seconds for sessions to end that have just been given up
_OTHERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'countersign'"
    " AND datname = current_database() AND pid <> pg_backend_pid()"
)


@dataclass(frozen=True, slots=True)
class RecordMove:
    """The result of copying a record into another database."""

    counts: Mapping[str, int]  # rows, by table
    found: Examination
    before: bool = False  # it was there already
    aside: str = ""  # the schema in which what was there before is kept


def move_record(source: Store, target: Store, at: datetime) -> RecordMove:
    """Copy all of `source`, which this process alone holds, into the empty `target`.

    Before the first row is copied, `source` is marked as left for a copy: a bot started on it all
    the same asks people again about open calls. Raises BackupError.
    """
    refuse_other_process(target)
    before = _leave(source, target.database.name, at)
    try:
        with source.read() as tx:
            known = examine(tx, source.chain, trail.head(tx)).problems
            with target.write() as into:
                return _moved(tx, into, known, at, before)
    except BaseException:
        with source.write() as tx:
            record_copies.delete_copy_note(tx)
            if before is not None:
                record_copies.write_copy_note(tx, before)
        raise


def replace_record(
    source: Store, target: Store, known: list[str] | None, at: datetime
) -> RecordMove:
    """Replace the contents of `target` with all of `source`, whose problems are `known`.

    `known` is None if they cannot be determined. The old contents are kept in a schema of their
    own. Raises BackupError.
    """
    refuse_other_process(target)
    with source.read() as tx, target.write() as into:
        aside = _keep(into, at) if any(counts(into).values()) else ""
        everything = ", ".join(_named(into, each.name) for each in record_tables())
        for statement in (
            *target.database.not_append_only(),
            f"TRUNCATE {everything}",
            *target.database.append_only(),
        ):
            into.exec_driver_sql(statement)
        there = copy_rows(tx, into)
        head = trail.head(tx)
        found = Examination(head) if known is None else _as_it_was(into, head, known)
        if row := record_copies.read_copy_note(tx):
            record_copies.write_copy_note(into, altered_row(row, seq=None))
    return RecordMove(there, found, aside=aside)


def refuse_other_process(target: Store) -> None:
    """Raise BackupError while another Countersign process works with that database."""
    until = time.monotonic() + PATIENCE
    while True:
        with target.read() as tx:
            others = int(tx.exec_driver_sql(_OTHERS).scalar())
        if not others:
            return
        if time.monotonic() > until:
            who = "another process works" if others == 1 else f"{others} other processes work"
            raise BackupError(f"{who} with {target.database.name}; stop that first")
        time.sleep(0.1)


def _leave(source: Store, name: str, at: datetime) -> CopyNote | None:
    """Mark the record as left for a copy; return its earlier copy note, or None."""
    error_sentence = (
        f"it was copied to {name} on {at:%Y-%m-%d %H:%M:%S} UTC, where it may have gone on"
    )
    with source.write() as tx:
        before = record_copies.read_copy_note(tx)
        record_copies.write_copy_note(tx, CopyNote(at=at, why=error_sentence))
    return before


def _moved(
    tx: Transaction, into: Transaction, known: list[str], at: datetime, before: CopyNote | None
) -> RecordMove:
    """Copy the rows between these two transactions, and check what has arrived."""
    head, there = trail.head(tx), counts(into)
    if any(there.values()):
        if head.seq and trail.head_at(into, head.seq) == head:
            return RecordMove(there, Examination(head), before=True)
        raise BackupError("the other database holds a record already, and nothing is written over")
    poured = copy_rows(tx, into)
    found = _as_it_was(into, head, known)
    if before is not None:  # what is asked again at a start here is asked again there
        record_copies.write_copy_note(into, altered_row(before, seq=None))
    trail.record(into, MOVED, at=at, actor="system", data={"rows": sum(poured.values())})
    return RecordMove(poured, found)


def _as_it_was(into: Transaction, head: Head, known: list[str]) -> Examination:
    """Check the copied rows; BackupError for a problem that the source did not have (`known`)."""
    found = examine(into, into.chain, head)
    if odd := [each for each in found.problems if each not in known]:
        raise BackupError("\n  ".join(["it did not arrive as it was:", *odd]))
    return found


def _keep(into: Transaction, at: datetime) -> str:
    """Copy each table into a new schema; return the schema's name."""
    schema = f"countersign_before_restore_{at:%Y%m%dt%H%M%Sz}"
    into.exec_driver_sql(f"CREATE SCHEMA {schema}")
    for table in record_tables():
        name = _named(into, table.name)
        into.exec_driver_sql(f"CREATE TABLE {schema}.{name} AS TABLE {name}")
    return schema


def _named(tx: Transaction, name: str) -> str:
    return str(tx.dialect.identifier_preparer.quote(name))
