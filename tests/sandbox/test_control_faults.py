"""Faults and rate limits, switched over HTTP, for tests of apps in any language."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.sandbox.server import Sandbox
from tests.sandbox.support import HandApp, Json, buttons, code


@pytest.fixture
def fault(sandbox: Sandbox) -> Callable[..., Json]:
    """Ask for a fault; what is answered, also to a refusal."""

    def ask(**body: object) -> Json:
        headers = {"Content-Type": "application/json"}
        try:
            with urlopen(Request(f"{sandbox.url}/sandbox/faults", json.dumps(body).encode(), headers)) as answer:
                parsed: Json = json.load(answer)
        except HTTPError as error:
            parsed = {**json.load(error), "status": error.code}
        return parsed

    return ask


def test_fail_by_person(client: WebClient, fault: Callable[..., Json]) -> None:
    """A fault for one person's calls spares the others, and is used up."""
    asked = fault(kind="fail", method="chat.postMessage", person="ana", error="fatal_error", times=2)
    assert asked == {"ok": True}
    client.chat_postMessage(channel="UBEN00001", text="fine")
    for channel in ("UANA00001", "DANA00001"):
        if channel.startswith("D"):
            client.conversations_open(users="UANA00001")
        with pytest.raises(SlackApiError) as refused:
            client.chat_postMessage(channel=channel, text="not fine")
        assert code(refused) == "fatal_error"
    client.chat_postMessage(channel="UANA00001", text="fine again")


def test_statuses(client: WebClient, fault: Callable[..., Json]) -> None:
    """HTTP errors and 429 with Retry-After."""
    fault(kind="status", method="auth.test", status=503)
    with pytest.raises(SlackApiError) as refused:
        client.auth_test()
    assert refused.value.response.status_code == 503
    fault(kind="rate_limit", method="auth.test", retry_after=7)
    with pytest.raises(SlackApiError) as refused:
        client.auth_test()
    assert refused.value.response.headers["Retry-After"] == "7"
    assert client.auth_test()["ok"] is True


def test_drop_after_the_effect(sandbox: Sandbox, client: WebClient, fault: Callable[..., Json]) -> None:
    """A connection cut after the effect leaves the effect."""
    fault(kind="drop", method="chat.postMessage", when="after")
    with pytest.raises(OSError, match=r".+"):
        client.chat_postMessage(channel="C0SUPPORT", text="there it is")
    assert sandbox.person("ana").everything("support")[-1]["text"] == "there it is"


def test_hold_and_clear(sandbox: Sandbox, client: WebClient, fault: Callable[..., Json]) -> None:
    """A held call goes on, with its effect, when all is cleared."""
    fault(kind="hold", method="chat.postMessage")
    held = threading.Thread(target=lambda: client.chat_postMessage(channel="C0SUPPORT", text="late"))
    held.start()
    assert sandbox.faults._holds[0].arrived.wait(5)
    assert sandbox.person("ana").everything("support") == []
    assert fault(kind="clear") == {"ok": True}
    held.join(5)
    assert sandbox.person("ana").everything("support")[-1]["text"] == "late"


def test_connections(sandbox: Sandbox, client: WebClient, app: HandApp, fault: Callable[..., Json]) -> None:
    """Acknowledgements are lost, sockets told to go and cut."""
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    app.take()
    fault(kind="lose_ack", delivery="interactive")
    click = sandbox.person("ana").click("support", ts, "go")
    app.take()
    assert click.wait() == "timeout"
    fault(kind="refresh")
    assert app.frame()["reason"] == "refresh_requested"
    fault(kind="disconnect", reason="warning")
    assert app.frame()["reason"] == "warning"
    fault(kind="cut")
    sandbox.wait(lambda: sandbox.connections == 0)


def test_rates(sandbox: Sandbox, client: WebClient) -> None:
    """Rate limits are switched on and off."""
    headers = {"Content-Type": "application/json"}
    for enabled in (True, False):
        body = json.dumps({"enabled": enabled}).encode()
        urlopen(Request(f"{sandbox.url}/sandbox/rates", body, headers)).close()
        assert sandbox.rates.enabled is enabled


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "kind must be one of fail, status,"),
        ({"kind": "explode"}, "kind must be one of"),
        ({"kind": "fail"}, "missing field: method"),
        ({"kind": "fail", "method": "auth.test", "status": 5}, "unknown field: status"),
        ({"kind": "status", "method": "auth.test", "status": "5"}, "status must be a whole number"),
        ({"kind": "status", "method": "auth.test", "times": 0}, "times must be 1 or more"),
        ({"kind": "drop", "method": "auth.test", "when": "during"}, "when must be one of before, after"),
        ({"kind": "lose_ack", "delivery": "mail"}, "delivery must be one of"),
        ({"kind": "fail", "method": "auth.test", "person": "nobody"}, "there is no 'nobody'"),
    ],
)
def test_refused(fault: Callable[..., Json], body: Json, says: str) -> None:
    """What cannot be switched is refused with the reason."""
    answer = fault(**body)
    assert (answer["ok"], answer["status"]) == (False, 400)
    assert answer["message"].startswith(says)
