"""The paths of a process that serves many workspaces, and its pages for machines.

Slack's deliveries and the pages to install the bot are at the root; each workspace has its own API,
signing pages and MCP endpoint below `/w/` and its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from threading import Event, Thread
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx2
from anyio import CancelScope, CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.config.workspace_settings import WORKSPACE_ID_PATTERN
from bot.http.http_side import UNAVAILABLE_ERROR, RenderPage, render_findings, render_metrics
from bot.http.slack_endpoint import FORWARDED_HEADER, ServedElsewhereError
from bot.monitoring.exporters import METRICS_EXTRA, is_extra_installed
from bot.monitoring.health_checks import OK
from bot.monitoring.spans import Exporter
from bot.workspaces.dispatcher import UseApp
from bot.workspaces.hosted import NotInstalledError, NotServedError
from storage.database_errors import error_text
from storage.installations import InstallationRecord

if TYPE_CHECKING:
    from bot.workspaces.metrics import WorkspacesMetrics

_WORKSPACE_PATH_PATTERN = re.compile(rf"/w/({WORKSPACE_ID_PATTERN.pattern})(/.*)?", re.DOTALL)
MAX_CONCURRENT_STARTS = 8  # of apps that are requested over HTTP
NOT_FOUND_TEXT = "There is nothing at this address."
HOP_BY_HOP_HEADERS = (b"connection", b"transfer-encoding", b"keep-alive", b"upgrade", b"te")
DROPPED_ANSWER_HEADERS = (*HOP_BY_HOP_HEADERS, b"date", b"server")  # this server sets the last two


def create_metrics(now: Callable[[], datetime]) -> WorkspacesMetrics | None:
    """Return the metrics of all workspaces; None if the extra for metrics is not installed."""
    if not is_extra_installed(METRICS_EXTRA):
        return None
    from bot.workspaces.metrics import WorkspacesMetrics

    return WorkspacesMetrics(now)


@dataclass(frozen=True)
class ProcessPages:
    """The pages for machines: whether the process is alive and ready, and its metrics."""

    _record: InstallationRecord
    _loop: Thread  # starts workspaces' apps, and stops them
    _stopping: Event
    _metrics: WorkspacesMetrics | None

    def get_pages(self) -> dict[str, RenderPage]:
        """Return what renders each page, by its path."""
        counts = self._metrics.all if self._metrics else Exporter()
        return {
            "/healthz": lambda: render_findings("alive", self._check_health()),
            "/readyz": self._render_readiness_page,
            "/metrics": lambda: render_metrics(counts.render_metrics_page()),
        }

    def _check_health(self) -> dict[str, str]:
        """Return OK or what is wrong, for each thing that the process needs to serve."""
        try:
            self._record.list()
        except Exception as error:  # noqa: BLE001  # whatever it is
            record = f"cannot be read: {error_text(error)}"
        else:
            record = OK
        loop = OK if self._loop.is_alive() else "has not started, or has ended"
        return {"loop": loop, "record of installations": record}

    def _render_readiness_page(self) -> PlainTextResponse:
        stopping = {"process": "is stopping"} if self._stopping.is_set() else None
        return render_findings("ready", stopping or self._check_health())


class WorkspacePaths:
    """ASGI app that passes requests below a workspace's path to its app, all others to `rest`."""

    def __init__(self, rest: ASGIApp, use_app: UseApp) -> None:
        self._rest, self._use_app = rest, use_app
        self._turns = CapacityLimiter(MAX_CONCURRENT_STARTS)
        self._others: httpx2.AsyncClient | None = None  # made late: it takes a tenth of a second

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; with 404 where the bot is not installed, 503 where it is paused."""
        path_match = (
            _WORKSPACE_PATH_PATTERN.fullmatch(scope["path"]) if scope["type"] == "http" else None
        )
        if path_match is None:
            await self._rest(scope, receive, send)
            return
        path = path_match[2] or "/"
        below = {**scope, "path": path, "raw_path": quote(path).encode()}
        try:
            using = self._use_app(path_match[1])
            app = await to_thread.run_sync(using.__enter__, limiter=self._turns)
        except ServedElsewhereError as elsewhere:
            await self._pass_on(elsewhere.url, scope, receive, send)
            return
        except NotInstalledError:
            await PlainTextResponse(NOT_FOUND_TEXT, HTTPStatus.NOT_FOUND)(scope, receive, send)
            return
        except NotServedError:
            await PlainTextResponse(UNAVAILABLE_ERROR, HTTPStatus.SERVICE_UNAVAILABLE)(
                scope, receive, send
            )
            return
        try:
            web = await to_thread.run_sync(app.endpoints.get_web_app, limiter=self._turns)
            await web(below, receive, send)
        finally:
            using.__exit__(None, None, None)

    async def _pass_on(self, url: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request to another process and stream its answer; 503 if it does not answer."""
        if self._others is None:
            limits = httpx2.Limits(max_connections=None)  # many requests may wait for long
            self._others = httpx2.AsyncClient(timeout=None, limits=limits, trust_env=False)
        request = Request(scope, receive)
        left_out = (*HOP_BY_HOP_HEADERS, FORWARDED_HEADER.encode())
        headers = [each for each in request.headers.raw if each[0] not in left_out]
        target_url = httpx2.URL(url).copy_with(raw_path=_get_target(scope))
        has_body = {"content-length", "transfer-encoding"} & {*request.headers}
        body = request.stream() if has_body else None
        headers.append((FORWARDED_HEADER.encode(), b"1"))
        forwarded = httpx2.Request(request.method, target_url, headers=headers, content=body)
        response = None
        if FORWARDED_HEADER not in request.headers:
            with suppress(httpx2.HTTPError):
                response = await self._others.send(forwarded, stream=True)
        if response is None:
            await PlainTextResponse(UNAVAILABLE_ERROR, HTTPStatus.SERVICE_UNAVAILABLE)(
                scope, receive, send
            )
            return
        answer = StreamingResponse(response.aiter_raw(), response.status_code)
        headers = [(name.lower(), value) for name, value in response.headers.raw]
        answer.raw_headers = [each for each in headers if each[0] not in DROPPED_ANSWER_HEADERS]
        try:
            await answer(scope, receive, send)
        finally:
            with CancelScope(shield=True):
                await response.aclose()


def _get_target(scope: Scope) -> bytes:
    """Return the path and query of a request, as they were sent."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path
