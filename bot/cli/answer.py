"""`countersign answer`: the operator answers a question that the agent asked them."""

from __future__ import annotations

import argparse

from bot.cli.bot_connection import ask
from bot.terminal.terminal_messages import Asking, Wish
from countersign.cli.console import UsageError, assignments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the question and the answer."""
    parser.add_argument("id", help="of the question with its revision, as `pending` shows it")
    parser.add_argument("words", nargs="?", default="", help="the answer, where it asks for one")
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="name=value",
        help="one of several that it asks for; repeatable; `countersign edit ID` lists them",
    )
    parser.add_argument("--decline", action="store_true", help="say that you cannot answer")


def run(arguments: argparse.Namespace) -> int:
    """Have the bot take the answer; returns the exit code."""
    values = assignments(arguments.field)
    given = [bool(arguments.words), bool(values), arguments.decline]
    if sum(given) != 1:
        raise UsageError("`answer` needs an answer in words, --field, or --decline")
    if arguments.decline:
        return ask(Asking(Wish.DECLINE, arguments.id))
    return ask(Asking(Wish.ANSWER, arguments.id, arguments.words, values))
