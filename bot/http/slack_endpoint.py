"""Takes Slack's HTTP requests: checks each, passes it to the listeners and acknowledges it.

A body is read only once the headers may be Slack's, and used only once its signature is checked.
The listeners are those of Socket Mode.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import httpx2
from anyio import CapacityLimiter, to_thread
from slack_bolt import BoltRequest
from slack_bolt.adapter.starlette.handler import to_starlette_response
from slack_sdk.signature import Clock as UnixClock
from slack_sdk.signature import SignatureVerifier
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from bot.clock import Clock, get_machine_time
from bot.http.api_bodies import ProblemError
from bot.http.api_gate import JSON_MEDIA_TYPE, get_media_type, read_request_body
from bot.signals import UnacknowledgedDeliveries
from bot.slack.client import is_own_event
from bot.slack.socket import DeliveryReceiver

# Whether a request is Slack's, new, and seen for the first time.

MAX_AGE_SECONDS = 300  # age of a request, or how far it lies in the future; slack_sdk's own limit
_TIMESTAMP_PATTERN = re.compile(r"[0-9]{1,11}", re.ASCII)
_SIGNATURE_PATTERN = re.compile(r"v0=[0-9a-f]{64}", re.ASCII)


class _SlackSdkClock(UnixClock):
    """A Clock in the form that slack_sdk asks for.

    It gives the machine's time, as Slack's clock does; the record's time may be ahead of that.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return get_machine_time(self._clock).timestamp()


class SignedRequestStatus(Enum):
    """How far the Slack request with a given valid signature has been handled."""

    NEVER = auto()
    UNDER_WAY = auto()  # the request with it is being handled
    ACKNOWLEDGED = auto()


class SignatureChecker:
    """The check of Slack's request signatures, which remembers accepted ones; thread-safe.

    Each process remembers only its own, so another replica, or this one after a restart, accepts a
    replay. The replay of a stored delivery is then recognised by the key of its row; any other only
    sends an answer to the person who acted.
    """

    def __init__(self, secret: str, clock: Clock) -> None:
        self._unix = _SlackSdkClock(clock)
        self._verifier = SignatureVerifier(secret, self._unix)
        self._lock = threading.Lock()
        # by signature: until when (Unix seconds) it is remembered, and its status
        self._seen: OrderedDict[str, tuple[float, SignedRequestStatus]] = OrderedDict()

    def has_plausible_headers(self, timestamp: str, signature: str) -> bool:
        """Return whether the headers have Slack's form and a time at most MAX_AGE_SECONDS away."""
        if not (
            _TIMESTAMP_PATTERN.fullmatch(timestamp) and _SIGNATURE_PATTERN.fullmatch(signature)
        ):
            return False
        return abs(self._unix.now() - int(timestamp)) <= MAX_AGE_SECONDS

    def is_valid_signature(self, body: str, timestamp: str, signature: str) -> bool:
        """Return whether Slack signed this body then; check `has_plausible_headers` first."""
        return self._verifier.is_valid(body, timestamp, signature)

    def register_signed_request(self, timestamp: str, signature: str) -> SignedRequestStatus:
        """Return the earlier status of the request with this signature; if NEVER, set UNDER_WAY."""
        now = self._unix.now()
        with self._lock:
            while self._seen and next(iter(self._seen.values()))[0] < now:
                self._seen.popitem(last=False)
            if signature in self._seen:
                return self._seen[signature][1]
            self._seen[signature] = int(timestamp) + MAX_AGE_SECONDS, SignedRequestStatus.UNDER_WAY
            return SignedRequestStatus.NEVER

    def settle_signed_request(self, signature: str, *, is_acknowledged: bool) -> None:
        """Remember a request as acknowledged; forget one that failed, as it may be sent again."""
        with self._lock:
            if not is_acknowledged:
                self._seen.pop(signature, None)
            elif signature in self._seen:
                self._seen[signature] = self._seen[signature][0], SignedRequestStatus.ACKNOWLEDGED


