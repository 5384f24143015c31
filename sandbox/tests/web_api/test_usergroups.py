"""usergroups.* and data about people: email addresses, profiles, presence."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.harness import events
from sandbox.tests.recordings import differences, fixture
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

ANA, BEN, CLEO = "UANA00001", "UBEN00001", "UCLEO0001"


def test_a_group_can_be_created_and_filled(sandbox: Sandbox, client: WebClient) -> None:
    """Apps get an event, and the handle notifies the members."""
    made = client.usergroups_create(
        name="On duty", handle="duty", description="Who answers", channels=["C0SUPPORT"]
    )
    group = made["usergroup"]
    assert (group["handle"], group["description"], group["users"]) == ("duty", "Who answers", [])
    assert group["prefs"]["channels"] == ["C0SUPPORT"]
    answer = client.usergroups_users_update(
        usergroup=group["id"], users=[ANA, BEN], include_count=True
    )["usergroup"]
    assert (answer["users"], answer["user_count"]) == ([ANA, BEN], 2)
    assert client.usergroups_users_list(usergroup=group["id"])["users"] == [ANA, BEN]
    client.usergroups_users_update(usergroup=group["id"], users=[BEN, CLEO])
    kinds = [e["type"] for e in events(sandbox, "subteam_created", "subteam_members_changed")]
    assert kinds == ["subteam_created", "subteam_members_changed", "subteam_members_changed"]
    changed = events(sandbox, "subteam_members_changed")[-1]
    assert (changed["added_users"], changed["removed_users"]) == ([CLEO], [ANA])
    sandbox.person("ana").say("support", "@duty help")
    assert len(sandbox.person("ben").notifications()) == 1
    recorded = fixture("slack/usergroups.list.json")["usergroups"][0]
    assert [d for d in differences(group, recorded) if "/auto_type" not in d] == []


def test_an_update_changes_only_what_it_names(sandbox: Sandbox, client: WebClient) -> None:
    """Fields that the update does not name stay."""
    before = {g["id"]: g for g in client.usergroups_list()["usergroups"]}["S0LEADS"]
    sandbox.clock.advance(10)
    after = client.usergroups_update(usergroup="S0LEADS", handle="leads")["usergroup"]
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"handle", "date_update", "updated_by"}
    assert [g["handle"] for g in client.usergroups_list()["usergroups"]].count("leads") == 1
    assert events(sandbox, "subteam_updated")[-1]["subteam"]["handle"] == "leads"
    client.usergroups_update(usergroup="S0LEADS", handle="leads", name="Leads")
    sandbox.person("ben").say("support", "@leads hello")
    assert len(sandbox.person("ana").notifications()) == 1


def test_a_group_can_be_disabled_and_enabled(sandbox: Sandbox, client: WebClient) -> None:
    """A disabled group is listed on request only, notifies nobody, and comes back as it was."""
    client.usergroups_disable(usergroup="S0LEADS")
    assert "S0LEADS" not in [g["id"] for g in client.usergroups_list()["usergroups"]]
    listed = {g["id"]: g for g in client.usergroups_list(include_disabled=True)["usergroups"]}
    assert listed["S0LEADS"]["date_delete"] > 0
    assert refused(client, "usergroups.users.list", usergroup="S0LEADS") == "no_such_subteam"
    assert client.usergroups_users_list(usergroup="S0LEADS", include_disabled=True)["users"] == [
        ANA,
        CLEO,
    ]
    sandbox.person("ben").say("support", "@shop-leads hello")
    assert sandbox.person("ana").notifications() == []
    assert client.usergroups_enable(usergroup="S0LEADS")["usergroup"]["date_delete"] == 0
    sandbox.person("ben").say("support", "@shop-leads hello")
    assert len(sandbox.person("ana").notifications()) == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"name": "Finance"}, "name_already_exists"),
        ({"handle": "finance"}, "handle_already_exists"),
        ({"handle": "ana"}, "handle_already_exists"),
        ({"handle": "here"}, "forbidden_handle"),
        ({"handle": "a b"}, "bad_handle"),
        ({"name": "x" * 81}, "name_too_long"),
        ({"description": "x" * 141}, "description_too_long"),
        ({"channels": "C0FINANCE"}, "invalid_channel_provided"),
        ({"channels": "C0NONE"}, "invalid_channel_provided"),
    ],
)
def test_an_unsound_group_is_not_made(client: WebClient, changes: Json, error: str) -> None:
    """A group that Slack would not make is not made, and none is turned into it."""
    assert (
        refused(client, "usergroups.create", **({"name": "New", "handle": "new"} | changes))
        == error
    )
    assert refused(client, "usergroups.update", usergroup="S0LEADS", **changes) == error


def test_unsound_members_are_refused(client: WebClient) -> None:
    """A group's members are people who are there, and it is never emptied by mistake."""
    assert (
        refused(client, "usergroups.users.update", usergroup="S0LEADS", users="UNOBODY")
        == "invalid_users"
    )
    assert (
        refused(client, "usergroups.users.update", usergroup="S0LEADS", users="UZOE00001")
        == "invalid_users"
    )
    assert (
        refused(client, "usergroups.users.update", usergroup="S0LEADS", users=",")
        == "no_users_provided"
    )
    for method in (
        "usergroups.update",
        "usergroups.enable",
        "usergroups.disable",
        "usergroups.users.list",
    ):
        assert refused(client, method, usergroup="S0NONE") == "no_such_subteam"
    assert (
        refused(client, "usergroups.users.update", usergroup="S0NONE", users=ANA)
        == "no_such_subteam"
    )
    assert client.usergroups_users_list(usergroup="S0LEADS")["users"] == [ANA, CLEO]


