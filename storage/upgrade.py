"""Bring a schema from an older revision to the newest one, by Alembic."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from storage import sqlite
from storage.migrations import SchemaError


def upgrade(engine: Engine, path: Path, current: str | None, scripts: Path, newest: str) -> None:
    """Bring the database at `path` from revision `current` (None: empty) to `newest` of `scripts`.

    A database that holds rows is copied first. Raises SchemaError for a revision not in `scripts`.
    """
    config = Config()
    config.set_main_option("script_location", str(scripts))
    if current is not None:
        script = ScriptDirectory.from_config(config)
        if current not in {revision.revision for revision in script.walk_revisions()}:
            raise SchemaError(
                f"{path} was written by a newer Countersign (schema {current}); upgrade this one"
            )
        sqlite.copy_to(engine, path.with_name(f"{path.name}.before-{newest}"))
    config.attributes["engine"] = engine
    # a table that another one's trigger reads cannot be made anew
    config.attributes["beforehand"] = sqlite.without_triggers()
    # a table that was made anew has lost its triggers
    config.attributes["afterwards"] = sqlite.append_only_triggers()
    command.upgrade(config, newest)
