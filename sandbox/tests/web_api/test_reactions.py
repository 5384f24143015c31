"""reactions.*: adding, listing and removing, with the events and Slack's refusals."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.harness import events, second_client
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox
from slack_sandbox.spec.emoji import EMOJI

SUPPORT = "C0SUPPORT"


@pytest.fixture
def ts(sandbox: Sandbox) -> str:
    """A message of Ana's in #support."""
    return sandbox.person("ana").say("support", "hello")


def test_a_reaction_can_be_added_seen_and_removed(
    sandbox: Sandbox, client: WebClient, ts: str
) -> None:
    """The message names the people who gave it.

    For history, reactions.get and people.
    """
    second = second_client(sandbox, "support")
    client.reactions_add(channel=SUPPORT, timestamp=ts, name="eyes")
    second.reactions_add(channel=SUPPORT, timestamp=ts, name=":eyes:")
    bots = [client.auth_test()["user_id"], second.auth_test()["user_id"]]
    expected = [{"name": "eyes", "users": bots, "count": 2}]
    got = client.reactions_get(channel=SUPPORT, timestamp=ts)
    assert (got["type"], got["channel"], got["message"]["reactions"]) == (
        "message",
        SUPPORT,
        expected,
    )
    assert client.conversations_history(channel=SUPPORT)["messages"][0]["reactions"] == expected
    assert sandbox.person("ben").messages("support")[-1]["reactions"] == expected
    second.reactions_remove(channel=SUPPORT, timestamp=ts, name="eyes")
    client.reactions_remove(channel=SUPPORT, timestamp=ts, name="eyes")
    assert "reactions" not in client.reactions_get(channel=SUPPORT, timestamp=ts)["message"]


def test_apps_get_events_for_each_reaction(sandbox: Sandbox, client: WebClient, ts: str) -> None:
    """The events for adding and removing name the author of the message."""
    client.reactions_add(channel=SUPPORT, timestamp=ts, name="eyes")
    client.reactions_remove(channel=SUPPORT, timestamp=ts, name="eyes")
    added, removed = events(sandbox, "reaction_added", "reaction_removed")
    assert (added["type"], removed["type"]) == ("reaction_added", "reaction_removed")
    assert added["item"] == {"type": "message", "channel": SUPPORT, "ts": ts}
    assert (added["user"], added["reaction"], added["item_user"]) == (
        sandbox.bot_user_id,
        "eyes",
        "UANA00001",
    )


def test_a_users_reactions_come_in_pages(sandbox: Sandbox, client: WebClient, ts: str) -> None:
    """reactions.list pages through a user's, else the bot's own, newest first."""
    later = sandbox.person("ben").say("support", "later")
    for each in (ts, later):
        client.reactions_add(channel=SUPPORT, timestamp=each, name="eyes")
    first = client.reactions_list(limit=1)
    assert [item["message"]["ts"] for item in first["items"]] == [later]
    second = client.reactions_list(limit=1, cursor=first["response_metadata"]["next_cursor"])
    assert [item["message"]["ts"] for item in second["items"]] == [ts]
    assert client.reactions_list(user="UANA00001")["items"] == []
    assert refused(client, "reactions.list", user="UNOBODY") == "user_not_found"


@pytest.mark.parametrize(
    ("method", "changes", "error"),
    [
        ("reactions.add", {"name": "Eyes"}, "invalid_name"),
        ("reactions.add", {"name": "thumbs up"}, "invalid_name"),
        ("reactions.add", {"name": "not_an_emoji"}, "invalid_name"),
        ("reactions.add", {"name": "eyes::skin-tone-7"}, "invalid_name"),
        ("reactions.add", {"timestamp": "yesterday"}, "bad_timestamp"),
        ("reactions.add", {"timestamp": "1.000001"}, "message_not_found"),
        ("reactions.add", {"channel": "C0NONE"}, "channel_not_found"),
        ("reactions.add", {"timestamp": ""}, "no_item_specified"),
        ("reactions.remove", {}, "no_reaction"),
        ("reactions.remove", {"timestamp": "", "channel": ""}, "no_item_specified"),
        ("reactions.remove", {"file": "F1"}, "file_not_found"),
        ("reactions.get", {"file": "F1"}, "file_not_found"),
    ],
)
def test_unsound_reactions_are_refused(
    client: WebClient, ts: str, method: str, changes: Json, error: str
) -> None:
    """Each has the error code that Slack gives."""
    assert (
        refused(client, method, **{"channel": SUPPORT, "timestamp": ts, "name": "eyes", **changes})
        == error
    )


def test_a_repeated_reaction_counts_once(client: WebClient, ts: str) -> None:
    """The second one is refused."""
    client.reactions_add(channel=SUPPORT, timestamp=ts, name="eyes")
    assert (
        refused(client, "reactions.add", channel=SUPPORT, timestamp=ts, name="eyes")
        == "already_reacted"
    )
    assert (
        client.reactions_get(channel=SUPPORT, timestamp=ts)["message"]["reactions"][0]["count"] == 1
    )


def test_a_message_takes_a_limited_number_of_reactions(
    sandbox: Sandbox, client: WebClient, ts: str
) -> None:
    """One app gives a message at most 23 reactions, all together 50 kinds."""
    names = sorted(EMOJI)
    for name in names[:23]:
        client.reactions_add(channel=SUPPORT, timestamp=ts, name=name)
    assert (
        refused(client, "reactions.add", channel=SUPPORT, timestamp=ts, name="tada")
        == "too_many_reactions"
    )
    second, third = second_client(sandbox, "support"), second_client(sandbox, "support")
    for name in names[23:46]:
        second.reactions_add(channel=SUPPORT, timestamp=ts, name=name)
    for name in names[46:50]:
        third.reactions_add(channel=SUPPORT, timestamp=ts, name=name)
    assert (
        refused(third, "reactions.add", channel=SUPPORT, timestamp=ts, name="tada")
        == "too_many_emoji"
    )
    third.reactions_add(channel=SUPPORT, timestamp=ts, name=names[0])


def test_reactions_need_a_visible_and_open_channel(
    sandbox: Sandbox, client: WebClient, ts: str
) -> None:
    """Nothing is added in an archived channel, nor seen in a private one that the app is not in."""
    second = second_client(sandbox)
    secret = sandbox.person("ana").say("finance-approvals", "secret")
    assert (
        refused(second, "reactions.get", channel="C0FINANCE", timestamp=secret)
        == "channel_not_found"
    )
    sandbox.archive("support")
    assert (
        refused(client, "reactions.add", channel=SUPPORT, timestamp=ts, name="eyes")
        == "is_archived"
    )
