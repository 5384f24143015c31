"""Checks a request before FastAPI sees it: its key, how many are under way, and its JSON body.

A body is read only for a valid key, up to a size and within a time; JSON that could be read in two
ways (a name given twice), or that no database can store, is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from anyio import CapacityLimiter, Semaphore, WouldBlock, to_thread
from fastapi import Depends, FastAPI, Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot import __version__
from bot.cards.field_inputs import UnreadableEntryError, parse_json_entry
from bot.clock import Clock
from bot.http import api_bodies
from bot.http.claude_code import drop_tool_output, is_hook_request
from bot.http.keys import parse_api_key
from countersign.durations import format_count
from storage import programs
from storage.record import Store

SCHEMA_REF_TEMPLATE = "#/components/schemas/{model}"
API_DESCRIPTION = (
    "Programs ask people to approve calls, wait for the decision, and execute what was approved. "
    "A key can ask, but never approve."
)
MCP_PATH = "/mcp"  # for MCP hosts
API_KEY_STATE_NAME = "key"  # name of the API key in a request's state
_BEARER_SCHEME = HTTPBearer(
    scheme_name="key",
    description="A key made with `countersign key new`: csk_…",
    auto_error=False,  # ApiKeyMiddleware has already checked the key
)


async def _get_request_key(
    request: Request, _bearer: Annotated[Any, Security(_BEARER_SCHEME)]
) -> programs.ProgramApiKey:
    """Return the valid API key that ApiKeyMiddleware has put into the request's state.

    `_bearer` is there only so that the API's description names the authentication scheme.
    """
    found: programs.ProgramApiKey = request.scope["state"][API_KEY_STATE_NAME]
    return found


Key = Annotated[programs.ProgramApiKey, Depends(_get_request_key)]


def build_openapi_problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of the problems that a path may answer with."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in (400, *statuses, 500):
        schema = {"$ref": SCHEMA_REF_TEMPLATE.format(model=api_bodies.Problem.__name__)}
        found[status] = {
            "description": HTTPStatus(status).phrase,
            "content": {api_bodies.PROBLEM_MEDIA_TYPE: {"schema": schema}},
        }
    return found


class ApiWithDescribedProblems(FastAPI):
    """FastAPI without pages for a browser; its OpenAPI description includes problems."""

    def __init__(self) -> None:
        super().__init__(
            title="Countersign",
            version=__version__,
            description=API_DESCRIPTION,
            docs_url=None,  # FastAPI's pages would load scripts from another server
            redoc_url=None,
            redirect_slashes=False,
        )

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI description; the same object each time."""
        found = super().openapi()
        if api_bodies.Problem.__name__ not in found["components"]["schemas"]:
            made = api_bodies.Problem.model_json_schema(ref_template=SCHEMA_REF_TEMPLATE)
            found["components"]["schemas"] |= made.pop("$defs", {})
            found["components"]["schemas"][api_bodies.Problem.__name__] = made
        return found


MAX_QUIET_CONNECTIONS = 128  # beyond, the connections that have been quiet longest are closed
MAX_SLACK_REQUESTS = 256  # requests at Slack's path, whether they are Slack's or not
MAX_PAGE_REQUESTS = 64  # health and metrics pages, which need no key, and unknown paths
MAX_SIGNING_REQUESTS = 64  # for people who sign, or add a passkey
MAX_KEYED_REQUESTS = 320  # with a valid key; 200 of them may wait for people
MAX_MCP_HOST_REQUESTS = 96


@contextmanager
def reserve_place(places: Semaphore) -> Iterator[None]:
    """Hold one of the semaphore's places until the block ends; WouldBlock if none is free."""
    places.acquire_nowait()
    try:
        yield
    finally:
        places.release()


class ConcurrentRequestLimitMiddleware:
    """ASGI: an app that answers a limited number of requests at once, and 503 to any more."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._places = app, Semaphore(most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, with 503 if too many are under way."""
        try:
            with reserve_place(self._places):
                await self._app(scope, receive, send)
        except WouldBlock:
            busy = PlainTextResponse(
                "Too many at once.", HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"}
            )
            await busy(scope, receive, send)


