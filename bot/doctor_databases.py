"""The look at the databases that the agent may use: each is opened as a tool would open it, and left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from bot.doctor_checks import Check
from bot.settings import Settings
from bot.tools import ToolError
from bot.tools.database import sources_of
from bot.tools.database_catalog import Catalog
from bot.tools.database_config import Database


def check_databases(settings: Settings) -> Iterator[Check]:
    """Whether each can be reached, by a role with few rights, is not Countersign's own, has what is secret."""
    for source in sources_of(settings.databases, settings.database_path).values():
        database = source.database
        about = f"database {database.name}"
        try:
            with source.open(writes=not database.read_only) as session:
                catalog, version = session.catalog, session.version()
        except ToolError as error:
            remedy = "Correct it in COUNTERSIGN_DATABASES, or give the role and the file what they need"
            yield Check("fail", about, str(error), remedy)
            continue
        secret = sum(len(table.secret) for table in catalog.tables.values())
        can = "read" if database.read_only else "read and changed"
        text = f"{version}, {len(catalog.tables)} tables, {secret} secret columns; it can be {can}"
        yield Check(
            "ok" if catalog.tables else "warn", about, text, "" if catalog.tables else "Nothing can be seen there"
        )
        yield from _secrets(about, database, catalog)


def _secrets(about: str, database: Database, catalog: Catalog) -> Iterator[Check]:
    """Patterns that keep nothing secret are likely misspelled."""
    there = [f"{table.name}.{each.name}".lower() for table in catalog.tables.values() for each in table.columns]
    for pattern in database.secret:
        if not any(fnmatchcase(name, pattern.lower()) for name in there):
            yield Check("warn", about, f"no column is named {pattern}", "Correct or remove it under secret")
