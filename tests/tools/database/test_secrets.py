"""Two databases that differ only in secrets give the same answers and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bot.tools import ToolError
from tests.tools.database.harness import World, create_sqlite_world
from tests.tools.database.leaks import LEAKS

OTHER_SECRETS = """
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
        "orders JOIN (SELECT '5500-9' AS card_number) AS x USING (card_number)",
        "orders NATURAL JOIN (SELECT '1' AS card_number) AS x",
        "account FULL JOIN (SELECT 'first' AS password, 1 AS c) AS x USING (password)",
        "(SELECT shouted AS c FROM cards UNION ALL SELECT note FROM orders) AS x",
        "(SELECT max(card_number) AS c, status FROM orders GROUP BY status) AS x",
    )
)
SHAPES = """
{}; orders.{}; count({}); max({}); upper({}); {}||'x'; coalesce({}, '?'); length({}); ({} = '4');
cast({} AS INTEGER); substr({}, 1, 2); CASE WHEN {} > '4' THEN 1 END; 1 / length({});
count(DISTINCT {}); (SELECT max({}) FROM orders); nullif({}, '1'); ({} IS NULL)"""
SHAPE = st.sampled_from([each.strip() for each in SHAPES.split(";")])


def draw_expression() -> st.SearchStrategy[str]:
    """Draw a column, alone or in an expression."""
    return st.builds(lambda shape, column: shape.replace("{}", column), SHAPE, COLUMNS)


QUERY = st.builds(
    lambda shown, source, where, tail: (
        f"SELECT {', '.join(shown)} FROM {source}{f' WHERE {where}' if where else ''}{tail}"
    ),
    st.lists(draw_expression(), min_size=1, max_size=3),
    SOURCES,
    st.one_of(st.just(""), draw_expression()),
    st.one_of(
        st.just(""),
        st.just(" ORDER BY 1"),
        st.builds(" ORDER BY {}".format, draw_expression()),
        st.builds(" GROUP BY {}".format, draw_expression()),
        st.builds(" UNION SELECT {} FROM orders".format, draw_expression()),
        st.builds(" UNION ALL SELECT {} FROM account".format, draw_expression()),
    ),
)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, World]:
    """Two SQLite databases that differ only in the values of secret columns."""
    return create_sqlite_world(tmp_path_factory.mktemp("one")), create_sqlite_world(
        tmp_path_factory.mktemp("two"), OTHER_SECRETS
    )


def read_answer(world: World, sql: str) -> Any:
    """All that anybody learns from a query: its rows, or the words of its refusal."""
    try:
        return world.query(sql)
    except (ToolError, ValidationError) as error:
        return str(error)


def test_known_attacks_are_answered_alike_whatever_the_secrets(twins: tuple[World, World]) -> None:
    """Both databases give the same answer to every query in `leaks.py`."""
    one, two = twins
    for sql in LEAKS:
        assert read_answer(one, sql) == read_answer(two, sql), sql


@given(sql=QUERY)
def test_random_queries_are_answered_alike_whatever_the_secrets(
    twins: tuple[World, World], sql: str
) -> None:
    """They combine columns, functions, views and conditions."""
    one, two = twins
    assert read_answer(one, sql) == read_answer(two, sql)


def test_columns_that_are_not_secret_may_be_compared(tmp_path: Path) -> None:
    """A column whose name sounds secret is not, if the settings say so."""
    world = create_sqlite_world(tmp_path).with_options(secret=(), not_secret=("orders.*",))
    assert world.query("SELECT id FROM orders WHERE card_number = '4111-0001'").rows == ((1,),)
    with pytest.raises(ToolError, match=r"account\.password is secret"):
        world.query("SELECT password FROM account")
