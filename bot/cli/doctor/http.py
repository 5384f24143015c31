"""The checks of the HTTP side: what it needs, where it listens, and the bot that listens there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec

from bot.checks.check import Check, fail, ok, warn
from bot.config.connection_settings import USUAL, Endpoint, Transport, listening_error_text
from bot.config.settings import Settings

PACKAGES = ("starlette", "uvicorn", "fastapi", "standardwebhooks")
PATIENCE = 5.0  # seconds for a bot to answer
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask what listens everywhere
LISTENING = "http address"


def check_http(settings: Settings) -> Iterator[Check]:
    """Look at the HTTP side, where the settings want one."""
    if settings.slack_signing_secret.get_secret_value():
        text = "is there; only a request of Slack's shows whether it is the right one"
        yield ok("signing secret", text)
    elif settings.http is None:
        return
    if lacking := [each for each in PACKAGES if find_spec(each) is None]:
        remedy = "pip install 'countersign-bot[serve]'"
        yield fail("http", f"{' and '.join(lacking)} is not installed", remedy)
    yield _address(settings.http or USUAL, settings.transport)


def _address(address: Endpoint, transport: Transport) -> Check:
    """Whether a bot answers there, or else could."""
    where = f"{address.host}:{address.port}"
    try:
        said = _asked(address)
    except (OSError, HTTPException):
        return _free(address, where)
    if said is None:
        return fail(LISTENING, f"{where} is another program's", "Name another in COUNTERSIGN_HTTP")
    if said:
        return warn(LISTENING, f"the bot at {where} is not ready: {said}", "See to what it names")
    way = "Slack's requests" if transport is Transport.HTTP else "health"
    return ok(LISTENING, f"a bot is ready at {where}, for {way}")


def _asked(address: Endpoint) -> str | None:
    """What a bot there says is wrong, "" for nothing; None where it is none of ours."""
    host = ANYWHERE.get(address.host, address.host)
    connection = HTTPConnection(host, address.port, timeout=PATIENCE)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        first, *lines = answer.read(10_000).decode(errors="replace").splitlines() or [""]
    finally:
        connection.close()
    if first not in ("ready", "not ready"):
        return None
    if answer.status == HTTPStatus.OK:
        return ""
    return "; ".join(each for each in lines if not each.endswith(": ok")) or first


def _free(address: Endpoint, where: str) -> Check:
    """Whether a start could listen there."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server(address, family=family).close()
    except OSError as error:
        text = f"{where} cannot be listened to ({listening_error_text(error)})"
        return fail(LISTENING, text, "Name another in COUNTERSIGN_HTTP")
    return ok(LISTENING, f"{where} is free")
