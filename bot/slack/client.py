"""slack_sdk's Web API client on connections that stay open.

Only how a request travels is ours; arguments, answers, errors and retries are slack_sdk's. Nothing
is sent twice here: a connection that Slack has closed is noticed before it is used, and one that
breaks afterwards raises what urllib would have raised. Nor is Slack asked while it wants a pause.
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
from slack_sdk.http_retry import HttpRequest, HttpResponse, RetryState
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    RateLimitErrorRetryHandler,
    ServerErrorRetryHandler,
)
from slack_sdk.web import SlackResponse

from bot.clock import Clock
from bot.config.settings import Settings
from bot.monitoring.spans import Incident, Tracer, Work
from bot.slack_codes import CERTAIN, CODE, LIMITED, TOO_MANY, Meaning, code_of, meaning_of

# Which app a token is of, as Slack says.

log = logging.getLogger("countersign.web_api")


def app_of(client: WebClient, bot: str) -> str:
    """Return the id of the app whose bot that is; "" where Slack does not say.

    `bot` is its id as a bot (B…), "" where that is not known.
    """
    if not bot:
        return ""
    try:
        found = client.bots_info(bot=bot)
    except (SlackApiError, SlackClientError, HTTPException, OSError) as error:
        log.info("of which app the bot is cannot be asked: %s", type(error).__name__)
        return ""
    return str((found.get("bot") or {}).get("app_id") or "")


# Which of Slack's deliveries only tell the bot what it did itself.

NO_ECHOES = IgnoringSelfEvents.events_that_should_be_kept  # though the bot itself may be named


def is_echo(body: dict[str, Any], own: Collection[str]) -> bool:
    """Return whether this is an event of what the bot did itself.

    Bolt passes over those, too, but only after it has made a client, a context and a request of
    each; most of what arrives are such.
    """
    event = body.get("event")
    if not own or not isinstance(event, dict) or event.get("type") in NO_ECHOES:
        return False
    return event.get("bot_id") in own or extract_user_id(body) in own


# What the errors that Slack answers with mean for whoever may try again.

# Answers that say this workspace or app does not have the feature.
ABSENT = {
    "unknown_method",
    "feature_disabled",
    "not_agent_app",
    "missing_scope",
    "not_allowed_token_type",
    "no_permission",
}
LONGEST = 300.0  # seconds that are waited at most before Slack is asked again
RATE_LIMITED = "ratelimited"
NOT_FOUND = 404  # the same, from a server that does not say it in Slack's words


def status_of(error: SlackApiError) -> int:
    """Return the HTTP status that an error came with."""
    return int(getattr(error.response, "status_code", 200))


def code_said(error: SlackApiError) -> str:
    """Return the code of an answer that is Slack's own; "" for any other, as a page of HTML."""
    if is_limited(error):
        return RATE_LIMITED
    code = code_of(error)
    return code if CODE.fullmatch(code) and status_of(error) < CERTAIN else ""


def meaning(error: SlackApiError) -> Meaning:
    """Return what this answer says about the call: final, passing, the token, or nothing."""
    method = str(getattr(error.response, "api_url", "")).rpartition("/")[2].partition("?")[0]
    return meaning_of(code_of(error), status=status_of(error), method=method)


def is_limited(error: SlackApiError) -> bool:
    """Return whether Slack took nothing, for there was too much of it."""
    return status_of(error) == TOO_MANY or code_of(error) in LIMITED


def is_final(error: SlackApiError) -> bool:
    """Return whether Slack said no, and will say so again."""
    return meaning(error) is Meaning.FINAL


def is_token(error: SlackApiError) -> bool:
    """Return whether Slack does not let the bot in, whatever it asks."""
    return meaning(error) is Meaning.TOKEN


def is_absent(error: SlackApiError) -> bool:
    """Return whether this workspace or app does not have the feature at all."""
    return code_of(error) in ABSENT or status_of(error) == NOT_FOUND


def seconds_asked(error: SlackApiError) -> float:
    """Return for how long Slack asks to wait; 0 where it does not say, or nothing sensible."""
    return seconds_in(error.response.headers.get("Retry-After"))


def seconds_in(header: object) -> float:
    """Return the seconds of a Retry-After, of which nobody waits longer than `LONGEST`; 0 for
    none, and for what is no number of seconds.
    """
    try:
        seconds = float(str(header or 0))
    except ValueError:
        return 0.0
    return min(seconds, LONGEST) if math.isfinite(seconds) and seconds > 0 else 0.0


# How long Slack wants to be asked no more: for a method, and for posts for one channel.

BY_CHANNEL = {"chat.postMessage"}  # Slack counts these for each channel by itself


