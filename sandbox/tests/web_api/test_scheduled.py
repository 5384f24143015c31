"""Messages that wait: scheduled, listed, deleted, and posted when their time comes."""

from __future__ import annotations

from datetime import datetime

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.harness import second_client
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

SUPPORT = "C0SUPPORT"


def in_seconds(sandbox: Sandbox, seconds: int) -> int:
    """The sandbox's time so many seconds from now, Unix seconds."""
    now: datetime = sandbox.clock.now()
    return int(now.timestamp()) + seconds


def test_scheduled_messages_can_be_listed_and_deleted(sandbox: Sandbox, client: WebClient) -> None:
    """The list has the next one first, and filters by channel and time, in pages."""
    second = second_client(sandbox, "support")
    waits = [(SUPPORT, 900, "late"), ("C0FINANCE", 600, "middle"), (SUPPORT, 300, "soon")]
    ids: Json = {}
    for channel, seconds, text in waits:
        answer = client.chat_scheduleMessage(
            channel=channel, post_at=in_seconds(sandbox, seconds), text=text
        )
        ids[text] = answer["scheduled_message_id"]
        assert answer["message"]["bot_id"] == client.auth_test()["bot_id"]

    def listed(**arguments: object) -> list[str]:
        answer = client.chat_scheduledMessages_list(**arguments)  # type: ignore[arg-type]  # free keywords
        return [each["text"] for each in answer["scheduled_messages"]]

    assert listed() == ["soon", "middle", "late"]
    assert listed(channel=SUPPORT) == ["soon", "late"]
    assert listed(latest=str(in_seconds(sandbox, 700)), oldest=str(in_seconds(sandbox, 400))) == [
        "middle"
    ]
    first = client.chat_scheduledMessages_list(limit=2)
    assert listed(cursor=first["response_metadata"]["next_cursor"], limit=2) == ["late"]
    assert second.chat_scheduledMessages_list()["scheduled_messages"] == []
    assert refused(client, "chat.scheduledMessages.list", channel="C0NONE") == "invalid_channel"
    client.chat_deleteScheduledMessage(channel=SUPPORT, scheduled_message_id=ids["soon"])
    sandbox.clock.advance(1000)
    sandbox.wait(lambda: client.conversations_history(channel=SUPPORT)["messages"])
    assert [m["text"] for m in client.conversations_history(channel=SUPPORT)["messages"]] == [
        "late"
    ]
    assert listed() == []


def test_a_scheduled_message_cannot_always_be_deleted(sandbox: Sandbox, client: WebClient) -> None:
    """It cannot in its last minute, in another channel, by another app, or twice."""
    near = client.chat_scheduleMessage(channel=SUPPORT, post_at=in_seconds(sandbox, 30), text="x")
    far = client.chat_scheduleMessage(channel=SUPPORT, post_at=in_seconds(sandbox, 300), text="x")
    delete, error = "chat.deleteScheduledMessage", "invalid_scheduled_message_id"
    assert (
        refused(client, delete, channel=SUPPORT, scheduled_message_id=near["scheduled_message_id"])
        == error
    )
    wanted = {"scheduled_message_id": far["scheduled_message_id"]}
    assert refused(client, delete, channel="C0FINANCE", **wanted) == error
    assert refused(second_client(sandbox, "support"), delete, channel=SUPPORT, **wanted) == error
    assert refused(client, delete, channel="C0NONE", **wanted) == "channel_not_found"
    client.chat_deleteScheduledMessage(channel=SUPPORT, **wanted)
    assert refused(client, delete, channel=SUPPORT, **wanted) == error


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"post_at": 1}, "time_in_past"),
        ({"post_at": 99_999_999_999}, "time_too_far"),
        ({"post_at": "soon"}, "invalid_arguments"),
        ({"text": ""}, "no_text"),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"thread_ts": "then"}, "invalid_thread_ts"),
        ({"metadata": "{}"}, "invalid_metadata_schema"),
        ({"channel": "C0NONE"}, "channel_not_found"),
    ],
)
def test_an_impossible_scheduled_message_is_refused_at_once(
    sandbox: Sandbox, client: WebClient, changes: Json, error: str
) -> None:
    """It is refused when it is scheduled."""
    sound = {"channel": SUPPORT, "post_at": in_seconds(sandbox, 300), "text": "x"}
    assert refused(client, "chat.scheduleMessage", **(sound | changes)) == error


def test_a_channel_takes_thirty_scheduled_in_five_minutes(
    sandbox: Sandbox, client: WebClient
) -> None:
    """A channel takes thirty scheduled messages for the same five minutes; other times are free."""
    for _ in range(30):
        client.chat_scheduleMessage(channel=SUPPORT, post_at=in_seconds(sandbox, 1000), text="x")
    code = refused(
        client, "chat.scheduleMessage", channel=SUPPORT, post_at=in_seconds(sandbox, 1200), text="x"
    )
    assert code == "restricted_too_many"
    client.chat_scheduleMessage(channel=SUPPORT, post_at=in_seconds(sandbox, 1400), text="x")
    client.chat_scheduleMessage(channel="C0FINANCE", post_at=in_seconds(sandbox, 1000), text="x")


def test_an_archived_channel_gets_no_scheduled_messages(
    sandbox: Sandbox, client: WebClient
) -> None:
    """Messages for a channel archived since are dropped; the others are posted."""
    for channel in (SUPPORT, "C0FINANCE"):
        client.chat_scheduleMessage(channel=channel, post_at=in_seconds(sandbox, 100), text="x")
    sandbox.archive("support")
    sandbox.clock.advance(200)
    assert (
        sandbox.wait(lambda: client.conversations_history(channel="C0FINANCE")["messages"])[0][
            "text"
        ]
        == "x"
    )
    texts = [m["text"] for m in client.conversations_history(channel=SUPPORT)["messages"]]
    assert "x" not in texts


def test_attachments_and_broadcast_are_kept(sandbox: Sandbox, client: WebClient) -> None:
    """A scheduled reply comes with its attachments and, if asked for, in the channel too."""
    root = sandbox.person("ana").say("support", "root")
    client.chat_scheduleMessage(
        channel=SUPPORT,
        post_at=in_seconds(sandbox, 100),
        text="x",
        thread_ts=root,
        reply_broadcast=True,
        attachments=[{"text": "more"}],
    )
    sandbox.clock.advance(200)
    shown = sandbox.wait(
        lambda: [
            m for m in client.conversations_history(channel=SUPPORT)["messages"] if m["text"] == "x"
        ]
    )
    assert (shown[0]["subtype"], shown[0]["attachments"][0]["text"]) == ("thread_broadcast", "more")
