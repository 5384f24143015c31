"""`countersign mcp-proxy -- COMMAND`: an MCP server whose tools run once people approved them."""

from __future__ import annotations

import argparse
import json
import os

from bot.cli.console import UsageError, complain
from bot.cli.extras import MCP, complain_of_missing

HOLD = 50.0  # seconds: hosts wait for a minute where they are told nothing
MOST_NAME = 40  # characters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add who asks, where, and the command of the server behind."""
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
    parser.add_argument("server", nargs="+", metavar="COMMAND", help="the server, behind --")


def run(arguments: argparse.Namespace) -> int:
    """Serve at stdin and stdout until the host goes away."""
    if len(arguments.name) > MOST_NAME:
        raise UsageError(f"--name has {MOST_NAME} characters at most")
    if arguments.hold <= 0:
        raise UsageError("--hold takes seconds, more than none")
    try:
        import anyio

        from bot.client.countersign import Countersign
        from bot.client.troubles import NotAllowed
        from bot.proxy.held_calls import HeldCalls
        from bot.proxy.people import PeopleTools
        from bot.proxy.proxy import serve
    except ModuleNotFoundError as error:
        return complain_of_missing("MCP proxy", error, MCP)
    try:
        countersign = Countersign()
    except NotAllowed as error:
        return complain(str(error))
    given = {"requester": arguments.requester, "channel": arguments.channel}
    around = {name: each for name, each in given.items() if each}
    server = json.dumps([arguments.prefix, arguments.server])
    held_calls = HeldCalls(countersign, around, arguments.hold, server)
    people = PeopleTools(countersign, held_calls, around, arguments.hold)
    own = {k: v for k, v in os.environ.items() if not k.startswith("COUNTERSIGN_")}

    async def work() -> None:
        await serve(
            arguments.server,
            own,
            held_calls,
            people,
            name=arguments.name,
            prefix=arguments.prefix,
            trusted=arguments.trust_hints,
        )

    anyio.run(work)
    return 0
