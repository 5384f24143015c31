"""The HTTP interface that tests and the page use: every act, what is read back, and how odd requests are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from slack_bolt import App

from bot.sandbox.control_doing import ACTIONS
from tests.sandbox.support import Json, buttons, modal, section
from tests.sandbox.workshop import Workshop, workshop

Ack = Callable[..., None]
TICKET = {"name": "Ticket", "type": "message", "callback_id": "ticket", "description": "From a message."}
HELLO = {"command": "/hello", "description": "Says hello.", "usage_hint": "[name]"}


def external() -> Json:
    """An actions block with an external select."""
    menu = {"type": "external_select", "action_id": "fruit", "min_query_length": 1}
    return {"type": "actions", "block_id": "menu", "elements": [menu]}


def field() -> Json:
    """An input block that tells the app about Enter."""
    element = {"type": "plain_text_input", "action_id": "text"}
    label = {"type": "plain_text", "text": "Field"}
    return {"type": "input", "block_id": "field", "label": label, "element": element, "dispatch_action": True}


def listen(bolt: App) -> None:
    """Answers to everything but the command that is deaf."""
    for action_id in ("go", "text", "fruit"):
        bolt.action(action_id)(lambda ack: ack())
    bolt.message_shortcut("ticket")(lambda ack: ack())
    bolt.command("/hello")(lambda ack, command: ack(f"hello {command['text']}"))

    @bolt.options("fruit")
    def fruit(ack: Ack, payload: Json) -> None:
        offer = {"text": {"type": "plain_text", "text": payload["value"]}, "value": payload["value"]}
        ack(options=[offer]) if payload["value"] != "none" else ack(options=[offer] * 101)


@pytest.fixture(scope="module")
def running() -> Iterator[Workshop]:
    """A workspace with that app."""
    deaf = {"command": "/deaf", "description": "Hears nothing."}
    with workshop(listen, shortcuts=[TICKET], slash_commands=[HELLO, deaf]) as made:
        yield made


@pytest.fixture
def shop(running: Workshop) -> Workshop:
    """The same, with nothing heard yet."""
    return running.fresh()


def get(shop: Workshop, path: str, **query: object) -> Any:
    """What a GET answers."""
    with urlopen(f"{shop.sandbox.url}/sandbox/{path}?{urlencode(query)}") as answer:
        return json.load(answer)


def post(shop: Workshop, path: str, body: object) -> Json:
    """What a POST answers."""
    headers = {"Content-Type": "application/json"}
    with urlopen(Request(f"{shop.sandbox.url}/sandbox/{path}", json.dumps(body).encode(), headers)) as answer:
        parsed: Json = json.load(answer)
        return parsed


def do(shop: Workshop, path: str, who: str = "ana", **body: object) -> Json:
    """What that person's doing answers."""
    return post(shop, path, {"as": who, **body})


def state(shop: Workshop, who: str = "ana") -> Json:
    """What that person sees."""
    seen: Json = get(shop, "state", **{"as": who})
    return seen


# acting


def test_commands(shop: Workshop) -> None:
    """A command runs, its answer is there; an unknown one and one that nobody answers say so."""
    assert do(shop, "command", channel="support", text="/hello you") == {"ok": True}
    assert state(shop)["messages"]["C0SUPPORT"][-1]["text"] == "hello you"
    unknown = do(shop, "command", channel="support", text="/nope")
    assert unknown == {"ok": False, "message": "/nope is not a valid command."}
    shop.sandbox.world.ack_seconds = 0.2
    try:
        failed = do(shop, "command", channel="support", text="/deaf")
    finally:
        shop.sandbox.world.ack_seconds = 3.0
    assert failed == {"ok": False, "message": '/deaf failed with the error "operation_timeout"'}


