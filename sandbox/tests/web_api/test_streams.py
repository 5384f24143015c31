"""Streams: starting, appending and stopping, with Slack's refusals."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json, section
from sandbox.tests.refusals import code
from sandbox.tests.web_api.streaming import FOR_BEN, seen, start, task, words
from slack_sandbox.server import Sandbox


def test_a_stream_grows_and_becomes_a_message(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """A stream grows by appends and ends with blocks below; then it is a message like any other."""
    ts = start(client, thread, markdown_text="Hel")
    client.chat_appendStream(channel="C0SUPPORT", ts=ts, markdown_text="lo")
    growing = seen(sandbox, thread)
    assert (growing["text"], growing["streaming_state"]) == ("Hello", "in_progress")
    client.chat_stopStream(channel="C0SUPPORT", ts=ts, markdown_text="!", blocks=[section("below")])
    done = seen(sandbox, thread)
    assert (done["text"], [b["type"] for b in done["blocks"]]) == (
        "Hello!",
        ["markdown", "section"],
    )
    assert sandbox.deliveries[-1].event["subtype"] == "message_changed"
    client.chat_update(channel="C0SUPPORT", ts=ts, text="new")
    assert "streaming_state" not in seen(sandbox, thread)


def test_slack_sdks_stream_helper_works(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """slack_sdk's own stream helper works against the sandbox."""
    stream = client.chat_stream(channel="C0SUPPORT", thread_ts=thread, buffer_size=4, **FOR_BEN)
    stream.append(markdown_text="one two ")
    stream.append(markdown_text="three")
    stream.stop(session_status="active")
    assert seen(sandbox, thread)["text"] == "one two three"


def test_a_streaming_message_cannot_be_updated(client: WebClient, thread: str) -> None:
    """A message that is being streamed cannot be updated."""
    ts = start(client, thread)
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(channel="C0SUPPORT", ts=ts, text="x")
    assert code(refused) == "streaming_state_conflict"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"recipient_user_id": ""}, "missing_recipient_user_id"),
        ({"recipient_team_id": ""}, "missing_recipient_team_id"),
        ({"recipient_user_id": "UNOBODY"}, "user_not_found"),
        ({"thread_ts": "1.000001"}, "invalid_arguments"),
        ({"thread_ts": "yesterday"}, "invalid_thread_ts"),
        ({"recipient_team_id": "T0NONE"}, "team_not_found"),
        ({"task_display_mode": "list"}, "invalid_arguments"),
        ({"markdown_text": "x" * 12_001}, "msg_too_long"),
        ({"chunks": {"type": "markdown_text", "text": "x"}}, "invalid_chunks"),
        ({"chunks": [{"type": "markdown_text"}]}, "invalid_chunks"),
        ({"chunks": [{"type": "plan_update", "title": "t" * 257}]}, "invalid_chunks"),
        ({"chunks": [{"type": "blocks", "blocks": [{"type": "divider"}] * 51}]}, "invalid_blocks"),
        ({"chunks": [{"type": "song"}]}, "invalid_chunks"),
        (
            {
                "chunks": [
                    {"type": "task_update", "id": "1", "title": "t" * 257, "status": "pending"}
                ]
            },
            "invalid_chunks",
        ),
        ({"chunks": [{"type": "blocks", "blocks": [{"type": "section"}]}]}, "invalid_blocks"),
    ],
)
def test_unsound_streams_do_not_start(
    client: WebClient, thread: str, changes: Json, error: str
) -> None:
    """Streams without recipient, thread or sound chunks do not start."""
    arguments = {"channel": "C0SUPPORT", "thread_ts": thread, **FOR_BEN, **changes}
    with pytest.raises(SlackApiError) as refused:
        client.api_call("chat.startStream", json=arguments)
    assert code(refused) == error


def test_a_stream_in_a_dm_needs_no_recipient(sandbox: Sandbox, client: WebClient) -> None:
    """The recipient is the person of the DM."""
    ben = sandbox.person("ben")
    root = ben.dm("hello")
    assert client.chat_startStream(channel=ben.dm_channel, thread_ts=root)["ok"]


