"""Payloads from Slack as inbox rows: what is stored, and which deliveries count as one."""

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
from bot.cards.views import extract_message_text, is_decision_in_words, is_only_cancellation
from bot.slack.listeners import parse_delivery
from storage.models import Delivery

TEAM = "T0SANDBOX"
FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures" / "bolt_payloads.json"
Json = dict[str, Any]


def build_event(
    kind: str = "message", event_id: str = "Ev1", team: str = TEAM, **fields: Any
) -> Json:
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


def build_click(**fields: Any) -> Json:
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


def parse_row(body: Json) -> Delivery:
    """The payload as a row of the inbox; it has to be stored."""
    found = parse_delivery(body, TEAM)
    assert found is not None
    return found


def test_a_redelivered_message_has_the_same_key() -> None:
    """Its workspace, channel and Slack time identify it, whatever id its delivery has."""
    first, again = parse_row(build_event()), parse_row(build_event(event_id="Ev2"))
    assert (first.kind, first.team, first.user, first.channel) == (
        "message",
        TEAM,
        "UBEN00001",
        "C0SUPPORT",
    )
    assert (first.thread_ts, json.loads(first.body)["event"]["text"]) == ("100.1", "hi")
    assert first.key == again.key
    others = [
        build_event(ts="100.2"),
        build_event(channel="C0GENERAL"),
        build_event(team="T0OTHERCO"),
    ]
    assert len({first.key, *(parse_row(each).key for each in others)}) == 4


def test_a_shared_channels_event_belongs_to_the_installed_team() -> None:
    """Whichever company's team id the event has."""
    shared = build_event(team="T0OTHERCO") | {"authorizations": [{"team_id": TEAM}]}
    named = build_event(team="T0OTHERCO") | {"authorizations": [], "context_team_id": TEAM}
    of_all = build_event() | {"authorizations": [{"team_id": None}], "context_team_id": None}
    theirs = build_event(team="T0OTHERCO") | {"authorizations": [{"team_id": "T0OTHERCO"}]}
    found = [parse_row(each).team for each in (shared, named, of_all, theirs)]
    assert found == [TEAM, TEAM, TEAM, "T0OTHERCO"]
    assert parse_row(shared).key == parse_row(build_event()).key


def test_a_message_is_stored_without_its_blocks() -> None:
    """Its words, files and place are kept, also those before an edit; how Slack sent it is not."""
    blocks = [{"type": "rich_text", "elements": []}]
    files = [{"id": "F1", "name": "a.txt"}]
    changed = build_event(
        blocks=blocks,
        files=files,
        message={"ts": "100.1", "text": "new", "blocks": blocks},
        previous_message={"ts": "100.1", "text": "old", "blocks": blocks},
    )
    passing = {"token": "t", "api_app_id": "A1", "event_context": "1-x", "context_team_id": TEAM}
    body = (
        changed | passing | {"authorizations": [{"team_id": TEAM}], "is_ext_shared_channel": True}
    )
    stored = parse_row(body)
    said = json.loads(stored.body)
    kept = build_event(
        files=files,
        message={"ts": "100.1", "text": "new"},
        previous_message={"ts": "100.1", "text": "old"},
    )
    assert said == kept | {"is_ext_shared_channel": True}
    assert (
        body["event"]["blocks"] == body["event"]["message"]["blocks"] == blocks
    )  # Bolt's copy is unchanged


def test_half_a_surrogate_pair_is_replaced() -> None:
    """So it goes to the model, too; an earlier build stored it as it came."""
    found = parse_row(build_event(text="broken \ud83d heart \N{WHITE SMILING FACE}"))
    told = json.loads(found.body.encode())["event"]["text"]
    assert told == "broken ? heart \N{WHITE SMILING FACE}"
    as_it_came = build_event(text="broken \ud83d heart")["event"]
    assert extract_message_text(as_it_came, "UBOT00001") == "broken ? heart"


