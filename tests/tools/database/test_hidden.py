"""What a statement's text does not show: functions in views, checks, operators, defaults."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.tools import ToolError
from bot.tools.database.catalog import COUNTERSIGN_TABLES
from bot.tools.database.session import CountersignDatabaseError
from storage.store import Store
from tests.tools import context
from tests.tools.database.harness import GIVEN, World, described


def owned(pg: World, *texts: str) -> World:
    """The database after its owner has run these."""
    for text in (*texts, GIVEN):
        pg.raw(text)
    return pg


def counted(pg: World) -> bool:
    """Whether anybody has taken a number from the sequence `counter`."""
    return pg.raw("SELECT is_called FROM counter") == [(True,)]


@pytest.mark.parametrize(
    ("texts", "sql", "words"),
    [
        (
            ["CREATE VIEW ticking AS SELECT nextval('counter') AS n"],
            "UPDATE heap SET number = (SELECT max(n) FROM ticking)",
            "the view ticking calls nextval",
        ),
        (
            [
                "CREATE VIEW ticking AS SELECT nextval('counter') AS n",
                "CREATE VIEW outside AS SELECT n FROM ticking",
            ],
            "DELETE FROM heap WHERE number IN (SELECT n FROM outside)",
            "the view ticking calls nextval",
        ),
        (
            [
                "CREATE FUNCTION odd(int) RETURNS bool LANGUAGE sql AS 'SELECT "
                "nextval(''counter'') > $1'",
                "ALTER TABLE heap ADD CHECK (odd(-number))",
                "ALTER SEQUENCE counter RESTART",
            ],
            "UPDATE heap SET number = 5",
            "the check heap_number_check calls nextval",
        ),
        (
            [
                "CREATE FUNCTION odd(int) RETURNS bool LANGUAGE sql AS 'SELECT "
                "nextval(''counter'') > $1'",
                "ALTER TABLE heap ENABLE ROW LEVEL SECURITY",
                "CREATE POLICY p ON heap USING (odd(-number))",
            ],
            "UPDATE heap SET number = 5",
            "the row security of heap calls nextval",
        ),
        (
            [
                "CREATE FUNCTION same(text, int) RETURNS bool LANGUAGE sql AS 'SELECT "
                "nextval(''counter'') > $2'",
                "CREATE OPERATOR = (leftarg = text, rightarg = int, function = same)",
            ],
            "DELETE FROM heap WHERE word = 1",
            "the operator = of this database calls nextval",
        ),
        (
            [
                "CREATE TYPE pair AS (a int)",
                "CREATE FUNCTION bare(pair) RETURNS int LANGUAGE sql AS 'SELECT "
                "nextval(''counter'')::int'",
                "CREATE CAST (pair AS int) WITH FUNCTION bare(pair) AS IMPLICIT",
                "CREATE TABLE pairs (p pair)",
            ],
            "UPDATE heap SET number = (SELECT min(p::int) FROM pairs)",
            "a cast of this database calls nextval",
        ),
        (
            [
                "CREATE DOMAIN number AS int CHECK (nextval('counter') > VALUE - 10)",
                "CREATE TABLE numbers (n number, w text)",
            ],
            "INSERT INTO numbers (n, w) VALUES (1, 'x')",
            "the check number_check calls nextval",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Did not recognize type 'pair'")
def test_what_hides_behind_a_change(pg: World, texts: list[str], sql: str, words: str) -> None:
    """What would run and could not be undone is named; neither a preview nor a run runs it."""
    world = owned(pg, *texts)
    for act in (world.preview, world.change):
        with pytest.raises(ToolError, match=f"it cannot be tried out, and so not be made: {words}"):
            act(sql)
    assert not counted(pg)


def test_what_hides_in_a_query(pg: World) -> None:
    """A query that takes numbers through a view is stopped by the server.

    Its transaction only reads.
    """
    owned(
        pg,
        "CREATE VIEW ticking AS SELECT nextval('counter') AS n",
        "GRANT ALL ON SEQUENCE counter TO agent",
    )
    with pytest.raises(ToolError, match="in a read-only transaction"):
        pg.query("SELECT n FROM ticking")
    assert not counted(pg)


def test_a_name_of_the_owner_s_before_ours(pg: World) -> None:
    """The owner's schema cannot put its function or table before the system's.

    pg_catalog is searched first.
    """
    owned(
        pg,
        "CREATE FUNCTION lower(text) RETURNS text LANGUAGE sql AS 'SELECT "
        "nextval(''counter'')::text'",
    )
    pg.raw("ALTER ROLE agent IN DATABASE shop SET search_path = public, pg_catalog")
    statement = pg.disguised(
        "SELECT lower(word) FROM heap ORDER BY 1", "SELECT word FROM heap", changes=False
    )
    with pg.session(writes=False) as session:
        assert session.run_query(statement, 9).rows == (("a",), ("b",))
    assert not counted(pg)


def test_a_foreign_table(pg: World) -> None:
    """A table of another server is never written to for a preview.

    That server would not know of the trial.
    """
    owned(
        pg,
        "CREATE FOREIGN DATA WRAPPER nothing",
        "CREATE SERVER far FOREIGN DATA WRAPPER nothing",
        "CREATE FOREIGN TABLE away (id int, word text) SERVER far",
    )
    words = "away is a foreign table, whose rows cannot be watched"
    for act in (pg.preview, pg.change):
        with pytest.raises(ToolError, match=words):
            act("DELETE FROM away")


def test_a_view_whose_table_is_gone(lite: World) -> None:
    """One broken view, or one that would load code, hides itself and nothing else."""
    lite.raw("CREATE VIEW stale AS SELECT a FROM nowhere")
    lite.raw("CREATE VIEW evil AS SELECT load_extension('x.so') AS a, 1 AS b")
    listed = lite.tools["tables"].function(lite.tools["tables"].arguments(), context())
    assert "heap: word" in listed
    assert "stale" not in listed
    assert lite.query("SELECT count(*) FROM heap").rows == ((2,),)
    with pytest.raises(ToolError, match="unsafe use of load_extension"):
        lite.query("SELECT b FROM evil")


def test_what_even_a_trigger_may_not(lite: World) -> None:
    """The authorizer lets a trigger do its work, and stops one that would load code."""
    with closing(sqlite3.connect(lite.database.path)) as owner:
        owner.execute(
            "CREATE TRIGGER evil AFTER DELETE ON heap BEGIN SELECT fts3_tokenizer('simple'); END"
        )
    with pytest.raises(ToolError, match=r"fts3_tokenizer cannot be called|unsafe use of"):
        lite.change("DELETE FROM heap")
    assert lite.raw("SELECT count(*) FROM heap") == [(2,)]


def test_countersigns_tables_in_postgres(pg: World) -> None:
    """Where Countersign's tables are, in any schema, readable or not, no tool goes.

    It does not by whatever URL.
    """
    pg.raw("CREATE SCHEMA elsewhere")
    for name in sorted(COUNTERSIGN_TABLES):
        assert pg.query("SELECT 1").rows == ((1,),)
        pg.raw(f"CREATE TABLE elsewhere.{name} (id int)")
    other = pg.with_options(
        url=described(pg.database.url.get_secret_value().replace("ql://", "ql+psycopg://")).url
    )
    for world in (pg, other):
        with pytest.raises(CountersignDatabaseError, match="contains the tables of a Countersign"):
            world.query("SELECT 1")


def test_the_tables_that_tell_a_countersign(tmp_path: Path) -> None:
    """Those it is told by are tables that its database really has."""
    Store(f"sqlite:///{tmp_path / 'c.db'}").open().close()
    with closing(sqlite3.connect(tmp_path / "c.db")) as made:
        names = {
            name for (name,) in made.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
    assert names >= COUNTERSIGN_TABLES
