"""The commands that are installed, and the parser made of them.

A command is a module with `add_arguments` and `run`; it is imported only when it is the one that
was typed, so that none waits for what another needs. Other distributions add theirs by an entry
point of the group `countersign.commands`: the name of a module that is a `CommandGroup`.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, cast

from countersign.cli.console import say
from countersign.version import VERSION

GROUP = "countersign.commands"


class Command(Protocol):
    """What the module of a command holds."""

    def add_arguments(self, parser: argparse.ArgumentParser, /) -> None:
        """Add the options that come behind the command's name."""
        ...

    def run(self, arguments: argparse.Namespace, /) -> int:
        """Do what the command is for; returns the exit code."""
        ...


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command in the table."""

    module: str
    help: str
    serves: bool = False  # it goes on until Ctrl-C or SIGTERM, which is how it is meant to end
    takes_command: bool = False  # what stands behind -- is a command that it runs
    misused: int = 2  # the exit code where it was typed in a way that makes no sense
    # the exit code whatever keeps it from its end, where its caller takes others for a yes
    broken: int | None = None

    def load(self) -> Command:
        """Import the command's module."""
        return cast(Command, importlib.import_module(self.module))


class CommandGroup(Protocol):
    """What the module of an entry point holds: commands, and what to say of them."""

    COMMANDS: Mapping[str, CommandEntry]

    def complaint(self, error: Exception, /) -> str | None:
        """Return what to say of an error that ended a command; None where it is a fault."""
        ...

    def described(self) -> str:
        """Return the version, for `--version`."""
        ...


COMMANDS: Mapping[str, CommandEntry] = {
    "ask": CommandEntry(
        "countersign.cli.ask",
        "have people approve what a script or a CI job is to do, and run it",
        takes_command=True,
        misused=3,
    ),
    "outcome": CommandEntry(
        "countersign.cli.outcome", "say how it went with what `ask` has handed to a job"
    ),
    "hook": CommandEntry(
        "countersign.cli.hook",
        "have people approve what Claude Code does, and hear how it went: its hooks",
        broken=2,
    ),
    "mcp-proxy": CommandEntry(
        "countersign.cli.mcp_proxy",
        "an MCP server whose tools run once people have approved each call",
        serves=True,
    ),
}


@cache
def installed() -> tuple[CommandGroup, ...]:
    """Return the groups of commands that other distributions have brought."""
    return tuple(each.load() for each in entry_points(group=GROUP))


def all_commands() -> dict[str, CommandEntry]:
    """Return every command that is installed, those of other distributions first."""
    found: dict[str, CommandEntry] = {}
    for group in installed():
        found.update(group.COMMANDS)
    found.update(COMMANDS)
    return found


def complaint(error: Exception) -> str | None:
    """Return what to say of an error that ended a command; None where it is a fault."""
    return next(filter(None, (group.complaint(error) for group in installed())), None)


def described() -> str:
    """Return which version this is: the bot's, where it is installed."""
    return next((group.described() for group in installed()), VERSION)


class _Version(argparse.Action):
    """Says the version and the commit, which is looked for only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        say(described())
        parser.exit()


class CommandLine(argparse.ArgumentParser):
    """The parser of the whole command line."""

    typed: argparse.ArgumentParser | None = None  # that of the command which was typed, if any


def build_parser(
    loaded: Mapping[str, Command], commands: Mapping[str, CommandEntry]
) -> CommandLine:
    """Build the parser of these commands, with the options of those in `loaded`."""
    parser = CommandLine("countersign", description="The agent proposes, your team countersigns.")
    parser.add_argument("--version", action=_Version, help="which version, made from which commit")
    parsers = parser.add_subparsers(
        dest="command", required=True, parser_class=argparse.ArgumentParser
    )
    for name, entry in commands.items():
        options = parsers.add_parser(name, help=entry.help)
        if name in loaded:
            loaded[name].add_arguments(options)
            parser.typed = options
    return parser
