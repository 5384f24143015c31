"""Several statements in one call: one transaction; each is shown and none may do anything else."""

from __future__ import annotations

import pytest

from bot.tools import ChangedError, ToolError
from bot.tools.database.statement import MAX_STATEMENTS
from tests.tools.database.harness import World

DEPENDING = (
    "UPDATE orders SET status = 'paid' WHERE id = 1; "
    "UPDATE orders SET note = 'was ' || status WHERE status = 'paid'"
)
PARENT = {
    "sqlite": (
        "CREATE TABLE invoice (id INTEGER PRIMARY KEY, total INTEGER DEFAULT 0)",
        "CREATE TABLE item (invoice_id INTEGER, price INTEGER)",
        "CREATE TRIGGER sum_up AFTER INSERT ON item BEGIN "
        "UPDATE invoice SET total = total + NEW.price WHERE id = NEW.invoice_id; END",
    ),
    "postgres": (
        "CREATE TABLE invoice (id SERIAL PRIMARY KEY, total INTEGER DEFAULT 0)",
        "CREATE TABLE item (invoice_id INTEGER REFERENCES invoice (id), price INTEGER)",
        "CREATE FUNCTION sum_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN UPDATE invoice "
        "SET total = total + NEW.price WHERE id = NEW.invoice_id; RETURN NEW; END $$",
        "CREATE TRIGGER sum_up AFTER INSERT ON item FOR EACH ROW EXECUTE FUNCTION sum_up()",
        "GRANT ALL ON invoice, item, invoice_id_seq TO agent",
    ),
}


def test_each_statement_is_previewed_below_its_number(world: World) -> None:
    """A later statement is previewed after the changes of earlier ones."""
    shown = world.preview(DEPENDING)
    assert shown.text.splitlines() == [
        "Statement 1:",
        "Changes 1 row of orders.",
        "1. id 1",
        "   status  pending → paid",
        "Statement 2:",
        "Changes 1 row of orders.",
        "1. id 1",
        "   note  first → was paid",
    ]
    assert shown.in_thread is not None
    assert "was paid" not in shown.in_thread
    assert shown.in_thread.count("Changes 1 row of orders.") == 2
    assert world.change(DEPENDING, shown.expects) == {
        "rows": 2,
        "statements": {"1. orders": 1, "2. orders": 1},
    }
    assert world.raw("SELECT status, note FROM orders WHERE id = 1") == [("paid", "was paid")]


def test_a_statement_that_fails_undoes_all_of_them(world: World) -> None:
    """The error says which statement it was."""
    before = world.dump()
    for sql in (
        "DELETE FROM heap; UPDATE orders SET status = NULL",
        "DELETE FROM heap; UPDATE nowhere SET a = 1",
    ):
        for act in (world.preview, world.change):
            with pytest.raises(ToolError, match=r"^statement 2: (the database says|there is no)"):
                act(sql)
    assert world.dump() == before


@pytest.mark.parametrize(
    "meanwhile",
    [
        "UPDATE orders SET status = 'paid' WHERE id = 3",  # one row more for the second
        "UPDATE orders SET note = 'other' WHERE id = 1",  # another value before the second
        "UPDATE orders SET status = 'held' WHERE id = 1",  # another value before the first
    ],
)
def test_nothing_runs_if_one_statement_is_not_as_shown(world: World, meanwhile: str) -> None:
    """Shown again, all of them run."""
    shown = world.preview(DEPENDING)
    world.raw(meanwhile)
    before = world.dump()
    with pytest.raises(ChangedError, match=r"It would (now )?touch"):
        world.change(DEPENDING, shown.expects)
    assert world.dump() == before
    world.change(DEPENDING, world.preview(DEPENDING).expects)


def test_a_select_an_empty_or_an_eleventh_statement_is_refused(world: World) -> None:
    """So are other statements that may not run, and a semicolon in the wrong place."""
    for sql, why in (
        ("DELETE FROM heap; SELECT 1", r"statement 2: it is SELECT, and only INSERT, UPDATE or"),
        ("DELETE FROM heap;; DELETE FROM log", "statement 2: it is empty"),
        ("DELETE FROM heap; DROP TABLE log", "statement 2: DROP is not run"),
        ("; ".join(["DELETE FROM heap"] * 11), "it has 11 statements, more than 10"),
        ("INSERT INTO heap VALUES ('a'; 1)", "it is more than one statement"),
    ):
        with pytest.raises(ToolError, match=why):
            world.change(sql)
    assert f"up to {MAX_STATEMENTS}" in world.tools["change"].description
    with pytest.raises(ToolError, match="write one, without"):
        world.query("SELECT 1; SELECT 2")


def test_a_semicolon_in_a_string_or_name_separates_nothing(world: World) -> None:
    """One at the end is dropped."""
    sql = "INSERT INTO heap VALUES ('a;b', 5); UPDATE heap SET word = 'x;' WHERE word = 'a;b';"
    assert world.change(sql)["statements"] == {"1. heap": 1, "2. heap": 1}
    assert world.raw("SELECT word FROM heap WHERE number = 5") == [("x;",)]
    with pytest.raises(ToolError, match="a;b"):
        world.change('DELETE FROM "a;b"')


