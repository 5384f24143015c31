"""chat.* through the real client: limits, ownership, threads, ephemeral and scheduled messages."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json, buttons, section
from sandbox.tests.refusals import code
from slack_sandbox.server import Sandbox
from slack_sandbox.workspace.clock import ShiftedClock
from slack_sandbox.workspace.seed import default_seed
from slack_sandbox.workspace.state import World


def post(client: WebClient, **more: object) -> str:
    """A message of the bot in #support; its ts."""
    return str(client.chat_postMessage(**{"channel": "C0SUPPORT", "text": "hi", **more})["ts"])  # type: ignore[arg-type]  # free keywords


def stored(client: WebClient, ts: str, **more: object) -> Json:
    """One message as history shows it."""
    found = client.conversations_history(
        channel="C0SUPPORT", oldest=ts, latest=ts, inclusive=True, **more
    )  # type: ignore[arg-type]  # free keywords
    assert len(found["messages"]) == 1
    message: Json = found["messages"][0]
    return message


def test_a_post_of_text_gets_a_rich_text_block(client: WebClient) -> None:
    """A post of text alone comes back with the rich_text block that Slack makes of it."""
    answer = client.chat_postMessage(channel="C0SUPPORT", text="for <@UANA00001> &amp; co")
    (block,) = answer["message"]["blocks"]
    assert block["elements"][0]["elements"] == [
        {"type": "text", "text": "for "},
        {"type": "user", "user_id": "UANA00001"},
        {"type": "text", "text": " & co"},
    ]


def test_posted_blocks_get_ids(client: WebClient) -> None:
    """Blocks come back with ids and with what Slack adds, so that nobody compares them blindly."""
    block = {
        "type": "actions",
        "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Go"}}],
    }
    (shown,) = client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[block])["message"][
        "blocks"
    ]
    assert shown["block_id"]
    assert shown["elements"][0]["action_id"]
    assert shown["elements"][0]["text"]["emoji"] is True


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"channel": "C0NOWHERE", "text": "x"}, "channel_not_found"),
        ({"channel": "UNOBODY", "text": "x"}, "channel_not_found"),
        ({"channel": "C0SUPPORT"}, "no_text"),
        ({"channel": "C0SUPPORT", "text": "x", "markdown_text": "y"}, "markdown_text_conflict"),
        (
            {
                "channel": "C0SUPPORT",
                "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": ""}}],
            },
            "invalid_blocks",
        ),
        ({"channel": "C0SUPPORT", "text": "x", "blocks": "nonsense"}, "invalid_blocks_format"),
        ({"channel": "C0SUPPORT", "text": "x", "blocks": [section("y")] * 51}, "invalid_blocks"),
        (
            {"channel": "C0SUPPORT", "text": "x", "metadata": {"event_type": "e"}},
            "invalid_metadata_schema",
        ),
        ({"channel": "C0SUPPORT", "text": "x", "thread_ts": "yesterday"}, "invalid_thread_ts"),
        ({"text": "x"}, "invalid_arguments"),
    ],
)
def test_unsound_posts_are_refused(client: WebClient, arguments: Json, error: str) -> None:
    """Posts that Slack would refuse are refused with its codes."""
    with pytest.raises(SlackApiError) as refused:
        client.api_call("chat.postMessage", json=arguments)
    assert code(refused) == error


def test_invalid_blocks_names_the_place(client: WebClient) -> None:
    """The error invalid_blocks has the place in its messages."""
    with pytest.raises(SlackApiError) as refused:
        post(client, blocks=[section("ok"), section("")])
    (message,) = refused.value.response["response_metadata"]["messages"]
    assert message.startswith("[ERROR] ")
    assert "/blocks/1/text/text" in message


def test_posting_without_membership_takes_chat_write_public(
    client: WebClient, manifest: Json
) -> None:
    """A public channel without the bot takes chat:write.public.

    A private channel without the bot is not found.
    """
    manifest["oauth_config"]["scopes"]["bot"] = ["chat:write", "chat:write.public"]
    assert client.chat_postMessage(channel="C0RANDOM", text="x")["ok"]
    manifest["oauth_config"]["scopes"]["bot"] = ["chat:write"]
    with pytest.raises(SlackApiError) as refused:
        client.chat_postMessage(channel="C0RANDOM", text="x")
    assert code(refused) == "not_in_channel"


