"""The process of `countersign mcp-proxy`, and the address and log-in of a remote server."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import anyio
import mcp.client.stdio as server_process
from anyio import create_task_group, move_on_after, open_signal_receiver

from countersign.cli.console import UsageError, escape_control_characters
from countersign.mcp_client.connection import ServerConnection, ServerNotReachedError, UrlAddress
from countersign.mcp_client.login import LoginFile, ServerLogin, build_login_path
from countersign.mcp_client.variables import substitute_variables
from countersign.mcp_proxy.held_calls import HeldCalls, PeopleTools
from countersign.mcp_proxy.proxy import serve_host

# The server behind `countersign mcp-proxy --url`: its address, its headers, and who logs in.

_URL = re.compile(r"https?://[^\s]+")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # of a header, as RFC 9110 has it
_SECRET = "authorization"  # noqa: S105 # the header that says who asks
SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def build_remote_address(
    url: str, headers: Iterable[str], environ: Mapping[str, str]
) -> UrlAddress:
    """Return the address of a remote server, with headers and login; raises UsageError.

    `headers` are as typed, "Name: value", where "$NAME" stands for a variable. Without an
    Authorization header the server may ask somebody to log in.
    """
    if not _URL.fullmatch(url):
        raise UsageError("--url takes an address that begins with https:// or http://")
    found = dict(_parse_header(each, environ) for each in headers)
    if any(name.lower() == _SECRET for name in found):
        return UrlAddress(url, found)
    file = LoginFile(build_login_path(_get_login_folder(environ), url))
    return UrlAddress(url, found, login=ServerLogin(url, file, show_login_address))


def show_login_address(address: str) -> None:
    """Print where to log in to the standard error, and open it in a browser if there is one."""
    sys.stderr.write(f"To log in at the server behind, open {escape_control_characters(address)}\n")
    sys.stderr.flush()
    if sys.platform == "linux" and not any(os.environ.get(each) for each in SCREENS):
        return  # a browser of the terminal would write where the host listens
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "webbrowser", address]
    with suppress(OSError):  # the address was written
        subprocess.Popen(  # noqa: S603 # ourselves, with an address of the web
            command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )


def _parse_header(text: str, environ: Mapping[str, str]) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    missing = set[str]()
    filled = substitute_variables(value.strip(), environ, missing)
    if missing:
        raise UsageError(f"--header {name}: the variable {min(missing)} is not set")
    if not colon or not _NAME.fullmatch(name) or not filled.isprintable() or not filled.isascii():
        raise UsageError("--header takes 'Name: value', and $NAME in it for a variable")
    return name, filled


def _get_login_folder(environ: Mapping[str, str]) -> Path:
    said = environ.get("XDG_STATE_HOME") or ""
    state = Path(said) if Path(said).is_absolute() else Path.home() / ".local" / "state"
    return state / "countersign" / "logins"


ENDS_WITHIN = 1.7  # seconds after a signal
SERVER_ENDS_WITHIN = 0.4  # seconds that the server has at each step of being ended


def run_proxy_process(
    made: Callable[[], ServerConnection],
    held_calls: HeldCalls,
    people: PeopleTools,
    **options: Any,
) -> NoReturn:
    """Serve on stdin and stdout until the host goes away or a signal comes, then end the process.

    `made` makes the connection to the server behind. Raises ServerNotReachedError if that server
    cannot be reached at the start.
    """
    sdk = logging.getLogger("mcp")  # it logs tracebacks of what a server says
    sdk.addHandler(logging.NullHandler())
    sdk.propagate = False

    async def work() -> None:
        behind = made()
        async with create_task_group() as both:
            both.start_soon(_exit_on_signal, behind)
            await serve_host(behind, held_calls, people, **options)
            both.cancel_scope.cancel()

    try:
        anyio.run(work)
    except BaseExceptionGroup as errors:
        found, _ = errors.split(ServerNotReachedError)
        if found is None:
            raise
        error: BaseException = found
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
    _exit_process()


async def _exit_on_signal(behind: ServerConnection) -> None:
    """End the server behind and this process at a signal, even during a call.

    People are asked about a call that was made and not reported.
    """
    with open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            server_process.PROCESS_TERMINATION_TIMEOUT = SERVER_ENDS_WITHIN
            server_process.FORCE_KILL_TIMEOUT = SERVER_ENDS_WITHIN
            with move_on_after(ENDS_WITHIN):
                await behind.close()
            _exit_process()


def _exit_process() -> NoReturn:
    """End the process without waiting for threads that wait for people, or for the host."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
