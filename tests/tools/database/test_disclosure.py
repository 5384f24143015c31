"""No error, log line or computed column discloses a secret."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bot.tools import ToolError
from tests.tools.database.harness import GRANTS, World


def prepare_as_owner(pg: World, *texts: str) -> World:
    """Run these statements as the owner of the database."""
    for text in (*texts, GRANTS):
        pg.raw(text)
    return pg


def test_a_column_computed_from_a_secret_column_is_secret(lite: World) -> None:
    """So is a column that is computed from that one."""
    kind = "TEXT GENERATED ALWAYS AS"
    lite.raw(
        "CREATE TABLE paid (id INTEGER PRIMARY KEY, card_number TEXT, "
        f"last4 {kind} (substr(card_number, 6)) STORED, again {kind} (upper(last4)))"
    )
    lite.raw("INSERT INTO paid (id, card_number) VALUES (1, '4111-7777')")
    for column in ("last4", "again"):
        with pytest.raises(ToolError, match=f"paid.{column} is secret"):
            lite.query(f"SELECT {column} FROM paid")
    assert "7777" not in lite.preview("DELETE FROM paid").text
    assert "7777" not in lite.preview("UPDATE paid SET card_number = '4111-8888'").text
    shown = lite.with_options(secret=(), not_secret=("paid.*",))
    assert shown.query("SELECT last4 FROM paid").rows == (("7777",),)


@pytest.mark.parametrize("code", ["P0001", "42501", "42000", "25006"])
def test_an_error_raised_by_a_trigger_discloses_no_secret(pg: World, code: str) -> None:
    """The trigger's text, with whatever code, is not repeated."""
    prepare_as_owner(
        pg,
        "CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION 'bad card %', OLD.card_number USING ERRCODE = '{code}'; END $$",
        "CREATE TRIGGER complain BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION complain()",
    )
    with pytest.raises(ToolError, match="a function of the database refused it") as caught:
        pg.change("UPDATE orders SET note = 'x' WHERE id = 1")
    assert "4111" not in str(caught.value)


def test_a_change_whose_trigger_reads_a_secret_is_refused(lite: World) -> None:
    """The text of a trigger that reads no secret is repeated."""
    lite.raw(
        "CREATE TRIGGER copies AFTER UPDATE OF note ON orders "
        "BEGIN INSERT INTO log VALUES (old.card_number); END"
    )
    lite.raw("CREATE TRIGGER no BEFORE DELETE ON heap BEGIN SELECT RAISE(ABORT, 'not today'); END")
    with pytest.raises(ToolError, match=r"orders.card_number is secret \(read by copies\)"):
        lite.change("UPDATE orders SET note = 'x'")
    with pytest.raises(ToolError, match="the database says: not today"):
        lite.change("DELETE FROM heap")


def test_the_log_contains_no_secret(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """This holds for statements that run, are refused or fail."""
    caplog.set_level(0)
    world.query("SELECT id FROM orders")
    world.preview("UPDATE orders SET card_number = NULL, note = 'x'")
    for sql in (
        "SELECT id FROM orders WHERE card_number > ''",
        "SELECT card_number FROM orders WHERE",
    ):
        with pytest.raises(
            (ToolError, ValidationError), match=r"secret|parsed|incomplete|end of input"
        ):
            world.query(sql)
    with pytest.raises(ToolError):
        world.change("UPDATE orders SET status = NULL")
    assert not any(value in caplog.text for value in ("4111", "hunter2"))
