"""The databases that the settings name, each as its kind is opened."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bot.tools.database.config import Database
from bot.tools.database.postgres import PostgresSource
from bot.tools.database.session import Source
from bot.tools.database.sqlite import SqliteSource


def sources_of(databases: Iterable[Database], own: Path | None) -> dict[str, Source]:
    """The databases by name, ready to be opened.

    `own` is the file of Countersign's own database.
    """
    return {
        each.name: SqliteSource(each, own) if each.dialect == "sqlite" else PostgresSource(each)
        for each in databases
    }
