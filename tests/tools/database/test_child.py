"""What a statement takes is bounded: the process that parses and runs it can be ended."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.tools import Table, ToolError
from bot.tools.database.child_tools import ChildProcessPool, build_database_tools
from tests.tools import context, use
from tests.tools.database.harness import World, sqlite_world

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
DOUBLED = ", ".join(["id AS a0", *(f"a{n - 1} + a{n - 1} AS a{n}" for n in range(1, 40))])


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A database whose own limits are far off."""
    return sqlite_world(tmp_path_factory.mktemp("child")).with_options(timeout=60, lock_timeout=60)


@pytest.fixture(scope="module")
def children(patient: World) -> ChildProcessPool:
    """Processes over it, one of them warm."""
    made = ChildProcessPool([patient.database], None)
    made.run_call("check", "query", asked("SELECT 1"), seconds=30)
    return made


def asked(sql: str) -> dict[str, Any]:
    """The arguments for the one database."""
    return {"database": "shop", "sql": sql}


def test_the_tools_through_a_child(patient: World) -> None:
    """Values, previews, refusals and errors come through the pipe as they are."""
    tools = {each.name: each for each in build_database_tools([patient.database], None)}
    found = use(tools["query"], asked("SELECT id, note, total FROM orders ORDER BY id"))
    assert isinstance(found, Table)
    assert found.rows[0] == (1, "first", 10.5)
    shown = tools["change"].preview(
        tools["change"].arguments.model_validate(asked("DELETE FROM heap")), context()
    )  # type: ignore[misc] # it has one
    assert "Deletes 2 rows of heap." in shown.text
    with pytest.raises(ValueError, match="ALTER is not run"):
        tools["query"].arguments.model_validate(asked("ALTER TABLE heap ADD x"))
    with pytest.raises(ToolError, match=r"orders\.card_number is secret"):
        use(tools["query"], asked("SELECT * FROM orders"))
    args = tools["change"].arguments.model_validate(asked("DELETE FROM line"))
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
def test_what_takes_too_much(children: ChildProcessPool, sql: str, act: str, words: str) -> None:
    """Time and memory end with the process; the next call is answered by another."""
    if words:
        with pytest.raises(ToolError, match=words):
            children.run_call(
                act, "query", asked(sql), context(), seconds=0.5 if "n(i)" in sql else 20
            )
    else:
        assert (
            "Reads at most"
            in children.run_call(act, "query", asked(sql), context(), seconds=20).text
        )
    assert children.run_call("run", "query", asked("SELECT 1"), context(), seconds=20).rows == (
        (1,),
    )


def test_ended_at_its_commit(patient: World, children: ChildProcessPool) -> None:
    """Whoever is ended while it commits may have committed; before that, it certainly has not."""
    path: Path = patient.database.path
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM heap").fetchone()
        children.run_call("check", "query", asked("SELECT 1"), seconds=20)
        with pytest.raises(
            ConnectionError, match="at its COMMIT; whether it was made is not known"
        ):
            children.run_call(
                "run", "change", asked("UPDATE heap SET number = 0"), context(), seconds=2
            )
