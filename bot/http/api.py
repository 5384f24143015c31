"""Builds the API for programs, an ASGI app below /v1, with the endpoint for Claude Code's hooks."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from anyio import CancelScope, CapacityLimiter
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ValidationError
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bot.http import api_bodies, claude_code
from bot.http.api_gate import ApiKeyChecker, ApiKeyMiddleware, ApiWithDescribedProblems, Key
from bot.http.api_routes import ApiRoutes
from bot.http.ask_route import ProgramRequestService, RequestWatcher
from countersign import hook_formats
from countersign.durations import parse_duration
from countersign.request import UNDECIDED_STATUSES, RequestStatus
from storage.database_errors import is_temporary_database_error
from storage.programs import ProgramApiKey
from storage.record import Store

log = logging.getLogger("countersign.api")


DEFAULT_WAIT = "9m"  # time for people to decide, by default; less than the hook's own ten minutes
DEADLINE_GRACE_SECONDS = 10.0  # time after a deadline, in which the clock denies the request
MAX_DISCARDED_BYTES = 1_000_000  # of a refused request's body, which is read all the same
DISCARD_TIMEOUT_SECONDS = 1.0
PROCESSING_TIMEOUT_SECONDS = 30.0  # for everything else; after this the answer is a denial
CONNECTION_CLOSE_HEADER = (b"connection", b"close")  # what follows on it cannot be trusted
INTERNAL_ERROR = "Something went wrong in Countersign."
STOPPED_ERROR = "Countersign was stopped before there was an answer; ask again in a minute."
ANSWER_TOO_LATE_ERROR = "Countersign did not answer in time."
UNKNOWN_PATH_ERROR = (
    f"There is nothing at this address. The hook is POST {claude_code.CLAUDE_CODE_PATH}."
)


def prefers_async_response(headers: Headers) -> bool:
    """Return whether the client would rather poll than wait (`Prefer: respond-async`, RFC 7240)."""
    return "respond-async" in headers.get("prefer", "")


class HookDenialMiddleware:
    """ASGI middleware that answers a coding agent's hook with a denial if the app does not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._left: set[asyncio.Task[None]] = set()  # tasks cancelled because they took too long

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on; a hook's request gets an answer even if the app gives none."""
        if scope["type"] != "http" or not claude_code.is_hook_request(
            scope["method"], scope["path"]
        ):
            await self._app(scope, receive, send)
        elif scope["path"] == claude_code.CLAUDE_CODE_PATH and prefers_async_response(
            Headers(scope=scope)
        ):
            await self._app(scope, receive, send)  # a program, which treats any failure as a no
        else:
            await self._answer_hook(scope, _HookBody(receive), _HookAnswer(send))

    async def _answer_hook(self, scope: Scope, receive: _HookBody, answer: _HookAnswer) -> None:
        work = asyncio.ensure_future(self._app(scope, receive, answer.forward_asgi_message))
        why = INTERNAL_ERROR
        try:
            ended, _ = await asyncio.wait({work}, timeout=_get_answer_timeout(scope))
            if ended and not answer.is_complete:
                await receive.read_rest()
            why = answer.denial_reason if ended else ANSWER_TOO_LATE_ERROR
            if ended and (work.cancelled() or work.exception() is not None):
                error = None if work.cancelled() else work.exception()
                log.error("a hook could not be answered", exc_info=error)
        except asyncio.CancelledError:  # the server stops and waits no longer
            why = STOPPED_ERROR
            raise
        finally:
            if not work.done():
                self._left.add(work)
                work.add_done_callback(self._left.discard)
                work.cancel()
            await answer.deny(why, receive.event_reader.event)


class _HookBody:
    """The body of one hook's request, passed on while it is searched for the hook's name."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left, self._is_gone = MAX_DISCARDED_BYTES, False
        self.event_reader = claude_code.HookEventDetector()

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            part, more = message.get("body", b""), message.get("more_body", False)
            self._left -= len(part)
            self.event_reader.add_body_part(part, is_last=not more)
        else:
            self._is_gone = True
        return message

    async def read_rest(self) -> None:
        """Read the rest of a body that was refused unread, up to a limit of time and size."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_TIMEOUT_SECONDS):
                while not (self.event_reader.is_whole or self._is_gone) and self._left > 0:
                    await self()


