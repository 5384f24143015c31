"""Which statements the lexers and the parser accept, and what they find in them."""

from __future__ import annotations

import pytest

from bot.tools.database.config import Dialect
from bot.tools.database.sql_tools import SqlText
from bot.tools.database.statement import MAX_STATEMENT_CHARS, StatementError, parse_statement

QUERIES = [
    "SELECT * FROM orders",
    "select a=-1, a<=-1, a<>-1, 2*-1 from t",
    "SELECT status, count(*) AS n, sum(total) FROM orders GROUP BY status HAVING count(*) > 1 "
    "ORDER BY n DESC LIMIT 5",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT i FROM n",
    "SELECT a FROM t UNION SELECT b FROM u EXCEPT SELECT c FROM v",
    "SELECT CASE WHEN a IS NULL THEN 'it''s' ELSE \"b\" END FROM t LEFT JOIN u USING (id) WHERE "
    "a NOT LIKE '%\\x'",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT "
    "ROW) FROM t",
    "SELECT o.note ->> 'key', CAST(a AS NUMERIC(10, 2)), lower(b) || 'ä' FROM main_table AS o "
    "WHERE a IN (1, 2)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id) AND x BETWEEN 1 AND 2",
]
ONLY = {
    "sqlite": "SELECT date(a, '-7 days'), strftime('%Y', a), group_concat(b, ', '), iif(a, 1, "
    "2) FROM t",
    "postgres": "SELECT extract(year FROM a), date_trunc('day', a), now() - interval '1 day', "
    "a::date, "
    "string_agg(b, ',' ORDER BY b), percentile_cont(0.5) WITHIN GROUP (ORDER BY c) FROM t WHERE "
    "a > current_date",
}
each_dialect = pytest.mark.parametrize("dialect", ["sqlite", "postgres"])


@each_dialect
def test_ordinary_queries_are_accepted_unchanged(dialect: Dialect) -> None:
    """These are queries of an ordinary day."""
    for text in [*QUERIES, ONLY[dialect]]:
        assert parse_statement(text, dialect, changes=False).text == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT 1 -- x", "comments are not allowed"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("SELECT $$x$$", r"\$ is not allowed"),
        ("SELECT E'x'", "letter before the quote"),
        ("SELECT 'x", "a string does not end"),
        ("SELECT '\u202e'", r"invisible character U\+202E"),
        ("SELECT 'a\u3164'", r"invisible character U\+3164"),
        ('DELETE FROM "t\ufe0f"', r"invisible character U\+FE0F"),
        ("SELECT U&'x'", "letter before the quote"),
        ("PRAGMA user_version", "PRAGMA is not run: settings of the database"),
        (
            "ALTER TABLE t ADD a int",
            "ALTER is not run: it would change the database's structure",
        ),
        ("FETCH ALL FROM c", "FETCH is not run; only SELECT is"),
        ("EXPLAIN ANALYZE CREATE TABLE t AS SELECT 1", "EXPLAIN is only for a SELECT, INSERT"),
        ("SELECT pg_advisory_lock(1)", "the function pg_advisory_lock is not allowed"),
        (
            "WITH x AS (DELETE FROM t) SELECT 1",
            "it is DELETE, and only SELECT is allowed here; use the tool change",
        ),
        ("SELECT " + "(" * 100 + "1" + ")" * 100, "too deeply nested"),
        ("SELECT " + "1 + " * 700 + "1", "too long"),
        ("SELECT '" + "x" * MAX_STATEMENT_CHARS + "'", "more than 3000"),
        ("", "empty"),
    ],
)
def test_the_refusal_of_a_statement_says_why(text: str, words: str) -> None:
    """Where possible, it says what to write instead."""
    with pytest.raises(StatementError, match=words):
        parse_statement(text, "postgres", changes=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("INSERT OR REPLACE INTO t (a) VALUES (1)", r"write INSERT … ON CONFLICT \(…\) DO UPDATE"),
        ("REPLACE INTO t (a) VALUES (1)", r"write INSERT … ON CONFLICT \(…\) DO UPDATE"),
        ("EXPLAIN DELETE FROM t", "use the tool query"),
        ("SELECT 1", "use the tool query"),
    ],
)
def test_the_refusal_of_a_change_says_what_to_write_instead(text: str, words: str) -> None:
    """It names another statement, or the tool query."""
    with pytest.raises(StatementError, match=words):
        parse_statement(text, "sqlite", changes=True)


@pytest.mark.parametrize(
    ("text", "deed"),
    [
        ("update orders set a = 1", "Update orders"),
        ('DELETE FROM "big table" WHERE 1=1', "Delete rows of big table"),
        ("WITH x AS (SELECT 1) INSERT INTO log (text) SELECT 'a'", "Insert into log"),
        ('WITH "insert" AS (SELECT 1) DELETE FROM orders', "Delete rows of orders"),
        ("WITH insert AS (SELECT 1) DELETE FROM sales.orders", "Delete rows of sales.orders"),
        (
            "UPDATE orders SET note = ';'; DELETE FROM heap",
            "Update orders, then delete rows of heap",
        ),
        (
            "DELETE FROM a; DELETE FROM b; DELETE FROM c; DELETE FROM d",
            "Delete rows of a, then delete rows of b, then 2 more changes",
        ),
        ("anything else", "Change rows"),
        ("; --", "Change rows"),
    ],
)
def test_a_change_is_summarised_by_its_verbs_and_tables(text: str, deed: str) -> None:
    """The summary is for the sentence on the card."""
    assert SqlText(text).summary == deed