def test_shortcuts(shop: Workshop) -> None:
    """Both kinds of shortcut are used, by callback_id and app."""
    app = shop.sandbox.world.app.id
    assert do(shop, "shortcut", callback_id="form", app=app, channel="support") == {"ok": True}
    ts = do(shop, "say", channel="support", text="x")["ts"]
    assert do(shop, "message_shortcut", channel="support", ts=ts, callback_id="ticket") == {"ok": True}
    assert shop.heard("message_action")["message_ts"] == ts
    assert do(shop, "shortcut", callback_id="none")["ok"] is False
    assert do(shop, "shortcut", callback_id="form", app="A0NONE") == {"ok": False, "message": "there is no app A0NONE"}


def test_suggestions(shop: Workshop) -> None:
    """Options are looked up and chosen in a message; what cannot be loaded says so."""
    ts = shop.post(external())
    place = {"channel": "C0SUPPORT", "ts": ts, "action_id": "fruit"}
    found = do(shop, "suggest", **place, query="fig")
    assert [o["value"] for o in found["options"]] == ["fig"]
    assert do(shop, "click", **place, selected_option=found["options"][0]) == {"ok": True}
    assert shop.heard("block_actions")["actions"][0]["selected_option"]["value"] == "fig"
    assert do(shop, "click", **place, selected_option={"value": "kiwi"})["ok"] is False
    assert "could not be loaded" in do(shop, "suggest", **place, query="none")["message"]
    assert "at least 1" in do(shop, "suggest", **place)["message"]


def test_home(shop: Workshop) -> None:
    """Home is opened, used and typed into; a modal that comes of it is on screen."""
    app = shop.sandbox.world.app.id
    assert do(shop, "home/open", tab="messages") == {"ok": True, "view": None}
    view = {"type": "home", "blocks": [field(), buttons("go")]}
    shop.client.views_publish(user_id="UANA00001", view=view)
    assert do(shop, "home/open", app=app)["view"]["type"] == "home"
    typed = do(shop, "type", home=app, action_id="text", text="milk", enter=True)
    assert typed == {"ok": True, "sent": 1}
    shop.fresh()
    eggs = {"field": {"text": {"type": "plain_text_input", "value": "eggs"}}}
    assert do(shop, "home/click", action_id="go", state=eggs) == {"ok": True}
    body = shop.heard("block_actions")
    assert body["view"]["state"]["values"] == eggs
    shop.client.views_open(trigger_id=body["trigger_id"], view=modal("of home"))
    seen = state(shop)
    assert seen["home"][app]["state"]["values"] == eggs
    (shown,) = seen["views"]
    assert get(shop, "view", id=shown["id"])["callback_id"] == "of home"
    assert get(shop, "view", id=seen["home"][app]["id"])["type"] == "home"
    assert do(shop, "view/close", view_id=shown["id"]) == {"ok": True}


def test_members(shop: Workshop) -> None:
    """Reactions, edits, deletions, joining, leaving and reading, each seen afterwards."""
    ts = do(shop, "say", channel="support", text="teh")["ts"]
    assert do(shop, "react", who="ben", channel="support", ts=ts, name="eyes") == {"ok": True}
    assert do(shop, "edit", channel="support", ts=ts, text="the") == {"ok": True}
    message = next(m for m in state(shop)["messages"]["C0SUPPORT"] if m["ts"] == ts)
    assert (message["text"], message["reactions"]) == ("the", [{"name": "eyes", "users": ["UBEN00001"], "count": 1}])
    assert do(shop, "react", who="ben", channel="support", ts=ts, name="eyes", remove=True) == {"ok": True}
    assert do(shop, "delete", channel="support", ts=ts, who="ben")["ok"] is False
    assert do(shop, "delete", channel="support", ts=ts) == {"ok": True}
    assert "C0PARTNER" in [c["id"] for c in state(shop, "dan")["joinable"]]
    assert do(shop, "join", who="dan", channel="partners") == {"ok": True}
    mine = {c["id"]: c for c in state(shop, "dan")["channels"]}
    do(shop, "say", channel="partners", text="welcome")
    assert do(shop, "read", who="dan", channel="partners") == {"ok": True}
    mine = {c["id"]: c for c in state(shop, "dan")["channels"]}
    assert mine["C0PARTNER"]["unread"] == 0
    assert do(shop, "leave", who="dan", channel="partners") == {"ok": True}
    assert "C0PARTNER" not in [c["id"] for c in state(shop, "dan")["channels"]]


