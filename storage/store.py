"""The database as the rest of the program uses it: one writer at a time, any number of readers.

Also here: retries while the database is unavailable, a store that only reads, and a test commit
that checks whether the database can be written.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from tempfile import TemporaryFile
from typing import NoReturn, TypeVar

from sqlalchemy import URL, Engine, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlmodel import col

from storage import audit_log, schema
from storage.backend import Backend, build_backend
from storage.database_errors import (
    error_text,
    is_temporary_database_error,
    one_line_driver_error_text,
)
from storage.digest import AuditChainSealer, AuditHead, PolicyContextReader
from storage.migrations import SCRIPTS_FOLDER, newest, stranger
from storage.migrations import SchemaError as SchemaError
from storage.models import Run
from storage.sqlite import SqliteFile
from storage.sqlite_connections import describe_file_problem, open_read_only_connection
from storage.trail import AuditHeadFile
from storage.transaction import StoreClosedError as StoreClosedError
from storage.transaction import Trace, Transaction

# Retries while the database is temporarily unavailable: locked, disk full, server down. Code that
# holds a result stored nowhere else retries until it is stored.

log = logging.getLogger("countersign.store")
T = TypeVar("T")
MIN_RETRY_SECONDS = 0.1  # doubled with each try
MAX_RETRY_SECONDS = 10.0


def compute_retry_delay(failures: int) -> float:
    """Return the seconds to wait after this number (1, 2, …) of failed tries in a row."""
    return min(MAX_RETRY_SECONDS, MIN_RETRY_SECONDS * float(2 ** min(failures - 1, 20)))


def retry_until_stored(write: Callable[[], T], ended: threading.Event, what: str) -> T:
    """Call `write` until the database accepts it, and return its result.

    `write` starts from the beginning each time. Raises other errors at once, and the database's
    last error soon after `ended` is set. `what` is for the log.
    """
    failures = 0
    while True:
        last = ended.is_set()
        try:
            return write()
        except Exception as error:
            if not is_temporary_database_error(error) or last:
                raise
            failures += 1
            log.error("%s cannot be stored, and is kept until it can: %s", what, error_text(error))
        ended.wait(compute_retry_delay(failures))


STEP_PAUSE_SECONDS = 0.005  # between two steps of long work, so that others can write
ReadyRunsHandler = Callable[[Transaction, Sequence[str]], None]


class Store:
    """One database. `open()` brings its schema up to date, and locks a file for this process."""

    def __init__(
        self,
        url: str | Backend,
        *,
        key: bytes | None = None,
        under: PolicyContextReader = dict,
        audit_listener: Callable[[Sequence[audit_log.AuditLine]], None] = audit_log.log_audit_lines,
    ) -> None:
        """Set the database by URL or backend; ValueError for a URL that cannot be used.

        `key`: signs digests and the audit; None: the one in the file beside the database. `under`:
        returns the policy and model that the audit notes at each decision. `audit_listener` gets
        the audit rows once they are committed, and must not raise.
        """
        self.database = build_backend(url) if isinstance(url, str) else url
        self._write_lock = threading.Lock()
        self._has_unsynced_commits = False  # a commit may not be on the disk yet
        self._closed = False
        self.trace: Trace | None = None  # watches every transaction from now on
        self._key, self._read_policy_context, self._audit_listener = key, under, audit_listener
        self._handle_ready_runs: ReadyRunsHandler | None = None
        self._handle_failed_commit: Callable[[], None] = lambda: None
        self.chain = AuditChainSealer(key or b"", under)
        self._head_file: AuditHeadFile | None = None  # None: the head is not written to a file
        self.mismatch_reason = ""  # why this may be a copy or an older state; "" if not

    def open(self, *, exclusive: bool = True) -> Store:
        """Lock and migrate the database, and return self.

        Raises AlreadyRunningError if it is locked, SchemaError for a newer schema or another
        application's file, which is left as it is, and KeyFileError for a key file without a key.
        """
        self.database.open(exclusive=exclusive)
        self._closed = False
        try:
            if self._key is None:
                self._key = self.database.load_local_signing_key()
            self.chain = AuditChainSealer(self._key, self._read_policy_context)
            self.database.create_if_missing()
            migrate_schema(self)
            self.database.protect_open_database_files()
            with self.read() as tx:
                is_at_noted_place = self.database.is_at_noted_place(tx)
            if not is_at_noted_place:
                with self.write() as tx:
                    self.database.note_place(tx)
            note = self.database.build_audit_head_file(self.chain)
            with self.read() as tx:
                self.mismatch_reason = _find_copy_reason(tx) or (
                    note.describe_head_mismatch(tx) if note is not None else ""
                )
            self._head_file = None if self.mismatch_reason else note
            if exclusive and self._head_file is not None:
                self._head_file.create_if_missing()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def signing_key(self) -> bytes:
        """Return the key behind digests and the audit; ValueError if not set and not open yet."""
        if self._key is None:
            raise ValueError("the database is not open")
        return self._key

    @property
    def path(self) -> Path:
        """Return the path that the database's local files (key, lock, …) are named after."""
        return self.database.path

    @property
    def engine(self) -> Engine:
        """Return the SQLAlchemy engine that migrations use."""
        return self.database.engine

    @property
    def is_multi_process(self) -> bool:
        """Return whether other processes may write to the same database."""
        return self.database.is_multi_process

    def require_newest_rows(self) -> None:
        """Raise DBAPIError if it was found that the database may lack what this process wrote."""
        if self.database.older_error is not None:
            raise self.database.older_error

    def accept_rows_despite_mismatch(self) -> None:
        """Accept a database that may be a copy or older state, and begin a new audit head file."""
        with self._write_lock:
            self.mismatch_reason = ""
            self._head_file = self.database.build_audit_head_file(self.chain)
            if self._head_file is not None:
                self._head_file.replace_file(self.database.known_head or AuditHead())

    def _note_audit_head(self) -> None:
        """Write the audit's newest row to the head file; everything committed is on the disk."""
        self._has_unsynced_commits = False
        if self._head_file is not None and self.database.known_head is not None:
            self._head_file.write_head(self.database.known_head)

    def close(self) -> None:
        """Close the connections and release the lock; later writes by this process are refused.

        Another process may have the database by then.
        """
        with self._write_lock:
            self._closed = True
        self.database.close_idle_connections()
        if self._head_file is not None:
            with suppress(OSError):  # the file then lags behind
                self.database.sync_commits()
                self._note_audit_head()
            self._head_file.close()
        self.database.close()

    @contextmanager
    def write(
        self, *, durable: bool = True, needs_sync: bool = True, counted: bool = True
    ) -> Iterator[Transaction]:
        """Yield a transaction that may write; it commits at the end and rolls back on an exception.

        A commit that is not `durable` survives the end of this process, but survives a power
        failure only after the next durable commit (which includes all earlier ones) or
        `sync_commits`. It is for steps that nobody outside has been informed of. A process that
        shares its database always commits durably, because it cannot know what other processes have
        made public.

        With `needs_sync=False` not even `sync_commits` waits for this commit: for contents that can
        be determined again. With `counted=False` a failed commit is not reported to the handler set
        by `set_failed_commit_handler`.
        """
        try:
            with self._locked_transaction(durable=durable, needs_sync=needs_sync) as tx:
                yield tx
        except DBAPIError as error:
            if counted and is_temporary_database_error(error):
                self._handle_failed_commit()
            raise
        self._audit_listener(tx.appended)  # after the lock is released: logging holds up no writer

    @contextmanager
    def _locked_transaction(self, *, durable: bool, needs_sync: bool) -> Iterator[Transaction]:
        alone = self.database.has_exclusive_lock
        soft = not durable and alone
        with self._write_lock:
            if self._closed:
                raise StoreClosedError("the record is closed")
            tx = self.database.begin_transaction(
                self.trace, self.chain, writes=True, durable=not soft
            )
            if alone:  # no other process has appended rows since
                tx.head = self.database.known_head
            with tx:
                yield tx
                if tx.ready and self._handle_ready_runs is not None:
                    self._handle_ready_runs(tx, tx.ready)
            self.database.known_head = tx.head or self.database.known_head
            if soft:
                self._has_unsynced_commits = self._has_unsynced_commits or needs_sync
            elif tx.has_changes:  # without changes the commit did not wait for the disk
                self._note_audit_head()

    def read(self) -> Transaction:
        """Return a transaction on a consistent snapshot for reading, to be used in a `with`."""
        return self.database.begin_transaction(self.trace, self.chain, writes=False, durable=False)

    def set_ready_runs_handler(self, hand_out: ReadyRunsHandler) -> None:
        """Set the function that gets the ids of the runs a transaction makes ready for workers.

        It is called at the end of each writing transaction that made any ready, inside it.
        """
        self._handle_ready_runs = hand_out

    def set_failed_commit_handler(self, count: Callable[[], None]) -> None:
        """Set the function to call whenever the database could not commit a transaction."""
        self._handle_failed_commit = count

    def sync_commits(self) -> None:
        """Wait until commits are on the disk; callers do so before they inform outsiders."""
        with self._write_lock:
            if self._has_unsynced_commits:
                self.database.sync_commits()
                self._note_audit_head()

    def release_free_pages(self, spare: float = 0.0) -> bool:
        """Return some free pages of the file to the disk; True if there are more.

        `spare`: the share of the file that may stay free. Other writers wait for some milliseconds
        at most.
        """
        with self.write(durable=False, needs_sync=False) as tx:
            return self.database.release_free_pages(tx, spare)

    def release_all_free_pages(
        self, spare: float = 0.0, should_stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Return all free pages to the disk, step by step, until `should_stop`; empty the log."""
        while not should_stop() and self.release_free_pages(spare):
            time.sleep(STEP_PAUSE_SECONDS)
        self.checkpoint_write_ahead_log()

    def checkpoint_write_ahead_log(self) -> None:
        """Move the log into the file and free its disk space, unless a reader needs it."""
        with self._write_lock:
            self.database.checkpoint_write_ahead_log()

    def vacuum_database(self) -> str:
        """Rewrite the file without its free space while other writers wait.

        Returns "" when done, else the reason why not, for people.
        """
        with self._write_lock:
            return self.database.vacuum_database()


def _find_copy_reason(tx: Transaction) -> str:
    """Return why the database is marked as a copy, or as copied elsewhere; "" if it is not."""
    found = tx.exec_driver_sql("SELECT why FROM copied ORDER BY seq LIMIT 1").scalar()
    return str(found or "")


def migrate_schema(store: Store, scripts: Path | str = SCRIPTS_FOLDER) -> None:
    """Bring the schema to the newest revision in `scripts`, with a copy made first.

    Only a file that has a schema is copied. Raises SchemaError for a database that a newer
    Countersign wrote, and for one whose tables do not match the revision that it names.
    """
    scripts = Path(scripts)
    target = newest(scripts)
    if _require_usable_revision(store, scripts) == target:
        return
    with store.database.migration_lock():
        # another process may have migrated it meanwhile
        current = _require_usable_revision(store, scripts)
        if current != target and not (
            current is None and _create_schema_directly(store, target, scripts)
        ):
            # imported here: Alembic takes a third of a second
            from storage.schema import upgrade_schema

            upgrade_schema(store.database, current, scripts, target)
            _require_usable_revision(store, scripts)


def _require_usable_revision(store: Store, scripts: Path) -> str | None:
    """Return the schema's revision, which is one of `scripts`; None if the database is empty.

    Raises SchemaError if this build cannot use the database.
    """
    current = find_schema_revision(store)
    if wrong := describe_unusable_schema(store, current, scripts):
        raise SchemaError(wrong)
    return current


def describe_unusable_schema(
    store: Store, current: str | None, scripts: Path = SCRIPTS_FOLDER, *, reading: bool = False
) -> str:
    """Return why this build cannot use a database at this schema revision; "" if it can.

    `current`: None if the database names no revision. `reading`: check only what reading needs.
    """
    name = store.database.display_name
    if current is not None and (wrong := stranger(name, current, scripts)):
        return wrong
    with store.read() as tx:
        return schema.describe_schema_mismatch(
            name, current, tx.exec_driver_sql, tx.dialect.name, scripts, reading=reading
        )


def _create_schema_directly(store: Store, target: str, scripts: Path) -> bool:
    """Create an empty file's schema directly; False if that takes a migration."""
    made = [] if store.is_multi_process else schema.load_schema_ddl(target, scripts)
    if not made:
        return False
    with store.write() as tx:
        for each in made:
            tx.exec_driver_sql(each)
        tx.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (target,))
    return True


