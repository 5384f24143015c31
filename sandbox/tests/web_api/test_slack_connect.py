"""Slack Connect: channels shared with another workspace, and what a bot sees of its people."""

from __future__ import annotations

from slack_sdk import WebClient

from sandbox.tests.harness import events
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

SUPPORT, PARTNERS, EVE = "C0SUPPORT", "C0PARTNER", "UEVE00001"


def test_a_shared_channel_names_its_partner(client: WebClient) -> None:
    """A Slack Connect channel says with whom it is shared, and has their people as members."""
    info = client.conversations_info(channel=PARTNERS)["channel"]
    assert (info["is_ext_shared"], info["is_shared"], info["connected_team_ids"]) == (
        True,
        True,
        ["T0OTHERCO"],
    )
    assert set(info["shared_team_ids"]) == {"T0SANDBOX", "T0OTHERCO"}
    assert EVE in client.conversations_members(channel=PARTNERS)["members"]
    assert "connected_team_ids" not in client.conversations_info(channel=SUPPORT)["channel"]
    assert client.team_info(team="T0OTHERCO")["team"]["name"] == "Other Company"


def test_a_partners_address_is_hidden(sandbox: Sandbox, client: WebClient) -> None:
    """A bot sees a partner's team, not the email address, and only through a shared channel."""
    eve = client.users_info(user=EVE)["user"]
    assert (eve["team_id"], eve["profile"]["team"], eve["is_stranger"]) == (
        "T0OTHERCO",
        "T0OTHERCO",
        False,
    )
    assert "email" not in eve["profile"]
    assert EVE not in [m["id"] for m in client.users_list()["members"]]
    assert refused(client, "users.lookupByEmail", email="eve@otherco.example") == "users_not_found"
    sandbox.leave("eve", "partners")
    assert refused(client, "users.info", user=EVE) == "user_not_visible"
    assert refused(client, "users.profile.get", user=EVE) == "user_not_found"
    client.conversations_leave(channel=PARTNERS)
    assert refused(client, "team.info", team="T0OTHERCO") == "team_not_found"


def test_messages_in_a_shared_channel_name_the_workspace(
    sandbox: Sandbox, client: WebClient
) -> None:
    """It is the workspace of the author."""
    sandbox.person("eve").say("partners", "hello")
    (message,) = client.conversations_history(channel=PARTNERS)["messages"]
    assert (message["user_team"], message["source_team"], message["team"]) == ("T0OTHERCO",) * 3
    assert events(sandbox, "message")[-1]["user_team"] == "T0OTHERCO"
    sandbox.person("ana").say("support", "hello")
    assert "user_team" not in client.conversations_history(channel=SUPPORT)["messages"][0]