def test_rename(shop: Workshop) -> None:
    """A person renames an agent's session, and the app hears of it; without a session there is nothing to rename."""
    ts = do(shop, "say", channel="support", text="work on this")["ts"]
    place = {"channel": "support", "thread_ts": ts, "title": "The printer"}
    assert do(shop, "rename", **place)["ok"] is False
    session = {"channel_id": "C0SUPPORT", "thread_ts": ts, "status": "active"}
    shop.client.api_call("agents.sessions.setStatus", json=session)
    assert do(shop, "rename", **place) == {"ok": True}
    event = shop.heard("agent_session_title_changed")["event"]
    assert (event["title"], event["user"], event["thread_ts"]) == ("The printer", "UANA00001", ts)


# reading


def test_apps_in_the_state(shop: Workshop) -> None:
    """The state lists what each person can use of each app; people from elsewhere can use nothing."""
    app = next(a for a in state(shop)["apps"] if a["id"] == shop.sandbox.world.app.id)
    assert app == {
        "id": shop.sandbox.world.app.id,
        "name": "countersign",
        "bot_user": shop.sandbox.bot_user_id,
        "bot_id": shop.sandbox.world.app.bot_id,
        "home_enabled": True,
        "messages_enabled": True,
        "dm": shop.ana.dm_channel,
        "commands": [HELLO, {"command": "/deaf", "description": "Hears nothing.", "usage_hint": ""}],
        "shortcuts": [
            {"type": "global", "callback_id": "form", "name": "Form", "description": "Opens a form."},
            {key: TICKET[key] for key in ("type", "callback_id", "name", "description")},
        ],
    }
    theirs = state(shop, "eve")["apps"][0]
    assert (theirs["commands"], theirs["shortcuts"]) == ([], [])
    assert {p["id"]: p["tz"] for p in state(shop)["people"]}["UBEN00001"] == "Europe/London"


def test_deliveries(shop: Workshop) -> None:
    """Each delivery is listed once with its times; what is pending comes again with the next question."""
    after = get(shop, "deliveries", after=0)["after"]
    while more := get(shop, "deliveries", after=after)["deliveries"]:
        after = more[-1]["number"]
    ts = shop.post(buttons("go"))
    do(shop, "click", channel="support", ts=ts, action_id="go")
    found = get(shop, "deliveries", after=after, app=shop.sandbox.world.app.id)
    click = next(d for d in found["deliveries"] if d["type"] == "block_actions")
    assert (click["kind"], click["outcome"], click["attempts"]) == ("interactive", "acked", 1)
    assert len(click["envelope_ids"]) == 1
    assert click["ms"] == pytest.approx((click["acked_at"] - click["sent_at"]) * 1000, abs=0.01)
    assert click["payload"]["actions"][0]["action_id"] == "go"
    assert get(shop, "deliveries", after=found["after"], app="A0OTHER")["deliveries"] == []
    shop.sandbox.world.ack_seconds = 3600.0
    try:
        shop.ana.click("support", shop.post(buttons("deaf")), "deaf")  # which nobody acknowledges
    finally:
        shop.sandbox.world.ack_seconds = 3.0
    for _ in range(2):
        asked = get(shop, "deliveries", after=found["after"])
        assert [d["outcome"] for d in asked["deliveries"] if d["type"] == "block_actions"] == ["pending"]
        found = asked


