"""The database, its log or its index is lost or changed while open: nothing is stored then."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from storage import inbox, trail
from storage.database_errors import is_temporary_database_error
from storage.store import Store
from storage.transaction import Trace, Transaction
from tests.storage.builders import AT, delivery

pytestmark = pytest.mark.file


def append_audit_row(tx: Transaction) -> None:
    """Append a row to the audit."""
    trail.record_event(tx, "noted", at=AT, actor="nobody")


def store_delivery(store: Store, name: str) -> None:
    """Store one delivery."""
    with store.write() as tx:
        inbox.insert_delivery(tx, delivery(name, "event"))


def count_deliveries(path: Path) -> int:
    """How many deliveries the record at `path` has at the next start."""
    with closing(Store(f"sqlite:///{path}").open()) as store, store.read() as tx:
        return int(tx.exec_driver_sql("SELECT count(*) FROM delivery").scalar() or 0)


def checkpoint_log(store: Store) -> None:
    """Write the log back into the database, so that it begins again."""
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("PRAGMA wal_checkpoint")


def make_other_application(path: Path) -> Path:
    """A database of another application."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE cars (id)")
        made.commit()
    return path


def make_other_record(folder: Path) -> Path:
    """The record of another Countersign."""
    folder.mkdir()
    Store(f"sqlite:///{folder / 'other.db'}").open().close()
    return folder / "other.db"


def overwritten(path: Path, source: Path) -> None:
    """Overwrite the content as `cp` does; the file stays the same one."""
    path.write_bytes(source.read_bytes())


def removed(path: Path) -> None:
    path.unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def moved_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))


def copied_folder(path: Path) -> None:
    moved = path.parent.with_name("moved")
    path.parent.rename(moved)
    shutil.copytree(moved, path.parent)


def replaced_by_another(path: Path) -> None:
    make_other_application(path.with_name("cars.db")).replace(path)


def replaced_by_a_record(path: Path) -> None:
    make_other_record(path.with_name("other")).replace(path)


