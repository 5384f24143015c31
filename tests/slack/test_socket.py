"""The connection to Slack: acknowledgements first, closing in time, one process only."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from slack_bolt import App, BoltResponse
from slack_bolt.authorization import AuthorizeResult
from slack_sdk import WebClient
from slack_sdk.socket_mode.request import SocketModeRequest

from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.signals import UnacknowledgedDeliveries
from bot.slack import socket as module
from bot.slack.socket import SocketModeConnection, open_sole_slack_connection
from slack_sandbox.server import Sandbox
from tests.local_slack import build_local_slack

COUNTS = "Slack counts 2 connections"


class ArrivingDelivery:
    """A connection on which one delivery arrives; it is handled once `release` is set."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.arrived, self.release = threading.Event(), threading.Event()
        self.fails = False
        app = App(
            client=WebClient(retry_handlers=[]),
            token_verification_enabled=False,
            authorize=lambda **_: AuthorizeResult(
                enterprise_id=None, team_id="T1", bot_token="xoxb-1"
            ),
        )
        app.middleware(self._middleware)
        self.arrivals = UnacknowledgedDeliveries()
        self.slack = SocketModeConnection(app, "xapp-1", self.arrivals)
        body = {"type": "event_callback", "team_id": "T1", "event_id": "E1", "event": {"type": "x"}}
        request = SocketModeRequest("events_api", "envelope", body)
        self.thread = threading.Thread(target=self._handle, args=(request,))

    def _middleware(self) -> BoltResponse:
        self.arrived.set()
        self.release.wait(10)
        return BoltResponse(status=200)

    def _handle(self, request: SocketModeRequest) -> None:
        try:
            self.slack.handle(self, request)
        except ConnectionError:
            self.log.append("cut")

    def send_socket_mode_response(self, _: Any) -> None:
        """Acknowledge, as the client does."""
        if self.fails:
            raise ConnectionError
        self.log.append("acknowledged")

    @property
    def logger(self) -> Any:
        """The client's logger."""
        return self.slack.client.logger

    def wait_for_calm(self, patience: float = 10) -> threading.Thread:
        """Ask on a thread whether the loop may begin."""

        def ask() -> None:
            self.arrivals.wait_until_acknowledged(patience)
            self.log.append("calm")

        thread = threading.Thread(target=ask)
        thread.start()
        return thread


@pytest.fixture
def arriving() -> ArrivingDelivery:
    """One delivery that has arrived and is not acknowledged."""
    made = ArrivingDelivery()
    made.thread.start()
    assert made.arrived.wait(30)
    return made


@pytest.mark.parametrize("fails", [False, True])
def test_a_delivery_is_acknowledged_before_the_loop_goes_on(
    arriving: ArrivingDelivery, fails: bool
) -> None:
    """An acknowledgement that could not be sent does not hold up the loop."""
    arriving.fails = fails
    asking = arriving.wait_for_calm()
    asking.join(0.05)
    assert asking.is_alive()
    arriving.release.set()
    asking.join(10)
    arriving.thread.join(30)
    if fails:
        assert sorted(arriving.log) == ["calm", "cut"]
    else:
        assert arriving.log == ["acknowledged", "calm"]


def test_a_slow_acknowledgement_does_not_hold_up_the_loop(arriving: ArrivingDelivery) -> None:
    """Deadlines and decisions wait for it a moment only."""
    asking = arriving.wait_for_calm(0.1)
    asking.join(10)
    assert arriving.log == ["calm"]
    arriving.release.set()
    arriving.thread.join(30)


def build_app(sandbox: Sandbox) -> App:
    """A bare Bolt app."""
    return App(
        client=WebClient(base_url=sandbox.api_url, retry_handlers=[]),
        token_verification_enabled=False,
        authorize=lambda **_: AuthorizeResult(enterprise_id=None, team_id="T1", bot_token="xoxb-1"),
    )


def connect(sandbox: Sandbox) -> SocketModeConnection:
    """Connect a bare app."""
    slack = SocketModeConnection(build_app(sandbox), sandbox.app_token, UnacknowledgedDeliveries())
    slack.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
    return slack


