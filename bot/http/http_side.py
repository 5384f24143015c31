"""Builds the HTTP side of one process: the paths with their apps, and the server."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread
from slack_bolt import App as BoltApp
from slack_sdk.errors import SlackApiError
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.config.connection_settings import ListeningAddress
from bot.http import api_gate
from bot.http.api import HookDenialMiddleware, build_api_app
from bot.http.api_bodies import ProblemError
from bot.http.ask_route import ProgramRequestService
from bot.http.server import WebServer
from bot.http.signing_pages import SECURITY_HEADERS, SigningPages, render_page
from bot.http.slack_endpoint import SignatureChecker, SlackEndpoint
from bot.http.webhooks import WebhookNotifier
from bot.monitoring.exporters import METRICS_EXTRA, missing_extra_text
from bot.monitoring.health_checks import OK, CachedCheck, check_writable
from bot.policy.authority import Directory
from bot.runs.program_requests import ProgramRequests
from bot.signals import Signal
from bot.slack.client import SlackClient, is_token_refused
from storage.record import Delivery

if TYPE_CHECKING:
    from bot.core import Core


# Renders a page about this process for machines; it shows no secret. Each request calls it on a
# thread of its own, and it may block for a moment.
RenderPage = Callable[[], PlainTextResponse]


AMBIGUOUS_LENGTH_ERROR = "A request has a Content-Length or a Transfer-Encoding, and not both."


class LengthHeaderMiddleware:
    """ASGI middleware that refuses requests with both Content-Length and Transfer-Encoding.

    If a proxy went by one and this server by the other, a part of one request's body would be read
    as another request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse it with 400."""
        names = [name for name, _ in scope.get("headers", ())]
        if b"transfer-encoding" in names and b"content-length" in names:
            error = ProblemError(
                HTTPStatus.BAD_REQUEST, AMBIGUOUS_LENGTH_ERROR, headers={"Connection": "close"}
            )
            await error.build_response()(scope, receive, send)
        else:
            await self._app(scope, receive, send)


log = logging.getLogger("countersign.http")
UNAVAILABLE_ERROR = "Countersign cannot answer at the moment. Try again in a minute."


async def _show_page_failure(_: Request, error: Exception) -> Response:
    """Answer with an error page, and log why, if making a page failed."""
    log.error("a page could not be built", exc_info=error)
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return HTMLResponse(render_page(UNAVAILABLE_ERROR), status, SECURITY_HEADERS)


SLACK_EVENTS_PATH = "/slack/events"  # all that Slack sends: events, interactions, commands
API_PATH = "/v1"  # for programs
MAX_CONCURRENT_PAGES = 4  # pages for machines; other requests wait in line


def build_web_app(
    pages: Mapping[str, RenderPage],
    slack_endpoint: SlackEndpoint | None,
    api: ASGIApp | None = None,
    hosts: ASGIApp | None = None,
    signing: Sequence[Route] = (),
) -> ASGIApp:
    """Return the app for these pages by path, Slack's endpoint, the API and the MCP endpoint.

    `slack_endpoint` is None if Slack's deliveries do not come by HTTP. The API and the MCP endpoint
    (`hosts`) require keys and limit requests themselves. Slack's deliveries, the pages where people
    sign (`signing`) and all other requests each have a limit of their own.
    """
    turns = CapacityLimiter(MAX_CONCURRENT_PAGES)
    pages_alone = [
        Route(path, _build_page_endpoint(render, turns), methods=["GET"])
        for path, render in pages.items()
    ]
    routes: list[BaseRoute] = []
    if slack_endpoint is not None:
        delivered = _build_router(
            [Route(SLACK_EVENTS_PATH, slack_endpoint.handle_request, methods=["POST"])]
        )
        routes.append(
            Route(
                SLACK_EVENTS_PATH,
                api_gate.ConcurrentRequestLimitMiddleware(delivered, api_gate.MAX_SLACK_REQUESTS),
            )
        )
    if api is not None:
        routes.append(_build_mount(API_PATH, api))
    if hosts is not None:
        routes.append(Route(api_gate.MCP_PATH, hosts))
    if signing:
        shown = ExceptionMiddleware(_build_router(signing), {Exception: _show_page_failure})
        limited = api_gate.ConcurrentRequestLimitMiddleware(shown, api_gate.MAX_SIGNING_REQUESTS)
        routes += [Route(path, limited) for path in dict.fromkeys(each.path for each in signing)]
    rest = api_gate.ConcurrentRequestLimitMiddleware(
        _build_router(pages_alone), api_gate.MAX_PAGE_REQUESTS
    )
    return HookDenialMiddleware(LengthHeaderMiddleware(_build_router(routes, rest)))


def _build_router(routes: Sequence[BaseRoute], rest: ASGIApp | None = None) -> Router:
    return Router(routes, redirect_slashes=False, default=rest)  # a path must match exactly


def _build_mount(path: str, app: ASGIApp) -> Mount:
    """Return a route from every path below `path` to `app`, even one with a line end in it."""
    mount = Mount(path, app)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


def _build_page_endpoint(
    render: RenderPage, turns: CapacityLimiter
) -> Callable[[Request], Awaitable[Response]]:

    async def answer(_: Request) -> Response:
        said = await to_thread.run_sync(render, limiter=turns)
        said.headers["Cache-Control"] = "no-store"
        return said

    return answer


METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render_metrics(text: str | None) -> PlainTextResponse:
    """Return the metrics page with this text; for None, a 501 that names the extra to install."""
    if text is None:
        missing = f"{missing_extra_text(METRICS_EXTRA)}\n"
        return PlainTextResponse(missing, HTTPStatus.NOT_IMPLEMENTED)
    return PlainTextResponse(text, media_type=METRICS_MEDIA_TYPE)


DATABASE_CHECK_CACHE_SECONDS = 2.0
SLACK_CHECK_CACHE_SECONDS = 60.0
MAX_READY_DELAY_SECONDS = 5.0  # how late the work loop may be before no work is sent here
MAX_ALIVE_DELAY_SECONDS = 120.0  # how late the work loop may be before it counts as dead


@dataclass(frozen=True, slots=True)
class HealthPages:
    """This process's health checks, and the pages that show their results."""

    _loop: Signal  # cleared by the bot's work loop at least every `_tick` seconds
    _tick: float
    _database: CachedCheck
    _slack: CachedCheck
    _stopping: Callable[[], bool]  # returns true once the process is about to end

    def get_pages(self) -> dict[str, RenderPage]:
        """Return the pages /healthz and /readyz."""
        return {"/healthz": self.render_liveness_page, "/readyz": self.render_readiness_page}

    def render_liveness_page(self) -> PlainTextResponse:
        """Return the page that says whether the work loop still runs, or is late."""
        return render_findings(
            "alive", {"loop": self._describe_loop_delay(MAX_ALIVE_DELAY_SECONDS)}
        )

    def render_readiness_page(self) -> PlainTextResponse:
        """Return the page that says whether the work loop, the database and Slack all work."""
        if self._stopping():
            return render_findings("ready", {"process": "is stopping"})
        return render_findings(
            "ready",
            {
                "loop": self._describe_loop_delay(MAX_READY_DELAY_SECONDS),
                "database": self._database.get_valid_or_new_result(),
                "slack": self._slack.get_last_result_and_refresh(),
            },
        )

    def close(self) -> None:
        """End the checks of the database and of Slack."""
        self._database.close()
        self._slack.close()

    def _describe_loop_delay(self, allowed: float) -> str:
        looked = self._loop.cleared_at
        if looked is None:
            return "has not started"
        late = time.monotonic() - looked - self._tick
        return OK if late <= allowed else f"is {late:.0f} seconds late"


