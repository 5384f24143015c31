"""`countersign restore`: a backup in the place of the record, while the bot is stopped."""

from __future__ import annotations

import argparse
import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from bot.cli.backup_words import amount, key_in_use, say_found
from bot.clock import SystemClock
from bot.config.settings import Settings
from countersign.cli.console import DOTENV, complain, say
from storage import backups
from storage.backups import Backup, BackupError, OpenedBackup
from storage.chain import key_id, key_ids
from storage.digest import KeyFileError, keep_key, key_path, load_key
from storage.migrations import SchemaError
from storage.record_copies import LostRowsError
from storage.sqlite import lock
from storage.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which one."""
    parser.add_argument("file", type=Path, metavar="FILE", help="what `countersign backup` wrote")


def run(arguments: argparse.Namespace) -> int:
    """Put it back, and say what is in it; returns the exit code.

    Raises AlreadyRunningError beside a working bot.
    """
    settings = Settings.load(os.environ, DOTENV, reading=True)
    path: Path = settings.database_path
    try:
        if settings.is_shared:
            return _put_on_a_server(settings, arguments.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and arguments.file.exists() and path.samefile(arguments.file):
            return complain(f"Nothing was put back: {path} is the record itself.")
        with closing(lock(path)):
            return _put_back(settings, arguments.file, path)
    except (BackupError, SchemaError, LostRowsError) as error:
        return complain(f"Nothing was put back: {error}.")
    except (OSError, KeyFileError, DBAPIError, sqlite3.Error) as error:
        return complain(f"Nothing was put back: {backups.error_sentence(error)}.")


def _put_back(settings: Settings, file: Path, path: Path) -> int:
    """Put it in the place of the database at `path`, which nobody else uses."""
    now, real = SystemClock().now(), path.resolve()
    backups.clear_working_folder(real)
    with backups.taken(file, real) as taken:
        key, lost = _key(settings, taken)
        made = taken.ready(key, now, lost=lost)
        if settings.key is None:
            keep_key(key_path(path), key)
        aside = backups.put_back(taken, real, now)
    _tell(made, taken.sealed_by if lost else "", key_id(key), aside)
    return 0


def _put_on_a_server(settings: Settings, file: Path) -> int:
    """Put it in the place of what is in the database of a server, with which nobody works."""
    now = SystemClock().now()
    with backups.taken(file, Path(tempfile.gettempdir()) / file.name) as taken:
        key, lost = _key(settings, taken)
        made = taken.ready(key, now, lost=lost)
        with (
            closing(backups.open_store_in(taken.folder, key)) as source,
            closing(Store(settings.database_url, key=key).open()) as target,
        ):
            moved = backups.replace_record(
                source, target, None if lost else made.found.problems, now
            )
    aside = moved.aside and f"the schema {moved.aside} of the database"
    _tell(made, taken.sealed_by if lost else "", key_id(key), aside)
    return 0


def _tell(made: Backup, lost: str, key: str, aside: object) -> None:
    """Say what was put back, under which key (by ids), and where is what was there before."""
    say(f"Put back from {made.path}: {amount(made.counts)}.")
    if lost:
        say(f"Note: the key {lost} is lost, so nobody can tell what was changed in it.")
    else:
        say_found(made.found, key)
    if aside:
        say(f"What was there before is kept as {aside}.")
    say("Start the bot: what waited or ran is asked again, under new buttons.")


def _key(settings: Settings, taken: OpenedBackup) -> tuple[bytes, bool]:
    """The key to put it back under, and whether the one it is sealed with is lost.

    Raises BackupError where neither the right one is there nor said to be lost.
    """
    needed, kept = taken.sealed_by, key_path(settings.database_path)
    lost = bool(needed) and settings.lost_key == needed
    if settings.key is not None or settings.is_shared or kept.exists():
        mine = key_in_use(settings)
    elif taken.signing_key and needed in key_ids(taken.signing_key):
        mine = taken.signing_key
    elif lost or not needed:
        mine = load_key(kept)
    else:
        raise BackupError(
            f"it is sealed with the key {needed}, and there is no key here; put it into {kept}"
            f" or set COUNTERSIGN_KEY. If it is lost, {_unchecked(needed)}"
        )
    if needed not in {"", *key_ids(mine)} and not lost:
        raise BackupError(
            f"it is sealed with the key {needed}, and the key here is {key_id(mine)}; put that"
            f" key into {kept} or set COUNTERSIGN_KEY. If it is lost, {_unchecked(needed)}"
        )
    return mine, lost and needed not in key_ids(mine)


def _unchecked(needed: str) -> str:
    return (
        f"COUNTERSIGN_LOST_KEY={needed} puts the backup back unchecked, and closes undone what"
        " waits in it"
    )
