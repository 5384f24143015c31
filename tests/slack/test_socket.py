"""The connection to Slack: who waits for an acknowledgement, and for how long."""

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


class Arriving:
    """A connection on which one delivery arrives; it is dealt with when `go` is set."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.arrived, self.go = threading.Event(), threading.Event()
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
        self.go.wait(10)
        return BoltResponse(status=200)

    def _handle(self, request: SocketModeRequest) -> None:
        try:
            self.slack.handle(self, request)
        except ConnectionError:
            self.log.append("cut")

    def send_socket_mode_response(self, _: Any) -> None:
        """As the client does it."""
        if self.fails:
            raise ConnectionError
        self.log.append("acknowledged")

    @property
    def logger(self) -> Any:
        """As the client has it."""
        return self.slack.client.logger

    def calm(self, patience: float = 10) -> threading.Thread:
        """The loop asks whether it may begin."""

        def ask() -> None:
            self.arrivals.wait_until_acknowledged(patience)
            self.log.append("calm")

        thread = threading.Thread(target=ask)
        thread.start()
        return thread


@pytest.fixture
def arriving() -> Arriving:
    """One delivery has arrived, and is not acknowledged."""
    made = Arriving()
    made.thread.start()
    assert made.arrived.wait(30)
    return made


@pytest.mark.parametrize("fails", [False, True])
def test_what_arrives_is_acknowledged_before_anything_is_decided(
    arriving: Arriving, fails: bool
) -> None:
    """The loop lets an acknowledgement go first; one that could not be sent does not hold it up."""
    arriving.fails = fails
    asking = arriving.calm()
    asking.join(0.05)
    assert asking.is_alive()
    arriving.go.set()
    asking.join(10)
    arriving.thread.join(30)
    if fails:
        assert sorted(arriving.log) == ["calm", "cut"]
    else:
        assert arriving.log == ["acknowledged", "calm"]


def test_one_that_takes_long_holds_up_nothing(arriving: Arriving) -> None:
    """Deadlines and decisions wait for an acknowledgement a moment, not as long as it takes."""
    asking = arriving.calm(0.1)
    asking.join(10)
    assert arriving.log == ["calm"]
    arriving.go.set()
    arriving.thread.join(30)


def app_on(sandbox: Sandbox) -> App:
    """A bare app."""
    return App(
        client=WebClient(base_url=sandbox.api_url, retry_handlers=[]),
        token_verification_enabled=False,
        authorize=lambda **_: AuthorizeResult(enterprise_id=None, team_id="T1", bot_token="xoxb-1"),
    )


def connected(sandbox: Sandbox) -> SocketModeConnection:
    """A connection of a bare app."""
    slack = SocketModeConnection(app_on(sandbox), sandbox.app_token, UnacknowledgedDeliveries())
    slack.connect()  # type: ignore[no-untyped-call]  # Bolt's own signature
    return slack


@pytest.mark.parametrize("held", [0.0, 0.12, 0.25, 0.4])
def test_closing_ends_however_long_the_socket_takes(held: float) -> None:
    """However long the socket takes to close, no reader is waited for for ever."""
    with build_local_slack() as sandbox:
        slack = connected(sandbox)
        line = slack.client.current_session
        assert line is not None
        closing = threading.Thread(target=slack.close, daemon=True)
        with line.sock_send_lock:  # what closing the socket waits for
            closing.start()
            closing.join(held)
        closing.join(10)
        assert not closing.is_alive()
        assert not slack.client.is_connected()


def test_closing_ends_where_nothing_was_connected() -> None:
    """What never connected is closed at once."""
    with build_local_slack() as sandbox:
        never = SocketModeConnection(app_on(sandbox), sandbox.app_token, UnacknowledgedDeliveries())
        closing = threading.Thread(target=never.close, daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive()


def test_closing_waits_for_no_message() -> None:
    """Closing does not wait for the second that the client lets pass for its next message.

    The shortest of five counts: the machine may be busy.
    """
    with build_local_slack() as sandbox:
        took = []
        for _ in range(5):
            slack = connected(sandbox)
            begun = time.monotonic()
            slack.close()
            took.append(time.monotonic() - begun)
        assert min(took) < 0.4


def test_nothing_connects_again_once_it_is_closed() -> None:
    """A reconnection asked for while the connection was being closed does not bring it back."""
    with build_local_slack() as sandbox:
        slack = connected(sandbox)
        slack.close()
        slack.client.connect_to_new_endpoint()
        assert not slack.client.is_connected()


def test_closing_waits_for_what_is_being_stored(arriving: Arriving) -> None:
    """A delivery that is being stored is acknowledged before the connection closes.

    One that comes later is not taken in.
    """

    def close() -> None:
        arriving.slack.close()
        arriving.log.append("closed")

    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    arriving.go.set()
    arriving.thread.join(30)
    closing.join(10)
    assert arriving.log == ["acknowledged", "closed"]
    body = {"type": "event_callback", "team_id": "T1", "event_id": "E2", "event": {"type": "x"}}
    arriving.slack.handle(arriving, SocketModeRequest("events_api", "late", body))
    assert arriving.log == ["acknowledged", "closed"]


def settings_of(sandbox: Sandbox, *, allowed: bool) -> Settings:
    """Settings by which other connections are `allowed`, or not."""
    return Settings(
        slack_bot_token=sandbox.bot_token,
        slack_app_token=sandbox.app_token,
        openai_api_key="k",
        policy_path=Path("policy.toml"),
        other_connections=allowed,
    )


@pytest.mark.parametrize("allowed", [False, True])
def test_a_second_process_with_the_same_token(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, allowed: bool
) -> None:
    """It is refused unless a setting allows it; the log says so, as an error where it is one."""
    caplog.set_level(logging.INFO, module.log.name)  # whatever an earlier test has set
    monkeypatch.setattr(module, "RETRY_PAUSES_SECONDS", (0.01,))
    with build_local_slack() as sandbox:
        app, settings = app_on(sandbox), settings_of(sandbox, allowed=allowed)
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