def render_findings(word: str, found: Mapping[str, str]) -> PlainTextResponse:
    """Return a health page: the `word` ("ready") if all is well, and a line for each finding."""
    well = all(each == OK for each in found.values())
    lines = [word if well else f"not {word}", *(f"{name}: {each}" for name, each in found.items())]
    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
    return PlainTextResponse("\n".join(lines) + "\n", status)


class HttpServices:
    """A process's HTTP server, webhooks and health checks; it answers requests from `start` on."""

    def __init__(
        self,
        core: Core,
        slack: SlackClient,
        address: ListeningAddress | None,
        keep: Callable[[Delivery], None],
        names: Directory,
        hosted_at: str = "",
    ) -> None:
        """`slack`: the client with which the bot's token is checked.

        `keep` stores a delivery and wakes the loop; `names` looks names up, waiting only a moment.
        `address`: None if a server shared with others serves `app`, at the address `hosted_at`.
        Raises StartupError if the server cannot listen at `address`.
        """
        self._core, self._hosted_at = core, hosted_at
        self._is_closed = False
        self._slack_endpoint: SlackEndpoint | None = None
        self.signing: SigningPages | None = None  # None if people cannot sign or add passkeys here
        links = core.build_signing_links()
        if links.address is not None and not links.describe_problem():
            self.signing = SigningPages(core, links, links.address, keep, names, self.is_stopping)
        self.health = HealthPages(
            core.signals.work,
            core.settings.tick,
            CachedCheck(lambda: check_writable(core.store), DATABASE_CHECK_CACHE_SECONDS),
            # OK at first, as starting up has just signed in
            CachedCheck(BotTokenCheck(slack), SLACK_CHECK_CACHE_SECONDS, OK),
            self.is_stopping,
        )
        expected = Signal()  # set when a request was made whose program wants webhooks
        programs = ProgramRequests(core.forms(), core.signals)  # puts calls before people
        self._program_requests = ProgramRequestService(core.directory, programs, expected.notify)
        self._webhook_notifier = WebhookNotifier(programs, expected)
        self._server = address and WebServer.create_listening_server(address)
        self.app: ASGIApp | None = None  # the app that answers requests, once started

    @property
    def url(self) -> str:
        """Return the address where these services are reached on this machine."""
        return self._server.url if self._server else self._hosted_at

    def add_slack_endpoint(self, bolt: BoltApp, own_ids: Collection[str]) -> None:
        """Pass Slack's signed requests to the listeners on `bolt`; to be called before `start`.

        `own_ids`: the ids that the bot has as a user and as a bot.
        """
        core = self._core
        secret = core.settings.slack_signing_secret.get_secret_value()
        signatures = SignatureChecker(secret, core.clock)
        self._slack_endpoint = SlackEndpoint(bolt, signatures, core.signals.arrivals, own_ids)

    def start(self) -> None:
        """Begin to answer requests and to notify webhooks."""
        core = self._core
        callers = api_gate.ApiKeyChecker(core.store, core.clock, core.identity.team)
        api = build_api_app(core.store, callers, self._program_requests, self.is_stopping)
        hosts = self._build_mcp_endpoint()
        signing = self.signing.list_routes() if self.signing else []
        tracer, pages = core.signals.tracer, self.health.get_pages()
        if self._server is not None:  # of many workspaces, the whole process has one page instead
            pages["/metrics"] = lambda: render_metrics(tracer.render_metrics_page())
        self.app = build_web_app(pages, self._slack_endpoint, api, hosts, signing)
        if self._server is not None:
            self._server.start(self.app)
        self._webhook_notifier.start()

    def _build_mcp_endpoint(self) -> ASGIApp | None:
        """Return the MCP endpoint; None if the extra `mcp` is not installed."""
        try:
            from bot.http.mcp_endpoint import McpEndpoint
        except ModuleNotFoundError as error:
            if error.name != "mcp":
                raise
            return None
        return McpEndpoint(self._core, self.url, self.is_stopping)

    def is_stopping(self) -> bool:
        """Return whether this process is about to end."""
        return self._is_closed or self._core.signals.stopping.is_set()

    def refuse_requests(self) -> None:
        """Refuse new requests from now on, saying that the process is stopping."""
        self._is_closed = True
        if self._slack_endpoint is not None:
            self._slack_endpoint.close()

    def close(self) -> None:
        """Stop the server, the webhooks and the health checks."""
        if self._server is not None:
            self._server.close()
        self._webhook_notifier.stop()
        self.health.close()


class BotTokenCheck:
    """The check of the bot's token with Slack; while Slack cannot be asked, the last result holds.

    For one thread.
    """

    def __init__(self, slack: SlackClient) -> None:
        self._slack, self._last = slack, OK

    def __call__(self) -> str:
        """Return OK, or that Slack refuses the token."""
        try:
            self._slack.auth_test()
        except SlackApiError as error:
            if is_token_refused(error):
                self._last = "refuses the bot token"
        except OSError:
            pass
        else:
            self._last = OK
        return self._last
