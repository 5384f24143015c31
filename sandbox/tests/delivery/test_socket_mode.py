"""Socket Mode: tickets, acknowledgements, redelivery, several sockets, the real Bolt handler."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import websocket
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.socket_app import HandApp, close_bolt
from slack_sandbox.server import Sandbox


def test_a_socket_address_works_once(app: HandApp) -> None:
    """The first connection uses the address up."""
    with pytest.raises(websocket.WebSocketBadStatusException):
        websocket.create_connection(app.url, timeout=5)


def test_a_ping_is_answered_with_the_same_bytes(app: HandApp) -> None:
    """The answer is a pong."""
    app.ws.ping("sdk-ping-pong:1.5")
    opcode, data = app.ws.recv_data(control_frame=True)
    assert (opcode, data) == (websocket.ABNF.OPCODE_PONG, b"sdk-ping-pong:1.5")


def test_events_wait_for_a_socket(sandbox: Sandbox) -> None:
    """Events without an open socket are delivered when one is opened."""
    sandbox.person("ana").say("support", "hello")
    app = HandApp(sandbox)
    assert app.take()["payload"]["event"]["text"] == "hello"
    app.close()


def test_an_unacknowledged_event_is_sent_again(sandbox: Sandbox, app: HandApp) -> None:
    """Without an acknowledgement in time the event comes again, counted, in a new envelope."""
    sandbox.world.ack_seconds = 0.2
    sandbox.person("ana").say("support", "hello")
    first, second = app.frame(), app.frame()
    assert second["payload"] == first["payload"]
    assert second["envelope_id"] != first["envelope_id"]
    assert (second["retry_attempt"], second["retry_reason"]) == (1, "timeout")
    app.ack(second)
    (delivery,) = sandbox.deliveries
    assert delivery.wait() == "acked"
    assert (delivery.attempts, delivery.payload["event_id"]) == (2, first["payload"]["event_id"])


def test_retries_follow_the_sandboxs_clock(sandbox: Sandbox, app: HandApp) -> None:
    """The second retry comes after a minute, also if the clock is moved over that minute."""
    sandbox.world.ack_seconds = 0.1
    sandbox.person("ana").say("support", "hello")
    app.frame()
    app.frame()
    (delivery,) = sandbox.deliveries
    sandbox.wait(lambda: delivery.attempts == 2 and delivery.next_at is not None)
    sandbox.clock.advance(60)
    assert app.take()["retry_attempt"] == 2


def test_a_late_acknowledgement_ends_the_redelivery(sandbox: Sandbox, app: HandApp) -> None:
    """The acknowledgement of an earlier attempt ends the redelivery."""
    sandbox.world.ack_seconds = 0.2
    sandbox.person("ana").say("support", "hello")
    first = app.frame()
    app.frame()
    app.ack(first)
    assert sandbox.deliveries[0].wait() == "acked"


def test_a_lost_acknowledgement_sends_the_event_again(sandbox: Sandbox, app: HandApp) -> None:
    """The event is sent again at once."""
    sandbox.faults.lose_ack("events_api")
    sandbox.person("ana").say("support", "hello")
    assert app.take()["retry_attempt"] == 0
    assert app.take()["retry_attempt"] == 1
    assert sandbox.deliveries[0].wait() == "acked"


def test_interactions_are_not_repeated(sandbox: Sandbox, client: WebClient, app: HandApp) -> None:
    """A click without acknowledgement fails for the person and is not sent again.

    Its trigger has run out.
    """
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    app.take()
    sandbox.world.ack_seconds = 0.2
    delivery = sandbox.person("ana").click("support", ts, "go")
    assert delivery.wait() == "timeout"
    assert delivery.attempts == 1
    app.frame()
    with pytest.raises(SlackApiError, match="expired_trigger_id"):
        client.views_open(trigger_id=delivery.payload["trigger_id"], view=modal())
    sandbox.world.ack_seconds = 3.0
    sandbox.person("ana").say("support", "next")
    assert app.take()["payload"]["event"]["text"] == "next"


def test_a_click_without_a_connected_app_fails_at_once(sandbox: Sandbox, client: WebClient) -> None:
    """It does not wait for the time-out."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    delivery = sandbox.person("ana").click("support", ts, "go")
    assert (delivery.wait(0.1), delivery.ok) == ("no_socket", False)


