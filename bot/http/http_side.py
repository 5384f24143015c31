"""The HTTP side of one process, put together: which path leads where, and the server."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from anyio import CapacityLimiter, to_thread
from slack_bolt import App as BoltApp
from slack_sdk.errors import SlackApiError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.config.connection_settings import Endpoint
from bot.http.api import HookAnswers, make_api
from bot.http.api_bodies import ProblemError
from bot.http.api_gate import PAGES as PAGES_ROOM
from bot.http.api_gate import SLACK as SLACK_ROOM
from bot.http.api_gate import RoomLimit
from bot.http.ask_route import AskHandler
from bot.http.server import WebServer
from bot.http.slack_endpoint import Signatures, SlackEndpoint
from bot.http.webhooks import WebhookNotifier
from bot.monitoring.exporters import METRICS, missing
from bot.monitoring.health_checks import OK, CachedCheck, check_writable
from bot.monitoring.spans import Tracer
from bot.signals import Signal
from bot.slack.client import SlackClient, is_token

if TYPE_CHECKING:
    from bot.core import Core
    from bot.runs.program_requests import ProgramRequests


# The ASGI app: which path leads where.

# What a machine may ask about this process: a path, and what is said there. Shows no secret.

PLAIN = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class PageText:
    """One answer."""

    status: HTTPStatus
    text: str
    kind: str = PLAIN  # its Content-Type


@dataclass(frozen=True, slots=True)
class Page:
    """One path and what answers there.

    `answer` is called on a thread of its own for each request, and may wait a moment.
    """

    path: str
    answer: Callable[[], PageText]


# Refuses a request whose end two readers could see at different places.

TWICE = "A request has a Content-Length or a Transfer-Encoding, and not both."


class OneLength:
    """ASGI: hands all on that says once how long its body is.

    A proxy before this may go by the one and this by the other: then what one takes for the body is
    another request to the other.
    """

    def __init__(self, app: ASGIApp) -> None:
        """`app`: all that this process answers over HTTP."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or have it answered."""
        names = [name for name, _ in scope.get("headers", ())]
        if b"transfer-encoding" in names and b"content-length" in names:
            error = ProblemError(HTTPStatus.BAD_REQUEST, TWICE, headers={"Connection": "close"})
            await error.answer()(scope, receive, send)
        else:
            await self._app(scope, receive, send)


SLACK = "/slack/events"  # all that Slack sends: events, interactions and commands
HOSTS = "/mcp"  # what MCP hosts talk to
API = "/v1"  # what programs ask
ASKING = 4  # machines that are answered at once; others wait for their turn


def web_app(
    pages: Iterable[Page],
    door: SlackEndpoint | None,
    api: ASGIApp | None = None,
    hosts: ASGIApp | None = None,
) -> ASGIApp:
    """Make the app: these pages, Slack's door where its deliveries come by HTTP, the API, and the
    door for MCP hosts.

    The API and the door for hosts let in who has a key, and know how many; of all others there is
    room for so many Slack deliveries, and apart from those for so many who look at pages.
    """
    turns = CapacityLimiter(ASKING)
    pages_alone = [Route(each.path, _answers(each, turns), methods=["GET"]) for each in pages]
    routes: list[BaseRoute] = []
    if door is not None:
        delivered = _starlette([Route(SLACK, door.take, methods=["POST"])])
        routes.append(Route(SLACK, RoomLimit(delivered, SLACK_ROOM)))
    if api is not None:
        routes.append(_below(API, api))
    if hosts is not None:
        routes.append(Route(HOSTS, hosts))
    app = _starlette(routes)
    app.router.default = RoomLimit(_starlette(pages_alone), PAGES_ROOM)
    return HookAnswers(OneLength(app))


def _starlette(routes: Sequence[BaseRoute]) -> Starlette:
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # one path leads there, no other
    return app


def _below(path: str, app: ASGIApp) -> Mount:
    """Return what leads all below this path to that app, also where a path holds a line end."""
    mount = Mount(path, app)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


def _answers(page: Page, turns: CapacityLimiter) -> Callable[[Request], Awaitable[Response]]:
    """Return what Starlette calls for that page."""

    async def answer(_: Request) -> Response:
        said = await to_thread.run_sync(page.answer, limiter=turns)
        return PlainTextResponse(
            said.text, said.status, {"Content-Type": said.kind, "Cache-Control": "no-store"}
        )

    return answer


# Whether the process lives, and whether work may be sent to it, for whatever looks after it.

# What Prometheus reads: the page of metrics.

KIND = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(watch: Tracer) -> Page:
    """Return the page; where nothing counts it says which extra is missing."""

    def answer() -> PageText:
        text = watch.page()
        if text is None:
            return PageText(HTTPStatus.NOT_IMPLEMENTED, f"{missing(METRICS)}\n")
        return PageText(HTTPStatus.OK, text, KIND)

    return Page("/metrics", answer)


