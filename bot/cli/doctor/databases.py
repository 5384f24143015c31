"""The look at the databases that the agent may use: each is opened as a tool would open it, and
left as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from bot.cli.doctor.check import Check, fail, ok, warn
from bot.config.settings import Settings
from bot.tools import ToolError
from bot.tools.database.catalog import Catalog
from bot.tools.database.config import Database
from bot.tools.database.tools import sources_of

_TELLING = re.compile(  # a column that holds what nobody should read, as people tend to name it
    r"passw|secret|token|api_?key|private_?key|credential|card_?n(?:o|um)|iban|cvv|cvc|ssn|tax_?id|passport|salt$|_hash$",
    re.IGNORECASE,
)


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
    """Patterns that keep nothing secret are likely misspelled.

    Columns whose names sound secret were likely missed.
    """
    there = [
        f"{table.name}.{each.name}".lower()
        for table in catalog.tables.values()
        for each in table.columns
    ]
    for pattern in database.secret:
        if not any(fnmatchcase(name, pattern.lower()) for name in there):
            yield warn(about, f"no column is named {pattern}", "Correct or remove it under secret")
    seen = [
        f"{table.name}.{each.name}"
        for table in catalog.tables.values()
        for each in table.columns
        if _TELLING.search(each.name) and catalog.column_key(each) not in table.secret
    ]
    if seen:
        named = ", ".join(sorted(seen)[:5]) + (
            f" and {len(seen) - 5} more" if len(seen) > 5 else ""
        )
        remedy = "Name under secret, in COUNTERSIGN_DATABASES, which of them nobody may see"
        yield warn(about, f"by their names these could be secret, and are shown: {named}", remedy)
