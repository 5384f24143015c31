"""The preview of a change on its card; the change may then do nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import ValidationError

from bot.tools import ChangedError, Effect, Table, ToolError
from bot.tools.database.sources import build_sources
from bot.tools.database.sql_tools import build_in_process_database_tools
from bot.tools.runner import StaleToolCall, run_tool
from tests.tools import context
from tests.tools.database.harness import World


def test_an_update_is_previewed_with_old_and_new_values(world: World) -> None:
    """Columns are aligned, unchanged values are marked, secrets are masked."""
    shown = world.preview(
        "UPDATE orders SET status = 'shipped', note = 'sent', card_number = NULL WHERE total >= 20"
    )
    assert shown.text.splitlines() == [
        "Changes 2 rows of orders.",
        "1. id 2",
        "   status       pending → shipped",
        "   note         NULL → sent",
        "   card_number  •••••••• → ••••••••",
        "2. id 3",
        "   status       shipped  (stays)",
        "   note         third → sent",
        "   card_number  •••••••• → ••••••••",
    ]
    assert shown.expects.startswith("rows=2;")


def test_a_delete_is_previewed_with_the_rows_that_go(world: World) -> None:
    """At most five rows are shown, the others counted; secret columns are left out."""
    shown = world.preview("DELETE FROM account WHERE id = 1")
    assert shown.text == "Deletes 1 row of account.\nid  login\n1   root\n(and 1 more column)"
    world.raw("INSERT INTO heap SELECT 'c', a.number FROM heap AS a, heap AS b, heap AS c")
    shown = world.preview("DELETE FROM heap")
    assert shown.text.splitlines()[0] == "Deletes 10 rows of heap."
    assert shown.text.splitlines()[-1] == "… and 5 more rows"
    assert len(shown.text.splitlines()) == 8


def test_an_insert_is_previewed_with_the_new_rows(world: World) -> None:
    """They include what the database fills in itself."""
    shown = world.preview("INSERT INTO customer (id, name) VALUES (8, 'Ada'), (9, 'Bo')")
    assert shown.text.splitlines() == [
        "Adds 2 rows of customer.",
        "id  name  email",
        "8   Ada   NULL",
        "9   Bo    NULL",
    ]
    assert shown.expects.startswith("rows=2;")


def test_no_line_of_a_preview_is_wider_than_the_card(world: World) -> None:
    """Long values are put one below the other and end in …; control characters become dots."""
    world.raw(f"UPDATE orders SET note = '{'long ' * 30}', status = 'a\tb' WHERE id = 1")
    for sql in (
        "UPDATE orders SET note = 'short' WHERE id = 1",
        "DELETE FROM account",
        "UPDATE orders SET status = 'x'",
    ):
        lines = world.preview(sql).text.splitlines()
        assert max(map(len, lines)) <= 60
    lines = world.preview("UPDATE orders SET note = 'short' WHERE id = 1").text.splitlines()
    assert lines[2] == "   note"
    assert lines[3].startswith("   − 'long long")
    assert lines[3].endswith("…")
    assert lines[4] == "   + short"
    assert "a·b → x" in world.preview("UPDATE orders SET status = 'x'").text


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("DELETE FROM heap WHERE word = 'zzz'", "no row of heap matches"),
        ("UPDATE watched SET value = 0 WHERE id > 9", "no row of watched matches"),
        (
            "INSERT INTO heap SELECT name, 1 FROM customer WHERE id > 9",
            "no row would be added to heap",
        ),
        (
            "INSERT INTO customer (id, name) VALUES (1, 'Mara') ON CONFLICT DO NOTHING",
            "no row would be added to customer",
        ),
        (
            "INSERT INTO customer (id, name) VALUES (1, 'Mara') ON CONFLICT (id) "
            "DO UPDATE SET name = 'X' WHERE customer.name = 'Y'",
            "no row would be added to customer",
        ),
    ],
)
def test_the_preview_of_a_change_that_touches_no_row_fails(
    world: World, sql: str, why: str
) -> None:
    """So nobody is asked; where policy lets the change run unasked, it reports 0 rows."""
    with pytest.raises(ToolError, match=f"it would change nothing: {why}"):
        world.preview(sql)
    assert world.change(sql)["rows"] == 0


def test_a_change_runs_only_with_the_rows_that_were_shown(world: World) -> None:
    """When other rows match by now, the error leads to asking people again."""
    sql = "UPDATE heap SET number = 0 WHERE number > 0"
    shown = world.preview(sql)
    world.raw("INSERT INTO heap VALUES ('new', 5)")
    before = world.dump()
    with pytest.raises(ChangedError, match="It would now touch 3 rows of heap, and 2 were shown"):
        world.change(sql, shown.expects)
    assert world.dump() == before
    assert world.change(sql, world.preview(sql).expects) == {"rows": 3, "table": "heap"}
    assert world.raw("SELECT sum(number) FROM heap") == [(0,)]


def test_a_change_that_is_no_longer_as_shown_is_a_stale_call(world: World) -> None:
    """It is run as the executor runs tools."""
    tool = world.tools["change"]
    args = tool.arguments.model_validate({"database": "shop", "sql": "DELETE FROM heap"})
    with ThreadPoolExecutor(1) as pool:
        ended = run_tool(tool, args, context(expects="rows=7"), portal=lambda: None, executor=pool)  # type: ignore[arg-type,return-value] # never called
    assert isinstance(ended, StaleToolCall)
    assert (tool.does, tool.idempotent, world.tools["query"].needs_approval) == (
        Effect.DESTRUCTIVE,
        False,
        True,
    )


def test_a_change_of_too_many_rows_is_refused(world: World) -> None:
    """The settings limit the rows of one change; the preview and the run check it."""
    small = world.with_options(max_changes=1)
    before = world.dump()
    with pytest.raises(ToolError, match="it touches 2 rows, and at most 1 may change at once"):
        small.preview("DELETE FROM heap")
    with pytest.raises(ToolError, match="at most 1 may change at once"):
        small.change("DELETE FROM heap")
    assert world.dump() == before


def test_a_change_that_the_database_refuses_says_why(world: World) -> None:
    """The preview and the run repeat the database's words."""
    with pytest.raises(ToolError, match="the database says: "):
        world.preview("UPDATE orders SET status = NULL")
    with pytest.raises(ToolError, match=r"the database says: .*(?i:null)"):
        world.change("UPDATE orders SET status = NULL")


