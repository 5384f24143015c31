"""Attempts to break out of the database tools' rules are refused, and change nothing."""

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


def outcome(world: World, tool: str, sql: str) -> Any:
    """What the tool gave, or the error it was refused with."""
    try:
        return world.query(sql) if tool == "query" else world.change(sql)
    except REFUSED as error:
        return error


@pytest.mark.parametrize("tool", ["query", "change"])
def test_what_neither_tool_runs(world: World, tool: str) -> None:
    """Each attack is refused by both tools, with a reason.

    Nothing in the database or beside it is another.
    """
    before = world.dump()
    passed = []
    for sql in (*BOTH, *POSTGRES, *SQLITE):
        ended = outcome(world, tool, sql)
        if not isinstance(ended, REFUSED) or len(str(ended)) < 10:
            passed.append((sql, ended))
    assert passed == []
    assert world.dump() == before


def test_queries_change_nothing(world: World) -> None:
    """What change would run is refused by query, and the other way round."""
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


def test_previews_change_nothing(world: World) -> None:
    """A preview leaves no trace, of what is allowed as of what is not."""
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


def test_secrets_tell_nothing(world: World) -> None:
    """Whatever reads a secret column is refused, however it is disguised; no refusal tells it."""
    passed = []
    for sql in LEAKS:
        ended = outcome(world, "query", sql)
        told = [value for value in VALUES if value in str(ended) and value not in sql]
        if not isinstance(ended, REFUSED) or told:
            passed.append((sql, ended))
    assert passed == []


def test_secrets_are_not_copied(world: World) -> None:
    """No change takes a secret to where it can be read, or depends on one."""
    before = world.dump()
    assert [
        sql for sql in LEAKING_CHANGES if not isinstance(outcome(world, "change", sql), REFUSED)
    ] == []
    assert world.dump() == before


def test_the_database_refuses_too_in_a_query(world: World) -> None:
    """Were the parser deceived, authorizer, READ ONLY and the one prepared statement would hold."""
    before = world.dump()
    passed = []
    for text in DISGUISED[world.dialect]:
        statement = world.disguised(text, "SELECT id FROM orders", changes=False)
        try:
            with world.session(writes=False) as session:
                passed.append((text, session.run_query(statement, 10)))
        except ToolError:
            continue
    assert passed == []
    assert world.dump() == before


def test_the_database_refuses_too_in_a_change(world: World) -> None:
    """A deceived parser would not get another statement, or two, past the database in a change."""
    before = world.dump()
    passed = []
    for text in DISGUISED[world.dialect]:
        statement = world.disguised(text, "DELETE FROM heap", changes=True)
        if world.dialect == "postgres" and (text == "DELETE FROM line" or "val(" in text):
            # a DELETE that was taken for a DELETE: only SQLite says which table it is about; and
            # no transaction holds a sequence
            continue
        try:
            with world.session(writes=True) as session:
                passed.append((text, session.run_changes((statement,))))
                session.commit()
        except ToolError:
            continue
    assert passed == []
    assert world.dump() == before
