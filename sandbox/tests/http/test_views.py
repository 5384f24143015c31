"""Reading over the HTTP control interface: states, deliveries, calls and messages.

And how odd requests are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from sandbox.tests.builders import buttons, section
from sandbox.tests.harness import BoltHarness
from sandbox.tests.http.control_client import HELLO, TICKET, control_harness, do, get, post, state
from slack_sandbox.http.actions import ACTIONS


@pytest.fixture(scope="module")
def running() -> Iterator[BoltHarness]:
    """A harness that all tests of this module share."""
    with control_harness() as made:
        yield made


@pytest.fixture
def harness(running: BoltHarness) -> BoltHarness:
    """The shared harness, without the bodies of earlier tests."""
    return running.forget_bodies()


# reading


def test_the_state_lists_what_each_person_can_use(harness: BoltHarness) -> None:
    """The state lists what each person can use of each app.

    People from elsewhere can use nothing.
    """
    app = next(a for a in state(harness)["apps"] if a["id"] == harness.sandbox.world.app.id)
    assert app == {
        "id": harness.sandbox.world.app.id,
        "name": "countersign",
        "bot_user": harness.sandbox.bot_user_id,
        "bot_id": harness.sandbox.world.app.bot_id,
        "home_enabled": True,
        "messages_enabled": True,
        "dm": harness.ana.dm_channel,
        "commands": [
            HELLO,
            {"command": "/deaf", "description": "Hears nothing.", "usage_hint": ""},
        ],
        "shortcuts": [
            {
                "type": "global",
                "callback_id": "form",
                "name": "Form",
                "description": "Opens a form.",
            },
            {key: TICKET[key] for key in ("type", "callback_id", "name", "description")},
        ],
    }
    theirs = state(harness, "eve")["apps"][0]
    assert (theirs["commands"], theirs["shortcuts"]) == ([], [])
    assert {p["id"]: p["tz"] for p in state(harness)["people"]}["UBEN00001"] == "Europe/London"


def test_each_delivery_is_listed_once(harness: BoltHarness) -> None:
    """Each delivery is listed once with its times.

    A pending delivery is listed again by the next request.
    """
    after = get(harness, "deliveries", after=0)["after"]
    while more := get(harness, "deliveries", after=after)["deliveries"]:
        after = more[-1]["number"]
    ts = harness.post(buttons("go"))
    do(harness, "click", channel="support", ts=ts, action_id="go")
    found = get(harness, "deliveries", after=after, app=harness.sandbox.world.app.id)
    click = next(d for d in found["deliveries"] if d["type"] == "block_actions")
    assert (click["kind"], click["outcome"], click["attempts"]) == ("interactive", "acked", 1)
    assert len(click["envelope_ids"]) == 1
    assert click["ms"] == pytest.approx((click["acked_at"] - click["sent_at"]) * 1000, abs=0.01)
    assert click["payload"]["actions"][0]["action_id"] == "go"
    assert get(harness, "deliveries", after=found["after"], app="A0OTHER")["deliveries"] == []
    harness.sandbox.world.ack_seconds = 3600.0
    try:
        harness.ana.click("support", harness.post(buttons("deaf")), "deaf")  # not acknowledged
    finally:
        harness.sandbox.world.ack_seconds = 3.0
    for _ in range(2):
        asked = get(harness, "deliveries", after=found["after"])
        assert [d["outcome"] for d in asked["deliveries"] if d["type"] == "block_actions"] == [
            "pending"
        ]
        found = asked


def test_each_call_is_listed_without_its_token(harness: BoltHarness) -> None:
    """Each call of the Web API is listed with its answer and how long it took.

    Tokens and tickets never show.
    """
    after = len(harness.sandbox.requests)
    harness.client.chat_postMessage(channel="C0SUPPORT", text="my token is xoxb-1-secret")
    harness.client.apps_connections_open(app_token=harness.sandbox.app_token)
    secrets = urlencode({"client_secret": "hush", "code": "hush", "client_id": "1.2"})
    urlopen(Request(f"{harness.sandbox.url}/api/oauth.v2.access?{secrets}", method="POST")).close()
    found = get(harness, "calls", after=after)
    first, second, third = found["calls"]
    assert (first["number"], first["method"], first["status"]) == (
        after + 1,
        "chat.postMessage",
        200,
    )
    assert first["app"] == harness.sandbox.world.app.id
    assert first["args"]["text"] == "my token is …"
    assert first["answer"]["ok"] is True
    assert first["ms"] > 0
    assert second["answer"]["url"].partition("ticket=")[2].startswith("…")
    assert third["args"] == {"client_secret": "…", "code": "…", "client_id": "1.2"}
    assert "xapp" not in json.dumps(found)
    assert get(harness, "calls", after=found["after"])["calls"] == []
    assert get(harness, "calls", after=after, app="A0OTHER")["calls"] == []


def test_a_raw_message_has_its_metadata(harness: BoltHarness) -> None:
    """The raw JSON of a message has its metadata; an unknown message is not found."""
    metadata = {"event_type": "made", "event_payload": {"by": "hand"}}
    ts = harness.client.chat_postMessage(
        channel="C0SUPPORT", text="x", blocks=[section("x")], metadata=metadata
    )["ts"]
    assert get(harness, "message", channel="C0SUPPORT", ts=ts)["metadata"] == metadata
    for path in ("message?channel=C0SUPPORT&ts=1.0", "view?id=V0NONE", "state?as=nobody"):
        with pytest.raises(HTTPError) as missing:
            urlopen(f"{harness.sandbox.url}/sandbox/{path}")
        assert missing.value.code == 404
        assert json.load(missing.value)["ok"] is False


# refusals


def refused(harness: BoltHarness, path: str, body: object) -> str:
    """The error text of a 400."""
    with pytest.raises(HTTPError) as error:
        post(harness, path, body)
    assert error.value.code == 400
    answer = json.load(error.value)
    assert answer["ok"] is False
    return str(answer["message"])


@pytest.mark.parametrize("path", sorted(ACTIONS))
def test_every_post_body_is_checked(harness: BoltHarness, path: str) -> None:
    """Every POST names what is missing, what it does not know and what has the wrong type."""
    fields = {"as": str, **ACTIONS[path][0]}
    needed = {name: "x" for name in fields if not name.endswith("?")}
    assert refused(harness, path, [1]) == "the body must be a JSON object"
    assert refused(harness, path, {**needed, "colour": "red"}).startswith(
        "unknown field: colour; there are as, "
    )
    for name in needed:
        assert refused(harness, path, needed | {name: None}) == f"missing field: {name}"
        assert refused(harness, path, needed | {name: 5}) == f"{name} must be a string"
    for name, kind in fields.items():
        if name.endswith("?") and kind is not object:
            wrong = "five" if kind is int else 5
            assert refused(harness, path, needed | {name[:-1]: wrong}).startswith(
                f"{name[:-1]} must be "
            )


def test_odd_requests_are_refused_with_the_reason(harness: BoltHarness) -> None:
    """No JSON, odd numbers, unknown places and unknown states are refused with the reason."""
    with pytest.raises(HTTPError) as error:
        urlopen(
            Request(
                f"{harness.sandbox.url}/sandbox/say", b"{", {"Content-Type": "application/json"}
            )
        )
    assert error.value.code == 400
    assert refused(harness, "clock", {"advance": "much"}) == "advance must be a number"
    with pytest.raises(HTTPError) as error:
        get(harness, "deliveries", after="x")
    assert (error.value.code, json.load(error.value)["message"]) == (400, "after must be a number")
    for place in ({}, {"channel": "C0SUPPORT"}, {"view_id": "V1", "home": "A1"}):
        answer = do(harness, "suggest", **place, action_id="fruit")
        assert answer == {"ok": False, "message": "a place is channel and ts, or view_id, or home"}
    ts = harness.post(buttons("go"))
    answer = do(harness, "click", channel="support", ts=ts, action_id="go", state={"field": 5})
    assert answer == {
        "ok": False,
        "message": "state must be {block_id: {action_id: element state}}",
    }
    assert do(harness, "home/open", tab="elsewhere") == {
        "ok": False,
        "message": "tab is home or messages",
    }
