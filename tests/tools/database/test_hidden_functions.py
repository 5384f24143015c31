"""Functions that a statement calls without naming them: by views, checks, operators, defaults."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bot.tools import ToolError
from bot.tools.database.catalog import COUNTERSIGN_TABLES
from bot.tools.database.session import CountersignDatabaseError
from storage.store import Store
from tests.postgres_server import Server
from tests.tools import context
from tests.tools.database.harness import GRANTS, World, describe_database


def prepare_as_owner(pg: World, *texts: str) -> World:
    """Run these statements as the owner of the database."""
    for text in (*texts, GRANTS):
        pg.raw(text)
    return pg


def counter_was_used(pg: World) -> bool:
    """Whether a number was taken from the sequence `counter`."""
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
def test_a_change_that_calls_a_hidden_function_is_refused(
    pg: World, texts: list[str], sql: str, words: str
) -> None:
    """Its effect could not be undone: neither preview nor run calls it, and it is named."""
    world = prepare_as_owner(pg, *texts)
    for act in (world.preview, world.change):
        with pytest.raises(ToolError, match=f"it cannot be tried out, and so not be made: {words}"):
            act(sql)
    assert not counter_was_used(pg)


def test_a_query_cannot_take_numbers_through_a_view(pg: World) -> None:
    """The server stops it: its transaction is read-only."""
    prepare_as_owner(
        pg,
        "CREATE VIEW ticking AS SELECT nextval('counter') AS n",
        "GRANT ALL ON SEQUENCE counter TO agent",
    )
    with pytest.raises(ToolError, match="in a read-only transaction"):
        pg.query("SELECT n FROM ticking")
    assert not counter_was_used(pg)


def test_the_owners_function_cannot_replace_a_built_in_one(pg: World) -> None:
    """pg_catalog is searched first, whatever the role's search_path says."""
    prepare_as_owner(
        pg,
        "CREATE FUNCTION lower(text) RETURNS text LANGUAGE sql AS 'SELECT "
        "nextval(''counter'')::text'",
    )
    pg.raw("ALTER ROLE agent IN DATABASE shop SET search_path = public, pg_catalog")
    statement = pg.disguise(
        "SELECT lower(word) FROM heap ORDER BY 1", "SELECT word FROM heap", changes=False
    )
    with pg.session(writes=False) as session:
        assert session.run_query(statement, 9).rows == (("a",), ("b",))
    assert not counter_was_used(pg)


def add_foreign_tables(pg: World, server: Server) -> None:
    """Let `away` be the table `heap` of this database, and one part of `stock` the table `log`."""
    prepare_as_owner(
        pg,
        "CREATE EXTENSION postgres_fdw",
        f"CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{server.folder}', "
        "dbname 'shop')",
        "CREATE USER MAPPING FOR agent SERVER far OPTIONS (user 'agent', "
        "password_required 'false')",
        "CREATE FOREIGN TABLE away (word text, number int) SERVER far OPTIONS (table_name 'heap')",
        "CREATE TABLE stock (text text) PARTITION BY LIST (text)",
        "CREATE TABLE stock_here PARTITION OF stock FOR VALUES IN ('a')",
        "CREATE FOREIGN TABLE stock_there PARTITION OF stock FOR VALUES IN ('kept') SERVER far "
        "OPTIONS (table_name 'log')",
        "INSERT INTO stock VALUES ('a')",
        "CREATE FUNCTION send() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO away VALUES (NEW.sku, 7); RETURN NEW; END $$",
        "CREATE TRIGGER send AFTER INSERT ON line FOR EACH ROW EXECUTE FUNCTION send()",
    )


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("DELETE FROM away", "away is a foreign table; only a plain table can be changed"),
        (
            "WITH x AS (DELETE FROM away RETURNING word) INSERT INTO log SELECT word FROM x",
            "it changes a foreign table, which cannot be watched",
        ),
        ("DELETE FROM stock", "it changes a foreign table, which cannot be watched"),
        ("INSERT INTO line VALUES (3, 'JUG')", "the trigger send of line names the foreign table"),
    ],
)
def test_a_change_of_a_foreign_table_is_refused(
    pg: World, postgres_server: Server, sql: str, words: str
) -> None:
    """Its rows are not counted here, and its server may not know that a preview is a trial.

    It may be changed by a WITH, as a part of a table, or by a trigger.
    """
    add_foreign_tables(pg, postgres_server)
    before = pg.raw("SELECT * FROM heap"), pg.raw("SELECT * FROM log")
    for act in (pg.preview, pg.change):
        with pytest.raises(ToolError, match=words):
            act(sql)
    assert (pg.raw("SELECT * FROM heap"), pg.raw("SELECT * FROM log")) == before