log = logging.getLogger("countersign.http")
MAX_BODY_BYTES = 2 * 1024 * 1024  # Slack's views have up to 250 kB, encoded as forms 750 kB
BODY_TIMEOUT_SECONDS = 3.0  # Slack waits no longer for an acknowledgement
MAX_CONCURRENT_REQUESTS = 40  # other requests wait in line
MAX_FORM_FIELDS = 100  # a slash command has about fifteen
ACCEPTED_MEDIA_TYPES = (JSON_MEDIA_TYPE, "application/x-www-form-urlencoded")
TIMESTAMP_HEADER = "x-slack-request-timestamp"
SIGNATURE_HEADER = "x-slack-signature"
UNREPEATABLE_HEADERS = (
    TIMESTAMP_HEADER,
    SIGNATURE_HEADER,
    "content-type",
    "content-length",
    "content-encoding",
)
RETRY_HEADER = "x-slack-retry-num"
FORWARDED_HEADER = "x-countersign-forwarded"  # sent on by another process: not sent on again
PASSED_ON_HEADERS = (
    "content-type",
    RETRY_HEADER,
    "x-slack-retry-reason",
    TIMESTAMP_HEADER,
    SIGNATURE_HEADER,
    FORWARDED_HEADER,
)
FORWARD_TIMEOUT_SECONDS = 1.8  # for another process to acknowledge; a balancer waits two seconds
FORWARD_RETRY_SECONDS = 0.1  # pause between attempts while the other process hands over
RATE_LIMITED_TYPE = "app_rate_limited"  # Slack's event for having held back other events


class ServedElsewhereError(Exception):
    """Raised for a payload whose workspace another process serves, reached at `url`."""

    def __init__(self, url: str) -> None:
        super().__init__(f"it is served at {url}")
        self.url = url


@dataclass
class SlackEndpoint:
    """The endpoint for Slack's requests; one per process, on the server's loop."""

    _bolt: DeliveryReceiver  # has the listeners
    _signatures: SignatureChecker
    _arrivals: UnacknowledgedDeliveries  # counts what is not acknowledged yet
    _own: Collection[str] = ()  # the ids that the bot has as a user and as a bot
    is_open: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self._turns = CapacityLimiter(MAX_CONCURRENT_REQUESTS)

    def close(self) -> None:
        """Refuse all further requests with 503, so that Slack sends them elsewhere or again."""
        self.is_open = False

    async def handle_request(self, request: Request) -> Response:
        """Answer one request with its acknowledgement, or refuse it."""
        try:
            if not self.is_open:
                raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE)
            self._check_headers(request)
            body = await _read_body(request)
            return await self._verify_and_dispatch(request, body)
        except HTTPException as refused:
            # log nothing of the content: whoever sends such requests may send many
            status, phrase = refused.status_code, refused.detail
            log.info("refused a request: %d %s", status, phrase)
            return PlainTextResponse(phrase, status, {"Connection": "close"})

    def _check_headers(self, request: Request) -> None:
        """Refuse a request whose headers cannot be Slack's, before its body is read."""
        headers = request.headers
        if any(len(headers.getlist(each)) > 1 for each in UNREPEATABLE_HEADERS):
            raise HTTPException(HTTPStatus.BAD_REQUEST)
        encoding = headers.get("content-encoding", "identity")
        if get_media_type(headers) not in ACCEPTED_MEDIA_TYPES or encoding != "identity":
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        if not self._signatures.has_plausible_headers(
            headers.get(TIMESTAMP_HEADER, ""), headers.get(SIGNATURE_HEADER, "")
        ):
            raise HTTPException(HTTPStatus.UNAUTHORIZED)
        if int(headers.get("content-length", "0")) > MAX_BODY_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    async def _verify_and_dispatch(self, request: Request, body: str) -> Response:
        timestamp, signature = request.headers[TIMESTAMP_HEADER], request.headers[SIGNATURE_HEADER]
        if not self._signatures.is_valid_signature(body, timestamp, signature):
            raise HTTPException(HTTPStatus.UNAUTHORIZED)
        seen = self._signatures.register_signed_request(timestamp, signature)
        if seen is SignedRequestStatus.ACKNOWLEDGED and RETRY_HEADER in request.headers:
            return Response()  # a retry within the same second: only acknowledge it again
        if seen is not SignedRequestStatus.NEVER:
            # either this process sent it on to itself, because the process that ended had the same
            # address; or Slack sent it to another process, too. Whoever sent it on tries again
            is_sent_on = (
                seen is SignedRequestStatus.UNDER_WAY and FORWARDED_HEADER in request.headers
            )
            raise HTTPException(
                HTTPStatus.SERVICE_UNAVAILABLE if is_sent_on else HTTPStatus.CONFLICT
            )
        is_acknowledged = False
        try:
            headers = {
                each: request.headers[each] for each in PASSED_ON_HEADERS if each in request.headers
            }
            response = await to_thread.run_sync(
                self._dispatch_to_bolt, body, headers, limiter=self._turns
            )
            is_acknowledged = response.status_code < HTTPStatus.BAD_REQUEST
            return response
        finally:
            self._signatures.settle_signed_request(signature, is_acknowledged=is_acknowledged)

    def _dispatch_to_bolt(self, body: str, headers: dict[str, Any]) -> Response:
        """Have the listeners store and acknowledge a request; on a thread, as storing may block."""
        with self._arrivals.track_unacknowledged_delivery():
            if not self.is_open:  # closed since the request came in
                raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE)
            payload = _parse_payload(body, get_media_type(Headers(headers)))
            if is_own_event(payload, self._own):
                return Response()
            if payload.get("type") == RATE_LIMITED_TYPE:
                log.error("Slack holds events back: there were more than 30,000 in an hour")
                return Response()
            return self._dispatch_here_or_elsewhere(payload, body, headers)

    def _dispatch_here_or_elsewhere(
        self, payload: dict[str, Any], body: str, headers: dict[str, Any]
    ) -> Response:
        """Pass a payload to the listeners, or to another process that serves its workspace.

        A process that has ended or is ending is tried again, until this process serves the
        workspace or time is up. Then the answer is 502, since a load balancer would take 503 to be
        about this process.
        """
        until = time.monotonic() + FORWARD_TIMEOUT_SECONDS
        while True:
            # "socket_mode" tells Bolt that the payload is already parsed and checked: its own form
            # parser finds nothing if the text of a slash command contains "payload"
            sent = BoltRequest(body=payload, headers=headers, mode="socket_mode")
            try:
                return to_starlette_response(self._bolt.dispatch(sent))
            except ServedElsewhereError as elsewhere:
                seconds_left = until - time.monotonic()
                if FORWARDED_HEADER in headers:  # its sender looks up the owner again
                    raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE) from None
                if seconds_left <= 0:
                    log.warning("the process at %s does not answer", elsewhere.url)
                    raise HTTPException(HTTPStatus.BAD_GATEWAY) from None
                answer = _forward_request(elsewhere.url, body, headers, seconds_left)
            if answer is not None:
                return answer
            time.sleep(FORWARD_RETRY_SECONDS)


