"""Payloads as inbox rows: what is stored, and what makes two deliveries one."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.cards.action_names import Action
from bot.cards.views import (
    extract_message_text,
    is_decision_in_words,
    is_only_cancellation,
)
from bot.slack.listeners import parse_delivery
from storage.models import Delivery

TEAM = "T0SANDBOX"
FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures" / "bolt_payloads.json"
Json = dict[str, Any]


def event(kind: str = "message", event_id: str = "Ev1", team: str = TEAM, **fields: Any) -> Json:
    """An event as Slack delivers it."""
    inner = {
        "type": kind,
        "user": "UBEN00001",
        "channel": "C0SUPPORT",
        "ts": "100.1",
        "text": "hi",
        **fields,
    }
    return {"type": "event_callback", "team_id": team, "event_id": event_id, "event": inner}


def action(**fields: Any) -> Json:
    """A click on a button of a card in a thread."""
    button = {"action_id": "approve", "block_id": "b", "value": "call:1", "action_ts": "200.1"}
    return {
        "type": "block_actions",
        "team": {"id": TEAM},
        "user": {"id": "UANA00001", "team_id": TEAM},
        "channel": {"id": "C0SUPPORT"},
        "message": {"ts": "100.2", "thread_ts": "100.1"},
        "trigger_id": "t1",
        "container": {"type": "message", "channel_id": "C0SUPPORT", "message_ts": "100.2"},
        "actions": [button | fields],
    }


def row(body: Json) -> Delivery:
    """The payload as a row; it must be one."""
    found = parse_delivery(body, TEAM)
    assert found is not None
    return found


def test_a_message_is_one_thing() -> None:
    """A message is one thing by its place and Slack time, whatever number its delivery bears."""
    first, again = row(event()), row(event(event_id="Ev2"))
    assert (first.kind, first.team, first.user, first.channel) == (
        "message",
        TEAM,
        "UBEN00001",
        "C0SUPPORT",
    )
    assert (first.thread_ts, json.loads(first.body)["event"]["text"]) == ("100.1", "hi")
    assert first.key == again.key
    others = [event(ts="100.2"), event(channel="C0GENERAL"), event(team="T0OTHERCO")]
    assert len({first.key, *(row(each).key for each in others)}) == 4


def test_whose_an_event_of_a_shared_channel_is() -> None:
    """It is delivered to the workspace that installed the app, whatever company's it bears."""
    shared = event(team="T0OTHERCO") | {"authorizations": [{"team_id": TEAM}]}
    named = event(team="T0OTHERCO") | {"authorizations": [], "context_team_id": TEAM}
    of_all = event() | {"authorizations": [{"team_id": None}], "context_team_id": None}
    theirs = event(team="T0OTHERCO") | {"authorizations": [{"team_id": "T0OTHERCO"}]}
    found = [row(each).team for each in (shared, named, of_all, theirs)]
    assert found == [TEAM, TEAM, TEAM, "T0OTHERCO"]
    assert row(shared).key == row(event()).key


def test_a_message_is_stored_without_its_blocks() -> None:
    """Its words, files and place stay, as before an edit; not what Slack says of how it came."""
    blocks = [{"type": "rich_text", "elements": []}]
    files = [{"id": "F1", "name": "a.txt"}]
    changed = event(
        blocks=blocks,
        files=files,
        message={"ts": "100.1", "text": "new", "blocks": blocks},
        previous_message={"ts": "100.1", "text": "old", "blocks": blocks},
    )
    passing = {"token": "t", "api_app_id": "A1", "event_context": "1-x", "context_team_id": TEAM}
    body = (
        changed | passing | {"authorizations": [{"team_id": TEAM}], "is_ext_shared_channel": True}
    )
    stored = row(body)
    said = json.loads(stored.body)
    kept = event(
        files=files,
        message={"ts": "100.1", "text": "new"},
        previous_message={"ts": "100.1", "text": "old"},
    )
    assert said == kept | {"is_ext_shared_channel": True}
    assert body["event"]["blocks"] == body["event"]["message"]["blocks"] == blocks  # as Bolt has it


def test_half_a_surrogate_pair() -> None:
    """Text that is no valid Unicode is stored with the broken half replaced.

    So it goes on to the model, too; an earlier build stored it as it came.
    """
    found = row(event(text="broken \ud83d heart \N{WHITE SMILING FACE}"))
    told = json.loads(found.body.encode())["event"]["text"]
    assert told == "broken ? heart \N{WHITE SMILING FACE}"
    as_it_came = event(text="broken \ud83d heart")["event"]
    assert extract_message_text(as_it_came, "UBOT00001") == "broken ? heart"


