"""Acting over the HTTP control interface: every action that tests and the page use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.tests.builders import buttons, modal
from sandbox.tests.harness import BoltHarness
from sandbox.tests.http.control_client import control_harness, do, external, field, get, state


@pytest.fixture(scope="module")
def running() -> Iterator[BoltHarness]:
    """A harness that all tests of this module share."""
    with control_harness() as made:
        yield made


@pytest.fixture
def harness(running: BoltHarness) -> BoltHarness:
    """The shared harness, without the bodies of earlier tests."""
    return running.forget_bodies()


def test_a_command_runs_and_is_answered(harness: BoltHarness) -> None:
    """A command runs, its answer is there; an unknown one and one that nobody answers say so."""
    assert do(harness, "command", channel="support", text="/hello you") == {"ok": True}
    assert state(harness)["messages"]["C0SUPPORT"][-1]["text"] == "hello you"
    unknown = do(harness, "command", channel="support", text="/nope")
    assert unknown == {"ok": False, "message": "/nope is not a valid command."}
    harness.sandbox.world.ack_seconds = 0.2
    try:
        failed = do(harness, "command", channel="support", text="/deaf")
    finally:
        harness.sandbox.world.ack_seconds = 3.0
    assert failed == {"ok": False, "message": '/deaf failed with the error "operation_timeout"'}


def test_both_kinds_of_shortcut_are_used(harness: BoltHarness) -> None:
    """Both kinds of shortcut are used, by callback_id and app."""
    app = harness.sandbox.world.app.id
    assert do(harness, "shortcut", callback_id="form", app=app, channel="support") == {"ok": True}
    ts = do(harness, "say", channel="support", text="x")["ts"]
    assert do(harness, "message_shortcut", channel="support", ts=ts, callback_id="ticket") == {
        "ok": True
    }
    assert harness.wait_for_body("message_action")["message_ts"] == ts
    assert do(harness, "shortcut", callback_id="none")["ok"] is False
    assert do(harness, "shortcut", callback_id="form", app="A0NONE") == {
        "ok": False,
        "message": "there is no app A0NONE",
    }


def test_options_are_looked_up_and_chosen(harness: BoltHarness) -> None:
    """If options cannot be loaded, the answer says so."""
    ts = harness.post(external())
    place = {"channel": "C0SUPPORT", "ts": ts, "action_id": "fruit"}
    found = do(harness, "suggest", **place, query="fig")
    assert [o["value"] for o in found["options"]] == ["fig"]
    assert do(harness, "click", **place, selected_option=found["options"][0]) == {"ok": True}
    assert harness.wait_for_body("block_actions")["actions"][0]["selected_option"]["value"] == "fig"
    assert do(harness, "click", **place, selected_option={"value": "kiwi"})["ok"] is False
    assert "could not be loaded" in do(harness, "suggest", **place, query="none")["message"]
    assert "at least 1" in do(harness, "suggest", **place)["message"]


def test_home_is_opened_used_and_typed_into(harness: BoltHarness) -> None:
    """A modal that the app opens then is on screen."""
    app = harness.sandbox.world.app.id
    assert do(harness, "home/open", tab="messages") == {"ok": True, "view": None}
    view = {"type": "home", "blocks": [field(), buttons("go")]}
    harness.client.views_publish(user_id="UANA00001", view=view)
    assert do(harness, "home/open", app=app)["view"]["type"] == "home"
    typed = do(harness, "type", home=app, action_id="text", text="milk", enter=True)
    assert typed == {"ok": True, "sent": 1}
    harness.forget_bodies()
    eggs = {"field": {"text": {"type": "plain_text_input", "value": "eggs"}}}
    assert do(harness, "home/click", action_id="go", state=eggs) == {"ok": True}
    body = harness.wait_for_body("block_actions")
    assert body["view"]["state"]["values"] == eggs
    harness.client.views_open(trigger_id=body["trigger_id"], view=modal("of home"))
    seen = state(harness)
    assert seen["home"][app]["state"]["values"] == eggs
    (shown,) = seen["views"]
    assert get(harness, "view", id=shown["id"])["callback_id"] == "of home"
    assert get(harness, "view", id=seen["home"][app]["id"])["type"] == "home"
    assert do(harness, "view/close", view_id=shown["id"]) == {"ok": True}


def test_each_act_of_a_member_is_seen_afterwards(harness: BoltHarness) -> None:
    """Reactions, edits, deletions, joining, leaving and reading, each seen afterwards."""
    ts = do(harness, "say", channel="support", text="teh")["ts"]
    assert do(harness, "react", who="ben", channel="support", ts=ts, name="eyes") == {"ok": True}
    assert do(harness, "edit", channel="support", ts=ts, text="the") == {"ok": True}
    message = next(m for m in state(harness)["messages"]["C0SUPPORT"] if m["ts"] == ts)
    assert (message["text"], message["reactions"]) == (
        "the",
        [{"name": "eyes", "users": ["UBEN00001"], "count": 1}],
    )
    assert do(harness, "react", who="ben", channel="support", ts=ts, name="eyes", remove=True) == {
        "ok": True
    }
    assert do(harness, "delete", channel="support", ts=ts, who="ben")["ok"] is False
    assert do(harness, "delete", channel="support", ts=ts) == {"ok": True}
    assert "C0PARTNER" in [c["id"] for c in state(harness, "dan")["joinable"]]
    assert do(harness, "join", who="dan", channel="partners") == {"ok": True}
    mine = {c["id"]: c for c in state(harness, "dan")["channels"]}
    do(harness, "say", channel="partners", text="welcome")
    assert do(harness, "read", who="dan", channel="partners") == {"ok": True}
    mine = {c["id"]: c for c in state(harness, "dan")["channels"]}
    assert mine["C0PARTNER"]["unread"] == 0
    assert do(harness, "leave", who="dan", channel="partners") == {"ok": True}
    assert "C0PARTNER" not in [c["id"] for c in state(harness, "dan")["channels"]]


def test_a_person_pauses_their_notifications(harness: BoltHarness) -> None:
    """Until a time, or in hours of every day; a wrong time is refused."""
    person = harness.sandbox.person("ana").person
    until = int(harness.sandbox.world.now()) + 600
    assert do(harness, "do_not_disturb", until=until, hours="22:00-07:30")["ok"]
    assert person.paused
    assert (person.paused[1], person.quiet_hours) == (until, (1320, 450))
    assert "write them as" in do(harness, "do_not_disturb", hours="at night")["message"]
    assert do(harness, "do_not_disturb") == {"ok": True}
    assert (person.paused, person.quiet_hours) == (None, None)


def test_a_person_renames_an_agents_session(harness: BoltHarness) -> None:
    """The app gets an event.

    Without a session there is nothing to rename.
    """
    ts = do(harness, "say", channel="support", text="work on this")["ts"]
    place = {"channel": "support", "thread_ts": ts, "title": "The printer"}
    assert do(harness, "rename", **place)["ok"] is False
    session = {"channel_id": "C0SUPPORT", "thread_ts": ts, "status": "active"}
    harness.client.api_call("agents.sessions.setStatus", json=session)
    assert do(harness, "rename", **place) == {"ok": True}
    event = harness.wait_for_body("agent_session_title_changed")["event"]
    assert (event["title"], event["user"], event["thread_ts"]) == ("The printer", "UANA00001", ts)