def test_a_change_may_read_a_foreign_table(pg: World, postgres_server: Server) -> None:
    """Only its own rows change."""
    add_foreign_tables(pg, postgres_server)
    sql = "INSERT INTO log SELECT word FROM away WHERE number = 1"
    assert pg.change(sql, pg.preview(sql).expects) == {"rows": 1, "table": "log"}


@pytest.mark.parametrize(
    "copy", ["(SELECT 1) TO PROGRAM 'cat > {}'", "heap TO '{}'", "\"heap\" (word) TO '{}'"]
)
def test_a_function_that_copies_into_a_file_is_not_run(
    pg: World, postgres_server: Server, copy: str
) -> None:
    """Neither READ ONLY nor a rollback would take the file away."""
    written = postgres_server.folder / "copied"
    body = copy.format(written)
    prepare_as_owner(
        pg,
        f"CREATE FUNCTION exported() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS "
        f"$$ BEGIN COPY {body}; RETURN 1; END $$",
        f"CREATE FUNCTION exports() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS "
        f"$$ BEGIN COPY {body}; RETURN NEW; END $$",
        "CREATE TRIGGER exports AFTER INSERT ON log FOR EACH ROW EXECUTE FUNCTION exports()",
    )
    with pytest.raises(ToolError, match="exported, which may reach out of the database"):
        pg.query("SELECT exported()")
    with pytest.raises(ToolError, match="exports, which may reach out of the database"):
        pg.preview("INSERT INTO log VALUES ('x')")
    assert not written.exists()


def test_a_broken_view_hides_nothing_but_itself(lite: World) -> None:
    """This also holds for a view that would load code."""
    lite.raw("CREATE VIEW stale AS SELECT a FROM nowhere")
    lite.raw("CREATE VIEW evil AS SELECT load_extension('x.so') AS a, 1 AS b")
    listed = lite.tools["tables"].function(lite.tools["tables"].arguments(), context())
    assert "heap: word" in listed
    assert "stale" not in listed
    assert lite.query("SELECT count(*) FROM heap").rows == ((2,),)
    with pytest.raises(ToolError, match="unsafe use of load_extension"):
        lite.query("SELECT b FROM evil")


def test_a_trigger_may_not_load_code(lite: World) -> None:
    """The authorizer lets triggers work, but not with such a function."""
    with closing(sqlite3.connect(lite.database.path)) as owner:
        owner.execute(
            "CREATE TRIGGER evil AFTER DELETE ON heap BEGIN SELECT fts3_tokenizer('simple'); END"
        )
    with pytest.raises(ToolError, match=r"fts3_tokenizer cannot be called|unsafe use of"):
        lite.change("DELETE FROM heap")
    assert lite.raw("SELECT count(*) FROM heap") == [(2,)]


def test_a_postgresql_database_with_countersigns_tables_is_refused(pg: World) -> None:
    """The tables may be in any schema, readable or not, and the URL may be written in any way."""
    pg.raw("CREATE SCHEMA elsewhere")
    for name in sorted(COUNTERSIGN_TABLES):
        assert pg.query("SELECT 1").rows == ((1,),)
        pg.raw(f"CREATE TABLE elsewhere.{name} (id int)")
    other = pg.with_options(
        url=describe_database(
            pg.database.url.get_secret_value().replace("ql://", "ql+psycopg://")
        ).url
    )
    for world in (pg, other):
        with pytest.raises(CountersignDatabaseError, match="contains the tables of a Countersign"):
            world.query("SELECT 1")


def test_a_countersign_database_has_the_tables_it_is_recognised_by(tmp_path: Path) -> None:
    """Otherwise none would be recognised."""
    Store(f"sqlite:///{tmp_path / 'c.db'}").open().close()
    with closing(sqlite3.connect(tmp_path / "c.db")) as made:
        names = {
            name for (name,) in made.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
    assert names >= COUNTERSIGN_TABLES
