"""PostgreSQL itself: roles, locks, time, the owner's functions, a COMMIT without an answer."""

from __future__ import annotations

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
from tests.tools.database.harness import World, described
from tests.tools.database.relay import cut_line


def as_role(world: World, server: Server, role: str) -> World:
    """The same database, reached as another role."""
    return World("postgres", described(server.url("shop", role)), world.raw, world.dump)


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
def test_a_role_that_may_do_too_much(
    pg: World, postgres_server: Server, role: str, named: str
) -> None:
    """A role that may do too much is refused, and named.

    That is a superuser, whoever can become one, who reads server files or goes past row security.
    """
    world = as_role(pg, postgres_server, role)
    for act in (lambda: world.query("SELECT 1"), lambda: world.change("DELETE FROM heap")):
        with pytest.raises(ToolError, match=rf"the role may do too much \(.*{named}"):
            act()
    assert pg.raw("SELECT count(*) FROM heap") == [(2,)]


def test_what_the_role_may_not_see(pg: World) -> None:
    """Tables the role has no right to are not there.

    A column it may not read is refused by the server.
    """
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


def test_functions_of_the_owner(pg: World) -> None:
    """The owner's own functions can be used; in a query they change nothing, whatever they do."""
    pg.raw("CREATE FUNCTION twice(TEXT) RETURNS TEXT LANGUAGE sql AS 'SELECT $1 || $1'")
    pg.raw("CREATE FUNCTION wipes() RETURNS INT LANGUAGE sql AS 'DELETE FROM log; SELECT 1'")
    before = pg.dump()
    assert pg.query("SELECT twice(word), initcap(word) FROM heap").rows[0] == ("aa", "A")
    with pytest.raises(ToolError, match="in a read-only transaction"):
        pg.query("SELECT wipes()")
    assert pg.dump() == before


def test_time_runs_out(pg: World) -> None:
    """A query that takes too long is stopped by the server and told as such.

    Its backend is free again.
    """
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
    """Somebody who holds a row of heap."""
    with postgres_server.connect("shop") as other:
        other.execute(b"BEGIN; UPDATE heap SET number = 9 WHERE word = 'a'")
        yield other
        other.execute("ROLLBACK")


def test_locks_are_not_waited_for(pg: World, locked: object) -> None:
    """A row that somebody holds: the change is given up after the lock time-out, certainly undone.

    Reading goes on.
    """
    hasty = pg.with_options(lock_timeout=0.2)
    with pytest.raises(ToolError, match="rows are locked by somebody else; nothing was changed"):
        hasty.change("DELETE FROM heap")
    assert hasty.query("SELECT count(*) FROM heap").rows == ((2,),)


def test_a_preview_leaves_no_locks(pg: World, postgres_server: Server) -> None:
    """Once the card is drawn, whoever else wants the rows has them at once."""
    assert pg.preview("UPDATE heap SET number = 0").expects.startswith("rows=2;")
    with postgres_server.connect("shop") as other:
        other.execute("SET lock_timeout = 100")
        other.execute("UPDATE heap SET number = 1")
    assert pg.raw("SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent'") == [(0,)]


def test_the_session_is_ours(pg: World) -> None:
    """What a role or a database presets is overruled: strings, paths, limits."""
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


def test_a_table_of_a_system_name(pg: World) -> None:
    """An owner's table that is named like one of the system's is out of reach, as that one is."""
    pg.raw("CREATE TABLE public.pg_authid (rolpassword TEXT)")
    pg.raw("GRANT ALL ON public.pg_authid TO agent")
    for sql in ("SELECT rolpassword FROM pg_authid", "SELECT rolpassword FROM public.pg_authid"):
        with pytest.raises(ToolError, match="is the server's own"):
            pg.query(sql)


def test_odd_values_can_be_shown(pg: World) -> None:
    """Infinity, exact numbers, JSON, arrays and bytes come as something that can be shown."""
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


def test_errors_tell_no_more_than_needed(pg: World) -> None:
    """The message of the database is told, not its DETAIL, which holds whole rows."""
    with pytest.raises(ToolError) as caught:
        pg.change("UPDATE orders SET status = NULL WHERE id = 1")
    assert "4111" not in str(caught.value)
    assert "status" in str(caught.value)


def test_a_database_that_is_not_there(pg: World) -> None:
    """What cannot be reached is told without address or password."""
    world = pg.with_options(url=described("postgresql://agent:s3cret@127.0.0.1:1/shop").url)
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
def test_why_it_cannot_be_reached(pg: World, old: str, new: str, words: str) -> None:
    """Whoever sets it up is told what is wrong, again without an address."""
    pg.raw(
        "DO $$ BEGIN CREATE ROLE locked LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    pg.raw("REVOKE CONNECT ON DATABASE shop FROM public")
    pg.raw("GRANT CONNECT ON DATABASE shop TO agent")
    url = pg.database.url.get_secret_value()
    assert old in url
    with pytest.raises(ToolError) as caught:
        pg.with_options(url=described(url.replace(old, new)).url).query("SELECT 1")
    assert words in str(caught.value)
    assert "/tmp" not in str(caught.value)


@pytest.mark.parametrize("arrives", [True, False])
def test_a_commit_whose_answer_is_lost(pg: World, postgres_server: Server, arrives: bool) -> None:
    """When the line is cut at COMMIT nobody knows what became of the change.

    That is how it ends.
    """
    with (
        tempfile.TemporaryDirectory(prefix="cspg", dir="/tmp") as name,
        cut_line(postgres_server.folder, Path(name), arrives=arrives) as folder,
        ThreadPoolExecutor(1) as pool,
    ):
        url = described(f"postgresql://agent@/shop?host={folder}").url
        tool = pg.with_options(url=url).tools["change"]
        args = tool.arguments.model_validate({"database": "shop", "sql": "DELETE FROM heap"})
        ended = run_tool(tool, args, context(), portal=lambda: None, executor=pool)  # type: ignore[arg-type,return-value] # never called
    assert isinstance(ended, LostToolAnswer)
    assert "the answer to COMMIT was lost" in ended.message
    assert pg.raw("SELECT count(*) FROM heap") == [(0 if arrives else 2,)]


def test_a_commit_that_is_refused(pg: World) -> None:
    """When a constraint fails at COMMIT the server said no: certainly nothing was changed."""
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
