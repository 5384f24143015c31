"""`countersign backup` and `restore`: whole or not there, nothing lost, and what is refused."""

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


def written(path: Path, sql: str) -> None:
    """Write to a database past all doors."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table in ("audit", "revision", "item"):
            for change in ("update", "delete"):
                db.execute(f"DROP TRIGGER IF EXISTS {table}_no_{change}")
        db.executescript(sql)


def rows(path: Path, table: str = "audit") -> int:
    """How many rows there are."""
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def names(folder: Path) -> set[str]:
    """What lies there, but for the lock and what SQLite lays beside a file that it reads."""
    passing = ("-wal", "-shm", ".lock")
    return {each.name for each in folder.iterdir() if not each.name.endswith(passing)}


def key_of(record: Path) -> str:
    """The key in the file beside the record."""
    return record.with_name("countersign.db.key").read_text()


def test_all_of_the_record_is_in_one_file(record: Path, capsys: Output) -> None:
    """It says how much, that it is sound, and loudly that the key is not in it."""
    before = names(record.parent)
    assert main(["backup", "b.db"]) == 0
    backup = record.with_name("b.db")
    told = capsys.readouterr().out
    assert f"1 request, 1 call, {rows(record)} rows of the audit" in told
    assert (
        f"Sound: {rows(record)} rows under the key {compute_key_id(key_of(record).encode())}."
        in told
    )
    assert "The key is NOT in it. Keep countersign.db.key elsewhere" in told
    assert names(record.parent) == before | {"b.db"}
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
    assert key_of(record).encode() not in backup.read_bytes()


def test_a_backup_is_taken_beside_a_working_bot(record: Path, capsys: Output) -> None:
    """It waits for nobody who writes, and nobody waits for it; it has what was committed."""
    store = Store(f"sqlite:///{record}").open()
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE run SET error = 'half done'")
        assert main(["backup", "b.db"]) == 0
    store.close()
    with closing(sqlite3.connect("b.db")) as db:
        assert db.execute("SELECT error FROM run").fetchone() == ("",)


def test_a_backup_writes_over_nothing(record: Path, capsys: Output) -> None:
    """A file of that name stays as it is, and nothing else is left."""
    record.with_name("b.db").write_text("precious")
    before = names(record.parent)
    assert main(["backup", "b.db"]) == 1
    assert "b.db already exists" in capsys.readouterr().err
    assert record.with_name("b.db").read_text() == "precious"
    assert names(record.parent) == before


def test_nothing_is_backed_up_where_it_cannot_be(record: Path, capsys: Output) -> None:
    """No folder, no record, no key, another database: a sentence each, and no file."""
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


def test_a_record_that_is_not_sound_is_backed_up_and_told(record: Path, capsys: Output) -> None:
    """Better that than none; the exit code says that somebody has to look.

    It can be put back as it was, and not where more has been changed since.
    """
    written(record, "UPDATE audit SET actor = 'UEVE00001' WHERE seq = 3")
    assert main(["backup", "b.db"]) == 1
    told = capsys.readouterr()
    assert "Backed up to b.db" in told.out
    assert "NOT SOUND, as it was when it was written: row 3 of the audit was changed" in told.err
    assert main(["restore", "b.db"]) == 0
    assert "NOT SOUND, as it was when it was written: row 3" in capsys.readouterr().err
    written(Path("b.db"), "UPDATE audit SET actor = 'UEVE00001' WHERE seq = 2")
    assert main(["restore", "b.db"]) == 1
    told = capsys.readouterr()
    assert "b.db is not sound:\n  row 2 of the audit was changed" in told.err


def test_a_damaged_record_is_not_backed_up(record: Path, capsys: Output) -> None:
    """What cannot be read is said, and older backups are to be kept."""
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
def test_what_was_put_back_can_be_verified_at_once(
    record: Path, backup: Path, elsewhere: bool, capsys: Output
) -> None:
    """Before anybody starts on it: it says itself how far it had come, whatever lies beside it."""
    assert main(["restore", str(backup)]) == 0
    if elsewhere:
        audit_head_file_path(record).unlink()
    capsys.readouterr()
    assert main(["audit", "verify"]) == 0
    told = capsys.readouterr().out
    assert "no bot has been started on it yet" in told
    assert f"Sound: {rows(backup)} rows" in told


def test_a_backup_is_put_back(record: Path, backup: Path, capsys: Output) -> None:
    """What was there is kept beside it; the start takes the record for an older one, once."""
    before = names(record.parent)
    assert main(["restore", str(backup)]) == 0
    told = capsys.readouterr().out
    assert f"Restored from {backup}: 1 request, 1 call, {rows(backup)} rows of the audit." in told
    assert f"Sound: {rows(backup)} rows" in told
    [aside] = names(record.parent) - before
    assert f"The earlier record is kept as {record.parent / aside}" in told
    assert (rows(record, "run"), rows(record.with_name(aside), "run")) == (1, 2)
    assert oct(record.stat().st_mode & 0o777) == "0o600"
    for restored in (1, 1):
        harness = LoopHarness(record)
        assert sum(row.event == "record.restored" for row in harness.all()[2]) == restored
        harness.stop()
    assert main(["audit", "verify"]) == 0
    assert rows(record, "copied") == 0


def test_a_backup_that_is_only_copied_is_known_for_one(record: Path, backup: Path) -> None:
    """Also with a head file that agrees with it: it says itself what it is."""
    record.with_name("countersign.db.head").unlink()
    shutil.copyfile(backup, record)
    store = Store(f"sqlite:///{record}").open()
    assert store.mismatch_reason.startswith("it is the backup of 20")
    store.close()


def test_beside_a_bot_nothing_is_put_back(record: Path, backup: Path, capsys: Output) -> None:
    """The bot has to be stopped, and so has whoever reads the record."""
    with lock_database(record):
        assert main(["restore", str(backup)]) == 1
    assert "already running" in capsys.readouterr().err
    assert rows(record, "run") == 2


def changed(sql: str) -> Callable[[Path], object]:
    """Somebody has done this to the backup."""
    return lambda path: written(path, sql)


def cut_short(path: Path) -> None:
    """The disk was full while it was copied elsewhere."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def foreign(path: Path) -> None:
    """The database of something else."""
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE ledger (a)")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut short": (cut_short, "is damaged"),
    "a text": (lambda path: path.write_text("once upon a time"), "is damaged, or not a backup"),
    "empty": (lambda path: path.write_bytes(b""), "holds no record"),
    "foreign": (foreign, "is the database of another application"),
    "missing": (lambda path: path.unlink(), "there is no file"),
    "newer": (
        changed("UPDATE alembic_version SET version_num = '8888'"),
        "was written by a newer Countersign (schema 8888); upgrade this one",
    ),
    "a row changed": (
        changed("UPDATE audit SET actor = 'UEVE00001' WHERE seq = 3"),
        "row 3 of the audit was changed",
    ),
    "rows cut off": (
        changed("DELETE FROM audit WHERE seq > 4"),
        "rows are missing at its end",
    ),
    "what was said taken out": (changed("DELETE FROM item WHERE seq = 1"), "rows in item"),
    "what it says about itself changed": (
        changed("UPDATE copied SET counts = '{}'"),
        "what it says about itself was changed",
    ),
    "a status changed": (
        changed("UPDATE call SET status = 'pending'"),
        "is pending, and the audit does not say so",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_sound_backup_is_refused(
    record: Path, backup: Path, capsys: Output, what: str
) -> None:
    """Each in a sentence; the record stays, and nothing is left behind."""
    harm, sentence = REFUSED[what]
    harm(backup)
    before, bytes_before = names(record.parent), record.read_bytes()
    assert main(["restore", str(backup)]) == 1
    told = capsys.readouterr().err
    assert told.startswith("Nothing was restored: ")
    assert sentence in told
    assert (names(record.parent), record.read_bytes()) == (before, bytes_before)


@pytest.mark.parametrize("what", ["their database", "a folder"])
def test_nothing_of_others_makes_room_for_a_record(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output, what: str
) -> None:
    """A setting that names another application's database, or a folder, by mistake."""
    theirs = tmp_path / "theirs" / "shop.db"
    theirs.mkdir(parents=True)
    if what == "their database":
        theirs.rmdir()
        theirs.touch()
        foreign(theirs)
    before = theirs.is_file() and theirs.read_bytes()
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{theirs}")
    assert main(["restore", str(backup)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"Nothing was restored: {theirs} is ")
    assert "in DATABASE_URL" in told
    assert (names(theirs.parent), theirs.is_file() and theirs.read_bytes()) == ({"shop.db"}, before)


def test_the_record_is_no_backup_of_itself(record: Path, capsys: Output) -> None:
    """Somebody mistook the one for the other."""
    assert main(["restore", "countersign.db"]) == 1
    assert "is the record itself" in capsys.readouterr().err


def test_a_copy_made_by_hand_is_put_back(record: Path, capsys: Output) -> None:
    """As `VACUUM INTO` makes one, or a migration; what it cannot say is said."""
    with closing(sqlite3.connect(record)) as db:
        db.execute("VACUUM INTO 'hand.db'")
    assert main(["restore", "hand.db"]) == 0
    assert "missing rows at its end cannot be detected" in capsys.readouterr().out
    store = Store(f"sqlite:///{record}").open()
    assert store.mismatch_reason == "it is a copy of a database"
    store.close()