class Pauses:
    """Of one client; any thread."""

    def __init__(self, clock: Clock) -> None:
        """Everything may be asked."""
        self._clock = clock
        self._lock = threading.Lock()
        self._ends: dict[tuple[str, str], datetime] = {}  # by method and channel
        self._tell: Callable[[str, str, datetime], None] = lambda *_: None

    def check(self, method: str, channel: str) -> None:
        """Raise SlackApiError, as Slack's own 429 does, while a pause lasts."""
        end = self._ends.get(_scope(method, channel))
        if end is None or (left := (end - self._clock.now()).total_seconds()) <= 0:
            return
        response = SlackResponse(
            client=None,
            http_verb="POST",
            api_url=method,
            req_args={},
            data={"ok": False, "error": "ratelimited"},
            headers={"Retry-After": str(math.ceil(left))},
            status_code=TOO_MANY,
        )
        text = f"Slack limits {method}, which was not asked again"
        raise SlackApiError(text, response)  # type: ignore[no-untyped-call]  # slack_sdk's own

    def heed(self, method: str, channel: str, error: SlackApiError) -> bool:
        """Begin a pause where an answer asks for one; returns whether it does."""
        if (seconds := seconds_asked(error)) <= 0:
            return False
        scope, end = _scope(method, channel), self._clock.now() + timedelta(seconds=seconds)
        self.learn({scope: end})
        self._tell(*scope, end)
        return True

    def share(self, tell: Callable[[str, str, datetime], None]) -> None:
        """Tell of each pause that begins here, so that others keep it as well."""
        self._tell = tell

    def learn(self, found: Mapping[tuple[str, str], datetime]) -> None:
        """Keep these pauses as well, by method and channel; the longer of two holds."""
        now = self._clock.now()
        with self._lock:
            ends = {each: until for each, until in self._ends.items() if until > now}
            self._ends = ends | {
                each: max(until, ends.get(each, until)) for each, until in found.items()
            }


def _scope(method: str, channel: str) -> tuple[str, str]:
    return method, channel if method in BY_CHANNEL else ""


