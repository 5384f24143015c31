"""conversations.*: names, members, archive, DMs, reading, with each method's own refusals and
events.
"""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient

from bot.sandbox.server import Sandbox
from tests.sandbox.calls import events, refused, second_client
from tests.sandbox.support import Json

SUPPORT, GENERAL, FINANCE, RANDOM = "C0SUPPORT", "C0GENERAL", "C0FINANCE", "C0RANDOM"
ANA, BEN, EVE, GUS = "UANA00001", "UBEN00001", "UEVE00001", "UGUS00001"


@pytest.fixture
def made(client: WebClient) -> str:
    """A channel that the bot made, with Ana in it."""
    channel = str(client.conversations_create(name="launch")["channel"]["id"])
    client.conversations_invite(channel=channel, users=ANA)
    return channel


def test_a_renamed_channel_remembers_its_old_name(
    sandbox: Sandbox, client: WebClient, made: str
) -> None:
    """A channel that the app made gets a new name, remembers the old one, and apps are told."""
    answer = client.conversations_rename(channel=made, name="take-off")["channel"]
    assert (answer["name"], answer["previous_names"]) == ("take-off", ["launch"])
    (event,) = events(sandbox, "channel_rename")
    assert (event["channel"]["id"], event["channel"]["name"]) == (made, "take-off")
    assert sandbox.person("ana").messages(made)[-1]["subtype"] == "channel_name"
    client.conversations_create(name="launch")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("support", "name_taken"),
        ("Big Name", "invalid_name_specials"),
        ("x" * 81, "invalid_name_maxlength"),
        ("--", "invalid_name_punctuation"),
        ("", "invalid_name_required"),
    ],
)
def test_an_unsound_channel_name_is_refused(
    client: WebClient, made: str, name: str, error: str
) -> None:
    """A name is refused for a new channel and for a new name alike."""
    assert refused(client, "conversations.create", name=name) == error
    assert refused(client, "conversations.rename", channel=made, name=name) == error


def test_topic_and_purpose(sandbox: Sandbox, client: WebClient, made: str) -> None:
    """Topic and purpose are kept with who set them and when, and an empty one takes the old one
    away.
    """
    client.conversations_setPurpose(channel=made, purpose="Get it out")
    client.conversations_setTopic(channel=made, topic="Monday")
    info = client.conversations_info(channel=made)["channel"]
    assert (info["purpose"]["value"], info["topic"]["value"]) == ("Get it out", "Monday")
    assert info["purpose"]["creator"] == info["topic"]["creator"] == sandbox.bot_user_id
    assert abs(info["topic"]["last_set"] - sandbox.clock.now().timestamp()) < 5
    client.conversations_setTopic(channel=made, topic="")
    assert client.conversations_info(channel=made)["channel"]["topic"]["value"] == ""
    assert (
        refused(client, "conversations.setPurpose", channel=made, purpose="x" * 251) == "too_long"
    )


def test_a_kicked_person_is_out_and_apps_hear_of_it(
    sandbox: Sandbox, client: WebClient, made: str
) -> None:
    """A kicked person is out, which the channel and the apps are told.

    A kicked app is told itself.
    """
    client.conversations_kick(channel=made, user=ANA)
    assert client.conversations_members(channel=made)["members"] == [sandbox.bot_user_id]
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


def test_leave_and_join(sandbox: Sandbox, client: WebClient) -> None:
    """Leaving twice is no error, and joining again is possible."""
    client.conversations_leave(channel=SUPPORT)
    assert client.conversations_leave(channel=SUPPORT)["not_in_channel"] is True
    assert client.conversations_info(channel=SUPPORT)["channel"]["is_member"] is False
    assert events(sandbox, "channel_left")[-1]["channel"] == SUPPORT
    assert client.conversations_join(channel=SUPPORT)["channel"]["is_member"] is True
    assert client.conversations_join(channel=SUPPORT)["warning"] == "already_in_channel"


