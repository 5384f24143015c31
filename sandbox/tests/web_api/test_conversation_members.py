"""Who is in a conversation: inviting, removing, joining, leaving, and the channels of a user."""

from __future__ import annotations

from typing import Any

from slack_sdk import WebClient

from sandbox.tests.harness import events, second_client
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

SUPPORT = "C0SUPPORT"
ANA, BEN, EVE = "UANA00001", "UBEN00001", "UEVE00001"


def test_a_kicked_person_is_out_and_apps_hear_of_it(
    sandbox: Sandbox, client: WebClient, bot_channel: str
) -> None:
    """Apps get an event, and a kicked app one of its own."""
    client.conversations_kick(channel=bot_channel, user=ANA)
    assert client.conversations_members(channel=bot_channel)["members"] == [sandbox.bot_user_id]
    assert events(sandbox, "member_left_channel")[-1]["user"] == ANA
    second = second_client(sandbox, "support")
    user = second.auth_test()["user_id"]
    client.conversations_kick(channel=SUPPORT, user=user)
    (left,) = [d for d in sandbox.deliveries if d.event.get("type") == "channel_left"]
    assert (left.app.bot_user, left.event["channel"], left.event["actor_id"]) == (
        user,
        SUPPORT,
        sandbox.bot_user_id,
    )


def test_a_bot_can_leave_and_join_again(sandbox: Sandbox, client: WebClient) -> None:
    """Leaving twice is no error, and joining again is possible."""
    client.conversations_leave(channel=SUPPORT)
    assert client.conversations_leave(channel=SUPPORT)["not_in_channel"] is True
    assert client.conversations_info(channel=SUPPORT)["channel"]["is_member"] is False
    assert events(sandbox, "channel_left")[-1]["channel"] == SUPPORT
    assert client.conversations_join(channel=SUPPORT)["channel"]["is_member"] is True
    assert client.conversations_join(channel=SUPPORT)["warning"] == "already_in_channel"


def test_an_invitation_with_force_adds_those_who_can_come(
    client: WebClient, bot_channel: str
) -> None:
    """With `force` all who can be added are, and the answer names the others.

    Without it nobody is added.
    """
    users = f"{BEN},{EVE},UNOBODY"
    assert (
        refused(client, "conversations.invite", channel=bot_channel, users=users)
        == "org_user_not_in_team"
    )
    assert BEN not in client.conversations_members(channel=bot_channel)["members"]
    answer = client.conversations_invite(channel=bot_channel, users=users, force=True)
    assert {each["user"]: each["error"] for each in answer["errors"]} == {
        EVE: "org_user_not_in_team",
        "UNOBODY": "user_not_found",
    }
    assert BEN in client.conversations_members(channel=bot_channel)["members"]
    assert (
        refused(client, "conversations.invite", channel=bot_channel, users=BEN, force=True)
        == "already_in_channel"
    )


def test_the_last_member_stays_in_a_private_channel(client: WebClient) -> None:
    """Its last member cannot leave a private channel."""
    channel = client.conversations_create(name="mine", is_private=True)["channel"]["id"]
    assert refused(client, "conversations.leave", channel=channel) == "last_member"


def test_users_conversations_tells_where_a_user_is(sandbox: Sandbox, client: WebClient) -> None:
    """users.conversations lists only channels that the bot may see."""

    def names(**arguments: Any) -> set[str]:
        return {c["name"] for c in client.users_conversations(**arguments)["channels"]}

    both = "public_channel,private_channel"
    assert names(types=both) == {"general", "support", "partners", "finance-approvals"}
    assert names(user=BEN, types=both) == {"general", "support", "partners", "random"}
    second = second_client(sandbox, "support")
    assert [c["name"] for c in second.users_conversations(types=both)["channels"]] == ["support"]
    assert second.conversations_list(types="private_channel")["channels"] == []
    page = client.users_conversations(types=both, limit=3)
    rest = client.users_conversations(
        types=both, limit=3, cursor=page["response_metadata"]["next_cursor"]
    )
    assert (len(page["channels"]), len(rest["channels"])) == (3, 1)