def test_invisible_characters_are_no_text() -> None:
    """They hide no "cancel" either; visible characters stay."""
    assert extract_message_text({"text": "<@UBOT00001> \u200b\u2060\u202e"}, "UBOT00001") == ""
    assert (
        extract_message_text({"text": "<@UBOT00001> 👩\u200d👧\ufe0f"}, "UBOT00001")
        == "👩\u200d👧\ufe0f"
    )
    assert is_only_cancellation("\u200bcan\u00adcel\u2060 this!")
    assert not is_only_cancellation("\u200b")


@pytest.mark.parametrize("subtype", [None, "file_share", "thread_broadcast"])
def test_a_mention_and_its_message_are_one_delivery(subtype: str | None) -> None:
    """Also with a file, or when a reply is sent to the channel as well."""
    extra = {"subtype": subtype} if subtype else {}
    assert (
        parse_row(build_event("app_mention", "Ev1")).key
        == parse_row(build_event("message", "Ev2", **extra)).key
    )


@pytest.mark.parametrize(
    "subtype", ["message_changed", "message_deleted", "channel_join", "bot_message"]
)
def test_a_change_to_a_message_is_a_delivery_of_its_own(subtype: str) -> None:
    """It has the key of its event, so that it hides no message; redelivered, it is the same."""
    changed = parse_row(build_event(subtype=subtype))
    assert changed.key != parse_row(build_event()).key
    assert changed.key == parse_row(build_event(subtype=subtype)).key
    assert changed.key != parse_row(build_event(subtype=subtype, event_id="Ev2")).key


def test_a_reply_belongs_to_its_thread() -> None:
    """A message outside a thread begins its own."""
    assert parse_row(build_event(thread_ts="90.1")).thread_ts == "90.1"
    assert parse_row(build_event()).thread_ts == "100.1"


def test_an_event_may_have_nulls() -> None:
    """They are the same as values that are left out."""
    row = parse_row(build_event("subteam_updated", user=None, channel=None, ts=None))
    assert (row.user, row.channel, row.thread_ts) == ("", "", "")


def test_other_events_are_keyed_by_their_event_id() -> None:
    """User and channel may come as ids or as objects."""
    changed = parse_row(build_event("user_change", user={"id": "UANA00001", "deleted": True}))
    assert (changed.kind, changed.user, changed.key) == ("event", "UANA00001", "event:Ev1")
    created = parse_row(build_event("channel_rename", channel={"id": "C1", "name": "new"}))
    assert (created.kind, created.channel) == ("event", "C1")
    bare = parse_row(
        {
            "type": "event_callback",
            "team_id": TEAM,
            "event_id": "Ev9",
            "event": {"type": "tokens_revoked"},
        }
    )
    assert (bare.key, bare.user, bare.channel, bare.thread_ts) == ("event:Ev9", "", "", "")


def test_a_redelivered_click_has_the_same_key() -> None:
    """Though with another trigger; a second click is another one."""
    first = parse_row(build_click())
    assert (first.kind, first.team, first.user, first.channel) == (
        "action",
        TEAM,
        "UANA00001",
        "C0SUPPORT",
    )
    assert first.thread_ts == "100.1"
    again = build_click() | {"trigger_id": "t2", "response_url": "https://hooks.slack.test/2"}
    assert parse_row(again).key == first.key
    assert parse_row(build_click(action_ts="200.2")).key != first.key


def test_a_click_is_stored_without_the_card() -> None:
    """The blocks of the message and of the view are left out."""
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": "x" * 3000}}] * 40
    clicked = build_click() | {
        "message": {"ts": "100.2", "thread_ts": "100.1", "text": "long", "blocks": blocks},
        "view": {"id": "V1", "private_metadata": "p", "state": {"values": {}}, "blocks": blocks},
    }
    stored = parse_row(clicked)
    assert (stored.key, stored.thread_ts) == (parse_row(build_click()).key, "100.1")
    said = json.loads(stored.body)
    assert said.pop("message") == {"ts": "100.2", "thread_ts": "100.1"}
    assert said.pop("view") == {"id": "V1", "private_metadata": "p", "state": {"values": {}}}
    assert said == {name: each for name, each in build_click().items() if name != "message"}


