"""No error, log line or computed column tells a secret."""

from __future__ import annotations

import pytest

from bot.tools import ToolError
from tests.tools.database.harness import World

GIVEN = "GRANT ALL ON ALL TABLES IN SCHEMA public TO agent"


def owned(pg: World, *texts: str) -> World:
    """The database after its owner has run these."""
    for text in (*texts, GIVEN):
        pg.raw(text)
    return pg


def test_columns_made_of_secret_ones(world: World) -> None:
    """A column that the database computes from a secret one is as secret.

    So is one that is made of that.
    """
    kind = "TEXT GENERATED ALWAYS AS (substr(card_number, 6)) STORED"
    world.raw(f"CREATE TABLE paid (id INTEGER PRIMARY KEY, card_number TEXT, last4 {kind})")
    world.raw("INSERT INTO paid (id, card_number) VALUES (1, '4111-7777')")
    if world.dialect == "postgres":
        world.raw(GIVEN)
    hidden = world.with_options(secret=("*.card_number",))
    assert hidden.query("SELECT last4 FROM paid").rows == (("••••••••",),)
    with pytest.raises(ToolError, match="last4 is secret"):
        hidden.query("SELECT id FROM paid WHERE last4 = '7777'")
    assert "7777" not in hidden.preview("DELETE FROM paid").text
    assert "7777" not in hidden.preview("UPDATE paid SET card_number = '4111-8888'").text
    assert world.with_options(secret=()).query("SELECT last4 FROM paid").rows == (("7777",),)


def test_errors_tell_no_secret(pg: World) -> None:
    """A value that a view cannot convert stands in the server's words, not in ours.

    So does one that a trigger complains of.
    """
    owned(
        pg,
        "CREATE VIEW broken AS SELECT id, card_number::int AS n FROM orders",
        "CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'bad card %', OLD.card_number; END $$",
        "CREATE TRIGGER complain BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION complain()",
    )
    for act in (
        lambda: pg.query("SELECT n FROM broken"),
        lambda: pg.query("SELECT max(n) FROM broken"),
        lambda: pg.change("UPDATE orders SET note = 'x' WHERE id = 1"),
    ):
        with pytest.raises(
            ToolError, match=r"invalid input syntax|a function of the database refused it"
        ) as caught:
            act()
        assert "4111" not in str(caught.value)
    with pytest.raises(ToolError, match="bad card 4111"):
        pg.with_options(secret=()).change("UPDATE orders SET note = 'x' WHERE id = 1")


def test_errors_of_triggers_in_sqlite(lite: World) -> None:
    """Newer versions of SQLite let a trigger's complaint hold values.

    Where there are secrets, it is not told.
    """
    lite.raw("CREATE TRIGGER no BEFORE DELETE ON heap BEGIN SELECT RAISE(ABORT, 'not today'); END")
    with pytest.raises(ToolError, match="a trigger of the database refused it"):
        lite.change("DELETE FROM heap")
    with pytest.raises(ToolError, match="the database says: not today"):
        lite.with_options(secret=()).change("DELETE FROM heap")


def test_logs_tell_no_secret(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is logged of statements that run, are refused or fail, holds no value."""
    caplog.set_level(0)
    world.query("SELECT card_number FROM orders")
    world.preview("UPDATE orders SET card_number = NULL, note = 'x'")
    for sql in (
        "SELECT id FROM orders WHERE card_number > ''",
        "SELECT card_number FROM orders WHERE",
    ):
        with pytest.raises(ValueError, match=r"secret|parsed|complete"):
            world.query(sql)
    with pytest.raises(ToolError):
        world.change("UPDATE orders SET status = NULL")
    assert not any(value in caplog.text for value in ("4111", "hunter2"))
