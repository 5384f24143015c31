"""`countersign copy-to`, and `backup` and `restore` with PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest

from bot.cli.doctor.checks import check_bot_database
from bot.config.settings import Settings
from countersign.cli.commands import main
from storage import inbox, trail
from storage.digest import compute_key_id
from storage.record_copies import count_rows_by_table
from storage.sqlite import lock_database
from storage.store import Store
from tests.cli.test_backup import Output, count_rows, read_key
from tests.cli.test_backup_killed import NEVER, copy_record, run_and_kill
from tests.postgres_server import Server, binaries, serve
from tests.runs.harness import LoopHarness, approved
from tests.storage.builders import AT, delivery

PROGRAMS = binaries()
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for all tests of this module."""
    assert PROGRAMS is not None
    with serve(PROGRAMS) as running:
        yield running


@pytest.fixture
def url(server: Server) -> str:
    """The URL of an empty database on the server."""
    server.fresh("moved")
    return server.url("moved", "owner")


def count_rows_on_server(url: str) -> dict[str, int]:
    """Count the rows of each table on the server; {} if there are no tables yet."""
    with closing(psycopg.connect(url)) as db:
        found = db.execute("SELECT to_regclass('countersign.audit')").fetchone()
        if found == (None,):
            return {}
    with closing(Store(url, key=b"x" * 32)) as store, store.read() as tx:
        return {name: many for name, many in count_rows_by_table(tx).items() if many}


def count_rows_in_file(record: Path) -> dict[str, int]:
    """Count the rows of each table in the file."""
    with closing(Store(f"sqlite:///{record}", key=b"x" * 32)) as store, store.read() as tx:
        return {name: many for name, many in count_rows_by_table(tx).items() if many}


