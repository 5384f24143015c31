"""Which statements SQLite's authorizer refuses, whatever names they choose, and which it allows;
tried with every function, pragma and module of the running SQLite.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from pydantic import ValidationError

from bot.tools import ToolError
from tests.tools.database.harness import VALUES, World

REFUSED = (ToolError, ValidationError)
# names that a statement may choose for a WITH: those of our triggers and their logs, of the owner's
# trigger and views, of tables, of SQLite's own functions and tables
NAMES = (
    "countersign_watch_",
    "countersign_watch_x",
    "countersign_watch_0_update",
    "countersign_watch_0_insert",
    "countersign_watch_0_delete",
    "countersign_rows_0",
    "countersign_rows_1",
    "watch",
    "cards",
    "log",
    "heap",
    "json_each",
    "sqlite_returning_0",
)
SECRETS = (  # each goes into a WITH of one of those names
    "SELECT card_number AS c FROM orders",
    "SELECT max(password) AS c FROM account",
    "SELECT sql AS c FROM sqlite_schema",
    "SELECT name AS c FROM sqlite_master",
    "SELECT name AS c FROM temp.sqlite_schema",
    "SELECT name AS c FROM pragma_table_info('orders')",
    "SELECT kind AS c FROM countersign_rows_0",
    "SELECT n0 AS c FROM temp.countersign_rows_0",
    "SELECT id AS c FROM orders WHERE card_number > '4111-0001'",
    "SELECT id AS c FROM account ORDER BY password",
    "SELECT fts3_tokenizer('simple') AS c",
    "SELECT load_extension('x.so') AS c",
    "SELECT sqlite_offset(id) AS c FROM orders",
    "SELECT pgno AS c FROM dbstat",
)
USES = {  # statements that use that WITH
    "query": ("WITH {n} AS ({s}) SELECT c FROM {n}",),
    "change": (
        "UPDATE heap SET word = (WITH {n} AS ({s}) SELECT max(c) FROM {n})",
        "UPDATE heap SET number = 1 WHERE EXISTS (WITH {n} AS ({s}) SELECT 1 FROM {n} WHERE c > 0)",
        "WITH {n} AS ({s}) INSERT INTO heap (word) SELECT c FROM {n}",
        "DELETE FROM heap WHERE word IN (WITH {n} AS ({s}) SELECT c FROM {n})",
        "WITH {n} AS ({s}) UPDATE heap SET word = {n}.c FROM {n}",
    ),
}
ALLOWED = """
SELECT 1
SELECT id, note FROM orders
SELECT count(*) FROM orders
SELECT count(*) FROM account
SELECT o.id, c.name FROM orders AS o JOIN customer AS c ON c.id = o.customer_id
SELECT status, sum(total), avg(total), min(id), max(id) FROM orders GROUP BY status
SELECT status FROM orders GROUP BY status HAVING count(*) > 1
SELECT id, row_number() OVER (ORDER BY id) FROM orders
SELECT id, lag(id) OVER (ORDER BY id), ntile(2) OVER (ORDER BY id) FROM orders
SELECT DISTINCT status FROM orders ORDER BY 1 LIMIT 1 OFFSET 0
SELECT id FROM orders UNION ALL SELECT id FROM customer
SELECT id FROM orders EXCEPT SELECT id FROM customer
WITH x AS (SELECT id FROM orders) SELECT count(*) FROM x
WITH countersign_watch_x AS (SELECT id FROM orders) SELECT id FROM countersign_watch_x
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT sum(i) FROM n
SELECT (SELECT count(*) FROM line WHERE order_id = orders.id) FROM orders
SELECT id FROM orders WHERE note LIKE 'f%' OR note GLOB 't*' OR note IS NULL
SELECT id FROM orders WHERE id IN (1, 2) AND total BETWEEN 1 AND 99
SELECT CASE status WHEN 'pending' THEN 1 ELSE 0 END FROM orders
SELECT CAST(total AS INTEGER) FROM orders
SELECT upper(name) || lower(name), length(name), substr(name, 1, 2) FROM customer
SELECT coalesce(note, '-'), ifnull(note, '-'), nullif(note, 'x') FROM orders
SELECT date('now'), datetime('now'), strftime('%Y', 'now'), julianday('now'), CURRENT_TIMESTAMP
SELECT round(1.5), abs(-1), random() IS NOT NULL, hex(randomblob(2)), printf('%d', 1)
SELECT json_extract('{"a": 1}', '$.a'), '{"a": 1}' ->> 'a', json_array(1, 2)
SELECT value FROM json_each('[1, 2]')
SELECT key FROM json_tree('{"a": 1}')
SELECT group_concat(name), total(id) FROM customer
SELECT typeof(1), quote('x'), char(65), unicode('A'), instr('ab', 'b'), trim(' x ')
SELECT sqlite_version()
EXPLAIN SELECT id FROM orders
EXPLAIN QUERY PLAN SELECT id FROM orders
VALUES (1), (2)
INSERT INTO log (text) VALUES ('x')
INSERT INTO heap (word, number) SELECT name, id FROM customer
INSERT INTO heap DEFAULT VALUES
INSERT INTO customer (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = excluded.name
INSERT INTO account (id, login, password) VALUES (9, 'new', 'word')
UPDATE heap SET number = number + 1
UPDATE heap SET number = c.id FROM customer AS c WHERE heap.number = c.id
UPDATE watched SET value = 3 WHERE id = 1
UPDATE account SET password = 'other' WHERE id = 1
UPDATE heap SET word = (WITH countersign_watch_x AS (SELECT 'y' AS c) SELECT c FROM \
countersign_watch_x)
DELETE FROM heap WHERE number > 1
DELETE FROM orders WHERE id = 1
DELETE FROM line WHERE order_id IN (SELECT id FROM orders WHERE status = 'pending')
""".strip().split("\n")
# functions, of any SQLite, that read or disclose more than their arguments, or load code
BEYOND = """
load_extension fts3_tokenizer readfile writefile edit sqlite_offset sqlite_log sqlite_source_id
sqlite_compileoption_get sqlite_compileoption_used rtreecheck rtreedepth rtreenode matchinfo
snippet offsets optimize highlight bm25 fts5 fts5_source_id fts5_get_locale fts5_insttoken
fts5_locale match regexp subtype eval shell
icu_load_collation sqlite_rename_table sqlite_rename_column sqlite_rename_test sqlite_drop_column
sqlite_add_constraint sqlite_fail sqlite_filestat lsmode fsdir zipfile sqlar_compress dbpage nosuch
"""
REFUSED_FUNCTIONS = BEYOND.split()


def list_names(pragma: str) -> list[str]:
    """List names of this SQLite's own functions, pragmas or modules."""
    with closing(sqlite3.connect(":memory:")) as raw:
        return sorted({name for name, *_ in raw.execute(f"PRAGMA {pragma}")})


def run_with_any_tool(world: World, sql: str) -> object:
    """The result of the first tool or preview that runs a statement; None if all of them refuse it
    without disclosing a secret.
    """
    for act in (world.query, world.preview, world.change):
        try:
            return act(sql)
        except REFUSED as error:
            if any(each in str(error) and each not in sql for each in VALUES):
                return error
    return None


@pytest.mark.parametrize("name", NAMES)
def test_a_with_of_any_name_discloses_no_secret(lite: World, name: str) -> None:
    """It reads no schema and none of our tables, and calls no function that loads code."""
    before = lite.dump()
    tried = [
        use.format(n=name, s=secret) for secret in SECRETS for each in USES.values() for use in each
    ]
    assert [sql for sql in tried if run_with_any_tool(lite, sql) is not None] == []
    assert lite.dump() == before


def test_right_and_wrong_guesses_at_a_secret_are_refused_alike(lite: World) -> None:
    """Neither is answered with "would change nothing"."""
    said = set()
    for guess in ("hunter2", "nothing"):
        with pytest.raises(ToolError) as caught:
            lite.preview(
                "UPDATE heap SET number = 5 WHERE EXISTS (WITH countersign_watch_x AS (SELECT "
                "password AS p FROM account) SELECT 1 FROM countersign_watch_x "
                f"WHERE p = '{guess}')"
            )
        said.add(str(caught.value))
    assert len(said) == 1


@pytest.mark.parametrize("sql", ALLOWED)
def test_ordinary_sqlite_statements_are_allowed(lite: World, sql: str) -> None:
    """A query runs; a change has a preview, and runs."""
    if sql.startswith(("SELECT", "WITH", "EXPLAIN", "VALUES")):
        assert lite.query(sql).columns
    else:
        assert lite.change(sql, lite.preview(sql).expects)["rows"] > 0


@pytest.mark.parametrize("function", REFUSED_FUNCTIONS)
def test_a_function_that_does_more_than_compute_is_refused(lite: World, function: str) -> None:
    """It is refused in queries and in changes."""
    calls = [f"{function}({', '.join(['1'] * count)})" for count in range(4)]
    for call in calls:
        assert run_with_any_tool(lite, f"SELECT {call}") is None
        assert run_with_any_tool(lite, f"UPDATE heap SET word = {call}") is None


def test_only_functions_that_do_more_than_compute_are_refused(lite: World) -> None:
    """Tried with all functions of this SQLite."""
    refused = set()
    with lite.session(writes=False) as session:
        for function in list_names("function_list"):
            for count in range(6):
                args = ", ".join(["1"] * count)
                text = f'SELECT "{function}"({args})'
                statement = lite.disguise(text, "SELECT id FROM orders", changes=False)
                try:
                    session.run_query(statement, 1)
                except ToolError as error:
                    refused |= {function} & {str(error).partition(" cannot be called")[0]}
                except sqlite3.Error:
                    continue
    assert refused <= set(REFUSED_FUNCTIONS)
    assert refused >= {"load_extension", "sqlite_log", "sqlite_source_id"}


@pytest.mark.parametrize("pragma", list_names("pragma_list"))
def test_a_pragma_is_neither_run_nor_read(lite: World, pragma: str) -> None:
    """It is refused as a statement, as a table, and as a table behind a WITH of its name."""
    before = lite.dump()
    table = f"pragma_{pragma}"
    for text in (
        f"PRAGMA {pragma}",
        f"PRAGMA {pragma} = 1",
        f"PRAGMA main.{pragma}(orders)",
        f"SELECT * FROM {table}",
        f"SELECT count(*) FROM {table}",
        f"SELECT count(*) FROM {table}('orders')",
        f"SELECT 1 FROM main.{table}",
        f"WITH {table} AS (SELECT 1) SELECT count(*) FROM main.{table}",
        f"SELECT count(*), (WITH {table} AS (SELECT 1) SELECT 1) FROM {table}",
    ):
        assert run_with_any_tool(lite, text) is None, text
        deceived = lite.disguise(text, "SELECT id FROM orders", changes=False)
        with pytest.raises(ToolError), lite.session(writes=False) as session:
            session.run_query(deceived, 10)
    assert lite.dump() == before


@pytest.mark.parametrize("module", sorted({*list_names("module_list"), "dbstat", "sqlite_dbpage"}))
def test_no_tables_of_modules_are_read_except_json(lite: World, module: str) -> None:
    """Not even the number of their rows is read."""
    reads = (f"SELECT count(*) FROM {module}", f"SELECT * FROM main.{module}")
    if module in ("json_each", "json_tree"):
        assert lite.query(f"SELECT count(*) FROM {module}('[1]')").rows
        return
    for text in (*reads, f"UPDATE heap SET number = (SELECT count(*) FROM {module})"):
        assert run_with_any_tool(lite, text) is None, text


@pytest.mark.parametrize(
    "table",
    [
        "sqlite_schema",
        "sqlite_master",
        "sqlite_temp_schema",
        "sqlite_temp_master",
        "main.sqlite_schema",
        "temp.sqlite_schema",
        "SQLite_Master",
        '"sqlite_schema"',
        "sqlite_sequence",
        "sqlite_stat1",
        "countersign_rows_0",
        "temp.countersign_rows_0",
    ],
)
def test_sqlites_own_tables_and_ours_cannot_be_used(lite: World, table: str) -> None:
    """Ours are those in which a change is watched. The second of two statements cannot use them
    either.
    """
    for sql in (
        f"SELECT count(*) FROM {table}",
        f"SELECT * FROM {table}",
        f"UPDATE heap SET number = 7; UPDATE heap SET number = (SELECT count(*) FROM {table})",
        f"UPDATE heap SET number = 7; DELETE FROM heap WHERE EXISTS (SELECT 1 FROM {table})",
        f"UPDATE heap SET number = 7; DELETE FROM {table}",
        f"UPDATE heap SET number = 7; INSERT INTO {table} DEFAULT VALUES",
        f"UPDATE heap SET number = 7; UPDATE {table} SET kind = 'I'",
    ):
        assert run_with_any_tool(lite, sql) is None, sql