def test_what_nobody_can_see_says_nothing() -> None:
    """A message of hidden characters is empty, and they hide no "cancel"; seen ones stay as is."""
    assert extract_message_text({"text": "<@UBOT00001> \u200b\u2060\u202e"}, "UBOT00001") == ""
    assert (
        extract_message_text({"text": "<@UBOT00001> 👩\u200d👧\ufe0f"}, "UBOT00001")
        == "👩\u200d👧\ufe0f"
    )
    assert is_only_cancellation("\u200bcan\u00adcel\u2060 this!")
    assert not is_only_cancellation("\u200b")


@pytest.mark.parametrize("subtype", [None, "file_share", "thread_broadcast"])
def test_a_mention_comes_twice(subtype: str | None) -> None:
    """The mention and the message of one text are one request.

    They are also with a file, or when sent to the channel.
    """
    extra = {"subtype": subtype} if subtype else {}
    assert row(event("app_mention", "Ev1")).key == row(event("message", "Ev2", **extra)).key


@pytest.mark.parametrize(
    "subtype", ["message_changed", "message_deleted", "channel_join", "bot_message"]
)
def test_what_happens_to_a_message_is_another_delivery(subtype: str) -> None:
    """An edit or a deletion has the key of its event, so that it hides no message.

    Its redelivery is the same.
    """
    changed = row(event(subtype=subtype))
    assert changed.key != row(event()).key
    assert changed.key == row(event(subtype=subtype)).key
    assert changed.key != row(event(subtype=subtype, event_id="Ev2")).key


def test_a_reply_belongs_to_its_thread() -> None:
    """A reply's thread is its parent's; a message outside one begins its own."""
    assert row(event(thread_ts="90.1")).thread_ts == "90.1"
    assert row(event()).thread_ts == "100.1"


def test_events_that_are_no_messages() -> None:
    """Other events are kept by the id of their event.

    Odd shapes of user and channel are understood.
    """
    changed = row(event("user_change", user={"id": "UANA00001", "deleted": True}))
    assert (changed.kind, changed.user, changed.key) == ("event", "UANA00001", "event:Ev1")
    created = row(event("channel_rename", channel={"id": "C1", "name": "new"}))
    assert (created.kind, created.channel) == ("event", "C1")
    bare = row(
        {
            "type": "event_callback",
            "team_id": TEAM,
            "event_id": "Ev9",
            "event": {"type": "tokens_revoked"},
        }
    )
    assert (bare.key, bare.user, bare.channel, bare.thread_ts) == ("event:Ev9", "", "", "")


def test_a_click_delivered_again() -> None:
    """The same click delivered again, with another trigger, is the same.

    A second click is another.
    """
    first = row(action())
    assert (first.kind, first.team, first.user, first.channel) == (
        "action",
        TEAM,
        "UANA00001",
        "C0SUPPORT",
    )
    assert first.thread_ts == "100.1"
    again = action() | {"trigger_id": "t2", "response_url": "https://hooks.slack.test/2"}
    assert row(again).key == first.key
    assert row(action(action_ts="200.2")).key != first.key


def test_a_click_is_stored_without_the_card() -> None:
    """Of the message and the view that a click was made in nothing is kept that draws them."""
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": "x" * 3000}}] * 40
    clicked = action() | {
        "message": {"ts": "100.2", "thread_ts": "100.1", "text": "long", "blocks": blocks},
        "view": {"id": "V1", "private_metadata": "p", "state": {"values": {}}, "blocks": blocks},
    }
    stored = row(clicked)
    assert (stored.key, stored.thread_ts) == (row(action()).key, "100.1")
    said = json.loads(stored.body)
    assert said.pop("message") == {"ts": "100.2", "thread_ts": "100.1"}
    assert said.pop("view") == {"id": "V1", "private_metadata": "p", "state": {"values": {}}}
    assert said == {name: each for name, each in action().items() if name != "message"}


