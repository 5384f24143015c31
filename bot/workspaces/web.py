"""The HTTP server of a process that serves many workspaces.

Slack's deliveries and the pages to install the bot are at its root; each workspace has its own API,
signing pages and MCP endpoint below `/w/` and its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import quote

import httpx2
from anyio import CancelScope, CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.clock import Clock
from bot.config.connection_settings import USUAL, Transport
from bot.config.settings import Settings
from bot.config.workspace_settings import WORKSPACE_ID
from bot.http.http_side import Page, PageResponse, build_metrics_response, build_web_app
from bot.http.server import WebServer
from bot.http.slack_endpoint import (
    FORWARDED,
    ServedElsewhereError,
    SignatureChecker,
    SlackEndpoint,
)
from bot.signals import UnacknowledgedDeliveries
from bot.slack.socket import DeliveryReceiver
from bot.slack.socket_client import ACKNOWLEDGED
from bot.workspaces.dispatcher import UseApp
from bot.workspaces.hosted import NotInstalledError, NotServedError

_PATH = re.compile(rf"/w/({WORKSPACE_ID.pattern})(/.*)?", re.DOTALL)
WAKING = 8  # workspaces whose apps are started at once because of requests to them
NOT_SERVED = "There is nothing at this address."
HOP_BY_HOP = (b"connection", b"transfer-encoding", b"keep-alive", b"upgrade", b"te")
NOT_ITS_OWN = (*HOP_BY_HOP, b"date", b"server")  # this process' server says the last two
NOT_NOW = "Countersign cannot answer at the moment. Try again in a minute."


class WorkspacePaths:
    """ASGI: passes what is asked below a workspace's path to its app, all else on."""

    def __init__(self, rest: ASGIApp, use_app: UseApp) -> None:
        """`rest`: the app for all other paths."""
        self._rest, self._use_app = rest, use_app
        self._turns = CapacityLimiter(WAKING)
        self._others: httpx2.AsyncClient | None = None  # making it takes a tenth of a second

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; with 404 where the bot is not installed, 503 where it is paused."""
        found = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._rest(scope, receive, send)
            return
        path = found[2] or "/"
        below = {**scope, "path": path, "raw_path": quote(path).encode()}
        try:
            using = self._use_app(found[1])
            app = await to_thread.run_sync(using.__enter__, limiter=self._turns)
        except ServedElsewhereError as elsewhere:
            await self._pass_on(elsewhere.url, scope, receive, send)
            return
        except NotInstalledError:
            await PlainTextResponse(NOT_SERVED, HTTPStatus.NOT_FOUND)(scope, receive, send)
            return
        except NotServedError:
            await PlainTextResponse(NOT_NOW, HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)
            return
        try:
            web = await to_thread.run_sync(app.endpoints.get_web_app, limiter=self._turns)
            await web(below, receive, send)
        finally:
            using.__exit__(None, None, None)

    async def _pass_on(self, url: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Have another process answer, as its answer comes; 503 if it does not answer."""
        if self._others is None:
            limits = httpx2.Limits(max_connections=None)  # many may wait for long
            self._others = httpx2.AsyncClient(timeout=None, limits=limits, trust_env=False)
        request = Request(scope, receive)
        left_out = (*HOP_BY_HOP, FORWARDED.encode())
        headers = [each for each in request.headers.raw if each[0] not in left_out]
        there = httpx2.URL(url).copy_with(raw_path=_get_target(scope))
        body = request.stream() if _has_body(request) else None
        headers.append((FORWARDED.encode(), b"1"))
        asked = httpx2.Request(request.method, there, headers=headers, content=body)
        found = None
        if FORWARDED not in request.headers:
            with suppress(httpx2.HTTPError):
                found = await self._others.send(asked, stream=True)
        if found is None:
            await PlainTextResponse(NOT_NOW, HTTPStatus.SERVICE_UNAVAILABLE)(scope, receive, send)
            return
        answer = StreamingResponse(found.aiter_raw(), found.status_code)
        headers = [(name.lower(), value) for name, value in found.headers.raw]
        answer.raw_headers = [each for each in headers if each[0] not in NOT_ITS_OWN]
        try:
            await answer(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await found.aclose()


def _get_target(scope: Scope) -> bytes:
    """Return the path and query of a request, as they were sent."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


def _has_body(request: Request) -> bool:
    return "content-length" in request.headers or "transfer-encoding" in request.headers


class FrontServer:
    """The HTTP server of this process; it answers requests from `start` on."""

    def __init__(
        self,
        settings: Settings,
        use_app: UseApp,
        describe_problem: Callable[[], str],
        render_metrics_page: Callable[[], str | None],
    ) -> None:
        """Listen at the address of the settings; raises StartupError."""
        self._settings, self._use_app = settings, use_app
        self._describe_problem, self._render_metrics_page = describe_problem, render_metrics_page
        self._endpoint: SlackEndpoint | None = None
        self._is_stopping = False
        self._server = WebServer.create_listening_server(settings.http or USUAL)
        self.url = self._server.url

    def start(
        self,
        dispatcher: DeliveryReceiver,
        clock: Clock,
        arrivals: UnacknowledgedDeliveries,
        install_routes: Sequence[Route],
    ) -> None:
        """Begin to answer requests; Slack's go to `dispatcher`, `arrivals` counts them."""
        if self._settings.transport is Transport.HTTP:
            secret = self._settings.slack_signing_secret.get_secret_value()
            self._endpoint = SlackEndpoint(dispatcher, SignatureChecker(secret, clock), arrivals)
            self._arrivals = arrivals
        app = build_web_app(self._list_pages(), self._endpoint, signing=install_routes)
        self._server.start(WorkspacePaths(app, self._use_app))

    def _list_pages(self) -> list[Page]:
        return [
            Page("/healthz", lambda: _render_health("alive", self._describe_problem())),
            Page("/readyz", self._render_readiness_page),
            Page("/metrics", lambda: build_metrics_response(self._render_metrics_page())),
        ]

    def _render_readiness_page(self) -> PageResponse:
        stopping = "the process is stopping" if self._is_stopping else ""
        return _render_health("ready", stopping or self._describe_problem())

    def refuse_requests(self) -> None:
        """Refuse Slack's requests from now on, so that it sends them elsewhere or again."""
        self._is_stopping = True
        if self._endpoint is not None:
            self._endpoint.close()
            self._arrivals.wait_until_acknowledged(ACKNOWLEDGED)

    def close(self) -> None:
        """Stop the server."""
        self._server.close()


def _render_health(word: str, problem: str) -> PageResponse:
    status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
    return PageResponse(status, f"not {word}\n{problem}\n" if problem else f"{word}\n")
