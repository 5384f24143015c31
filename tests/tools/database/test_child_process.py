"""Statements run in child processes, which are ended when they take too much."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.tools import Table, ToolError
from bot.tools.database.child_tools import ChildProcessPool, build_database_tools
from tests.tools import context, use_tool
from tests.tools.database.harness import World, create_sqlite_world

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
DOUBLED = ", ".join(["id AS a0", *(f"a{n - 1} + a{n - 1} AS a{n}" for n in range(1, 40))])


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A database whose own limits are far away."""
    return create_sqlite_world(tmp_path_factory.mktemp("child")).with_options(
        timeout=60, lock_timeout=60
    )


@pytest.fixture(scope="module")
def children(patient: World) -> ChildProcessPool:
    """Child processes over that database, one of them started."""
    made = ChildProcessPool([patient.database], None)
    made.run_call("check", "query", build_arguments("SELECT 1"), seconds=30)
    return made


def build_arguments(sql: str) -> dict[str, Any]:
    """Build the arguments for the one database."""
    return {"database": "shop", "sql": sql}


def test_the_tools_work_through_a_child_process(patient: World) -> None:
    """Values, previews, refusals and errors pass through the pipe unchanged."""
    tools = {each.name: each for each in build_database_tools([patient.database], None)}
    found = use_tool(
        tools["query"], build_arguments("SELECT id, note, total FROM orders ORDER BY id")
    )
    assert isinstance(found, Table)
    assert found.rows[0] == (1, "first", 10.5)
    shown = tools["change"].preview(
        tools["change"].arguments.model_validate(build_arguments("DELETE FROM heap")), context()
    )  # type: ignore[misc] # it has one
    assert "Deletes 2 rows of heap." in shown.text
    with pytest.raises(ValueError, match="ALTER is not run"):
        tools["query"].arguments.model_validate(build_arguments("ALTER TABLE heap ADD x"))
    with pytest.raises(ToolError, match=r"orders\.card_number is secret"):
        use_tool(tools["query"], build_arguments("SELECT * FROM orders"))
    args = tools["change"].arguments.model_validate(build_arguments("DELETE FROM line"))
    assert tools["change"].function(args, context())["rows"] == 3


@pytest.mark.parametrize(
    ("sql", "act", "words"),
    [
        (ENDLESS, "run", r"it took longer than 0\.5 s and was stopped; nothing was changed"),
        (ENDLESS, "preview", ""),
        (f"SELECT {DOUBLED} FROM heap", "run", "no such column"),
        (
            f"SELECT {', '.join(['hex(zeroblob(4000000))'] * 100)}",
            "run",
            "it took more memory than a call may take",
        ),
    ],
)
def test_a_statement_that_takes_too_much_ends_with_its_process(
    children: ChildProcessPool, sql: str, act: str, words: str
) -> None:
    """Time and memory are limited; the next call is answered by another process."""
    if words:
        with pytest.raises(ToolError, match=words):
            children.run_call(
                act, "query", build_arguments(sql), context(), seconds=0.5 if "n(i)" in sql else 20
            )
    else:
        assert (
            "Reads at most"
            in children.run_call(act, "query", build_arguments(sql), context(), seconds=20).text
        )
    assert children.run_call(
        "run", "query", build_arguments("SELECT 1"), context(), seconds=20
    ).rows == ((1,),)


def test_a_change_ended_at_its_commit_may_have_been_made(
    patient: World, children: ChildProcessPool
) -> None:
    """A process that is ended before its COMMIT certainly has changed nothing."""
    path: Path = patient.database.path
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM heap").fetchone()
        children.run_call("check", "query", build_arguments("SELECT 1"), seconds=20)
        with pytest.raises(
            ConnectionError, match="at its COMMIT; whether it was made is not known"
        ):
            children.run_call(
                "run", "change", build_arguments("UPDATE heap SET number = 0"), context(), seconds=2
            )