def test_a_private_channel_without_the_bot_is_not_found(
    sandbox: Sandbox, client: WebClient
) -> None:
    """The bot was removed from the channel."""
    sandbox.kick_bot("finance-approvals")
    with pytest.raises(SlackApiError) as refused:
        client.chat_postMessage(channel="C0FINANCE", text="x")
    assert code(refused) == "channel_not_found"


def test_nothing_is_posted_to_an_archived_channel(sandbox: Sandbox, client: WebClient) -> None:
    """Nothing can be posted to an archived channel."""
    sandbox.archive("support")
    with pytest.raises(SlackApiError) as refused:
        post(client)
    assert code(refused) == "is_archived"


def test_a_post_is_cut_and_an_update_refused_at_its_limit(client: WebClient) -> None:
    """Posting cuts at 40,000 with a warning.

    Changing refuses above 4,000, counted after escaping.
    """
    answer = client.chat_postMessage(channel="C0SUPPORT", text="a" * 40_001)
    assert answer["warning"] == "message_truncated"
    assert len(answer["message"]["text"]) == 40_000
    ts = post(client)
    assert client.chat_update(channel="C0SUPPORT", ts=ts, text="b" * 4_000)["ok"]
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(channel="C0SUPPORT", ts=ts, text="b" * 3_999 + "&")
    assert code(refused) == "msg_too_long"


def test_metadata_is_shown_on_request_only(client: WebClient) -> None:
    """History gives metadata only with include_all_metadata, and updates keep it."""
    metadata = {"event_type": "card", "event_payload": {"key": "k1"}}
    ts = post(client, metadata=metadata)
    assert "metadata" not in stored(client, ts)
    client.chat_update(channel="C0SUPPORT", ts=ts, text="new")
    assert stored(client, ts, include_all_metadata=True)["metadata"] == metadata


def test_message_ids_grow_and_never_repeat(client: WebClient, sandbox: Sandbox) -> None:
    """They follow the sandbox's clock."""
    seen = [post(client) for _ in range(20)]
    assert seen == sorted(set(seen))
    sandbox.clock.advance(3600)
    assert 3590 < float(post(client)) - time.time() < 3610


class StoppedClock(ShiftedClock):
    """A clock that does not move."""

    def now(self) -> datetime:
        """Always the same moment."""
        return datetime(2026, 1, 2, tzinfo=UTC)


def test_messages_of_one_moment_have_different_ids() -> None:
    """Two messages of one microsecond still have two ids."""
    world = World({}, StoppedClock(), default_seed())
    assert [world.next_ts() for _ in range(2)] == ["1767312000.000000", "1767312000.000001"]


def test_a_reply_to_a_reply_goes_to_the_root(client: WebClient) -> None:
    """A reply to a reply goes to the root; an unknown thread makes a top-level message."""
    root = post(client)
    reply = client.chat_postMessage(channel="C0SUPPORT", text="1", thread_ts=root)
    again = client.chat_postMessage(channel="C0SUPPORT", text="2", thread_ts=reply["ts"])
    assert again["message"]["thread_ts"] == root
    assert again["message"]["parent_user_id"] == "UBOT00001"
    lost = client.chat_postMessage(channel="C0SUPPORT", text="3", thread_ts="1000000000.000001")
    assert "thread_ts" not in lost["message"]
    thread = client.conversations_replies(channel="C0SUPPORT", ts=again["ts"])["messages"]
    assert [m["text"] for m in thread] == ["hi", "1", "2"]
    assert (thread[0]["reply_count"], thread[0]["latest_reply"]) == (2, again["ts"])
    top = client.conversations_history(channel="C0SUPPORT")["messages"]
    assert [m["text"] for m in top] == ["3", "hi"]