CHANGES: dict[str, Callable[[Json], object]] = {
    "person": lambda body: body["user"].update(id="UCLEO0001"),
    "button": lambda body: body["actions"][0].update(action_id="approve_all"),
    "value": lambda body: body["actions"][0].update(value="call:2"),
    "card": lambda body: body["container"].update(message_ts="100.3"),
    "channel": lambda body: body["container"].update(channel_id="C0FINANCE"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_click_that_differs_in_anything_has_another_key(what: str) -> None:
    """Even in the same moment."""
    changed = build_click()
    CHANGES[what](changed)
    assert parse_row(changed).key != parse_row(build_click()).key


@pytest.mark.parametrize("name", [Action.EDIT, Action.REJECT, Action.REJECT_ALL, Action.REVIEW])
def test_a_click_that_opens_a_dialog_is_not_stored(name: str) -> None:
    """Neither is a submission before it was checked."""
    assert parse_delivery(build_click(action_id=name), TEAM) is None
    assert parse_delivery({"type": "view_submission", "view": {}}, TEAM) is None
    assert parse_delivery({"type": "view_closed", "view": {}}, TEAM) is None
    assert parse_delivery({"type": "shortcut"}, TEAM) is None
    assert parse_delivery({}, TEAM) is None


def test_a_delivery_names_the_workspace_it_came_from() -> None:
    """Not the one that it was delivered to."""
    assert parse_row(build_event(team="T0OTHERCO")).team == "T0OTHERCO"
    assert parse_row(build_click() | {"team": {"id": "T0OTHERCO"}}).team == "T0OTHERCO"
    without = build_click() | {"team": None}
    without["user"]["team_id"] = "T0OTHERCO"
    assert parse_row(without).team == "T0OTHERCO"


@given(st.text(max_size=20), st.text(max_size=20))
def test_clicks_have_one_key_only_if_their_values_are_equal(left: str, right: str) -> None:
    """Whatever characters the values have."""
    assert (parse_row(build_click(value=left)).key == parse_row(build_click(value=right)).key) == (
        left == right
    )


# needed only at once, or about the delivery, or about how a message or button is drawn
NOT_STORED = {
    *("actions.text", "event.blocks", "event.message.blocks", "event.previous_message.blocks"),
    *("api_app_id", "authorizations", "event_context", "response_url", "token"),
}


def list_left_out_fields(stored: Any, given: Any, at: str = "") -> Iterator[str]:
    """The fields of a payload that are not stored; what is stored is unchanged."""
    if isinstance(stored, dict) and isinstance(given, dict):
        assert stored.keys() <= given.keys()
        yield from (f"{at}{name}" for name in given.keys() - stored.keys())
        for name, value in stored.items():
            yield from list_left_out_fields(value, given[name], f"{at}{name}.")
    elif isinstance(stored, list) and isinstance(given, list):
        assert len(stored) == len(given)
        for one, other in zip(stored, given, strict=True):
            yield from list_left_out_fields(one, other, at)
    else:
        assert stored == given


@pytest.mark.skipif(
    not FIXTURES.is_file(), reason="the recorded payloads are not beside the project"
)
def test_recorded_payloads_are_parsed_and_stored() -> None:
    """Reading one twice gives the same key."""
    kinds = set()
    for name, body in json.loads(FIXTURES.read_text()).items():
        before = copy.deepcopy(body)
        if "event" in body and "event_id" not in body:
            continue  # an incomplete recording
        found = parse_delivery(body, TEAM)
        assert body == before, name
        if found is None:
            assert body["type"] not in ("event_callback", "block_actions"), name
            continue
        again = parse_delivery(body, TEAM)
        assert again is not None
        assert found.key == again.key, name
        assert set(list_left_out_fields(json.loads(found.body), body)) <= NOT_STORED, name
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


def test_words_that_decide_are_distinguished_from_talk() -> None:
    """However short they are; a question, or talk about a decision, decides nothing."""
    found = {text: is_decision_in_words(text) for text in re.split(r"[|\n]+", DECISIONS)}
    assert not [text for text, decides in found.items() if not decides]
    assert not [text for text in re.split(r"[|\n]+", TALK) if is_decision_in_words(text)]
    assert not is_decision_in_words("")
    assert is_decision_in_words("\u200byes")
