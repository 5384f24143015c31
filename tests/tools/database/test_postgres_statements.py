"""Which functions a statement may call in PostgreSQL: in every spelling, and from every place where
a server calls one; tried with every function of the running server.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from pydantic import ValidationError

from bot.tools import ToolError
from bot.tools.database.postgres_rights import StatementReachChecker
from tests.postgres_server import Server
from tests.tools.database.harness import GRANTS, World, create_postgres_world

REFUSED = (ToolError, ValidationError)
# functions with an effect that no rollback undoes, or that disclose something of the server
CALLS = {
    "pg_terminate_backend": "{pid}",
    "pg_cancel_backend": "{pid}",
    "pg_advisory_lock": "7",
    "pg_try_advisory_lock": "7",
    "pg_advisory_lock_shared": "7",
    "pg_advisory_xact_lock": "7",
    "pg_sleep": "1",
    "lo_unlink": "4711",
    "lo_create": "4712",
    "lo_get": "4711",
    "pg_read_file": "'/etc/passwd'",
    "pg_ls_dir": "'/'",
    "pg_stat_file": "'/etc/passwd'",
    "nextval": "'counter'",
    "currval": "'counter'",
    "pg_notify": "'a', 'b'",
    "set_config": "'a.b', 'c', false",
    "setval": "'counter', 99",
    "query_to_xml": "'SELECT 1', true, true, ''",
    "table_to_xml": "'heap', true, true, ''",
    "ts_stat": "'SELECT to_tsvector(word) FROM heap'",
    "setseed": "0.5",
    "pg_stat_get_backend_activity": "1",
    "pg_export_snapshot": "",
    "pg_reload_conf": "",
    "dblink_connect": "'dbname=shop'",
    "dblink_exec": "'DELETE FROM heap'",
}
SPELLINGS = (  # ways to write a call with its arguments in an expression
    "{f}({a})",
    "pg_catalog.{f}({a})",
    '"{f}"({a})',
    "({a}).{f}",
    '({a})."{f}"',
    "(({a})).{f}",
    "(SELECT ({a}).{f})",
    "(SELECT x.{f} FROM (SELECT {a} AS y) AS x)",
    "(SELECT max((y).{f}) FROM (SELECT {a} AS y) AS x)",
    "(SELECT count(*) FROM {f}({a}) AS t)",
    "(SELECT count(*) FROM ROWS FROM ({f}({a})) AS t)",
    "(SELECT count(*) FROM heap, LATERAL {f}({a}) AS t)",
    "CASE WHEN {f}({a}) IS NULL THEN 1 END",
    "coalesce(NULL, {f}({a}))",
    "(WITH w AS (SELECT {f}({a}) AS c) SELECT count(c) FROM w)",
    "(VALUES ({f}({a})))",
    "{f} ({a})",
    "{f}\n({a})",
    "cast({f}({a}) AS text)",
    "(array[{f}({a})])",
)
STATEMENTS = (
    "SELECT {c}",
    "SELECT word FROM heap WHERE {c} IS NULL",
    "SELECT word FROM heap ORDER BY {c}",
    "SELECT word FROM heap LIMIT ({c} IS NULL)::int",
    "EXPLAIN SELECT {c}",
    "UPDATE heap SET word = ({c})::text",
    "UPDATE heap SET number = 1 WHERE ({c}) IS NOT NULL",
    "INSERT INTO heap (word) VALUES (({c})::text), ('b')",
    "INSERT INTO heap (word) SELECT ({c})::text",
    "INSERT INTO customer (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = "
    "({c})::text",
    "DELETE FROM heap WHERE ({c}) IS NOT NULL",
    "UPDATE heap SET number = 1 RETURNING {c}",
    "DELETE FROM heap; UPDATE customer SET name = ({c})::text",
)
ALLOWED = """
SELECT 1
SELECT id, note FROM orders
SELECT count(*) FROM orders
SELECT status, sum(total), avg(total), max(id) FROM orders GROUP BY status HAVING count(*) > 1
SELECT DISTINCT ON (status) id FROM orders ORDER BY status, id
SELECT row_number() OVER (ORDER BY id), lag(id) OVER (ORDER BY id) FROM orders
SELECT upper(name), lower(name), length(name), substring(name, 1, 2), name || 'x' FROM customer
SELECT name FROM customer WHERE name ILIKE 'm%' OR email ~ 'x' OR email IS NULL
SELECT o.id, c.name FROM orders AS o LEFT JOIN customer AS c ON c.id = o.customer_id
SELECT now(), current_date, current_timestamp, clock_timestamp(), localtime
SELECT date_trunc('month', now()), extract(year FROM now()), age(now()), now() - interval '1 day'
SELECT to_char(now(), 'YYYY'), to_date('2020', 'YYYY'), make_date(2020, 1, 1)
SELECT random(), gen_random_uuid(), md5('x'), sha256('x'), encode('x', 'hex')
SELECT round(1.5), ceil(1.2), floor(1.2), abs(-1), mod(5, 3), power(2, 3), sqrt(4)
SELECT coalesce(note, '-'), nullif(note, 'x'), greatest(1, 2), least(1, 2) FROM orders
SELECT json_build_object('a', 1), to_jsonb(1), '{"a": 1}'::jsonb -> 'a', jsonb_agg(id) FROM orders
SELECT array_agg(id), string_agg(status, ','), bool_and(true), percentile_cont(0.5) WITHIN GROUP \
(ORDER BY id) FROM orders
SELECT generate_series(1, 3)
SELECT d::date FROM generate_series(now(), now() + interval '2 days', interval '1 day') AS d
SELECT unnest(ARRAY[1, 2]), array_length(ARRAY[1], 1)
SELECT split_part('a b', ' ', 1), regexp_replace('a', 'a', 'b'), format('%s', 1), initcap('x')
SELECT CASE WHEN id = 1 THEN 'a' ELSE 'b' END FROM orders
SELECT id::text, CAST(id AS numeric) FROM orders
SELECT pg_typeof(1), pg_size_pretty(100::bigint), current_user, version()
SELECT pg_size_pretty(pg_relation_size('heap'))
SELECT to_tsvector('a b') @@ to_tsquery('a')
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT sum(i) FROM n
SELECT table_name FROM information_schema.tables
EXPLAIN (FORMAT JSON) SELECT id FROM orders
VALUES (1), (2)
INSERT INTO log (text) VALUES ('x')
INSERT INTO numbered (word) VALUES ('x')
INSERT INTO numbered (word) SELECT name FROM customer
INSERT INTO customer (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = excluded.name
UPDATE heap SET number = number + 1
UPDATE heap SET word = gen_random_uuid()::text WHERE word = 'a'
UPDATE heap SET number = c.id FROM customer AS c WHERE heap.number = c.id
UPDATE watched SET value = 3 WHERE id = 1
UPDATE orders SET note = to_char(now(), 'YYYY'), card_number = 'x' WHERE id = 1
DELETE FROM heap USING customer WHERE heap.number = customer.id
DELETE FROM orders WHERE id = 1
""".strip().split("\n")
# where an owner can have a function called: the SQL that makes the place, and the statement that
# then calls the function; {c} is the call, {q} the same within quotes
TICKS = "CREATE FUNCTION ticks(int) RETURNS bool VOLATILE LANGUAGE sql AS 'SELECT ({q}) IS NULL'; "
STILL = TICKS.replace("VOLATILE", "IMMUTABLE")
PLACES = {
    "a view": ("CREATE VIEW v AS SELECT ({c}) IS NULL AS n", "SELECT n FROM v"),
    "a view of a view": (
        "CREATE VIEW v AS SELECT ({c}) IS NULL AS n; CREATE VIEW w AS SELECT n FROM v",
        "SELECT n FROM w",
    ),
    "a view in a change": (
        "CREATE VIEW v AS SELECT ({c}) IS NULL AS n",
        "DELETE FROM heap USING v",
    ),
    "a materialized view's own view": (
        "CREATE VIEW v AS SELECT ({c}) IS NULL AS n; "
        "CREATE VIEW w AS SELECT (SELECT count(*) FROM v) AS n",
        "SELECT n FROM w",
    ),
    "a function": (TICKS, "SELECT ticks(1)"),
    "a function by a dot": (TICKS, "SELECT (1).ticks"),
    "a function in a change": (TICKS, "UPDATE heap SET number = 1 WHERE ticks(number)"),
    "a function of a function": (
        TICKS + "CREATE FUNCTION tocks(int) RETURNS bool LANGUAGE sql AS 'SELECT ticks($1)'",
        "SELECT tocks(1)",
    ),
    "a function with a tree": (
        "CREATE FUNCTION ticks(int) RETURNS bool LANGUAGE sql RETURN ({c}) IS NULL",
        "SELECT ticks(1)",
    ),
    "a function's default": (
        TICKS + "CREATE FUNCTION tocks(int, b bool DEFAULT ticks(1)) RETURNS bool LANGUAGE sql "
        "AS 'SELECT $2'",
        "SELECT tocks(1)",
    ),
    "a function that makes up SQL": (
        "CREATE FUNCTION ticks(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE ''SELECT '' || "
        "''pg_ad'' || ''visory_lock(7)''; RETURN 1; END'",
        "SELECT ticks(1)",
    ),
    "an aggregate": (
        TICKS + "CREATE FUNCTION adds(int, int) RETURNS int LANGUAGE sql AS 'SELECT "
        "ticks($1)::int'; CREATE AGGREGATE gather(int) (SFUNC = adds, STYPE = int, INITCOND = '0')",
        "SELECT gather(number) FROM heap",
    ),
    "an operator": (
        TICKS + "CREATE FUNCTION differs(int, text) RETURNS bool LANGUAGE sql AS 'SELECT "
        "ticks($1)'; CREATE OPERATOR = (leftarg = int, rightarg = text, function = differs)",
        "SELECT 1 = 'a'::text",
    ),
    "a cast": (
        TICKS + "CREATE TYPE pair AS (a int); CREATE FUNCTION bare(pair) RETURNS bool LANGUAGE sql "
        "AS 'SELECT ticks(1)'; CREATE CAST (pair AS bool) WITH FUNCTION bare(pair) AS IMPLICIT",
        "SELECT 1 WHERE ROW(1)::pair",
    ),
    "a domain": (
        TICKS + "CREATE DOMAIN odd AS int CHECK (ticks(VALUE))",
        "SELECT 1::odd",
    ),
    "row security": (
        TICKS + "ALTER TABLE heap ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON heap USING "
        "(ticks(number))",
        "SELECT word FROM heap",
    ),
    "a default": (
        TICKS + "ALTER TABLE heap ADD seen bool DEFAULT NULL; "
        "ALTER TABLE heap ALTER seen SET DEFAULT ticks(1)",
        "INSERT INTO heap (word) VALUES ('x')",
    ),
    "a check": (
        STILL + "ALTER TABLE heap ADD CHECK (ticks(number)) NOT VALID",
        "INSERT INTO heap (word, number) VALUES ('x', 1)",
    ),
    "a computed column": (
        "CREATE TABLE made (a int, b bool); GRANT ALL ON made TO agent; "
        + STILL
        + "ALTER TABLE made ADD c bool GENERATED ALWAYS AS (ticks(a)) STORED",
        "INSERT INTO made (a) VALUES (1)",
    ),
    "an index": (
        "CREATE TABLE made (a int, b bool); GRANT ALL ON made TO agent; "
        + STILL
        + "CREATE INDEX i ON made ((ticks(a)))",
        "INSERT INTO made (a) VALUES (1)",
    ),
    "a part of an index": (
        "CREATE TABLE made (a int, b bool); GRANT ALL ON made TO agent; "
        + STILL
        + "CREATE INDEX i ON made (a) WHERE ticks(a)",
        "INSERT INTO made (a) VALUES (1)",
    ),
    "a rule": (
        "CREATE RULE r AS ON DELETE TO heap DO ALSO SELECT {c}",
        "DELETE FROM heap",
    ),
    "a trigger": (
        "CREATE FUNCTION ticks() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM {q}; RETURN "
        "NEW; END'; CREATE TRIGGER t BEFORE UPDATE ON heap FOR EACH ROW EXECUTE FUNCTION ticks()",
        "UPDATE heap SET number = 1",
    ),
    "a trigger's condition": (
        TICKS + "CREATE FUNCTION rests() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; "
        "END'; CREATE TRIGGER t BEFORE UPDATE ON heap FOR EACH ROW WHEN (ticks(OLD.number)) "
        "EXECUTE FUNCTION rests()",
        "UPDATE heap SET number = 1",
    ),
    "a trigger of a child": (
        "CREATE FUNCTION ticks() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM {q}; RETURN "
        "OLD; END'; CREATE TRIGGER t BEFORE DELETE ON line FOR EACH ROW EXECUTE FUNCTION ticks()",
        "DELETE FROM orders WHERE id = 1",
    ),
    "a trigger of a part": (
        "CREATE FUNCTION ticks() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM {q}; RETURN "
        "NEW; END'; CREATE TABLE whole (a int) PARTITION BY LIST (a); CREATE TABLE part PARTITION "
        "OF whole DEFAULT; GRANT ALL ON whole TO agent; "
        "CREATE TRIGGER t BEFORE INSERT ON part FOR EACH ROW EXECUTE FUNCTION ticks()",
        "INSERT INTO whole (a) VALUES (1)",
    ),
}
HARMLESS = {
    "random",
    "random_normal",
    "clock_timestamp",
    "timeofday",
    "gen_random_uuid",
    "uuidv4",
    "uuidv7",
    "array_sample",
    "array_shuffle",
    "pg_relation_size",
    "pg_table_size",
    "pg_indexes_size",
    "pg_total_relation_size",
    "pg_database_size",
}
HIDDEN = ("pg_terminate_backend", "pg_advisory_lock", "lo_unlink", "pg_sleep", "dblink_connect")


@pytest.fixture(scope="module")
def shop(postgres_server: Server) -> World:
    """One database for statements that leave nothing behind, with the extension dblink."""
    world = create_postgres_world(postgres_server, "statements")
    world.raw("CREATE EXTENSION dblink")
    return world


@pytest.fixture
def bystander(postgres_server: Server) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Somebody else's session of the same role, which that role could end."""
    with postgres_server.connect("postgres", "agent") as other:
        yield other
        assert other.execute("SELECT 1").fetchone() == (1,)


def run_with_any_tool(world: World, sql: str) -> object:
    """The result of the first tool or preview that runs a statement; None if all refuse it."""
    for act in (world.query, world.preview, world.change):
        try:
            return act(sql)
        except REFUSED:
            continue
    return None


def list_traces(world: World) -> object:
    """List what calls of these functions would leave, beside rows."""
    return world.raw(
        "SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), "
        "(SELECT array_agg(oid) FROM pg_largeobject_metadata), (SELECT last_value FROM counter)"
    )


@pytest.mark.parametrize("function", CALLS)
def test_a_function_with_lasting_effects_is_called_by_no_tool(
    shop: World, bystander: psycopg.Connection[tuple[object, ...]], function: str
) -> None:
    """This holds for previews, and however and wherever the call is written."""
    args = CALLS[function].format(pid=bystander.info.backend_pid)
    before = shop.dump(), list_traces(shop)
    texts = [STATEMENTS[0].format(c=each.format(f=function, a=args)) for each in SPELLINGS]
    texts += [
        each.format(c=call.format(f=function, a=args))
        for each in STATEMENTS
        for call in ("{f}({a})", "({a}).{f}")
    ]
    assert [sql for sql in texts if run_with_any_tool(shop, sql) is not None] == []
    assert (shop.dump(), list_traces(shop)) == before


@pytest.mark.parametrize("sql", ALLOWED)
def test_ordinary_postgresql_statements_are_allowed(shop: World, sql: str) -> None:
    """A query runs; a change has a preview."""
    if sql.startswith(("SELECT", "WITH", "EXPLAIN", "VALUES")):
        assert shop.query(sql).columns
    else:
        assert shop.preview(sql).expects.startswith("rows=")


def is_allowed(session: object, text: str, *, writes: bool) -> bool:
    """Whether the check finds nothing that the statement must not call."""
    try:
        raw = session.connection.connection.driver_connection  # type: ignore[attr-defined] # PostgreSQL's
        StatementReachChecker(raw, writes=writes).check_statement(text)
    except ToolError:
        return False
    return True


def test_volatile_functions_of_the_server_are_refused(shop: World) -> None:
    """Of those that the role may call, only functions for a time, chance or a size are allowed.

    Functions that are not volatile may be called, except `pg_…` and `lo_…`.
    """
    named = shop.raw(
        "SELECT proname::text, bool_or(provolatile = 'v') FROM pg_proc WHERE oid < 16384 AND NOT "
        "2281 = ANY(proargtypes) AND prorettype NOT IN (2279, 3838) AND "
        "has_function_privilege('agent', oid, 'EXECUTE') GROUP BY 1"
    )
    acting = {name for name, volatile in named if volatile} - HARMLESS
    assert len(acting) > 100
    with shop.session(writes=False) as session:
        texts = [text for name in acting for text in (f'SELECT "{name}"()', f'SELECT (1)."{name}"')]
        assert [each for each in texts if is_allowed(session, each, writes=False)] == []
        others = sorted(
            name for name, _ in named if name not in acting and not name.startswith(("pg_", "lo_"))
        )
        pieces = [others[at : at + 40] for at in range(0, len(others), 40)]
        calls = [
            ", ".join(f'"{each}"()' for each in piece if "to_xml" not in each) for piece in pieces
        ]
        assert [
            each for each in calls if not is_allowed(session, f"SELECT {each}", writes=True)
        ] == []
    assert len(others) > 1500


@pytest.mark.parametrize(("at", "place"), list(enumerate(PLACES)))
def test_a_function_called_by_an_owners_object_is_found(
    pg: World, bystander: psycopg.Connection[tuple[object, ...]], at: int, place: str
) -> None:
    """A view, a trigger, an operator or the like would call it; nothing is run."""
    made, sql = PLACES[place]
    function = HIDDEN[at % len(HIDDEN)]
    call = f"{function}({CALLS[function].format(pid=bystander.info.backend_pid)})"
    if function.startswith("dblink"):  # since PostgreSQL 17 an index is built without a search path
        call = f"public.{call}"
    pg.raw("CREATE EXTENSION dblink")
    with pg.session(writes=True) as session:
        assert is_allowed(session, sql, writes=True)
    pg.raw(f"{made.format(c=call, q=call.replace(chr(39), chr(39) * 2))}; {GRANTS}")
    before = list_traces(pg)
    act = pg.query if sql.startswith("SELECT") else pg.preview
    with pytest.raises(ToolError, match=f"calls {function}, which|which builds its statements"):
        act(sql)
    assert run_with_any_tool(pg, sql) is None
    assert list_traces(pg) == before


def test_a_change_counts_rows_that_a_function_changes(pg: World) -> None:
    """An owner's function that only changes rows may be called."""
    pg.raw(
        "CREATE FUNCTION notes(text) RETURNS text LANGUAGE sql AS 'INSERT INTO public.log VALUES "
        "($1); SELECT $1'; " + GRANTS
    )
    assert pg.change("UPDATE heap SET word = notes('n') WHERE word = 'a'") == {
        "rows": 1,
        "table": "heap",
        "also": {"log": 1},
    }


def test_a_column_named_like_a_revoked_function_can_be_read(pg: World) -> None:
    """While the role may call the function, the column's name could be a call."""
    pg.raw(
        "CREATE FUNCTION number() RETURNS int LANGUAGE plpgsql AS 'BEGIN EXECUTE ''SELECT 1''; "
        "RETURN 1; END'"
    )
    with pytest.raises(ToolError, match="it names the function number, which builds its stat"):
        pg.query("SELECT number FROM heap")
    pg.raw("REVOKE EXECUTE ON FUNCTION number() FROM PUBLIC")
    assert pg.query("SELECT number FROM heap ORDER BY 1").rows == ((1,), (2,))


def test_a_built_in_function_under_another_name_is_found(pg: World) -> None:
    """The function `ends` is pg_terminate_backend."""
    pg.raw(
        "CREATE FUNCTION ends(int, bigint) RETURNS bool LANGUAGE internal AS 'pg_terminate_backend'"
    )
    with pytest.raises(ToolError, match="the function ends calls pg_terminate_backend"):
        pg.query("SELECT ends(1, 1)")


def test_rows_of_a_table_with_a_key_of_several_columns_are_found(pg: World) -> None:
    """They are asked for by all columns of the key."""
    pg.raw("CREATE TABLE seat (hall TEXT, number INTEGER, who TEXT, PRIMARY KEY (hall, number))")
    pg.raw("INSERT INTO seat VALUES ('a', 1, 'Ana'), ('a', 2, 'Ben'), ('b', 1, 'Cleo')")
    pg.raw("GRANT ALL ON seat TO agent")
    sql = "UPDATE seat SET who = 'Dora' WHERE hall = 'a' AND number < 3"
    shown = pg.preview(sql)
    assert shown.text.splitlines() == [
        "Changes 2 rows of seat.",
        "1. hall a, number 1",
        "   who  Ana → Dora",
        "2. hall a, number 2",
        "   who  Ben → Dora",
    ]
    assert pg.change(sql, shown.expects)["rows"] == 2
    assert pg.preview("DELETE FROM seat WHERE number = 2").text.splitlines()[2:] == [
        "a     2       Dora"
    ]


@pytest.mark.parametrize(
    ("kind", "before", "after"), [("citext", "Ana@x", "ana@x"), ("numeric", "1", "1.00")]
)
def test_a_key_may_be_written_anew_as_an_equal_one(
    pg: World, kind: str, before: str, after: str
) -> None:
    """The server takes both for the same; the card shows how each is written."""
    pg.raw("CREATE EXTENSION citext")
    pg.raw(f"CREATE TABLE member (key {kind} PRIMARY KEY)")
    pg.raw(f"INSERT INTO member VALUES ('{before}')")
    pg.raw("GRANT ALL ON member TO agent")
    sql = f"UPDATE member SET key = '{after}'"
    shown = pg.preview(sql)
    assert shown.text.splitlines()[0] == "Changes 1 row of member."
    assert [each for each in shown.text.splitlines() if each in (before, after)] == [before, after]
    assert pg.change(sql, shown.expects)["rows"] == 1
