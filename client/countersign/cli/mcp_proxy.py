"""`countersign mcp-proxy -- COMMAND`, or `--url URL`: an MCP server whose tools run once people
approved them.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING

from countersign.cli import console

if TYPE_CHECKING:
    from countersign.mcp_client.connection import Address

NEEDS = ("mcp", "mcp_types", "httpx2", "anyio", "jsonschema", "referencing")  # of the extra
HOLD = 50.0  # seconds: hosts wait for a minute where they are told nothing
MOST_NAME = 40  # characters
START_SECONDS = 60.0  # in which the server behind has to be there


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add who asks, where, and the command or the address of the server behind."""
    parser.add_argument("--requester", default="", help="who asks: a Slack user id or @handle")
    parser.add_argument("--channel", default="", help="where it is asked: an id or #name")
    parser.add_argument(
        "--name", default="", help="what people call the server (default: its prefix, or own name)"
    )
    parser.add_argument("--prefix", default="", help="before the tools' names where people decide")
    parser.add_argument(
        "--trust-hints",
        action="store_true",
        help="believe the server what only reads; without it, all is destructive to the policy",
    )
    parser.add_argument(
        "--hold",
        type=float,
        default=HOLD,
        metavar="SECONDS",
        help=f"so long a call is held before the host is told to come back (default: {HOLD:g})",
    )
    parser.add_argument(
        "--url", default="", help="the server, where it is spoken to over streamable HTTP"
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="with --url: sent with each request; $NAME stands for a variable (several times)",
    )
    parser.add_argument("server", nargs="*", metavar="COMMAND", help="the server, behind --")


def run(arguments: argparse.Namespace) -> int:
    """Run the proxy on stdin and stdout until the host goes away."""
    if len(arguments.name) > MOST_NAME:
        raise console.UsageError(f"--name has {MOST_NAME} characters at most")
    if arguments.hold <= 0:
        raise console.UsageError("--hold takes seconds, more than none")
    if bool(arguments.server) == bool(arguments.url):
        raise console.UsageError("the server is either a command behind --, or at --url")
    if arguments.header and not arguments.url:
        raise console.UsageError("--header goes with --url")
    try:
        from countersign.cli.proxy_process import run_proxy_process
        from countersign.client import Countersign
        from countersign.mcp_client.connection import ServerConnection, ServerNotReachedError
        from countersign.mcp_proxy.held_calls import HeldCalls, PeopleTools
        from countersign.request import NotAllowed
    except ModuleNotFoundError as error:
        return console.print_missing_package("MCP proxy", error, NEEDS, "countersign-client[mcp]")
    try:
        countersign = Countersign()
    except NotAllowed as error:
        return console.print_error(str(error))
    given = {"requester": arguments.requester, "channel": arguments.channel}
    around = {name: each for name, each in given.items() if each}
    server = json.dumps([arguments.prefix, arguments.server or arguments.url])
    held_calls = HeldCalls(countersign, around, arguments.hold, server)
    people = PeopleTools(countersign, held_calls, around, arguments.hold)
    behind = _build_server_address(arguments)
    try:
        run_proxy_process(
            lambda: ServerConnection(behind, open_within=START_SECONDS),
            held_calls,
            people,
            name=arguments.name,
            prefix=arguments.prefix,
            trusted=arguments.trust_hints,
        )
    except ServerNotReachedError as error:
        where = arguments.url or arguments.server[0]
        problem = f"The server {where} cannot be reached: {error}."
        return console.print_error(console.escape_control_characters(problem))
    return 0


def _build_server_address(arguments: argparse.Namespace) -> Address:
    from countersign.cli.proxy_process import build_remote_address
    from countersign.mcp_client.connection import CommandAddress

    if arguments.url:
        return build_remote_address(arguments.url, arguments.header, os.environ)
    own = {k: v for k, v in os.environ.items() if not k.startswith("COUNTERSIGN_")}
    command, *rest = arguments.server
    return CommandAddress(command, tuple(rest), own)
