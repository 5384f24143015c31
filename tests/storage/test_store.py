"""The database: pragmas, waiting writers, one process at a time, and refused files."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta, timezone
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import format_exception
from typing import Any

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError, StatementError

from storage import inbox
from storage.backend import build_local_path
from storage.columns import get_column_values
from storage.models import Call, Delivery, Run, new_id
from storage.sqlite import AlreadyRunningError
from storage.store import ReadOnlyStore, Store, StoreClosedError
from storage.transaction import fetch_rows
from tests.pages import ROOT
from tests.proof.crash.world import can_mount, mount, unmount
from tests.storage.builders import AT, TEAM, delivery, seed

FORKS = multiprocessing.get_context("forkserver")  # a process without threads forks the others
FORKS.set_forkserver_preload(["__main__", __name__])


def list_keys(store: Store) -> list[str]:
    """The keys in the inbox."""
    with store.read() as tx:
        return [each.key for each in inbox.list_new_deliveries(tx)]


def store_delivery(store: Store, key: str) -> None:
    """Store one delivery."""
    with store.write() as tx:
        inbox.insert_delivery(tx, delivery(key))


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://u@h/d", "countersign.db"]
)
def test_only_an_sqlite_file_or_postgresql_is_accepted(url: str) -> None:
    """A database that would not outlive the process is refused."""
    with pytest.raises(ValueError, match=r"SQLite file, .* or a PostgreSQL database"):
        Store(url)


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("recursive_triggers", 1),
        ("busy_timeout", 10_000),
    ],
)
def test_every_connection_has_the_pragmas(store: Store, pragma: str, value: object) -> None:
    """The promises rest on them; ten connections are open at once."""
    open_now = [store.engine.connect() for _ in range(10)]
    try:
        assert {each.exec_driver_sql(f"PRAGMA {pragma}").scalar() for each in open_now} == {value}
    finally:
        for each in open_now:
            each.close()


def test_foreign_keys_are_enforced(store: Store) -> None:
    """A call of no run is refused, and a run with calls cannot be deleted."""
    seeded = seed(store)
    row = seeded.call()
    row.id, row.run_id = new_id(), "nobody"
    with pytest.raises(IntegrityError), store.write() as tx:
        tx.execute(insert(Call).values(get_column_values(row)))
    with pytest.raises(IntegrityError), store.write() as tx:
        tx.exec_driver_sql("DELETE FROM run")


def test_a_reader_that_is_never_closed_blocks_no_writer(store: Store) -> None:
    """It sees its snapshot."""
    store_delivery(store, "before")
    with store.read() as leaked:
        assert len(inbox.list_new_deliveries(leaked)) == 1
        done = threading.Event()

        def write() -> None:
            store_delivery(store, "after")
            done.set()

        threading.Thread(target=write, daemon=True).start()
        assert done.wait(30)
        assert len(inbox.list_new_deliveries(leaked)) == 1
    assert list_keys(store) == ["before", "after"]


def test_a_writer_takes_the_lock_at_its_beginning(store: Store) -> None:
    """So reading first and writing then never fails half-way."""
    with store.write() as tx:
        tx.execute(select(Run))
        with (
            closing(sqlite3.connect(store.path, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError),
        ):
            other.execute("BEGIN IMMEDIATE")
        inbox.insert_delivery(tx, delivery("mine"))
    assert list_keys(store) == ["mine"]


def test_sixteen_writers_take_turns(store: Store) -> None:
    """Each reads a number and writes the next one, and none is lost."""
    store_delivery(store, "counter")

    def add() -> None:
        for _ in range(10):
            with store.write() as tx:
                seen = inbox.list_new_deliveries(tx)[0]
                inbox.count_failed_delivery_attempt(tx, seen, "again", limit=10**6)

    threads = [threading.Thread(target=add) for _ in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    with store.read() as tx:
        assert inbox.list_new_deliveries(tx)[0].attempts == 160


def _hold_write_lock(path: str, pipe: Pipe) -> None:
    """In another process: take the write lock, say so, release it when told."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        pipe.send("held")
        pipe.recv()
        connection.execute("COMMIT")


