"""What a database holds, as far as the agent may know: tables, columns, keys, and which of them are
secret. PURE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from bot.tools.database.sql import Dialect

OWN_TABLES = frozenset({"delivery", "run", "item", "plan", "call", "revision", "vote", "audit"})


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str
    nullable: bool = True
    # its default is made by the database when a row is inserted: a sequence, a time, a function
    made: bool = False
    computed: str | None = None  # the expression of a generated column; "" when it is not known


@dataclass(frozen=True, slots=True)
class Relation:
    """One table or view that the role can see."""

    name: str
    kind: str  # table, view, partitioned, foreign, virtual
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()  # the primary key's columns
    definition: str = ""  # a view's SELECT
    secret: frozenset[str] = frozenset()  # folded names of columns nobody is shown
    schema: str = ""  # PostgreSQL's


@dataclass(frozen=True, slots=True)
class Catalog:
    """The tables of one database by their folded names, with their schema ("sales.orders") where
    they are not in the first of the schemas.
    """

    dialect: Dialect
    schemas: tuple[str, ...]
    tables: Mapping[str, Relation]

    def fold(self, name: str, *, quoted: bool = False) -> str:
        """A name as it is compared: SQLite ignores case everywhere, PostgreSQL only in names
        without quotes.
        """
        return name if self.dialect == "postgres" and quoted else name.lower()

    def find(self, table: exp.Table) -> Relation | None:
        """The table that a name in a statement means, if it is there."""
        name = self.fold(table.name, quoted=bool(table.this.args.get("quoted")))
        places = [table.db.lower()] if table.db else [each.lower() for each in self.schemas]
        first = self.schemas[0].lower()
        keys = [name if place == first else f"{place}.{name}" for place in places]
        return next((self.tables[key] for key in keys if key in self.tables), None)

    def with_secrets(self, secrets: Mapping[str, Iterable[str]]) -> Catalog:
        """The same with further secret columns, by folded table name."""
        known = {
            name: replace(table, secret=table.secret | frozenset(secrets.get(name, ())))
            for name, table in self.tables.items()
        }
        return replace(self, tables=known)

    def describe(self, table: Relation) -> str:
        """Return a table in one line: its kind, its columns, which are keys, which are secret."""
        kind = "" if table.kind == "table" else f" [{table.kind}]"
        columns = ", ".join(
            f"{each.name} {each.type}"
            + " key" * (each.name in table.key)
            + " SECRET" * (self.column_key(each) in table.secret)
            for each in table.columns
        )
        return f"{table.name}{kind}: {columns}"

    def column_key(self, column: Column) -> str:
        """A column's folded name."""
        return self.fold(column.name, quoted=True)


def quoted(name: str) -> str:
    """A name in double quotes."""
    return '"' + name.replace('"', '""') + '"'
