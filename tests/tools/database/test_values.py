"""A preview shows each value exactly: no text passes for a time, no two values look the same."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from bot.tools import ChangedError, ToolError
from tests.tools.database.harness import World

AT_RUN = "(set at run time"


@pytest.mark.parametrize(
    "text",
    [
        "ship it now",
        "now or never",
        "today",
        "Tomorrow, at random",
        "call () back",
        "current_date",
        "it''s now",
        "nextval(1)",
    ],
)
def test_words_of_time_in_a_text_are_shown_as_text(world: World, text: str) -> None:
    """The card shows the text, and the run may not write another one."""
    shown = world.preview(f"UPDATE orders SET note = '{text}' WHERE id = 1").text
    assert shown.splitlines()[2] == f"   note  first → {text.replace(chr(39) * 2, chr(39))}"
    sql = f"INSERT INTO heap (word) SELECT name || ' {text}' FROM customer WHERE id = 1"
    held = world.preview(sql)
    assert "Mara " in held.text
    world.raw("UPDATE customer SET name = 'Mallory' WHERE id = 1")
    with pytest.raises(ChangedError, match="write other values"):
        world.change(sql, held.expects)


@pytest.mark.parametrize(
    "value",
    [
        "CURRENT_TIMESTAMP",
        "CAST(CURRENT_DATE AS TEXT)",
        "CAST(random() AS TEXT)",
        "'x ' || CURRENT_TIMESTAMP || ' now'",
    ],
)
def test_times_and_random_values_are_marked_as_set_at_run_time(world: World, value: str) -> None:
    """Each run writes another value."""
    assert AT_RUN in world.preview(f"UPDATE orders SET note = {value} WHERE id = 1").text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("CASE WHEN CURRENT_TIMESTAMP > '2026-01-01' THEN 'X' ELSE 'Y' END", "X"),
        ("CASE WHEN CURRENT_DATE IS NULL THEN name ELSE name || '!' END", "Mara!"),
        ("name || ' at ' || CURRENT_TIMESTAMP", f"{AT_RUN}: Mara at …)"),
        ("name || ' on ' || CAST(CURRENT_DATE AS TEXT)", f"{AT_RUN}: Mara on …)"),
        ("name || substr(CAST(CURRENT_TIMESTAMP AS TEXT), 1, 16)", f"{AT_RUN})"),
        ("name || CAST(random() AS TEXT)", f"{AT_RUN})"),
        ("CASE WHEN random() > 2 THEN 'X' ELSE 'Y' END", f"{AT_RUN})"),
        ("NULLIF(name, name) || CURRENT_DATE", "NULL"),
    ],
)
def test_a_value_with_a_time_shows_what_is_the_same_in_every_run(
    world: World, value: str, shown: str
) -> None:
    """The run may not write another value there."""
    sql = f"INSERT INTO heap (word) SELECT {value} FROM customer WHERE id = 1"
    held = world.preview(sql)
    assert held.text.splitlines()[2].startswith(shown)
    assert world.change(sql, held.expects)["rows"] == 1
    world.raw("UPDATE customer SET name = 'Mallory' WHERE id = 1")
    if "Mara" in shown:
        with pytest.raises(ChangedError, match="write other values"):
            world.change(sql, held.expects)
    else:
        assert world.change(sql, held.expects)["rows"] == 1


def test_texts_that_the_database_reads_as_times_are_times(lite: World, pg: World) -> None:
    """SQLite reads 'NOW', and PostgreSQL 'tomorrow' for a date."""
    shown = lite.preview("UPDATE orders SET note = date('NOW', '+1 day') WHERE id = 1").text
    assert AT_RUN in shown
    pg.raw("ALTER TABLE orders ADD COLUMN due DATE")
    pg.raw("GRANT SELECT (due) ON orders TO agent")
    assert AT_RUN in pg.preview("UPDATE orders SET due = 'tomorrow' WHERE id = 1").text


def test_texts_that_look_like_words_of_the_preview_are_quoted(world: World) -> None:
    """Other texts are not quoted."""
    texts = ("NULL", AT_RUN + ")", "••••••••", "0x00", " x", "", "(none)", "it's")
    quoted = ["NULL", *(f"'{each}'" for each in texts[:6]), *texts[6:]]
    assert len(texts) == 8
    for before, after in zip((None, *texts), (*texts, None), strict=True):
        sql, was, now = (
            "UPDATE orders SET note = {} WHERE id = 1",
            *map(write_literal, (before, after)),
        )
        world.raw(sql.format(was))
        [*_, line] = world.preview(sql.format(now)).text.splitlines()
        old, new = (quoted[(None, *texts).index(each)] for each in (before, after))
        assert line == f"   note  {old} → {new}"


def write_literal(text: str | None) -> str:
    """Write the text as an SQL literal."""
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("a\nb", "a\tb", r"   note  'a\nb' → 'a\tb'"),
        ("\u00e9", "e\u0301", r"   note  '\xe9' → 'e\u0301'"),
        ("\N{LATIN SMALL LIGATURE FI}x", "fix", r"   note  '\ufb01x' → 'fix'"),
    ],
)
def test_texts_that_look_the_same_are_written_out(
    world: World, before: str, after: str, line: str
) -> None:
    """The table of all rows has the control characters that the card shows as dots."""
    world.raw(f"UPDATE orders SET note = '{before}' WHERE id = 1")
    assert world.preview(f"UPDATE orders SET note = '{after}' WHERE id = 1").text.endswith(line)
    world.raw(f"UPDATE orders SET note = 'a{chr(10)}b' WHERE id = 1")
    rows = world.preview("UPDATE orders SET note = 'c' WHERE id = 1").rows
    assert rows is not None
    assert rows.rows[0][-2:] == ("a\nb", "c")


def test_a_value_with_an_arrow_is_put_on_lines_of_its_own(world: World) -> None:
    """Otherwise its arrow could be read as the one between old and new."""
    world.raw("UPDATE orders SET note = '10 → 20' WHERE id = 1")
    lines = world.preview("UPDATE orders SET note = '30' WHERE id = 1").text.splitlines()
    assert lines[2:] == ["   note", "   − 10 → 20", "   + 30"]


def test_texts_written_from_right_to_left_stand_on_lines_of_their_own(world: World) -> None:
    """In one line the old value would be seen on the right of the new one."""
    hebrew = "\u05d0\u05d1"
    world.raw(f"UPDATE orders SET note = '{hebrew}' WHERE id = 1")
    world.raw(f"INSERT INTO heap VALUES ('{hebrew}', 100)")
    lines = world.preview("UPDATE orders SET note = '100' WHERE id = 1").text.splitlines()
    assert lines[2:] == ["   note", f"   − {hebrew}", "   + 100"]
    lines = world.preview("DELETE FROM heap WHERE number = 100").text.splitlines()
    assert lines[1:] == [f"1. word    {hebrew}", "   number  100"]


def test_long_texts_that_differ_later_than_is_shown_look_as_they_are(world: World) -> None:
    """They are not taken for texts that look alike."""
    world.raw(f"UPDATE orders SET note = '{'x' * 100_000}' WHERE id = 1")
    lines = world.preview("UPDATE orders SET note = note || 'y' WHERE id = 1").text.splitlines()
    assert lines[2:] == ["   note", *(f"   {sign} {'x' * 54}…" for sign in "−+")]


def test_a_secret_column_that_is_set_is_named_in_the_thread(world: World) -> None:
    """The thread shows only the names of the columns."""
    sql = "UPDATE orders SET card_number = 'x', note = 'y' WHERE id = 1"
    told = world.preview(sql).in_thread
    assert told == "Changes 1 row of orders.\n   columns: note, card_number"


def test_values_of_each_sqlite_type_look_different(lite: World) -> None:
    """Integers, fractions, texts and bytes; the table of all rows has long bytes in full."""
    lite.raw("CREATE TABLE kinds (id INTEGER PRIMARY KEY, v)")
    lite.raw("INSERT INTO kinds VALUES (1, 1), (2, 1.0), (3, X'0102'), (4, zeroblob(40))")
    for sql, line in (
        ("UPDATE kinds SET v = '1' WHERE id = 1", "   v  1 → '1'"),
        ("UPDATE kinds SET v = 1 WHERE id = 2", "   v  1.0 → 1"),
        ("UPDATE kinds SET v = 1.0 WHERE id = 1", "   v  1 → 1.0"),
        ("UPDATE kinds SET v = zeroblob(2) WHERE id = 3", "   v  0x0102 → 0x0000"),
    ):
        assert lite.preview(sql).text.splitlines()[-1] == line
    shown = lite.preview("DELETE FROM kinds WHERE id = 4")
    assert "0x0000000000000000… (40 bytes)" in shown.text
    assert shown.rows is not None
    assert shown.rows.rows[-1][-2] == f"0x{'00' * 40}"


def test_another_invalid_utf8_text_than_shown_changes_nothing(lite: World) -> None:
    """Both bytes are invalid, but they are not the same text."""
    sql = "INSERT INTO heap (word) SELECT name FROM customer WHERE id = 1"
    path = lite.database.path
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("UPDATE customer SET name = CAST(X'FF' AS TEXT) WHERE id = 1")
        shown = lite.preview(sql)
        raw.execute("UPDATE customer SET name = CAST(X'FE' AS TEXT) WHERE id = 1")
    with pytest.raises(ChangedError):
        lite.change(sql, shown.expects)


POSTGRES_VALUES = {  # for each type a value, what the card shows, and another value
    "float8": ("'NaN'", "nan", "0"),
    "numeric": ("'NaN'", "NaN", "1"),
    "numeric(9,3)": ("1.5", "1.500", "2"),
    "int[]": ("'{1,NULL}'", "{1,NULL}", "'{}'"),
    "text[]": ("""'{a,"b c"}'""", '{a,"b c"}', "'{}'"),
    "numeric[]": ("'{1.0,2.50}'", "{1.0,2.50}", "'{}'"),
    "uuid[]": (
        "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'",
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        "'{}'",
    ),
    "mood": ("'ok'", "ok", "'sad'"),
    "mood[]": ("'{ok}'", "{ok}", "'{}'"),
    "pair": ("ROW(1, 'x')", "(1,x)", "ROW(2, 'x')"),
    "few": ("3", "3", "4"),
    "int4range": ("'[1,4]'", "[1,5)", "'empty'"),
    "int4multirange": ("'{[1,2],[5,7]}'", "{[1,3),[5,8)}", "'{}'"),
    "bytea": ("'x'", "0x78", "'y'"),
    "timestamptz": ("'infinity'", "infinity", "'-infinity'"),
    "date": ("'0044-03-15 BC'", "0044-03-15 BC", "'infinity'"),
    "interval": ("'1 mon -1 day'", "P1M-1D", "'0'"),
    "jsonb": ("""'{"a": 1.0}'""", '{"a": 1.0}', "'null'"),
    "char(4)": ("'ab'", "'ab  '", "'c'"),
    "inet": ("'10.0.0.1/8'", "10.0.0.1/8", "'::1'"),
    "varbit": ("'101'", "101", "''"),
    "money": ("12.5", "$12.50", "0"),
    "bool": ("true", "True", "false"),
    "bigint": ("9223372036854775807", "9223372036854775807", "0"),
}


def test_values_of_each_postgresql_type_are_shown_as_written(pg: World) -> None:
    """The value is a column and a key. An unchanged value is not marked as changed or set later."""
    for each in (
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TYPE pair AS (a INTEGER, b TEXT)",
        "CREATE DOMAIN few AS INTEGER CHECK (VALUE < 10)",
    ):
        pg.raw(each)
    for kind, (value, said, other) in POSTGRES_VALUES.items():
        pg.raw(f"CREATE TABLE odd (k {kind} PRIMARY KEY, v {kind}, n INTEGER)")
        pg.raw(f"INSERT INTO odd VALUES ({value}, {value}, 1)")
        pg.raw("GRANT ALL ON odd TO agent")
        shown = pg.preview("UPDATE odd SET n = 2")
        assert shown.text == f"Changes 1 row of odd.\n1. k {said}\n   n  1 → 2"
        shown = pg.preview(f"UPDATE odd SET v = {other}")
        assert f"   v  {said} → " in shown.text or f"   − {said}\n" in shown.text
        assert pg.change(f"UPDATE odd SET v = {other}", shown.expects)["rows"] == 1
        pg.raw("DROP TABLE odd")


def test_numbers_written_with_other_digits_are_shown_as_changed(pg: World) -> None:
    """1.0 becomes 1.00, and 0 becomes -0."""
    pg.raw("CREATE TABLE digits (id INTEGER PRIMARY KEY, n NUMERIC, f FLOAT8)")
    pg.raw("INSERT INTO digits VALUES (1, 1.0, 0)")
    pg.raw("GRANT ALL ON digits TO agent")
    shown = pg.preview("UPDATE digits SET n = 1.00, f = '-0'").text
    assert shown.endswith("   n  1.0 → 1.00\n   f  0.0 → -0.0")


def test_rows_hidden_by_row_security_are_counted(pg: World) -> None:
    """A trigger writes them; those that the role may see are shown."""
    for each in (
        "CREATE TABLE guarded (id INTEGER PRIMARY KEY, who TEXT, n INTEGER)",
        "INSERT INTO guarded VALUES (1, 'agent', 1), (2, 'boss', 1)",
        "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON guarded USING (who = current_user)",
        "CREATE FUNCTION each_row() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS "
        "$$ BEGIN UPDATE guarded SET n = n + 1; RETURN NEW; END $$",
        "CREATE TRIGGER each_row AFTER INSERT ON heap FOR EACH ROW EXECUTE FUNCTION each_row()",
        "GRANT ALL ON guarded TO agent",
    ):
        pg.raw(each)
    sql = "INSERT INTO heap VALUES ('c', 3)"
    shown = pg.preview(sql)
    assert shown.text.splitlines()[3:] == [
        "Also changes 1 row and touches 1 row of guarded (hidden by row security).",
        "1. id 1",
        "   n  1 → 2",
    ]
    assert pg.change(sql, shown.expects)["also"] == {"guarded": 2}


def test_a_change_whose_triggers_undo_their_own_rows_is_refused(pg: World) -> None:
    """The server counts rows that do not exist; the refusal gives that as a possible reason."""
    for each in (
        "CREATE TABLE tally (name TEXT PRIMARY KEY, n INTEGER)",
        "INSERT INTO tally VALUES ('all', 1)",
        "CREATE FUNCTION bump() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "BEGIN INSERT INTO tally VALUES ('all', 1); EXCEPTION WHEN unique_violation THEN "
        "UPDATE tally SET n = n + 1; END; RETURN NEW; END $$",
        "CREATE TRIGGER bump AFTER INSERT ON heap FOR EACH ROW EXECUTE FUNCTION bump()",
        "GRANT ALL ON tally TO agent",
    ):
        pg.raw(each)
    with pytest.raises(ToolError, match="triggers undo what they did"):
        pg.preview("INSERT INTO heap VALUES ('c', 3)")


def test_columns_of_an_inheriting_table_are_counted(pg: World) -> None:
    """The card of a DELETE counts the columns that only the inheriting table has."""
    pg.raw("CREATE TABLE part (extra TEXT, worth TEXT) INHERITS (heap)")
    pg.raw("INSERT INTO part VALUES ('p', 7, 'precious', 'much')")
    assert pg.preview("DELETE FROM heap WHERE number = 7").text.splitlines()[1:] == [
        "word  number",
        "p     7",
        "(and 2 more columns)",
    ]


def test_rows_of_inheriting_tables_may_have_the_same_key(pg: World) -> None:
    """No row that is changed is said to be deleted, and ONLY leaves the other tables alone."""
    pg.raw("CREATE TABLE part (extra TEXT) INHERITS (watched)")
    pg.raw("GRANT ALL ON part TO agent")
    pg.raw("INSERT INTO part VALUES (1, 30), (3, 40)")
    shown = pg.preview("DELETE FROM ONLY watched WHERE id < 9")
    assert shown.text.startswith("Deletes 2 rows of watched.")
    sql = "UPDATE watched SET value = value + 1"
    shown = pg.preview(sql)
    assert shown.text.startswith("Changes 4 rows of watched.")
    assert "1   31" in shown.text.splitlines()
    assert pg.change(sql, shown.expects)["rows"] == 4