STREAM = "chat.startStream"
POSTS = ("chat.postMessage", STREAM, "files.completeUploadExternal")
# what slack_sdk raises where an answer is no text, or no JSON object
UNREADABLE = UnicodeDecodeError, LookupError, AttributeError
# what is asked for: an answer without it is none
NEEDED = {
    "chat.getPermalink": ("permalink",),
    "chat.postMessage": ("ts",),
    STREAM: ("ts",),
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
LONGEST_READ = 30.0  # seconds that a look-up waits where Slack limits it, before it tries again
REMEMBERED = 5_000  # threads whose last post is known
IDLE = 15.0  # seconds after which a connection is not used again: servers allow at least that
KEPT = 16  # connections that are kept for later; more may be in use at once


def make_clients(
    settings: Settings, clock: Clock, tracer: Tracer
) -> tuple[SlackClient, SlackClient]:
    """Make the client that posts, and the one for what only reads."""
    token, url = settings.slack_bot_token.get_secret_value(), settings.slack_api_url
    posting = SlackClient(
        token, clock=clock, tracer=tracer, base_url=url, retry_handlers=[], timeout=15
    )
    return posting, reading_client(token, url, tracer)


def reading_client(token: str, base_url: str, tracer: Tracer | None = None) -> SlackClient:
    """Make the client for what only reads: it tries again, and waits where Slack limits it.

    Closing it ends the waiting, so that nothing that stops waits for Slack.
    """
    patience = _Patience()
    client = SlackClient(
        token,
        base_url=base_url,
        tracer=tracer,
        timeout=5,
        retry_handlers=[
            ConnectionErrorRetryHandler(max_retry_count=2),
            ServerErrorRetryHandler(max_retry_count=2),
            patience,
        ],
    )
    client.on_close = patience.ended.set
    return client


class _Patience(RateLimitErrorRetryHandler):
    """Waits as long as a 429 says, on the thread that asked, unless the client is closed."""

    def __init__(self) -> None:
        """Two tries more."""
        super().__init__(max_retry_count=2)
        self.ended = threading.Event()

    def _can_retry(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        limited = response is not None and response.status_code == 429
        return limited and not self.ended.is_set()

    def prepare_for_next_attempt(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> None:
        """Wait."""
        headers = {
            name.lower(): value for name, value in (response.headers if response else {}).items()
        }
        seconds = seconds_in((headers.get("retry-after") or ["1"])[0])
        self.ended.wait(min(seconds or 1.0, LONGEST_READ))
        state.next_attempt_requested = True
        state.increment_current_attempt()


class SlackClient(WebClient):
    """A WebClient for any number of threads that keeps its connections to `base_url` open.

    Through a proxy, and to any other address, each call has a connection of its own.
    """

    def __init__(
        self,
        token: str | None = None,
        *,
        clock: Clock | None = None,
        tracer: Tracer | None = None,
        **options: Any,
    ) -> None:
        """`options` are those of WebClient; each call is a span of `tracer`.

        By a `clock` it keeps the pauses that Slack asks for: a call that comes too early is refused
        as Slack would, unasked. Without, each call is sent.
        """
        # slack_sdk looks at this logger's own level: left unset, it puts each request and each
        # answer into a text that nobody reads.
        log.setLevel(log.getEffectiveLevel())
        super().__init__(token, **{"logger": log, "ssl": _usual_context(), **options})
        self._origin = urlsplit(self.base_url)[:2]
        scheme, host = self._origin
        self._is_direct = not self.proxy and (
            scheme not in getproxies() or bool(proxy_bypass(host))
        )
        self._connections = _Connections(self._connection)
        self.on_close: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        # by channel and thread: its number, and whether it is a stream, which may go on
        self._posts: OrderedDict[tuple[str, str], tuple[int, bool]] = OrderedDict()
        self.pauses = Pauses(clock) if clock else None
        self._tracer = tracer or Tracer()

    def close(self) -> None:
        """Close the connections; a call that comes later opens one of its own."""
        self.on_close()
        self._connections.close()

    def last_post(self, channel: str, thread_ts: str) -> int:
        """A number for the last message that this client posted in that thread.

        It differs after each; 0 where none is remembered.
        """
        return self._posts.get((channel, thread_ts), (0, False))[0]

    def last_is_stream(self, channel: str, thread_ts: str) -> bool:
        """Return whether the last message that this client posted in that thread is a stream."""
        return self._posts.get((channel, thread_ts), (0, False))[1]

    def api_call(self, api_method: str, **arguments: Any) -> SlackResponse:
        """As WebClient's; keeps the pauses, and remembers where it posted."""
        given = arguments.get("json") or arguments.get("params") or {}
        channel = given.get("channel") or given.get("channel_id") or ""
        if self.pauses is not None:
            self.pauses.check(api_method, channel)
        with self._tracer.start_span(Work.SLACK, api_method) as span:
            try:
                response = super().api_call(api_method, **arguments)
            except SlackApiError as error:
                span.end = code_of(error) or str(status_of(error))
                if self.pauses is not None and self.pauses.heed(api_method, channel, error):
                    self._tracer.happened(Incident.PAUSE, api_method)
                raise
            except UNREADABLE as error:
                raise ConnectionError(f"Slack's answer to {api_method} cannot be read") from error
            for name in NEEDED.get(api_method, ()):
                if _lacks(response.get(name)):
                    raise ConnectionError(f"Slack's answer to {api_method} does not say the {name}")
        if api_method in POSTS:
            place = channel, given.get("thread_ts") or ""
            with self._lock:
                self._posts[place] = next(self._numbers), api_method == STREAM
                self._posts.move_to_end(place)
                if len(self._posts) > REMEMBERED:
                    self._posts.popitem(last=False)
        return response

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        """Send one request and read its answer.

        As slack_sdk's own: HTTPError for what is not 2xx, URLError and other OSErrors and
        HTTPExceptions for what went wrong on the way.
        """
        if not self._is_direct or (req.type, req.host) != self._origin:
            return super()._perform_urllib_http_request_internal(url, req)
        response, read = self._exchange(req)
        headers = response.headers
        if not 200 <= response.status < 300:
            raise HTTPError(url, response.status, response.reason, headers, io.BytesIO(read))
        body: bytes | str = read
        if headers.get_content_type() != "application/gzip":  # as files of analytics are
            body = read.decode(headers.get_content_charset() or "utf-8")
        return {"status": response.status, "headers": headers, "body": body}

    def _exchange(self, req: Request) -> tuple[HTTPResponse, bytes]:
        connection = self._connections.take()
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
        self._connections.give_back(connection)
        return response, body

    def _connection(self) -> HTTPConnection:
        scheme, host = self._origin
        if scheme == "https":
            return HTTPSConnection(host, timeout=self.timeout, context=self.ssl)
        return HTTPConnection(host, timeout=self.timeout)


def _lacks(value: object) -> bool:
    """Return whether that is nothing, or an object that says not even which it is."""
    return value in (None, "") or (isinstance(value, dict) and not value.get("id"))


@functools.cache
def _usual_context() -> ssl.SSLContext:
    """The context that urllib and slack_sdk's sockets make for each connection, made once.

    It reads the system's certificates: 20 ms of processor time, and a megabyte.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Connections:
    """Open connections that no call is using, the latest used first; any thread."""

    def __init__(self, make: Callable[[], HTTPConnection]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._idle: deque[tuple[HTTPConnection, float]] = deque()  # with when it was last used
        self._closed = False

    def take(self) -> HTTPConnection:
        """A connection that is open and silent, or a new one that opens with its first request."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, used = self._idle.pop()
            if time.monotonic() - used < IDLE and _is_silent(connection):
                return connection
            connection.close()
        return self._make()

    def give_back(self, connection: HTTPConnection) -> None:
        """Keep a connection whose answer has been read, unless its server has had enough."""
        if connection.sock is None:
            return
        now, dropped = time.monotonic(), []
        with self._lock:
            self._idle.append((connection, now))
            while self._idle and (
                self._closed or len(self._idle) > KEPT or now - self._idle[0][1] >= IDLE
            ):
                dropped.append(self._idle.popleft()[0])
        for each in dropped:
            each.close()

    def close(self) -> None:
        """Close all, and keep none from now on."""
        with self._lock:
            self._closed = True
            dropped, self._idle = self._idle, deque()
        for connection, _ in dropped:
            connection.close()


def _is_silent(connection: HTTPConnection) -> bool:
    """Whether its server has said nothing since the last answer, the end of the stream included."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return not selector.select(0)
