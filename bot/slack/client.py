"""slack_sdk's Web API client on connections that stay open.

Only the transport is ours; arguments, answers, errors and retries are slack_sdk's. No request is
sent twice here: a connection that Slack has closed is noticed before it is used, and one that
breaks later raises what urllib would have raised. While Slack asks for a pause, no request is sent.
"""

from __future__ import annotations

import functools
import io
import itertools
import logging
import math
import selectors
import ssl
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, getproxies, proxy_bypass

from slack_bolt.middleware import IgnoringSelfEvents
from slack_bolt.request.internals import extract_user_id
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse

from bot import slack_codes
from bot.cards import views
from bot.clock import Clock
from bot.monitoring.spans import Incident, Tracer, WorkKind
from bot.slack import organisation

# The app that a bot token belongs to, as Slack says.

log = logging.getLogger("countersign.web_api")


def find_app_id(client: WebClient, bot: str) -> str:
    """Return the id of the app that this bot belongs to; "" if Slack does not say.

    `bot` is the bot's id (B…), "" if it is not known.
    """
    if not bot:
        return ""
    try:
        response = client.bots_info(bot=bot)
    except (SlackApiError, SlackClientError, HTTPException, OSError) as error:
        log.info("could not ask Slack which app the bot belongs to: %s", type(error).__name__)
        return ""
    return str((response.get("bot") or {}).get("app_id") or "")


# Deliveries that only report what the bot did itself.

# events about the bot itself that Bolt does not ignore
KEPT_OWN_EVENT_TYPES = IgnoringSelfEvents.events_that_should_be_kept


def is_own_event(body: dict[str, Any], own_ids: Collection[str]) -> bool:
    """Return whether a delivery only reports what the bot did itself; `own_ids` are the bot's ids.

    Most deliveries are of this kind. Bolt's own check comes only after it has built a client, a
    context and a request for each, and ignores deletions of the bot's messages.
    """
    event = body.get("event")
    if not own_ids or not isinstance(event, dict) or event.get("type") in KEPT_OWN_EVENT_TYPES:
        return False
    if views.is_deletion(event):
        return False
    return event.get("bot_id") in own_ids or extract_user_id(body) in own_ids


# What an error from Slack means for trying again.

# Answers that say this workspace or app does not have the feature.
FEATURE_MISSING_CODES = {
    "unknown_method",
    "feature_disabled",
    "not_agent_app",
    "missing_scope",
    "not_allowed_token_type",
    "no_permission",
}
MAX_RETRY_AFTER_SECONDS = 300.0  # longer waits that Slack asks for are cut to this
RATE_LIMITED_CODE = "ratelimited"
HTTP_NOT_FOUND = 404  # for a missing feature, from a server without Slack's error codes


def get_http_status(error: SlackApiError) -> int:
    """Return the HTTP status of the answer that this error reports; 200 if there is none."""
    return int(getattr(error.response, "status_code", 200))


def get_genuine_slack_error_code(error: SlackApiError) -> str:
    """Return Slack's own error code; "" if the answer is not Slack's, such as a page of HTML."""
    if is_rate_limited(error):
        return RATE_LIMITED_CODE
    code = slack_codes.extract_error_code(error)
    return code if get_http_status(error) < slack_codes.HTTP_SERVER_ERROR else ""


def classify_error(error: SlackApiError) -> slack_codes.ErrorMeaning:
    """Return what a Slack error means for the call: final, temporary, token refused, or unknown."""
    method = str(getattr(error.response, "api_url", "")).rpartition("/")[2].partition("?")[0]
    code, status = slack_codes.extract_error_code(error), get_http_status(error)
    return slack_codes.classify_error_code(code, status=status, method=method)


def is_rate_limited(error: SlackApiError) -> bool:
    """Return whether Slack refused the call because there were too many calls."""
    return (
        get_http_status(error) == slack_codes.HTTP_TOO_MANY_REQUESTS
        or slack_codes.extract_error_code(error) in slack_codes.RATE_LIMITED_CODES
    )


def is_permanent_refusal(error: SlackApiError) -> bool:
    """Return whether Slack refused the call and would refuse it again."""
    return classify_error(error) is slack_codes.ErrorMeaning.FINAL


def is_token_refused(error: SlackApiError) -> bool:
    """Return whether Slack refuses the bot's token, whatever the call."""
    return classify_error(error) is slack_codes.ErrorMeaning.TOKEN


