"""The tool tables describes a database in few words."""

from __future__ import annotations

from tests.tools import context
from tests.tools.database.harness import World

TICKET_TABLE = {
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
TICKET_LINE = {
    "sqlite": "  ticket: id INTEGER key, code VARCHAR(8) NOT NULL default 'new', made TIMESTAMP "
    "default CURRENT_TIMESTAMP, price NUMERIC(10, 2), api_key TEXT SECRET; "
    "CHECK price >= 0",
    "postgres": "  ticket “What people complain of”: id INTEGER key default the next number, "
    "code VARCHAR(8) NOT NULL default 'new', made TIMESTAMPTZ default now(), "
    "due TIMESTAMP “local time of the shop”, mood mood (calm|cross), price money_in "
    "(NUMERIC), other INTEGER NOT NULL default the next number, twice NUMERIC computed, "
    "tags TEXT[], api_key TEXT SECRET; CHECK price::numeric >= 0::numeric",
}


def list_tables(world: World, **args: str) -> str:
    """List tables with the tool."""
    tool = world.tools["tables"]
    listed: str = tool.function(tool.arguments(**args), context())  # type: ignore[assignment]  # a text
    return listed


def test_tables_are_listed_with_columns_types_and_secrets(world: World) -> None:
    """A part of a name selects some of the tables."""
    assert (
        "orders: id INTEGER key, customer_id INTEGER, status TEXT NOT NULL, total NUMERIC, "
        "card_number TEXT SECRET, note TEXT" in list_tables(world)
    )
    only = list_tables(world, database="shop", named="ACC")
    assert [line.split(":")[0].strip() for line in only.splitlines()[1:]] == ["account"]


def test_a_table_is_listed_with_its_constraints_and_comments(world: World) -> None:
    """Enum values, NOT NULL, defaults, time zones, checks and comments, but not of secrets."""
    for each in TICKET_TABLE[world.dialect]:
        world.raw(each)
    head, listed = list_tables(world, named="ticket").splitlines()
    assert head.startswith("shop (")
    assert listed == TICKET_LINE[world.dialect]


def test_of_many_tables_only_columns_and_types_are_listed(world: World) -> None:
    """The listing says how to read the rest."""
    for number in range(41):
        world.raw(f"CREATE TABLE many_{number} (word TEXT NOT NULL DEFAULT 'x')")
        if world.dialect == "postgres":
            world.raw(f"GRANT SELECT ON many_{number} TO agent")
    listed = list_tables(world, named="many_").splitlines()
    assert listed[1] == "  many_0: word TEXT"
    assert listed[-1] == "  (defaults, checks and comments: say which tables with `named`)"
    assert list_tables(world, named="many_40").endswith("many_40: word TEXT NOT NULL default 'x'")
