"""PostgreSQL alone: roles, locks, time-outs, the owner's functions, a COMMIT without an answer."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from bot.tools import ToolError
from bot.tools.runner import LostToolAnswer, ToolFailure, run_tool
from tests.postgres_server import Server
from tests.tools import context
from tests.tools.database.harness import World, describe_database
from tests.tools.database.relay import cut_connection


def connect_as(world: World, server: Server, role: str) -> World:
    """The same database under another role."""
    return World("postgres", describe_database(server.url("shop", role)), world.raw, world.dump)


@pytest.mark.parametrize(
    ("role", "named"),
    [
        ("boss", "boss"),
        ("near", "boss"),
        ("reader", "pg_read_server_files"),
        ("free", "free"),
        ("owner", "owner"),
    ],
)
def test_a_role_that_may_do_too_much_is_refused(
    pg: World, postgres_server: Server, role: str, named: str
) -> None:
    """It is a superuser, can become one, reads server files or bypasses row security.

    The refusal names the role that it is about.
    """
    world = connect_as(pg, postgres_server, role)
    for act in (lambda: world.query("SELECT 1"), lambda: world.change("DELETE FROM heap")):
        with pytest.raises(ToolError, match=rf"the role may do too much \(.*{named}"):
            act()
    assert pg.raw("SELECT count(*) FROM heap") == [(2,)]


PREDEFINED = [
    *("pg_write_server_files", "pg_execute_server_program", "pg_signal_backend"),
    *("pg_read_all_data", "pg_write_all_data", "pg_read_all_stats", "pg_monitor"),
]


@pytest.mark.parametrize(
    ("right", "named"),
    [
        *((attribute, r"mighty\)") for attribute in ("REPLICATION", "CREATEROLE")),
        *((f"NOINHERIT; GRANT {each} TO mighty", f".*{each}") for each in PREDEFINED),
    ],
)
def test_a_role_with_that_right_is_refused(
    pg: World, postgres_server: Server, right: str, named: str
) -> None:
    """It could read everything or give itself any right, if need be by taking another role."""
    pg.raw(f"CREATE ROLE mighty LOGIN {right}")
    with pytest.raises(ToolError, match=rf"the role may do too much \({named}"):
        connect_as(pg, postgres_server, "mighty").query("SELECT 1")
    pg.raw("DROP ROLE mighty")


def test_a_table_or_column_the_role_may_not_read_is_refused(pg: World) -> None:
    """The server refuses it."""
    pg.raw("REVOKE ALL ON account FROM agent")
    with pytest.raises(ToolError, match="permission denied for table account"):
        pg.query("SELECT id FROM account")
    pg.raw("REVOKE ALL ON heap FROM agent")
    pg.raw("GRANT SELECT (word) ON heap TO agent")
    assert pg.query("SELECT word FROM heap ORDER BY word").rows == (("a",), ("b",))
    with pytest.raises(
        ToolError, match=r"permission denied for table heap \(heap.number: secret; name"
    ):
        pg.query("SELECT number FROM heap")


def test_the_owners_functions_change_nothing_in_a_query(pg: World) -> None:
    """Those that only compute can be used."""
    pg.raw("CREATE FUNCTION twice(TEXT) RETURNS TEXT LANGUAGE sql AS 'SELECT $1 || $1'")
    pg.raw("CREATE FUNCTION wipes() RETURNS INT LANGUAGE sql AS 'DELETE FROM log; SELECT 1'")
    before = pg.dump()
    assert pg.query("SELECT twice(word), initcap(word) FROM heap").rows[0] == ("aa", "A")
    with pytest.raises(ToolError, match="in a read-only transaction"):
        pg.query("SELECT wipes()")
    assert pg.dump() == before


def test_a_query_that_takes_too_long_is_stopped_by_the_server(pg: World) -> None:
    """The server's process is free again afterwards."""
    slow = pg.with_options(timeout=0.2)
    heavy = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(
        ToolError, match=r"it took longer than 0\.2 s and was stopped; nothing was changed"
    ):
        slow.query(heavy)
    assert pg.raw(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent' AND state = 'active'"
    ) == [(0,)]


