"""`countersign resolve`: the operator says what became of a call that nobody knows the end of."""

from __future__ import annotations

import argparse

from bot.cli.bot_connection import ask
from bot.terminal.terminal_messages import Asking, Wish

BECAME = {"done": Wish.DONE, "not-done": Wish.NOT_DONE, "again": Wish.AGAIN}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the call, and what became of it."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument(
        "became", choices=list(BECAME), help="it happened, it did not, or it is to run once more"
    )


def run(arguments: argparse.Namespace) -> int:
    """Have the bot write it down; returns the exit code."""
    return ask(Asking(BECAME[arguments.became], arguments.id))
