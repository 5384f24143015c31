"""`countersign sandbox`: the local Slack alone, for any app."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot.cli.console import UsageError, complain, say
from bot.cli.extras import complain_of_missing
from bot.cli.ports import port


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where it is served, and whose apps and people it has."""
    parser.add_argument(
        "--port", type=port, help="where it is served (default: 8765 or the next free one; 0: any)"
    )
    manifest = (
        "an app's manifest, YAML or JSON; repeatable (default: one app that may do everything)"
    )
    parser.add_argument(
        "--manifest", type=Path, action="append", default=[], metavar="FILE", help=manifest
    )
    parser.add_argument(
        "--seed", type=Path, metavar="FILE", help="people, channels and apps, as TOML"
    )
    parser.add_argument(
        "--rate-limits", action="store_true", help="answer 429 beyond Slack's tiers"
    )
    parser.add_argument(
        "--run", metavar="COMMAND", help="start this app, pointed here; the sandbox ends with it"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="HOST",
        help="another machine that the app of --run may reach; repeatable",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve the local Slack until Ctrl-C, or until the app that it starts has ended."""
    if arguments.allow and arguments.run is None:
        raise UsageError("--allow goes with --run")
    try:
        # here, since aiohttp may be missing: it comes with the extra only
        from bot.sandbox import standalone
    except ModuleNotFoundError as error:
        return complain_of_missing("sandbox", error)
    try:
        return standalone.run(
            arguments.port,
            arguments.manifest,
            arguments.seed,
            rate_limits=arguments.rate_limits,
            command=arguments.run,
            allowed=arguments.allow,
            say=say,
            warn=complain,
        )
    except standalone.CannotStart as error:
        return complain(error)
