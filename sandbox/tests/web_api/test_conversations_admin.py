"""Channels as they are made and changed: names, topics, archive, scopes, each with its refusals."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.harness import events
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

SUPPORT, GENERAL, FINANCE, RANDOM = "C0SUPPORT", "C0GENERAL", "C0FINANCE", "C0RANDOM"
ANA, BEN, EVE, GUS = "UANA00001", "UBEN00001", "UEVE00001", "UGUS00001"


def test_a_renamed_channel_remembers_its_old_name(
    sandbox: Sandbox, client: WebClient, bot_channel: str
) -> None:
    """A channel that the app made gets a new name, remembers the old one, and apps are told."""
    answer = client.conversations_rename(channel=bot_channel, name="take-off")["channel"]
    assert (answer["name"], answer["previous_names"]) == ("take-off", ["launch"])
    (event,) = events(sandbox, "channel_rename")
    assert (event["channel"]["id"], event["channel"]["name"]) == (bot_channel, "take-off")
    assert sandbox.person("ana").messages(bot_channel)[-1]["subtype"] == "channel_name"
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
    client: WebClient, bot_channel: str, name: str, error: str
) -> None:
    """A name is refused for a new channel and for a new name alike."""
    assert refused(client, "conversations.create", name=name) == error
    assert refused(client, "conversations.rename", channel=bot_channel, name=name) == error


def test_topic_and_purpose_can_be_set_and_emptied(
    sandbox: Sandbox, client: WebClient, bot_channel: str
) -> None:
    """Topic and purpose are kept with who set them and when, until they are emptied."""
    client.conversations_setPurpose(channel=bot_channel, purpose="Get it out")
    client.conversations_setTopic(channel=bot_channel, topic="Monday")
    info = client.conversations_info(channel=bot_channel)["channel"]
    assert (info["purpose"]["value"], info["topic"]["value"]) == ("Get it out", "Monday")
    assert info["purpose"]["creator"] == info["topic"]["creator"] == sandbox.bot_user_id
    assert abs(info["topic"]["last_set"] - sandbox.clock.now().timestamp()) < 5
    client.conversations_setTopic(channel=bot_channel, topic="")
    assert client.conversations_info(channel=bot_channel)["channel"]["topic"]["value"] == ""
    assert (
        refused(client, "conversations.setPurpose", channel=bot_channel, purpose="x" * 251)
        == "too_long"
    )


def test_a_channel_can_be_archived_and_restored(
    sandbox: Sandbox, client: WebClient, bot_channel: str
) -> None:
    """An archived channel takes no change, can be left out of lists, and comes back."""
    client.conversations_archive(channel=bot_channel)
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
        assert refused(client, method, channel=bot_channel, **arguments) == error, method
    assert bot_channel in [c["id"] for c in client.conversations_list()["channels"]]
    assert bot_channel not in [
        c["id"] for c in client.conversations_list(exclude_archived=True)["channels"]
    ]
    assert bot_channel not in [
        c["id"] for c in client.users_conversations(exclude_archived=True)["channels"]
    ]
    client.conversations_unarchive(channel=bot_channel)
    assert refused(client, "conversations.unarchive", channel=bot_channel) == "not_archived"
    client.chat_postMessage(channel=bot_channel, text="x")
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
        ("users.list", {"limit": -1}, "limit_required"),
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
    """Each method refuses with its own code.

    None: the same people make one group DM, asked for once or often.
    """
    if error is None:
        first = client.conversations_open(users=[ANA, BEN, GUS])["channel"]["id"]
        assert client.api_call(method, params=arguments)["channel"]["id"] == first
        return
    assert refused(client, method, **arguments) == error


def test_a_public_scope_opens_no_private_channel(
    sandbox: Sandbox, client: WebClient, bot_channel: str
) -> None:
    """The scope for public channels opens no private one, for any method."""
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
    client.conversations_setTopic(channel=bot_channel, topic="fine")
