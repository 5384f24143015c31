"""What people do among themselves: statuses, reactions, edits, joining and leaving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.tests.builders import Json, section
from sandbox.tests.harness import BoltHarness, bolt_harness
from sandbox.tests.recordings import differences, fixture
from slack_sandbox.spec.emoji import EMOJI
from slack_sandbox.web_api.reactions import MAX_EMOJI_PER_PERSON


@pytest.fixture(scope="module")
def running() -> Iterator[BoltHarness]:
    """A harness that all tests of this module share; its app only listens."""
    with bolt_harness(lambda _: None) as made:
        yield made


@pytest.fixture
def harness(running: BoltHarness) -> BoltHarness:
    """The shared harness, without the bodies of earlier tests."""
    return running.forget_bodies()


# statuses


def test_a_status_is_seen_until_it_ends(harness: BoltHarness) -> None:
    """Apps get an event and can read the status, until it expires or the person clears it."""
    sandbox, ana = harness.sandbox, harness.ana
    until = int(sandbox.world.now()) + 600
    ana.set_status(":palm_tree:", "Vacationing", until)
    told = harness.wait_for_body("user_change")["event"]["user"]["profile"]
    read = harness.client.users_info(user=ana.id)["user"]["profile"]
    for profile in (told, read):
        assert profile["status_emoji"] == ":palm_tree:"
        assert profile["status_text"] == "Vacationing"
        assert profile["status_expiration"] == until
    sandbox.clock.advance(601)
    assert harness.client.users_info(user=ana.id)["user"]["profile"]["status_emoji"] == ""
    ana.set_status(text="busy")
    assert harness.wait_for_body("user_change")["event"]["user"]["profile"]["status_emoji"] == (
        ":speech_balloon:"
    )
    ana.set_status()
    assert harness.wait_for_body("user_change")["event"]["user"]["profile"]["status_text"] == ""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"emoji": "palm_tree"}, "write it as :palm_tree:"),
        ({"text": "x" * 101}, "at most 100 characters"),
        ({"emoji": ":bus:", "until": 1}, "ends in the future"),
    ],
)
def test_a_wrong_status_is_refused(harness: BoltHarness, given: dict[str, Any], why: str) -> None:
    """An emoji without colons, a long text and an expiry in the past are refused."""
    with pytest.raises(ValueError, match=why):
        harness.ana.set_status(**given)


# reactions


def test_apps_get_events_for_a_members_reaction(harness: BoltHarness) -> None:
    """A reaction is stored on the message; apps in the channel get the event as recorded.

    So it is for its removal.
    """
    ts = harness.post(section("react to me"))
    harness.ana.react("support", ts, "eyes")
    harness.sandbox.person("ben").react("support", ts, "eyes")
    harness.sandbox.person("ben").react("support", ts, "thumbsup::skin-tone-3")
    body = harness.wait_for_body("reaction_added")
    recorded = fixture("bolt_payloads.json")["events.valid_reaction_added_body"]
    assert [
        d for d in differences(recorded, body) if "enterprise" not in d and "authed_users" not in d
    ] == []
    assert set(body["event"]) == set(recorded["event"])
    assert (body["event"]["item"]["ts"], body["event"]["item_user"]) == (
        ts,
        harness.sandbox.bot_user_id,
    )
    assert reactions(harness, ts) == [
        {"name": "eyes", "users": ["UANA00001", "UBEN00001"], "count": 2},
        {"name": "thumbsup::skin-tone-3", "users": ["UBEN00001"], "count": 1},
    ]
    harness.ana.unreact("support", ts, "eyes")
    assert harness.wait_for_body("reaction_removed")["event"]["reaction"] == "eyes"
    assert [each["count"] for each in reactions(harness, ts)] == [1, 1]
    ben = harness.sandbox.person("ben")
    for name in ("eyes", "thumbsup::skin-tone-3"):
        ben.unreact("support", ts, name)
    assert "reactions" not in next(m for m in ben.everything("support") if m["ts"] == ts)


def reactions(harness: BoltHarness, ts: str) -> list[Json]:
    """The reactions of a message in conversations.history."""
    found: list[Json] = harness.client.conversations_history(
        channel="C0SUPPORT", latest=ts, inclusive=True, limit=1
    )["messages"]
    return list(found[0]["reactions"])


def test_unsound_reactions_are_refused(harness: BoltHarness) -> None:
    """Repeated, missing, odd and too many reactions are refused, and those from outside."""
    ts = harness.post(section("x"))
    harness.ana.react("support", ts, "eyes")
    with pytest.raises(ValueError, match="already_reacted"):
        harness.ana.react("support", ts, "eyes")
    with pytest.raises(ValueError, match="no_reaction"):
        harness.ana.unreact("support", ts, "tada")
    for name in (":eyes:", "Eyes", "", "not_an_emoji"):
        with pytest.raises(ValueError, match="invalid_name"):
            harness.ana.react("support", ts, name)
    for name in sorted(EMOJI)[: MAX_EMOJI_PER_PERSON - 1]:
        harness.ana.react("support", ts, name)
    with pytest.raises(ValueError, match="too_many_reactions"):
        harness.ana.react("support", ts, "tada")
    with pytest.raises(ValueError, match="cannot post"):
        harness.sandbox.person("eve").react("support", ts, "eyes")


def test_reactions_in_channels_without_the_app_are_not_sent(harness: BoltHarness) -> None:
    """Channels without the app send it no reactions."""
    before = len(harness.sandbox.deliveries)
    harness.ana.react("random", harness.ana.say("random", "x"), "eyes")
    assert len(harness.sandbox.deliveries) == before


# one's own messages, and channels


def test_people_edit_and_delete_only_their_own_messages(harness: BoltHarness) -> None:
    """The app gets an event for an edit and for a deletion."""
    ts = harness.ana.say("support", "teh")
    harness.ana.edit("support", ts, "the @ben")
    changed = harness.wait_for_body("message")["event"]
    while changed.get("subtype") != "message_changed":
        changed = harness.wait_for_body("message")["event"]
    assert (changed["message"]["text"], changed["message"]["edited"]["user"]) == (
        "the <@UBEN00001>",
        "UANA00001",
    )
    assert changed["previous_message"]["text"] == "teh"
    for refused in (
        lambda who: who.edit("support", ts, "x"),
        lambda who: who.delete("support", ts),
    ):
        with pytest.raises(ValueError, match="not a message of ben"):
            refused(harness.sandbox.person("ben"))
    with pytest.raises(ValueError, match="not a message of ana"):
        harness.ana.edit("support", harness.post(section("the app's")), "x")
    harness.ana.delete("support", ts)
    assert all(m["ts"] != ts for m in harness.ana.everything("support"))


def test_people_join_and_leave_public_channels(harness: BoltHarness) -> None:
    """People come into public channels and leave them, as far as they may."""
    harness.ana.leave("partners")
    assert harness.wait_for_body("member_left_channel")["event"]["user"] == "UANA00001"
    with pytest.raises(ValueError, match="cannot post"):
        harness.ana.say("partners", "still here?")
    harness.ana.join("partners")
    assert harness.wait_for_body("member_joined_channel")["event"]["channel"] == "C0PARTNER"
    with pytest.raises(ValueError, match="already"):
        harness.ana.join("partners")
    refused = [
        ("gus", "general"),
        ("eve", "general"),
        ("ben", "finance-approvals"),
        ("zoe", "general"),
    ]
    for name, channel in refused:
        with pytest.raises(ValueError, match=f"{name}"):
            harness.sandbox.person(name).join(channel)
    for name, channel in (("ana", "general"), ("ana", harness.ana.dm_channel), ("gus", "random")):
        with pytest.raises(ValueError, match="cannot leave"):
            harness.sandbox.person(name).leave(channel)


def test_opening_a_channel_marks_it_read(harness: BoltHarness) -> None:
    """Opening a channel marks its messages as read for that person."""
    world, channel = harness.sandbox.world, harness.sandbox.world.channel("support")
    harness.post(section("news"))
    assert world.unread("UBEN00001", channel) > 0
    harness.sandbox.person("ben").read("support")
    assert world.unread("UBEN00001", channel) == 0
    assert world.unread("UCLEO0001", channel) > 0