GOOD_FOR = 2.0  # seconds for which the database is not asked again
ASK_AGAIN = 60.0  # seconds between two questions to Slack
BEHIND = 5.0  # seconds after a look was due when no work is sent here any more
LOST = 120.0  # and when nobody expects the loop to look again


class Health:
    """What is asked about this process."""

    def __init__(
        self,
        loop: Signal,
        tick: float,
        database: CachedCheck,
        slack: CachedCheck,
        stopping: Callable[[], bool],
    ) -> None:
        """`loop` is the signal that the loop looks at, every `tick` seconds at least.

        `stopping` says that the process is on its way out.
        """
        self._loop, self._tick = loop, tick
        self._database, self._slack = database, slack
        self._stopping = stopping

    def pages(self) -> list[Page]:
        """Return where it is asked."""
        return [Page("/healthz", self.alive), Page("/readyz", self.ready)]

    def alive(self) -> PageText:
        """Say whether the process lives: its loop looks, or is only late."""
        return _said("alive", {"loop": self._late(LOST)})

    def ready(self) -> PageText:
        """Say whether work may be sent here."""
        if self._stopping():
            return _said("ready", {"process": "is stopping"})
        return _said(
            "ready",
            {
                "loop": self._late(BEHIND),
                "database": self._database.now(),
                "slack": self._slack.lately(),
            },
        )

    def close(self) -> None:
        """Look at nothing any more."""
        self._database.close()
        self._slack.close()

    def _late(self, allowed: float) -> str:
        looked = self._loop.looked_at
        if looked is None:
            return "has not begun"
        late = time.monotonic() - looked - self._tick
        return OK if late <= allowed else f"is {late:.0f} seconds late"


def _said(word: str, found: Mapping[str, str]) -> PageText:
    """The answer to these findings: the word where all is well, and a line for each."""
    well = all(each == OK for each in found.values())
    lines = [word if well else f"not {word}", *(f"{name}: {each}" for name, each in found.items())]
    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
    return PageText(status, "\n".join(lines) + "\n")


class Web:
    """One per process; listens from the moment it is made, and answers from `start` on."""

    def __init__(
        self, core: Core, slack: SlackClient, address: Endpoint, programs: ProgramRequests
    ) -> None:
        """`slack` is asked whether the bot's token is still good; `programs` what programs want.

        Raises NotListeningError where the address cannot be listened to.
        """
        self._core = core
        self._shut = False
        self._door: SlackEndpoint | None = None
        self.health = Health(
            core.signals.work,
            core.settings.tick,
            CachedCheck(lambda: check_writable(core.store), GOOD_FOR),
            CachedCheck(TokenLook(slack), ASK_AGAIN, OK),  # a start has just signed in
            self.is_stopping,
        )
        expected = Signal()  # a request was asked whose program is to be told of it
        self._asking = AskHandler(core, programs, expected.give)
        self._teller = WebhookNotifier(core.store, core.clock, programs, expected)
        self._server = WebServer(address)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._server.url

    def let_slack_in(self, bolt: BoltApp, own: Collection[str]) -> None:
        """Have Slack's signed requests heard by the listeners on `bolt`; before `start`.

        `own`: the ids that the bot has as a user and as a bot.
        """
        core = self._core
        secret = core.settings.slack_signing_secret.get_secret_value()
        signatures = Signatures(secret, core.clock)
        self._door = SlackEndpoint(bolt, signatures, core.signals.arrivals, own)

    def start(self) -> None:
        """Begin to answer."""
        api = make_api(self._core, self._asking, self.is_stopping)
        self._server.start(web_app(self.pages(), self._door, api, self._hosts()))
        self._teller.start()

    def _hosts(self) -> ASGIApp | None:
        """Return what MCP hosts talk to; None where the extra `mcp` is not installed."""
        try:
            from bot.http.mcp_endpoint import McpEndpoint
        except ModuleNotFoundError as error:
            if error.name != "mcp":
                raise
            return None
        return McpEndpoint(self._core, self.url, self.is_stopping)

    def pages(self) -> list[Page]:
        """Return what machines may ask."""
        return [*self.health.pages(), metrics_page(self._core.signals.watch)]

    def is_stopping(self) -> bool:
        """Return whether this process is on its way out."""
        return self._shut or self._core.signals.stopping.is_set()

    def shut(self) -> None:
        """Take nothing more in, and say so to who asks."""
        self._shut = True
        if self._door is not None:
            self._door.close()

    def close(self) -> None:
        """Answer nothing any more."""
        self._server.close()
        self._teller.stop()
        self.health.close()


class TokenLook:
    """Asks Slack whether the bot's token is good; where Slack cannot be asked, the last word holds.

    For one thread.
    """

    def __init__(self, slack: SlackClient) -> None:
        """It was good when it was signed in with."""
        self._slack, self._last = slack, OK

    def __call__(self) -> str:
        """Return OK, or that Slack refuses it."""
        try:
            self._slack.auth_test()
        except SlackApiError as error:
            if is_token(error):
                self._last = "refuses the bot token"
        except OSError:
            pass
        else:
            self._last = OK
        return self._last