def use_server(url: str, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the variables so that commands use the record on the server."""
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("COUNTERSIGN_KEY", read_key(record))


def count_restores(path: Path) -> int:
    """Start on that file, and count how often it was recognised as restored."""
    harness = LoopHarness(path)
    harness.stop()
    return sum(row.event == "record.restored" for row in harness.all()[2])


def test_copy_to_copies_the_whole_record(
    record: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """With rows, sequences and triggers. The output says how to go on, and how to go back."""
    before, key = count_rows_in_file(record), read_key(record)
    assert main(["copy-to", url]) == 0
    told = capsys.readouterr().out
    where = "The whole record was copied, in postgresql://owner@/moved"
    assert f"{where}: 1 request, 1 call, {before['audit']} rows of the audit" in told
    key_id = compute_key_id(key.encode())
    assert f"Sound: {before['audit']} rows. The key in use is {key_id}." in told
    assert "COUNTERSIGN_KEY to the content of countersign.db.key" in told
    assert "To go back: `countersign backup` there" in told
    assert key not in told
    assert count_rows_on_server(url) == before | {"audit": before["audit"] + 1}
    with closing(Store(url, key=key.encode()).open()) as store:
        assert store.mismatch_reason == ""
        with store.write() as tx:
            inbox.insert_delivery(tx, delivery("msg:T:C:1", at=AT))
            trail.record_event(tx, "note", at=AT, actor="system")
        for sql in ("UPDATE audit SET actor = ''", "DELETE FROM item", "TRUNCATE vote CASCADE"):
            with pytest.raises(Exception, match="append-only"), store.write() as tx:
                tx.exec_driver_sql(sql)
    use_server(url, record, monkeypatch)
    assert main(["audit", "verify"]) == 0
    monkeypatch.delenv("COUNTERSIGN_KEY")
    assert count_restores(record) == 1  # a start on the old file does nothing twice


def test_the_copy_goes_on_in_the_time_of_the_record(record: Path, url: str) -> None:
    """Although the machine's clock is behind it, by as much as it was set back."""
    later = AT.replace(year=AT.year + 90)
    file = Store(f"sqlite:///{record}", key=read_key(record).encode())
    with closing(file.open()) as store, store.write() as tx:
        trail.record_event(tx, "note", at=later, actor="system")
    assert main(["copy-to", url]) == 0
    with closing(psycopg.connect(url)) as db:
        last = db.execute("SELECT event, at FROM countersign.audit ORDER BY seq DESC").fetchone()
    assert last is not None
    assert (last[0], last[1] >= later.timestamp() * 1_000_000) == ("record.moved", True)


def test_copying_again_changes_nothing(record: Path, url: str, capsys: Output) -> None:
    """The output says that it was already there. Another record cannot replace it."""
    assert main(["copy-to", url]) == 0
    moved = count_rows_on_server(url)
    capsys.readouterr()
    assert main(["copy-to", url]) == 0
    assert "It was already there" in capsys.readouterr().out
    assert count_rows_on_server(url) == moved
    other = record.with_name("other.db")
    harness = LoopHarness(other)
    harness.say("something else", thread="9.0")
    harness.loop.tick()
    harness.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DATABASE_URL", f"sqlite:///{other}")
        assert main(["copy-to", url]) == 1
    assert "already holds a record" in capsys.readouterr().err
    assert count_rows_on_server(url) == moved
    assert count_restores(other) == 0


def test_doctor_says_that_the_role_may_not_make_its_tables(
    server: Server, url: str, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start says only that permission is denied. Once the tables are there, it passes."""
    with server.connect() as owner, suppress(psycopg.errors.DuplicateObject):
        owner.execute("CREATE ROLE newcomer LOGIN")
    use_server(server.url("moved", "newcomer"), record, monkeypatch)
    [found] = check_bot_database(Settings.load(os.environ, reading=True))
    assert found.level == "fail"
    assert "GRANT CREATE ON DATABASE" in found.remedy
    with server.connect() as owner:
        owner.execute("GRANT CREATE ON DATABASE moved TO newcomer")
    Store(server.url("moved", "newcomer"), key=b"k" * 32).open().close()
    with server.connect() as owner:
        owner.execute("REVOKE CREATE ON DATABASE moved FROM newcomer")
    [found] = check_bot_database(Settings.load(os.environ, reading=True))
    assert found.level == "ok"


def test_copy_to_refuses_running_bots_and_wrong_addresses(
    record: Path, url: str, capsys: Output
) -> None:
    """The bot may run on either side."""
    with lock_database(record):
        assert main(["copy-to", url]) == 1
    assert "already running" in capsys.readouterr().err
    with closing(psycopg.connect(url, application_name="countersign")):
        assert main(["copy-to", url]) == 1
    assert "another process works with postgresql" in capsys.readouterr().err
    assert main(["copy-to", "sqlite:///other.db"]) == 1
    assert "it is not a PostgreSQL address" in capsys.readouterr().err
    assert main(["copy-to", url.replace("://", "://owner:p@ss:word@")]) == 1
    assert "in a password write @ as %40" in capsys.readouterr().err
    assert main(["copy-to", f"{url}&schema=countersign_T0123ABCD"]) == 1
    assert "cannot be the name of a schema" in capsys.readouterr().err
    assert main(["copy-to", url.replace("/moved", "/nowhere")]) == 1
    assert 'database "nowhere" does not exist' in capsys.readouterr().err
    assert sum(count_rows_on_server(url).values()) == 0
    assert count_restores(record) == 0


@pytest.mark.long
@pytest.mark.timeout(900)  # a process is killed some sixty times
@pytest.mark.parametrize("every", [40, 13], ids=["some", "many"])
def test_a_killed_copy_is_complete_or_not_there(
    record: Path, server: Server, tmp_path: Path, every: int
) -> None:
    """The next attempt works."""
    folder = tmp_path.with_name("killed")
    expected = count_rows_in_file(record)
    server.fresh("killed")
    url = server.url("killed", "owner")
    copy_record(record, folder)
    assert main(["copy-to", url]) == 0  # so that later processes import nothing
    server.fresh("killed")
    copy_record(record, folder)
    _, steps = run_and_kill(["copy-to", url], NEVER)
    assert steps > 0
    for step in (*range(0, steps, every), steps - 1):
        server.fresh("killed")
        at = copy_record(record, folder)
        was, _ = run_and_kill(["copy-to", url], step)
        assert was or step > steps - 40  # the last steps come earlier or later each time
        found = count_rows_on_server(url)
        assert found in ({}, expected | {"audit": expected["audit"] + 1})
        assert main(["copy-to", url]) == 0
        assert count_rows_on_server(url) == expected | {"audit": expected["audit"] + 1}
        assert count_rows_in_file(at) == expected


def test_a_nul_in_a_text_is_replaced_when_copying(record: Path, url: str) -> None:
    """PostgreSQL does not store it."""
    with closing(sqlite3.connect(record, isolation_level=None)) as db:
        db.execute("UPDATE call SET note = 'a' || char(0) || 'b'")
    assert main(["copy-to", url]) == 0
    with closing(psycopg.connect(url)) as db:
        assert db.execute("SELECT note FROM countersign.call").fetchall() == [("a\ufffdb",)]


def test_a_backup_from_a_server_can_be_restored_anywhere(
    record: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """In a file, and in the server's database, which keeps its earlier record."""
    assert main(["copy-to", url]) == 0
    use_server(url, record, monkeypatch)
    capsys.readouterr()
    assert main(["backup", "b.db"]) == 0
    told = capsys.readouterr().out
    assert "1 request, 1 call" in told
    assert "Keep COUNTERSIGN_KEY elsewhere" in told
    held = count_rows_on_server(url)
    assert count_rows_in_file(record.with_name("b.db")) == held
    with closing(Store(url, key=read_key(record).encode()).open()) as store, store.write() as tx:
        trail.record_event(tx, "later", at=AT, actor="system")
    with closing(psycopg.connect(url, application_name="countersign")):
        assert main(["restore", "b.db"]) == 1
    assert "another process works with" in capsys.readouterr().err
    assert main(["restore", "b.db"]) == 0
    told = capsys.readouterr().out
    assert count_rows_on_server(url) == held
    [aside] = [word for word in told.split() if word.startswith("countersign_before_restore_")]
    with closing(psycopg.connect(url)) as db:
        kept = db.execute(f"SELECT count(*) FROM {aside}.audit WHERE event = 'later'").fetchone()
        assert kept == (1,)
    with closing(Store(url, key=read_key(record).encode()).open()) as store:
        assert store.mismatch_reason.startswith("it is the backup of")
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("COUNTERSIGN_KEY")
    assert main(["restore", "b.db"]) == 0
    assert count_rows(record) == held["audit"]
    assert count_restores(record) == 1


def test_commands_on_a_servers_record_need_the_key(
    record: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """No file there holds the key, so nothing can be checked or signed without the setting."""
    assert main(["copy-to", url]) == 0
    monkeypatch.setenv("DATABASE_URL", url)
    commands = (["backup", "b.db"], ["receipt", "x"], ["audit", "verify"], ["restore", "b.db"])
    for command in commands:
        if command[0] == "restore":
            monkeypatch.setenv("COUNTERSIGN_KEY", read_key(record))
            assert main(["backup", "b.db"]) == 0
            monkeypatch.delenv("COUNTERSIGN_KEY")
        assert main(command) == 2
        assert capsys.readouterr().err == (
            "the settings cannot be used:\n"
            "  COUNTERSIGN_KEY: is missing. Set it to the one that the bot has.\n"
        )


def test_a_server_has_no_key_file_to_name(
    record: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another key than that of a call that waits, doctor says what to set, and no file."""
    waiting = record.with_name("waiting.db")
    approved(waiting).stop()
    key = waiting.with_name("waiting.db.key").read_text()
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{waiting}")
    monkeypatch.setenv("COUNTERSIGN_KEY", f"{key},{'k' * 32}")  # the second one is the harness's
    assert main(["copy-to", url]) == 0
    environ = {
        "SLACK_BOT_TOKEN": "xoxb-unused",
        "SLACK_APP_TOKEN": "xapp-unused",
        "COUNTERSIGN_POLICY": "policy.toml",
        "DATABASE_URL": url,
        "COUNTERSIGN_KEY": key,
    }
    checks = check_bot_database(Settings.load(environ))
    [found] = [each for each in checks if each.level == "fail"]
    assert f"shown under the key {compute_key_id(b'k' * 32)}" in found.text
    assert "(COUNTERSIGN_KEY=new,old) until they are decided" in found.text
