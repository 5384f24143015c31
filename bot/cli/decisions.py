"""`countersign approve`, `reject`, `edit`, `answer`, `resolve`, `cancel`: the operator decides at
the terminal, as if on the card.
"""

from __future__ import annotations

import argparse

from bot.cli import bot_connection
from bot.terminal.terminal_messages import CommandKind, OperatorCommand, TerminalField
from countersign.cli import console
from countersign.cli.commands import CommandFunctions


def add_approve_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the call, a note, and whether the id is that of a plan."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument("--note", default="", metavar="WORDS", help="for the thread and the agent")
    parser.add_argument(
        "--plan", action="store_true", help="the id is that of a plan: approve all that waits in it"
    )
    parser.add_argument(
        "--break-glass",
        metavar="WORDS",
        help="run it at once without approval, where the policy lets you, and say why",
    )


def run_approve(arguments: argparse.Namespace) -> int:
    """Send the approval of a call or a plan to the bot; returns the exit code."""
    note = arguments.note.strip()
    if arguments.plan and note:
        raise console.UsageError("a note is for one call: leave out --plan or --note")
    kind = CommandKind.APPROVE_PLAN if arguments.plan else CommandKind.APPROVE
    if arguments.break_glass is not None:
        if arguments.plan or note:
            raise console.UsageError("--break-glass is for one call: leave out --plan and --note")
        kind, note = CommandKind.BREAK_GLASS, arguments.break_glass.strip()
    return bot_connection.send_command_and_print(OperatorCommand(kind, arguments.id, note))


APPROVE = CommandFunctions(add_approve_arguments, run_approve)


# `countersign reject`: the operator rejects one call and says why, as if on its card.


def add_reject_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the call and the reason."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument(
        "--reason", required=True, metavar="WORDS", help="why not, for the thread and the agent"
    )


def run_reject(arguments: argparse.Namespace) -> int:
    """Send the rejection of a call to the bot; returns the exit code."""
    reason = arguments.reason.strip()
    if not reason:
        raise console.UsageError("`reject` needs a --reason of some words")
    return bot_connection.send_command_and_print(
        OperatorCommand(CommandKind.REJECT, arguments.id, reason)
    )


REJECT = CommandFunctions(add_reject_arguments, run_reject)


# `countersign edit`: the operator changes arguments of one call, as in its Edit dialog.


def add_edit_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the call and its new values."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument(
        "values",
        nargs="*",
        metavar="name=value",
        help="what is to change; without any, what can be changed is listed",
    )


def run_edit(arguments: argparse.Namespace) -> int:
    """Send the new values of a call to the bot, or list its fields; returns the exit code."""
    values = console.parse_assignments(arguments.values)
    if values:
        return bot_connection.send_command_and_print(
            OperatorCommand(CommandKind.EDIT, arguments.id, values=values)
        )
    found = bot_connection.send_command(
        bot_connection.get_bot_socket_path(), OperatorCommand(CommandKind.LOOK, arguments.id)
    )
    if not found.calls:
        return console.print_error(found.sentence)
    if not found.calls[0].fields:
        return console.print_error("There is nothing to edit in it.")
    for field in found.calls[0].fields:
        console.print_line(console.escape_control_characters(format_field_line(field)))
    return 0


def format_field_line(field: TerminalField) -> str:
    """Return one line about a form field: its name, value, label and choices."""
    one_of = f" ({' | '.join(field.options)})" if field.options else ""
    return f"{field.name}={field.text}  {field.label}{one_of}"


EDIT = CommandFunctions(add_edit_arguments, run_edit)


# `countersign answer`: the operator answers a question that the agent asked them.


def add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the question and its answer."""
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


def run_answer(arguments: argparse.Namespace) -> int:
    """Send the answer to a question to the bot; returns the exit code."""
    values = console.parse_assignments(arguments.field)
    given = [bool(arguments.words), bool(values), arguments.decline]
    if sum(given) != 1:
        raise console.UsageError("`answer` needs an answer in words, --field, or --decline")
    if arguments.decline:
        return bot_connection.send_command_and_print(
            OperatorCommand(CommandKind.DECLINE, arguments.id)
        )
    return bot_connection.send_command_and_print(
        OperatorCommand(CommandKind.ANSWER, arguments.id, arguments.words, values)
    )


ANSWER = CommandFunctions(add_answer_arguments, run_answer)


# `countersign resolve`: the operator says what became of a call that nobody knows the end of.

BECAME = {"done": CommandKind.DONE, "not-done": CommandKind.NOT_DONE, "again": CommandKind.AGAIN}


def add_resolve_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the call, and what became of it."""
    parser.add_argument("id", help="of the call with its revision, as `pending` shows it")
    parser.add_argument(
        "became", choices=list(BECAME), help="it happened, it did not, or it is to run once more"
    )


def run_resolve(arguments: argparse.Namespace) -> int:
    """Send the bot what became of a call; returns the exit code."""
    return bot_connection.send_command_and_print(
        OperatorCommand(BECAME[arguments.became], arguments.id)
    )


RESOLVE = CommandFunctions(add_resolve_arguments, run_resolve)


# `countersign cancel`: the operator stops a request of their own.


def add_cancel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the request's id."""
    parser.add_argument("id", help="of the request, as `show` tells it")


def run_cancel(arguments: argparse.Namespace) -> int:
    """Have the bot stop a request; returns the exit code."""
    return bot_connection.send_command_and_print(OperatorCommand(CommandKind.CANCEL, arguments.id))


CANCEL = CommandFunctions(add_cancel_arguments, run_cancel)
