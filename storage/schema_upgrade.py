"""Bring a schema from an older revision to the newest one, by Alembic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config

if TYPE_CHECKING:
    from storage.backend import Backend


def upgrade(database: Backend, current: str | None, scripts: Path, newest: str) -> None:
    """Bring a database from revision `current` (None: empty) to `newest` of `scripts`.

    A file that holds rows is copied first.
    """
    config = Config()
    config.set_main_option("script_location", str(scripts))
    if current is not None:
        database.copy_before(newest)
    config.attributes["engine"] = database.engine
    config.attributes["beforehand"] = database.not_append_only()
    # a table that was made anew has lost its triggers
    config.attributes["afterwards"] = database.append_only()
    command.upgrade(config, newest)
