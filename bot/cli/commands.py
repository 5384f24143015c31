"""The commands of the command line, in one table, and the parser made of it.

A command is a module with `add_arguments` and `run`; it is imported only when it is the one that
was typed, so that none waits for what another needs.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from bot import version
from bot.cli.console import say


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


COMMANDS: Mapping[str, CommandEntry] = {
    "run": CommandEntry(
        "bot.cli.run", "the bot, with settings from the environment and .env", serves=True
    ),
    "serve": CommandEntry(
        "bot.cli.serving.serve", "the same, where Slack sends signed HTTP requests", serves=True
    ),
    "key": CommandEntry(
        "bot.cli.serving.key", "keys by which programs ask over HTTP: new, renew, list, revoke"
    ),
    "demo": CommandEntry(
        "bot.cli.demo", "a local Slack, a local planner and the bot, in one process", serves=True
    ),
    "sandbox": CommandEntry(
        "bot.cli.sandbox",
        "the local Slack alone, for any app that honours SLACK_API_URL",
        serves=True,
    ),
    "doctor": CommandEntry("bot.cli.doctor.doctor", "look at everything a start depends on"),
    "audit": CommandEntry(
        "bot.cli.record.audit", "verify, show or export the record of what was decided and done"
    ),
    "chat": CommandEntry(
        "bot.cli.chat.chat", "ask the agent and decide at the terminal, as the operator"
    ),
    "pending": CommandEntry("bot.cli.terminal.pending", "what waits for people, and for whom"),
    "show": CommandEntry("bot.cli.terminal.show", "a request's or a call's whole life"),
    "approve": CommandEntry(
        "bot.cli.terminal.approve", "approve a call or a plan, as the operator"
    ),
    "reject": CommandEntry("bot.cli.terminal.reject", "reject a call, as the operator"),
    "edit": CommandEntry("bot.cli.terminal.edit", "change a call that waits, as the operator"),
    "answer": CommandEntry("bot.cli.terminal.answer", "answer a question, as the operator"),
    "resolve": CommandEntry(
        "bot.cli.terminal.resolve", "say what became of a call that nobody knows the end of"
    ),
    "cancel": CommandEntry("bot.cli.terminal.cancel", "stop a request of the operator's own"),
    "ask": CommandEntry(
        "bot.cli.asking.ask",
        "have people approve what a script or a CI job is to do, and run it",
        takes_command=True,
        misused=3,
    ),
    "outcome": CommandEntry(
        "bot.cli.asking.outcome", "say how it went with what `ask` has handed to a job"
    ),
    "hook": CommandEntry(
        "bot.cli.asking.hook",
        "have people approve what Claude Code does, and hear how it went: its hooks",
        broken=2,
    ),
    "report": CommandEntry(
        "bot.cli.record.report", "how people decided: how many, how fast, by tool and by approver"
    ),
    "purge": CommandEntry(
        "bot.cli.record.purge", "empty what was said in requests of long ago; the bot is stopped"
    ),
    "forget": CommandEntry(
        "bot.cli.record.forget", "empty what one person asked and wrote, beside the bot"
    ),
    "export": CommandEntry("bot.cli.record.export", "all that is held of one person, as JSON"),
    "backup": CommandEntry(
        "bot.cli.keeping.backup", "all of the record in one file, while the bot works"
    ),
    "restore": CommandEntry(
        "bot.cli.keeping.restore", "a backup in the place of the record; the bot is stopped"
    ),
    "copy-to": CommandEntry(
        "bot.cli.keeping.copy_to", "all of the record into PostgreSQL; the bot is stopped"
    ),
    "mcp-proxy": CommandEntry(
        "bot.cli.serving.mcp_proxy",
        "an MCP server whose tools run once people have approved each call",
        serves=True,
    ),
    "explain": CommandEntry(
        "bot.cli.explain", "what would become of a call: which rule, who decides, when"
    ),
    "mcp": CommandEntry(
        "bot.cli.servers.mcp", "accept: look at the tools of MCP servers, and say yes to them"
    ),
    "policy": CommandEntry(
        "bot.cli.replay", "replay: which recorded calls a policy would have decided otherwise"
    ),
}


class _Version(argparse.Action):
    """Says the version and the commit, which is looked for only then."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        say(version.described())
        parser.exit()


class CommandLine(argparse.ArgumentParser):
    """The parser of the whole command line."""

    typed: argparse.ArgumentParser | None = None  # that of the command which was typed, if any


def build_parser(loaded: Mapping[str, Command]) -> CommandLine:
    """Build the parser of the whole command line, with the options of the commands in `loaded`."""
    parser = CommandLine("countersign", description="The agent proposes, your team countersigns.")
    parser.add_argument("--version", action=_Version, help="which version, made from which commit")
    parsers = parser.add_subparsers(
        dest="command", required=True, parser_class=argparse.ArgumentParser
    )
    for name, entry in COMMANDS.items():
        options = parsers.add_parser(name, help=entry.help)
        if name in loaded:
            loaded[name].add_arguments(options)
            parser.typed = options
    return parser
