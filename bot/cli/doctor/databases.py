"""The look at the databases that the agent may use: each is opened as a tool would open it, and
left as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from bot.checks.check import Check, fail, ok, warn
from bot.config.settings import Settings
from bot.tools import ToolError
from bot.tools.database.catalog import Catalog
from bot.tools.database.config import Database
from bot.tools.database.postgres_rights import RightsError
from bot.tools.database.sources import sources_of


def check_databases(settings: Settings) -> Iterator[Check]:
    """Whether each can be reached, by a role with few rights, is not Countersign's own, has what is
    secret.
    """
    for source in sources_of(settings.databases, settings.database_path).values():
        database = source.database
        about = f"database {database.name}"
        try:
            with source.open(writes=not database.read_only) as session:
                catalog, version, changeable = (
                    session.catalog,
                    session.version(),
                    session.changeable(),
                )
        except RightsError as error:
            yield fail(about, str(error), " ".join(["Run as its owner:", *error.remedy]))
            continue
        except ToolError as error:
            remedy = (
                "Correct it in COUNTERSIGN_DATABASES, or give the role and the file what they need"
            )
            yield fail(about, str(error), remedy)
            continue
        secret = sum(len(table.secret) for table in catalog.tables.values())
        can = "read and changed" if changeable and not database.read_only else "read"
        text = f"{version}, {len(catalog.tables)} tables, {secret} secret columns; it can be {can}"
        if catalog.tables:
            yield ok(about, text)
        else:
            yield warn(about, text, "Nothing can be seen there")
        if not (changeable or database.read_only):
            yield warn(
                about,
                "the role may change nothing there",
                "Say read_only = true, or give it rights",
            )
        yield from _secrets(about, database, catalog)


def _secrets(about: str, database: Database, catalog: Catalog) -> Iterator[Check]:
    """Patterns that keep nothing secret are likely misspelled; what else is never read is told."""
    there = [
        f"{table.name}.{each.name}".lower()
        for table in catalog.tables.values()
        for each in table.columns
    ]
    for pattern in database.secret:
        if not any(fnmatchcase(name, pattern.lower()) for name in there):
            yield warn(about, f"no column is named {pattern}", "Correct or remove it under secret")
    named = [
        f"{table.name}.{each.name}"
        for table in catalog.tables.values()
        for each in table.columns
        if catalog.column_key(each) in table.secret
        and not any(
            fnmatchcase(f"{table.name}.{each.name}".lower(), pattern.lower())
            for pattern in database.secret
        )
    ]
    if named:
        some = ", ".join(sorted(named)[:5]) + (f" and {len(named) - 5} more" * (len(named) > 5))
        yield ok(about, f"not named under secret, and never read all the same: {some}")
