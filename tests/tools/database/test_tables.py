"""What the tool tables tells of a database, in few words."""

from __future__ import annotations

from tests.tools import context
from tests.tools.database.harness import World

MORE = {
    "sqlite": (
        "CREATE TABLE ticket (id INTEGER PRIMARY KEY, code VARCHAR(8) NOT NULL DEFAULT 'new', "
        "made TIMESTAMP DEFAULT CURRENT_TIMESTAMP, "
        "price NUMERIC(10, 2) CHECK (price >= 0), api_key TEXT DEFAULT 'k-123', "
        "CHECK (api_key <> 'k-456'))",
    ),
    "postgres": (
        "CREATE TYPE mood AS ENUM ('calm', 'cross')",
        "CREATE DOMAIN money_in AS NUMERIC(10, 2)",
        "CREATE TABLE ticket (id SERIAL PRIMARY KEY, code VARCHAR(8) NOT NULL DEFAULT 'new', "
        "made TIMESTAMPTZ DEFAULT now(), due TIMESTAMP, mood mood, "
        "price money_in CHECK (price >= 0), other INTEGER GENERATED ALWAYS AS IDENTITY, "
        "twice NUMERIC GENERATED ALWAYS AS (price * 2) STORED, tags TEXT[], "
        "api_key TEXT DEFAULT 'k-123', CHECK (api_key <> 'k-456'))",
        "COMMENT ON TABLE ticket IS 'What people\n complain of'",
        "COMMENT ON COLUMN ticket.due IS 'local time of the shop'",
        "GRANT ALL ON ticket TO agent",
        "REVOKE SELECT ON ticket FROM agent",
        "GRANT SELECT (id, code, made, due, mood, price, other, twice, tags) ON ticket TO agent",
    ),
}
TOLD = {
    "sqlite": "  ticket: id INTEGER key, code VARCHAR(8) NOT NULL default 'new', made TIMESTAMP "
    "default CURRENT_TIMESTAMP, price NUMERIC(10, 2), api_key TEXT SECRET; "
    "CHECK price >= 0",
    "postgres": "  ticket “What people complain of”: id INTEGER key default the next number, "
    "code VARCHAR(8) NOT NULL default 'new', made TIMESTAMPTZ default now(), "
    "due TIMESTAMP “local time of the shop”, mood mood (calm|cross), price money_in "
    "(NUMERIC), other INTEGER NOT NULL default the next number, twice NUMERIC computed, "
    "tags TEXT[], api_key TEXT SECRET; CHECK price::numeric >= 0::numeric",
}


def listing(world: World, **args: str) -> str:
    """What the tool tells."""
    tool = world.tools["tables"]
    told: str = tool.function(tool.arguments(**args), context())  # type: ignore[assignment]  # a text
    return told


def test_tables_lists_columns_and_secrets(world: World) -> None:
    """The model is told the tables, types and which columns are secret.

    A part of a name chooses among them.
    """
    assert (
        "orders: id INTEGER key, customer_id INTEGER, status TEXT NOT NULL, total NUMERIC, "
        "card_number TEXT SECRET, note TEXT" in listing(world)
    )
    only = listing(world, database="shop", named="ACC")
    assert [line.split(":")[0].strip() for line in only.splitlines()[1:]] == ["account"]


def test_what_a_row_has_to_be(world: World) -> None:
    """Enums' values, NOT NULL, defaults, time zones, checks and comments; of secrets none."""
    for each in MORE[world.dialect]:
        world.raw(each)
    head, told = listing(world, named="ticket").splitlines()
    assert head.startswith("shop (")
    assert told == TOLD[world.dialect]


def test_many_tables_are_told_briefly(world: World) -> None:
    """Of a database of many tables only columns and types are told, and how to learn the rest."""
    for number in range(41):
        world.raw(f"CREATE TABLE many_{number} (word TEXT NOT NULL DEFAULT 'x')")
        if world.dialect == "postgres":
            world.raw(f"GRANT SELECT ON many_{number} TO agent")
    told = listing(world, named="many_").splitlines()
    assert told[1] == "  many_0: word TEXT"
    assert told[-1] == "  (defaults, checks and comments: say which tables with `named`)"
    assert listing(world, named="many_40").endswith("many_40: word TEXT NOT NULL default 'x'")
