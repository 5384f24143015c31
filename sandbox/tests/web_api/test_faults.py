"""Faults on demand, and answers through a response_url."""

from __future__ import annotations

import threading
from http.client import RemoteDisconnected

import pytest
from slack_sdk import WebClient, WebhookClient
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_handlers import (
    ConnectionErrorRetryHandler,
    ServerErrorRetryHandler,
)
from slack_sdk.http_retry.builtin_interval_calculators import FixedValueRetryIntervalCalculator

from sandbox.tests.builders import buttons
from sandbox.tests.refusals import code
from sandbox.tests.socket_app import HandApp
from slack_sandbox.server import Sandbox


def texts(sandbox: Sandbox) -> list[str]:
    """The texts of the messages in #support."""
    return [m["text"] for m in sandbox.person("ana").messages("support")]


def test_a_failing_call_has_no_effect(sandbox: Sandbox, client: WebClient) -> None:
    """It fails as often as asked, and only where it matches."""
    sandbox.faults.fail(
        "chat.postMessage", "internal_error", times=2, match=lambda args: args["text"] != "fine"
    )
    client.chat_postMessage(channel="C0SUPPORT", text="fine")
    for _ in range(2):
        with pytest.raises(SlackApiError) as refused:
            client.chat_postMessage(channel="C0SUPPORT", text="x")
        assert code(refused) == "internal_error"
    client.chat_postMessage(channel="C0SUPPORT", text="again")
    assert texts(sandbox) == ["fine", "again"]


def test_a_limited_call_is_a_429_with_retry_after(sandbox: Sandbox, client: WebClient) -> None:
    """A limited call is a real 429 with Retry-After."""
    sandbox.faults.rate_limit("chat.update", retry_after=7)
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(channel="C0SUPPORT", ts="1.000001", text="x")
    assert (refused.value.response.status_code, code(refused)) == (429, "ratelimited")
    assert refused.value.response.headers["Retry-After"] == "7"


def test_a_server_error_is_retried_by_slack_sdk(sandbox: Sandbox) -> None:
    """A server error is one that slack_sdk's handler retries."""
    quick = FixedValueRetryIntervalCalculator(0.01)
    handler = ServerErrorRetryHandler(max_retry_count=1, interval_calculator=quick)
    client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url, retry_handlers=[handler])
    sandbox.faults.status("auth.test", 503)
    assert client.auth_test()["ok"]
    assert [r.status for r in sandbox.requests] == [503, 200]


def test_a_connection_cut_before_the_effect_leaves_nothing(
    sandbox: Sandbox, client: WebClient
) -> None:
    """A connection cut before the effect leaves nothing behind."""
    sandbox.faults.drop("chat.postMessage", when="before")
    with pytest.raises((RemoteDisconnected, ConnectionError)):
        client.chat_postMessage(channel="C0SUPPORT", text="x")
    assert texts(sandbox) == []


def test_a_cut_after_the_effect_posts_twice_with_retries(sandbox: Sandbox) -> None:
    """slack_sdk retries by default when a connection is cut."""
    quick = FixedValueRetryIntervalCalculator(0.01)
    handler = ConnectionErrorRetryHandler(interval_calculator=quick)
    client = WebClient(token=sandbox.bot_token, base_url=sandbox.api_url, retry_handlers=[handler])
    sandbox.faults.drop("chat.postMessage", when="after")
    client.chat_postMessage(channel="C0SUPPORT", text="x")
    assert texts(sandbox) == ["x", "x"]


@pytest.mark.parametrize(("when", "there_while_held"), [("before", []), ("after", ["x"])])
def test_a_held_call_waits_until_released(
    sandbox: Sandbox, client: WebClient, when: str, there_while_held: list[str]
) -> None:
    """It is held before or after its effect."""
    hold = sandbox.faults.hold("chat.postMessage", when="before" if when == "before" else "after")
    worker = threading.Thread(target=lambda: client.chat_postMessage(channel="C0SUPPORT", text="x"))
    worker.start()
    assert hold.arrived.wait(20)
    assert texts(sandbox) == there_while_held
    hold.release()
    worker.join(30)
    assert texts(sandbox) == ["x"]


def test_a_held_call_can_be_released_without_effect(sandbox: Sandbox, client: WebClient) -> None:
    """A held call can be let go as if it had never arrived."""
    hold = sandbox.faults.hold("chat.postMessage")
    failed: list[BaseException] = []

    def post() -> None:
        try:
            client.chat_postMessage(channel="C0SUPPORT", text="x")
        except (RemoteDisconnected, ConnectionError) as error:
            failed.append(error)

    worker = threading.Thread(target=post)
    worker.start()
    assert hold.arrived.wait(20)
    hold.release(effect=False)
    worker.join(30)
    assert len(failed) == 1
    assert texts(sandbox) == []


def test_a_lost_click_shows_an_error(sandbox: Sandbox, client: WebClient, app: HandApp) -> None:
    """A click whose acknowledgement is lost shows the person an error and is not sent again."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    app.take()
    sandbox.faults.lose_ack("interactive")
    delivery = sandbox.person("ana").click("support", ts, "go")
    app.take()
    assert (delivery.wait(), delivery.attempts) == ("timeout", 1)


def test_sockets_can_be_cut_without_a_close_frame(sandbox: Sandbox, app: HandApp) -> None:
    """Sockets can be closed without a close frame."""
    sandbox.faults.cut()
    sandbox.wait(lambda: sandbox.connections == 0)
    with pytest.raises((OSError, Exception), match=r"lost|reset|closed|Connection"):
        app.frame()


def test_a_response_url_works_five_times(sandbox: Sandbox, client: WebClient, app: HandApp) -> None:
    """A response_url changes even an ephemeral message, five times, in private by itself."""
    ana = sandbox.person("ana")
    ts = client.chat_postEphemeral(
        channel="C0SUPPORT", user=ana.id, text="psst", blocks=[buttons("go")]
    )["message_ts"]
    ana.click("support", ts, "go")
    hook = WebhookClient(app.take()["payload"]["response_url"])
    assert hook.send(text="changed", replace_original=True).body == "ok"
    assert texts(sandbox) == ["changed"]
    hook.send(text="for you")
    hook.send(text="for all", response_type="in_channel")
    assert [m["text"] for m in sandbox.person("ben").messages("support")] == ["for all"]
    hook.send(delete_original=True)
    assert texts(sandbox) == ["for you", "for all"]
    assert hook.send(text="fifth").status_code == 200
    assert hook.send(text="sixth").status_code == 404


def test_a_response_url_expires_after_thirty_minutes(
    sandbox: Sandbox, client: WebClient, app: HandApp
) -> None:
    """After thirty minutes a response_url is not found."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    app.take()
    sandbox.person("ana").click("support", ts, "go")
    hook = WebhookClient(app.take()["payload"]["response_url"])
    sandbox.clock.advance(1801)
    assert hook.send(text="late").status_code == 404


def test_an_acknowledgement_picked_by_its_payload_is_lost(sandbox: Sandbox, app: HandApp) -> None:
    """Earlier messages keep their acknowledgements."""
    sandbox.faults.lose_ack("events_api", match=lambda body: body["event"]["text"] == "meant")
    for text in ("another", "meant"):
        sandbox.person("ana").say("support", text)
    assert [app.take()["retry_attempt"] for _ in range(3)] == [0, 0, 1]
    assert sandbox.faults.waiting == []
