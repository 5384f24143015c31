"""The databases for the tests of the tools: the same few tables in SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.tools import Preview
from bot.tools.database.config import Database, Dialect
from bot.tools.database.session import Session
from bot.tools.database.sources import build_sources
from bot.tools.database.sql_tools import build_in_process_database_tools
from bot.tools.database.statement import Statement, parse_statement
from tests.postgres_server import Server
from tests.tools import Tools, context, use_tool

SCHEMA = """
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customer (id),
    status TEXT NOT NULL, total NUMERIC, card_number TEXT, note TEXT);
CREATE TABLE line (order_id INTEGER REFERENCES orders (id) ON DELETE CASCADE, sku TEXT,
    PRIMARY KEY (order_id, sku));
CREATE TABLE heap (word TEXT, number INTEGER);
CREATE TABLE account (id INTEGER PRIMARY KEY, login TEXT, password TEXT);
CREATE TABLE watched (id INTEGER PRIMARY KEY, value INTEGER);
CREATE TABLE log (text TEXT);
CREATE VIEW cards AS SELECT id, upper(card_number) AS shouted FROM orders;
CREATE VIEW totals AS SELECT status, sum(total) AS total FROM orders
    WHERE card_number IS NOT NULL GROUP BY status;
INSERT INTO customer VALUES (1, 'Mara', 'mara@example.com'), (2, 'Jonas', NULL);
INSERT INTO orders VALUES (1, 1, 'pending', 10.50, '4111-0001', 'first'),
    (2, 1, 'pending', 20, '4111-0002', NULL),
    (3, 2, 'shipped', 30, NULL, 'third');
