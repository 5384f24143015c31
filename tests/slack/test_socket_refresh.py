"""When one connection replaces another, nothing is lost or late."""

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
from tests.slack.test_socket import build_app, build_settings

SOON = 0.3  # seconds in which a delivery is acknowledged
ABNORMAL_END = 1006  # the code of a connection that ended without a close frame


class ListeningApp:
    """A real Bolt app on the sandbox, which acknowledges once `release` is set."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.texts: list[str] = []
        self.arrived, self.release = threading.Event(), threading.Event()
        self.release.set()
        app = build_app(sandbox)
        app.middleware(self._take)
        own = sandbox.world.app.bot_user, sandbox.world.app.bot_id
        self.slack = SocketModeConnection(app, sandbox.app_token, UnacknowledgedDeliveries(), own)
        self.slack.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
        assert self.slack._is_greeted.wait(30)

    def _take(self, body: dict[str, dict[str, str]]) -> BoltResponse:
        self.texts.append(body["event"]["text"])
        self.arrived.set()
        self.release.wait(10)
        return BoltResponse(status=200)

    @property
    def opened(self) -> int:
        """How many connections were requested."""
        return sum(each.method == "apps.connections.open" for each in self.sandbox.requests)

    def say(self, text: str) -> Delivery:
        """Post a message as Ana; return its delivery."""
        self.sandbox.person("ana").say("support", text)
        return self.sandbox.deliveries[-1]

    def wait_for_opened(self, times: int) -> None:
        """Wait until so many connections were requested."""
        self.sandbox.wait(lambda: self.opened == times)

    def wait_for_connection(self, number: int) -> None:
        """Wait until only the connection of this number is there."""
        closed = number - 1
        self.sandbox.wait(
            lambda: len(self.sandbox.closed) == closed and self.sandbox.connections == 1
        )


def wait_for_abnormal_ends(sandbox: Sandbox, times: int) -> None:
    """Wait until so many connections ended without a close frame, and one is there."""
    sandbox.wait(lambda: sandbox.closed.count(ABNORMAL_END) == times and sandbox.connections == 1)


@pytest.fixture
def listening() -> Iterator[ListeningApp]:
    """An app that is connected."""
    with build_local_slack() as sandbox:
        made = ListeningApp(sandbox)
        yield made
        made.release.set()
        made.slack.close()


def measure_lag(delivery: Delivery) -> float:
    """Seconds from sending the delivery to its acknowledgement."""
    assert delivery.wait() == "acked"
    assert delivery.sent_at is not None
    assert delivery.acked_at is not None
    return delivery.acked_at - delivery.sent_at


@pytest.mark.parametrize("reason", ["warning", "refresh_requested", "link_disabled"])
def test_messages_during_a_refresh_are_acknowledged_at_once(
    listening: ListeningApp, reason: str
) -> None:
    """The shortest of five counts, as the machine may be busy."""
    lags = []
    for number in range(5):
        listening.sandbox.faults.disconnect(reason)
        said = [listening.say(f"{number}, at once")]
        listening.wait_for_opened(number + 2)
        said += [listening.say(f"{number}, {each}") for each in range(5)]
        lags.append(max(measure_lag(each) for each in said))
        listening.wait_for_connection(number + 2)
    assert min(lags) < SOON
    assert len(set(listening.texts)) == 30


def test_connections_that_are_to_end_at_once_are_replaced_slowly(listening: ListeningApp) -> None:
    """Slack may greet one with `too_many_websockets` (slackapi/java-slack-sdk, issue 1223), and
    limits how often addresses may be asked for.
    """
    began = time.monotonic()
    for number in range(4):
        listening.sandbox.faults.disconnect("warning")  # the sandbox leaves it open for a while
        listening.wait_for_connection(number + 2)
    assert time.monotonic() - began > 2


def test_each_connection_ends_with_a_close_frame(listening: ListeningApp) -> None:
    """At a refresh, when Slack closes, and when the bot stops."""
    listening.sandbox.faults.refresh()
    listening.wait_for_connection(2)
    listening.sandbox.faults.disconnect("link_disabled")  # Slack closes it at once
    listening.wait_for_connection(3)
    listening.slack.close()
    listening.sandbox.wait(lambda: len(listening.sandbox.closed) == 3)
    assert ABNORMAL_END not in listening.sandbox.closed


def test_the_bot_closes_an_old_connection_before_slack_does(listening: ListeningApp) -> None:
    """Slack would keep it for ten seconds more, and may still send on it."""
    begun = time.monotonic()
    listening.sandbox.faults.disconnect("warning")
    listening.wait_for_connection(2)
    assert time.monotonic() - begun < 8
    assert listening.sandbox.closed == [1000]


def test_an_envelope_is_acknowledged_on_the_connection_it_came_by(listening: ListeningApp) -> None:
    """It is being handled when Slack asks for a new connection."""
    listening.release.clear()
    late = listening.say("before the refresh")
    assert listening.arrived.wait(30)
    listening.sandbox.faults.disconnect("warning")
    listening.sandbox.wait(lambda: listening.sandbox.connections == 2)
    listening.release.set()
    assert late.wait() == "acked"
    assert late.acked_by == late.socket_id
    assert late.attempts == 1
    listening.wait_for_connection(2)


def test_an_envelope_of_a_closed_connection_is_acknowledged_on_a_new(
    listening: ListeningApp,
) -> None:
    """Slack closed the first one meanwhile."""
    listening.release.clear()
    late = listening.say("before the refresh")
    assert listening.arrived.wait(30)
    listening.sandbox.faults.disconnect("link_disabled")
    listening.wait_for_connection(2)
    listening.release.set()
    assert late.wait() == "acked"
    assert late.acked_by != late.socket_id
    assert late.attempts == 1


def test_a_cut_connection_is_replaced_at_once(listening: ListeningApp) -> None:
    """Before missing pings would show that it broke."""
    took = []
    for number in range(3):
        begun = time.monotonic()
        listening.sandbox.faults.cut()
        listening.wait_for_connection(number + 2)
        took.append(time.monotonic() - begun)
    assert min(took) < 1.0
    assert measure_lag(listening.say("afterwards")) < 3.0


def test_the_old_connection_stays_until_a_new_one_is_made(
    listening: ListeningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages arrive on the old one meanwhile; then it is tried again."""
    monkeypatch.setattr(socket_client, "PING_INTERVAL_SECONDS", 0.1)
    listening.sandbox.faults.fail("apps.connections.open", "internal_error", times=3)
    listening.sandbox.faults.disconnect("warning")
    listening.sandbox.wait(lambda: listening.opened >= 3)
    measure_lag(listening.say("meanwhile"))
    listening.wait_for_connection(2)
    measure_lag(listening.say("afterwards"))
    assert listening.texts == ["meanwhile", "afterwards"]


