"""`countersign run`, `serve`, `demo`, `sandbox`: the bot, a local Slack, or both, until Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from bot.clock import SystemClock
from bot.config.connection_settings import DEFAULT_ADDRESS, ListeningAddress, Transport
from bot.config.environment import remove_variables_slack_misreads
from bot.config.settings import Settings
from bot.config.startup import StartupError, read_settings_and_policy
from bot.monitoring.logs import configure_logging
from bot.policy.evaluation import Policy
from countersign.cli import console
from countersign.cli.commands import CommandFunctions
from countersign.cli.process import begin_shutdown, limit_memory_arenas, pause_garbage_collection

if TYPE_CHECKING:
    from bot.app import App
    from bot.workspaces.host import WorkspaceHost

MAX_PORT = 65_535


def parse_port(text: str) -> int:
    """Return a port number from 0 (any that is free) to 65535; raises ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or int(text) > MAX_PORT:
        why = f"{text!r} is not a port; give a number from 0 to {MAX_PORT}"
        raise argparse.ArgumentTypeError(why)
    return int(text)


def run_bot(settings: Settings, policy: Policy) -> int:
    """Run the bot until Ctrl-C or SIGTERM; returns the exit code.

    Raises what keeps it from starting: StartupError for a database role that may do too much.
    """
    configure_logging(settings.log_level, settings.log_format)
    for warning in settings.warnings:
        logging.getLogger("countersign").warning(warning)
    remove_variables_slack_misreads(os.environ, settings.slack_api_url)
    with pause_garbage_collection():
        # here, so that Bolt and its dependencies see the prepared environment
        from bot.app import build
        from bot.inbound_connections import NOT_INSTALLED_ERROR

    bot: App | WorkspaceHost
    if settings.client_id is None:
        bot = build(settings, SystemClock(), policy)
    else:
        try:
            from bot.workspaces.host import WorkspaceHost
            from bot.workspaces.hosted import AppSource
        except ModuleNotFoundError as error:
            raise StartupError([NOT_INSTALLED_ERROR.format(error.name)], ()) from None
        bot = WorkspaceHost(
            settings, SystemClock(), AppSource(build, dict(os.environ), console.DOTENV)
        )
    try:
        try:
            bot.start()
            bot.start_inspection()
            bot.wait()
        finally:
            begin_shutdown()  # until here signals raise KeyboardInterrupt, then they are ignored
    finally:
        bot.stop()
    return 0


def run_run(_arguments: argparse.Namespace) -> int:
    """Start the bot and wait until it ends; raises what keeps it from starting."""
    limit_memory_arenas()
    settings, policy = read_settings_and_policy(os.environ, console.DOTENV)
    return run_bot(settings, policy)


RUN = CommandFunctions(lambda _parser: None, run_run)  # the settings say everything


def _add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    usual = "COUNTERSIGN_HTTP, else {}"
    parser.add_argument(
        "--host",
        help=f"the address it listens at (default: that of {usual.format(DEFAULT_ADDRESS.host)})",
    )
    parser.add_argument(
        "--port",
        type=parse_port,
        help="and the port (default: that of "
        f"{usual.format(DEFAULT_ADDRESS.port)}; 0: any that is free)",
    )


def _run_serve(arguments: argparse.Namespace) -> int:
    settings, policy = read_settings_and_policy(os.environ, console.DOTENV, Transport.HTTP)
    usual = settings.http or DEFAULT_ADDRESS
    chosen = usual.port if arguments.port is None else arguments.port
    address = ListeningAddress(arguments.host or usual.host, chosen)
    return run_bot(settings.model_copy(update={"http": address}), policy)


SERVE = CommandFunctions(_add_serve_arguments, _run_serve)


DEMO_FOLDER = Path("var/demo")
_SANDBOX_PACKAGES_AND_EXTRA = (("aiohttp", "slack_sandbox"), "countersign-bot[sandbox]")


def _add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port",
        type=parse_port,
        help="where the page is served (default: 8765 or the next free one)",
    )


def _run_demo(arguments: argparse.Namespace) -> int:
    try:
        # here, since aiohttp may be missing: only an extra brings it
        from bot.demo import demo
        from slack_sandbox.ports import PortTakenError
    except ModuleNotFoundError as error:
        return console.print_missing_package("demo", error, *_SANDBOX_PACKAGES_AND_EXTRA)
    try:
        demo.run_demo(DEMO_FOLDER, arguments.port, os.environ)
    except PortTakenError as error:
        return console.print_error(error)
    return 0


DEMO = CommandFunctions(_add_demo_arguments, _run_demo)


def _add_sandbox_arguments(parser: argparse.ArgumentParser) -> None:
    try:
        from slack_sandbox.__main__ import add_arguments as add
    except ModuleNotFoundError:  # only an extra brings it; `run` says so
        parser.add_argument("anything", nargs=argparse.REMAINDER)
    else:
        add(parser)


def _run_sandbox(arguments: argparse.Namespace) -> int:
    """Serve the local Slack until Ctrl-C, or until the app that it starts has ended."""
    try:
        from slack_sandbox.__main__ import ALLOW_WITHOUT_RUN_ERROR, serve

        if arguments.allow and arguments.run is None:
            raise console.UsageError(ALLOW_WITHOUT_RUN_ERROR)
        return serve(arguments)
    except ModuleNotFoundError as error:
        return console.print_missing_package("sandbox", error, *_SANDBOX_PACKAGES_AND_EXTRA)


SANDBOX = CommandFunctions(_add_sandbox_arguments, _run_sandbox)
