"""`countersign policy replay`: a policy run over the recorded calls. Changes nothing."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta
from pathlib import Path

from bot.cli.console import DOTENV, complain, say
from bot.cli.readonly.core import BAD_INPUT, read_only_core
from bot.cli.readonly.plain_words import PlainWords
from bot.clock import SystemClock
from bot.durations import DAY, seconds
from bot.explain.replay import Replay
from bot.explain.typed_call import MistypedError

_LONGEST = 99_999 * DAY  # seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the word `replay`, how far back, and the policy."""
    parser.add_argument("what", choices=["replay"])
    parser.add_argument(
        "--since", default="30d", metavar="30d", help="how far back: 12h, 30d (default: 30d)"
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="this policy in the place of the one in force",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run a policy over the recorded calls; returns the exit code."""
    try:
        window = seconds(arguments.since, "hd")
        if not 0 < window <= _LONGEST:
            raise MistypedError(
                f"--since takes a duration such as 12h or 30d, not {arguments.since!r}."
            )
        found = read_only_core(os.environ, DOTENV, arguments.policy, SystemClock())
    except MistypedError as error:
        complain(error)
        return BAD_INPUT
    if found.no_record:
        return complain(f"There is nothing to replay: {found.no_record}.")
    since = found.clock.now() - timedelta(seconds=window)
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
