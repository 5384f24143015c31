"""DMs and group DMs: opening, closing, marking, and the methods that refuse them."""

from __future__ import annotations

from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

ANA, BEN = "UANA00001", "UBEN00001"


def test_direct_messages_have_no_channel_settings(client: WebClient) -> None:
    """Methods about channels are refused in a DM and, except for the topic, in a group DM."""
    dm = client.conversations_open(users=ANA)["channel"]["id"]
    group = client.conversations_open(users=[ANA, BEN])["channel"]["id"]
    calls: list[tuple[str, Json]] = [
        ("conversations.archive", {}),
        ("conversations.unarchive", {}),
        ("conversations.invite", {"users": BEN}),
        ("conversations.join", {}),
        ("conversations.kick", {"user": ANA}),
        ("conversations.rename", {"name": "x"}),
        ("conversations.setPurpose", {"purpose": "x"}),
    ]
    for method, arguments in calls:
        for channel in (dm, group):
            assert (
                refused(client, method, channel=channel, **arguments)
                == "method_not_supported_for_channel_type"
            )
    assert (
        refused(client, "conversations.leave", channel=dm)
        == "method_not_supported_for_channel_type"
    )
    assert (
        client.conversations_setTopic(channel=group, topic="us")["channel"]["topic"]["value"]
        == "us"
    )


def test_a_group_dm_takes_eight_people(sandbox: Sandbox, client: WebClient) -> None:
    """A group DM takes eight people, and one that is not there is not made against one's will."""
    with sandbox.world.lock:
        for number in range(9):
            person = type(sandbox.world.people["ana"])(f"p{number}", f"UP{number}", "P")
            sandbox.world.by_id[person.id] = person
    users = [f"UP{number}" for number in range(9)]
    assert refused(client, "conversations.open", users=",".join(users)) == "too_many_users"
    assert (
        refused(client, "conversations.open", users="UP1,UP2", prevent_creation="1")
        == "channel_not_found"
    )
    client.conversations_open(users=users[:8])


def test_a_dm_can_be_closed_and_opened_again(client: WebClient) -> None:
    """A closed DM is closed until it is opened again.

    Doing either twice is said to change nothing.
    """
    dm = client.conversations_open(users=ANA)["channel"]["id"]
    assert client.conversations_open(users=ANA, return_im=True)["already_open"] is True
    assert "no_op" not in client.conversations_close(channel=dm).data
    assert client.conversations_info(channel=dm)["channel"]["is_open"] is False
    assert client.conversations_close(channel=dm)["already_closed"] is True
    assert "already_open" not in client.conversations_open(channel=dm).data


def test_a_dm_is_read_as_far_as_marked(sandbox: Sandbox, client: WebClient) -> None:
    """conversations.mark sets the last message that the bot has read."""
    ts = sandbox.person("ana").dm("hello")
    dm = sandbox.person("ana").dm_channel
    client.conversations_mark(channel=dm, ts=ts)
    assert client.conversations_info(channel=dm)["channel"]["last_read"] == ts
