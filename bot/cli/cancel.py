"""`countersign cancel`: the operator stops a request of their own."""

from __future__ import annotations

import argparse

from bot.cli.bot_connection import ask
from bot.terminal.terminal_messages import Asking, Wish


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the request."""
    parser.add_argument("id", help="of the request, as `show` tells it")


def run(arguments: argparse.Namespace) -> int:
    """Have the bot stop it; returns the exit code."""
    return ask(Asking(Wish.CANCEL, arguments.id))
