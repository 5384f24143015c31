"""`slack-sandbox` and `python -m slack_sandbox`: the local Slack alone, for any app."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from slack_sandbox.ports import MAX_PORT

EXIT_INTERRUPTED = 130  # exit code of Ctrl-C
ALLOW_WITHOUT_RUN_ERROR = "--allow needs --run"


def port(text: str) -> int:
    """Return the port number, from 0 (any free one) to 65535; else raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or int(text) > MAX_PORT:
        why = f"{text!r} is not a port; give a number from 0 to {MAX_PORT}"
        raise argparse.ArgumentTypeError(why)
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: where the local Slack is served, and which apps and people it has."""
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
        "--workspaces",
        type=int,
        choices=range(1, 10),
        default=1,
        metavar="NUMBER",
        help="how many workspaces to have, if no seed file describes them",
    )
    parser.add_argument("--org", action="store_true", help="the workspaces are those of one org")
    parser.add_argument(
        "--rate-limits", action="store_true", help="answer 429 beyond Slack's tiers"
    )
    unlisted = "the apps are offered outside the Marketplace: they read 15 messages a minute"
    parser.add_argument("--unlisted", action="store_true", help=unlisted)
    parser.add_argument(
        "--run", metavar="COMMAND", help="start this app against the sandbox, which ends with it"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="HOST",
        help="another machine that the app of --run may reach; repeatable",
    )


def serve(arguments: argparse.Namespace) -> int:
    """Serve the local Slack until Ctrl-C, or until the app that it starts has ended."""
    from slack_sandbox import standalone  # here, so that --help is quick

    try:
        return standalone.run(
            arguments.port,
            arguments.manifest,
            arguments.seed,
            workspaces=arguments.workspaces,
            org=arguments.org,
            rate_limits=arguments.rate_limits,
            unlisted=arguments.unlisted,
            command=arguments.run,
            allowed=arguments.allow,
            say=lambda line: print(line, flush=True),
            warn=lambda line: print(line, file=sys.stderr),
        )
    except standalone.CannotStart as error:
        print(error, file=sys.stderr)
        return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser("slack-sandbox", description=__doc__)
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    if arguments.allow and arguments.run is None:
        parser.error(ALLOW_WITHOUT_RUN_ERROR)
    try:
        return serve(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
