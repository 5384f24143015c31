"""The way in over HTTP by itself: what fails, what stops, who lets others wait."""

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
from tests.web.requests import Sender, event, head

SECRET = "secret-of-the-app"


class Served:
    """A bare Bolt app behind the door; what comes waits for `go` and fails while `fails` is set."""

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
        """Slack."""
        return Sender(self.server.url, SECRET, int(SystemClock().now().timestamp()))


@pytest.fixture
def served() -> Iterator[Served]:
    """One, until the end of the test."""
    made = Served()
    yield made
    made.go.set()
    made.server.close()


def test_what_failed_may_come_again_at_once(served: Served) -> None:
    """Slack may send the very same again within the second: what was not stored is no replay."""
    sender, body = served.sender, event("the disk is full")
    headers = sender.headers(body)
    served.fails.set()
    assert sender.post(body, headers) == 500
    served.fails.clear()
    assert sender.post(body, headers) == 200
    assert sender.post(body, headers) == 409
    assert served.taken == 1


def test_a_replay_of_what_is_under_way(served: Served) -> None:
    """Nothing is acknowledged before it is stored, whoever asks for it twice."""
    sender, body = served.sender, event("slowly")
    headers = sender.headers(body)
    served.go.clear()
    found: list[int] = []
    first = threading.Thread(target=lambda: found.append(sender.post(body, headers)))
    first.start()
    assert served.came.wait(30)
    assert sender.post(body, headers, **{"X-Slack-Retry-Num": "1"}) == 409
    # another process of ours has it as well: that one asks again
    assert sender.post(body, headers, **{FORWARDED_HEADER: "1"}) == 503
    served.go.set()
    first.join(10)
    assert (found, served.taken) == ([200], 1)


def test_closing_lets_in_nothing_and_acknowledges_what_came(served: Served) -> None:
    """What is being stored is acknowledged; what comes then is refused, and taken nowhere."""
    served.go.clear()
    found: list[int] = []
    first = threading.Thread(target=lambda: found.append(served.sender.post(event("in time"))))
    first.start()
    assert served.came.wait(30)
    served.door.close()
    assert served.sender.post(event("too late")) == 503
    ending = threading.Thread(target=served.server.close)
    ending.start()
    served.go.set()
    ending.join(10)
    first.join(10)
    assert (found, served.taken) == ([200], 1)
    with pytest.raises(OSError, match="refused"):
        served.sender.post(event("to nobody"))


def test_echoes_go_no_further(served: Served) -> None:
    """What the bot did itself is acknowledged before Bolt sees it."""
    echo = {"event": {"type": "message", "user": "UBOT00001", "text": "I said it"}}
    assert served.sender.post(event("", **echo)) == 200
    assert served.taken == 0


@pytest.mark.parametrize("sent", [b"", b"POST /slack/eve", head([])[:-2]])
def test_headers_that_do_not_come(
    served: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """A connection on which no request begins, or none goes on, is closed."""
    monkeypatch.setattr(module, "HEADERS_TIMEOUT_SECONDS", 0.1)
    assert served.sender.raw(sent) == 0


def test_headers_of_a_second_request_that_do_not_come(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holds for a later request on the same connection."""
    monkeypatch.setattr(module, "HEADERS_TIMEOUT_SECONDS", 0.1)
    url = urlsplit(served.server.url)
    with socket.create_connection((url.hostname, url.port or 0), timeout=10) as line:
        line.sendall(head([], "GET", "/nowhere") + b"GET /ano")
        assert line.makefile("rb").read().count(b"HTTP/1.1") == 1


def test_a_slow_answer_is_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the headers are there, nothing is cut off while the listeners work."""
    monkeypatch.setattr(module, "HEADERS_TIMEOUT_SECONDS", 0.05)
    served.go.clear()
    threading.Timer(0.3, served.go.set).start()
    assert served.sender.post(event("thinking")) == 200


def test_an_address_that_is_taken(served: Served) -> None:
    """Who cannot listen says where and why."""
    port = int(served.server.url.rpartition(":")[2])
    with pytest.raises(StartupError, match=r"127\.0\.0\.1:\d+ cannot be listened to"):
        WebServer.create_listening_server(ListeningAddress("127.0.0.1", port))
