"""`countersign policy replay`: a policy run over the recorded calls. Changes nothing."""

from __future__ import annotations

import argparse
from pathlib import Path

from bot.cli.read_only_core import PlainWords, duration, opened
from bot.explain.replay import Replay
from countersign.cli.console import DOTENV, complain, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the word `replay`, how far back, and the policy."""
    parser.add_argument("what", choices=["replay"])
    parser.add_argument(
        "--since",
        type=duration,
        default="30d",
        metavar="30d",
        help="how far back: 12h, 30d (default: 30d)",
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="this policy in the place of the one in force",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run a policy over the recorded calls; returns the exit code."""
    found = opened("There is nothing to replay", DOTENV, complain, arguments.policy)
    if isinstance(found, int):
        return found
    since = found.clock.now() - arguments.since
    written = found.policy.policy.model_copy(update={"asking": frozenset()})
    say(f"{written.source}, digest {written.digest[:8]}")
    words = PlainWords(found.directory)
    for line in Replay(found.sources, found.authority, found.tools, words).lines(since):
        say(line)
    say("")
    say(
        f"{found.no_slack}: nobody and nothing was looked up."
        if found.no_slack
        else "Groups and channels were looked up as they are now;"
        " sums are those of the calls on record then."
    )
    return 0
