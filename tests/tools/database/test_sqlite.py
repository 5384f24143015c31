"""SQLite alone: Countersign's own file, time-outs, locks, triggers, and the authorizer."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.tools import ToolError
from bot.tools.database.session import Session
from bot.tools.database.sqlite import SqliteAuthorizer
from storage.store import Store
from tests.tools.database.harness import World, create_sqlite_world, describe_database


def open_world(path: str | Path, own: Path) -> World:
    """The database at that path, while Countersign's own is `own`."""
    return World("sqlite", describe_database(f"sqlite:///{path}"), lambda _: [], lambda: None, own)


@pytest.mark.parametrize(
    "way", ["itself", "symlink", "hardlink", "relative", "dotted", "folder link", "wal", "key"]
)
def test_countersigns_own_database_is_refused_by_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Links, other paths, and the files beside it are refused, too."""
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
    world = open_world(path, own)
    with pytest.raises(ToolError, match="Countersign's own database"):
        world.query("SELECT 1")
    with pytest.raises(ToolError, match="Countersign's own database"):
        world.preview("DELETE FROM t")


def test_a_copy_of_countersigns_database_is_refused(tmp_path: Path) -> None:
    """It is recognised by its tables, like the file of another Countersign."""
    Store(f"sqlite:///{tmp_path / 'c.db'}").open().close()
    with pytest.raises(ToolError, match="it contains the tables of a Countersign"):
        open_world(tmp_path / "c.db", tmp_path / "other.db").query("SELECT 1")


def test_a_missing_file_is_refused_and_not_created(tmp_path: Path) -> None:
    """SQLite itself would create it."""
    with pytest.raises(ToolError, match="is not there"):
        open_world(tmp_path / "none.db", tmp_path / "own.db").query("SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """The error has SQLite's words."""
    (tmp_path / "text.db").write_text("just a text, long enough to be looked at" * 50)
    with pytest.raises(ToolError, match="file is not a database"):
        open_world(tmp_path / "text.db", tmp_path / "own.db").query("SELECT 1")


def test_a_statement_that_takes_too_long_is_stopped(lite: World) -> None:
    """This holds for queries and changes."""
    heavy = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(
        ToolError, match=r"it took longer than 0\.1 s and was stopped; nothing was changed"
    ):
        lite.with_options(timeout=0.1).query(heavy)
    with pytest.raises(ToolError, match="was stopped"):
        lite.with_options(timeout=0.1).change(f"INSERT INTO heap (number) {heavy}")


def test_a_value_that_grows_too_large_is_refused(lite: World) -> None:
    """The limit holds however the value is made."""
    growing = (
        "WITH RECURSIVE n(s) AS (SELECT 'x' UNION ALL SELECT s || s FROM n) SELECT "
        "max(length(s)) FROM n"
    )
    with pytest.raises(ToolError, match="string or blob too big"):
        lite.query(growing)


def test_a_change_gives_up_while_somebody_else_writes(lite: World) -> None:
    """It gives up after the lock time-out; reading goes on."""
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


def test_a_change_locks_the_database_from_its_start(lite: World) -> None:
    """BEGIN IMMEDIATE: nobody else writes until the change ends. A query locks nothing."""
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


def get_driver_connection(session: Session) -> Any:
    """Get the driver's own connection of a session."""
    return session.connection.connection.driver_connection


