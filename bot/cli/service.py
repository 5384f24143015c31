"""`countersign run` and `serve`: the bot, connected by Socket Mode or over HTTP, until Ctrl-C or
SIGTERM.
"""

from __future__ import annotations

import argparse
import os

from bot.cli.process import parse_port, prepare_bot_process, run_until_stopped
from bot.clock import SystemClock
from bot.config.connection_settings import USUAL, Endpoint, Transport
from bot.config.startup import read_settings_and_policy
from countersign.cli.commands import CommandFunctions
from countersign.cli.console import DOTENV
from countersign.cli.process import limit_memory_arenas, pause_garbage_collection


def add_run_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add no options: the settings say everything."""


def run_run(_arguments: argparse.Namespace) -> int:
    """Start the bot and wait until it ends; raises what keeps it from starting."""
    limit_memory_arenas()
    settings, policy = read_settings_and_policy(os.environ, DOTENV)
    prepare_bot_process(settings)
    with pause_garbage_collection():
        # only now: Bolt and what else it imports see the prepared environment
        from bot.app import build

    return run_until_stopped(build(settings, SystemClock(), policy))


RUN = CommandFunctions(add_run_arguments, run_run)


# `countersign serve`: the bot with signed requests from Slack, until Ctrl-C or SIGTERM.


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the host and the port to listen at, in place of those in COUNTERSIGN_HTTP."""
    usual = "COUNTERSIGN_HTTP, else {}"
    parser.add_argument(
        "--host", help=f"the address it listens at (default: that of {usual.format(USUAL.host)})"
    )
    parser.add_argument(
        "--port",
        type=parse_port,
        help=f"and the port (default: that of {usual.format(USUAL.port)}; 0: any that is free)",
    )


def run_serve(arguments: argparse.Namespace) -> int:
    """Start the bot with Slack's requests over HTTP, and wait until it ends.

    Raises what keeps the bot from starting.
    """
    settings, policy = read_settings_and_policy(os.environ, DOTENV, Transport.HTTP)
    usual = settings.http or USUAL
    chosen = usual.port if arguments.port is None else arguments.port
    address = Endpoint(arguments.host or usual.host, chosen)
    prepare_bot_process(settings)
    with pause_garbage_collection():
        # only now: Bolt and what else it imports see the prepared environment
        from bot.app import build

    settings = settings.model_copy(update={"http": address})
    return run_until_stopped(build(settings, SystemClock(), policy))


SERVE = CommandFunctions(add_serve_arguments, run_serve)