class _HookAnswer:
    """The answer to one hook as far as it has been sent: nothing, blanks, or all of it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._status = 0
        self._problem = bytearray()
        self._refused_with: list[tuple[bytes, bytes]] = []  # headers of the app's refusal
        self._start: Message | None = None  # sent together with the first part of the body
        self._begun = self._said = False
        self.is_complete = False

    async def forward_asgi_message(self, message: Message) -> None:
        """Forward an ASGI message of a 200 answer; keep the text of any other answer."""
        if self.is_complete:
            return
        if message["type"] == "http.response.start":
            self._status, self._start = message["status"], message
            self._refused_with = [(n.lower(), value) for n, value in message.get("headers", ())]
            return
        if self._status != HTTPStatus.OK or self._start is None:
            self._problem.extend(message.get("body", b""))
            return
        is_last = not message.get("more_body", False)
        self._said = self._said or bool(message.get("body", b"").strip())
        if is_last and not self._said:
            return  # blanks alone are no answer
        self.is_complete = is_last
        await self._send_start(self._start)
        await self._send(message)

    async def _send_start(self, start: Message) -> None:
        if not self._begun:
            self._begun = True
            await self._send(start)

    @property
    def denial_reason(self) -> str:
        """Return why a hook is denied: the `detail` of the app's problem, or a general reason."""
        if self._status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            return UNKNOWN_PATH_ERROR
        try:
            return str(json.loads(bytes(self._problem))["detail"])
        except (ValueError, KeyError, TypeError):
            return INTERNAL_ERROR

    async def deny(self, why: str, event: hook_formats.HookEventKind) -> None:
        """End an unfinished hook answer, with a denial if only blanks were sent so far.

        Messages that come later are ignored.
        """
        if self.is_complete:
            return
        self.is_complete = True
        body = b"" if self._said else claude_code.build_hook_denial_body(why, event)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            *(each for each in self._refused_with if each == CONNECTION_CLOSE_HEADER),
        ]
        await self._send_start({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _get_answer_timeout(scope: Scope) -> float:
    """Return the seconds after which it is too late for the app's answer to a hook."""
    said = QueryParams(scope["query_string"]).get("wait", DEFAULT_WAIT)
    return (
        (parse_duration(said) or parse_duration(DEFAULT_WAIT) or 0)
        + DEADLINE_GRACE_SECONDS
        + PROCESSING_TIMEOUT_SECONDS
    )


KEEPALIVE_INTERVAL_SECONDS = 15  # for a connection that waits for people
CLAIM_LEASE_SECONDS = 900  # how long a tool may run before people are asked how it ended
OPEN_STATUSES = (*UNDECIDED_STATUSES, RequestStatus.APPROVED)
ALLOWED_STATUSES = (RequestStatus.APPROVED, RequestStatus.RUNNING)
OUTCOME_NOT_REPORTED_TEXT = "Claude Code does not say how it went."
STOPPED_WHILE_WAITING_ERROR = "Countersign was stopped while people decided; ask again in a minute."
_PREFER_WAIT_PATTERN = re.compile(r"wait=(\d{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class HookOptions:
    """How people are asked about a Claude Code hook's tool uses, from the hook's query string."""

    wait_seconds: int  # how long people may take
    effect_kind: str  # "" if not stated
    requester: str
    channel: str


class HookRoutes:
    """The endpoint for Claude Code's hooks; runs on the server's event loop."""

    def __init__(self, routes: ApiRoutes, is_stopping: Callable[[], bool]) -> None:
        """`routes`: the API's endpoints, with which hooks ask, wait, claim and report."""
        self._routes = routes
        self._is_stopping = is_stopping

    async def handle_claude_code(self, key: Key, request: Request) -> Response:
        """Answer the hook request that Claude Code sends before or after a tool use.

        Before a use, the answer comes once people have decided; a client that prefers to poll
        (`Prefer: respond-async`) gets 202 until then. After a use, its outcome is recorded, and the
        answer is empty.
        """
        try:
            use = claude_code.parse_tool_use(await request.json())
        except ValueError as error:
            raise api_bodies.build_field_problem("body", str(error)) from None
        terms = parse_hook_options(request.query_params)
        if use.event not in hook_formats.APPROVAL_EVENTS:
            return JSONResponse(await self._report_outcome(key, use, request))
        if prefers_async_response(request.headers):
            return await self._answer_or_accept(key, use, terms, request)
        return StreamingResponse(
            self._stream_final_answer(key, use, terms, request), media_type="application/json"
        )

    async def _answer_or_accept(
        self, key: ProgramApiKey, use: claude_code.ToolUse, terms: HookOptions, request: Request
    ) -> Response:
        """Return the answer to a hook if people decide soon, else 202; raises ProblemError."""
        said = _PREFER_WAIT_PATTERN.search(request.headers["prefer"])
        approval = await self._request_approval(key, use, terms)
        if approval.status in UNDECIDED_STATUSES and said:
            approval = await self._routes.get_request(
                key, approval.id, request, min(int(said[1]), 60)
            )
        if approval.status in UNDECIDED_STATUSES:
            about = {"id": approval.id, "link": approval.link, "status": approval.status}
            return JSONResponse(about, HTTPStatus.ACCEPTED)
        return JSONResponse(await self._build_decision_answer(key, use, approval))

    async def _stream_final_answer(
        self, key: ProgramApiKey, use: claude_code.ToolUse, terms: HookOptions, request: Request
    ) -> AsyncIterator[bytes]:
        """Yield blanks (allowed before JSON), which keep the connection open, then the answer."""
        left_alone = ""  # id of a request that nobody waits for any more
        try:
            approval = await self._request_approval(key, use, terms)
            until = time.monotonic() + terms.wait_seconds + DEADLINE_GRACE_SECONDS
            left_alone = _get_id_if_open(approval)
            while (
                approval.status in UNDECIDED_STATUSES
                and time.monotonic() < until
                and not self._is_stopping()
            ):
                yield b" "
                approval = await self._routes.get_request(
                    key, approval.id, request, KEEPALIVE_INTERVAL_SECONDS
                )
                left_alone = _get_id_if_open(approval)
                if await request.is_disconnected():
                    return
            if self._is_stopping():
                answer = hook_formats.build_hook_deny_answer(STOPPED_WHILE_WAITING_ERROR, use.event)
            else:
                if approval.status in UNDECIDED_STATUSES:
                    approval = await self._cancel_or_get_request(key, approval.id, request)
                answer = await self._build_decision_answer(key, use, approval)
                left_alone = ""
        except api_bodies.ProblemError as error:
            answer = hook_formats.build_hook_deny_answer(str(error), use.event)
        except Exception:
            log.exception("a hook could not be answered")
            answer = hook_formats.build_hook_deny_answer(INTERNAL_ERROR, use.event)
        finally:
            if left_alone:
                with CancelScope(shield=True), suppress(api_bodies.ProblemError):
                    await self._routes.cancel(key, left_alone)
        yield json.dumps(answer).encode()

    async def _request_approval(
        self, key: ProgramApiKey, use: claude_code.ToolUse, terms: HookOptions
    ) -> api_bodies.RequestShown:
        """Ask people about a tool use, only once even if it is sent again; raises ProblemError."""
        try:
            body = api_bodies.ActionWanted(
                action=use.build_action(terms.effect_kind),
                arguments=use.tool_input,
                reason=use.reason,
                deadline_seconds=terms.wait_seconds,
                requester=terms.requester,
                channel=terms.channel,
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise api_bodies.build_field_problem(
                ".".join(map(str, first["loc"])), first["msg"]
            ) from None
        return await self._routes.ask(key, body, Response(), use.idempotency_key)

    async def _cancel_or_get_request(
        self, key: ProgramApiKey, request_id: str, request: Request
    ) -> api_bodies.RequestShown:
        """Cancel the request and return it; if it was decided at that moment, as it is now."""
        try:
            return await self._routes.cancel(key, request_id)
        except api_bodies.ProblemError:
            return await self._routes.get_request(key, request_id, request, 0)

    async def _build_decision_answer(
        self, key: ProgramApiKey, use: claude_code.ToolUse, found: api_bodies.RequestShown
    ) -> dict[str, Any]:
        """Return the answer for Claude Code; an approved use is claimed first."""
        if found.status not in ALLOWED_STATUSES:
            return hook_formats.build_hook_deny_answer(
                claude_code.describe_denial(found), use.event
            )
        who = use.build_claimant_id(key.id)
        claimed = await self._routes.claim(
            key, found.id, api_bodies.ClaimSent(claimant=who, lease_seconds=CLAIM_LEASE_SECONDS)
        )
        if not use.gets_outcome_report_later:
            outcome = api_bodies.OutcomeSent(
                claimant=who, succeeded=None, result=OUTCOME_NOT_REPORTED_TEXT
            )
            await self._routes.report_outcome(key, found.id, outcome)
        return claude_code.build_hook_allow_answer(use, found, claimed.arguments)

    async def _report_outcome(
        self, key: ProgramApiKey, use: claude_code.ToolUse, request: Request
    ) -> dict[str, Any]:
        """Record the outcome of a tool use, if people were asked about it; the answer is empty."""
        request_id = await self._routes.find_request_by_idempotency_key(key, use.idempotency_key)
        if request_id is None:
            return {}
        try:
            approved = (await self._routes.get_request(key, request_id, request)).arguments
            succeeded, how = use.describe_outcome(approved)
            outcome = api_bodies.OutcomeSent(
                claimant=use.build_claimant_id(key.id), succeeded=succeeded, result=how
            )
            await self._routes.report_outcome(key, request_id, outcome)
        except api_bodies.ProblemError as error:
            log.warning("request %s: Claude Code's report is not taken: %s", request_id, error)
        return {}


def _get_id_if_open(found: api_bodies.RequestShown) -> str:
    return found.id if found.status in OPEN_STATUSES else ""


def parse_hook_options(query: QueryParams) -> HookOptions:
    """Return the options in the query string of a hook's address; raises ProblemError."""
    for name in query:
        if name not in ("wait", "does", "requester", "channel"):
            raise api_bodies.build_field_problem(
                name, "This is not a parameter of the hook's address."
            )
    wait = parse_duration(query.get("wait", DEFAULT_WAIT))
    if not wait:
        raise api_bodies.build_field_problem(
            "wait", "This is not a duration. Write 90s, 30m, 4h or 2d."
        )
    texts = (query.get("does", ""), query.get("requester", ""), query.get("channel", ""))
    return HookOptions(wait, *texts)


MAX_CONCURRENT_KEY_CHECKS = 4
RETRY_AFTER_SECONDS = 1  # when the database cannot be used


def build_api_app(
    store: Store,
    callers: ApiKeyChecker,
    asking: ProgramRequestService,
    is_stopping: Callable[[], bool],
    further: APIRouter | None = None,
) -> ASGIApp:
    """Return the API's app; once `is_stopping` returns true, it takes no requests and none waits.

    `further`: routes beside those for programs.
    """
    api = ApiWithDescribedProblems()
    routes = ApiRoutes(asking, callers, RequestWatcher(store, is_stopping), is_stopping)
    api.include_router(routes.build_router())
    answer_hook = HookRoutes(routes, is_stopping).handle_claude_code
    # not in the API's description, because its format is Claude Code's
    api.add_api_route("/hooks/claude-code", answer_hook, methods=["POST"], include_in_schema=False)
    if further is not None:
        api.include_router(further)
    api.add_middleware(
        ApiKeyMiddleware,
        callers=callers,
        turns=CapacityLimiter(MAX_CONCURRENT_KEY_CHECKS),
        is_stopping=is_stopping,
    )
    for kind in (api_bodies.ProblemError, RequestValidationError, HTTPException, Exception):
        api.add_exception_handler(kind, _handle_error)
    return api


async def _handle_error(_: Request, error: Exception) -> Response:
    return _build_problem(error).build_response()


def _build_problem(error: Exception) -> api_bodies.ProblemError:
    """Return the problem that reports an error; an unknown one is 503 if it may pass, else 500."""
    match error:
        case api_bodies.ProblemError():
            return error
        case RequestValidationError():
            return _build_body_problem(error)
        case HTTPException():  # an unknown path, or a method that the path does not support
            status = HTTPStatus(error.status_code)
            return api_bodies.ProblemError(status, f"{status.phrase}.", headers=error.headers)
        case _ if is_temporary_database_error(error):
            return api_bodies.build_retry_later_problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "The database cannot be read or written at the moment. Please repeat the request.",
                RETRY_AFTER_SECONDS,
            )
        case _:
            return api_bodies.ProblemError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "Something went wrong in Countersign."
                " It is not known whether the request had an effect.",
            )


def _build_body_problem(error: RequestValidationError) -> api_bodies.ProblemError:
    """Return the problem for a path, header or body that FastAPI does not accept."""
    found: list[dict[str, Any]] = list(error.errors())
    if any(each["loc"][0] == "path" for each in found):
        return api_bodies.ProblemError(HTTPStatus.NOT_FOUND, "This key has no such request.")
    return api_bodies.build_validation_problem(
        [
            api_bodies.FieldError(
                field=_format_field_path(each["loc"]),
                message=api_bodies.MESSAGE_BY_PATTERN.get(
                    each.get("ctx", {}).get("pattern"), each["msg"]
                ),
            )
            for each in found
        ]
    )


def _format_field_path(loc: tuple[Any, ...]) -> str:
    """Return the path of a refused field in the body, or the name of a header or parameter."""
    place, *rest = loc
    if place == "body" and rest and rest[0] in ("tool", "action"):
        rest = rest[1:]
    return ".".join(map(str, rest)) or "body"
