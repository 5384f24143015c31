"""What people do among themselves: reactions, their own messages, coming into channels and leaving
them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bot.sandbox.web_api.reactions import MOST_OF_ONE
from tests.sandbox.support import Json, differences, fixture, section
from tests.sandbox.workshop import Workshop, workshop


@pytest.fixture(scope="module")
def running() -> Iterator[Workshop]:
    """A workspace with an app that only listens."""
    with workshop(lambda _: None) as made:
        yield made


@pytest.fixture
def shop(running: Workshop) -> Workshop:
    """The same, with nothing heard yet."""
    return running.fresh()


# reactions


def test_a_members_reaction_tells_the_apps(shop: Workshop) -> None:
    """A reaction is kept on the message, and tells the apps in the channel in the recorded shape.

    So does its end.
    """
    ts = shop.post(section("react to me"))
    shop.ana.react("support", ts, "eyes")
    shop.sandbox.person("ben").react("support", ts, "eyes")
    shop.sandbox.person("ben").react("support", ts, "thumbsup::skin-tone-3")
    body = shop.heard("reaction_added")
    recorded = fixture("bolt_payloads.json")["events.valid_reaction_added_body"]
    assert [
        d for d in differences(recorded, body) if "enterprise" not in d and "authed_users" not in d
    ] == []
    assert set(body["event"]) == set(recorded["event"])
    assert (body["event"]["item"]["ts"], body["event"]["item_user"]) == (
        ts,
        shop.sandbox.bot_user_id,
    )
    assert reactions(shop, ts) == [
        {"name": "eyes", "users": ["UANA00001", "UBEN00001"], "count": 2},
        {"name": "thumbsup::skin-tone-3", "users": ["UBEN00001"], "count": 1},
    ]
    shop.ana.unreact("support", ts, "eyes")
    assert shop.heard("reaction_removed")["event"]["reaction"] == "eyes"
    assert [each["count"] for each in reactions(shop, ts)] == [1, 1]
    ben = shop.sandbox.person("ben")
    for name in ("eyes", "thumbsup::skin-tone-3"):
        ben.unreact("support", ts, name)
    assert "reactions" not in next(m for m in ben.everything("support") if m["ts"] == ts)


def reactions(shop: Workshop, ts: str) -> list[Json]:
    """The reactions of a message as history has them."""
    found: list[Json] = shop.client.conversations_history(
        channel="C0SUPPORT", latest=ts, inclusive=True, limit=1
    )["messages"]
    return list(found[0]["reactions"])


def test_unsound_reactions_are_refused(shop: Workshop) -> None:
    """The same one twice, none to take back, odd names, too many, and channels one is not in are
    refused.
    """
    ts = shop.post(section("x"))
    shop.ana.react("support", ts, "eyes")
    with pytest.raises(ValueError, match="already_reacted"):
        shop.ana.react("support", ts, "eyes")
    with pytest.raises(ValueError, match="no_reaction"):
        shop.ana.unreact("support", ts, "tada")
    for name in (":eyes:", "Eyes", ""):
        with pytest.raises(ValueError, match="invalid_name"):
            shop.ana.react("support", ts, name)
    for number in range(MOST_OF_ONE - 1):
        shop.ana.react("support", ts, f"emoji{number}")
    with pytest.raises(ValueError, match="too_many_reactions"):
        shop.ana.react("support", ts, "tada")
    with pytest.raises(ValueError, match="cannot post"):
        shop.sandbox.person("eve").react("support", ts, "eyes")


def test_no_event_where_the_app_is_not(shop: Workshop) -> None:
    """Reactions in channels without the app are none of its business."""
    before = len(shop.sandbox.deliveries)
    shop.ana.react("random", shop.ana.say("random", "x"), "eyes")
    assert len(shop.sandbox.deliveries) == before


# one's own messages, and channels


def test_edit_and_delete(shop: Workshop) -> None:
    """People change and delete their own messages, and nobody else's; the app hears of both."""
    ts = shop.ana.say("support", "teh")
    shop.ana.edit("support", ts, "the @ben")
    changed = shop.heard("message")["event"]
    while changed.get("subtype") != "message_changed":
        changed = shop.heard("message")["event"]
    assert (changed["message"]["text"], changed["message"]["edited"]["user"]) == (
        "the <@UBEN00001>",
        "UANA00001",
    )
    assert changed["previous_message"]["text"] == "teh"
    for refused in (
        lambda who: who.edit("support", ts, "x"),
        lambda who: who.delete("support", ts),
    ):
        with pytest.raises(ValueError, match="no message of ben"):
            refused(shop.sandbox.person("ben"))
    with pytest.raises(ValueError, match="no message of ana"):
        shop.ana.edit("support", shop.post(section("the app's")), "x")
    shop.ana.delete("support", ts)
    assert all(m["ts"] != ts for m in shop.ana.everything("support"))


def test_join_and_leave(shop: Workshop) -> None:
    """People come into public channels and leave them, as far as they may."""
    shop.ana.leave("partners")
    assert shop.heard("member_left_channel")["event"]["user"] == "UANA00001"
    with pytest.raises(ValueError, match="cannot post"):
        shop.ana.say("partners", "still here?")
    shop.ana.join("partners")
    assert shop.heard("member_joined_channel")["event"]["channel"] == "C0PARTNER"
    with pytest.raises(ValueError, match="already"):
        shop.ana.join("partners")
    refused = [
        ("gus", "general"),
        ("eve", "general"),
        ("ben", "finance-approvals"),
        ("zoe", "general"),
    ]
    for name, channel in refused:
        with pytest.raises(ValueError, match=f"{name}"):
            shop.sandbox.person(name).join(channel)
    for name, channel in (("ana", "general"), ("ana", shop.ana.dm_channel), ("gus", "random")):
        with pytest.raises(ValueError, match="cannot leave"):
            shop.sandbox.person(name).leave(channel)


def test_opening_a_channel_marks_it_read(shop: Workshop) -> None:
    """Opening a channel marks what is in it as read, for that person."""
    world, channel = shop.sandbox.world, shop.sandbox.world.channel("support")
    shop.post(section("news"))
    assert world.unread("UBEN00001", channel) > 0
    shop.sandbox.person("ben").read("support")
    assert world.unread("UBEN00001", channel) == 0
    assert world.unread("UCLEO0001", channel) > 0
