"""The ASGI app: which path leads where."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bot.http.api import HookAnswers
from bot.http.api_bodies import ProblemError
from bot.http.api_gate import PAGES as PAGES_ROOM
from bot.http.api_gate import SLACK as SLACK_ROOM
from bot.http.api_gate import RoomLimit
from bot.http.slack_endpoint import SlackEndpoint

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
