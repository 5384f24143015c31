"""The routes of the API for programs: what each of them takes and returns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, TypeVarTuple

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Body, Header, Path, Query, Request, Response

from bot.http import api_bodies
from bot.http.api_gate import Key, build_openapi_problem_responses
from countersign.request import RequestStatus
from storage.programs import ProgramApiKey

if TYPE_CHECKING:
    from bot.http.api_gate import ApiKeyChecker
    from bot.http.ask_route import ProgramRequestService, RequestWatcher

POLL_INTERVAL_SECONDS = 0.25  # between checks whether a claim has been decided
MAX_CONCURRENT_ASKS = 16
MAX_CONCURRENT_LOOKS = 8  # requests that look, claim or report
MAX_LOOK_SECONDS = 60
CLAIM_TIMEOUT_SECONDS = 10.0  # how long a claim waits for its check
DISCONNECT_CHECK_SECONDS = 5.0  # how often to check that the waiting program is still connected
T = TypeVar("T")
Given = TypeVarTuple("Given")
Answers = dict[int | str, dict[str, Any]]

Id = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="The id of a request.")]
Wait = Annotated[
    int,
    Query(
        ge=0, le=MAX_LOOK_SECONDS, description="Seconds to wait until it is decided, or has ended."
    ),
]
Idempotency = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=api_bodies.VISIBLE_ASCII_PATTERN,
        description="A request already made with it is returned, and not asked again.",
    ),
]


@dataclass
class ApiRoutes:
    """The API's endpoints, called on the server's event loop; their work is done on threads."""

    _service: ProgramRequestService
    _callers: ApiKeyChecker
    _watcher: RequestWatcher
    _is_stopping: Callable[[], bool]  # true once the process stops; then no request waits any more

    def __post_init__(self) -> None:
        # others wait in line; two limits, since asking may wait for Slack and must not delay looks
        self._ask_limiter = CapacityLimiter(MAX_CONCURRENT_ASKS)
        self._look_limiter = CapacityLimiter(MAX_CONCURRENT_LOOKS)

    def build_router(self) -> APIRouter:
        """Return a router with all endpoints."""
        router = APIRouter()
        again = {
            "model": api_bodies.RequestShown,
            "description": "It was already asked with this Idempotency-Key.",
        }
        asked: Answers = {
            200: again,
            **build_openapi_problem_responses(401, 403, 408, 409, 413, 415, 422, 429, 503),
        }
        free = build_openapi_problem_responses(401, 408, 413, 415, 422, 503)
        looked = build_openapi_problem_responses(401, 404, 408, 413, 415, 422, 429, 503)
        acted = build_openapi_problem_responses(401, 404, 408, 409, 413, 415, 422, 503)
        ways: tuple[tuple[str, Callable[..., Any], str, Answers], ...] = (
            ("POST /requests", self.ask, "Ask people to approve a call", asked),
            ("POST /questions", self.ask_person, "Ask a person for information", asked),
            ("GET /requests", self.list_requests, "A key's own requests", free),
            ("GET /requests/{request_id}", self.get_request, "The state of a request", looked),
            ("GET /questions/{request_id}", self.get_request, "The state of a question", looked),
            ("GET /requests/{request_id}/receipt", self.get_receipts, "Signed statements", acted),
            ("GET /receipt-keys", self.get_public_keys, "The public keys of receipts", free),
            ("POST /requests/{request_id}/claim", self.claim, "Claim an approved call", acted),
            (
                "POST /requests/{request_id}/outcome",
                self.report_outcome,
                "Report the outcome",
                acted,
            ),
            ("POST /requests/{request_id}/cancel", self.cancel, "Cancel a request", acted),
        )
        for way, answer, summary, answers in ways:
            method, path = way.split()
            status = HTTPStatus.CREATED if answers is asked else HTTPStatus.OK
            router.add_api_route(
                path,
                answer,
                methods=[method],
                status_code=status,
                summary=summary,
                responses=answers,
            )
        return router

    async def ask(
        self,
        key: Key,
        wanted: Annotated[api_bodies.RequestWanted, Body()],
        response: Response,
        idempotency: Idempotency = None,
    ) -> api_bodies.RequestShown:
        """Ask people to approve a call. Nothing has been decided when this returns."""
        return await self._ask_people(key, wanted, response, idempotency or "")

    async def ask_person(
        self,
        key: Key,
        sent: api_bodies.QuestionWanted,
        response: Response,
        idempotency: Idempotency = None,
    ) -> api_bodies.RequestShown:
        """Ask a person for information. Their answer is the result, and approves nothing."""
        return await self._ask_people(key, sent, response, idempotency or "")

    async def list_requests(
        self,
        key: Key,
        status: Annotated[
            list[RequestStatus] | None,
            Query(description="Only requests with this status; repeatable."),
        ] = None,
        limit: Annotated[int, Query(ge=1, le=100, description="At most this many.")] = 50,
        after: Annotated[
            str, Query(pattern=api_bodies.PAGE_PATTERN, description="`next` of the previous page.")
        ] = "",
    ) -> api_bodies.RequestsShown:
        """The requests that this key has asked, the newest first, each as it stands."""
        list_requests = self._service.list_requests
        return await self._run_with_valid_key(list_requests, key, after, status or (), limit)

    async def get_request(
        self, key: Key, request_id: Id, request: Request, wait: Wait = 0
    ) -> api_bodies.RequestShown:
        """The state of a request; with `wait`, answered once it is decided or the time is over.

        A tool's call is waited for until it has ended, a handed-over one until it may be claimed,
        and until it has ended if it was.
        """
        load_request = self._service.load_request
        if not wait:
            return await self._run_with_valid_key(load_request, key, request_id)
        until = time.monotonic() + wait
        with self._watcher.watch_request(key.id, request_id) as changed:
            while True:
                changed.clear()
                shown = await self._run_with_valid_key(load_request, key, request_id)
                seconds_left = until - time.monotonic()
                if (
                    not api_bodies.should_program_keep_waiting(shown)
                    or seconds_left <= 0
                    or self._is_stopping()
                ):
                    return shown
                if await request.is_disconnected():
                    return shown
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(seconds_left, DISCONNECT_CHECK_SECONDS)):
                        await changed.wait()

    async def get_receipts(self, key: Key, request_id: Id) -> api_bodies.ReceiptsShown:
        """What was decided about the call, and how it ended, signed. 409 before it is decided."""
        return await self._run_with_valid_key(self._service.write_receipts, key, request_id)

    async def get_public_keys(self, key: Key) -> api_bodies.PublicKeysShown:
        """The public keys that receipts are signed with; they are no secret."""
        return await self._run_with_valid_key(self._service.build_public_keys, key)

    async def claim(
        self, key: Key, request_id: Id, sent: api_bodies.ClaimSent
    ) -> api_bodies.ClaimedShown:
        """Claim an approved call to execute it; nobody but its claimant ever gets it.

        The same claimant again gets the same, and more time.
        """
        until = time.monotonic() + CLAIM_TIMEOUT_SECONDS
        while True:
            claimed = await self._run_with_valid_key(
                self._service.claim_call, key, request_id, sent
            )
            if claimed is not None:
                signed = await self.get_receipts(key, request_id)
                return api_bodies.ClaimedShown(
                    receipt=signed.decision,
                    arguments=claimed.arguments,
                    revision=claimed.revision,
                    digest=claimed.digest,
                    lease_seconds=int(claimed.lease.total_seconds()),
                )
            if time.monotonic() >= until or self._is_stopping():
                raise api_bodies.build_retry_later_problem(
                    HTTPStatus.CONFLICT, "It is still being checked.", 1
                )
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def report_outcome(
        self, key: Key, request_id: Id, sent: api_bodies.OutcomeSent
    ) -> api_bodies.RequestShown:
        """Report how a call went that this claimant has claimed."""
        return await self._run_with_valid_key(self._service.report_outcome, key, request_id, sent)

    async def find_request_by_idempotency_key(
        self, key: ProgramApiKey, idempotency: str
    ) -> str | None:
        """Return the id of the request that this key made with `idempotency`; None for none."""
        find_request = self._service.find_request_by_idempotency_key
        return await to_thread.run_sync(find_request, key, idempotency, limiter=self._look_limiter)

    async def cancel(self, key: Key, request_id: Id) -> api_bodies.RequestShown:
        """Cancel a request that has not ended and is not being executed."""
        cancel_request = self._service.cancel_request
        return await to_thread.run_sync(cancel_request, key, request_id, limiter=self._look_limiter)

    async def _ask_people(
        self, key: ProgramApiKey, sent: Any, response: Response, idempotency: str
    ) -> api_bodies.RequestShown:
        def ask() -> tuple[api_bodies.RequestShown, bool]:
            self._callers.check_hourly_limit(key, idempotency, while_open=sent.while_open)
            return self._service.ask(key, sent, idempotency)

        found, is_new = await to_thread.run_sync(ask, limiter=self._ask_limiter)
        response.status_code = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        return found

    async def _run_with_valid_key(
        self, work: Callable[[ProgramApiKey, *Given], T], key: ProgramApiKey, *given: *Given
    ) -> T:
        """Run `work` on a thread; ProblemError if the key was revoked while the program waited."""

        def done() -> T:
            self._callers.check_not_revoked(key)
            return work(key, *given)

        return await to_thread.run_sync(done, limiter=self._look_limiter)