def is_feature_missing(error: SlackApiError) -> bool:
    """Return whether the error says that the workspace or app does not have the feature at all."""
    return (
        slack_codes.extract_error_code(error) in FEATURE_MISSING_CODES
        or get_http_status(error) == HTTP_NOT_FOUND
    )


def get_retry_after_seconds(error: SlackApiError) -> float:
    """Return for how many seconds Slack asks to wait; 0 if it names no usable number."""
    return parse_retry_after(error.response.headers.get("Retry-After"))


def parse_retry_after(header: object) -> float:
    """Return the seconds in a Retry-After header, up to a limit; 0 for none or no number."""
    try:
        seconds = float(str(header or 0))
    except ValueError:
        return 0.0
    return min(seconds, MAX_RETRY_AFTER_SECONDS) if math.isfinite(seconds) and seconds > 0 else 0.0


# Pauses that Slack asks for: per method, and for posts per channel.

PER_CHANNEL_METHODS = {"chat.postMessage"}  # Slack limits these per channel


class RateLimitPauses:
    """The pauses that Slack has asked one client for; any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._end_by_scope: dict[tuple[str, str], datetime] = {}  # by (method, channel)
        self._handle_new_pause: Callable[[str, str, datetime], None] = lambda *_: None

    def raise_if_paused(self, method: str, channel: str) -> None:
        """Raise SlackApiError like Slack's own 429 answer if this call falls into a pause."""
        end = self._end_by_scope.get(_build_pause_key(method, channel))
        if end is None or (seconds_left := (end - self._clock.now()).total_seconds()) <= 0:
            return
        text = f"Slack limits {method}, which was not asked again"
        headers = {"Retry-After": str(math.ceil(seconds_left))}
        status = slack_codes.HTTP_TOO_MANY_REQUESTS
        raise _build_error(method, text, "ratelimited", headers=headers, status_code=status)

    def start_pause_if_asked(self, method: str, channel: str, error: SlackApiError) -> bool:
        """Begin a pause if this error asks for one; return whether it does."""
        if (seconds := get_retry_after_seconds(error)) <= 0:
            return False
        scope = _build_pause_key(method, channel)
        end = self._clock.now() + timedelta(seconds=seconds)
        self.add_pauses({scope: end})
        self._handle_new_pause(*scope, end)
        return True

    def set_pause_callback(self, tell: Callable[[str, str, datetime], None]) -> None:
        """Call `tell` with method, channel and end of each pause that begins here.

        So other replicas can keep the pause as well.
        """
        self._handle_new_pause = tell

    def add_pauses(self, found: Mapping[tuple[str, str], datetime]) -> None:
        """Add these pauses, by method and channel; of two for the same, the later end counts."""
        now = self._clock.now()
        with self._lock:
            ends = {each: until for each, until in self._end_by_scope.items() if until > now}
            self._end_by_scope = ends | {
                each: max(until, ends.get(each, until)) for each, until in found.items()
            }


def _build_error(method: str, text: str, code: str, **answer: Any) -> SlackApiError:
    """Return an error as if Slack had answered with this code; `answer`: of SlackResponse."""
    data = {"ok": False, "error": code}
    given = {"headers": {}, "status_code": 200, **answer}
    response = SlackResponse(
        client=None, http_verb="POST", api_url=method, req_args={}, data=data, **given
    )
    return SlackApiError(text, response)  # type: ignore[no-untyped-call]  # slack_sdk's own


def _build_pause_key(method: str, channel: str) -> tuple[str, str]:
    return method, channel if method in PER_CHANNEL_METHODS else ""


ListWorkspaces = Callable[[], Collection[str]]
POST_METHOD, START_STREAM_METHOD = "chat.postMessage", "chat.startStream"
POSTING_METHODS = (POST_METHOD, START_STREAM_METHOD, "files.completeUploadExternal")
# what slack_sdk raises if an answer is not text, or not a JSON object
UNREADABLE_ANSWER_ERRORS = UnicodeDecodeError, LookupError, AttributeError
# fields without which an answer is unusable
REQUIRED_FIELDS_BY_METHOD = {
    "chat.getPermalink": ("permalink",),
    "chat.postMessage": ("ts",),
    START_STREAM_METHOD: ("ts",),
    "conversations.history": ("messages",),
    "conversations.info": ("channel",),
    "conversations.list": ("channels",),
    "conversations.members": ("members",),
    "conversations.open": ("channel",),
    "conversations.replies": ("messages",),
    "files.completeUploadExternal": ("files",),
    "files.getUploadURLExternal": ("file_id", "upload_url"),
    "usergroups.list": ("usergroups",),
    "users.conversations": ("channels",),
    "users.info": ("user",),
    "users.list": ("members",),
}
MAX_REMEMBERED_THREADS = 5_000  # threads whose last post is known
MAX_IDLE_SECONDS = 15.0  # longest pause before reuse: servers allow at least that
MAX_IDLE_CONNECTIONS = 16  # kept for later; more may be in use at once