def test_a_read_only_database_has_no_changes(world: World) -> None:
    """Alone it has no tool change; beside others, a change of it is refused."""
    locked = world.with_options(read_only=True)
    assert set(locked.tools) == {"tables", "query"}
    assert isinstance(locked.query("SELECT 1"), Table)
    beside = world.database.model_copy(update={"name": "open"})
    both = {
        tool.name: tool
        for tool in build_in_process_database_tools(build_sources([locked.database, beside], None))
    }
    with pytest.raises(ValidationError, match="the database shop is read-only"):
        both["change"].arguments.model_validate({"database": "shop", "sql": "DELETE FROM heap"})
    both["change"].arguments.model_validate({"database": "open", "sql": "DELETE FROM heap"})


def test_a_query_is_previewed_with_how_much_it_reads(world: World) -> None:
    """A query that the database would refuse has no preview."""
    assert world.preview("SELECT note FROM orders", "query").text == (
        "Reads at most 200 rows and changes nothing."
    )
    for sql in ("SELECT nothing FROM orders", "SELECT * FROM orders"):
        with pytest.raises(ToolError):
            world.preview(sql, "query")


def test_results_have_a_limited_number_of_rows_with_exact_values(world: World) -> None:
    """The result says that there are more. An unknown database is refused with the known names."""
    few = world.with_options(max_rows=2)
    found = few.query("SELECT id FROM orders ORDER BY id")
    assert (found.columns, found.rows, found.more) == (("id",), ((1,), (2,)), True)
    assert not few.query("SELECT id FROM orders WHERE id < 3").more
    assert world.query("SELECT 9007199254740993 AS n, NULL AS empty").rows == (
        ("9007199254740993", None),
    )
    with pytest.raises(ValidationError, match="there is no database crm; there are: shop"):
        world.tools["query"].arguments.model_validate({"database": "crm", "sql": "SELECT 1"})


def test_a_result_of_long_values_is_cut(world: World) -> None:
    """No more is read than a result may hold, and the result says that there is more."""
    doubled = (
        "SELECT 1, 'xxxxxxxxxx' UNION ALL SELECT i + 1, CASE WHEN i < 19 THEN s || s ELSE "
        "s END FROM n WHERE i < 60"
    )
    found = world.query(f"WITH RECURSIVE n(i, s) AS ({doubled}) SELECT i, s FROM n")
    assert (len(found.rows), found.more) == (19, True)
    assert max(len(row[1]) for row in found.rows) < 2_100
    assert found.rows[-1][1].endswith("(2,619,440 more characters)")


def test_a_semicolon_at_the_end_is_dropped(world: World) -> None:
    """It is dropped before anything is shown."""
    args = world.tools["query"].arguments.model_validate(
        {"database": "shop", "sql": " SELECT 1 ; \n"}
    )
    assert args.model_dump() == {"database": "shop", "sql": "SELECT 1"}


def test_a_row_that_a_trigger_puts_elsewhere_is_shown_there(pg: World) -> None:
    """The table that the statement names gets none, which is not for want of a match."""
    pg.raw(
        "CREATE FUNCTION divert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO log VALUES (NEW.word); RETURN NULL; END $$"
    )
    pg.raw("CREATE TRIGGER divert BEFORE INSERT ON heap FOR EACH ROW EXECUTE FUNCTION divert()")
    sql = "INSERT INTO heap VALUES ('c', 3)"
    shown = pg.preview(sql)
    assert shown.text.splitlines() == [
        "Adds 0 rows of heap.",
        "Also adds 1 row of log.",
        "text",
        "c",
    ]
    assert pg.change(sql, shown.expects) == {"rows": 0, "table": "heap", "also": {"log": 1}}
