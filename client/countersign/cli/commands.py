"""The command line: finds the installed commands, runs the typed one, and words its errors."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol

from countersign.cli import console, process
from countersign.version import VERSION

# The installed commands, and a parser for them.

ENTRY_POINT_GROUP = "countersign.commands"


@dataclass(frozen=True, slots=True)
class CommandFunctions:
    """The functions of one command; a module that holds one command has them under these names."""

    add_arguments: Callable[[argparse.ArgumentParser], None]  # adds the command's own options
    run: Callable[[argparse.Namespace], int]  # returns the exit code


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command of the command table: its module, help text and exit codes."""

    module: str  # "module:NAME" if the module holds several, each a `CommandFunctions`
    help: str
    is_server: bool = False  # it runs until Ctrl-C or SIGTERM, which is its normal end
    takes_command: bool = False  # the words after -- are a command that it runs
    misuse_exit_code: int = 2  # the exit code if it was typed wrongly
    # the exit code if a bug ends it; set if the usual 1 is an answer of the command
    crash_exit_code: int | None = None
    # the exit code if an error or signal cuts it short; set if its caller takes others for a yes
    failure_exit_code: int | None = None

    def load(self) -> CommandFunctions:
        """Import the command's module and return the command."""
        path, _, name = self.module.partition(":")
        module = importlib.import_module(path)
        if not name:
            return CommandFunctions(module.add_arguments, module.run)
        command: CommandFunctions = getattr(module, name)
        return command


class CommandGroup(Protocol):
    """The interface of a module behind an entry point, by which a distribution adds commands."""

    COMMANDS: Mapping[str, CommandEntry]

    def describe_error(self, error: Exception, /) -> console.CommandError | None:
        """Return how an error ends a command, in a sentence; None if the error is a bug."""
        ...

    def describe_version(self) -> str:
        """Return the version, for `--version`."""
        ...


COMMANDS: Mapping[str, CommandEntry] = {
    "ask": CommandEntry(
        "countersign.cli.ask",
        "have people approve what a script or a CI job wants to do, and run it",
        takes_command=True,
        misuse_exit_code=3,
        crash_exit_code=3,
    ),
    "outcome": CommandEntry(
        "countersign.cli.approval_wait:OUTCOME",
        "report the outcome of what `ask` printed",
    ),
    "hook": CommandEntry(
        "countersign.cli.hook",
        "require approval for what Claude Code does, as its hook",
        failure_exit_code=2,
    ),
    "mcp-proxy": CommandEntry(
        "countersign.cli.mcp_proxy",
        "an MCP server whose tools run once people have approved each call",
        is_server=True,
    ),
    "verify": CommandEntry(
        "countersign.cli.verify",
        "check a receipt of what people approved, without asking the bot",
        crash_exit_code=2,
    ),
}


@cache
def load_command_groups() -> tuple[CommandGroup, ...]:
    """Return the groups of commands that other distributions have added."""
    return tuple(each.load() for each in entry_points(group=ENTRY_POINT_GROUP))


def list_installed_commands() -> dict[str, CommandEntry]:
    """Return every command that is installed, those of other distributions first."""
    tables = [*(group.COMMANDS for group in load_command_groups()), COMMANDS]
    return {name: entry for table in tables for name, entry in table.items()}


class _VersionAction(argparse.Action):
    """Prints the version: the bot's with its commit, looked up only now, else the client's."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        groups = load_command_groups()
        console.print_line(next((group.describe_version() for group in groups), VERSION))
        parser.exit()


def build_parser(
    loaded: Mapping[str, CommandFunctions], commands: Mapping[str, CommandEntry]
) -> argparse.ArgumentParser:
    """Build the parser of these commands, with the options of those in `loaded`.

    What it parses names the parser of the typed command in `command_parser`.
    """
    parser = argparse.ArgumentParser(
        "countersign", description="The agent proposes, your team countersigns."
    )
    help_text = "print the version and its commit"
    parser.add_argument(
        "--version", action=_VersionAction, nargs=0, dest=argparse.SUPPRESS, help=help_text
    )
    parsers = parser.add_subparsers(
        title="commands", dest="command", metavar="COMMAND", required=True
    )
    for name, entry in commands.items():
        options = parsers.add_parser(name, help=entry.help)
        options.set_defaults(command_parser=options)
        if name in loaded:
            loaded[name].add_arguments(options)
    return parser


INTERRUPTED_EXIT_CODE = 130  # Ctrl-C ended the command
BROKEN_PIPE_EXIT_CODE = 141  # the reader closed the command's output, as `head` does
NO_COMMAND = CommandEntry("", "")  # for its exit codes, if no command was typed


@dataclass(frozen=True, slots=True)
class ParsedCommandLine:
    """A typed command line: its words, the command they name, and the commands there are."""

    words: list[str]
    name: str  # "" if no command was typed
    entry: CommandEntry
    commands: Mapping[str, CommandEntry]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv`, by default sys.argv without its first; returns the exit code."""
    if sys.stderr is None:  # stderr was closed; print(file=None) would write to stdout instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 # open to the end
    process.ensure_home_folder()
    if isinstance(sys.stdout, io.TextIOWrapper):  # not every code page has every character
        sys.stdout.reconfigure(errors="backslashreplace")
    typed = _parse_command_line(list(sys.argv[1:] if argv is None else argv))
    broken = typed.entry.failure_exit_code
    try:
        if broken is None:
            return _run_reporting_errors(typed)
        return _run_with_failure_exit_code(typed, broken)
    finally:
        console.drop_unwritten_output()


