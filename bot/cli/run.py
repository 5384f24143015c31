"""`countersign run`: the bot itself, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import os

from bot.cli.process import prepare, work
from bot.clock import SystemClock
from bot.config.startup import read_settings_and_policy
from countersign.cli.console import DOTENV
from countersign.cli.process import share_memory, uncollected


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: all there is to say is in the settings."""


def run(_arguments: argparse.Namespace) -> int:
    """Start the bot and wait for its end; raises what keeps it from starting."""
    share_memory()
    settings, policy = read_settings_and_policy(os.environ, DOTENV)
    prepare(settings)
    with uncollected():
        # only now: Bolt and what else it imports see the prepared environment
        from bot.app import build

    return work(build(settings, SystemClock(), policy))