class SlackClient(WebClient):
    """A WebClient for any number of threads that keeps its connections to `base_url` open.

    Calls through a proxy or to another address open a new connection each.
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        clock: Clock | None = None,
        tracer: Tracer | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of WebClient; each call is reported to `tracer` as a span.

        With a `clock`, pauses that Slack asks for are kept: a call within one fails as Slack would
        refuse it, without being sent. Without a clock, each call is sent.
        """
        # slack_sdk checks this logger's own level: if it is not set, each request and each answer
        # is formatted as text that nobody reads.
        log.setLevel(log.getEffectiveLevel())
        super().__init__(token, **{"logger": log, "ssl": _get_default_tls_context(), **options})
        self._origin = urlsplit(self.base_url)[:2]
        scheme, host = self._origin
        self._is_direct = not self.proxy and (
            scheme not in getproxies() or bool(proxy_bypass(host))
        )
        self._connections = _ConnectionPool(self._create_connection)
        self.on_close: Callable[[], None] = lambda: None
        # with an organisation's token: returns the workspaces that it may be used in
        self.list_granted: ListWorkspaces | None = None
        self._lock = threading.Lock()
        self._post_numbers = itertools.count(1)
        # by channel and thread: the last post's number, and whether it is a stream, which may grow
        self._posts: OrderedDict[tuple[str, str], tuple[int, bool]] = OrderedDict()
        self.pauses = RateLimitPauses(clock) if clock else None
        self._tracer = tracer or Tracer()

    def close(self) -> None:
        """Close the open connections; a later call opens a connection for itself."""
        self.on_close()
        self._connections.close()

    def get_last_post_sequence_number(self, channel: str, thread_ts: str) -> int:
        """Return a number that identifies this client's last post in a thread; 0 if none is known.

        Each post gets a new number.
        """
        return self._posts.get((channel, thread_ts), (0, False))[0]

    def is_last_post_stream(self, channel: str, thread_ts: str) -> bool:
        """Return whether the last message that this client posted in that thread is a stream."""
        return self._posts.get((channel, thread_ts), (0, False))[1]

    def api_call(self, api_method: str, **arguments: Any) -> SlackResponse:
        """Call Slack as WebClient does, keeping pauses and remembering the threads posted in.

        With an organisation's token, some methods are called in each of its workspaces
        (`bot.slack.organisation`). Raises SlackApiError also within a pause, and ConnectionError
        for an unreadable or incomplete answer.
        """
        if self.list_granted is not None and api_method in organisation.RESULT_KEY_BY_METHOD:
            call = functools.partial(self._call_once, api_method)
            return organisation.call_in_workspaces(
                call, api_method, arguments, sorted(self.list_granted())
            )
        return self._call_once(api_method, **arguments)

    def _call_once(self, api_method: str, **arguments: Any) -> SlackResponse:
        parameters = arguments.get("json") or arguments.get("params") or {}
        channel = parameters.get("channel") or parameters.get("channel_id") or ""
        if self.pauses is not None:
            self.pauses.raise_if_paused(api_method, channel)
        with self._tracer.start_span(WorkKind.SLACK, api_method) as span:
            try:
                response = super().api_call(api_method, **arguments)
            except SlackApiError as error:
                span.end = slack_codes.extract_error_code(error) or str(get_http_status(error))
                if self.pauses is not None and self.pauses.start_pause_if_asked(
                    api_method, channel, error
                ):
                    self._tracer.report_incident(Incident.PAUSE, api_method)
                raise
            except UNREADABLE_ANSWER_ERRORS as error:
                raise ConnectionError(f"Slack's answer to {api_method} cannot be read") from error
            for name in REQUIRED_FIELDS_BY_METHOD.get(api_method, ()):
                if _is_missing_value(response.get(name)):
                    raise ConnectionError(f"Slack's answer to {api_method} does not say the {name}")
        if api_method == POST_METHOD and parameters.get("thread_ts"):
            self._require_in_thread(response)
        if api_method in POSTING_METHODS:
            place = channel, parameters.get("thread_ts") or ""
            with self._lock:
                self._posts[place] = next(self._post_numbers), api_method == START_STREAM_METHOD
                self._posts.move_to_end(place)
                if len(self._posts) > MAX_REMEMBERED_THREADS:
                    self._posts.popitem(last=False)
        return response

    def _require_in_thread(self, response: SlackResponse) -> None:
        """Delete a reply that Slack has posted outside of its thread, and raise SlackApiError.

        Slack does that if the thread's first message was deleted before anybody replied. In a
        direct message the reply stays: nobody else can read it there.
        """
        posted, channel = response.get("message"), str(response.get("channel"))
        if not isinstance(posted, dict) or posted.get("thread_ts") or channel.startswith("D"):
            return
        try:
            self.chat_delete(channel=channel, ts=response["ts"])
        except (SlackApiError, HTTPException, OSError) as error:
            log.warning("a reply stays outside of its thread, which is gone: %s", error)
            return
        raise _build_error(POST_METHOD, "the thread is gone", "thread_not_found")

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        """Send one request and return its answer as slack_sdk does.

        Raises HTTPError for a status that is not 2xx; URLError, other OSErrors and HTTPExceptions
        for failures on the way.
        """
        if not self._is_direct or (req.type, req.host) != self._origin:
            return super()._perform_urllib_http_request_internal(url, req)
        response, read = self._send_request(req)
        headers = response.headers
        if not 200 <= response.status < 300:
            raise HTTPError(url, response.status, response.reason, headers, io.BytesIO(read))
        body: bytes | str = read
        if headers.get_content_type() != "application/gzip":  # used for analytics files
            body = read.decode(headers.get_content_charset() or "utf-8")
        return {"status": response.status, "headers": headers, "body": body}

    def _send_request(self, req: Request) -> tuple[HTTPResponse, bytes]:
        connection = self._connections.acquire()
        try:
            try:
                connection.request(req.get_method(), req.selector, req.data, req.headers)
            except OSError as error:
                raise URLError(error) from error
            response = connection.getresponse()
            body = response.read()
        except BaseException:
            connection.close()
            raise
        self._connections.release(connection)
        return response, body

    def _create_connection(self) -> HTTPConnection:
        scheme, host = self._origin
        if scheme == "https":
            return HTTPSConnection(host, timeout=self.timeout, context=self.ssl)
        return HTTPConnection(host, timeout=self.timeout)


