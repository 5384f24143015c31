"""`countersign export`: all that the record holds of one person, as JSON."""

from __future__ import annotations

import argparse
import json
import os
import re
from contextlib import closing

from bot.checks.slack import make_client
from bot.clock import SystemClock
from bot.config.settings import Settings
from bot.policy.directory import LookupFailedError
from bot.slack.directory import SlackDirectory
from bot.tools.names import NamedKind, NameResolver
from countersign.cli.console import DOTENV, complain, say
from storage import personal_data
from storage.store import ReadOnly

# Which person a command is about, for what is forgotten or exported.

_ID = re.compile(r"[UW][A-Z0-9]{2,30}")


def person_of(settings: Settings, named: str) -> str:
    """The Slack user id of a @handle, a full name or an id; an id is taken as it is, also of
    somebody whom Slack knows no more.

    Raises ValueError with a sentence for anybody else.
    """
    if _ID.fullmatch(named):
        return named
    if not settings.slack_bot_token.get_secret_value():
        raise ValueError(
            f"Slack is not configured, so nobody knows who {named} is: give the id, U…"
        )
    directory = SlackDirectory(make_client(settings), SystemClock())
    try:
        return NameResolver(directory, None).id_of(NamedKind.PERSON, named)
    except LookupFailedError as error:
        raise ValueError(f"{error}: give the id, U…") from None


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
            found = personal_data.held_data(tx, person)
    about = {"person": person, "at": SystemClock().now().isoformat()}
    say(json.dumps(about | found, ensure_ascii=False, indent=2))
    return 0
