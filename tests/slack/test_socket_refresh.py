"""A connection that takes the place of another: nothing that is said around it is lost or late."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from slack_bolt import BoltResponse

from bot.signals import UnacknowledgedDeliveries
from bot.slack import socket as module
from bot.slack import socket_client
from bot.slack.socket import SocketModeConnection, open_sole_slack_connection
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.records import Delivery
from tests.local_slack import build_local_slack
from tests.slack.test_socket import app_on, settings_of

SOON = 0.3  # seconds within which what arrives is acknowledged
GONE = 1006  # how a connection has ended that nobody closed


class Heard:
    """A real Bolt app on the sandbox, which acknowledges once `go` is set."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.texts: list[str] = []
        self.arrived, self.go = threading.Event(), threading.Event()
        self.go.set()
        app = app_on(sandbox)
        app.middleware(self._take)
        self.slack = SocketModeConnection(app, sandbox.app_token, UnacknowledgedDeliveries())
        self.slack.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
        assert self.slack._is_greeted.wait(30)

    def _take(self, body: dict[str, dict[str, str]]) -> BoltResponse:
        self.texts.append(body["event"]["text"])
        self.arrived.set()
        self.go.wait(10)
        return BoltResponse(status=200)

    @property
    def opened(self) -> int:
        """How many connections were asked for."""
        return sum(each.method == "apps.connections.open" for each in self.sandbox.requests)

    def say(self, text: str) -> Delivery:
        """Somebody says this; how it is delivered."""
        self.sandbox.person("ana").say("support", text)
        return self.sandbox.deliveries[-1]

    def is_asking(self, times: int) -> None:
        """Return once it has asked so many times where to connect."""
        self.sandbox.wait(lambda: self.opened == times)

    def moved(self, number: int) -> None:
        """Return once the connection of this number is there, and the earlier ones are not."""
        closed = number - 1
        self.sandbox.wait(
            lambda: len(self.sandbox.closed) == closed and self.sandbox.connections == 1
        )


def broke(sandbox: Sandbox, times: int) -> None:
    """Return once so many connections have ended without a close frame, and one is there."""
    sandbox.wait(lambda: sandbox.closed.count(GONE) == times and sandbox.connections == 1)


@pytest.fixture
def heard() -> Iterator[Heard]:
    """It is connected."""
    with build_local_slack() as sandbox:
        made = Heard(sandbox)
        yield made
        made.go.set()
        made.slack.close()


def lag(delivery: Delivery) -> float:
    """Seconds from when it was sent to its acknowledgement."""
    assert delivery.wait() == "acked"
    assert delivery.sent_at is not None
    assert delivery.acked_at is not None
    return delivery.acked_at - delivery.sent_at


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "link_disabled"])
def test_what_is_said_right_after_a_refresh_is_heard_at_once(heard: Heard, reason: str) -> None:
    """Whatever is said while connections change is acknowledged within a moment.

    The shortest of five counts: the machine may be busy.
    """
    lags = []
    for number in range(5):
        heard.sandbox.faults.disconnect(reason)
        said = [heard.say(f"{number}, at once")]
        heard.is_asking(number + 2)
        said += [heard.say(f"{number}, {each}") for each in range(5)]
        lags.append(max(lag(each) for each in said))
        heard.moved(number + 2)
    assert min(lags) < SOON
    assert len(set(heard.texts)) == 30


def test_each_connection_ends_with_a_close_frame(heard: Heard) -> None:
    """At a refresh, where Slack closes, and when the bot stops: never without a word."""
    heard.sandbox.faults.refresh()
    heard.moved(2)
    heard.sandbox.faults.disconnect("link_disabled")  # which Slack closes at once
    heard.moved(3)
    heard.slack.close()
    heard.sandbox.wait(lambda: len(heard.sandbox.closed) == 3)
    assert GONE not in heard.sandbox.closed


def test_an_old_connection_goes_before_slack_closes_it(heard: Heard) -> None:
    """Slack would keep it for ten seconds more, and may still send by it."""
    begun = time.monotonic()
    heard.sandbox.faults.disconnect("warning")
    heard.moved(2)
    assert time.monotonic() - begun < 8
    assert heard.sandbox.closed == [1000]


