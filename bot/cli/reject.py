"""`countersign reject`: the operator rejects one call and says why, as if on its card."""

from __future__ import annotations

import argparse

from bot.cli.bot_connection import ask
from bot.terminal.terminal_messages import Asking, Wish
from countersign.cli.console import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the call, and why not."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument(
        "--reason", required=True, metavar="WORDS", help="why not, for the thread and the agent"
    )


def run(arguments: argparse.Namespace) -> int:
    """Have the bot count the rejection; returns the exit code."""
    reason = arguments.reason.strip()
    if not reason:
        raise UsageError("`reject` needs a --reason of some words")
    return ask(Asking(Wish.REJECT, arguments.id, reason))