def _parse_command_line(words: list[str]) -> ParsedCommandLine:
    first = next((each for each in words if not each.startswith("-")), "")
    # for one of ours, entry points of other distributions are not looked up
    commands = COMMANDS if first in COMMANDS else list_installed_commands()
    name = next((each for each in words if each in commands), "")
    return ParsedCommandLine(words, name, commands.get(name, NO_COMMAND), commands)


def _run_with_failure_exit_code(typed: ParsedCommandLine, broken: int) -> int:
    """Run a command, and return the exit code `broken` if an error or a signal cuts it short.

    The caller of such a command takes every other exit code for a yes.
    """
    try:
        process.interrupt_once_on(*process.END_SIGNALS, signal.SIGINT)
        return _run_typed_command(typed)
    except SystemExit:
        raise  # the command was mistyped
    except BaseException as error:  # noqa: BLE001 # an interruption, too
        with suppress(Exception):
            console.print_error(f"{typed.name} was cut short ({type(error).__name__}).")
        with suppress(Exception):  # unwritten output must not be flushed again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return broken


def _run_reporting_errors(typed: ParsedCommandLine) -> int:
    """Run a command, or end with the usage; known errors are printed as sentences."""
    serves, crash_exit_code = typed.entry.is_server, typed.entry.crash_exit_code
    try:
        # COUNTERSIGN_TOOLS may name modules that lie in the working directory
        sys.path.append(os.getcwd())
    except OSError as error:
        code = console.print_error(f"The working directory cannot be used: {error.strerror}.")
        return crash_exit_code or code
    if serves:
        process.install_stop_handlers()
    try:
        return _run_typed_command(typed)
    except KeyboardInterrupt:  # a stop signal is how a server command normally ends
        return 0 if serves else INTERRUPTED_EXIT_CODE
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        return BROKEN_PIPE_EXIT_CODE
    except console.CommandError as error:
        console.print_error(error)
        return error.exit_code
    except Exception as error:
        error_reports = (group.describe_error(error) for group in load_command_groups())
        end = next(filter(None, error_reports), None)
        if end is not None:
            console.print_error(end)
            return crash_exit_code or end.exit_code
        if crash_exit_code is None:
            raise
        traceback.print_exc()
        return crash_exit_code


def _run_typed_command(typed: ParsedCommandLine) -> int:
    """Load and run the typed command, or end with the usage if it was mistyped."""
    entry, words = typed.entry, typed.words
    with process.pause_garbage_collection():
        loaded = {typed.name: entry.load()} if typed.name else {}
    parser = build_parser(loaded, typed.commands)
    behind: list[str] | None = None
    if entry.takes_command and "--" in words:
        at = words.index("--")
        words, behind = words[:at], words[at + 1 :]
    try:
        arguments, more = parser.parse_known_args(words)
        if "values" in arguments and not any(each.startswith("-") for each in more):
            arguments.values, more = [*arguments.values, *more], []  # name=value after an option
        if more:
            arguments.command_parser.error(f"unrecognized arguments: {' '.join(more)}")
        if behind is not None:
            arguments.behind = behind
    except SystemExit as end:
        raise SystemExit(entry.misuse_exit_code if end.code else 0) from None
    try:
        return loaded[typed.name].run(arguments)
    except console.UsageError as error:
        own: argparse.ArgumentParser = arguments.command_parser
        own.print_usage(sys.stderr)
        own.exit(entry.misuse_exit_code, f"{own.prog}: error: {error}\n")
