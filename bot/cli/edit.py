"""`countersign edit`: the operator changes arguments of one call, as in its Edit dialog."""

from __future__ import annotations

import argparse

from bot.cli.bot_connection import NoBotError, ask, place, send
from bot.terminal.terminal_messages import Asking, FieldShown, Wish
from countersign.cli.console import assignments, complain, harmless, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the call, and what is to change."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument(
        "values",
        nargs="*",
        metavar="name=value",
        help="what is to change; without any, what can be changed is listed",
    )


def run(arguments: argparse.Namespace) -> int:
    """Have the bot store the edit, or list what can be changed; returns the exit code."""
    values = assignments(arguments.values)
    if values:
        return ask(Asking(Wish.EDIT, arguments.id, values=values))
    try:
        found = send(place(), Asking(Wish.LOOK, arguments.id))
    except NoBotError as error:
        return complain(error)
    if not found.calls:
        return complain(found.sentence)
    if not found.calls[0].fields:
        return complain("There is nothing to edit in it.")
    for field in found.calls[0].fields:
        say(harmless(described(field)))
    return 0


def described(field: FieldShown) -> str:
    """One line about something that can be filled in."""
    one_of = f" ({' | '.join(field.options)})" if field.options else ""
    return f"{field.name}={field.text}  {field.label}{one_of}"