@pytest.fixture
def locked(pg: World, postgres_server: Server) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of somebody else, who holds a lock on a row of heap."""
    with postgres_server.connect("shop") as other:
        other.execute(b"BEGIN; UPDATE heap SET number = 9 WHERE word = 'a'")
        yield other
        other.execute("ROLLBACK")


def test_a_change_of_a_locked_row_is_given_up(pg: World, locked: object) -> None:
    """It is given up after the lock time-out, certainly undone; reading goes on."""
    hasty = pg.with_options(lock_timeout=0.2)
    with pytest.raises(ToolError, match="rows are locked by somebody else; nothing was changed"):
        hasty.change("DELETE FROM heap")
    assert hasty.query("SELECT count(*) FROM heap").rows == ((2,),)


def test_a_preview_of_a_locked_row_says_that_it_is_locked(pg: World, locked: object) -> None:
    """The lock time-out is shorter than that of the statement, which says nothing of locks."""
    with pytest.raises(ToolError, match="rows are locked by somebody else; nothing was changed"):
        pg.preview("DELETE FROM heap")


def test_a_query_without_end_is_left_after_the_rows_that_are_shown(pg: World) -> None:
    """The server neither makes the other rows nor stores them in a file."""
    pg.raw("ALTER ROLE agent IN DATABASE shop SET temp_file_limit = '1MB'")
    few = pg.with_options(timeout=5, max_rows=3)
    found = few.query("SELECT generate_series(1, 2000000000) AS n, repeat('x', 500) AS filler")
    assert [number for number, _ in found.rows] == [1, 2, 3]
    assert found.more


def test_numbers_that_differ_in_the_last_digit_are_shown_as_different(pg: World) -> None:
    """Also where the role's presets would round them alike."""
    pg.raw("ALTER ROLE agent IN DATABASE shop SET extra_float_digits = -5")
    pg.raw("CREATE TABLE scale (id INTEGER PRIMARY KEY, grams FLOAT8)")
    pg.raw("INSERT INTO scale VALUES (1, 0.1::float8 + 0.2::float8)")
    pg.raw("GRANT ALL ON scale TO agent")
    shown = pg.preview("UPDATE scale SET grams = 0.3")
    assert shown.text.endswith("   grams  0.30000000000000004 → 0.3")


def test_a_preview_lists_rows_by_their_key(pg: World) -> None:
    """The server keeps rows elsewhere once they have changed; added ones are as they were given."""
    pg.raw("CREATE TABLE part (id INTEGER PRIMARY KEY, orders INTEGER REFERENCES orders)")
    pg.raw(
        "ALTER TABLE part DROP CONSTRAINT part_orders_fkey, ADD FOREIGN KEY (orders) "
        "REFERENCES orders ON DELETE CASCADE"
    )
    pg.raw("GRANT ALL ON part TO agent")
    pg.raw("INSERT INTO part VALUES (10, 1), (2, 1), (1, 1)")
    pg.raw("UPDATE part SET orders = orders WHERE id = 1")

    def list_ids(sql: str) -> list[str]:
        pattern = r"^(?:\d\. id )?(\d+)(?:$|  )"
        return re.findall(pattern, pg.preview(sql).text.partition("of part.")[2], re.MULTILINE)

    assert list_ids("UPDATE part SET orders = 2") == ["1", "2", "10"]
    assert list_ids("DELETE FROM part") == ["1", "2", "10"]
    assert list_ids("DELETE FROM orders WHERE id = 1") == ["1", "2", "10"]
    assert list_ids("INSERT INTO part VALUES (9), (3), (7)") == ["9", "3", "7"]


def test_a_server_that_counts_no_rows_is_the_reason_for_a_refusal(pg: World) -> None:
    """It is not said that no row matches."""
    pg.raw("ALTER DATABASE shop SET track_counts = off")
    with pytest.raises(ToolError, match="does not count changed rows"):
        pg.preview("DELETE FROM heap")
    assert pg.query("SELECT count(*) FROM heap").rows == ((2,),)


def test_a_preview_leaves_no_locks(pg: World, postgres_server: Server) -> None:
    """Others can change the rows as soon as the preview is made."""
    assert pg.preview("UPDATE heap SET number = 0").expects.startswith("rows=2;")
    with postgres_server.connect("shop") as other:
        other.execute("SET lock_timeout = 100")
        other.execute("UPDATE heap SET number = 1")
    assert pg.raw("SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent'") == [(0,)]


def test_presets_of_the_role_do_not_apply_to_our_sessions(pg: World) -> None:
    """Presets for strings, search_path and limits are overruled."""
    for setting in (
        "standard_conforming_strings = off",
        "search_path = nowhere",
        "statement_timeout = 0",
    ):
        pg.raw(f"ALTER ROLE agent IN DATABASE shop SET {setting}")
    with pg.session(writes=False) as session:
        names = (
            "standard_conforming_strings",
            "search_path",
            "statement_timeout",
            "transaction_read_only",
            "lock_timeout",
            "idle_in_transaction_session_timeout",
        )
        found = [
            session.connection.exec_driver_sql(f"SELECT current_setting('{name}')").scalar()
            for name in names
        ]
    assert found == ["on", 'pg_catalog, "public", pg_temp', "10s", "on", "2s", "15s"]
    assert pg.query("SELECT 'a\\b' AS c").rows == (("a\\b",),)


def test_a_table_with_the_name_of_a_system_table_is_refused(pg: World) -> None:
    """It is refused like the system's own, although the owner made it."""
    pg.raw("CREATE TABLE public.pg_authid (rolpassword TEXT)")
    pg.raw("GRANT ALL ON public.pg_authid TO agent")
    for sql in ("SELECT rolpassword FROM pg_authid", "SELECT rolpassword FROM public.pg_authid"):
        with pytest.raises(ToolError, match="is the server's own"):
            pg.query(sql)


