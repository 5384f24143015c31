"""Acting over the HTTP control interface: every act that tests and the page use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.http.control_client import control_shop, do, external, field, get, state
from tests.sandbox.support import buttons, modal
from tests.sandbox.workshop import Workshop


@pytest.fixture(scope="module")
def running() -> Iterator[Workshop]:
    """One workspace for all tests of this file."""
    with control_shop() as made:
        yield made


@pytest.fixture
def shop(running: Workshop) -> Workshop:
    """The same, with nothing heard yet."""
    return running.fresh()


def test_a_command_runs_and_is_answered(shop: Workshop) -> None:
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


def test_both_kinds_of_shortcut_are_used(shop: Workshop) -> None:
    """Both kinds of shortcut are used, by callback_id and app."""
    app = shop.sandbox.world.app.id
    assert do(shop, "shortcut", callback_id="form", app=app, channel="support") == {"ok": True}
    ts = do(shop, "say", channel="support", text="x")["ts"]
    assert do(shop, "message_shortcut", channel="support", ts=ts, callback_id="ticket") == {
        "ok": True
    }
    assert shop.heard("message_action")["message_ts"] == ts
    assert do(shop, "shortcut", callback_id="none")["ok"] is False
    assert do(shop, "shortcut", callback_id="form", app="A0NONE") == {
        "ok": False,
        "message": "there is no app A0NONE",
    }


def test_options_are_looked_up_and_chosen(shop: Workshop) -> None:
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


def test_home_is_opened_used_and_typed_into(shop: Workshop) -> None:
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


def test_each_act_of_a_member_is_seen_afterwards(shop: Workshop) -> None:
    """Reactions, edits, deletions, joining, leaving and reading, each seen afterwards."""
    ts = do(shop, "say", channel="support", text="teh")["ts"]
    assert do(shop, "react", who="ben", channel="support", ts=ts, name="eyes") == {"ok": True}
    assert do(shop, "edit", channel="support", ts=ts, text="the") == {"ok": True}
    message = next(m for m in state(shop)["messages"]["C0SUPPORT"] if m["ts"] == ts)
    assert (message["text"], message["reactions"]) == (
        "the",
        [{"name": "eyes", "users": ["UBEN00001"], "count": 1}],
    )
    assert do(shop, "react", who="ben", channel="support", ts=ts, name="eyes", remove=True) == {
        "ok": True
    }
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


def test_a_person_renames_an_agents_session(shop: Workshop) -> None:
    """A person renames an agent's session, and the app hears of it.

    Without a session there is nothing to rename.
    """
    ts = do(shop, "say", channel="support", text="work on this")["ts"]
    place = {"channel": "support", "thread_ts": ts, "title": "The printer"}
    assert do(shop, "rename", **place)["ok"] is False
    session = {"channel_id": "C0SUPPORT", "thread_ts": ts, "status": "active"}
    shop.client.api_call("agents.sessions.setStatus", json=session)
    assert do(shop, "rename", **place) == {"ok": True}
    event = shop.heard("agent_session_title_changed")["event"]
    assert (event["title"], event["user"], event["thread_ts"]) == ("The printer", "UANA00001", ts)