AUTH_SCHEME = "Bearer"
_INVALID_KEY_ERROR = (
    "There is no valid API key in the request: it was left out, is wrong or was revoked."
    " It is sent as Authorization: Bearer csk_…"
)


class ApiKeyChecker:
    """The check of the API keys of one workspace; thread-safe."""

    def __init__(self, store: Store, clock: Clock, team: str) -> None:
        self._store = store
        self._clock = clock
        self._team = team

    def get_authenticated_key(self, headers: Sequence[str]) -> programs.ProgramApiKey:
        """Return the valid key in these Authorization headers; raises ProblemError for none.

        A key is invalid from the moment it is revoked.
        """
        scheme, _, credentials = headers[0].partition(" ") if len(headers) == 1 else ("", "", "")
        text = parse_api_key(credentials.strip()) if scheme.lower() == AUTH_SCHEME.lower() else None
        if text is not None:
            with self._store.read() as tx:
                key = programs.find_api_key(tx, text.id)
            is_good = key is not None and text.has_hash(key.hash) and not key.revoked_at
            if key is not None and is_good and key.team == self._team:
                return key
        raise _build_invalid_key_problem()

    def check_not_revoked(self, key: programs.ProgramApiKey) -> None:
        """Raise ProblemError if a key has been revoked since it was authenticated."""
        if key.is_bot_account:
            return  # it cannot be revoked
        with self._store.read() as tx:
            now = programs.find_api_key(tx, key.id)
        if now is None or now.revoked_at:
            raise _build_invalid_key_problem()

    def check_hourly_limit(
        self, key: programs.ProgramApiKey, idempotency: str, *, while_open: bool = False
    ) -> None:
        """Raise ProblemError if the key has made all the requests that it may make in an hour.

        A request repeated with the same `idempotency` is not counted again; with `while_open`, only
        if the earlier one has not ended. The bot's own account has no limit.
        """
        if key.is_bot_account:
            return
        now = self._clock.now()
        with self._store.read() as tx:
            has_request = programs.has_request_with_idempotency_key
            if idempotency and has_request(tx, key.name, idempotency, while_open=while_open):
                return
            since = programs.find_time_of_nth_newest_request(
                tx, key.name, key.per_hour, now - programs.RATE_LIMIT_PERIOD
            )
        if since is not None:
            raise build_rate_limit_problem(key, since, now)


def build_rate_limit_problem(
    key: programs.ProgramApiKey, since: datetime, now: datetime
) -> api_bodies.ProblemError:
    """Return the 429 problem of a key that may ask again one hour after `since`."""
    wait = since + programs.RATE_LIMIT_PERIOD - now
    return api_bodies.build_retry_later_problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{key.name} has made {format_count(key.per_hour, 'request')} within an hour: its limit.",
        int(wait.total_seconds()) + 1,
        "limits",
    )


def _build_invalid_key_problem() -> api_bodies.ProblemError:
    return api_bodies.ProblemError(
        HTTPStatus.UNAUTHORIZED,
        _INVALID_KEY_ERROR,
        topic="keys",
        headers={"WWW-Authenticate": f'{AUTH_SCHEME} realm="countersign"'},
    )


log = logging.getLogger("countersign.api")
MAX_BODY_BYTES = 1_000_000
BODY_TIMEOUT_SECONDS = 10.0
JSON_MEDIA_TYPE = "application/json"
NUL = "\x00"  # PostgreSQL stores no text with it