def replaced_by_its_copy(path: Path) -> None:
    shutil.copyfile(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def overwritten_by_another(path: Path) -> None:
    overwritten(path, make_other_application(path.with_name("cars.db")))


def overwritten_by_a_record(path: Path) -> None:
    overwritten(path, make_other_record(path.with_name("other")))


def overwritten_by_an_older_copy(path: Path) -> None:
    overwritten(path, path.with_name("older.db"))


def overwritten_by_zeroes(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_by_a_page(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def without_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def another_log(path: Path) -> None:
    without_log(path)
    Path(f"{path}-wal").touch()


def emptied_log(path: Path) -> None:
    os.truncate(f"{path}-wal", 0)


def cut_log(path: Path) -> None:
    os.truncate(f"{path}-wal", 1000)


def without_index(path: Path) -> None:
    Path(f"{path}-shm").unlink()


def made_read_only(path: Path) -> None:
    path.chmod(0o400)


LOST: list[Callable[[Path], None]] = [
    removed,
    renamed,
    moved_folder,
    copied_folder,
    replaced_by_another,
    replaced_by_a_record,
    replaced_by_its_copy,
    overwritten_by_another,
    overwritten_by_a_record,
    overwritten_by_an_older_copy,
    overwritten_by_zeroes,
    emptied,
    cut_in_half,
    cut_by_a_page,
    without_log,
    another_log,
    emptied_log,
    cut_log,
    without_index,
    made_read_only,
]


@pytest.fixture
def open_store(tmp_path: Path) -> Store:
    """A record in a folder of its own, with an older copy beside it, and something in its log."""
    folder = tmp_path / "record"
    folder.mkdir()
    store = Store(f"sqlite:///{folder / 'countersign.db'}").open()
    store_delivery(store, "first")
    checkpoint_log(store)
    shutil.copyfile(store.path, folder / "older.db")
    with store.write() as tx:
        inbox.insert_delivery(tx, delivery("second", "event"))
        append_audit_row(tx)
    checkpoint_log(store)
    store_delivery(store, "third")
    return store


@pytest.mark.parametrize("lose", LOST)
def test_nothing_is_stored_once_the_file_is_lost(
    open_store: Store, lose: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The next commit fails with a temporary error, and one log line says what to do."""
    lose(open_store.path)
    for _ in range(2):
        with pytest.raises(OperationalError) as failed:
            store_delivery(open_store, "never")
        assert is_temporary_database_error(failed.value)
    told = [each for each in caplog.records if each.levelname == "CRITICAL"]
    assert len(told) == 1
    assert "nothing is stored and nothing runs until" in told[0].getMessage()
    assert "start" in told[0].getMessage()
    open_store.close()


@pytest.mark.parametrize("lose", LOST)
def test_commits_that_were_not_waited_for_are_checked_before_use(
    open_store: Store, lose: Callable[[Path], None]
) -> None:
    """A commit that waits for no disk is accepted, but the wait before anybody is told fails."""
    with open_store.write(durable=False) as tx:
        inbox.insert_delivery(tx, delivery("soft", "event"))
    lose(open_store.path)
    with pytest.raises(OperationalError):
        open_store.sync_commits()
    open_store.close()


class ActBeforeCommit(Trace):
    """Does something just before the commit of a transaction."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act

    def before_commit(self, tx: Transaction) -> None:
        """Do it once."""
        if tx.writes and self.act is not None:
            self.act()
            self.act = None


@pytest.mark.parametrize("lose", [removed, without_log, replaced_by_its_copy])
def test_a_file_lost_during_a_transaction_is_noticed_at_its_commit(
    open_store: Store, lose: Callable[[Path], None]
) -> None:
    """Its last statement was executed already."""
    open_store.trace = ActBeforeCommit(lambda: lose(open_store.path))
    with pytest.raises(OperationalError, match="nothing is stored"):
        store_delivery(open_store, "never")
    open_store.trace = None
    open_store.close()


def test_a_lost_file_is_not_created_again(open_store: Store) -> None:
    """With all connections in use, a new one would create an empty database at the path."""
    with open_store.read():
        removed(open_store.path)
        with pytest.raises(OperationalError, match="is gone"), open_store.read(), open_store.read():
            pass
    assert not open_store.path.exists()
    open_store.close()


@pytest.mark.parametrize("there_and_back", [renamed, moved_folder, made_read_only])
def test_work_goes_on_once_the_file_is_put_back(
    open_store: Store, there_and_back: Callable[[Path], None]
) -> None:
    """It has to be the same file at the same place."""
    there_and_back(open_store.path)
    with pytest.raises(OperationalError):
        store_delivery(open_store, "never")
    if there_and_back is renamed:
        open_store.path.with_name("elsewhere.db").rename(open_store.path)
    elif there_and_back is moved_folder:
        open_store.path.parent.with_name("moved").rename(open_store.path.parent)
    else:
        open_store.path.chmod(0o600)
    store_delivery(open_store, "fourth")
    open_store.close()
    assert count_deliveries(open_store.path) == 4


@pytest.mark.parametrize("lose", [without_log, another_log, without_index])
def test_the_content_of_a_lost_log_is_saved(
    open_store: Store, lose: Callable[[Path], None]
) -> None:
    """The open log is written back at once, so a killed process loses nothing."""
    lose(open_store.path)
    with pytest.raises(OperationalError, match="is saved"):
        store_delivery(open_store, "never")
    alone = open_store.path.with_name("alone.db")
    shutil.copyfile(open_store.path, alone)
    with closing(sqlite3.connect(alone)) as found:
        assert found.execute("SELECT count(*) FROM delivery").fetchone() == (3,)
    open_store.close()
    assert count_deliveries(open_store.path) == 3


def touched(path: Path) -> None:
    os.utime(path)


def read_by_another(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT * FROM delivery").fetchall()


def written_by_another(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE delivery SET note = 'seen'")
        other.commit()
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def made_smaller(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA secure_delete=OFF")
        other.execute("CREATE TABLE much (text)")
        other.executemany("INSERT INTO much VALUES (?)", [("x" * 4000,)] * 400)
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.execute("DROP TABLE much")
        other.execute("VACUUM")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def copied_away(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("VACUUM INTO ?", (str(path.with_name("backup.db")),))


@pytest.mark.parametrize(
    "act", [touched, read_by_another, written_by_another, made_smaller, copied_away]
)
def test_other_programs_may_use_the_file_through_sqlite(
    open_store: Store, act: Callable[[Path], None]
) -> None:
    """They may read, checkpoint, pack and copy it."""
    store_delivery(open_store, "fourth")
    act(open_store.path)
    store_delivery(open_store, "fifth")
    open_store.close()
    assert count_deliveries(open_store.path) == 5


def test_our_own_checkpoints_are_not_taken_for_a_loss(open_store: Store) -> None:
    """The database changes whenever the log is written back."""
    for number in range(40):
        with open_store.write() as tx:
            inbox.insert_delivery(
                tx, delivery(f"long {number}", "event", body=f'"{"x" * 200_000}"')
            )
            append_audit_row(tx)
    open_store.close()
    assert count_deliveries(open_store.path) == 43


def test_a_log_written_back_in_part_is_not_taken_for_a_loss(store: Store) -> None:
    """SQLite may do so while somebody reads: the database alone is neither old nor new."""
    for number in range(60):
        with closing(sqlite3.connect(store.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM audit").fetchone()
            for each in range(6):
                with store.write() as tx:
                    append_audit_row(tx)
                    inbox.insert_delivery(tx, delivery(f"{number}-{each}", "event"))
            checkpoint_log(store)
            store_delivery(store, f"{number}-then")
            reader.execute("ROLLBACK")
    with store.read() as tx:
        assert tx.exec_driver_sql("SELECT count(*) FROM delivery").scalar() == 60 * 7
