"""Makes a source for each configured database, by its kind, and checks the rights of its role."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from bot.tools import ToolError
from bot.tools.database.config import Database
from bot.tools.database.postgres import PostgresSource
from bot.tools.database.postgres_rights import ExcessiveRoleRightsError
from bot.tools.database.session import Source
from bot.tools.database.sqlite import SqliteSource

log = logging.getLogger("countersign.databases")


def build_sources(databases: Iterable[Database], bot_database: Path | None) -> dict[str, Source]:
    """Return a source for each database, by name; nothing is opened yet.

    `bot_database` is the file of Countersign's own database.
    """
    return {
        each.name: SqliteSource(each, bot_database)
        if each.dialect == "sqlite"
        else PostgresSource(each)
        for each in databases
    }


def list_role_rights_errors(
    databases: Iterable[Database], bot_database: Path | None
) -> Iterator[tuple[str, ExcessiveRoleRightsError]]:
    """Yield each database whose role has too many rights, by name, with the error.

    A database that cannot be opened is logged. `bot_database`: see `build_sources`.
    """
    for name, source in build_sources(databases, bot_database).items():
        try:
            with source.open(writes=False):
                pass
        except ExcessiveRoleRightsError as error:
            yield name, error
        except ToolError as error:
            log.warning("database %s: %s", name, error)
