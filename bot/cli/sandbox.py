"""`countersign sandbox`: the local Slack alone, for any app."""

from __future__ import annotations

import argparse

from bot.cli.extras import complain_of_missing
from countersign.cli.console import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where it is served, and whose apps and people it has."""
    try:
        from slack_sandbox.__main__ import add_arguments as add
    except ModuleNotFoundError:  # it comes with the extra only, which `run` then says
        parser.add_argument("anything", nargs=argparse.REMAINDER)
    else:
        add(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the local Slack until Ctrl-C, or until the app that it starts has ended."""
    try:
        from slack_sandbox.__main__ import MISUSED, serve

        if arguments.allow and arguments.run is None:
            raise UsageError(MISUSED)
        return serve(arguments)
    except ModuleNotFoundError as error:
        return complain_of_missing("sandbox", error)
