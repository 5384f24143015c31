"""Nobody can guess values of a secret column by what a change does: neither by which rows a change
of many guesses touches, nor by what a foreign key lets through.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bot.tools import ToolError
from tests.tools.database.harness import GRANTS, World

TABLES = """
CREATE TABLE vault (id INTEGER PRIMARY KEY, owner TEXT, password VARCHAR(9) UNIQUE);
INSERT INTO vault VALUES (1, 'root', '4711'), (2, 'guest', '0815');
CREATE TABLE pins (password VARCHAR(9) PRIMARY KEY, owner TEXT);
INSERT INTO pins VALUES ('4711', 'root');
CREATE TABLE many (id INTEGER PRIMARY KEY, owner TEXT, password VARCHAR(9));
CREATE UNIQUE INDEX many_key ON many (lower(password));
INSERT INTO many VALUES (1, 'root', '4711');
CREATE TABLE safe (id INTEGER PRIMARY KEY, word VARCHAR(9) REFERENCES pins (password));
INSERT INTO safe VALUES (1, '4711');
CREATE TABLE safer (id INTEGER PRIMARY KEY, word VARCHAR(9) REFERENCES pins);
INSERT INTO safer VALUES (1, '4711');
CREATE TABLE open_one (id INTEGER PRIMARY KEY, word VARCHAR(9) UNIQUE, password TEXT);
INSERT INTO open_one VALUES (1, 'a', 'b');
"""
RIGHTS = """
REVOKE SELECT ON vault, pins, many, safe, safer, open_one FROM agent;
GRANT SELECT (id, owner) ON vault, many TO agent; GRANT SELECT (owner) ON pins TO agent;
GRANT SELECT (id) ON safe, safer TO agent; GRANT SELECT (id, word) ON open_one TO agent;
"""
GUESSES = "SELECT 100 + o.id, 'x', c.name FROM orders AS o, customer AS c WHERE o.id > 0"
GUESSING = f"""
INSERT INTO vault (id, owner, password) VALUES (8, 'x', '4711') ON CONFLICT DO NOTHING
INSERT INTO vault (id, owner, password) VALUES (8, 'x', '1'), (9, 'y', '4711') ON CONFLICT \
DO NOTHING
INSERT INTO vault (id, owner, password) VALUES (8, 'x', '1'), (9, 'y', '4711')
INSERT INTO vault (id, owner, password) {GUESSES}
INSERT INTO vault (id, owner, password) {GUESSES} ON CONFLICT DO NOTHING
INSERT INTO vault (id, owner, password) {GUESSES} ON CONFLICT (id) DO NOTHING
INSERT INTO vault {GUESSES} ON CONFLICT DO UPDATE SET owner = excluded.owner
INSERT INTO vault (id, owner, password) VALUES (8, 'x', '4711') ON CONFLICT DO UPDATE \
SET owner = 'y'
INSERT INTO vault (id, owner, password) VALUES (8, 'x', '4711') ON CONFLICT (password) DO NOTHING
INSERT INTO vault (id, owner, password) VALUES (8, 'x', '4711') ON CONFLICT (password) DO UPDATE \
SET owner = 'y'
INSERT INTO vault (id, owner, password) VALUES (8, 'x', '4711') ON CONFLICT ON CONSTRAINT \
vault_password_key DO NOTHING
INSERT INTO vault (id, owner, password) VALUES (8, 'x', '4711') ON CONFLICT (id) DO NOTHING ON \
CONFLICT DO NOTHING
INSERT INTO pins (password, owner) VALUES ('4711', 'x') ON CONFLICT DO NOTHING
INSERT INTO pins (password, owner) VALUES ('1', 'x'), ('4711', 'x')
INSERT INTO pins SELECT name, 'x' FROM customer
INSERT INTO many (id, owner, password) VALUES (8, 'x', '4711') ON CONFLICT DO NOTHING
INSERT INTO many (id, owner, password) {GUESSES}
INSERT INTO safe VALUES (5, '4711')
INSERT INTO safe VALUES (5, '0000')
INSERT INTO safe (word, id) VALUES ('4711', 5)
INSERT INTO safer (id, word) VALUES (5, '4711')
UPDATE safe SET word = '4711' WHERE id = 1
UPDATE safer SET word = '0000' WHERE id = 1
SELECT word FROM safe
SELECT id FROM safer WHERE word = '4711'
SELECT id FROM safe ORDER BY word
""".replace("\\\n", "").strip()
ALLOWED = """
INSERT INTO many (id, owner, password) VALUES (8, 'x', 'new')
INSERT INTO vault (id, owner) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET owner = 'y'
INSERT INTO open_one (id, word) VALUES (8, 'b'), (9, 'c')
UPDATE vault SET owner = 'z' WHERE id = 1
""".strip()


@pytest.fixture
def guarded(world: World) -> World:
    """A database in which secret columns are keys."""
    for each in TABLES.strip().split(";\n") if world.dialect == "sqlite" else [TABLES]:
        world.raw(each)
    if world.dialect == "postgres":
        world.raw(GRANTS + RIGHTS)
    return world


ANSWERS = ("would change nothing", "duplicate", "constraint failed", "violates")


def read_answer(world: World, sql: str) -> str:
    """What a preview or a query says; "" if it is refused without a hint of what exists."""
    act = world.query if sql.startswith("SELECT") else world.preview
    try:
        return str(act(sql))
    except (ToolError, ValidationError) as error:
        words = str(error)
        return words if any(each in words.lower() for each in ANSWERS) else ""


def test_a_guess_at_a_secret_value_is_refused_before_it_runs(guarded: World) -> None:
    """It is refused right or wrong, one guess or many at once."""
    before = guarded.dump()
    assert {
        sql: read_answer(guarded, sql) for sql in GUESSING.split("\n") if read_answer(guarded, sql)
    } == {}
    assert guarded.dump() == before


@pytest.mark.parametrize("sql", ALLOWED.split("\n"))
def test_changes_that_disclose_nothing_are_allowed(guarded: World, sql: str) -> None:
    """One row may set a secret; keys that are not secret are compared as usual."""
    assert guarded.preview(sql).text


def test_on_conflict_needs_no_columns_without_a_secret_key(guarded: World) -> None:
    """The table has a secret column, which is part of no key."""
    with pytest.raises(ToolError, match="would change nothing"):
        guarded.preview("INSERT INTO open_one (id, word) VALUES (8, 'a') ON CONFLICT DO NOTHING")
