"""Faults and rate limits, switched on and off over HTTP."""

from __future__ import annotations

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json
from sandbox.tests.socket_app import HandApp
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.apps import App

ANA, BEN = "UANA00001", "UBEN00001"


def request_faults(sandbox: Sandbox, body: Any = None, method: str = "POST") -> tuple[int, Json]:
    """Status and body of a request to /sandbox/faults."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(f"{sandbox.url}/sandbox/faults", data, method=method)) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.parametrize(
    ("body", "happens"),
    [
        ({"kind": "fail", "error": "fatal_error"}, (200, "fatal_error")),
        ({"kind": "status", "status": 503}, (503, None)),
        ({"kind": "rate_limit", "retry_after": 9}, (429, "ratelimited")),
        ({"kind": "drop", "when": "after"}, (0, None)),
    ],
)
def test_a_fault_set_over_http_hits_its_calls(
    sandbox: Sandbox, client: WebClient, body: Json, happens: tuple[int, str | None]
) -> None:
    """It hits as often as asked, and is listed until then."""
    limits = {"method": "users.info", "person": "ana", "times": 2}
    assert request_faults(sandbox, body | limits) == (200, {"ok": True})
    [listed] = request_faults(sandbox, method="GET")[1]["faults"]
    assert listed.items() >= (body | limits).items()
    client.users_info(user=BEN)
    for _ in range(2):
        with pytest.raises((SlackApiError, ConnectionError)):
            client.users_info(user=ANA)
        last = sandbox.requests[-1]
        assert (last.status, (last.response or {}).get("error")) == happens
    assert client.users_info(user=ANA)["ok"]
    assert request_faults(sandbox, method="GET")[1]["faults"] == []


def test_pending_faults_can_be_cleared_over_http(sandbox: Sandbox, client: WebClient) -> None:
    """DELETE removes the faults that have not happened yet."""
    for body in ({"kind": "hang"}, {"kind": "lose_ack", "of": "interactive", "person": "ana"}):
        request_faults(sandbox, body)
    kinds = [fault["kind"] for fault in request_faults(sandbox, method="GET")[1]["faults"]]
    assert kinds == ["hang", "lose_ack"]
    assert request_faults(sandbox, method="DELETE") == (200, {"ok": True})
    assert client.auth_test()["ok"]


def test_socket_faults_hit_the_named_app_or_all(
    sandbox: Sandbox, manifest: Json, app: HandApp
) -> None:
    """disconnect, refresh and cut reach the sockets of the app that is named, or of all."""
    other: App = sandbox.install(manifest)
    theirs = HandApp(sandbox, other)
    request_faults(sandbox, {"kind": "disconnect", "reason": "link_disabled", "app": other.id})
    assert theirs.frame()["reason"] == "link_disabled"
    sandbox.wait(lambda: sandbox.connections == 1)
    request_faults(sandbox, {"kind": "refresh"})
    assert app.frame()["reason"] == "refresh_requested"
    request_faults(sandbox, {"kind": "cut"})
    sandbox.wait(lambda: sandbox.connections == 0)
    theirs.close()


def test_lose_ack_makes_an_event_come_twice(sandbox: Sandbox, app: HandApp) -> None:
    """With lose_ack set, an event is sent twice."""
    request_faults(sandbox, {"kind": "lose_ack", "of": "events_api"})
    sandbox.person("ana").say("support", "hello")
    assert [app.take()["retry_attempt"] for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "Input should be a valid dictionary"),
        ({}, "Unable to extract tag using discriminator 'kind'"),
        ({"kind": "explode"}, "Input tag 'explode' found using 'kind' does not match"),
        ({"kind": "fail", "method": "chat.postmessage"}, "there is no method 'chat.postmessage'"),
        ({"kind": "fail", "person": "nobody"}, "there is no person 'nobody'"),
        ({"kind": "fail", "times": 0}, "fail.times: Input should be greater than or equal to 1"),
        ({"kind": "fail", "when": "after"}, "fail.when: Extra inputs are not permitted"),
        (
            {"kind": "status", "status": 200},
            "status.status: Input should be greater than or equal to 400",
        ),
        ({"kind": "drop", "when": "later"}, "drop.when: Input should be 'before' or 'after'"),
        ({"kind": "lose_ack"}, "lose_ack.of: Field required"),
        ({"kind": "cut", "app": "nobody's"}, "there is no app"),
    ],
)
def test_an_unknown_fault_is_refused_with_the_reason(
    sandbox: Sandbox, body: Any, said: str
) -> None:
    """Bodies with unknown, wrong or missing values are refused with the reason."""
    status, answer = request_faults(sandbox, body)
    assert (status, answer["ok"]) == (400, False)
    assert said in answer["message"]
    assert sandbox.faults.waiting == []


def test_a_body_that_is_no_json_is_refused(sandbox: Sandbox) -> None:
    """A body that is no JSON is refused."""
    with pytest.raises(HTTPError, match="400"):
        urlopen(Request(f"{sandbox.url}/sandbox/faults", b"{", method="POST"))


def test_rate_limits_are_switched_on_and_off(sandbox: Sandbox) -> None:
    """Rate limits are switched on and off."""
    headers = {"Content-Type": "application/json"}
    for enabled in (True, False):
        body = json.dumps({"enabled": enabled}).encode()
        urlopen(Request(f"{sandbox.url}/sandbox/rates", body, headers)).close()
        assert sandbox.rates.enabled is enabled
