"""The start and the end of a process that runs the bot."""

from __future__ import annotations

import argparse
import logging
import os
from typing import Protocol

from bot.config.settings import Settings, remove_misread_variables
from bot.config.startup import StartupError
from bot.monitoring.logs import configure_logging
from countersign.cli.process import begin_shutdown

# A port as it is typed behind an option.

HIGHEST = 65_535


def parse_port(text: str) -> int:
    """Return a port number from 0 (any that is free) to 65535; raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or int(text) > HIGHEST:
        why = f"there is no port {text!r}; give one from 0 to {HIGHEST}"
        raise argparse.ArgumentTypeError(why)
    return int(text)


class RunnableBot(Protocol):
    """Something that is started once, waited for, and stopped once."""

    def start(self) -> None:
        """Start to work; raises what keeps it from starting."""
        ...

    def start_inspection(self) -> None:
        """Check, beside the work, whether everything is set up well."""
        ...

    def wait(self) -> None:
        """Return when the work is over."""
        ...

    def stop(self) -> None:
        """Stop in an orderly way."""
        ...


def prepare_bot_process(settings: Settings) -> None:
    """Set up logs and environment for the bot, before Bolt and its other modules are imported.

    Raises StartupError for a database role that may do too much.
    """
    configure_logging(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        logging.getLogger("countersign").warning(warning)
    remove_misread_variables(os.environ, settings.slack_api_url)
    _check_database_roles(settings)


def run_until_stopped(bot: RunnableBot) -> int:
    """Run the bot until Ctrl-C or SIGTERM; returns the exit code."""
    try:
        try:
            bot.start()
            bot.start_inspection()
            bot.wait()
        finally:
            begin_shutdown()  # a signal that comes in between raises here, and none does after it
    finally:
        bot.stop()
    return 0


def _check_database_roles(settings: Settings) -> None:
    """Raise StartupError for a database role with too many rights, with SQL that corrects them."""
    if not settings.databases:
        return
    # only now: its drivers take memory and a moment
    from bot.tools.database.sources import list_overprivileged_roles

    problems = [
        "\n    ".join([f"database {name}: {error}. Run as its owner:", *error.remedy])
        for name, error in list_overprivileged_roles(settings.databases, settings.database_path)
    ]
    if problems:
        raise StartupError(problems, ())