def test_an_update_replaces_text_and_blocks_separately(client: WebClient) -> None:
    """Text alone takes blocks away; blocks replace them without "(edited)".

    Metadata alone leaves both.
    """
    ts = post(client, blocks=[buttons("go")])
    answer = client.chat_update(channel="C0SUPPORT", ts=ts, text="n", blocks=[section("new")])
    assert "ts" not in answer["message"]
    assert [b["type"] for b in stored(client, ts)["blocks"]] == ["section"]
    assert "edited" not in stored(client, ts)
    metadata = {"event_type": "e", "event_payload": {}}
    client.api_call("chat.update", json={"channel": "C0SUPPORT", "ts": ts, "metadata": metadata})
    assert [b["type"] for b in stored(client, ts)["blocks"]] == ["section"]
    client.chat_update(channel="C0SUPPORT", ts=ts, text="bare")
    assert [b["type"] for b in stored(client, ts)["blocks"]] == ["rich_text"]
    assert stored(client, ts)["edited"]["user"] == "UBOT00001"


def test_a_bot_changes_its_own_messages_only(sandbox: Sandbox, client: WebClient) -> None:
    """The bot changes and deletes its own messages only."""
    theirs = sandbox.person("ben").say("support", "mine")
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(channel="C0SUPPORT", ts=theirs, text="x")
    assert code(refused) == "cant_update_message"
    with pytest.raises(SlackApiError) as refused:
        client.chat_delete(channel="C0SUPPORT", ts=theirs)
    assert code(refused) == "cant_delete_message"
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(channel="C0SUPPORT", ts="1.000001", text="x")
    assert code(refused) == "message_not_found"


def test_update_takes_a_channel_id(sandbox: Sandbox, client: WebClient) -> None:
    """Posting to a user id answers with the DM's id, and only that can be updated."""
    answer = client.chat_postMessage(channel="UANA00001", text="x")
    assert answer["channel"].startswith("D")
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(channel="UANA00001", ts=answer["ts"], text="y")
    assert code(refused) == "channel_not_found"
    assert client.chat_update(channel=answer["channel"], ts=answer["ts"], text="y")["ok"]
    assert [m["text"] for m in sandbox.person("ana").messages(answer["channel"])] == ["y"]


def test_a_root_with_replies_leaves_a_tombstone(client: WebClient) -> None:
    """A root with replies leaves a tombstone, any other message is gone."""
    root = post(client)
    reply = post(client, thread_ts=root)
    client.chat_delete(channel="C0SUPPORT", ts=root)
    assert (stored(client, root)["subtype"], stored(client, root)["user"]) == (
        "tombstone",
        "USLACKBOT",
    )
    client.chat_delete(channel="C0SUPPORT", ts=reply)
    assert len(client.conversations_replies(channel="C0SUPPORT", ts=root)["messages"]) == 1


def test_a_permalink_names_channel_message_and_thread(sandbox: Sandbox, client: WebClient) -> None:
    """A permalink names channel and message, and the thread for a reply."""
    root = post(client)
    reply = post(client, thread_ts=root)
    link = client.chat_getPermalink(channel="C0SUPPORT", message_ts=reply)["permalink"]
    assert (
        link == f"{sandbox.url}/archives/C0SUPPORT/p{reply.replace('.', '')}"
        f"?thread_ts={root}&cid=C0SUPPORT"
    )


def test_a_scheduled_message_comes_without_moving_the_clock(
    sandbox: Sandbox, client: WebClient
) -> None:
    """A scheduled message also comes when nobody moves the clock.

    The second after the next: the next may be over before the request is there.
    """
    client.chat_scheduleMessage(
        channel="C0SUPPORT", text="soon", post_at=int(sandbox.clock.now().timestamp()) + 2
    )
    assert sandbox.wait(lambda: sandbox.person("ana").messages("support"))[0]["text"] == "soon"


def test_a_scheduled_message_comes_by_the_clock(sandbox: Sandbox, client: WebClient) -> None:
    """It is posted when the sandbox's clock reaches its time, and not before."""
    post_at = int(sandbox.clock.now().timestamp()) + 600
    assert client.chat_scheduleMessage(channel="C0SUPPORT", text="later", post_at=post_at)[
        "scheduled_message_id"
    ]
    ana = sandbox.person("ana")
    sandbox.clock.advance(300)
    assert ana.messages("support") == []
    sandbox.clock.advance(301)
    assert sandbox.wait(lambda: ana.messages("support"))[0]["text"] == "later"
    for when, error in ((post_at - 1000, "time_in_past"), (post_at + 121 * 86_400, "time_too_far")):
        with pytest.raises(SlackApiError) as refused:
            client.chat_scheduleMessage(channel="C0SUPPORT", text="x", post_at=when)
        assert code(refused) == error
