"""`countersign demo` and `sandbox`: the local Slack, with the bot and a local planner, or alone for
any app.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path

from bot.cli.process import parse_port
from countersign.cli.commands import CommandFunctions
from countersign.cli.console import UsageError, print_error, print_line, print_missing_package

FOLDER = Path("var/demo")
_EXTRA = (("aiohttp", "slack_sandbox"), "countersign-bot[sandbox]")  # the packages it brings


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the port of the page."""
    parser.add_argument(
        "--port",
        type=parse_port,
        help="where the page is served (default: 8765 or the next free one)",
    )


def run_demo(arguments: argparse.Namespace) -> int:
    """Run the demo until Ctrl-C."""
    try:
        # here, since aiohttp may be missing: it comes with the extra only
        from bot.app import build
        from bot.demo import demo
        from slack_sandbox.ports import PortTakenError
    except ModuleNotFoundError as error:
        return print_missing_package("demo", error, *_EXTRA)
    try:
        demo.run_demo(FOLDER, arguments.port, os.environ, print_line, build, format_shell_command)
    except PortTakenError as error:
        return print_error(error)
    return 0


def format_shell_command(folder: Path) -> str:
    """Return the shell command that runs this program from `folder`, at another terminal."""
    program = Path(sys.argv[0])
    if program.name != "countersign":
        return f"{shlex.quote(sys.executable)} -m bot"
    if shutil.which(program.name) == str(program):
        return program.name
    return shlex.quote(os.path.relpath(program, folder))


DEMO = CommandFunctions(add_demo_arguments, run_demo)


# `countersign sandbox`: the local Slack alone, for any app.


def add_sandbox_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the local Slack, if it is installed."""
    try:
        from slack_sandbox.__main__ import add_arguments as add
    except ModuleNotFoundError:  # it comes with the extra only, which `run` then says
        parser.add_argument("anything", nargs=argparse.REMAINDER)
    else:
        add(parser)


def run_sandbox(arguments: argparse.Namespace) -> int:
    """Serve the local Slack until Ctrl-C, or until the app that it starts has ended."""
    try:
        from slack_sandbox.__main__ import MISUSED, serve

        if arguments.allow and arguments.run is None:
            raise UsageError(MISUSED)
        return serve(arguments)
    except ModuleNotFoundError as error:
        return print_missing_package("sandbox", error, *_EXTRA)


SANDBOX = CommandFunctions(add_sandbox_arguments, run_sandbox)
