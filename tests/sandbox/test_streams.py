"""Streams, statuses, prompts and sessions."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.sandbox.server import Sandbox
from tests.sandbox.support import Json, code, section

FOR_BEN = {"recipient_user_id": "UBEN00001", "recipient_team_id": "T0SANDBOX"}


@pytest.fixture
def thread(sandbox: Sandbox) -> str:
    """A thread in #support."""
    return sandbox.person("ben").say("support", "@bot hello")


def start(client: WebClient, thread: str, **more: Any) -> str:
    """Start a stream for ben; its ts."""
    return str(client.chat_startStream(channel="C0SUPPORT", thread_ts=thread, **{**FOR_BEN, **more})["ts"])


def seen(sandbox: Sandbox, thread: str) -> Json:
    """The last message of the thread."""
    return sandbox.person("ben").messages("support", thread)[-1]


def test_stream(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """A stream grows by appends and ends with blocks below; then it is a message like any other."""
    ts = start(client, thread, markdown_text="Hel")
    client.chat_appendStream(channel="C0SUPPORT", ts=ts, markdown_text="lo")
    growing = seen(sandbox, thread)
    assert (growing["text"], growing["streaming_state"]) == ("Hello", "in_progress")
    client.chat_stopStream(channel="C0SUPPORT", ts=ts, markdown_text="!", blocks=[section("below")])
    done = seen(sandbox, thread)
    assert (done["text"], [b["type"] for b in done["blocks"]]) == ("Hello!", ["markdown", "section"])
    assert sandbox.deliveries[-1].event["subtype"] == "message_changed"
    client.chat_update(channel="C0SUPPORT", ts=ts, text="new")
    assert "streaming_state" not in seen(sandbox, thread)


def test_the_sdks_helper(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """slack_sdk's own stream helper works against the sandbox."""
    stream = client.chat_stream(channel="C0SUPPORT", thread_ts=thread, buffer_size=4, **FOR_BEN)
    stream.append(markdown_text="one two ")
    stream.append(markdown_text="three")
    stream.stop(session_status="active")
    assert seen(sandbox, thread)["text"] == "one two three"


def test_streaming_conflict(client: WebClient, thread: str) -> None:
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
        ({"chunks": [{"type": "task_update", "id": "1", "title": "t" * 257, "status": "pending"}]}, "invalid_chunks"),
        ({"chunks": [{"type": "blocks", "blocks": [{"type": "section"}]}]}, "invalid_blocks"),
    ],
)
def test_refused_starts(client: WebClient, thread: str, changes: Json, error: str) -> None:
    """Streams without recipient, thread or sound chunks do not start."""
    arguments = {"channel": "C0SUPPORT", "thread_ts": thread, **FOR_BEN, **changes}
    with pytest.raises(SlackApiError) as refused:
        client.api_call("chat.startStream", json=arguments)
    assert code(refused) == error


def test_dm_needs_no_recipient(sandbox: Sandbox, client: WebClient) -> None:
    """In a DM it is clear for whom a stream is."""
    ben = sandbox.person("ben")
    root = ben.dm("hello")
    assert client.chat_startStream(channel=ben.dm_channel, thread_ts=root)["ok"]