def test_calls(shop: Workshop) -> None:
    """Each call of the Web API is listed with its answer and how long it took; tokens and tickets never show."""
    after = len(shop.sandbox.requests)
    shop.client.chat_postMessage(channel="C0SUPPORT", text="my token is xoxb-1-secret")
    shop.client.apps_connections_open(app_token=shop.sandbox.app_token)
    secrets = urlencode({"client_secret": "hush", "code": "hush", "client_id": "1.2"})
    urlopen(Request(f"{shop.sandbox.url}/api/oauth.v2.access?{secrets}", method="POST")).close()
    found = get(shop, "calls", after=after)
    first, second, third = found["calls"]
    assert (first["number"], first["method"], first["status"]) == (after + 1, "chat.postMessage", 200)
    assert first["app"] == shop.sandbox.world.app.id
    assert first["args"]["text"] == "my token is …"
    assert first["answer"]["ok"] is True
    assert first["ms"] > 0
    assert second["answer"]["url"].partition("ticket=")[2].startswith("…")
    assert third["args"] == {"client_secret": "…", "code": "…", "client_id": "1.2"}
    assert "xapp" not in json.dumps(found)
    assert get(shop, "calls", after=found["after"])["calls"] == []
    assert get(shop, "calls", after=after, app="A0OTHER")["calls"] == []


def test_raw_message(shop: Workshop) -> None:
    """The raw JSON of a message has its metadata; there is none of what does not exist."""
    metadata = {"event_type": "made", "event_payload": {"by": "hand"}}
    ts = shop.client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[section("x")], metadata=metadata)["ts"]
    assert get(shop, "message", channel="C0SUPPORT", ts=ts)["metadata"] == metadata
    for path in ("message?channel=C0SUPPORT&ts=1.0", "view?id=V0NONE", "state?as=nobody"):
        with pytest.raises(HTTPError) as missing:
            urlopen(f"{shop.sandbox.url}/sandbox/{path}")
        assert missing.value.code == 404
        assert json.load(missing.value)["ok"] is False


# refusing


def refused(shop: Workshop, path: str, body: object) -> str:
    """The sentence of a 400."""
    with pytest.raises(HTTPError) as error:
        post(shop, path, body)
    assert error.value.code == 400
    answer = json.load(error.value)
    assert answer["ok"] is False
    return str(answer["message"])


@pytest.mark.parametrize("path", sorted(ACTIONS))
def test_every_body_is_checked(shop: Workshop, path: str) -> None:
    """Every POST names what is missing, what it does not know and what has the wrong type."""
    fields = {"as": str, **ACTIONS[path][0]}
    needed = {name: "x" for name in fields if not name.endswith("?")}
    assert refused(shop, path, [1]) == "the body must be a JSON object"
    assert refused(shop, path, {**needed, "colour": "red"}).startswith("unknown field: colour; there are as, ")
    for name in needed:
        assert refused(shop, path, needed | {name: None}) == f"missing field: {name}"
        assert refused(shop, path, needed | {name: 5}) == f"{name} must be a string"
    for name, kind in fields.items():
        if name.endswith("?") and kind is not object:
            assert refused(shop, path, needed | {name[:-1]: 5}).startswith(f"{name[:-1]} must be ")


def test_other_refusals(shop: Workshop) -> None:
    """No JSON, odd numbers, places that are none and states that are none are refused with the reason."""
    with pytest.raises(HTTPError) as error:
        urlopen(Request(f"{shop.sandbox.url}/sandbox/say", b"{", {"Content-Type": "application/json"}))
    assert error.value.code == 400
    assert refused(shop, "clock", {"advance": "much"}) == "advance must be a number"
    with pytest.raises(HTTPError) as error:
        get(shop, "deliveries", after="x")
    assert (error.value.code, json.load(error.value)["message"]) == (400, "after must be a number")
    for place in ({}, {"channel": "C0SUPPORT"}, {"view_id": "V1", "home": "A1"}):
        answer = do(shop, "suggest", **place, action_id="fruit")
        assert answer == {"ok": False, "message": "a place is channel and ts, or view_id, or home"}
    ts = shop.post(buttons("go"))
    answer = do(shop, "click", channel="support", ts=ts, action_id="go", state={"field": 5})
    assert answer == {"ok": False, "message": "state must be {block_id: {action_id: element state}}"}
    assert do(shop, "home/open", tab="elsewhere") == {"ok": False, "message": "tab is home or messages"}