CHANGES: dict[str, Callable[[Json], object]] = {
    "person": lambda body: body["user"].update(id="UCLEO0001"),
    "button": lambda body: body["actions"][0].update(action_id="approve_all"),
    "value": lambda body: body["actions"][0].update(value="call:2"),
    "card": lambda body: body["container"].update(message_ts="100.3"),
    "channel": lambda body: body["container"].update(channel_id="C0FINANCE"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_other_clicks_are_other_deliveries(what: str) -> None:
    """A click by somebody else, or on another button, value or card, is another delivery.

    It is even in the same moment.
    """
    changed = action()
    CHANGES[what](changed)
    assert row(changed).key != row(action()).key


@pytest.mark.parametrize("name", [Action.EDIT, Action.REJECT, Action.REJECT_ALL, Action.REVIEW])
def test_what_opens_a_dialog_is_not_stored(name: str) -> None:
    """A click that only opens a dialog leaves no row.

    Neither does a submission before it was checked.
    """
    assert parse_delivery(action(action_id=name), TEAM) is None
    assert parse_delivery({"type": "view_submission", "view": {}}, TEAM) is None
    assert parse_delivery({"type": "view_closed", "view": {}}, TEAM) is None
    assert parse_delivery({"type": "shortcut"}, TEAM) is None
    assert parse_delivery({}, TEAM) is None


def test_another_workspace_is_told_apart() -> None:
    """A delivery names the workspace it came from, never the one that it came to."""
    assert row(event(team="T0OTHERCO")).team == "T0OTHERCO"
    assert row(action() | {"team": {"id": "T0OTHERCO"}}).team == "T0OTHERCO"
    without = action() | {"team": None}
    without["user"]["team_id"] = "T0OTHERCO"
    assert row(without).team == "T0OTHERCO"


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_value_looks_like_another_key(left: str, right: str) -> None:
    """Whatever a button's value holds, two clicks have one key just when their values are one."""
    assert (row(action(value=left)).key == row(action(value=right)).key) == (left == right)


# what serves at once or says how Slack came to send it, and how a message or a button is drawn
NOT_STORED = {
    *("actions.text", "event.blocks", "event.message.blocks", "event.previous_message.blocks"),
    *("api_app_id", "authorizations", "event_context", "response_url", "token"),
}


def left_out(stored: Any, given: Any, at: str = "") -> Iterator[str]:
    """Where a payload has what is not stored of it; what is stored is as it was given."""
    if isinstance(stored, dict) and isinstance(given, dict):
        assert stored.keys() <= given.keys()
        yield from (f"{at}{name}" for name in given.keys() - stored.keys())
        for name, value in stored.items():
            yield from left_out(value, given[name], f"{at}{name}.")
    elif isinstance(stored, list) and isinstance(given, list):
        assert len(stored) == len(given)
        for one, other in zip(stored, given, strict=True):
            yield from left_out(one, other, at)
    else:
        assert stored == given


@pytest.mark.skipif(
    not FIXTURES.is_file(), reason="the recorded payloads are not beside the project"
)
def test_recorded_payloads_are_read() -> None:
    """Every payload that Slack is known to send is read without error, with its words.

    Read twice, it has the same key.
    """
    kinds = set()
    for name, body in json.loads(FIXTURES.read_text()).items():
        before = copy.deepcopy(body)
        if "event" in body and "event_id" not in body:
            continue  # an excerpt
        found = parse_delivery(body, TEAM)
        assert body == before, name
        if found is None:
            assert body["type"] not in ("event_callback", "block_actions"), name
            continue
        again = parse_delivery(body, TEAM)
        assert again is not None
        assert found.key == again.key, name
        assert set(left_out(json.loads(found.body), body)) <= NOT_STORED, name
        granted = [each.get("team_id") for each in body.get("authorizations", ())]
        own = body.get("team_id") or body.get("team", {}).get("id", "")
        assert found.team == (next(iter(granted), None) or own), name
        kinds.add(found.kind)
    assert kinds == {"message", "event", "action"}


DECISIONS = """yes|Yes!|ok do it|OK, go ahead.|sure|no|LGTM|👍|👍🏽|:+1:|:+1::skin-tone-3:|+1|-1|✅
:white_check_mark:|approve|Approved!|I approve this refund of 40 EUR|yes, approved from my side
we reject this|I’m fine with it|please proceed"""
TALK = """hm|yes?|has anybody approved this?|Ana approved it already|not approved yet|on it|thanks
ok, let me look first|no idea|it is me|yes but only 30 EUR|do you know the order|I|go to lunch|🎉"""


def test_words_that_decide_are_known_from_talk() -> None:
    """Agreement and refusal, however short; a question, or talk about either, is none."""
    found = {text: is_decision_in_words(text) for text in re.split(r"[|\n]+", DECISIONS)}
    assert not [text for text, decides in found.items() if not decides]
    assert not [text for text in re.split(r"[|\n]+", TALK) if is_decision_in_words(text)]
    assert not is_decision_in_words("")
    assert is_decision_in_words("\u200byes")
