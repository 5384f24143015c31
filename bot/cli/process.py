"""The start and the end of a process that runs the bot."""

from __future__ import annotations

import argparse
import logging
import os
from typing import Protocol

from bot.config.settings import Settings, prepare_environment
from bot.config.startup import StartupError
from bot.monitoring.logs import write_logs
from countersign.cli.process import begin

# A port as it is typed behind an option.

HIGHEST = 65_535


def port(text: str) -> int:
    """Return a port number from 0 (any that is free) to 65535; raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or int(text) > HIGHEST:
        why = f"there is no port {text!r}; give one from 0 to {HIGHEST}"
        raise argparse.ArgumentTypeError(why)
    return int(text)


class Working(Protocol):
    """Something that is started once, waited for, and stopped once."""

    def start(self) -> None:
        """Start to work; raises what keeps it from starting."""
        ...

    def inspect(self) -> None:
        """Check, beside the work, whether everything is set up well."""
        ...

    def wait(self) -> None:
        """Return when the work is over."""
        ...

    def stop(self) -> None:
        """Stop in an orderly way."""
        ...


def prepare(settings: Settings) -> None:
    """Set up logs and environment for the bot, before Bolt and its other modules are imported.

    Raises StartupError for a database role that may do too much.
    """
    write_logs(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        logging.getLogger("countersign").warning(warning)
    prepare_environment(os.environ, settings.slack_api_url)
    _refuse_roles(settings)


def work(bot: Working) -> int:
    """Run the bot until Ctrl-C or SIGTERM; returns the exit code."""
    try:
        try:
            bot.start()
            bot.inspect()
            bot.wait()
        finally:
            begin()  # a signal that comes in between raises here, and none does after it
    finally:
        bot.stop()
    return 0


def _refuse_roles(settings: Settings) -> None:
    """Raise StartupError for a database role with too many rights, with SQL that corrects them."""
    if not settings.databases:
        return
    # only now: its drivers take memory and a moment
    from bot.tools.database.sources import check_roles

    problems = [
        "\n    ".join([f"database {name}: {error}. Run as its owner:", *error.remedy])
        for name, error in check_roles(settings.databases, settings.database_path)
    ]
    if problems:
        raise StartupError(problems, ())
