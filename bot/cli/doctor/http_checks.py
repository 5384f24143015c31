"""Doctor's checks of what the bot serves over HTTP, and of its metrics and traces."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec

from bot.checks.check import CheckResult, CheckSubject
from bot.config.connection_settings import (
    DEFAULT_ADDRESS,
    ListeningAddress,
    Transport,
    describe_listening_error,
)
from bot.config.settings import Settings
from bot.monitoring import exporters
from storage.sqlite import is_free


def check_monitoring(settings: Settings) -> Iterator[CheckResult]:
    """Check that the packages for metrics and traces are installed, if the settings want them."""
    if settings.http is not None or settings.transport is Transport.HTTP:
        about = CheckSubject(exporters.METRICS_EXTRA)
        if exporters.is_extra_installed(exporters.METRICS_EXTRA):
            yield about.confirm("counted, and shown at /metrics")
        else:
            yield about.warn(exporters.missing_extra_text(exporters.METRICS_EXTRA))
    if settings.traces is not None:
        about = CheckSubject(exporters.TRACES_EXTRA)
        if exporters.is_extra_installed(exporters.TRACES_EXTRA):
            yield about.confirm(f"sent to {settings.traces}")
        else:
            yield about.fail(exporters.missing_extra_text(exporters.TRACES_EXTRA))


HTTP_PACKAGES = ("starlette", "uvicorn", "fastapi", "standardwebhooks")
HTTP_TIMEOUT_SECONDS = 5.0
LOOPBACK_BY_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask what listens everywhere
HTTP_ADDRESS_SUBJECT = CheckSubject("http address")


def check_http_settings(settings: Settings) -> Iterator[CheckResult]:
    """Check what serving HTTP needs, if the settings want it: the secret, packages and address."""
    if settings.slack_signing_secret.get_secret_value():
        text = "is set; only a request from Slack shows whether it is the right one"
        yield CheckSubject("signing secret").confirm(text)
    elif settings.http is None:
        return
    if lacking := [each for each in HTTP_PACKAGES if find_spec(each) is None]:
        remedy = "pip install 'countersign-bot[serve]'"
        yield CheckSubject("http").fail(f"{' and '.join(lacking)} is not installed", remedy)
    yield _check_http_address(settings, settings.http or DEFAULT_ADDRESS)


def _check_http_address(settings: Settings, address: ListeningAddress) -> CheckResult:
    """Check that the bot answers at the address, or else that a start could listen there."""
    where = f"{address.host}:{address.port}"
    try:
        readiness = _ask_bot_readiness(address)
    except (OSError, HTTPException):
        return _check_address_is_free(address, where)
    # the file of one of many workspaces is free while nobody writes there
    own_file = None if settings.is_shared or settings.workspace else settings.database_path
    is_other_bot = own_file is not None and is_free(own_file)
    if readiness is None or is_other_bot:
        remedy = "Choose another address in COUNTERSIGN_HTTP"
        who = (
            "another program" if readiness is None else f"a bot that does not work with {own_file}"
        )
        return HTTP_ADDRESS_SUBJECT.fail(f"{where} is used by {who}", remedy)
    if readiness:
        text = f"the bot at {where} is not ready: {readiness}"
        return HTTP_ADDRESS_SUBJECT.warn(text, "Fix what it names")
    way = "Slack's requests" if settings.transport is Transport.HTTP else "health"
    return HTTP_ADDRESS_SUBJECT.confirm(f"a bot is ready at {where}, for {way}")


def _ask_bot_readiness(address: ListeningAddress) -> str | None:
    """Return what the bot at the address says is wrong, "" for nothing; None if it is no bot."""
    host = LOOPBACK_BY_WILDCARD.get(address.host, address.host)
    connection = HTTPConnection(host, address.port, timeout=HTTP_TIMEOUT_SECONDS)
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


def _check_address_is_free(address: ListeningAddress, where: str) -> CheckResult:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        socket.create_server(address, family=family).close()
    except OSError as error:
        text = f"{where} cannot be listened to ({describe_listening_error(error)})"
        return HTTP_ADDRESS_SUBJECT.fail(text, "Choose another address in COUNTERSIGN_HTTP")
    return HTTP_ADDRESS_SUBJECT.confirm(f"{where} is free")
