"""SQLite itself: Countersign's own file, time, locks, triggers, and the authorizer."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.tools import ToolError
from bot.tools.database.session import Session
from bot.tools.database.sqlite import SqliteAuthorizer
from storage.store import Store
from tests.tools.database.harness import World, described, sqlite_world


def over(path: str | Path, own: Path) -> World:
    """A database at that path, where Countersign's own is `own`."""
    return World("sqlite", described(f"sqlite:///{path}"), lambda _: [], lambda: None, own)


@pytest.mark.parametrize(
    "way", ["itself", "symlink", "hardlink", "relative", "dotted", "folder link", "wal", "key"]
)
def test_countersigns_own_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Countersign's own file is refused whatever it is called.

    That goes for links, other paths, and the files beside it.
    """
    own = tmp_path / "countersign.db"
    with closing(sqlite3.connect(own)) as connection:
        connection.execute("CREATE TABLE t (id)")
    (tmp_path / "countersign.db.key").write_text("key")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "alias.db").symlink_to(own)
    os.link(own, tmp_path / "hard.db")
    monkeypatch.chdir(tmp_path)
    path = {
        "itself": own,
        "symlink": tmp_path / "alias.db",
        "hardlink": tmp_path / "hard.db",
        "relative": "countersign.db",
        "dotted": tmp_path / "sub" / ".." / "countersign.db",
        "folder link": tmp_path / "link" / "countersign.db",
        "wal": tmp_path / "countersign.db-wal",
        "key": tmp_path / "countersign.db.key",
    }[way]
    world = over(path, own)
    with pytest.raises(ToolError, match="Countersign's own database"):
        world.query("SELECT 1")
    with pytest.raises(ToolError, match="Countersign's own database"):
        world.preview("DELETE FROM t")


def test_a_copy_of_countersigns_database(tmp_path: Path) -> None:
    """A copy or a second Countersign's file is told by its tables."""
    Store(f"sqlite:///{tmp_path / 'c.db'}").open().close()
    with pytest.raises(ToolError, match="it contains the tables of a Countersign"):
        over(tmp_path / "c.db", tmp_path / "other.db").query("SELECT 1")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file is told, and not made."""
    with pytest.raises(ToolError, match="is not there"):
        over(tmp_path / "none.db", tmp_path / "own.db").query("SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """What is no SQLite file is told in SQLite's words."""
    (tmp_path / "text.db").write_text("just a text, long enough to be looked at" * 50)
    with pytest.raises(ToolError, match="file is not a database"):
        over(tmp_path / "text.db", tmp_path / "own.db").query("SELECT 1")


def test_time_runs_out(lite: World) -> None:
    """A query that takes too long is stopped."""
    heavy = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(
        ToolError, match=r"it took longer than 0\.1 s and was stopped; nothing was changed"
    ):
        lite.with_options(timeout=0.1).query(heavy)
    with pytest.raises(ToolError, match="was stopped"):
        lite.with_options(timeout=0.1).change(f"INSERT INTO heap (number) {heavy}")


def test_a_value_that_grows(lite: World) -> None:
    """A value is bounded, however it is made."""
    growing = (
        "WITH RECURSIVE n(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM n) SELECT "
        "max(length(s)) FROM n"
    )
    with pytest.raises(ToolError, match="string or blob too big"):
        lite.query(growing)