def test_ends_of_a_stream(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """Nothing is appended after the stop, after ten minutes of silence, or to what never was a stream."""
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


def test_stopped_by_a_person(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """Stop ends the streams of the thread, clears its status and tells the app which."""
    client.assistant_threads_setStatus(channel_id="C0SUPPORT", thread_ts=thread, status="is thinking")
    ts = start(client, thread, markdown_text="a")
    delivery = sandbox.person("ben").stop_agent("support", thread)
    assert delivery is not None
    assert {k: delivery.event[k] for k in ("type", "channel", "thread_ts", "user", "streaming_message_ts")} == {
        "type": "agent_session_stopped",
        "channel": "C0SUPPORT",
        "thread_ts": thread,
        "user": "UBEN00001",
        "streaming_message_ts": [ts],
    }
    with pytest.raises(SlackApiError) as refused:
        client.chat_appendStream(channel="C0SUPPORT", ts=ts, markdown_text="x")
    assert code(refused) == "stopped_by_user"


def test_tasks(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """Task chunks become task cards, in plan mode inside one plan, and later ones change earlier ones."""
    task = {"type": "task_update", "id": "1", "title": "Look", "status": "in_progress"}
    ts = start(client, thread, chunks=[task, {"type": "plan_update", "title": "My plan"}], task_display_mode="plan")
    client.chat_appendStream(channel="C0SUPPORT", ts=ts, chunks=[{**task, "status": "complete"}])
    (plan,) = seen(sandbox, thread)["blocks"]
    assert (plan["type"], plan["title"], [t["status"] for t in plan["tasks"]]) == ("plan", "My plan", ["complete"])


def statuses(sandbox: Sandbox) -> list[str]:
    """The statuses that are shown."""
    from bot.sandbox.agents import current_statuses

    with sandbox.world.lock:
        return [s.status for s in current_statuses(sandbox.world)]


def test_status(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """A status goes with the next message of the bot, when emptied, or after two minutes."""

    def think() -> None:
        client.assistant_threads_setStatus(channel_id="C0SUPPORT", thread_ts=thread, status="is thinking")
        assert statuses(sandbox) == ["is thinking"]

    think()
    client.chat_postMessage(channel="C0SUPPORT", text="elsewhere")
    assert statuses(sandbox) == ["is thinking"]
    client.chat_postMessage(channel="C0SUPPORT", thread_ts=thread, text="here")
    assert statuses(sandbox) == []
    think()
    client.assistant_threads_setStatus(channel_id="C0SUPPORT", thread_ts=thread, status="")
    assert statuses(sandbox) == []
    think()
    sandbox.clock.advance(121)
    assert statuses(sandbox) == []


def test_prompts(sandbox: Sandbox, client: WebClient, manifest: Json) -> None:
    """The manifest's prompts are there at first; with a thread_ts a call says ok and changes nothing."""
    from bot.sandbox.agents import prompts_of

    first, second = [{"title": "A", "message": "a"}], [{"title": "B", "message": "b"}]
    manifest["features"]["agent_view"]["suggested_prompts"] = first
    channel = sandbox.world.channels[sandbox.person("ana").dm_channel]
    assert prompts_of(sandbox.world, channel) == first
    client.assistant_threads_setSuggestedPrompts(channel_id=channel.id, prompts=second, thread_ts="1.000001")
    assert prompts_of(sandbox.world, channel) == first
    client.assistant_threads_setSuggestedPrompts(channel_id=channel.id, prompts=second)
    assert prompts_of(sandbox.world, channel) == second
    with pytest.raises(SlackApiError) as refused:
        client.assistant_threads_setSuggestedPrompts(channel_id=channel.id, prompts=second * 5)
    assert code(refused) == "invalid_arguments"
    del manifest["features"]["agent_view"]
    with pytest.raises(SlackApiError) as refused:
        client.assistant_threads_setSuggestedPrompts(channel_id=channel.id, prompts=second)
    assert code(refused) == "not_agent_app"


def test_sessions(sandbox: Sandbox, client: WebClient, thread: str, manifest: Json) -> None:
    """A session has one of four states and a title; without agent_view there are none."""
    with pytest.raises(SlackApiError) as refused:
        client.agents_sessions_rename(channel_id="C0SUPPORT", thread_ts=thread, title="T")
    assert code(refused) == "session_not_found"
    client.agents_sessions_setStatus(channel_id="C0SUPPORT", thread_ts=thread, status="suspended")
    client.agents_sessions_rename(channel_id="C0SUPPORT", thread_ts=thread, title="T")
    assert sandbox.world.sessions["C0SUPPORT", thread] == {"status": "suspended", "title": "T"}
    for arguments, error in (
        ({"status": "asleep", "thread_ts": thread}, "invalid_status"),
        ({"status": "active"}, "thread_ts_required"),
    ):
        with pytest.raises(SlackApiError) as refused:
            client.agents_sessions_setStatus(channel_id="C0SUPPORT", **arguments)
        assert code(refused) == error
    del manifest["features"]["agent_view"]
    with pytest.raises(SlackApiError) as refused:
        client.agents_sessions_setStatus(channel_id="C0SUPPORT", thread_ts=thread, status="active")
    assert code(refused) == "feature_disabled"
