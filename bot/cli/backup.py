"""`countersign backup`: all of the record in one file, while the bot works."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from pathlib import Path

from bot import __version__
from bot.cli.backup_words import amount, key_in_use, say_found
from bot.clock import SystemClock
from bot.config.settings import Settings
from countersign.cli.console import DOTENV, complain, say
from storage import backups
from storage.chain import key_id
from storage.digest import key_path
from storage.store import ReadOnly


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where to, and whether the key is in it."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a file that is not there yet")
    parser.add_argument(
        "--with-key",
        action="store_true",
        help="put the key into it: who reads the file can then forge the record",
    )


def run(arguments: argparse.Namespace) -> int:
    """Back up, read it again and say what is in it; 1 where nothing was backed up, or not sound."""
    settings, path = Settings.load(os.environ, DOTENV, reading=True), arguments.file
    with closing(ReadOnly(settings.database_url)) as store:
        if trouble := store.trouble():
            return complain(f"Nothing was backed up: {trouble}.")
        try:
            key = key_in_use(settings)
        except (OSError, ValueError) as error:
            sentence = f"it is sealed with the key. {backups.error_sentence(error)}"
            return complain(f"Nothing was backed up: {sentence}.")
        try:
            now, with_key = SystemClock().now(), arguments.with_key
            made = backups.make_backup(
                store, path, key, at=now, version=__version__, with_key=with_key
            )
        except backups.BackupError as error:
            return complain(f"Nothing was backed up: {error}.")
    say(f"Backed up to {path}: {amount(made.counts)}; {made.size:,} bytes.")
    say_found(made.found, key_id(key))
    if arguments.with_key:
        say("The key is in it: whoever reads this file can forge the record.")
    else:
        where = "COUNTERSIGN_KEY" if settings.key else key_path(settings.database_path)
        say(
            f"The key is NOT in it. Keep {where} elsewhere: without it nobody can check this"
            " backup, and nothing that waits in it can ever run."
        )
    return 1 if made.found.problems else 0