def test_a_writer_waits_while_another_process_writes(store: Store) -> None:
    """It returns only when the row is stored."""
    ours, theirs = FORKS.Pipe()
    process = FORKS.Process(target=_hold_write_lock, args=(str(store.path), theirs))
    process.start()
    try:
        assert ours.recv() == "held"
        done = threading.Event()

        def write() -> None:
            store_delivery(store, "patient")
            done.set()

        threading.Thread(target=write, daemon=True).start()
        assert not done.wait(0.3)
        assert list_keys(store) == []  # readers do not wait
        ours.send("let go")
        assert done.wait(9)
    finally:
        process.join(30)
    assert list_keys(store) == ["patient"]


def test_an_error_rolls_back_and_frees_the_writer_lock(store: Store) -> None:
    """The next writer does not wait."""

    def stop_half_way() -> None:
        with store.write() as tx:
            inbox.insert_delivery(tx, delivery("half"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stop_half_way()
    store_delivery(store, "whole")
    assert list_keys(store) == ["whole"]


def _open_store(path: str, pipe: Pipe) -> None:
    """In another process: open the same database."""
    try:
        Store(f"sqlite:///{path}").open().close()
        pipe.send("opened")
    except AlreadyRunningError as error:
        pipe.send(str(error))


def test_a_second_process_is_refused_until_the_first_ends(store: Store) -> None:
    """It is told that the bot is running."""
    for expected in ("Countersign is already running on", "opened"):
        ours, theirs = FORKS.Pipe()
        process = FORKS.Process(target=_open_store, args=(str(store.path), theirs))
        process.start()
        assert ours.poll(20)
        assert ours.recv().startswith(expected)
        process.join(30)
        store.close()


def test_a_second_store_in_one_process_is_refused(store: Store) -> None:
    """A reader without a lock, like the doctor, is accepted."""
    with pytest.raises(AlreadyRunningError):
        Store(f"sqlite:///{store.path}").open()
    Store(f"sqlite:///{store.path}").open(exclusive=False).close()
    assert store.path.with_name("countersign.db.lock").read_text().strip().isdigit()


def test_a_link_to_the_file_has_the_same_lock(store: Store) -> None:
    """Otherwise two processes would write it."""
    link = store.path.with_name("link.db")
    link.symlink_to(store.path)
    with pytest.raises(AlreadyRunningError):
        Store(f"sqlite:///{link}").open()


@pytest.mark.parametrize("name", ["a b", "100%25", "p%41q", "h#x", "q?y"])
def test_all_files_are_in_the_folder_that_is_named(tmp_path: Path, name: str) -> None:
    """Nothing in its name is decoded: commands find the key and the socket beside the record."""
    folder = tmp_path / name
    address = f"sqlite:///{folder / 'c.db'}"
    with closing(Store(address).open()) as store, closing(ReadOnlyStore(address)) as reader:
        store_delivery(store, "one")
        assert list_keys(reader) == ["one"]
        assert [*tmp_path.iterdir()] == [folder]
    assert store.path == build_local_path(address)
    assert {"c.db", "c.db.key", "c.db.head"} <= {each.name for each in folder.iterdir()}


def test_a_closed_store_writes_nothing_more(store: Store) -> None:
    """Another process has opened the record, and goes on with its chain."""
    store_delivery(store, "in time")
    store.close()
    with closing(Store(f"sqlite:///{store.path}").open()) as other:
        store_delivery(other, "by the next")
        with pytest.raises(StoreClosedError):
            store_delivery(store, "late")
        store_delivery(other, "by the next, too")
        assert list_keys(other) == ["in time", "by the next", "by the next, too"]


def test_missing_folders_are_created(tmp_path: Path) -> None:
    """That happens at the first start."""
    store = Store(f"sqlite:///{tmp_path}/a/b/c.db").open()
    store.close()
    assert (tmp_path / "a" / "b" / "c.db").is_file()


TIMES = [
    AT,
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2100, 2, 28, 1, 2, 3, 1, tzinfo=UTC),
    AT.astimezone(timezone(timedelta(hours=5, minutes=30))),
]


@pytest.mark.parametrize("moment", TIMES, ids=str)
def test_times_keep_their_microseconds(store: Store, moment: datetime) -> None:
    """They come back in UTC."""
    with store.write() as tx:
        inbox.insert_delivery(tx, delivery("k", at=moment))
        found = inbox.list_new_deliveries(tx)[0].received_at
    assert (found, found.tzinfo) == (moment, UTC)


def test_times_without_a_zone_and_unknown_statuses_are_refused(store: Store) -> None:
    """Such a status in the database is refused when it is read, too."""
    with pytest.raises(StatementError, match="without a zone"):
        store_delivery_at(store, AT.replace(tzinfo=None))
    seeded = seed(store)
    run = seeded.run()
    for status in ("approved", "", "READY"):
        broken: dict[str, Any] = get_column_values(run) | {"id": new_id(), "status": status}
        with pytest.raises(StatementError), store.write() as tx:
            tx.execute(insert(Run).values(broken))
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE run SET status = 'paused'")
    with pytest.raises(ValueError, match="paused"), store.read() as tx:
        fetch_rows(tx, Run, select(Run))


def store_delivery_at(store: Store, moment: datetime) -> None:
    """Store a delivery with that time."""
    with store.write() as tx:
        inbox.insert_delivery(
            tx, Delivery(key="k", kind="message", team=TEAM, user="U", received_at=moment)
        )


def test_rows_in_memory_do_not_change(store: Store) -> None:
    """A guarded update compares with what was read."""
    seeded = seed(store)
    before = seeded.run()
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE run SET fence = 77")
    assert (before.fence, seeded.run().fence) == (1, 77)


@pytest.mark.parametrize("wrong", [{"status": "nonsense"}, {"team": None}])
def test_database_errors_contain_no_values(store: Store, wrong: dict[str, object]) -> None:
    """They are logged."""
    row = get_column_values(delivery("k")) | {"body": "plum cake"} | wrong
    with pytest.raises(StatementError) as raised, store.write() as tx:
        tx.execute(insert(Delivery), row)
    assert "plum" not in "".join(format_exception(raised.value))


LOOK = """
import os
from storage.store import ReadOnlyStore

def look():
    return ReadOnlyStore("sqlite:///theirs.db").describe_read_problem()

look()  # imports what the second look needs
os.geteuid() or os.setresuid(65534, 65534, 65534)
print(look())
"""


@pytest.mark.file
def test_an_unreadable_record_is_explained_with_the_account_to_use() -> None:
    """Somebody runs a command beside a bot with an account of its own."""
    with TemporaryDirectory() as folder:
        Store(f"sqlite:///{folder}/theirs.db").open().close()
        Path(folder, "theirs.db").chmod(0)  # root could still read it
        Path(folder).chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-c", LOOK],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("theirs.db cannot be read (")
    assert done.stdout.endswith("; run this as the account that runs the bot\n")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of the test's own, with an empty record on it."""
    place = tmp_path / "disk"
    if not can_mount(place):
        pytest.skip("this user may not have a disk of its own")
    mount(place)
    try:
        Store(f"sqlite:///{place}/countersign.db").open().close()
        yield place
    finally:
        unmount(place)


@pytest.mark.file
def test_a_full_disk_is_reported_as_full(disk: Path) -> None:
    """SQLite calls it an I/O error, which sounds like a broken disk."""
    with suppress(OSError), (disk / "fill").open("wb") as filler:
        while True:
            filler.write(b"x" * 4096)
            filler.flush()
    problem = ReadOnlyStore(f"sqlite:///{disk}/countersign.db").describe_read_problem()
    assert problem.endswith("; its disk is full, so free some space there")


@pytest.mark.file
def test_a_read_only_disk_is_reported_as_read_only(disk: Path) -> None:
    """SQLite needs to write beside the file even to read it."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    problem = ReadOnlyStore(f"sqlite:///{disk}/countersign.db").describe_read_problem()
    assert problem.endswith("; its disk is read-only, so copy its files elsewhere")
