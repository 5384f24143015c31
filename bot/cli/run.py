"""`countersign run`: the bot itself, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import logging
import os

from bot.cli.console import DOTENV
from bot.cli.loading import uncollected
from bot.clock import SystemClock
from bot.config.environment import prepare_environment
from bot.config.settings import Settings
from bot.config.startup import StartupError, read
from bot.watch.logs import write_logs


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: all there is to say is in the settings."""


def run(_arguments: argparse.Namespace) -> int:
    """Start the bot and wait for its end; raises what keeps it from starting."""
    settings, policy = read(os.environ, DOTENV)
    write_logs(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        logging.getLogger("countersign").warning(warning)
    prepare_environment(os.environ, settings.slack_api_url)
    with uncollected():
        # only now: Bolt and what else it imports see the prepared environment
        from bot.app import build

    _refuse_roles(settings)
    app = build(settings, SystemClock(), policy)
    try:
        app.start()
        app.wait()
    finally:
        app.stop()
    return 0


def _refuse_roles(settings: Settings) -> None:
    """Raise StartupError for a database's role that may do too much, with the SQL that mends it."""
    if not settings.databases:
        return
    # only now: its drivers take memory and a moment
    from bot.tools.database.sources import refused_roles

    problems = [
        "\n    ".join([f"database {name}: {error}. Run as its owner:", *error.remedy])
        for name, error in refused_roles(settings.databases, settings.database_path)
    ]
    if problems:
        raise StartupError(problems, ())
