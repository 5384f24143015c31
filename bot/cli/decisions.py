"""`countersign approve`, `reject`, `edit` and others: the operator decides at the terminal.

The others are `answer`, `resolve` and `cancel`. All count as if done on the card.
"""

from __future__ import annotations

import argparse

from bot.cli.bot_connection import get_bot_socket_path, send_command, send_command_and_print
from bot.terminal.terminal_messages import CommandKind, OperatorCommand, TerminalField
from countersign.cli import console
from countersign.cli.commands import CommandFunctions


def _add_id(parser: argparse.ArgumentParser, what: str = "call") -> None:
    parser.add_argument("id", help=f"id of the {what} with its revision, as `pending` shows it")


def _add_approve_arguments(parser: argparse.ArgumentParser) -> None:
    _add_id(parser)
    parser.add_argument("--note", default="", metavar="WORDS", help="for the thread and the agent")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="the id is that of a plan: approve everything that is waiting in it",
    )
    parser.add_argument(
        "--break-glass",
        metavar="WORDS",
        help="run it at once without approval, where the policy lets you, and say why",
    )


def _run_approve(arguments: argparse.Namespace) -> int:
    note = arguments.note.strip()
    if arguments.plan and note:
        raise console.UsageError("a note is for one call: leave out --plan or --note")
    kind = CommandKind.APPROVE_PLAN if arguments.plan else CommandKind.APPROVE
    if arguments.break_glass is not None:
        if arguments.plan or note:
            raise console.UsageError("--break-glass is for one call: leave out --plan and --note")
        kind, note = CommandKind.BREAK_GLASS, arguments.break_glass.strip()
    return send_command_and_print(OperatorCommand(kind, arguments.id, note))


APPROVE = CommandFunctions(_add_approve_arguments, _run_approve)


def _add_reject_arguments(parser: argparse.ArgumentParser) -> None:
    _add_id(parser)
    parser.add_argument(
        "--reason", required=True, metavar="WORDS", help="why, for the thread and the agent"
    )


def _run_reject(arguments: argparse.Namespace) -> int:
    reason = arguments.reason.strip()
    if not reason:
        raise console.UsageError("`reject` needs a --reason in words")
    return send_command_and_print(OperatorCommand(CommandKind.REJECT, arguments.id, reason))


REJECT = CommandFunctions(_add_reject_arguments, _run_reject)


def _add_edit_arguments(parser: argparse.ArgumentParser) -> None:
    _add_id(parser)
    parser.add_argument(
        "values",
        nargs="*",
        default=[],
        metavar="name=value",
        help="the new values; without any, what can be changed is listed",
    )


def _run_edit(arguments: argparse.Namespace) -> int:
    values = console.parse_assignments(arguments.values)
    if values:
        edit = OperatorCommand(CommandKind.EDIT, arguments.id, values=values)
        return send_command_and_print(edit)
    found = send_command(get_bot_socket_path(), OperatorCommand(CommandKind.LOOK, arguments.id))
    if not found.calls:
        return console.print_error(found.sentence)
    if not found.calls[0].fields:
        return console.print_error("It has nothing to edit.")
    for field in found.calls[0].fields:
        console.print_line(console.escape_control_characters(_format_field_line(field)))
    return 0


def _format_field_line(field: TerminalField) -> str:
    one_of = f" ({' | '.join(field.options)})" if field.options else ""
    return f"{field.name}={field.text}  {field.label}{one_of}"


EDIT = CommandFunctions(_add_edit_arguments, _run_edit)


def _add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    _add_id(parser, "question")
    parser.add_argument(
        "words", nargs="?", default="", help="the answer, if the question has one field"
    )
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="name=value",
        help="one of several fields; repeatable; `countersign edit ID` lists them",
    )
    parser.add_argument("--decline", action="store_true", help="say that you cannot answer")


def _run_answer(arguments: argparse.Namespace) -> int:
    values = console.parse_assignments(arguments.field)
    given = [bool(arguments.words), bool(values), arguments.decline]
    if sum(given) != 1:
        raise console.UsageError("`answer` needs an answer in words, --field, or --decline")
    kind = CommandKind.DECLINE if arguments.decline else CommandKind.ANSWER
    return send_command_and_print(OperatorCommand(kind, arguments.id, arguments.words, values))


ANSWER = CommandFunctions(_add_answer_arguments, _run_answer)


COMMAND_BY_OUTCOME = {
    "done": CommandKind.DONE,
    "not-done": CommandKind.NOT_DONE,
    "again": CommandKind.AGAIN,
}


def _add_resolve_arguments(parser: argparse.ArgumentParser) -> None:
    _add_id(parser)
    parser.add_argument(
        "became",
        choices=list(COMMAND_BY_OUTCOME),
        help="it happened, it did not happen, or run it again",
    )


def _run_resolve(arguments: argparse.Namespace) -> int:
    return send_command_and_print(
        OperatorCommand(COMMAND_BY_OUTCOME[arguments.became], arguments.id)
    )


RESOLVE = CommandFunctions(_add_resolve_arguments, _run_resolve)


def _add_cancel_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="id of the request, as `show` prints it")


def _run_cancel(arguments: argparse.Namespace) -> int:
    return send_command_and_print(OperatorCommand(CommandKind.CANCEL, arguments.id))


CANCEL = CommandFunctions(_add_cancel_arguments, _run_cancel)
