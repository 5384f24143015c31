"""Statements against the rules of the database tools are refused and change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from bot.tools import ToolError
from tests.tools.database.attacks import BOTH
from tests.tools.database.disguises import DISGUISED
from tests.tools.database.harness import VALUES, World
from tests.tools.database.leaks import LEAKING_CHANGES, LEAKS
from tests.tools.database.postgres_attacks import POSTGRES
from tests.tools.database.sqlite_attacks import SQLITE

REFUSED = (ToolError, ValidationError)


def try_tool(world: World, tool: str, sql: str) -> Any:
    """Call the tool and return its result, or the error that refuses the call."""
    try:
        return world.query(sql) if tool == "query" else world.change(sql)
    except REFUSED as error:
        return error


@pytest.mark.parametrize("tool", ["query", "change"])
def test_each_attack_is_refused_by_both_tools(world: World, tool: str) -> None:
    """The refusal gives a reason, and nothing in the database or beside it changes."""
    before = world.dump()
    passed = []
    for sql in (*BOTH, *POSTGRES, *SQLITE):
        ended = try_tool(world, tool, sql)
        if not isinstance(ended, REFUSED) or len(str(ended)) < 10:
            passed.append((sql, ended))
    assert passed == []
    assert world.dump() == before


def test_query_refuses_changes_and_change_refuses_queries(world: World) -> None:
    """Each refusal names the other tool."""
    before = world.dump()
    for sql in (
        "DELETE FROM line",
        "UPDATE orders SET note = 'x'",
        "INSERT INTO log (text) VALUES ('x')",
    ):
        with pytest.raises(ToolError, match="only SELECT is allowed here; use the tool change"):
            world.query(sql)
    with pytest.raises(
        ToolError, match="only INSERT, UPDATE or DELETE is allowed here; use the tool query"
    ):
        world.change("SELECT 1")
    assert world.dump() == before


def test_a_preview_changes_nothing_and_shows_no_secret(world: World) -> None:
    """This holds for statements that are allowed and for those that are not."""
    before = world.dump()
    allowed = ("DELETE FROM heap", "UPDATE watched SET value = 1", "DELETE FROM orders")
    for sql in (*BOTH, *POSTGRES, *SQLITE, *LEAKING_CHANGES, *allowed):
        try:
            shown = world.preview(sql).text
        except ValidationError:
            continue
        except ToolError as error:
            shown = str(error)
        assert not any(value in shown for value in VALUES), sql
    assert world.dump() == before


def test_queries_that_read_a_secret_column_are_refused(world: World) -> None:
    """They are refused however they are disguised, and no refusal shows a secret."""
    passed = []
    for sql in LEAKS:
        ended = try_tool(world, "query", sql)
        told = [value for value in VALUES if value in str(ended) and value not in sql]
        if not isinstance(ended, REFUSED) or told:
            passed.append((sql, ended))
    assert passed == []


def test_changes_that_read_a_secret_column_are_refused(world: World) -> None:
    """They would copy a secret to where it can be read, or depend on one."""
    before = world.dump()
    assert [
        sql for sql in LEAKING_CHANGES if not isinstance(try_tool(world, "change", sql), REFUSED)
    ] == []
    assert world.dump() == before


def test_the_database_itself_refuses_what_a_query_may_not_run(world: World) -> None:
    """If the parser is deceived, authorizer, READ ONLY and single statements still hold."""
    before = world.dump()
    passed = []
    for text in DISGUISED[world.dialect]:
        statement = world.disguise(text, "SELECT id FROM orders", changes=False)
        try:
            with world.session(writes=False) as session:
                passed.append((text, session.run_query(statement, 10)))
        except ToolError:
            continue
    assert passed == []
    assert world.dump() == before


def test_the_database_itself_refuses_what_a_change_may_not_run(world: World) -> None:
    """A deceived parser gets no other statement, and no second one, past the database."""
    before = world.dump()
    passed = []
    for text in DISGUISED[world.dialect]:
        statement = world.disguise(text, "DELETE FROM heap", changes=True)
        if world.dialect == "postgres" and (text == "DELETE FROM line" or "val(" in text):
            # a DELETE passes for another DELETE: only SQLite checks its table; and sequences are
            # outside of transactions
            continue
        try:
            with world.session(writes=True) as session:
                passed.append((text, session.run_changes((statement,))))
                session.commit()
        except ToolError:
            continue
    assert passed == []
    assert world.dump() == before