def test_a_stream_takes_nothing_after_its_end(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """A stream takes nothing after its stop, after ten silent minutes, or if it is none."""
    stopped = start(client, thread, markdown_text="a")
    client.chat_stopStream(channel="C0SUPPORT", ts=stopped)
    silent = start(client, thread, markdown_text="b")
    sandbox.clock.advance(601)
    plain = str(client.chat_postMessage(channel="C0SUPPORT", text="c")["ts"])
    for ts in (stopped, silent, plain):
        with pytest.raises(SlackApiError) as refused:
            client.chat_appendStream(channel="C0SUPPORT", ts=ts, markdown_text="x")
        assert code(refused) == "message_not_in_streaming_state"
    theirs = sandbox.person("ben").say("support", "mine")
    with pytest.raises(SlackApiError) as refused:
        client.chat_appendStream(channel="C0SUPPORT", ts=theirs, markdown_text="x")
    assert code(refused) == "message_not_owned_by_app"


def test_stop_ends_the_streams_of_a_thread(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """Stop ends the streams of the thread, clears its status and tells the app which."""
    client.assistant_threads_setStatus(
        channel_id="C0SUPPORT", thread_ts=thread, status="is thinking"
    )
    ts = start(client, thread, markdown_text="a")
    delivery = sandbox.person("ben").stop_agent("support", thread)
    assert delivery is not None
    assert {
        k: delivery.event[k]
        for k in ("type", "channel", "thread_ts", "user", "streaming_message_ts")
    } == {
        "type": "agent_session_stopped",
        "channel": "C0SUPPORT",
        "thread_ts": thread,
        "user": "UBEN00001",
        "streaming_message_ts": [ts],
    }
    with pytest.raises(SlackApiError) as refused:
        client.chat_appendStream(channel="C0SUPPORT", ts=ts, markdown_text="x")
    assert code(refused) == "stopped_by_user"


def test_an_app_may_close_a_stream_after_stop(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """The app may add a last text as it closes the stream."""
    ts = start(client, thread, markdown_text="a")
    sandbox.person("ben").stop_agent("support", thread)
    client.chat_stopStream(channel="C0SUPPORT", ts=ts, markdown_text=" (stopped)")
    assert (seen(sandbox, thread)["text"], seen(sandbox, thread)["streaming_state"]) == (
        "a (stopped)",
        "completed",
    )
    with pytest.raises(SlackApiError) as refused:
        client.chat_stopStream(channel="C0SUPPORT", ts=ts)
    assert code(refused) == "message_not_in_streaming_state"


def test_an_abandoned_stream_can_be_updated(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """Ten minutes without an append free the message for chat.update, and not a moment earlier."""
    ts = start(client, thread, markdown_text="a")
    sandbox.clock.advance(599)
    with pytest.raises(SlackApiError) as refused:
        client.chat_update(channel="C0SUPPORT", ts=ts, text="b")
    assert code(refused) == "streaming_state_conflict"
    sandbox.clock.advance(2)
    assert seen(sandbox, thread)["streaming_state"] == "abandoned"
    client.chat_update(channel="C0SUPPORT", ts=ts, text="b")
    assert seen(sandbox, thread)["text"] == "b"


def refused_append(client: WebClient, ts: str, **more: Any) -> str:
    """The error code of an append that Slack refuses."""
    with pytest.raises(SlackApiError) as refused:
        client.api_call("chat.appendStream", json={"channel": "C0SUPPORT", "ts": ts, **more})
    return code(refused)


def test_a_stream_has_the_limits_of_a_message(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """The limits are those of the whole message, and a refused append leaves it as it was."""
    ts = start(client, thread, chunks=[words("x" * 11_000)])
    before = seen(sandbox, thread)
    assert refused_append(client, ts, chunks=[words("y" * 1001)]) == "msg_too_long"
    assert refused_append(client, ts, chunks=[task(n) for n in range(50)]) == "msg_blocks_too_many"
    assert refused_append(client, ts, chunks=[task(1), words("y" * 1001)]) == "msg_too_long"
    table = {"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]]}
    twice = [{"type": "blocks", "blocks": [table]}] * 2
    assert refused_append(client, ts, chunks=twice) == "invalid_attachments"
    assert refused_append(client, ts) == "no_text"
    assert seen(sandbox, thread) == before
    client.chat_appendStream(
        channel="C0SUPPORT", ts=ts, chunks=[words("y" * 1000), *(task(n) for n in range(49))]
    )
    assert len(seen(sandbox, thread)["blocks"]) == 50


def test_a_stream_keeps_to_what_it_began_with(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """Text or chunks, as it began, never both; one that began empty takes either, once."""
    text, empty = start(client, thread, markdown_text="a"), start(client, thread)
    chunks = start(client, thread, chunks=[task(1)])
    client.chat_appendStream(channel="C0SUPPORT", ts=empty, chunks=[words("b")])
    for ts, wrong in (
        (text, {"chunks": [task(1)]}),
        (chunks, {"markdown_text": "b"}),
        (empty, {"markdown_text": "b"}),
    ):
        assert refused_append(client, ts, **wrong) == "streaming_mode_mismatch"
        with pytest.raises(SlackApiError) as refused:
            client.chat_stopStream(channel="C0SUPPORT", ts=ts, **wrong)
        assert code(refused) == "streaming_mode_mismatch"
    both = "cannot_provide_both_markdown_text_and_chunks"
    assert refused_append(client, chunks, markdown_text="b", chunks=[words("b")]) == both
    client.chat_stopStream(
        channel="C0SUPPORT", ts=chunks, chunks=[words("c")], blocks=[section("below")]
    )
    assert [b["type"] for b in seen(sandbox, thread)["blocks"]] == [
        "task_card",
        "markdown",
        "section",
    ]


def test_nothing_is_posted_by_a_refused_start(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """A start whose chunks do not fit one message leaves no message behind."""
    before = len(sandbox.person("ben").messages("support", thread))
    with pytest.raises(SlackApiError) as refused:
        start(client, thread, chunks=[task(n) for n in range(51)])
    assert code(refused) == "msg_blocks_too_many"
    assert len(sandbox.person("ben").messages("support", thread)) == before


def test_a_stream_may_be_a_top_level_message(sandbox: Sandbox, client: WebClient) -> None:
    """In a channel a stream may be a message of its own; in a DM it answers a message."""
    ts = str(client.api_call("chat.startStream", json={"channel": "C0SUPPORT", **FOR_BEN})["ts"])
    assert "thread_ts" not in next(
        m for m in sandbox.person("ben").messages("support") if m["ts"] == ts
    )
    with pytest.raises(SlackApiError) as refused:
        client.api_call("chat.startStream", json={"channel": sandbox.person("ben").dm_channel})
    assert code(refused) == "invalid_arguments"


def test_stopping_a_stream_adds_feedback_and_metadata(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """stopStream puts feedback buttons below the answer and keeps the metadata.

    They can be clicked.
    """
    one = {"text": {"type": "plain_text", "text": "Good"}, "value": "good"}
    buttons = {
        "type": "feedback_buttons",
        "action_id": "fb",
        "positive_button": one,
        "negative_button": one,
    }
    metadata = {"event_type": "answer", "event_payload": {"run": "7"}}
    ts = start(client, thread, markdown_text="a")
    below = [{"type": "context_actions", "elements": [buttons]}]
    client.chat_stopStream(channel="C0SUPPORT", ts=ts, blocks=below, metadata=metadata)
    assert [block["type"] for block in seen(sandbox, thread)["blocks"]] == [
        "markdown",
        "context_actions",
    ]
    delivery = sandbox.person("ben").click("support", ts, "fb", value="good")
    assert delivery.payload["actions"][0]["value"] == "good"
    replies = client.conversations_replies(
        channel="C0SUPPORT", ts=thread, include_all_metadata=True
    )["messages"]
    assert replies[-1]["metadata"] == metadata


def test_a_stream_may_show_another_author(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """A stream may carry another name and picture, where the app may customise its messages."""
    start(client, thread, markdown_text="a", username="Otto", icon_emoji=":robot_face:")
    assert (seen(sandbox, thread)["username"], seen(sandbox, thread)["icons"]) == (
        "Otto",
        {"emoji": ":robot_face:"},
    )
    sandbox.world.app.manifest["oauth_config"]["scopes"]["bot"].remove("chat:write.customize")
    start(client, thread, markdown_text="a", username="Otto")
    assert "username" not in seen(sandbox, thread)


def test_a_video_in_a_stream_needs_its_scope(client: WebClient, thread: str) -> None:
    """Blocks of a stream need the same scopes as those of any message.

    The answer says twice what is missing.
    """
    film = {"type": "video", "alt_text": "a film", "title": {"type": "plain_text", "text": "Film"}}
    film |= {"thumbnail_url": "https://shop.example/a.png", "video_url": "https://shop.example/a"}
    with pytest.raises(SlackApiError) as refused:
        start(client, thread, chunks=[{"type": "blocks", "blocks": [film]}])
    problem = "must be of an unfurl domain of the app [json-pointer:/chunks/0/blocks/0/video_url]"
    assert code(refused) == "invalid_blocks"
    assert problem in refused.value.response["errors"]
    assert f"[ERROR] {problem}" in refused.value.response["response_metadata"]["messages"]
