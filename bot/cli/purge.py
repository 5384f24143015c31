"""`countersign purge`: empties what was said in old requests, while the bot is stopped."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta

from bot.cli.read_only_core import duration
from bot.clock import SystemClock
from bot.config.settings import LEAST, Settings
from bot.replicas.membership import advance_clock, settings_and_clock
from bot.signing_key import open_store
from bot.upkeep import purge_all
from countersign.cli.console import DOTENV, UsageError, complain, say
from storage.store import Store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how old it has to be."""
    parser.add_argument(
        "--older-than",
        type=duration,
        required=True,
        metavar="365d",
        help=f"requests in which nothing has moved for so long: at least {LEAST}d",
    )


def run(arguments: argparse.Namespace) -> int:
    """Purge, and say how much; returns the exit code.

    Raises AlreadyRunningError beside a working bot, which does it by itself.
    """
    if arguments.older_than < timedelta(days=LEAST):
        raise UsageError(
            f"--older-than is {LEAST}d or more: rules may count what was done that long ago"
        )
    settings, clock = settings_and_clock(
        Settings.load(os.environ, DOTENV, reading=True), SystemClock()
    )
    if not (settings.is_shared or settings.database_path.is_file()):
        return complain(f"There is nothing to purge: no database at {settings.database_path}.")
    store = open_store(settings, clock.now(), lambda: "")
    try:
        if store.astray:
            return complain(
                f"The record is not the one of its last life ({store.astray}): start the bot on it"
                " first."
            )
        advance_clock(store, clock)
        before = size_of(store)
        done = purge_all(store, clock, arguments.older_than)
        say(f"Purged what was said in {done} {'request' if done == 1 else 'requests'}.")
        if why := store.rewrite():
            say(f"Note: not all of the file was given back: {why}.")
        freed = before - size_of(store)
    finally:
        store.close()
    if freed > 0:
        say(f"The file is {freed:,} bytes smaller.")
    return 0


def size_of(store: Store) -> int:
    """Bytes on this machine's disk; 0 for a server's record."""
    return 0 if store.shared else store.path.stat().st_size
