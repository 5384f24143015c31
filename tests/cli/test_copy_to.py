"""`countersign copy-to`, and `backup` and `restore` with PostgreSQL: all of it, or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from countersign.cli.commands import main
from storage import inbox, trail
from storage.digest import compute_key_id
from storage.record_copies import count_rows_by_table
from storage.sqlite import lock_database
from storage.store import Store
from tests.cli.test_backup import Output, key_of, rows
from tests.cli.test_backup_killed import NEVER, fresh, killed
from tests.postgres_server import Server, binaries, serve
from tests.runs.harness import LoopHarness
from tests.storage.builders import AT, delivery

PROGRAMS = binaries()
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One server for all."""
    assert PROGRAMS is not None
    with serve(PROGRAMS) as running:
        yield running


@pytest.fixture
def url(server: Server) -> str:
    """An empty database there."""
    server.fresh("moved")
    return server.url("moved", "owner")


def there(url: str) -> dict[str, int]:
    """How many rows each table has there; {} where there is no table yet."""
    with closing(psycopg.connect(url)) as db:
        found = db.execute("SELECT to_regclass('countersign.audit')").fetchone()
        if found == (None,):
            return {}
    with closing(Store(url, key=b"x" * 32)) as store, store.read() as tx:
        return {name: many for name, many in count_rows_by_table(tx).items() if many}


def here(record: Path) -> dict[str, int]:
    """How many rows each table of the file has."""
    with closing(Store(f"sqlite:///{record}", key=b"x" * 32)) as store, store.read() as tx:
        return {name: many for name, many in count_rows_by_table(tx).items() if many}