def test_values_of_unusual_types_can_be_shown(pg: World) -> None:
    """Infinity, exact numbers, JSON, arrays, bytes and intervals."""
    pg.raw(
        "CREATE TABLE odd (t TIMESTAMPTZ, n NUMERIC, j JSONB, a INTEGER[], b BYTEA, f FLOAT8, i "
        "INTERVAL)"
    )
    pg.raw(
        "INSERT INTO odd VALUES ('infinity', 1.10, '{\"k\": 1}', '{1,2}', '\\x00ff', 'NaN', '1 "
        "month')"
    )
    pg.raw("GRANT SELECT ON odd TO agent")
    (row,) = pg.query("SELECT t, n, j, a, b, i FROM odd").rows
    assert [str(each) for each in row] == [
        "infinity",
        "1.10",
        '{"k": 1}',
        "[1, 2]",
        "(2 bytes)",
        "P1M",
    ]


def test_an_error_of_the_database_is_shown_without_its_detail(pg: World) -> None:
    """The DETAIL contains whole rows."""
    with pytest.raises(ToolError) as caught:
        pg.change("UPDATE orders SET status = NULL WHERE id = 1")
    assert "4111" not in str(caught.value)
    assert "status" in str(caught.value)


def test_an_unreachable_database_is_reported_without_its_address(pg: World) -> None:
    """The password is not shown either."""
    world = pg.with_options(url=describe_database("postgresql://agent:s3cret@127.0.0.1:1/shop").url)
    with pytest.raises(ToolError, match="cannot be reached") as caught:
        world.query("SELECT 1")
    assert "s3cret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("agent@", "nobody@", "its server has no such role"),
        ("/shop?", "/elsewhere?", "its server has no such database"),
        ("agent@", "locked@", "the role may not connect to it"),
        ("host=/tmp", "host=/nowhere", "nothing answers at its address"),
        (
            "@/shop?host=/tmp",
            "@nowhere.invalid/shop?host=nowhere.invalid&sslrootcert=",
            "its host is not known",
        ),
    ],
)
def test_the_error_says_why_a_database_cannot_be_reached(
    pg: World, old: str, new: str, words: str
) -> None:
    """The address is not shown."""
    pg.raw(
        "DO $$ BEGIN CREATE ROLE locked LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    pg.raw("REVOKE CONNECT ON DATABASE shop FROM public")
    pg.raw("GRANT CONNECT ON DATABASE shop TO agent")
    url = pg.database.url.get_secret_value()
    assert old in url
    with pytest.raises(ToolError) as caught:
        pg.with_options(url=describe_database(url.replace(old, new)).url).query("SELECT 1")
    assert words in str(caught.value)
    assert "/tmp" not in str(caught.value)


@pytest.mark.parametrize("arrives", [True, False])
def test_the_outcome_of_a_commit_with_a_lost_answer_is_unknown(
    pg: World, postgres_server: Server, arrives: bool
) -> None:
    """The connection is cut before COMMIT reaches the server, or before its answer comes back."""
    with (
        tempfile.TemporaryDirectory(prefix="cspg", dir="/tmp") as name,
        cut_connection(postgres_server.folder, Path(name), arrives=arrives) as folder,
        ThreadPoolExecutor(1) as pool,
    ):
        url = describe_database(f"postgresql://agent@/shop?host={folder}").url
        tool = pg.with_options(url=url).tools["change"]
        args = tool.arguments.model_validate({"database": "shop", "sql": "DELETE FROM heap"})
        ended = run_tool(tool, args, context(), portal=lambda: None, executor=pool)  # type: ignore[arg-type,return-value] # never called
    assert isinstance(ended, LostToolAnswer)
    assert "the answer to COMMIT was lost" in ended.message
    assert pg.raw("SELECT count(*) FROM heap") == [(0 if arrives else 2,)]


def test_a_refused_commit_is_a_certain_failure(pg: World) -> None:
    """A deferred constraint fails at COMMIT, so certainly nothing was changed."""
    pg.raw("ALTER TABLE line ALTER CONSTRAINT line_order_id_fkey DEFERRABLE INITIALLY DEFERRED")
    with ThreadPoolExecutor(1) as pool:
        tool = pg.tools["change"]
        args = tool.arguments.model_validate(
            {"database": "shop", "sql": "INSERT INTO line (order_id, sku) VALUES (77, 'x')"}
        )
        ended = run_tool(tool, args, context(), portal=lambda: None, executor=pool)  # type: ignore[arg-type,return-value] # never called
    assert isinstance(ended, ToolFailure)
    assert ended.certain
    assert "violates foreign key constraint" in ended.message