@pytest.mark.parametrize("held", [0.0, 0.12, 0.25, 0.4])
def test_closing_ends_even_if_the_socket_closes_slowly(held: float) -> None:
    """No reader is waited for for ever."""
    with build_local_slack() as sandbox:
        slack = connect(sandbox)
        line = slack.client.current_session
        assert line is not None
        closing = threading.Thread(target=slack.close, daemon=True)
        with line.sock_send_lock:  # closing the socket waits for this lock
            closing.start()
            closing.join(held)
        closing.join(10)
        assert not closing.is_alive()
        assert not slack.client.is_connected()


def test_closing_a_client_that_never_connected_ends() -> None:
    """At once."""
    with build_local_slack() as sandbox:
        never = SocketModeConnection(
            build_app(sandbox), sandbox.app_token, UnacknowledgedDeliveries()
        )
        closing = threading.Thread(target=never.close, daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()


def test_closing_does_not_wait_for_the_next_message() -> None:
    """The client waits a second for its next message. The shortest of five counts, as the machine
    may be busy."""
    with build_local_slack() as sandbox:
        took = []
        for _ in range(5):
            slack = connect(sandbox)
            begun = time.monotonic()
            slack.close()
            took.append(time.monotonic() - begun)
        assert min(took) < 0.4


def test_a_closed_client_does_not_connect_again() -> None:
    """Though a reconnection was asked for meanwhile."""
    with build_local_slack() as sandbox:
        slack = connect(sandbox)
        slack.close()
        slack.client.connect_to_new_endpoint()
        assert not slack.client.is_connected()


def test_closing_waits_for_the_delivery_being_stored(arriving: ArrivingDelivery) -> None:
    """It is acknowledged first. One that comes later is not accepted."""

    def close() -> None:
        arriving.slack.close()
        arriving.log.append("closed")

    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    arriving.release.set()
    arriving.thread.join(30)
    closing.join(10)
    assert arriving.log == ["acknowledged", "closed"]
    body = {"type": "event_callback", "team_id": "T1", "event_id": "E2", "event": {"type": "x"}}
    arriving.slack.handle(arriving, SocketModeRequest("events_api", "late", body))
    assert arriving.log == ["acknowledged", "closed"]


def build_settings(sandbox: Sandbox, *, allowed: bool) -> Settings:
    """Settings that allow other connections, or do not."""
    return Settings(
        slack_bot_token=sandbox.bot_token,
        slack_app_token=sandbox.app_token,
        openai_api_key="k",
        policy_path=Path("policy.toml"),
        other_connections=allowed,
    )


@pytest.mark.parametrize("allowed", [False, True])
def test_a_second_process_with_the_same_token_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, allowed: bool
) -> None:
    """Unless a setting allows it. The log says so, as an error if it is one."""
    caplog.set_level(logging.INFO, module.log.name)  # an earlier test may have set another level
    monkeypatch.setattr(module, "RETRY_PAUSES_SECONDS", (0.01,))
    with build_local_slack() as sandbox:
        app, settings = build_app(sandbox), build_settings(sandbox, allowed=allowed)
        alone = {"other_connections": False}
        first = open_sole_slack_connection(
            app, settings.model_copy(update=alone), UnacknowledgedDeliveries(), threading.Event()
        )
        if allowed:
            second = open_sole_slack_connection(
                app, settings, UnacknowledgedDeliveries(), threading.Event()
            )
            sandbox.wait(lambda: [each for each in caplog.records if COUNTS in each.message])
            second.close()
        else:
            with pytest.raises(StartupError, match="another process is connected"):
                open_sole_slack_connection(
                    app, settings, UnacknowledgedDeliveries(), threading.Event()
                )
        first.close()
    said = [each for each in caplog.records if each.message.endswith("goes to one of them")]
    level = logging.INFO if allowed else logging.ERROR
    assert said
    assert {each.levelno for each in said} == {level}
