"""The SQL that teams need works, and all its rows are counted."""

from __future__ import annotations

import pytest

from bot.tools import ToolError
from tests.tools.database.harness import World

QUERIES = {
    "sqlite": """
SELECT value FROM json_each('[1, 2]')
SELECT word GLOB 'a*', printf('%03d', number), likely(number) FROM heap
EXPLAIN QUERY PLAN SELECT id FROM orders WHERE id = 1
SELECT status, group_concat(id, ',') FROM orders GROUP BY status""",
    "postgres": r"""
SELECT * FROM generate_series(1, 3) AS g(i), LATERAL (SELECT i * 2 AS twice) AS x
SELECT status, customer_id, count(*) FROM orders GROUP BY ROLLUP (status, customer_id)
SELECT id FROM orders WHERE note ~ '^f' AND regexp_replace(note, 'f', 'g') = 'girst'
SELECT '{"a": 1}'::jsonb @> '{"a": 1}', '{"a": 1}'::jsonb ? 'a', ARRAY[1, 2] && ARRAY[2]
SELECT json_agg(status ORDER BY id), array_append(ARRAY[1], 2), lpad('1', 3, '0') FROM orders
SELECT DISTINCT ON (status) status, id FROM orders ORDER BY status, id DESC
SELECT jsonb_set('{"a": 1}', '{a}', '2'), (ARRAY[1, 2])[1]
EXPLAIN SELECT id FROM orders WHERE id = 1
EXPLAIN (FORMAT JSON) DELETE FROM orders
SELECT column_name FROM information_schema.columns WHERE table_name = 'orders'""",
}
BOTH = """
VALUES (1), (2)
SELECT count(*) FILTER (WHERE status = 'pending') FROM orders
SELECT row_number() OVER (PARTITION BY status ORDER BY id) FROM orders
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n
SELECT o.id FROM orders AS o JOIN customer AS c ON c.id = o.customer_id WHERE o.total >= 10
SELECT id FROM line JOIN orders ON orders.id = line.order_id"""


def test_queries_of_analysts_are_answered(world: World) -> None:
    """Each query gives rows."""
    for sql in (BOTH + QUERIES[world.dialect]).strip().split("\n"):
        assert world.query(sql).rows, sql


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("WITH x AS (SELECT 1 AS a) DELETE FROM heap WHERE number > 0", 2),
        (
            "INSERT INTO customer (id, name) VALUES (1, 'x') "
            "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
            1,
        ),
        ("UPDATE orders SET note = c.name FROM customer AS c WHERE c.id = orders.customer_id", 3),
        ("UPDATE heap SET number = 0 RETURNING word", 2),
        ("UPDATE orders SET (note, status) = ('x', 'y') WHERE id = 1", 1),
    ],
)
def test_upserts_update_from_returning_and_with_are_counted(
    world: World, sql: str, rows: int
) -> None:
    """They run, and their rows count against the limit."""
    with pytest.raises(ToolError, match=f"it touches {rows} rows, and at most"):
        world.with_options(max_changes=0).change(sql)  # lower than the settings allow
    assert world.change(sql)["rows"] == rows


def test_a_delete_behind_a_with_is_held_to_the_limit_on_rows(world: World) -> None:
    """Rows that go with it by a foreign key count, too."""
    before = world.dump()
    small = world.with_options(max_changes=3)
    world.raw("INSERT INTO heap VALUES ('c', 3), ('d', 4)")
    with pytest.raises(ToolError, match="it touches 4 rows, and at most 3 may change at once"):
        small.change("WITH x AS (SELECT 1 AS a) DELETE FROM heap WHERE number > 0")
    with pytest.raises(ToolError, match="it touches 6 rows, and at most 3"):
        small.change("DELETE FROM orders")  # three orders and their lines
    world.raw("DELETE FROM heap WHERE number > 2")
    assert world.dump() == before


def test_a_change_inside_a_with_is_counted(pg: World) -> None:
    """It is a change: the tool query refuses it."""
    sql = (
        "WITH gone AS (DELETE FROM line RETURNING sku) INSERT INTO log (text) SELECT sku FROM gone"
    )
    with pytest.raises(ToolError, match="use the tool change for it"):
        pg.query(sql)
    with pytest.raises(ToolError, match="it touches 6 rows"):
        pg.with_options(max_changes=5).change(sql)
    assert pg.raw("SELECT count(*) FROM line") == [(3,)]
    assert pg.change(sql)["rows"] == 3


def test_tables_of_every_schema_in_the_settings_can_be_used(pg: World) -> None:
    """One is used with its schema's name, or without."""
    pg.raw("CREATE SCHEMA sales; CREATE TABLE sales.lead (id int PRIMARY KEY, word text)")
    pg.raw("GRANT USAGE ON SCHEMA sales TO agent; GRANT ALL ON sales.lead TO agent")
    both = pg.with_options(schemas=("public", "sales"))
    assert both.change("INSERT INTO sales.lead (id, word) VALUES (1, 'a')")["rows"] == 1
    assert both.query("SELECT lead.word, heap.word FROM lead JOIN heap USING (word)").rows == (
        ("a", "a"),
    )


def test_a_long_array_says_how_much_of_it_is_missing(pg: World) -> None:
    """A query shows its first hundred values."""
    [[found]] = pg.query("SELECT array_agg(i) FROM generate_series(1, 1150) AS i").rows
    assert found[99:] == [100, "… (1,050 more values)"]
    [[whole]] = pg.query("SELECT array_agg(i) FROM generate_series(1, 100) AS i").rows
    assert whole == list(range(1, 101))
