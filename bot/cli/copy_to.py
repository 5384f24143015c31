"""`countersign copy-to`: the record of a stopped bot moves to PostgreSQL, with all that waits."""

from __future__ import annotations

import argparse
import os
import sqlite3

from sqlalchemy.exc import DBAPIError

from bot.cli.backup_words import amount, say_found
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.signing_key import open_store
from countersign.cli.console import DOTENV, complain, say
from storage.backend import is_shared
from storage.backups import BackupError, RecordMove, error_sentence, move_record
from storage.chain import key_id
from storage.digest import key_path
from storage.migrations import SchemaError
from storage.record_copies import LostRowsError
from storage.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where to."""
    parser.add_argument(
        "url",
        metavar="URL",
        help="postgresql://user@host/database, which holds no record; without a password there,"
        " PGPASSWORD or ~/.pgpass has it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Move it, and say what to do then; returns the exit code.

    Raises AlreadyRunningError beside a working bot, and StartupError where its key is not the one.
    """
    settings, clock = Settings.load(os.environ, DOTENV, reading=True), SystemClock()
    if settings.is_shared:
        return complain(
            "Nothing was moved: the record is on a server already. `countersign backup` there and"
            " `countersign restore` with another DATABASE_URL move it anywhere."
        )
    if not settings.database_path.is_file():
        return complain(f"Nothing was moved: there is no database at {settings.database_path}.")
    if not is_shared(arguments.url):
        return complain("Nothing was moved: the address is not one of PostgreSQL, postgresql://….")
    source = open_store(settings, clock.now(), lambda: "")
    try:
        target = Store(arguments.url, key=source.key).open()
        try:
            moved = move_record(source, target, clock.now())
        finally:
            target.close()
    except (BackupError, SchemaError, LostRowsError, ValueError) as error:
        return complain(f"Nothing was moved: {error}.")
    except (OSError, DBAPIError, sqlite3.Error) as error:
        return complain(f"Nothing was moved: {error_sentence(error)}.")
    finally:
        source.close()
    _tell(settings, moved, target.database.name, key_id(source.key))
    return 0


def _tell(settings: Settings, moved: RecordMove, name: str, key: str) -> None:
    """Say what is there now, and how it goes on, or back."""
    what = "It was there already" if moved.before else "All of the record is there"
    say(f"{what}, in {name}: {amount(moved.counts)}.")
    if not moved.before:
        say_found(moved.found, key)
    kept = (
        "what it is now" if settings.key else f"what stands in {key_path(settings.database_path)}"
    )
    say(f"Set DATABASE_URL to that address and COUNTERSIGN_KEY to {kept} (its id is {key}); start.")
    say(
        f"The way back: `countersign backup` there, then `countersign restore` here. Whoever starts"
        f" on {settings.database_path} as it is has all that was open asked again, since nobody"
        " knows here what was done there."
    )
