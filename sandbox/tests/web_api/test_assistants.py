"""Apps with the older assistant_view: opening the DM begins a thread for the person's messages."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.socket_app import HandApp
from slack_sandbox.server import Sandbox
from slack_sandbox.web_api import agents


@pytest.fixture
def manifest(manifest: Json) -> Json:
    """An assistant's manifest."""
    del manifest["features"]["agent_view"]
    manifest["features"]["assistant_view"] = {
        "assistant_description": "Helps",
        "suggested_prompts": [],
    }
    manifest["settings"]["event_subscriptions"]["bot_events"].append("assistant_thread_started")
    return manifest


def started(sandbox: Sandbox) -> list[Json]:
    """The assistant_thread_started events that the app got."""
    events = [delivery.event for delivery in sandbox.world.deliveries]
    return [
        event["assistant_thread"]
        for event in events
        if event.get("type") == "assistant_thread_started"
    ]


def test_opening_a_dm_begins_a_thread_unless_the_last_is_empty(
    sandbox: Sandbox, client: WebClient, app: HandApp
) -> None:
    """Opening the DM begins a thread unless the last one is empty.

    A message without a thread_ts goes into the last one.
    """
    ana = sandbox.person("ana")
    ana.open_dm()
    ana.open_dm()
    [first] = started(sandbox)
    assert (first["user_id"], first["channel_id"], first["context"]) == (ana.id, ana.dm_channel, {})
    client.chat_postMessage(
        channel=ana.dm_channel, thread_ts=first["thread_ts"], text="How can I help?"
    )
    ana.open_dm()
    assert len(started(sandbox)) == 1
    ts = ana.dm("Tell me")
    assert ts in [reply["ts"] for reply in ana.messages(ana.dm_channel, first["thread_ts"])]
    ana.open_dm()
    assert [each["thread_ts"] != first["thread_ts"] for each in started(sandbox)] == [False, True]


def test_prompts_for_an_assistants_thread_are_kept(sandbox: Sandbox, client: WebClient) -> None:
    """Its prompts belong to a thread; those of apps with an agent_view to the whole DM."""
    ana = sandbox.person("ana")
    ana.open_dm()
    [thread] = started(sandbox)
    prompts = [{"title": "A", "message": "a"}]
    client.assistant_threads_setSuggestedPrompts(
        channel_id=thread["channel_id"], thread_ts=thread["thread_ts"], prompts=prompts
    )
    assert agents.prompts_of(sandbox.world, sandbox.world.channels[thread["channel_id"]]) == prompts


def test_a_thread_has_the_title_of_the_app(sandbox: Sandbox, client: WebClient) -> None:
    """The title is on the first message of the thread."""
    ana = sandbox.person("ana")
    ana.open_dm()
    [thread] = started(sandbox)
    place = {"channel_id": thread["channel_id"], "thread_ts": thread["thread_ts"]}
    client.assistant_threads_setTitle(**place, title="A mug")
    assert ana.messages(thread["channel_id"])[0]["assistant_app_thread"]["title"] == "A mug"


def test_agents_get_no_assistant_thread(sandbox: Sandbox, manifest: Json) -> None:
    """With an agent_view, or with neither, opening the DM begins no thread."""
    del manifest["features"]["assistant_view"]
    sandbox.person("ana").open_dm()
    assert started(sandbox) == []
    assert sandbox.person("ana").messages(sandbox.person("ana").dm_channel) == []