def find_schema_revision(store: Store) -> str | None:
    """Return the schema revision stored in the database; None if there is none."""
    try:
        with store.read() as tx:
            found = tx.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    except DBAPIError as error:
        if not store.database.is_missing_table_error(error):
            raise
        return None
    return None if found is None else str(found)


class ReadOnlyStore(Store):
    """A store that refuses to write; it neither locks nor migrates nor creates its database.

    The database may belong to a running bot.
    """

    def __init__(self, place: str | Path) -> None:
        """Set the database by address or SQLite file; nothing is opened yet."""
        named = build_backend(place) if isinstance(place, str) else None
        path = place if named is None else named.path
        file = SqliteFile(URL.create("sqlite", database=str(path)), open_read_only_connection)
        super().__init__(named if named is not None and named.is_multi_process else file)

    @contextmanager
    def write(
        self, *, durable: bool = True, needs_sync: bool = True, counted: bool = True
    ) -> Iterator[NoReturn]:
        """Raise TypeError: this store cannot write."""
        raise TypeError("this database is only read")
        yield  # makes this a generator, like the base class's

    def has_database(self) -> bool:
        """Return whether the database file exists; True for a server, which is not contacted."""
        return self.is_multi_process or self.path.exists()

    def describe_read_problem(self) -> str:
        """Return why the database cannot be read, for people; "" if it can."""
        name = self.database.display_name
        if not self.is_multi_process:
            if wrong := describe_file_problem(self.path):
                return wrong
            if not self.path.exists():
                return f"there is no database at {name}"
        try:
            current = find_schema_revision(self)
            if wrong := describe_unusable_schema(self, current, reading=True):
                return wrong
        except (SQLAlchemyError, sqlite3.Error) as error:
            why = f"{name} cannot be read ({one_line_driver_error_text(error)})"
            if not self.is_multi_process:
                if os.statvfs(self.path.parent).f_flag & os.ST_RDONLY:
                    return f"{why}; its disk is read-only, so copy its files elsewhere"
                if not os.access(self.path, os.R_OK | os.W_OK):
                    return f"{why}; run this as the account that runs the bot"
                if disk_usage(self.path.parent).free < MIN_FREE_DISK_BYTES:
                    return f"{why}; its disk is full, so free some space there"
            return why
        if current is None:
            return f"there is no Countersign record in {name}"
        if current != newest():
            return f"{name} has the older schema {current}; start the bot, which upgrades it"
        return ""


