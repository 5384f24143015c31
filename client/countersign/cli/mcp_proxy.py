"""`countersign mcp-proxy`: an MCP server in front of another; people approve each tool call.

The server behind it is started by `-- COMMAND`, or reached at `--url URL`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from countersign.cli import console
from countersign.mcp_client import substitute_variables

if TYPE_CHECKING:
    from countersign.mcp_client.connection import Address, UrlAddress

EXTRA_PACKAGES = ("mcp", "mcp_types", "httpx2", "anyio", "jsonschema", "referencing")
HOLD = 50.0  # seconds; hosts give up after a minute without a progress message
MAX_NAME_CHARS = 40
START_TIMEOUT_SECONDS = 60.0  # for the proxied server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: who asks, where, and the server to pass calls on to."""
    parser.add_argument("--requester", default="", help="who asks: a Slack user id or @handle")
    parser.add_argument("--channel", default="", help="where it is asked: an id or #name")
    parser.add_argument(
        "--name",
        default="",
        help="what people call the server (default: the prefix, else what it calls itself)",
    )
    parser.add_argument(
        "--prefix", default="", help="prefix of the tools' names in the policy and on cards"
    )
    parser.add_argument(
        "--trust-hints",
        action="store_true",
        help="trust the server on which tools only read; without it all count as destructive",
    )
    parser.add_argument(
        "--hold",
        type=float,
        default=HOLD,
        metavar="SECONDS",
        help=f"how long a call is held before the host is told to call again (default: {HOLD:g})",
    )
    parser.add_argument(
        "--url", default="", help="the address of the server, if it is reached over streamable HTTP"
    )
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="with --url: sent with each request; $NAME stands for a variable; repeatable",
    )
    parser.add_argument(
        "server", nargs="*", metavar="COMMAND", help="the command that starts the server, after --"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the proxy on stdin and stdout until the host goes away."""
    if len(arguments.name) > MAX_NAME_CHARS:
        raise console.UsageError(f"--name has {MAX_NAME_CHARS} characters at most")
    if arguments.hold <= 0:
        raise console.UsageError("--hold must be more than 0 seconds")
    if bool(arguments.server) == bool(arguments.url):
        raise console.UsageError("give the server either as a command after --, or with --url")
    if arguments.header and not arguments.url:
        raise console.UsageError("--header needs --url")
    try:
        from countersign.client import Countersign
        from countersign.mcp_client.connection import ServerConnection, ServerNotReachedError
        from countersign.mcp_proxy.held_calls import HeldCallRunner
        from countersign.mcp_proxy.proxy import run_proxy_process
        from countersign.request import NotAllowed
    except ModuleNotFoundError as error:
        return console.print_missing_package(
            "MCP proxy", error, EXTRA_PACKAGES, "countersign-client[mcp]"
        )
    try:
        countersign = Countersign()
    except NotAllowed as error:
        raise console.CommandError(error, 2) from None
    options = {"requester": arguments.requester, "channel": arguments.channel}
    circumstances = {name: each for name, each in options.items() if each}
    server = json.dumps([arguments.prefix, arguments.server or arguments.url])
    held_calls = HeldCallRunner(countersign, circumstances, arguments.hold, server)
    address = _build_server_address(arguments)
    behind = ServerConnection(address, open_within=START_TIMEOUT_SECONDS)
    try:
        run_proxy_process(
            behind, held_calls, arguments.name, arguments.prefix, arguments.trust_hints
        )
    except ServerNotReachedError as error:
        where = arguments.url or arguments.server[0]
        problem = f"The server {where} cannot be reached: {error}."
        return console.print_error(console.escape_control_characters(problem))
    return 0


def _build_server_address(arguments: argparse.Namespace) -> Address:
    from countersign.mcp_client.connection import CommandAddress

    if arguments.url:
        return build_remote_address(arguments.url, arguments.header, os.environ)
    own = {k: v for k, v in os.environ.items() if not k.startswith("COUNTERSIGN_")}
    command, *rest = arguments.server
    return CommandAddress(command, tuple(rest), own)


# The proxied server of `countersign mcp-proxy --url`: its address, its headers, and the login.

_URL_PATTERN = re.compile(r"https?://[^\s]+")
_HEADER_NAME_PATTERN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # as in RFC 9110
_SECRET_HEADER = "authorization"  # noqa: S105 # the header that says who asks
DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY")


def build_remote_address(
    url: str, headers: Iterable[str], environ: Mapping[str, str]
) -> UrlAddress:
    """Return the address of a remote server, with headers and login; raises UsageError.

    `headers` are as typed, "Name: value", where "$NAME" stands for a variable. Without an
    Authorization header the server may ask somebody to log in.
    """
    from countersign.mcp_client.connection import UrlAddress
    from countersign.mcp_client.login import LoginFile, ServerLogin, build_login_path

    if not _URL_PATTERN.fullmatch(url):
        raise console.UsageError("--url must begin with https:// or http://")
    filled_headers = dict(_parse_header(each, environ) for each in headers)
    if any(name.lower() == _SECRET_HEADER for name in filled_headers):
        return UrlAddress(url, filled_headers)
    file = LoginFile(build_login_path(_get_login_folder(environ), url))
    return UrlAddress(url, filled_headers, login=ServerLogin(url, file, show_login_address))


def show_login_address(address: str) -> None:
    """Print where to log in to the standard error, and open it in a browser if there is one."""
    where = console.escape_control_characters(address)
    console.print_beside_result(f"To log in at the server, open {where}")
    if sys.platform == "linux" and not any(os.environ.get(each) for each in DISPLAY_VARIABLES):
        return  # a text browser would write to the output that the host reads
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "webbrowser", address]
    with suppress(OSError):  # the address was printed anyway
        subprocess.Popen(  # noqa: S603 # ourselves, with an address of the web
            command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )


def _parse_header(text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    missing = set[str]()
    filled = substitute_variables(value.strip(), environ, missing)
    if missing:
        raise console.UsageError(f"--header {name}: the variable {min(missing)} is not set")
    if (
        not colon
        or not _HEADER_NAME_PATTERN.fullmatch(name)
        or not filled.isprintable()
        or not filled.isascii()
    ):
        raise console.UsageError("--header takes 'Name: value', and $NAME in it for a variable")
    return name, filled


def _get_login_folder(environ: Mapping[str, str]) -> Path:
    said = environ.get("XDG_STATE_HOME") or ""
    state = Path(said) if Path(said).is_absolute() else Path.home() / ".local" / "state"
    return state / "countersign" / "logins"