def test_an_envelope_is_acknowledged_by_the_connection_it_came_by(heard: Heard) -> None:
    """What is being dealt with when Slack asks for a new connection is acknowledged by the old."""
    heard.go.clear()
    late = heard.say("before the refresh")
    assert heard.arrived.wait(30)
    heard.sandbox.faults.disconnect("warning")
    heard.sandbox.wait(lambda: heard.sandbox.connections == 2)
    heard.go.set()
    assert late.wait() == "acked"
    assert late.acked_by == late.socket_id
    assert late.attempts == 1
    heard.moved(2)


def test_an_envelope_whose_connection_is_gone_is_acknowledged_by_the_next(heard: Heard) -> None:
    """Where Slack has closed it meanwhile, the acknowledgement goes by the new connection."""
    heard.go.clear()
    late = heard.say("before the refresh")
    assert heard.arrived.wait(30)
    heard.sandbox.faults.disconnect("link_disabled")
    heard.moved(2)
    heard.go.set()
    assert late.wait() == "acked"
    assert late.acked_by != late.socket_id
    assert late.attempts == 1


def test_a_cut_connection_is_made_anew_at_once(heard: Heard) -> None:
    """One that breaks without a word is replaced before its pings could be missed."""
    took = []
    for number in range(3):
        begun = time.monotonic()
        heard.sandbox.faults.cut()
        heard.moved(number + 2)
        took.append(time.monotonic() - begun)
    assert min(took) < 1.0
    assert lag(heard.say("afterwards")) < 3.0


def test_a_new_connection_that_cannot_be_made_keeps_the_old_one(
    heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While Slack gives no new one, what comes by the old one is heard; then it is tried again."""
    monkeypatch.setattr(socket_client, "PING_INTERVAL_SECONDS", 0.1)
    heard.sandbox.faults.fail("apps.connections.open", "internal_error", times=3)
    heard.sandbox.faults.disconnect("warning")
    heard.sandbox.wait(lambda: heard.opened >= 3)
    lag(heard.say("meanwhile"))
    heard.moved(2)
    lag(heard.say("afterwards"))
    assert heard.texts == ["meanwhile", "afterwards"]


def test_closing_waits_for_no_connection_that_slack_holds_back(
    heard: Heard, sandbox_rate: Callable[[Sandbox], None]
) -> None:
    """Told to come back in half a minute, the bot stops at once all the same."""
    sandbox_rate(heard.sandbox)
    heard.sandbox.faults.disconnect("warning")
    heard.sandbox.wait(lambda: heard.opened == 2)
    begun = time.monotonic()
    heard.slack.close()
    assert time.monotonic() - begun < 5


@pytest.fixture
def sandbox_rate() -> Callable[[Sandbox], None]:
    """Has Slack hold back the next connection."""
    return lambda sandbox: sandbox.faults.rate_limit("apps.connections.open", retry_after=30)


def test_a_connection_that_died_is_no_other_process(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that Slack counts for a while after a crash holds the start up, and no more.

    Nothing is said as an error, then or when the bot's own connections break later on.
    """
    caplog.set_level(logging.INFO, module.log.name)  # whatever an earlier test has set
    monkeypatch.setattr(module, "RETRY_PAUSES_SECONDS", (0.2,) * 10)
    with build_local_slack() as sandbox:
        sandbox.faults.count_dead(1.0)
        died = Heard(sandbox)
        died.slack.client.close = lambda: None  # type: ignore[method-assign]  # it can say no more
        died.slack.client._closing.set()
        sandbox.faults.cut()
        sandbox.wait(lambda: sandbox.closed == [GONE])
        settings = settings_of(sandbox, allowed=False)
        slack = open_sole_slack_connection(
            app_on(sandbox), settings, UnacknowledgedDeliveries(), threading.Event()
        )
        for number in (2, 3):
            sandbox.faults.cut()
            broke(sandbox, number)
        slack.close()
    assert any("of a process that has died" in each.message for each in caplog.records)
    assert not [
        each
        for each in caplog.records
        if "goes to one" in each.message and each.levelno > logging.INFO
    ]


def test_the_start_waits_as_long_as_a_dead_connection_may_be_counted() -> None:
    """Slack was seen to count one for fifteen seconds: the start is not given up before."""
    assert sum(module.RETRY_PAUSES_SECONDS) > 2 * 15
