"""`countersign approve`: the operator approves one call, or a plan, as if on its card."""

from __future__ import annotations

import argparse

from bot.cli.bot_connection import ask
from bot.terminal.terminal_messages import Asking, Wish
from countersign.cli.console import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the call, a note, and that all of a plan is meant."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument("--note", default="", metavar="WORDS", help="for the thread and the agent")
    parser.add_argument(
        "--plan", action="store_true", help="the id is that of a plan: approve all that waits in it"
    )


def run(arguments: argparse.Namespace) -> int:
    """Have the bot count the approval; returns the exit code."""
    note = arguments.note.strip()
    if arguments.plan and note:
        raise UsageError("a note is for one call: leave out --plan or --note")
    wish = Wish.APPROVE_PLAN if arguments.plan else Wish.APPROVE
    return ask(Asking(wish, arguments.id, note))