def list_recorded_teams(tx: Transaction) -> list[str]:
    """Return the ids of the workspaces that have requests in the database."""
    return list(tx.scalars(select(col(Run.team)).distinct()))


# each writes a page without changing data: a commit without changes would not touch the disk
NO_OP_WRITE_BY_DIALECT = {
    "sqlite": "PRAGMA user_version = 0",
    "postgresql": "UPDATE alembic_version SET version_num = version_num",
}
MIN_FREE_DISK_BYTES = 256 * 1024  # more than a full disk can have left in its last page
# a sort of about that size that does not fit into memory: the server writes it to its disk
LARGE_SORT_SQL = (
    "SELECT max(n) FROM (SELECT repeat('x', 100) || n AS n FROM generate_series(1, 3000) AS n "
)
LARGE_SORT_SQL += "ORDER BY n OFFSET 0) AS sorted"


def check_database_writable(store: Store) -> None:
    """Test that the database can be written: commit, and write 256 KiB of scratch data.

    Raises what the database raises if it cannot, and OSError if there is no room for the scratch
    file.
    """
    with store.write(counted=False) as tx:
        if store.is_multi_process:
            _force_sort_on_disk(tx)
        tx.exec_driver_sql(NO_OP_WRITE_BY_DIALECT[tx.dialect.name])
    if not store.is_multi_process:
        _write_scratch_file(store.path)


def _force_sort_on_disk(tx: Transaction) -> None:
    tx.exec_driver_sql("SET LOCAL work_mem = '64kB'")
    tx.exec_driver_sql(LARGE_SORT_SQL)


def _write_scratch_file(path: Path) -> None:
    with TemporaryFile(dir=path.parent, buffering=0) as file:  # closing it writes nothing
        rest = os.urandom(MIN_FREE_DISK_BYTES)
        while rest:
            rest = rest[os.write(file.fileno(), rest) :]