def test_people_are_found_by_address(sandbox: Sandbox, client: WebClient) -> None:
    """Case does not matter; closed accounts are not found."""
    assert client.users_lookupByEmail(email="Ana@Sandbox.example")["user"]["id"] == ANA
    assert refused(client, "users.lookupByEmail", email="zoe@sandbox.example") == "users_not_found"
    sandbox.deactivate("ana")
    assert refused(client, "users.lookupByEmail", email="ana@sandbox.example") == "users_not_found"


def test_a_profile_is_a_persons_or_the_bots(sandbox: Sandbox, client: WebClient) -> None:
    """A profile is a person's, and the bot's own without a user."""
    assert client.users_profile_get(user=ANA)["profile"]["real_name"] == "Ana Ruiz"
    assert client.users_profile_get()["profile"]["api_app_id"] == sandbox.world.app.id
    assert refused(client, "users.profile.get", user="UNOBODY") == "user_not_found"


def test_a_profile_has_custom_fields(sandbox: Sandbox, client: WebClient) -> None:
    """Fields are given by id, with labels on request; the bot has none."""
    sandbox.person("ben").set_manager("ana", "cleo")
    found = client.users_profile_get(user=BEN)["profile"]["fields"]
    assert found == {"Xf0MANAGER": {"value": f"{ANA},{CLEO}", "alt": ""}}
    found = client.users_profile_get(user=BEN, include_labels=True)["profile"]["fields"]
    assert found["Xf0MANAGER"]["label"] == "Manager"
    assert client.users_profile_get(user=ANA)["profile"]["fields"] == {}
    assert "fields" not in client.users_info(user=BEN)["user"]["profile"]


def test_deactivated_people_are_away(client: WebClient) -> None:
    """Other people are active, and the bot is what it set."""
    assert client.users_getPresence(user=ANA)["presence"] == "active"
    assert client.users_getPresence(user="UZOE00001")["presence"] == "away"
    client.users_setPresence(presence="away")
    assert client.users_getPresence(user="UBOT00001")["presence"] == "away"
    client.users_setPresence(presence="auto")
    assert client.users_getPresence(user="UBOT00001")["presence"] == "active"
    assert refused(client, "users.setPresence", presence="busy") == "invalid_presence"
    assert refused(client, "users.getPresence", user="UNOBODY") == "user_not_found"


def test_emoji_team_and_bots_are_answered(client: WebClient) -> None:
    """emoji.list, team.info and bots.info of what is not there."""
    assert client.emoji_list()["emoji"] == {}
    assert refused(client, "team.info", domain="otherco") == "team_not_found"
    assert refused(client, "team.info", team="T0NONE") == "team_not_found"
    assert refused(client, "bots.info") == "bot_not_found"


def test_auth_revoke_ends_the_token(sandbox: Sandbox, client: WebClient) -> None:
    """auth.revoke ends the token, tells the app so, and a test of it does neither."""
    assert client.auth_revoke(test=True)["revoked"] is False
    assert client.auth_revoke(test=False)["revoked"] is True
    assert refused(client, "auth.test") == "token_revoked"
    assert events(sandbox, "tokens_revoked")[-1]["tokens"]["bot"] == [sandbox.bot_user_id]