def _is_missing_value(value: object) -> bool:
    """Return whether a value is empty, or an object without an id."""
    return value in (None, "") or (isinstance(value, dict) and not value.get("id"))


@functools.cache
def _get_default_tls_context() -> ssl.SSLContext:
    """Return the TLS context that urllib and slack_sdk's sockets use, created only once.

    Creating it reads the system's certificates: 20 ms of processor time, and a megabyte.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _ConnectionPool:
    """Open connections that no call is using, the latest used first; any thread."""

    def __init__(self, make: Callable[[], HTTPConnection]) -> None:
        self._create = make
        self._lock = threading.Lock()
        self._idle: deque[tuple[HTTPConnection, float]] = deque()  # (connection, last use)
        self._closed = False

    def acquire(self) -> HTTPConnection:
        """Return an open idle connection, or a new one that opens with its first request."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, used = self._idle.pop()
            if time.monotonic() - used < MAX_IDLE_SECONDS and _is_connection_reusable(connection):
                return connection
            connection.close()
        return self._create()

    def release(self, connection: HTTPConnection) -> None:
        """Keep a connection whose answer has been read, unless its server has closed it."""
        if connection.sock is None:
            return
        now, dropped = time.monotonic(), []
        with self._lock:
            self._idle.append((connection, now))
            while self._idle and (
                self._closed
                or len(self._idle) > MAX_IDLE_CONNECTIONS
                or now - self._idle[0][1] >= MAX_IDLE_SECONDS
            ):
                dropped.append(self._idle.popleft()[0])
        for each in dropped:
            each.close()

    def close(self) -> None:
        """Close all idle connections, and keep none from now on."""
        with self._lock:
            self._closed = True
            dropped, self._idle = self._idle, deque()
        for connection, _ in dropped:
            connection.close()


def _is_connection_reusable(connection: HTTPConnection) -> bool:
    """Return whether the server has sent nothing, not even the end, since the last answer."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return not selector.select(0)