def test_archive_and_back(sandbox: Sandbox, client: WebClient, made: str) -> None:
    """An archived channel takes no message and no change, is left out of lists on request, and
    comes back.
    """
    client.conversations_archive(channel=made)
    for method, arguments, error in (
        ("chat.postMessage", {"text": "x"}, "is_archived"),
        ("conversations.setTopic", {"topic": "x"}, "is_archived"),
        ("conversations.setPurpose", {"purpose": "x"}, "is_archived"),
        ("conversations.rename", {"name": "other"}, "is_archived"),
        ("conversations.invite", {"users": BEN}, "is_archived"),
        ("conversations.join", {}, "is_archived"),
        ("conversations.leave", {}, "is_archived"),
        ("conversations.archive", {}, "already_archived"),
    ):
        assert refused(client, method, channel=made, **arguments) == error, method
    assert made in [c["id"] for c in client.conversations_list()["channels"]]
    assert made not in [
        c["id"] for c in client.conversations_list(exclude_archived=True)["channels"]
    ]
    assert made not in [
        c["id"] for c in client.users_conversations(exclude_archived=True)["channels"]
    ]
    client.conversations_unarchive(channel=made)
    assert refused(client, "conversations.unarchive", channel=made) == "not_archived"
    client.chat_postMessage(channel=made, text="x")
    assert [e["type"] for e in events(sandbox, "channel_archive", "channel_unarchive")] == [
        "channel_archive",
        "channel_unarchive",
    ]


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("conversations.archive", {"channel": GENERAL}, "cant_archive_general"),
        ("conversations.archive", {"channel": RANDOM}, "not_in_channel"),
        ("conversations.kick", {"channel": GENERAL, "user": ANA}, "cant_kick_from_general"),
        ("conversations.kick", {"channel": SUPPORT, "user": "UBOT00001"}, "cant_kick_self"),
        ("conversations.kick", {"channel": SUPPORT, "user": EVE}, "not_in_channel"),
        ("conversations.kick", {"channel": SUPPORT, "user": "UNOBODY"}, "user_not_found"),
        ("conversations.kick", {"channel": SUPPORT}, "user_not_found"),
        ("conversations.leave", {"channel": GENERAL}, "cant_leave_general"),
        ("conversations.leave", {"channel": "C0NONE"}, "channel_not_found"),
        ("conversations.rename", {"channel": SUPPORT, "name": "other"}, "not_authorized"),
        ("conversations.mark", {"channel": SUPPORT, "ts": "now"}, "invalid_timestamp"),
        ("conversations.mark", {"channel": RANDOM, "ts": "1.000001"}, "not_in_channel"),
        ("conversations.close", {"channel": SUPPORT}, "method_not_supported_for_channel_type"),
        ("conversations.open", {"channel": SUPPORT}, "method_not_supported_for_channel_type"),
        ("conversations.open", {"users": ",".join([ANA, BEN, GUS] * 9)}, None),
        ("conversations.open", {"users": "UBOT00001"}, "invalid_user_combination"),
        ("conversations.open", {"users": f"{ANA},{BEN},{GUS}", "prevent_creation": "1"}, None),
        ("conversations.list", {"types": "public"}, "invalid_types"),
        ("conversations.list", {"limit": 1001}, "invalid_limit"),
        ("conversations.list", {"cursor": "x"}, "invalid_cursor"),
        ("users.conversations", {"types": "dm"}, "invalid_types"),
        ("users.conversations", {"user": "UNOBODY"}, "invalid_arguments"),
        ("conversations.history", {"channel": SUPPORT, "oldest": "x"}, "invalid_ts_oldest"),
        ("conversations.history", {"channel": SUPPORT, "latest": "x"}, "invalid_ts_latest"),
        ("conversations.history", {"channel": SUPPORT, "cursor": "x"}, "invalid_cursor"),
        ("conversations.history", {"channel": SUPPORT, "limit": 1000}, "invalid_arguments"),
        ("conversations.replies", {"channel": RANDOM, "ts": "1.000001"}, "not_in_channel"),
        ("conversations.replies", {"channel": SUPPORT, "ts": "1.000001"}, "thread_not_found"),
    ],
)
def test_each_method_refuses_with_its_own_code(
    client: WebClient, method: str, arguments: Json, error: str | None
) -> None:
    """Each method refuses with its own code (None: the same people make one group DM, asked for
    once or often).
    """
    if error is None:
        first = client.conversations_open(users=[ANA, BEN, GUS])["channel"]["id"]
        assert client.api_call(method, params=arguments)["channel"]["id"] == first
        return
    assert refused(client, method, **arguments) == error