def test_the_limit_on_rows_counts_all_statements(world: World) -> None:
    """Statements that together touch no row are refused, too."""
    few = world.with_options(max_changes=3)
    sql = "DELETE FROM heap; UPDATE watched SET value = value + 1"
    before = world.dump()
    for act in (few.preview, few.change):
        with pytest.raises(ToolError, match="it touches 6 rows, and at most 3 may change at once"):
            act(sql)
    assert world.dump() == before
    with pytest.raises(ToolError, match="no row of heap matches, no row of log matches"):
        world.preview("DELETE FROM heap WHERE number = 9; DELETE FROM log WHERE text = 'none'")
    assert world.preview("DELETE FROM heap WHERE number = 9; DELETE FROM heap").expects


def test_a_later_statement_can_use_a_row_that_the_call_adds(world: World) -> None:
    """So can a trigger. The row gets its number at run time, which does not hinder the run."""
    for each in PARENT[world.dialect]:
        world.raw(each)
    sql = (
        "INSERT INTO invoice (total) VALUES (10), (20); "
        "INSERT INTO item SELECT max(id), 5 FROM invoice; "
        "UPDATE invoice SET total = total * 2 WHERE total >= 10; "
        "DELETE FROM item WHERE price = 5"
    )
    shown = world.preview(sql)
    assert "total  25 → 50" in shown.text
    assert "total  10 → 20" in shown.text
    assert shown.expects == world.preview(sql).expects
    assert world.change(sql, shown.expects) == {
        "rows": 6,
        "statements": {"1. invoice": 2, "2. item": 1, "3. invoice": 2, "4. item": 1},
        "also": {"invoice": 1},
    }
    assert world.raw("SELECT total FROM invoice ORDER BY id") == [(20,), (50,)]


def test_rows_changed_several_times_count_for_each_statement(world: World) -> None:
    """This includes rows without a key and rows that triggers change."""
    sql = (
        "UPDATE heap SET number = number + 1; UPDATE heap SET number = number * 10; "
        "UPDATE watched SET value = 1 WHERE id = 1; UPDATE watched SET value = 2; "
        "INSERT INTO heap VALUES ('c', 3); DELETE FROM heap WHERE word = 'a'; DELETE FROM log"
    )
    lines = world.preview(sql).text.splitlines()
    assert [each for each in lines if each.startswith("Also ")] == [
        "Also adds 1 row of log.",
        "Also adds 2 rows of log.",
    ]
    heads = [lines[at + 1] for at, each in enumerate(lines) if each.startswith("Statement")]
    logged = 3 + (world.dialect == "postgres")  # one row was there before
    assert heads == [
        "Changes 2 rows of heap.",
        "Changes 2 rows of heap.",
        "Changes 1 row of watched.",
        "Changes 2 rows of watched.",
        "Adds 1 row of heap.",
        "Deletes 1 row of heap.",
        f"Deletes {logged} rows of log.",
    ]
    world.change(sql, world.preview(sql).expects)
    assert sorted(world.raw("SELECT word, number FROM heap")) == [("b", 30), ("c", 3)]


def test_a_table_with_all_rows_is_made_if_the_card_shows_a_part(world: World) -> None:
    """The table has each value with its row, before and after."""
    assert world.preview("DELETE FROM heap").rows is None
    statement = "UPDATE orders SET status = 'checked by hand' WHERE status = 'pending'"
    assert (
        world.preview(f"{statement}; {statement.replace('pending', 'checked by hand')}").rows
        is None
    )
    world.raw("INSERT INTO heap SELECT 'w', a.number FROM heap AS a, heap AS b, heap AS c")
    long = "x" * 100
    shown = world.preview(
        f"UPDATE orders SET note = '{long}' WHERE id = 2; DELETE FROM heap WHERE number = 1"
    )
    assert shown.rows is not None
    assert shown.rows.columns[0] == "statement"
    first, *others = shown.rows.rows
    assert first == (1, "orders", "id 2", "changed", "note", "NULL", long)
    assert others[:2] == [
        (2, "heap", "no. 1", "deleted", "word", "a", ""),
        (2, "heap", "no. 1", "deleted", "number", "1", ""),
    ]
    assert (len(others), shown.rows.more) == (2 * 5, False)


def test_a_row_locked_by_an_earlier_statement_is_shown(pg: World) -> None:
    """One statement refers to the row, and a trigger of the next one changes it."""
    pg.raw(
        "CREATE FUNCTION paid() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "UPDATE customer SET email = 'seen' WHERE id = 1; RETURN NEW; END $$"
    )
    pg.raw("CREATE TRIGGER paid AFTER INSERT ON heap FOR EACH ROW EXECUTE FUNCTION paid()")
    sql = (
        "INSERT INTO orders (id, customer_id, status) VALUES (9, 1, 'new'); "
        "INSERT INTO heap VALUES ('c', 3)"
    )
    shown = pg.preview(sql)
    assert "Also changes 1 row of customer." in shown.text
    assert "email  mara@example.com → seen" in shown.text
    assert pg.change(sql, shown.expects)["also"] == {"customer": 1}