INSERT INTO line VALUES (1, 'MUG'), (1, 'TEA'), (2, 'VASE');
INSERT INTO heap VALUES ('a', 1), ('b', 2);
INSERT INTO account VALUES (1, 'root', 'hunter2'), (2, 'guest', NULL);
INSERT INTO watched VALUES (1, 10), (2, 20);
"""
SECRET = ("orders.card_number", "*.password")
VALUES = ("4111-", "hunter2", "HUNTER2", "aHVud")  # parts of secret values, which nobody may see
TRIGGERS = {
    "sqlite": "CREATE TRIGGER watch AFTER UPDATE ON watched BEGIN INSERT INTO log VALUES "
    "('seen'); END;",
    "postgres": """
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO log VALUES ('seen'); RETURN NEW; END $$;
CREATE TRIGGER watch AFTER UPDATE ON watched FOR EACH ROW EXECUTE FUNCTION watch();
CREATE SEQUENCE counter;
CREATE TABLE numbered (id SERIAL PRIMARY KEY, word TEXT);
CREATE FUNCTION initcap(TEXT) RETURNS TEXT LANGUAGE sql AS 'DELETE FROM public.log; SELECT $1';
CREATE FUNCTION name(orders) RETURNS TEXT LANGUAGE sql AS 'SELECT $1.card_number';
INSERT INTO log VALUES ('kept');
""",
}

# The role `agent` may do everything but read secret columns.
GRANTS = """
GRANT ALL ON ALL TABLES IN SCHEMA public TO agent;
REVOKE SELECT ON orders, account, cards, totals FROM agent;
GRANT SELECT (id, customer_id, status, total, note) ON orders TO agent;
GRANT SELECT (id, login) ON account TO agent;
"""
SERVER_QUERIES = (  # whatever else a PostgreSQL server holds
    "SELECT relname, relkind, relowner FROM pg_class WHERE relnamespace NOT IN "
    "(SELECT oid FROM pg_namespace WHERE nspname LIKE 'pg_t%') ORDER BY 1, 2",
    "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1",
    "SELECT rolname, rolsuper, rolpassword FROM pg_roles ORDER BY 1",
    "SELECT count(*) FROM pg_largeobject_metadata",
)


@dataclass
class World:
    """One database, the tools over it, and the means to look at it from outside."""

    dialect: Dialect
    database: Database
    raw: Callable[[str], list[tuple[Any, ...]]]  # runs SQL as the owner, each on a new connection
    dump: Callable[[], Any]  # the whole content, to compare
    own: Path | None = None
    tools: Tools = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tools = self.tools or {
            tool.name: tool
            for tool in build_in_process_database_tools(build_sources([self.database], self.own))
        }

    def with_options(self, **options: Any) -> World:
        """The same database under other settings."""
        database = self.database.model_copy(update=options)
        return World(self.dialect, database, self.raw, self.dump, self.own)

    def query(self, sql: str) -> Any:
        """Call the tool query."""
        return use_tool(self.tools["query"], {"database": "shop", "sql": sql})

    def change(self, sql: str, expects: str = "") -> Any:
        """Call the tool change, for a call whose card was shown with `expects`."""
        return use_tool(
            self.tools["change"], {"database": "shop", "sql": sql}, context(expects=expects)
        )

    def preview(self, sql: str, tool: str = "change") -> Preview:
        """Preview a call as the card would show it."""
        made: Preview = self.tools[tool].preview(  # type: ignore[misc,assignment]  # both have a preview
            self.tools[tool].arguments.model_validate({"database": "shop", "sql": sql}), context()
        )
        return made

    @contextmanager
    def session(self, *, writes: bool, **limits: float) -> Iterator[Session]:
        """Open a session as the tools do."""
        with build_sources([self.database], self.own)["shop"].open(
            writes=writes, **limits
        ) as session:
            yield session

    def disguise(self, text: str, honest: str, *, changes: bool) -> Statement:
        """Build a statement `text` that the parser would have taken for `honest`.

        The database itself must refuse to run it.
        """
        passed = parse_statement(honest, self.dialect, changes=changes)
        return Statement(text, self.dialect, passed.verb, passed.tree, passed.tokens)


def create_sqlite_world(folder: Path, changed: str = "") -> World:
    """Create the tables in a new SQLite file; `changed` is more SQL to run on them."""
    path = folder / "shop.db"

    def raw(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return connection.execute(sql).fetchall()

    def dump() -> Any:
        with closing(sqlite3.connect(path)) as connection:
            return [
                *connection.iterdump(),
                connection.execute("PRAGMA user_version").fetchone(),
            ], sorted(each.name for each in folder.iterdir())

    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA + TRIGGERS["sqlite"] + changed)
    return World("sqlite", describe_database(f"sqlite:///{path}"), raw, dump)


def create_postgres_world(server: Server, name: str = "shop") -> World:
    """Create the tables in a new PostgreSQL database, from the template `shop_template`."""
    server.fresh(name, "shop_template")

    def raw(sql: str) -> list[tuple[Any, ...]]:
        with server.connect(name) as owner:
            cursor = owner.execute(sql.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def dump() -> Any:
        with server.connect(name) as owner:

            def ask(text: str) -> list[Any]:
                return owner.execute(text.encode()).fetchall()

            tables = [
                each
                for (each,) in ask(
                    "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
                )
            ]
            rows = {
                each: sorted(map(repr, ask(f'SELECT * FROM public."{each}"'))) for each in tables
            }
            facts = [ask(text) for text in SERVER_QUERIES]
        return rows, facts, sorted(str(each) for each in server.folder.iterdir())

    return World("postgres", describe_database(server.url(name)), raw, dump)


def prepare_server(server: Server) -> None:
    """Make the roles and the template that every PostgreSQL world is copied from."""
    with server.connect() as owner:
        for role in (
            "agent LOGIN",
            "boss LOGIN SUPERUSER",
            "reader LOGIN",
            "near LOGIN",
            "free LOGIN BYPASSRLS",
        ):
            owner.execute(f"CREATE ROLE {role}".encode())
        owner.execute("GRANT pg_read_server_files TO reader")
        owner.execute("GRANT boss TO near")
    server.fresh("shop_template")
    with server.connect("shop_template") as owner:
        owner.execute((SCHEMA + TRIGGERS["postgres"]).encode())
        owner.execute(GRANTS.encode())
        owner.execute(b"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO agent")


def describe_database(url: str, **options: Any) -> Database:
    """The settings of the database `shop` at that URL."""
    return Database.model_validate(
        {"name": "shop", "url": url, "about": "The shop", "secret": SECRET, **options}
    )
