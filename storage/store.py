"""The database as the rest sees it: one writer at a time, any number of readers, rows that are
detached.

Never hold a transaction over a model, tool or Slack call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Engine, PoolProxiedConnection, event, make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool
from sqlmodel import create_engine

from storage import audit_log, sqlite
from storage.audit_log import Appended
from storage.chain import Chain, Head, Under
from storage.digest import key_path, load_key
from storage.head_file import HeadFile, head_path
from storage.migrations import SCRIPTS, newest
from storage.migrations import SchemaError as SchemaError
from storage.transaction import Trace, Transaction


class Store:
    """One SQLite database. `open()` locks it for this process and brings the schema up to date."""

    def __init__(
        self,
        url: str,
        *,
        key: bytes | None = None,
        under: Under = dict,
        told: Callable[[Sequence[Appended]], None] = audit_log.tell,
    ) -> None:
        """Name the database; ValueError unless `url` is an SQLAlchemy URL of an SQLite file.

        `key`: behind fingerprints and the audit; None: the one in the file beside the database.
        `under`: what the audit says to hold at each decision. `told` is told of its rows once they
        are committed, and raises nothing.
        """
        parsed = make_url(url)
        if (
            parsed.get_backend_name() != "sqlite"
            or not parsed.database
            or parsed.database == ":memory:"
        ):
            raise ValueError("DATABASE_URL must name an SQLite file, e.g. sqlite:///countersign.db")
        self.path = Path(parsed.database)
        self._file = self.path  # as SQLite knows it once it is open, links followed
        self.engine: Engine = create_engine(
            url,
            poolclass=NullPool,
            connect_args={"check_same_thread": False},
            hide_parameters=True,  # errors are logged
        )
        sqlite.prepare(self.engine)
        self._keep_connections()
        self._writer = threading.Lock()
        self._soft = False  # something committed may not be on the disk yet
        self._lock: IO[Any] | None = None
        self.trace: Trace | None = None  # watches every transaction from now on
        self._key, self._under, self._told = key, under, told
        self.chain = Chain(key or b"", under)
        self._note: HeadFile | None = None  # None: nothing is noted
        self._head: Head | None = None  # of the last commit with an audit row
        self.astray = ""  # why the rows are not those of this record's last life

    def open(self, *, exclusive: bool = True) -> Store:
        """Lock (AlreadyRunningError when taken), migrate (SchemaError when newer), return self.

        Raises SchemaError for another application's file, which is left as it is, and KeyFileError
        for a key file without a key.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.resolve()
        if self._file.exists() and sqlite.is_foreign(self._file):
            raise SchemaError(foreign(self.path))
        if exclusive:
            self._lock = sqlite.lock(self.path)
        try:
            if self._key is None:
                self._key = load_key(key_path(self.path))
            self.chain = Chain(self._key, self._under)
            sqlite.create(self._file)
            migrate(self)
            sqlite.make_private(self._file)
            note = HeadFile(head_path(self.path), self.chain)
            with self.read() as tx:
                self.astray = _copied(tx) or note.contradicts(tx)
            self._note = None if self.astray else note
            if exclusive and not self.astray:
                note.begin_unless_there()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def key(self) -> bytes:
        """The key behind fingerprints and the audit; ValueError before `open` where none is set."""
        if self._key is None:
            raise ValueError("the database is not open")
        return self._key

    def accept(self) -> None:
        """The rows count from now on, though they were `astray`: what that takes has been done."""
        with self._writer:
            self.astray = ""
            self._note = HeadFile(head_path(self.path), self.chain)
            self._note.begin(self._head or Head())

    def _on_disk(self) -> None:
        """All that was committed is: the head may be noted."""
        self._soft = False
        if self._note is not None and self._head is not None:
            self._note.keep(self._head)

    def close(self) -> None:
        """Give back connections and the lock."""
        self.engine.dispose()
        if self._note is not None:
            with suppress(OSError):  # then the note stays behind
                sqlite.sync(self._file)
                self._on_disk()
            self._note.close()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextmanager
    def write(self, *, durable: bool = True, told: bool = True) -> Iterator[Transaction]:
        """A transaction that may write; commits at the end, rolls back on an exception.

        One that is not `durable` outlives this process, but not a power failure before the next
        durable one (which takes all earlier ones along) or `harden`: for steps of which nobody
        outside has been told anything. A process that shares its database commits durably always,
        for it cannot know what the others tell.

        With `told=False` not even `harden` waits for it: what it says can be found out again.
        """
        soft = not durable and self._lock is not None
        with self._writer:
            tx = self._begin("BEGIN IMMEDIATE", writes=True, durable=not soft)
            if self._lock is not None:  # then nobody else has appended since
                tx.head = self._head
            with tx:
                yield tx
            self._head = tx.head or self._head
            if soft:
                self._soft = self._soft or told
            elif tx.changed:  # one that changed nothing waited for nothing
                self._on_disk()
        self._told(tx.appended)  # only now: nobody waits for the log with the lock

    def _keep_connections(self) -> None:
        """Keep connections open between transactions, until the engine is disposed of.

        The last one given back is taken first. SQLAlchemy's pools take 15 µs for what a list does
        in one; a request has thirty transactions.
        """
        self._idle: list[PoolProxiedConnection] = []
        event.listen(self.engine, "engine_disposed", lambda _: self._close_idle())

    def _close_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _give_back(self, connection: PoolProxiedConnection) -> None:
        self._idle.append(connection)

    def read(self) -> Transaction:
        """A consistent snapshot for reading, to be used in a `with`."""
        return self._begin("BEGIN DEFERRED")

    def _begin(self, begin: str, *, writes: bool = False, durable: bool = False) -> Transaction:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self.engine.raw_connection()
        try:
            if writes:
                raw: Any = connection.driver_connection
                sqlite.wait_for_the_disk(raw, wait=durable)
            tx = Transaction(
                connection,
                self._give_back,
                self.engine.dialect,
                self.trace,
                self.chain,
                writes=writes,
                durable=durable,
            )
            tx.command(begin)
        except BaseException:
            connection.close()
            raise
        return tx

    def harden(self) -> None:
        """Return once all that was committed is on the disk: before anybody outside is told."""
        with self._writer:
            if self._soft:
                sqlite.sync(self._file)
                self._on_disk()


def _copied(tx: Transaction) -> str:
    """What the record says of itself (`storage.copies`) where it is a copy; "" where it is none."""
    found = tx.exec_driver_sql("SELECT why FROM copied ORDER BY seq LIMIT 1").scalar()
    return str(found or "")


def foreign(path: Path) -> str:
    """What to say of another application's file."""
    return f"{path} is the database of another application; name one of its own in DATABASE_URL"


def migrate(store: Store, scripts: Path | str = SCRIPTS) -> None:
    """Bring the schema to the newest revision in `scripts`; a file with rows is copied first.

    Raises SchemaError for a database that a newer Countersign wrote.
    """
    scripts = Path(scripts)
    current, target = version(store), newest(scripts)
    if current == target:
        return
    # only now: importing Alembic takes a third of a second
    from storage.upgrade import upgrade

    upgrade(store.engine, store.path, current, scripts, target)


def version(store: Store) -> str | None:
    """The schema's revision; None where the database is empty."""
    try:
        with store.read() as tx:
            found = tx.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    except OperationalError as error:
        if "no such table" not in str(error.orig):
            raise
        return None
    return None if found is None else str(found)