@dataclass(eq=False)
class ApiKeyMiddleware:
    """ASGI middleware that passes on requests with a valid key, after checking their bodies."""

    app: ASGIApp
    callers: ApiKeyChecker
    turns: CapacityLimiter  # limits concurrent key look-ups
    is_stopping: Callable[[], bool]
    most: int = MAX_KEYED_REQUESTS  # concurrent requests with a valid key

    def __post_init__(self) -> None:
        self._places = Semaphore(self.most)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or answer it with a problem."""
        try:
            await self._authenticate_request(scope)
            with reserve_place(self._places):
                body = await self._read_checked_body(scope, receive)
                await self.app(scope, build_replaying_receive(body, receive), _forbid_caching(send))
        except WouldBlock:
            many = "Too many requests at once. Please repeat this one."
            error = api_bodies.build_retry_later_problem(
                HTTPStatus.SERVICE_UNAVAILABLE, many, 1, "limits"
            )
            await error.build_response()(scope, receive, send)
        except api_bodies.ProblemError as error:
            if error.status is not HTTPStatus.UNAUTHORIZED:
                log.info("refused a request: %d %s", error.status, error.problem.title)
            await error.build_response()(scope, receive, send)

    async def _authenticate_request(self, scope: Scope) -> None:
        """Put the request's key into its state; ProblemError if it is invalid or the bot stops."""
        if self.is_stopping():
            raise api_bodies.build_retry_later_problem(
                HTTPStatus.SERVICE_UNAVAILABLE, "This process is stopping.", 1
            )
        key = await to_thread.run_sync(
            self.callers.get_authenticated_key,
            Headers(scope=scope).getlist("authorization"),
            limiter=self.turns,
        )
        scope["state"] = {**scope.get("state", {}), API_KEY_STATE_NAME: key}

    async def _read_checked_body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a request; raises ProblemError for one that is refused."""
        headers = Headers(scope=scope)
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length) > MAX_BODY_BYTES:
            raise _build_too_long_problem()
        body = await read_request_body(receive, MAX_BODY_BYTES, BODY_TIMEOUT_SECONDS)
        if is_hook_request(scope["method"], scope["path"]):
            body = drop_tool_output(body)
        if body:
            check_json_body(body, headers)
        return body


async def read_request_body(receive: Receive, max_bytes: int, seconds: float) -> bytes:
    """Return the whole body; raises ProblemError if it is too long, too slow or cut off."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise api_bodies.ProblemError(
                        HTTPStatus.BAD_REQUEST, "The body ended too early."
                    )
                body += message.get("body", b"")
                if len(body) > max_bytes:
                    raise _build_too_long_problem(max_bytes)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise api_bodies.ProblemError(
            HTTPStatus.REQUEST_TIMEOUT, f"The body did not arrive within {seconds:.0f} seconds."
        ) from None


def _build_too_long_problem(max_bytes: int = MAX_BODY_BYTES) -> api_bodies.ProblemError:
    return api_bodies.ProblemError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"A body may have at most {max_bytes:,} bytes.",
        topic="limits",
    )


def check_json_body(body: bytes, headers: Headers) -> None:
    """Raise ProblemError unless the body is uncompressed, unambiguous JSON without U+0000."""
    if (
        headers.get("content-encoding", "identity") != "identity"
        or get_media_type(headers) != JSON_MEDIA_TYPE
    ):
        raise api_bodies.ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"The body must be {JSON_MEDIA_TYPE}, without compression.",
        )
    try:
        value = parse_json_entry(body.decode())
    except UnicodeDecodeError:
        raise api_bodies.ProblemError(HTTPStatus.BAD_REQUEST, "The body is not UTF-8.") from None
    except UnreadableEntryError as error:
        raise api_bodies.ProblemError(HTTPStatus.BAD_REQUEST, str(error)) from None
    if any(NUL in each for each in _list_strings(value)):
        raise api_bodies.ProblemError(
            HTTPStatus.BAD_REQUEST, "The body contains the character U+0000."
        )


def get_media_type(headers: Headers) -> str:
    """Return the type of a request's body in lower case, without parameters; "" for none."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _list_strings(value: Any) -> list[str]:
    """Return every string in a JSON value, including the names of fields."""
    found, left = [], [value]
    while left:
        match left.pop():
            case str() as text:
                found.append(text)
            case list() as items:
                left += items
            case dict() as fields:
                found += fields
                left += fields.values()
    return found


def _forbid_caching(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(raw=message["headers"]).update(api_bodies.NO_STORE_HEADERS)
        await send(message)

    return sent


def build_replaying_receive(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that yields `body`, read before, then further messages."""
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def handed() -> Message:
        return parts.pop() if parts else await receive()

    return handed
