"""`countersign approve`: the operator approves one call, as if on its card."""

from __future__ import annotations

import argparse

from bot.cli.terminal.asking import ask
from bot.terminal.wire import Asking
from storage.states import Verb


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the call, and a note."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument("--note", default="", metavar="WORDS", help="for the thread and the agent")


def run(arguments: argparse.Namespace) -> int:
    """Have the bot count the approval; returns the exit code."""
    return ask(Asking(Verb.APPROVE, arguments.id, arguments.note.strip()))