def test_direct_messages_do_not_change(client: WebClient) -> None:
    """What makes a channel a channel is refused in a DM and, but for the topic, in a group DM."""
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


def test_too_many_for_a_group(sandbox: Sandbox, client: WebClient) -> None:
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


def test_open_and_close(client: WebClient) -> None:
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
    """What the bot has read in a DM is what it marked."""
    ts = sandbox.person("ana").dm("hello")
    dm = sandbox.person("ana").dm_channel
    client.conversations_mark(channel=dm, ts=ts)
    assert client.conversations_info(channel=dm)["channel"]["last_read"] == ts


def test_invite_with_force(client: WebClient, made: str) -> None:
    """With `force` those who can come do, and the answer says about the others.

    Without it nobody does.
    """
    users = f"{BEN},{EVE},UNOBODY"
    assert (
        refused(client, "conversations.invite", channel=made, users=users) == "org_user_not_in_team"
    )
    assert BEN not in client.conversations_members(channel=made)["members"]
    answer = client.conversations_invite(channel=made, users=users, force=True)
    assert {each["user"]: each["error"] for each in answer["errors"]} == {
        EVE: "org_user_not_in_team",
        "UNOBODY": "user_not_found",
    }
    assert BEN in client.conversations_members(channel=made)["members"]
    assert (
        refused(client, "conversations.invite", channel=made, users=BEN, force=True)
        == "already_in_channel"
    )


def test_the_last_member_stays_in_a_private_channel(client: WebClient) -> None:
    """A private channel is not left by its last member."""
    channel = client.conversations_create(name="mine", is_private=True)["channel"]["id"]
    assert refused(client, "conversations.leave", channel=channel) == "last_member"


def test_users_conversations_tells_where_a_user_is(sandbox: Sandbox, client: WebClient) -> None:
    """users.conversations tells where a user is, as far as the bot may know of the place."""

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


def test_scopes_by_kind(sandbox: Sandbox, client: WebClient, made: str) -> None:
    """The scope for public channels opens no private one, for any of the methods that change a
    channel.
    """
    scopes = sandbox.world.app.manifest["oauth_config"]["scopes"]["bot"]
    for name in [s for s in scopes if s.startswith(("groups:", "im:", "mpim:"))]:
        scopes.remove(name)
    calls: list[tuple[str, Json]] = [
        ("conversations.info", {}),
        ("conversations.members", {}),
        ("conversations.history", {}),
        ("conversations.archive", {}),
        ("conversations.rename", {"name": "x"}),
        ("conversations.setTopic", {"topic": "x"}),
        ("conversations.setPurpose", {"purpose": "x"}),
        ("conversations.invite", {"users": BEN}),
        ("conversations.kick", {"user": ANA}),
        ("conversations.leave", {}),
        ("conversations.mark", {"ts": "1.000001"}),
    ]
    for method, arguments in calls:
        assert refused(client, method, channel=FINANCE, **arguments) == "missing_scope", method
    assert refused(client, "conversations.open", users=ANA) == "missing_scope"
    assert refused(client, "conversations.list", types="im") == "missing_scope"
    assert refused(client, "users.conversations", types="mpim") == "missing_scope"
    client.conversations_setTopic(channel=made, topic="fine")


def test_reading_in_pages(sandbox: Sandbox, client: WebClient) -> None:
    """History and replies come in pages that slack_sdk can follow, the root in each page of
    replies.
    """
    ana = sandbox.person("ana")
    root = ana.say("support", "0")
    for number in range(1, 6):
        ana.say("support", str(number), root)
    pages = [
        ([m["text"] for m in page["messages"]], page["has_more"])
        for page in client.conversations_replies(channel=SUPPORT, ts=root, limit=2)
    ]
    assert pages == [(["0", "1", "2"], True), (["0", "3", "4"], True), (["0", "5"], False)]
    for number in range(3):
        ana.say("support", f"top {number}")
    tops = [
        m["text"]
        for page in client.conversations_history(channel=SUPPORT, limit=3)
        for m in page["messages"]
    ]
    assert tops == ["top 2", "top 1", "top 0", "0"]
