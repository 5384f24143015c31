"""`countersign serve`: the bot, to which Slack sends signed requests, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import os

from bot.cli.console import DOTENV, UsageError
from bot.cli.loading import uncollected
from bot.cli.process import prepare, work
from bot.clock import SystemClock
from bot.config.connection import USUAL, Endpoint, Transport
from bot.config.startup import read

PORTS = range(65_536)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where it listens, if not where COUNTERSIGN_HTTP says."""
    usual = "COUNTERSIGN_HTTP, else {}"
    parser.add_argument(
        "--host", help=f"the address it listens at (default: that of {usual.format(USUAL.host)})"
    )
    parser.add_argument(
        "--port",
        type=int,
        help=f"and the port (default: that of {usual.format(USUAL.port)}; 0: any that is free)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Listen, and wait for the end; raises what keeps the bot from starting."""
    if arguments.port is not None and arguments.port not in PORTS:
        raise UsageError(f"there is no port {arguments.port}")
    settings, policy = read(os.environ, DOTENV, Transport.HTTP)
    host, port = settings.http or USUAL
    address = Endpoint(arguments.host or host, port if arguments.port is None else arguments.port)
    prepare(settings)
    with uncollected():
        # only now: Bolt and what else it imports see the prepared environment
        from bot.app import build

    settings = settings.model_copy(update={"http": address})
    return work(build(settings, SystemClock(), policy))
