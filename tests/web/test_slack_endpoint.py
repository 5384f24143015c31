"""Slack's HTTP endpoint by itself: failures, stops, and slow clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from slack_bolt import BoltResponse

from bot.clock import SystemClock
from bot.config.connection_settings import ListeningAddress
from bot.config.startup import StartupError
from bot.http import server as module
from bot.http.http_side import build_web_app
from bot.http.server import WebServer
from bot.http.slack_endpoint import FORWARDED_HEADER, SignatureChecker, SlackEndpoint
from bot.identity import Identity
from bot.signals import UnacknowledgedDeliveries
from bot.slack.client import SlackClient
from bot.slack.listeners import build_bolt_app
from tests.web.requests import Sender, build_event, build_head

SECRET = "secret-of-the-app"


class EndpointHarness:
    """A bare Bolt app behind the endpoint; it waits for `go`, and fails while `fails` is set."""

    def __init__(self) -> None:
        self.go, self.fails, self.came = threading.Event(), threading.Event(), threading.Event()
        self.go.set()
        self.taken = 0
        bolt = build_bolt_app(
            Identity("T0COUNTER", "UBOT00001", "BBOT00001"), SlackClient("xoxb-1")
        )
        bolt.middleware(self._take)
        self.arrivals = UnacknowledgedDeliveries()
        signatures = SignatureChecker(SECRET, SystemClock())
        self.door = SlackEndpoint(bolt, signatures, self.arrivals, {"UBOT00001"})
        self.server = WebServer.create_listening_server(ListeningAddress("127.0.0.1", 0))
        self.server.start(build_web_app({}, self.door))

    def _take(self) -> BoltResponse:
        self.came.set()
        self.go.wait(10)
        if self.fails.is_set():
            raise OSError("the disk is full")
        self.taken += 1
        return BoltResponse(status=200)

    @property
    def sender(self) -> Sender:
        """Somebody who signs requests like Slack."""
        return Sender(self.server.url, SECRET, int(SystemClock().now().timestamp()))


@pytest.fixture
def served() -> Iterator[EndpointHarness]:
    """An endpoint, until the end of the test."""
    made = EndpointHarness()
    yield made
    made.go.set()
    made.server.close()


def test_a_request_that_was_not_stored_may_be_sent_again_at_once(served: EndpointHarness) -> None:
    """Slack may send the very same request within the second, which is no replay."""
    sender, body = served.sender, build_event("the disk is full")
    headers = sender.headers(body)
    served.fails.set()
    assert sender.post(body, headers) == 500
    served.fails.clear()
    assert sender.post(body, headers) == 200
    assert sender.post(body, headers) == 409
    assert served.taken == 1


def test_a_repeated_request_is_refused_until_the_first_is_stored(served: EndpointHarness) -> None:
    """Nothing is acknowledged before it is stored."""
    sender, body = served.sender, build_event("slowly")
    headers = sender.headers(body)
    served.go.clear()
    found: list[int] = []
    first = threading.Thread(target=lambda: found.append(sender.post(body, headers)))
    first.start()
    assert served.came.wait(30)
    assert sender.post(body, headers, **{"X-Slack-Retry-Num": "1"}) == 409
    # forwarded by another process of ours, which will ask again
    assert sender.post(body, headers, **{FORWARDED_HEADER: "1"}) == 503
    served.go.set()
    first.join(10)
    assert (found, served.taken) == ([200], 1)


def test_a_closing_endpoint_finishes_requests_and_refuses_new_ones(served: EndpointHarness) -> None:
    """A request that is being stored is acknowledged."""
    served.go.clear()
    found: list[int] = []
    first = threading.Thread(
        target=lambda: found.append(served.sender.post(build_event("in time")))
    )
    first.start()
    assert served.came.wait(30)
    served.door.close()
    assert served.sender.post(build_event("too late")) == 503
    ending = threading.Thread(target=served.server.close)
    ending.start()
    served.go.set()
    ending.join(10)
    first.join(10)
    assert (found, served.taken) == ([200], 1)
    with pytest.raises(OSError, match="refused"):
        served.sender.post(build_event("to nobody"))


def test_the_bots_own_messages_do_not_reach_bolt(served: EndpointHarness) -> None:
    """They are acknowledged."""
    echo = {"event": {"type": "message", "user": "UBOT00001", "text": "I said it"}}
    assert served.sender.post(build_event("", **echo)) == 200
    assert served.taken == 0


@pytest.mark.parametrize("sent", [b"", b"POST /slack/eve", build_head([])[:-2]])
def test_a_connection_without_complete_headers_is_closed(
    served: EndpointHarness, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """No request begins on it, or one does not go on."""
    monkeypatch.setattr(module, "HEADERS_TIMEOUT_SECONDS", 0.1)
    assert served.sender.raw(sent) == 0


def test_a_second_request_with_incomplete_headers_is_closed(
    served: EndpointHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request on the same connection is answered."""
    monkeypatch.setattr(module, "HEADERS_TIMEOUT_SECONDS", 0.1)
    url = urlsplit(served.server.url)
    with socket.create_connection((url.hostname, url.port or 0), timeout=10) as line:
        line.sendall(build_head([], "GET", "/nowhere") + b"GET /ano")
        assert line.makefile("rb").read().count(b"HTTP/1.1") == 1


def test_a_slow_answer_is_not_cut_off(
    served: EndpointHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time-out of headers does not apply while the listeners work."""
    monkeypatch.setattr(module, "HEADERS_TIMEOUT_SECONDS", 0.05)
    served.go.clear()
    threading.Timer(0.3, served.go.set).start()
    assert served.sender.post(build_event("thinking")) == 200


def test_the_error_about_an_address_in_use_names_it(served: EndpointHarness) -> None:
    """It says why the address cannot be listened to."""
    port = int(served.server.url.rpartition(":")[2])
    with pytest.raises(StartupError, match=r"127\.0\.0\.1:\d+ cannot be listened to"):
        WebServer.create_listening_server(ListeningAddress("127.0.0.1", port))