def test_our_sessions_limit_what_a_file_and_its_schema_may_do(lite: World) -> None:
    """Each limit holds by itself: without query_only the file is still open for reading only."""
    pragmas = (
        "query_only",
        "trusted_schema",
        "foreign_keys",
        "cell_size_check",
        "temp_store",
    )
    with lite.session(writes=False) as session:
        raw = get_driver_connection(session)
        assert [raw.execute(f"PRAGMA {each}").fetchone()[0] for each in pragmas] == [
            1,
            0,
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
        assert get_driver_connection(session).execute("PRAGMA query_only").fetchone() == (0,)


def test_a_query_of_what_a_crash_left_behind_says_so(lite: World, tmp_path: Path) -> None:
    """A query may not undo the change of the program that crashed, and is not taken for a write."""
    (tmp_path / "crashed").mkdir()
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as other:
        other.execute("PRAGMA cache_size = 1")  # changed pages go to the file before the commit
        other.execute("BEGIN IMMEDIATE")
        other.execute("UPDATE heap SET word = hex(zeroblob(9000))")
        for name in ("shop.db", "shop.db-journal"):
            shutil.copy(tmp_path / name, tmp_path / "crashed" / name)
    url = f"sqlite:///{tmp_path / 'crashed' / 'shop.db'}"
    left = World("sqlite", describe_database(url), lite.raw, lite.dump)
    with pytest.raises(ToolError, match="stopped in the middle of a change"):
        left.query("SELECT word FROM heap")
    assert left.change("DELETE FROM heap", left.preview("DELETE FROM heap").expects)["rows"] == 2


JSON_SCHEMA = """
CREATE TABLE parcel (id INTEGER PRIMARY KEY, facts TEXT CHECK (json_valid(facts)),
    town TEXT GENERATED ALWAYS AS (facts ->> '$.town') VIRTUAL);
CREATE INDEX parcel_street ON parcel (json_extract(facts, '$.street'));
CREATE VIEW towns AS SELECT id, json_extract(facts, '$.town') AS town FROM parcel;
CREATE TRIGGER moved AFTER UPDATE ON parcel BEGIN
    INSERT INTO log VALUES (json_object('id', NEW.id)); END;
INSERT INTO parcel (facts) VALUES ('{"town": "Ulm"}');
"""


def test_a_schema_may_use_json_functions(tmp_path: Path) -> None:
    """SQLite 3.40 takes them for unsafe, and then reads no table of such a database."""
    lite = create_sqlite_world(tmp_path, JSON_SCHEMA)
    assert lite.query("SELECT town FROM towns").rows == (("Ulm",),)
    sql = "UPDATE parcel SET facts = json_set(facts, '$.town', 'Bonn')"
    shown = lite.preview(sql)
    assert "   town   Ulm → Bonn" in shown.text.splitlines()
    assert "Also adds 1 row of log." in shown.text
    assert lite.change(sql, shown.expects)["rows"] == 1
    assert lite.raw("SELECT text FROM log") == [('{"id":1}',)]


@pytest.mark.parametrize("call", ["rtreecheck('orders')", "\"RTreeDepth\" (x'0001')"])
def test_a_schema_with_json_may_use_no_other_unsafe_function(tmp_path: Path, call: str) -> None:
    """SQLite asks its authorizer about functions of views and triggers, but not of defaults."""
    lite = create_sqlite_world(
        tmp_path, f"{JSON_SCHEMA} CREATE TABLE odd (id INTEGER PRIMARY KEY, x DEFAULT ({call}));"
    )
    with pytest.raises(ToolError, match=r"unsafe use of \w+"):
        lite.preview("INSERT INTO odd (id) VALUES (1)")


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
def test_the_authorizer_allows_or_denies_each_step_of_a_delete(
    lite: World, step: tuple[int, Any, Any, Any, Any], allowed: bool
) -> None:
    """The DELETE is of heap; some steps are in the owner's triggers and views."""
    with lite.session(writes=False) as session:
        guard = SqliteAuthorizer(session.catalog, "heap", frozenset({"delete"}))
    assert guard(*step) == (sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY)
    assert bool(guard.refused) is not allowed


def test_triggers_and_foreign_keys_act_when_a_change_runs(lite: World) -> None:
    """The authorizer lets them."""
    assert lite.change("UPDATE watched SET value = 3 WHERE id = 1") == {
        "rows": 1,
        "table": "watched",
        "also": {"log": 1},
    }
    assert lite.raw("SELECT text FROM log") == [("seen",)]
    lite.change("DELETE FROM orders WHERE id = 1")
    assert lite.raw("SELECT * FROM line") == [(2, "VASE")]


STAMP = (
    "CREATE TRIGGER stamp AFTER UPDATE ON heap BEGIN UPDATE heap SET number = number + 1 "
    "WHERE word = NEW.word; END"
)


def test_a_trigger_that_updates_its_own_row_acts_once(lite: World) -> None:
    """SQLite has triggers call themselves only if told to; nobody means this one to."""
    lite.raw(STAMP)
    sql = "UPDATE heap SET number = 5 WHERE word = 'a'"
    shown = lite.preview(sql)
    assert shown.text.endswith("   number  1 → 6")
    assert lite.change(sql, shown.expects) == {"rows": 1, "table": "heap"}
    assert lite.raw("SELECT number FROM heap WHERE word = 'a'") == [(6,)]


@pytest.mark.parametrize(
    ("made", "sql"),
    [
        (
            "CREATE TABLE spare (id INTEGER PRIMARY KEY, word TEXT UNIQUE ON CONFLICT REPLACE)",
            "INSERT INTO spare (word) VALUES ('a')",
        ),
        (
            "CREATE TABLE spare (id INTEGER PRIMARY KEY, word TEXT UNIQUE); CREATE TRIGGER t AFTER "
            "INSERT ON heap BEGIN REPLACE INTO spare (word) VALUES (NEW.word); END",
            "INSERT INTO heap VALUES ('a', 9)",
        ),
    ],
)
def test_rows_that_others_replace_are_shown(tmp_path: Path, made: str, sql: str) -> None:
    """Whether the table or a trigger says so; also where another trigger updates its own row."""
    world = create_sqlite_world(tmp_path, f"{made}; INSERT INTO spare VALUES (7, 'a'); {STAMP};")
    shown = world.preview(sql)
    assert "dds 1 row and deletes 1 row of spare.\nid  word\n7   a\n" in shown.text
    world.change(sql, shown.expects)
    assert world.raw("SELECT id, word FROM spare") == [(8, "a")]


def test_a_number_that_an_insert_gives_is_shown(lite: World) -> None:
    """Without names of columns, too; only for NULL SQLite takes the next number."""
    next_number = "(set at run time: the next number)"
    for sql, number in (
        ("INSERT INTO customer VALUES (77, 'Ana', NULL)", "77"),
        ("INSERT INTO customer SELECT 77, 'Ana', NULL", "77"),
        ("INSERT INTO customer VALUES (NULL, 'Ana', NULL)", next_number),
        ("INSERT INTO customer (id, name) VALUES (NULL, 'Ana')", next_number),
        ("INSERT INTO customer (name) VALUES ('Ana')", next_number),
    ):
        assert lite.preview(sql).text.splitlines()[2].startswith(f"{number}  Ana")


def test_virtual_tables_and_their_storage_cannot_be_read(tmp_path: Path) -> None:
    """Virtual tables run code of their own."""
    world = create_sqlite_world(tmp_path, "CREATE VIRTUAL TABLE words USING fts5(text);")
    for sql in ("SELECT text FROM words", "SELECT c0 FROM words_content"):
        with pytest.raises(ToolError, match="virtual table"):
            world.query(sql)


def test_invalid_utf8_and_blobs_can_be_shown(lite: World) -> None:
    """A byte that is no UTF-8 is escaped; a BLOB is shown by its size."""
    lite.raw("INSERT INTO log VALUES (CAST(x'ff41' AS TEXT)), (x'0001')")
    assert lite.query("SELECT text FROM log").rows == (("\\xffA",), ("(2 bytes)",))