def test_each_payload_goes_to_one_socket(sandbox: Sandbox, app: HandApp) -> None:
    """Each payload goes to one socket only, and hello counts them."""
    second = HandApp(sandbox)
    assert (app.hello["num_connections"], second.hello["num_connections"]) == (1, 2)
    for text in ("one", "two"):
        sandbox.person("ana").say("support", text)
    texts = [each.take()["payload"]["event"]["text"] for each in (app, second)]
    assert sorted(texts) == ["one", "two"]
    assert len({d.socket_id for d in sandbox.deliveries}) == 2
    second.close()


def test_the_eleventh_socket_is_refused(sandbox: Sandbox) -> None:
    """An app can have ten sockets at once."""
    apps = [HandApp(sandbox) for _ in range(11)]
    assert apps[10].hello["reason"] == "too_many_websockets"
    assert sandbox.connections == 10
    for each in apps:
        each.close()


def test_any_delivery_can_be_sent_once_more(sandbox: Sandbox, app: HandApp) -> None:
    """The payload is the same."""
    sandbox.person("ana").say("support", "hello")
    first = app.take()
    assert sandbox.deliveries[0].wait() == "acked"
    again = sandbox.redeliver(sandbox.deliveries[0])
    second = app.take()
    assert (second["payload"], second["retry_attempt"]) == (first["payload"], 1)
    assert again.wait() == "acked"


@pytest.fixture
def bolt(sandbox: Sandbox) -> Iterator[Callable[[], App]]:
    """Starts a real Bolt app on the sandbox; returns it connected."""
    started: list[SocketModeHandler] = []

    def start() -> App:
        client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url, retry_handlers=[])
        app = App(client=client)

        @app.event("message")
        def remember(event: Json, say: Callable[..., object]) -> None:
            if "bot_id" not in event and event.get("subtype") is None:
                say(f"heard {event['text']}")

        handler = SocketModeHandler(app, sandbox.app_token)
        handler.connect()  # type: ignore[no-untyped-call]  # the library's has no annotations
        started.append(handler)
        sandbox.wait_connected()
        return app

    yield start
    for handler in started:
        close_bolt(sandbox, handler)


def test_bolt_survives_a_refresh(sandbox: Sandbox, bolt: Callable[[], App]) -> None:
    """Bolt reconnects when told to, and no message sent meanwhile is lost."""
    bolt()
    ana = sandbox.person("ana")
    ana.say("support", "one")
    sandbox.faults.refresh()
    ana.say("support", "two")
    sandbox.wait(lambda: sum(r.method == "apps.connections.open" for r in sandbox.requests) == 2)
    ana.say("support", "three")
    heard = sandbox.wait(
        lambda: (
            [m for m in ana.messages("support") if "bot_id" in m][2:] and ana.messages("support")
        )
    )
    assert {m["text"] for m in heard if "bot_id" in m} == {"heard one", "heard two", "heard three"}


def test_acknowledgements_are_recorded_with_times_and_bodies(
    sandbox: Sandbox, app: HandApp
) -> None:
    """A delivery has the times of sending and acknowledgement, and the body."""
    sandbox.person("ana").say("support", "hello")
    frame = app.frame()
    app.ws.send("nonsense")
    app.ws.send(json.dumps({"envelope_id": "unknown"}))
    app.ack(frame, {"extra": 1})
    (delivery,) = sandbox.deliveries
    assert delivery.wait() == "acked"
    assert delivery.ack == {"extra": 1}
    assert delivery.sent_at is not None
    assert delivery.acked_at is not None
    assert 0 <= delivery.acked_at - delivery.sent_at < 3
