"""conversations.*, users.*, usergroups.* and other look-ups."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json
from sandbox.tests.refusals import code
from slack_sandbox.server import Sandbox


def test_users_info_tells_kinds_of_people_apart(client: WebClient) -> None:
    """Guests, people of other companies, deactivated people and bots differ in users.info."""

    def info(user: str) -> Json:
        found: Json = client.users_info(user=user)["user"]
        return found

    assert info("UGUS00001")["is_restricted"] is True
    assert (info("UEVE00001")["team_id"], info("UEVE00001")["is_stranger"]) == ("T0OTHERCO", False)
    assert info("UZOE00001")["deleted"] is True
    assert info("UBOT00001")["is_bot"] is True
    assert info("UANA00001")["profile"]["email"] == "ana@sandbox.example"
    with pytest.raises(SlackApiError) as refused:
        client.users_info(user="UNOBODY")
    assert code(refused) == "user_not_found"


def test_people_of_other_companies_are_hidden(sandbox: Sandbox, client: WebClient) -> None:
    """A shared channel makes them visible."""
    sandbox.leave("eve", "partners")
    with pytest.raises(SlackApiError) as refused:
        client.users_info(user="UEVE00001")
    assert code(refused) == "user_not_visible"


def test_email_addresses_need_their_scope(client: WebClient, manifest: Json) -> None:
    """Without users:read.email there are no addresses."""
    manifest["oauth_config"]["scopes"]["bot"].remove("users:read.email")
    assert "email" not in client.users_info(user="UANA00001")["user"]["profile"]


def test_lists_come_in_pages_for_slack_sdk(client: WebClient) -> None:
    """Lists come in pages that slack_sdk can follow."""
    names = [m["name"] for page in client.users_list(limit=2) for m in page["members"]]
    assert names == ["ana", "ben", "cleo", "dan", "gus", "zoe", "countersign"]
    members = [
        m
        for page in client.conversations_members(channel="C0SUPPORT", limit=4)
        for m in page["members"]
    ]
    assert len(members) == len(set(members)) == 6
    for arguments, error in (
        ({"limit": 0}, "invalid_limit"),
        ({"cursor": "nonsense"}, "invalid_cursor"),
    ):
        with pytest.raises(SlackApiError) as refused:
            client.api_call("conversations.members", params={"channel": "C0SUPPORT", **arguments})
        assert code(refused) == error


def test_the_list_has_what_the_bot_may_see(client: WebClient) -> None:
    """The list has public channels, and private ones and DMs that the bot is in."""
    public = {c["name"]: c["is_member"] for c in client.conversations_list()["channels"]}
    assert public == {"general": True, "support": True, "partners": True, "random": False}
    private = client.conversations_list(types="private_channel")["channels"]
    assert [c["name"] for c in private] == ["finance-approvals"]
    assert client.conversations_info(channel="C0PARTNER")["channel"]["is_ext_shared"] is True


def test_groups_are_listed_with_members_on_request(client: WebClient) -> None:
    """Groups are listed, with members on request, and empty ones are empty."""
    groups = {g["handle"]: g for g in client.usergroups_list(include_users=True)["usergroups"]}
    assert groups["shop-leads"]["users"] == ["UANA00001", "UCLEO0001"]
    assert "users" not in client.usergroups_list()["usergroups"][0]
    assert client.usergroups_users_list(usergroup="S0NOBODY")["users"] == []
    with pytest.raises(SlackApiError) as refused:
        client.usergroups_users_list(usergroup="SNONE")
    assert code(refused) == "no_such_subteam"


def test_a_historys_bounds_are_left_out_unless_inclusive(
    sandbox: Sandbox, client: WebClient
) -> None:
    """History is newest first, and its bounds are left out unless inclusive.

    The bot has to be a member.
    """
    first, second, third = (sandbox.person("ana").say("support", t) for t in "abc")

    def texts(**bounds: object) -> list[str]:
        answer = client.conversations_history(channel="C0SUPPORT", **bounds)  # type: ignore[arg-type]  # free keywords
        return [m["text"] for m in answer["messages"]]

    assert texts() == ["c", "b", "a"]
    assert texts(oldest=first, latest=third) == ["b"]
    assert texts(oldest=first, latest=second, inclusive=True) == ["b", "a"]
    assert texts(limit=1) == ["c"]
    with pytest.raises(SlackApiError) as refused:
        client.conversations_history(channel="C0RANDOM")
    assert code(refused) == "not_in_channel"
    with pytest.raises(SlackApiError) as refused:
        client.conversations_replies(channel="C0SUPPORT", ts="1.000001")
    assert code(refused) == "thread_not_found"


def test_a_channel_can_be_created_filled_and_described(sandbox: Sandbox, client: WebClient) -> None:
    """The bot makes a channel, brings people in and sets its topic."""
    channel = client.conversations_create(name="autumn-launch", is_private=True)["channel"]
    assert (channel["is_private"], channel["is_member"]) == (True, True)
    client.conversations_invite(channel=channel["id"], users=["UANA00001", "UBEN00001"])
    client.conversations_setTopic(channel=channel["id"], topic="Soon")
    assert client.conversations_info(channel=channel["id"])["channel"]["topic"]["value"] == "Soon"
    subtypes = [m["subtype"] for m in sandbox.person("ben").messages(channel["id"])]
    assert subtypes == ["channel_join", "channel_join", "channel_topic"]


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("conversations.create", {"name": "support"}, "name_taken"),
        ("conversations.create", {"name": "Big Name"}, "invalid_name_specials"),
        ("conversations.create", {"name": "x" * 81}, "invalid_name_maxlength"),
        ("conversations.create", {"name": "--"}, "invalid_name_punctuation"),
        ("conversations.create", {}, "invalid_name_required"),
        (
            "conversations.invite",
            {"channel": "C0SUPPORT", "users": "UANA00001"},
            "already_in_channel",
        ),
        (
            "conversations.invite",
            {"channel": "C0SUPPORT", "users": "UBOT00001"},
            "cant_invite_self",
        ),
        ("conversations.invite", {"channel": "C0SUPPORT", "users": "UZOE00001"}, "cant_invite"),
        (
            "conversations.invite",
            {"channel": "C0SUPPORT", "users": "UEVE00001"},
            "org_user_not_in_team",
        ),
        ("conversations.invite", {"channel": "C0SUPPORT", "users": "UNOBODY"}, "user_not_found"),
        ("conversations.invite", {"channel": "C0RANDOM", "users": "UGUS00001"}, "not_in_channel"),
        ("conversations.setTopic", {"channel": "C0SUPPORT", "topic": "x" * 251}, "too_long"),
        ("conversations.open", {"users": "UZOE00001"}, "user_disabled"),
        ("conversations.open", {"users": "UNOBODY"}, "user_not_found"),
        ("conversations.open", {}, "users_list_not_supplied"),
        ("conversations.join", {"channel": "C0FINANCE"}, "method_not_supported_for_channel_type"),
        ("bots.info", {"bot": "BNONE"}, "bot_not_found"),
    ],
)
def test_wrong_look_ups_are_refused_with_slacks_code(
    client: WebClient, method: str, arguments: Json, error: str
) -> None:
    """Each has the error code that Slack gives."""
    with pytest.raises(SlackApiError) as refused:
        client.api_call(method, params=arguments)
    assert code(refused) == error


def test_dms_are_opened_once_and_channels_joined(sandbox: Sandbox, client: WebClient) -> None:
    """Opening a DM twice gives the same one, several people make a group, joining is told."""
    dm = client.conversations_open(users="UANA00001")["channel"]["id"]
    assert (
        dm
        == client.conversations_open(users=["UANA00001"])["channel"]["id"]
        == sandbox.person("ana").dm_channel
    )
    group = client.conversations_open(users=["UANA00001", "UBEN00001"])["channel"]["id"]
    assert client.conversations_info(channel=group)["channel"]["is_mpim"] is True
    client.conversations_join(channel="C0RANDOM")
    joined = sandbox.deliveries[-1].event
    assert (joined["type"], joined["user"], joined["channel"]) == (
        "member_joined_channel",
        "UBOT00001",
        "C0RANDOM",
    )


def test_auth_test_team_info_and_bots_info_agree(client: WebClient, sandbox: Sandbox) -> None:
    """auth.test, team.info and bots.info agree on who this is."""
    me = client.auth_test()
    assert (me["team_id"], me["user_id"]) == (sandbox.team_id, sandbox.bot_user_id)
    assert client.team_info()["team"]["name"] == me["team"]
    assert client.bots_info(bot=me["bot_id"])["bot"]["user_id"] == me["user_id"]


def test_history_and_replies_come_in_pages(sandbox: Sandbox, client: WebClient) -> None:
    """History and replies come in pages, each page of replies with the root."""
    ana = sandbox.person("ana")
    root = ana.say("support", "0")
    for number in range(1, 6):
        ana.say("support", str(number), root)
    pages = [
        ([m["text"] for m in page["messages"]], page["has_more"])
        for page in client.conversations_replies(channel="C0SUPPORT", ts=root, limit=2)
    ]
    assert pages == [(["0", "1", "2"], True), (["0", "3", "4"], True), (["0", "5"], False)]
    for number in range(3):
        ana.say("support", f"top {number}")
    tops = [
        m["text"]
        for page in client.conversations_history(channel="C0SUPPORT", limit=3)
        for m in page["messages"]
    ]
    assert tops == ["top 2", "top 1", "top 0", "0"]