def test_closing_does_not_wait_for_a_rate_limited_connection(
    listening: ListeningApp, limit_next_connection: Callable[[Sandbox], None]
) -> None:
    """Though Slack says to come back in half a minute."""
    limit_next_connection(listening.sandbox)
    listening.sandbox.faults.disconnect("warning")
    listening.sandbox.wait(lambda: listening.opened == 2)
    begun = time.monotonic()
    listening.slack.close()
    assert time.monotonic() - begun < 5


@pytest.fixture
def limit_next_connection() -> Callable[[Sandbox], None]:
    """Has Slack limit the next request for a connection."""
    return lambda sandbox: sandbox.faults.rate_limit("apps.connections.open", retry_after=30)


def test_a_dead_connection_does_not_count_as_another_process(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack counts it for a while after a crash, here until the bot has noticed; the start waits.

    No error is logged, then or when the bot's own connections break later.
    """
    caplog.set_level(logging.INFO, module.log.name)  # an earlier test may have set another level
    monkeypatch.setattr(module, "RETRY_PAUSES_SECONDS", (0.2,) * 10)
    with build_local_slack() as sandbox:
        sandbox.faults.count_dead(600.0)

        def end_when_logged(record: logging.LogRecord) -> bool:
            if "of a process that has died" in record.getMessage():
                sandbox.faults.count_dead(0.0)
            return True

        monkeypatch.setattr(module.log, "filters", [end_when_logged])
        died = ListeningApp(sandbox)
        died.slack.client.close = lambda: None  # type: ignore[method-assign]  # it can say no more
        died.slack.client._closing.set()
        sandbox.faults.cut()
        sandbox.wait(lambda: sandbox.closed == [ABNORMAL_END])
        settings = build_settings(sandbox, allowed=False)
        slack = open_sole_slack_connection(
            build_app(sandbox), settings, UnacknowledgedDeliveries(), threading.Event()
        )
        for number in (2, 3):
            sandbox.faults.cut()
            wait_for_abnormal_ends(sandbox, number)
        slack.close()
    assert any("of a process that has died" in each.message for each in caplog.records)
    assert not [
        each
        for each in caplog.records
        if "goes to one" in each.message and each.levelno > logging.INFO
    ]


def test_another_process_is_noticed_after_a_refresh(
    listening: ListeningApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Own connections that have ended do not hide it, once Slack counts them no more."""
    monkeypatch.setattr(socket_client, "GHOST_CONNECTION_SECONDS", 0.0)
    listening.sandbox.faults.disconnect("link_disabled")
    listening.wait_for_connection(2)
    assert listening.slack.other_connections == 0
    other = ListeningApp(listening.sandbox)
    listening.slack.client.connect_to_new_endpoint(force=True)
    listening.sandbox.wait(lambda: listening.slack.other_connections == 1)
    other.slack.close()


def test_the_bots_own_events_are_acknowledged_before_bolt(listening: ListeningApp) -> None:
    """Slack would send them again otherwise."""
    token = listening.sandbox.bot_token
    listening.slack.app.client.chat_postMessage(channel="C0SUPPORT", text="by us", token=token)
    assert listening.sandbox.deliveries[-1].wait() == "acked"
    assert listening.say("by Ana").wait() == "acked"
    assert listening.texts == ["by Ana"]


def test_the_start_waits_longer_than_slack_counts_dead_connections() -> None:
    """Slack was seen to count one for fifteen seconds."""
    assert sum(module.RETRY_PAUSES_SECONDS) > 2 * 15