@cache
def _get_forwarding_client() -> httpx2.Client:
    """Return the one HTTP client for other processes, as making it takes a tenth of a second."""
    return httpx2.Client(trust_env=False)  # other processes are not behind a proxy


def _forward_request(
    url: str, body: str, headers: Mapping[str, str], seconds: float
) -> Response | None:
    """Forward a request from Slack to another process, and return the response.

    That process checks the signature itself. None if it does not answer, or takes no more requests.
    """
    target_url, sent = f"{url}/slack/events", {**headers, FORWARDED_HEADER: "1"}
    try:
        answer = _get_forwarding_client().post(
            target_url, content=body.encode(), headers=sent, timeout=seconds
        )
    except httpx2.HTTPError:
        return None
    if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        return None
    kind = answer.headers.get("content-type")
    return Response(answer.content, answer.status_code, {"content-type": kind} if kind else None)


def _parse_payload(body: str, kind: str) -> dict[str, Any]:
    """Return the payload in a body of that media type; refuses what is not an object."""
    try:
        if kind == JSON_MEDIA_TYPE:
            found = json.loads(body)
        else:
            fields = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
            found = json.loads(fields["payload"]) if "payload" in fields else fields
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise HTTPException(HTTPStatus.BAD_REQUEST)
    return found


async def _read_body(request: Request) -> str:
    """Return the body, as UTF-8; refuses one that is too long or too slow."""
    try:
        return (
            await read_request_body(request.receive, MAX_BODY_BYTES, BODY_TIMEOUT_SECONDS)
        ).decode()
    except ProblemError as error:
        raise HTTPException(error.status) from None
    except UnicodeDecodeError:
        raise HTTPException(HTTPStatus.BAD_REQUEST) from None
