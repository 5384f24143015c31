"""`countersign backup` and `restore`: complete or not made, nothing lost, and what is refused."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from countersign.cli.commands import main
from storage.digest import compute_key_id
from storage.record_copies import list_record_tables as poured
from storage.sqlite import lock_database
from storage.store import Store
from storage.trail import audit_head_file_path
from tests.runs.harness import LoopHarness

Output = pytest.CaptureFixture[str]


def change_database(path: Path, sql: str) -> None:
    """Change a database directly, without its triggers."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table in ("audit", "revision", "item"):
            for change in ("update", "delete"):
                db.execute(f"DROP TRIGGER IF EXISTS {table}_no_{change}")
        db.executescript(sql)


def count_rows(path: Path, table: str = "audit") -> int:
    """Count the rows of a table."""
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def list_names(folder: Path) -> set[str]:
    """List the files there, except locks and SQLite's own files beside a database."""
    passing = ("-wal", "-shm", ".lock")
    return {each.name for each in folder.iterdir() if not each.name.endswith(passing)}


def read_key(record: Path) -> str:
    """Read the key in the file beside the record."""
    return record.with_name("countersign.db.key").read_text()


def test_a_backup_has_the_whole_record_in_one_file(record: Path, capsys: Output) -> None:
    """The output counts the rows, says that it is sound, and that the key is not in it."""
    before = list_names(record.parent)
    assert main(["backup", "b.db"]) == 0
    backup = record.with_name("b.db")
    told, key_id = capsys.readouterr().out, compute_key_id(read_key(record).encode())
    assert f"1 request, 1 call, {count_rows(record)} rows of the audit" in told
    assert f"Sound: {count_rows(record)} rows. The key in use is {key_id}." in told
    assert "The key is NOT in it. Keep countersign.db.key elsewhere" in told
    assert list_names(record.parent) == before | {"b.db"}
    assert oct(backup.stat().st_mode & 0o777) == "0o600"
    with closing(sqlite3.connect(record)) as db, closing(sqlite3.connect(backup)) as copy:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        assert tables == {name for (name,) in copy.execute("SELECT name FROM sqlite_master")}
        apart = {"copied", "replica", "lane", "pause", "alembic_version"}
        made = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        assert {each.name for each in poured()} == {name for (name,) in made} - apart
        for table in (name for name in tables if not name.startswith(("ix_", "sqlite_", "copied"))):
            if not table.endswith(("_no_update", "_no_delete")):
                everything = f'SELECT * FROM "{table}" ORDER BY 1'
                assert db.execute(everything).fetchall() == copy.execute(everything).fetchall()
    assert read_key(record).encode() not in backup.read_bytes()


def test_a_backup_is_made_beside_a_working_bot(record: Path, capsys: Output) -> None:
    """It waits for no writer, and has what was committed."""
    store = Store(f"sqlite:///{record}").open()
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE run SET error = 'half done'")
        assert main(["backup", "b.db"]) == 0
    store.close()
    with closing(sqlite3.connect("b.db")) as db:
        assert db.execute("SELECT error FROM run").fetchone() == ("",)


def test_a_backup_overwrites_no_file(record: Path, capsys: Output) -> None:
    """An existing file of that name is unchanged, and no other file is left."""
    record.with_name("b.db").write_text("precious")
    before = list_names(record.parent)
    assert main(["backup", "b.db"]) == 1
    assert "b.db already exists" in capsys.readouterr().err
    assert record.with_name("b.db").read_text() == "precious"
    assert list_names(record.parent) == before


def test_a_backup_that_cannot_be_made_says_why(record: Path, capsys: Output) -> None:
    """There is no folder, no key or no record; no file is made."""
    assert main(["backup", "nowhere/b.db"]) == 1
    assert "nowhere" in capsys.readouterr().err
    key = record.with_name("countersign.db.key")
    key.rename("away")
    assert main(["backup", "b.db"]) == 1
    assert "the record is sealed with the key" in capsys.readouterr().err
    Path("away").rename(key)
    record.rename("moved.db")
    assert main(["backup", "b.db"]) == 1
    assert "there is no database at countersign.db" in capsys.readouterr().err
    assert not Path("b.db").exists()


def test_a_record_that_is_not_sound_is_backed_up_with_a_warning(
    record: Path, capsys: Output
) -> None:
    """The exit code is 1. The backup can be restored, unless it has been changed since."""
    change_database(record, "UPDATE audit SET actor = 'UEVE00001' WHERE seq = 3")
    assert main(["backup", "b.db"]) == 1
    told = capsys.readouterr()
    assert "Backed up to b.db" in told.out
    assert "NOT SOUND, as it was when it was written: row 3 of the audit was changed" in told.err
    assert main(["restore", "b.db"]) == 0
    assert "NOT SOUND, as it was when it was written: row 3" in capsys.readouterr().err
    change_database(Path("b.db"), "UPDATE audit SET actor = 'UEVE00001' WHERE seq = 2")
    assert main(["restore", "b.db"]) == 1
    told = capsys.readouterr()
    assert "b.db is not sound:\n  row 2 of the audit was changed" in told.err


def test_a_damaged_record_is_not_backed_up(record: Path, capsys: Output) -> None:
    """The output says what cannot be read."""
    with closing(sqlite3.connect(record)) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'audit'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with record.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    assert main(["backup", "b.db"]) == 1
    assert "the record cannot be read (audit: database disk image" in capsys.readouterr().err
    assert not Path("b.db").exists()


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in its place", "on another machine"])
def test_a_restored_record_can_be_verified_before_a_start(
    record: Path, backup: Path, elsewhere: bool, capsys: Output
) -> None:
    """The backup itself says how many rows it has, whatever files are beside it."""
    assert main(["restore", str(backup)]) == 0
    if elsewhere:
        audit_head_file_path(record).unlink()
    capsys.readouterr()
    assert main(["audit", "verify"]) == 0
    told = capsys.readouterr().out
    assert "no bot has been started on it yet" in told
    assert f"Sound: {count_rows(backup)} rows" in told


