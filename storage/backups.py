"""Backups, restores and moves of a whole database: each is complete or does not happen."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy.exc import DBAPIError

from storage import record_copies, sqlite, trail
from storage import schema as schema_upgrade
from storage.columns import copy_row_with_changes
from storage.digest import AuditChainSealer, AuditHead, format_signing_key, parse_signing_key
from storage.examination import ExaminationResult, examine_audit_and_rows
from storage.installations import TABLES_SCHEMA as INSTALLATIONS_SCHEMA
from storage.sqlite import OTHER_PROCESS_REMEDY, sync_to_disk
from storage.sqlite_connections import (
    LOCK_TIMEOUT_SECONDS,
    describe_file_problem,
    foreign_file_sentence,
    is_foreign_file,
)
from storage.store import ReadOnlyStore, Store, describe_unusable_schema, find_schema_revision
from storage.transaction import Transaction


def _working_folder_prefix(path: Path) -> str:
    return f".{path.name}.part-"


@contextmanager
def temporary_folder_beside(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path` that only its owner can enter; then delete it."""
    prefix = _working_folder_prefix(path)
    with TemporaryDirectory(prefix=prefix, dir=path.parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def delete_leftover_folders(path: Path) -> None:
    """Delete temporary folders beside `path` that killed processes left; none may be in use."""
    for folder in path.parent.glob(f"{_working_folder_prefix(path)}*"):
        shutil.rmtree(folder, ignore_errors=True)


def merge_wal_and_check_integrity(database: Path) -> str:
    """Move an SQLite database's log into its file, synced to disk; return a fault found, or ""."""
    with closing(sqlite3.connect(database, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")
        (found,) = raw.execute("PRAGMA integrity_check(1)").fetchone()
        broken = raw.execute("PRAGMA foreign_key_check").fetchone()
    sync_to_disk(database)
    if found != "ok":
        return str(found)
    return f"a row of {broken[0]} refers to one that is missing" if broken else ""


def move_file_without_overwriting(new: Path, path: Path) -> None:
    """Put the file `new` in place under the name `path`; FileExistsError if `path` exists."""
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links, as on a USB stick
        if path.exists():
            raise FileExistsError(path) from None
        new.rename(path)
    sync_to_disk(path.parent)


def link_or_copy_file(path: Path, aside: Path) -> None:
    """Give the file at `path` the second name `aside`; FileExistsError if `aside` exists.

    A file renamed to `path` afterwards replaces it at once: there is no moment without a file.
    """
    try:
        os.link(path, aside)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        shutil.copy2(path, aside)
        sync_to_disk(aside)


DATABASE_FILE_NAME = "record.db"  # in a temporary folder


class BackupError(Exception):
    """Raised when a backup or restore did not happen; its message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup file, with the result of checking all of its rows."""

    path: Path
    row_counts: Mapping[str, int]  # rows, by table
    examination: ExaminationResult
    size: int  # bytes


def build_store_in_folder(folder: Path, key: bytes) -> Store:
    """Return the store of the database file in this folder."""
    return Store(f"sqlite:///{folder / DATABASE_FILE_NAME}", key=key)


def make_backup(
    source: Store, path: Path, key: bytes, *, at: datetime, version: str, with_key: bool = False
) -> Backup:
    """Write a consistent snapshot of `source` to a new file at `path`.

    `source` is only read, and its writers do not wait. At `path` there is a complete file or none.
    `with_key`: store the signing key in the file. Raises BackupError.
    """
    if path.exists():
        raise BackupError(f"{path} already exists, and a backup overwrites nothing")
    key_text = format_signing_key(key) if with_key else ""
    why = f"it is the backup of {at:%Y-%m-%d %H:%M:%S} UTC"
    row = record_copies.CopyNote(at=at, why=why, version=version, signing_key=key_text)
    try:
        with temporary_folder_beside(path) as folder:
            counts_and_examination = _write_checked_copy(source, folder, key, row)
            move_file_without_overwriting(folder / DATABASE_FILE_NAME, path)
    except record_copies.UnreadableRowsError as error:
        raise BackupError(f"the record cannot be read ({error}); keep older backups") from error
    except FileExistsError:
        raise BackupError(f"{path} exists by now, and a backup overwrites nothing") from None
    except (OSError, DBAPIError, sqlite3.Error) as error:
        raise BackupError(f"the backup cannot be written: {error_sentence(error)}") from error
    return Backup(path, *counts_and_examination, path.stat().st_size)


def _write_checked_copy(
    source: Store, folder: Path, key: bytes, row: record_copies.CopyNote
) -> tuple[Mapping[str, int], ExaminationResult]:
    copy_store, chain = build_store_in_folder(folder, key), AuditChainSealer(key)
    with closing(copy_store.open(exclusive=False)):
        # in this order the server's transaction ends before the copy's commit waits for the disk
        with copy_store.write() as into, source.read() as tx:
            counts = record_copies.copy_rows(tx, into)
            head = trail.get_audit_head(tx)
        with copy_store.write() as into:
            examination = examine_audit_and_rows(into, chain, head)
            row = copy_row_with_changes(
                row,
                head_seq=head.seq,
                head_hash=head.hash,
                counts=json.dumps(counts, sort_keys=True),
                problems=json.dumps(examination.problems),
            )
            record_copies.replace_copy_note(into, record_copies.seal_copy_note(row, chain))
    if wrong := merge_wal_and_check_integrity(folder / DATABASE_FILE_NAME):
        raise record_copies.UnreadableRowsError(wrong)
    return counts, examination


def error_sentence(error: Exception) -> str:
    """Return the text of a system or database error, for people."""
    if isinstance(error, DBAPIError):
        return str(error.orig).strip()
    if isinstance(error, OSError) and error.strerror:
        if error.filename2:  # copying failed: the target may be full
            return f"{error.filename} cannot be copied: {error.strerror}"
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


SQLITE_LOG_SUFFIXES = ("-wal", "-shm")  # of the files that SQLite keeps beside a database
COPY_WITHOUT_NOTE_TEXT = "it is a copy of a database"


@dataclass(frozen=True, slots=True)
class BackupWorkingCopy:
    """A working copy of a backup: an intact Countersign file, not newer than this build."""

    file: Path  # the backup's path, as the user gave it
    folder: Path  # the folder with the working copy
    sealing_key_id: str  # id of the key that its audit continues under; "" for an empty audit
    signing_key: bytes  # empty if the backup does not hold it

    @property
    def database_path(self) -> Path:
        """Return the path of the working copy."""
        return self.folder / DATABASE_FILE_NAME

    def check_and_upgrade(self, key: bytes, now: datetime, *, lost: bool = False) -> Backup:
        """Check and upgrade the working copy so that the bot can start on it with this key.

        `lost`: the backup's own key is lost, so changes to it cannot be detected. Raises
        BackupError if something was changed since it was written, and SchemaError if its schema
        cannot be brought up to date.
        """
        store, chain = build_store_in_folder(self.folder, key), AuditChainSealer(key)
        with closing(store.open(exclusive=False)):
            with store.read() as tx:
                row_counts = record_copies.count_rows_by_table(tx)
                row = record_copies.find_copy_note(tx)
                head = trail.get_audit_head(tx)
                examination = (
                    ExaminationResult(head) if lost else self._examine_copy(tx, chain, row)
                )
            known_problems = row.known_problems if row else []
            if new_problems := [
                each for each in examination.problems if each not in known_problems
            ]:
                raise BackupError("\n  ".join([f"{self.file} is not sound:", *new_problems]))
            with store.write() as into:
                record_copies.replace_copy_note(
                    into,
                    copy_row_with_changes(
                        row or record_copies.CopyNote(at=now, why=COPY_WITHOUT_NOTE_TEXT),
                        signing_key="",
                    ),
                )
        if wrong := merge_wal_and_check_integrity(self.database_path):
            raise BackupError(f"{self.file} is damaged: {wrong}")
        _enable_wal_mode(self.database_path)
        return Backup(self.file, row_counts, examination, self.database_path.stat().st_size)

    def _examine_copy(
        self, tx: Transaction, chain: AuditChainSealer, row: record_copies.CopyNote | None
    ) -> ExaminationResult:
        """Check the copy's rows, also against the backup's note on itself; return the result."""
        if row is None or not row.seal:
            found = examine_audit_and_rows(tx, chain, trail.get_audit_head(tx))
            found.remarks.append(
                f"{COPY_WITHOUT_NOTE_TEXT}, so missing rows at its end cannot be detected"
            )
            return found
        found = examine_audit_and_rows(tx, chain, row.audit_head)
        if not row.has_valid_seal(chain):
            found.add_problem("what it says about itself was changed")
        elif missing := row.describe_missing_rows(record_copies.count_rows_by_table(tx)):
            found.add_problem(missing)
        return found


@contextmanager
def open_working_copy_of_backup(file: Path, next_to: Path) -> Iterator[BackupWorkingCopy]:
    """Yield a working copy of the backup in `file`, in a folder `next_to` that path.

    Raises BackupError for a file that is not a Countersign backup, is damaged or newer, and
    OSError.
    """
    if not file.is_file():
        raise BackupError(f"there is no file {file}")
    with temporary_folder_beside(next_to) as folder:
        copy = folder / DATABASE_FILE_NAME
        sqlite.create_private_file(copy)
        shutil.copyfile(file, copy)
        log = file.with_name(f"{file.name}{SQLITE_LOG_SUFFIXES[0]}")
        if log.is_file():  # a copy made by hand may have a log
            shutil.copyfile(log, folder / f"{DATABASE_FILE_NAME}{SQLITE_LOG_SUFFIXES[0]}")
        try:
            sealed_by, key = _check_copy_and_read_key(copy, file)
        except sqlite3.Error as error:
            raise BackupError(f"{file} is damaged, or not a backup: {error}") from error
        yield BackupWorkingCopy(file, folder, sealed_by, key)


def _check_copy_and_read_key(copy: Path, file: Path) -> tuple[str, bytes]:
    """Check a backup's copy; return its signing key's id, and the key itself if stored in it."""
    if is_foreign_file(copy):
        raise BackupError(f"{file} is the database of another application")
    with closing(ReadOnlyStore(f"sqlite:///{copy}")) as looked_at:
        schema = find_schema_revision(looked_at)
        wrong = describe_unusable_schema(looked_at, schema, reading=True)
    if wrong:
        raise BackupError(wrong.replace(str(copy), str(file)))
    if schema is None:
        raise BackupError(f"{file} holds no record")
    if wrong := merge_wal_and_check_integrity(copy):
        raise BackupError(f"{file} is damaged: {wrong}")
    with closing(sqlite3.connect(copy, isolation_level=None)) as raw:
        schema_upgrade.create_missing_triggers(raw, schema)
        last = raw.execute("SELECT key_id FROM audit ORDER BY seq DESC LIMIT 1").fetchone()
        row = raw.execute("SELECT key_id, signing_key FROM copied LIMIT 1").fetchone()
    key_id, key = row or (*(last or ("",)), "")
    return key_id, parse_signing_key(key) if key else b""


def require_place_for_record(path: Path) -> None:
    """Raise BackupError if no file, or the database of another application, is at `path`.

    A damaged file is no obstacle: it may be the record that a backup is to replace.
    """
    if wrong := describe_file_problem(path):
        raise BackupError(f"{wrong}; name a file in DATABASE_URL")
    with suppress(sqlite3.Error):
        if path.exists() and is_foreign_file(path):
            raise BackupError(foreign_file_sentence(path))


def replace_database_with_backup(copy: BackupWorkingCopy, path: Path, now: datetime) -> Path | None:
    """Replace the database at `path`, which nobody else uses, with the working copy `copy`.

    Returns the path to which the old database was moved; None if there was none. If this is
    interrupted, one of the two is in place. Raises BackupError while another program reads the old
    one.
    """
    aside = path.with_name(f"{path.name}.before-restore-{now:%Y%m%dT%H%M%S.%fZ}")
    if there := path.exists():
        _merge_log_into_file(path)
        link_or_copy_file(path, aside)
    # left by a damaged or missing database: SQLite must not apply them to the new one
    for end in SQLITE_LOG_SUFFIXES:
        with suppress(FileNotFoundError):
            Path(f"{path}{end}").rename(f"{aside}{end}")
    copy.database_path.replace(path)
    sync_to_disk(path.parent)
    return aside if there else None


def _enable_wal_mode(path: Path) -> None:
    """Switch the file to write-ahead mode, so that the next start does not have to."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute("PRAGMA journal_mode=WAL")


def _merge_log_into_file(path: Path) -> None:
    """Move a database's log into its file; a damaged database is left with its log beside it."""
    try:
        with closing(
            sqlite3.connect(path, timeout=LOCK_TIMEOUT_SECONDS, isolation_level=None)
        ) as raw:
            raw.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise BackupError(f"{path} is being read by another program; stop that first") from None
    except sqlite3.DatabaseError:
        return


RECORD_MOVED_EVENT = "record.moved"
SESSION_END_TIMEOUT_SECONDS = 5.0  # for sessions that have just ended, but are still listed
_COUNT_OTHER_SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name = current_setting('application_name')"  # it includes the schema
    " AND datname = current_database() AND pid <> pg_backend_pid()"
)

_SELECT_INSTALLATION_TABLE = f"SELECT to_regclass('{INSTALLATIONS_SCHEMA}.installation')"
_COUNT_WORKSPACE_OWNERS = (  # processes that own this record's workspace, among several
    f"SELECT count(*) FROM {INSTALLATIONS_SCHEMA}.installation"  # noqa: S608 # our own name
    " WHERE 'countersign_' || lower(workspace) = current_schema() AND owner <> ''"
    " AND owner_until > extract(epoch FROM clock_timestamp()) * 1000000"
)


@dataclass(frozen=True, slots=True)
class RecordCopyResult:
    """The result of copying a record into another database."""

    row_counts: Mapping[str, int]  # rows, by table
    examination: ExaminationResult
    was_already_there: bool = False
    kept_schema: str = ""  # the schema that keeps what the target held before


def copy_database_contents(source: Store, target: Store, at: datetime) -> RecordCopyResult:
    """Copy all of `source`, which this process alone holds, into the empty `target`.

    Before the first row is copied, `source` is marked as left for a copy: a bot started on it all
    the same asks people again about open calls. Raises BackupError.
    """
    require_no_other_process(target)
    before = _mark_as_left_for_copy(source, target.database.display_name, at)
    try:
        with source.read() as tx:
            known_problems = examine_audit_and_rows(
                tx, source.chain, trail.get_audit_head(tx)
            ).problems
            with target.write() as into:
                return _copy_and_check_record(tx, into, known_problems, at, before)
    except BaseException:
        with source.write() as tx:
            record_copies.delete_copy_note(tx)
            if before is not None:
                record_copies.replace_copy_note(tx, before)
        raise


def replace_database_contents(
    source: Store, target: Store, known: list[str] | None, at: datetime
) -> RecordCopyResult:
    """Replace the contents of `target` with all of `source`.

    `known`: the problems found in `source`; None if they could not be determined. The old contents
    are kept in a schema of their own. Raises BackupError.
    """
    require_no_other_process(target)
    with source.read() as tx, target.write() as into:
        is_used = any(record_copies.count_rows_by_table(into).values())
        aside = _copy_tables_to_new_schema(into, at) if is_used else ""
        everything = ", ".join(
            record_copies.quote_name(into, each.name) for each in record_copies.list_record_tables()
        )
        for statement in (
            *target.database.list_drop_trigger_statements(),
            f"TRUNCATE {everything}",
            *target.database.list_create_trigger_statements(),
        ):
            into.exec_driver_sql(statement)
        there = record_copies.copy_rows(tx, into)
        head = trail.get_audit_head(tx)
        examination = (
            ExaminationResult(head) if known is None else _check_copied_rows(into, head, known)
        )
        if row := record_copies.find_copy_note(tx):
            record_copies.replace_copy_note(into, copy_row_with_changes(row, seq=None))
    return RecordCopyResult(there, examination, kept_schema=aside)


def require_no_other_process(target: Store) -> None:
    """Wait some seconds for other Countersign processes to leave `target`; else BackupError."""
    until = time.monotonic() + SESSION_END_TIMEOUT_SECONDS
    while True:
        with target.read() as tx:
            others = int(tx.exec_driver_sql(_COUNT_OTHER_SESSIONS).scalar())
            if tx.exec_driver_sql(_SELECT_INSTALLATION_TABLE).scalar() is not None:
                others += int(tx.exec_driver_sql(_COUNT_WORKSPACE_OWNERS).scalar())
        if not others:
            return
        if time.monotonic() > until:
            who = "another process works" if others == 1 else f"{others} other processes work"
            name = target.database.display_name
            raise BackupError(f"{who} with {name}; {OTHER_PROCESS_REMEDY}")
        time.sleep(0.1)


def _mark_as_left_for_copy(source: Store, name: str, at: datetime) -> record_copies.CopyNote | None:
    """Note in a database that it was copied to the one called `name`; return its earlier note.

    None if it has none. Such a note says that a database is a copy, or was copied.
    """
    why = f"it was copied to {name} on {at:%Y-%m-%d %H:%M:%S} UTC, where work may have continued"
    with source.write() as tx:
        before = record_copies.find_copy_note(tx)
        record_copies.replace_copy_note(tx, record_copies.CopyNote(at=at, why=why))
    return before


def _copy_and_check_record(
    tx: Transaction,
    into: Transaction,
    known: list[str],
    at: datetime,
    before: record_copies.CopyNote | None,
) -> RecordCopyResult:
    head, there = trail.get_audit_head(tx), record_copies.count_rows_by_table(into)
    if any(there.values()):
        if head.seq and trail.find_audit_head_at(into, head.seq) == head:
            return RecordCopyResult(there, ExaminationResult(head), was_already_there=True)
        raise BackupError("the other database already holds a record, and nothing is overwritten")
    poured = record_copies.copy_rows(tx, into)
    found = _check_copied_rows(into, head, known)
    if before is not None:  # the source was a copy, too: a start asks about open calls again
        record_copies.replace_copy_note(into, copy_row_with_changes(before, seq=None))
    trail.record_event(
        into, RECORD_MOVED_EVENT, at=at, actor="system", data={"rows": sum(poured.values())}
    )
    return RecordCopyResult(poured, found)


def _check_copied_rows(into: Transaction, head: AuditHead, known: list[str]) -> ExaminationResult:
    """Check the copied rows; BackupError for a problem that the source did not have (`known`)."""
    found = examine_audit_and_rows(into, into.chain, head)
    if odd := [each for each in found.problems if each not in known]:
        raise BackupError("\n  ".join(["it did not arrive unchanged:", *odd]))
    return found


def _copy_tables_to_new_schema(into: Transaction, at: datetime) -> str:
    """Copy each table into a new schema; return the schema's name."""
    schema = f"countersign_before_restore_{at:%Y%m%dt%H%M%Sz}"
    into.exec_driver_sql(f"CREATE SCHEMA {schema}")
    for table in record_copies.list_record_tables():
        name = record_copies.quote_name(into, table.name)
        into.exec_driver_sql(f"CREATE TABLE {schema}.{name} AS TABLE {name}")
    return schema
