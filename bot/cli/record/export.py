"""`countersign export`: all that the record holds of one person, as JSON."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import closing

from bot.cli.record.person import person_of
from bot.clock import SystemClock
from bot.config.settings import Settings
from countersign.cli.console import DOTENV, complain, say
from storage import personal_data
from storage.read_only import ReadOnly


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whose."""
    parser.add_argument("person", metavar="@PERSON", help="a @handle, or a Slack user id (U…)")


def run(arguments: argparse.Namespace) -> int:
    """Write one JSON object to the standard output; returns the exit code. Works beside the bot."""
    settings = Settings.load(os.environ, DOTENV, reading=True)
    try:
        person = person_of(settings, arguments.person)
    except ValueError as error:
        return complain(f"Nothing was exported: {error}")
    with closing(ReadOnly(settings.database_url)) as store:
        if trouble := store.trouble():
            return complain(f"The record cannot be read: {trouble}.")
        with store.read() as tx:
            found = personal_data.held(tx, person)
    about = {"person": person, "at": SystemClock().now().isoformat()}
    say(json.dumps(about | found, ensure_ascii=False, indent=2))
    return 0
