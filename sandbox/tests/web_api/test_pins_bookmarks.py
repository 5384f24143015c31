"""pins.* and bookmarks.*: what is kept at the top of a channel."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.harness import events, second_client
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox
from slack_sandbox.web_api import marks

SUPPORT = "C0SUPPORT"


def test_messages_can_be_pinned_and_unpinned(sandbox: Sandbox, client: WebClient) -> None:
    """Pins are listed latest first and shown on the message; apps get events."""
    first, second = (sandbox.person("ana").say("support", text) for text in ("one", "two"))
    client.pins_add(channel=SUPPORT, timestamp=first)
    sandbox.clock.advance(5)
    client.pins_add(channel=SUPPORT, timestamp=second)
    items = client.pins_list(channel=SUPPORT)["items"]
    assert [item["message"]["text"] for item in items] == ["two", "one"]
    assert {item["created_by"] for item in items} == {sandbox.bot_user_id}
    assert client.conversations_history(channel=SUPPORT)["pin_count"] == 2
    shown = client.conversations_history(channel=SUPPORT)["messages"][1]
    assert (shown["pinned_to"], shown["pinned_info"]["pinned_by"]) == (
        [SUPPORT],
        sandbox.bot_user_id,
    )
    assert refused(client, "pins.add", channel=SUPPORT, timestamp=first) == "already_pinned"
    client.pins_remove(channel=SUPPORT, timestamp=first)
    assert refused(client, "pins.remove", channel=SUPPORT, timestamp=first) == "no_pin"
    added, _, removed = events(sandbox, "pin_added", "pin_removed")
    assert (added["item"]["message"]["ts"], added["channel_id"], removed["has_pins"]) == (
        first,
        SUPPORT,
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"channel": SUPPORT}, "no_item_specified"),
        ({"channel": SUPPORT, "timestamp": "x"}, "bad_timestamp"),
        ({"channel": SUPPORT, "timestamp": "1.000001"}, "message_not_found"),
        ({"channel": "C0NONE", "timestamp": "1.000001"}, "channel_not_found"),
    ],
)
def test_a_pin_needs_a_message(client: WebClient, arguments: Json, error: str) -> None:
    """So does removing one."""
    assert (
        refused(client, "pins.add", **arguments)
        == refused(client, "pins.remove", **arguments)
        == error
    )


def test_pinning_needs_channel_membership(sandbox: Sandbox, client: WebClient) -> None:
    """The channel is public, and the app is not in it."""
    ts = sandbox.person("ana").say("random", "x")
    assert refused(client, "pins.add", channel="C0RANDOM", timestamp=ts) == "not_in_channel"
    assert refused(client, "pins.remove", channel="C0RANDOM", timestamp=ts) == "channel_not_found"


def test_a_tombstone_is_not_pinned(sandbox: Sandbox, client: WebClient) -> None:
    """A channel with the most pins takes no more, either."""
    ana = sandbox.person("ana")
    root = ana.say("support", "root")
    ana.say("support", "reply", root)
    sandbox.delete_message("support", root)
    assert refused(client, "pins.add", channel=SUPPORT, timestamp=root) == "not_pinnable"
    messages = [ana.say("support", str(number)) for number in range(marks.MAX_PINS + 1)]
    with sandbox.world.lock:
        for ts in messages[:-1]:
            stored = sandbox.world.messages[SUPPORT][ts].body
            stored |= {"pinned_to": [SUPPORT], "pinned_info": {"pinned_ts": 1, "pinned_by": ana.id}}
    assert refused(client, "pins.add", channel=SUPPORT, timestamp=messages[-1]) == "too_many_pins"


def test_bookmarks_are_added_changed_and_removed(sandbox: Sandbox, client: WebClient) -> None:
    """Bookmarks are added, changed in what is named only, listed in their order, and removed."""
    links = ("https://example.com/a", "https://example.com/b")
    made = [
        client.bookmarks_add(channel_id=SUPPORT, title=x[-1], type="link", link=x)["bookmark"]
        for x in links
    ]
    sandbox.clock.advance(60)
    changed = client.bookmarks_edit(
        bookmark_id=made[0]["id"], channel_id=SUPPORT, title="A", emoji=":coffee:"
    )
    assert changed["bookmark"] == made[0] | {
        "title": "A",
        "emoji": ":coffee:",
        "date_updated": changed["bookmark"]["date_updated"],
    }
    assert changed["bookmark"]["date_updated"] - made[0]["date_updated"] in (60, 61)
    assert [each["title"] for each in client.bookmarks_list(channel_id=SUPPORT)["bookmarks"]] == [
        "A",
        "b",
    ]
    client.bookmarks_remove(bookmark_id=made[0]["id"], channel_id=SUPPORT)
    assert [each["id"] for each in client.bookmarks_list(channel_id=SUPPORT)["bookmarks"]] == [
        made[1]["id"]
    ]
    for method in ("bookmarks.remove", "bookmarks.edit"):
        assert refused(client, method, bookmark_id=made[0]["id"], channel_id=SUPPORT) == "not_found"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"type": "folder"}, "invalid_bookmark_type"),
        ({"link": "example"}, "invalid_link"),
        ({"link": "javascript:alert(1)"}, "invalid_link"),
        ({"emoji": "coffee"}, "invalid_emoji"),
        ({"parent_id": "Bk1"}, "invalid_parent_type"),
        ({"channel_id": "C0NONE"}, "channel_not_found"),
        ({"channel_id": ""}, "channel_not_found"),
        ({"channel_id": "C0RANDOM"}, "permission_denied"),
    ],
)
def test_unsound_bookmarks_are_refused(client: WebClient, changes: Json, error: str) -> None:
    """A bookmark is a sound link in a channel that the app is in."""
    link = {"channel_id": SUPPORT, "title": "a", "type": "link", "link": "https://example.com"}
    assert refused(client, "bookmarks.add", **(link | changes)) == error


def test_a_channel_takes_a_hundred_bookmarks(client: WebClient, sandbox: Sandbox) -> None:
    """The next one is refused."""
    with sandbox.world.lock:
        sandbox.world.bookmarks[SUPPORT] = [{"id": f"Bk{number}"} for number in range(100)]
    link = {"channel_id": SUPPORT, "title": "a", "type": "link", "link": "https://example.com"}
    assert refused(client, "bookmarks.add", **link) == "too_many_bookmarks"


def test_the_page_gets_purpose_pins_and_bookmarks(sandbox: Sandbox, client: WebClient) -> None:
    """The page is told purpose, pins, bookmarks and the other workspaces of a channel."""
    ts = sandbox.person("ana").say("partners", "x")
    client.pins_add(channel="C0PARTNER", timestamp=ts)
    client.bookmarks_add(channel_id="C0PARTNER", title="a", type="link", link="https://example.com")
    client.conversations_setPurpose(channel="C0PARTNER", purpose="Work together")
    with sandbox.world.lock:
        extras = marks.channel_extras(sandbox.world, sandbox.world.channel("partners"))
    assert (extras["pins"], extras["purpose"], extras["connected_team_ids"]) == (
        [ts],
        "Work together",
        ["T0OTHERCO"],
    )
    assert [each["title"] for each in extras["bookmarks"]] == ["a"]


def test_another_app_can_remove_pins_and_bookmarks(sandbox: Sandbox, client: WebClient) -> None:
    """Pins and bookmarks belong to the channel: another app in it may take them away."""
    second = second_client(sandbox, "support")
    ts = sandbox.person("ana").say("support", "x")
    client.pins_add(channel=SUPPORT, timestamp=ts)
    second.pins_remove(channel=SUPPORT, timestamp=ts)
    assert client.pins_list(channel=SUPPORT)["items"] == []
