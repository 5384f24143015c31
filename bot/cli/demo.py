"""`countersign demo`: the local Slack, a local planner and the bot, in one process."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path

from bot.cli.extras import complain_of_missing
from bot.cli.process import port
from countersign.cli.console import complain, say

FOLDER = Path("var/demo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the port."""
    parser.add_argument(
        "--port", type=port, help="where the page is served (default: 8765 or the next free one)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo until Ctrl-C."""
    try:
        # here, since aiohttp may be missing: it comes with the extra only
        from bot.app import build
        from bot.demo import demo
        from slack_sandbox.ports import PortTakenError
    except ModuleNotFoundError as error:
        return complain_of_missing("demo", error)
    try:
        demo.run(FOLDER, arguments.port, os.environ, say, build, called)
    except PortTakenError as error:
        return complain(error)
    return 0


def called(folder: Path) -> str:
    """Return how to call this program at another terminal, in `folder`."""
    program = Path(sys.argv[0])
    if program.name != "countersign":
        return f"{shlex.quote(sys.executable)} -m bot"
    if shutil.which(program.name) == str(program):
        return program.name
    return shlex.quote(os.path.relpath(program, folder))