def on_the_server(url: str, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on commands are for the record there."""
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("COUNTERSIGN_KEY", key_of(record))


def restored(path: Path) -> int:
    """How often a start on that file has taken it for an older record."""
    harness = LoopHarness(path)
    harness.stop()
    return sum(row.event == "record.restored" for row in harness.all()[2])


def test_all_of_the_record_moves(
    record: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Every row, the numbers that go on, the triggers; and it says how to go on, and back."""
    before, key = here(record), key_of(record)
    assert main(["copy-to", url]) == 0
    told = capsys.readouterr().out
    where = "The whole record was copied, in postgresql://owner@/moved"
    assert f"{where}: 1 request, 1 call, {before['audit']} rows of the audit" in told
    assert f"Sound: {before['audit']} rows under the key {compute_key_id(key.encode())}." in told
    assert "COUNTERSIGN_KEY to the content of countersign.db.key" in told
    assert "To go back: `countersign backup` there" in told
    assert key not in told
    assert there(url) == before | {"audit": before["audit"] + 1}
    with closing(Store(url, key=key.encode()).open()) as store:
        assert store.mismatch_reason == ""
        with store.write() as tx:
            inbox.insert_delivery(tx, delivery("msg:T:C:1", at=AT))
            trail.record_event(tx, "note", at=AT, actor="system")
        for sql in ("UPDATE audit SET actor = ''", "DELETE FROM item", "TRUNCATE vote CASCADE"):
            with pytest.raises(Exception, match="append-only"), store.write() as tx:
                tx.exec_driver_sql(sql)
    on_the_server(url, record, monkeypatch)
    assert main(["audit", "verify"]) == 0
    monkeypatch.delenv("COUNTERSIGN_KEY")
    assert restored(record) == 1  # who starts on the file all the same does nothing twice


def test_it_moves_once(record: Path, url: str, capsys: Output) -> None:
    """Typed again it says that it is there; another record there is left alone."""
    assert main(["copy-to", url]) == 0
    moved = there(url)
    capsys.readouterr()
    assert main(["copy-to", url]) == 0
    assert "It was already there" in capsys.readouterr().out
    assert there(url) == moved
    other = record.with_name("other.db")
    harness = LoopHarness(other)
    harness.say("something else", thread="9.0")
    harness.loop.tick()
    harness.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_URL", f"sqlite:///{other}")
        assert main(["copy-to", url]) == 1
    assert "already holds a record" in capsys.readouterr().err
    assert there(url) == moved
    assert restored(other) == 0


def test_it_moves_from_a_stopped_bot_to_where_none_works(
    record: Path, url: str, capsys: Output
) -> None:
    """A bot on either side is told of, and so is an address that will not do."""
    with lock_database(record):
        assert main(["copy-to", url]) == 1
    assert "already running" in capsys.readouterr().err
    with closing(psycopg.connect(url, application_name="countersign")):
        assert main(["copy-to", url]) == 1
    assert "another process works with postgresql" in capsys.readouterr().err
    assert main(["copy-to", "sqlite:///other.db"]) == 1
    assert "not that of a PostgreSQL database" in capsys.readouterr().err
    assert main(["copy-to", url.replace("/moved", "/nowhere")]) == 1
    assert 'database "nowhere" does not exist' in capsys.readouterr().err
    assert sum(there(url).values()) == 0
    assert restored(record) == 0


@pytest.mark.long
@pytest.mark.timeout(900)  # a process is killed some sixty times
@pytest.mark.parametrize("every", [40, 13], ids=["some", "many"])
def test_killed_half_way_it_is_there_or_not(
    record: Path, server: Server, tmp_path: Path, every: int
) -> None:
    """All rows or none; the next try works."""
    folder = tmp_path.with_name("killed")
    expected = here(record)
    server.fresh("killed")
    url = server.url("killed", "owner")
    fresh(record, folder)
    assert main(["copy-to", url]) == 0  # what it imports is no step of those to come
    server.fresh("killed")
    fresh(record, folder)
    _, steps = killed(["copy-to", url], NEVER)
    assert steps > 0
    for step in (*range(0, steps, every), steps - 1):
        server.fresh("killed")
        at = fresh(record, folder)
        was, _ = killed(["copy-to", url], step)
        assert was or step > steps - 40  # the last come a little earlier or later each time
        found = there(url)
        assert found in ({}, expected | {"audit": expected["audit"] + 1})
        assert main(["copy-to", url]) == 0
        assert there(url) == expected | {"audit": expected["audit"] + 1}
        assert here(at) == expected


def test_what_postgresql_takes_no_text_for(record: Path, url: str) -> None:
    """A NUL in somebody's words does not keep the record from moving."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("UPDATE call SET note = 'a' || char(0) || 'b'")
    assert main(["copy-to", url]) == 0
    with closing(psycopg.connect(url)) as db:
        assert db.execute("SELECT note FROM countersign.call").fetchall() == [("a\ufffdb",)]


def test_a_backup_from_the_server_goes_anywhere(
    record: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """The same file: back into a file, and into the server's database, which keeps what it had."""
    assert main(["copy-to", url]) == 0
    on_the_server(url, record, monkeypatch)
    capsys.readouterr()
    assert main(["backup", "b.db"]) == 0
    told = capsys.readouterr().out
    assert "1 request, 1 call" in told
    assert "Keep COUNTERSIGN_KEY elsewhere" in told
    held = there(url)
    assert here(record.with_name("b.db")) == held
    with closing(Store(url, key=key_of(record).encode()).open()) as store, store.write() as tx:
        trail.record_event(tx, "later", at=AT, actor="system")
    with closing(psycopg.connect(url, application_name="countersign")):
        assert main(["restore", "b.db"]) == 1
    assert "another process works with" in capsys.readouterr().err
    assert main(["restore", "b.db"]) == 0
    told = capsys.readouterr().out
    assert there(url) == held
    [aside] = [word for word in told.split() if word.startswith("countersign_before_restore_")]
    with closing(psycopg.connect(url)) as db:
        kept = db.execute(f"SELECT count(*) FROM {aside}.audit WHERE event = 'later'").fetchone()
        assert kept == (1,)
    with closing(Store(url, key=key_of(record).encode()).open()) as store:
        assert store.mismatch_reason.startswith("it is the backup of")
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("COUNTERSIGN_KEY")
    assert main(["restore", "b.db"]) == 0
    assert rows(record) == held["audit"]
    assert restored(record) == 1


def test_without_the_key_nothing_is_read_from_a_server(
    record: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """There is no file there that could hold it; nor is anything checked or signed."""
    assert main(["copy-to", url]) == 0
    monkeypatch.setenv("DATABASE_URL", url)
    commands = (["backup", "b.db"], ["receipt", "x"], ["audit", "verify"], ["restore", "b.db"])
    for command in commands:
        if command[0] == "restore":
            monkeypatch.setenv("COUNTERSIGN_KEY", key_of(record))
            assert main(["backup", "b.db"]) == 0
            monkeypatch.delenv("COUNTERSIGN_KEY")
        assert main(command) == 2
        assert capsys.readouterr().err == (
            "the settings cannot be used:\n"
            "  COUNTERSIGN_KEY: is missing. Set it to the one that the bot has.\n"
        )
