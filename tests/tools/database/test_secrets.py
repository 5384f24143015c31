"""Two databases that differ only in secrets give the same answers and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.tools import ToolError
from bot.tools.database.catalog import Catalog, Column, Relation
from bot.tools.database.secrets import mark, mark_views
from bot.tools.database.sql import Dialect
from tests.tools.database.harness import World, described, sqlite_world
from tests.tools.database.leaks import LEAKS, MASKED, TOLD_NOTHING

OTHER = """
UPDATE orders SET card_number = '5500-9' WHERE id = 1;
UPDATE orders SET card_number = '1' WHERE id = 2;
UPDATE account SET password = 'first' WHERE id = 1;
"""
COLUMNS = st.sampled_from(
    ("card_number", "password", "id", "note", "total", "status", "shouted", "c")
)
SOURCES = st.sampled_from(
    (
        "orders",
        "account",
        "cards",
        "orders AS o",
        "orders CROSS JOIN account",
        "(SELECT card_number AS c, id FROM orders) AS x",
        "(SELECT shouted AS c FROM cards UNION ALL SELECT note FROM orders) AS x",
        "(SELECT max(card_number) AS c, status FROM orders GROUP BY status) AS x",
    )
)
SHAPES = """
{}; orders.{}; count({}); max({}); upper({}); {}||'x'; coalesce({}, '?'); length({}); ({} = '4');
cast({} AS INTEGER); substr({}, 1, 2); CASE WHEN {} > '4' THEN 1 END; 1 / length({});
count(DISTINCT {}); (SELECT max({}) FROM orders); nullif({}, '1'); ({} IS NULL)"""
SHAPE = st.sampled_from([each.strip() for each in SHAPES.split(";")])


def expression() -> st.SearchStrategy[str]:
    """A column, alone or in an expression."""
    return st.builds(lambda shape, column: shape.replace("{}", column), SHAPE, COLUMNS)


QUERY = st.builds(
    lambda shown, source, where, tail: (
        f"SELECT {', '.join(shown)} FROM {source}{f' WHERE {where}' if where else ''}{tail}"
    ),
    st.lists(expression(), min_size=1, max_size=3),
    SOURCES,
    st.one_of(st.just(""), expression()),
    st.one_of(
        st.just(""),
        st.just(" ORDER BY 1"),
        st.builds(" ORDER BY {}".format, expression()),
        st.builds(" GROUP BY {}".format, expression()),
        st.builds(" UNION SELECT {} FROM orders".format, expression()),
        st.builds(" UNION ALL SELECT {} FROM account".format, expression()),
    ),
)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, World]:
    """Two SQLite databases that differ in the values of secret columns alone."""
    return sqlite_world(tmp_path_factory.mktemp("one")), sqlite_world(
        tmp_path_factory.mktemp("two"), OTHER
    )


def answer(world: World, sql: str) -> Any:
    """All that anybody learns from a query: its rows, or the words it was refused with."""
    try:
        return world.query(sql)
    except (ToolError, ValidationError) as error:
        return str(error)


def test_the_known_attempts(twins: tuple[World, World]) -> None:
    """Every query of the lists of attacks is answered alike by both."""
    one, two = twins
    for sql in [*LEAKS, *MASKED, *TOLD_NOTHING]:
        assert answer(one, sql) == answer(two, sql), sql


@given(sql=QUERY)
@settings(max_examples=120, deadline=None)
def test_no_query_depends_on_a_secret(twins: tuple[World, World], sql: str) -> None:
    """However columns, functions, views and conditions combine, no answer hangs on a secret."""
    one, two = twins
    assert answer(one, sql) == answer(two, sql)


def catalog(dialect: Dialect, *views: tuple[str, str, str]) -> Catalog:
    """`orders` with a secret column, and views: name, column names, definition."""
    tables = [Relation("orders", "table", (Column("id", "int"), Column("card_number", "text")))]
    for name, columns, definition in views:
        tables.append(
            Relation(
                name,
                "view",
                tuple(Column(each, "text") for each in columns.split()),
                definition=definition,
            )
        )
    return Catalog(dialect, "public", {each.name: each for each in tables})


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_views_are_followed(dialect: Dialect) -> None:
    """A view's column is secret when a secret had any part in it, through other views too.

    When in doubt, all are.
    """
    found = mark(
        catalog(
            dialect,
            ("plain", "id", "SELECT id FROM orders WHERE card_number = '1'"),
            ("shown", "id hidden", "SELECT id, substr(card_number, 1, 2) FROM orders"),
            ("twice", "a", "SELECT hidden || 'x' AS a FROM shown"),
            ("inner", "a", "SELECT (SELECT max(card_number) FROM orders) AS a"),
            ("odd", "a b", "this is no SELECT"),
            (
                "hidden_in",
                "a",
                "SELECT max(CASE WHEN id = 1 THEN card_number END) AS a FROM orders",
            ),
        ),
        described("sqlite:///x.db"),
    )
    secret = {name: set(table.secret) for name, table in found.tables.items()}
    assert secret == {
        "orders": {"card_number"},
        "plain": set(),
        "shown": {"hidden"},
        "twice": {"a"},
        "inner": {"a"},
        "odd": {"a", "b"},
        "hidden_in": {"a"},
    }


def test_kin_share_secrets() -> None:
    """A partition, or a table that inherits, keeps secret what its parent does.

    It is the same the other way round.
    """
    columns = (Column("id", "int"), Column("card_number", "text"))
    tables = {
        "part": Relation("part", "table", columns, kin=frozenset({"orders"})),
        "orders": Relation("orders", "partitioned", columns, kin=frozenset({"part"})),
    }
    for order in (tables, dict(reversed(tables.items()))):
        found = mark_views(
            Catalog("postgres", "public", order).with_secrets({"part": ["card_number"]})
        )
        assert {table.secret for table in found.tables.values()} == {frozenset({"card_number"})}


def test_without_secrets_nothing_is_followed(tmp_path: Path) -> None:
    """Where no column is secret, every comparison is allowed."""
    world = sqlite_world(tmp_path).with_options(secret=())
    assert world.query("SELECT id FROM orders WHERE card_number = '4111-0001'").rows == ((1,),)
