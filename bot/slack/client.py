"""slack_sdk's Web API client on connections that stay open.

Only how a request travels is ours; arguments, answers, errors and retries are slack_sdk's. Nothing
is sent twice here: a connection that Slack has closed is noticed before it is used, and one that
breaks afterwards raises what urllib would have raised. Nor is Slack asked while it wants a pause.
"""

from __future__ import annotations

import io
import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, getproxies, proxy_bypass

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry import HttpRequest, HttpResponse, RetryState
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    RateLimitErrorRetryHandler,
    ServerErrorRetryHandler,
)
from slack_sdk.web import SlackResponse

from bot.clock import Clock
from bot.http.connections import Connection, Connections, HttpAnswer, media_type
from bot.slack.pauses import Pauses

log = logging.getLogger("countersign.web_api")
POSTS = ("chat.postMessage", "chat.startStream", "files.completeUploadExternal")
GZIP = "application/gzip"  # the type of files of analytics
REMEMBERED = 5_000  # threads whose last post is known


def reading_client(token: str, base_url: str) -> SlackClient:
    """Make the client for what only reads: it tries again, and waits where Slack limits it.

    Closing it ends the waiting, so that nothing that stops waits for Slack.
    """
    patience = _Patience()
    client = SlackClient(
        token,
        base_url=base_url,
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
        self.ended.wait(int((headers.get("retry-after") or ["1"])[0]))
        state.next_attempt_requested = True
        state.increment_current_attempt()


class SlackClient(WebClient):
    """A WebClient for any number of threads that keeps its connections to `base_url` open.

    Through a proxy, and to any other address, each call has a connection of its own.
    """

    def __init__(
        self, token: str | None = None, *, clock: Clock | None = None, **options: Any
    ) -> None:
        """`options` are those of WebClient.

        By a `clock` it keeps the pauses that Slack asks for: a call that comes too early is refused
        as Slack would, unasked. Without, each call is sent.
        """
        # slack_sdk looks at this logger's own level: left unset, it puts each request and each
        # answer into a text that nobody reads.
        log.setLevel(log.getEffectiveLevel())
        super().__init__(token, **{"logger": log, **options})
        self._origin = urlsplit(self.base_url)[:2]
        scheme, host = self._origin
        self._is_direct = not self.proxy and (
            scheme not in getproxies() or bool(proxy_bypass(host))
        )
        self._connections = Connections(self._connection)
        self.on_close: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._posts: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._pauses = Pauses(clock) if clock else None

    def close(self) -> None:
        """Close the connections; a call that comes later opens one of its own."""
        self.on_close()
        self._connections.close()

    def last_post(self, channel: str, thread_ts: str) -> int:
        """A number for the last message that this client posted in that thread.

        It differs after each; 0 where none is remembered.
        """
        return self._posts.get((channel, thread_ts), 0)

    def api_call(self, api_method: str, **arguments: Any) -> SlackResponse:
        """As WebClient's; keeps the pauses, and remembers where it posted."""
        given = arguments.get("json") or arguments.get("params") or {}
        channel = given.get("channel") or given.get("channel_id") or ""
        if self._pauses is None:
            response = super().api_call(api_method, **arguments)
        else:
            self._pauses.check(api_method, channel)
            try:
                response = super().api_call(api_method, **arguments)
            except SlackApiError as error:
                self._pauses.heed(api_method, channel, error)
                raise
        if api_method in POSTS:
            place = channel, given.get("thread_ts") or ""
            with self._lock:
                self._posts[place] = next(self._numbers)
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
        answer = self._exchange(req)
        if not 200 <= answer.status < 300:
            body = io.BytesIO(answer.body)
            raise HTTPError(url, answer.status, answer.reason, answer.message, body)
        headers = answer.headers
        kind, charset = media_type(_named(headers, "content-type"))
        read = answer.body if kind == GZIP else answer.body.decode(charset)
        return {"status": answer.status, "headers": headers, "body": read}

    def _exchange(self, req: Request) -> HttpAnswer:
        connection = self._connections.take()
        body = req.data if isinstance(req.data, bytes) else b""
        try:
            try:
                connection.send(req.get_method(), req.selector, req.headers, body)
            except OSError as error:
                raise URLError(error) from error
            answer = connection.answer()
        except BaseException:
            connection.close()
            raise
        self._connections.give_back(connection)
        return answer

    def _connection(self) -> Connection:
        return Connection(*self._origin, self.timeout, self.ssl)


def _named(headers: Mapping[str, str], name: str) -> str:
    """The header of that name, in whatever case it is written; "" for none."""
    return next((value for key, value in headers.items() if key.lower() == name), "")
