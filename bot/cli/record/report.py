"""`countersign report`: how people decided, how fast, and who. Changes nothing."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta

from bot.cli.console import DOTENV, complain, say
from bot.cli.readonly.core import BAD_INPUT, read_only_core
from bot.cli.readonly.plain_words import PlainWords
from bot.cli.record.moments import duration
from bot.clock import SystemClock
from bot.explain.report import report
from bot.explain.report_lines import report_lines
from bot.explain.typed_call import MistypedError
from storage import reports


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how far back."""
    parser.add_argument(
        "--since",
        type=duration,
        default="30d",
        metavar="30d",
        help="how far back: 12h, 30d (default: 30d)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the report; returns the exit code."""
    try:
        found = read_only_core(os.environ, DOTENV, None, SystemClock())
    except MistypedError as error:
        complain(error)
        return BAD_INPUT
    if found.no_record:
        return complain(f"There is nothing to report: {found.no_record}.")
    team = found.authority.team
    if not team:
        return complain(
            "The record holds several workspaces, and without Slack it is not known which is meant."
        )
    until = found.clock.now() + timedelta(seconds=1)  # what was asked just now is in it
    since = until - arguments.since
    with found.store.read() as tx:
        asked = reports.asked(tx, team, since, until)
    for line in report_lines(report(asked, since, until), PlainWords(found.directory)):
        say(line)
    return 0