def test_locks_are_not_waited_for(lite: World) -> None:
    """While somebody writes, a change begins at once or gives up after the lock time-out.

    Reading goes on.
    """
    hasty = lite.with_options(lock_timeout=0.1)
    with closing(sqlite3.connect(lite.database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            ToolError, match="another program holds the database; nothing was changed"
        ):
            hasty.change("DELETE FROM heap")
        assert hasty.query("SELECT count(*) FROM heap").rows == ((2,),)
        other.execute("ROLLBACK")
    assert lite.change("DELETE FROM heap") == {"rows": 2, "table": "heap"}


def test_a_change_takes_the_lock_at_once(lite: World) -> None:
    """BEGIN IMMEDIATE: between a change's start and its end nobody else writes."""
    with (
        lite.session(writes=True),
        closing(sqlite3.connect(lite.database.path, timeout=0)) as other,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        other.execute("DELETE FROM heap")
    with (
        lite.session(writes=False),
        closing(sqlite3.connect(lite.database.path, timeout=0)) as other,
    ):
        other.execute("DELETE FROM heap")
        other.rollback()


def line(session: Session) -> Any:
    """The driver's own connection of a session."""
    return session.connection.connection.driver_connection


def test_the_session_is_ours(lite: World) -> None:
    """Each guard stands by itself.

    The file is opened for reading, and what a schema may do is limited.
    """
    pragmas = (
        "query_only",
        "trusted_schema",
        "foreign_keys",
        "recursive_triggers",
        "cell_size_check",
        "temp_store",
    )
    with lite.session(writes=False) as session:
        raw = line(session)
        assert [raw.execute(f"PRAGMA {each}").fetchone()[0] for each in pragmas] == [
            1,
            0,
            1,
            1,
            1,
            2,
        ]
        assert raw.getlimit(sqlite3.SQLITE_LIMIT_ATTACHED) == 0
        assert raw.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) == 10_000_000
        raw.execute("PRAGMA query_only = OFF")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            raw.execute("DELETE FROM heap")
    with lite.session(writes=True) as session:
        assert line(session).execute("PRAGMA query_only").fetchone() == (0,)


@pytest.mark.parametrize(
    ("step", "allowed"),
    [
        ((sqlite3.SQLITE_FUNCTION, None, "lower", "main", None), True),
        ((sqlite3.SQLITE_FUNCTION, None, "LOAD_EXTENSION", "main", "a trigger"), False),
        ((sqlite3.SQLITE_READ, "orders", "note", "main", None), True),
        ((sqlite3.SQLITE_READ, "orders", "card_number", "main", None), False),
        ((sqlite3.SQLITE_READ, "ORDERS", "Card_Number", "main", "cards"), False),
        ((sqlite3.SQLITE_READ, "dbstat", "name", "main", None), False),
        ((sqlite3.SQLITE_READ, "a_with", "", "main", None), True),
        ((sqlite3.SQLITE_READ, "sqlite_master", "", "main", None), False),
        ((sqlite3.SQLITE_READ, "pragma_table_info", "", None, "a_with"), False),
        ((sqlite3.SQLITE_READ, "orders", "note", "temp", None), False),
        ((sqlite3.SQLITE_READ, "orders", "card_number", "main", "countersign_watch_x"), False),
        ((sqlite3.SQLITE_FUNCTION, None, "sqlite_log", "main", "countersign_watch_x"), False),
        ((sqlite3.SQLITE_INSERT, "countersign_rows_0", None, "temp", "a trigger"), False),
        ((sqlite3.SQLITE_DELETE, "heap", None, "main", None), True),
        ((sqlite3.SQLITE_DELETE, "heap", None, "temp", None), False),
        ((sqlite3.SQLITE_DELETE, "line", None, "main", None), False),
        ((sqlite3.SQLITE_DELETE, "log", None, "main", "a trigger"), True),
        ((sqlite3.SQLITE_UPDATE, "heap", "word", "main", None), False),
        ((sqlite3.SQLITE_DELETE, "sqlite_master", None, "main", "a trigger"), False),
        ((sqlite3.SQLITE_ATTACH, "x", None, None, "a trigger"), False),
        ((sqlite3.SQLITE_PRAGMA, "x", None, None, "a trigger"), False),
        ((sqlite3.SQLITE_TRANSACTION, "COMMIT", None, None, None), False),
        ((sqlite3.SQLITE_SAVEPOINT, "BEGIN", "a", None, None), False),
        ((sqlite3.SQLITE_CREATE_TEMP_TABLE, "t", None, "temp", None), False),
    ],
)
def test_the_authorizer_judges_each_step(
    lite: World, step: tuple[int, Any, Any, Any, Any], allowed: bool
) -> None:
    """What a DELETE of heap may do, step by step, alone and in the owner's triggers and views."""
    with lite.session(writes=False) as session:
        guard = SqliteAuthorizer(session.catalog, "heap", frozenset({"delete"}))
    assert guard(*step) == (sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY)
    assert bool(guard.refused) is not allowed


def test_what_the_owner_made_still_works(lite: World) -> None:
    """Triggers and foreign keys of the database act when an approved change runs.

    The authorizer lets them.
    """
    assert lite.change("UPDATE watched SET value = 3 WHERE id = 1") == {
        "rows": 1,
        "table": "watched",
        "also": {"log": 1},
    }
    assert lite.raw("SELECT text FROM log") == [("seen",)]
    lite.change("DELETE FROM orders WHERE id = 1")
    assert lite.raw("SELECT * FROM line") == [(2, "VASE")]


def test_virtual_tables_are_out_of_reach(tmp_path: Path) -> None:
    """Virtual tables run code of their own, so they and what holds their rows are out of reach."""
    world = sqlite_world(tmp_path, "CREATE VIRTUAL TABLE words USING fts5(text);")
    for sql in ("SELECT text FROM words", "SELECT c0 FROM words_content"):
        with pytest.raises(ToolError, match="virtual table"):
            world.query(sql)


def test_text_that_is_no_text(lite: World) -> None:
    """Bytes that are no UTF-8, and BLOBs, come as something that can be shown."""
    lite.raw("INSERT INTO log VALUES (CAST(x'ff41' AS TEXT)), (x'0001')")
    assert lite.query("SELECT text FROM log").rows == (("\\xffA",), ("(2 bytes)",))