def test_a_backup_is_restored(record: Path, backup: Path, capsys: Output) -> None:
    """The earlier record is kept beside it. The next start notices once that it was restored."""
    before = list_names(record.parent)
    assert main(["restore", str(backup)]) == 0
    told = capsys.readouterr().out
    assert (
        f"Restored from {backup}: 1 request, 1 call, {count_rows(backup)} rows of the audit."
        in told
    )
    assert f"Sound: {count_rows(backup)} rows" in told
    [aside] = list_names(record.parent) - before
    assert f"The earlier record is kept as {record.parent / aside}" in told
    assert (count_rows(record, "run"), count_rows(record.with_name(aside), "run")) == (1, 2)
    assert oct(record.stat().st_mode & 0o777) == "0o600"
    for restored in (1, 1):
        harness = LoopHarness(record)
        assert sum(row.event == "record.restored" for row in harness.all()[2]) == restored
        harness.stop()
    assert main(["audit", "verify"]) == 0
    assert count_rows(record, "copied") == 0


def test_a_backup_that_was_only_copied_is_recognised(record: Path, backup: Path) -> None:
    """The file itself says that it is a backup; there is no head file."""
    record.with_name("countersign.db.head").unlink()
    shutil.copyfile(backup, record)
    store = Store(f"sqlite:///{record}").open()
    assert store.mismatch_reason.startswith("it is the backup of 20")
    store.close()


def test_nothing_is_restored_beside_a_running_bot(
    record: Path, backup: Path, capsys: Output
) -> None:
    """The bot has to be stopped first."""
    with lock_database(record):
        assert main(["restore", str(backup)]) == 1
    assert "already running" in capsys.readouterr().err
    assert count_rows(record, "run") == 2


def make_change(sql: str) -> Callable[[Path], object]:
    """Make a function that changes the backup by SQL."""
    return lambda path: change_database(path, sql)


def cut_file(path: Path) -> None:
    """Cut the file, as if the disk had been full while it was copied."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def replace_by_foreign_database(path: Path) -> None:
    """Replace the file by another application's database."""
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE ledger (a)")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut short": (cut_file, "is damaged"),
    "a text": (lambda path: path.write_text("once upon a time"), "is damaged, or not a backup"),
    "empty": (lambda path: path.write_bytes(b""), "holds no record"),
    "foreign": (replace_by_foreign_database, "is the database of another application"),
    "missing": (lambda path: path.unlink(), "there is no file"),
    "newer": (
        make_change("UPDATE alembic_version SET version_num = '8888'"),
        "was written by a newer Countersign (schema 8888); upgrade this one",
    ),
    "a row changed": (
        make_change("UPDATE audit SET actor = 'UEVE00001' WHERE seq = 3"),
        "row 3 of the audit was changed",
    ),
    "rows cut off": (
        make_change("DELETE FROM audit WHERE seq > 4"),
        "rows are missing at its end",
    ),
    "what was said taken out": (make_change("DELETE FROM item WHERE seq = 1"), "rows in item"),
    "what it says about itself changed": (
        make_change("UPDATE copied SET counts = '{}'"),
        "what it says about itself was changed",
    ),
    "a status changed": (
        make_change("UPDATE call SET status = 'pending'"),
        "is pending, and the audit does not say so",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_damaged_or_changed_backup_is_refused(
    record: Path, backup: Path, capsys: Output, what: str
) -> None:
    """The error is a sentence. The record is unchanged, and no file is left."""
    harm, sentence = REFUSED[what]
    harm(backup)
    before, bytes_before = list_names(record.parent), record.read_bytes()
    assert main(["restore", str(backup)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Nothing was restored: ")
    assert sentence in told
    assert (list_names(record.parent), record.read_bytes()) == (before, bytes_before)


@pytest.mark.parametrize("what", ["their database", "a folder"])
def test_restore_does_not_replace_foreign_files(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output, what: str
) -> None:
    """A setting names another application's database, or a folder, by mistake."""
    theirs = tmp_path / "theirs" / "shop.db"
    theirs.mkdir(parents=True)
    if what == "their database":
        theirs.rmdir()
        theirs.touch()
        replace_by_foreign_database(theirs)
    before = theirs.is_file() and theirs.read_bytes()
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{theirs}")
    assert main(["restore", str(backup)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"Nothing was restored: {theirs} is ")
    assert "in DATABASE_URL" in told
    assert (list_names(theirs.parent), theirs.is_file() and theirs.read_bytes()) == (
        {"shop.db"},
        before,
    )


def test_the_record_itself_cannot_be_restored(record: Path, capsys: Output) -> None:
    """Somebody gave it instead of the backup."""
    assert main(["restore", "countersign.db"]) == 1
    assert "is the record itself" in capsys.readouterr().err


def test_a_copy_made_with_vacuum_into_can_be_restored(record: Path, capsys: Output) -> None:
    """The output says that missing rows at its end cannot be detected."""
    with closing(sqlite3.connect(record)) as db:
        db.execute("VACUUM INTO 'hand.db'")
    assert main(["restore", "hand.db"]) == 0
    assert "missing rows at its end cannot be detected" in capsys.readouterr().out
    store = Store(f"sqlite:///{record}").open()
    assert store.mismatch_reason == "it is a copy of a database"
    store.close()
