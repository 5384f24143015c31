"""Statuses, suggested prompts, titles and sessions of an agent's threads."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sandbox.tests.builders import Json
from sandbox.tests.refusals import code
from slack_sandbox.server import Sandbox
from slack_sandbox.web_api import agents

SUPPORT = "C0SUPPORT"


@pytest.fixture
def thread(sandbox: Sandbox) -> str:
    """A thread in #support."""
    return sandbox.person("ben").say("support", "@bot hello")


def statuses(sandbox: Sandbox) -> list[str]:
    """The statuses that are shown."""
    with sandbox.world.lock:
        return [s.status for s in agents.current_statuses(sandbox.world)]


def refused(client: WebClient, method: str, **arguments: object) -> str:
    """The error code of a call that Slack refuses."""
    with pytest.raises(SlackApiError) as error:
        client.api_call(method, json=arguments)
    return code(error)


def test_a_status_goes_with_the_next_message(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """It also ends when set to an empty text, and after two minutes."""

    def think() -> None:
        client.assistant_threads_setStatus(
            channel_id=SUPPORT, thread_ts=thread, status="is thinking"
        )
        assert statuses(sandbox) == ["is thinking"]

    think()
    client.chat_postMessage(channel=SUPPORT, text="elsewhere")
    assert statuses(sandbox) == ["is thinking"]
    client.chat_postMessage(channel=SUPPORT, thread_ts=thread, text="here")
    assert statuses(sandbox) == []
    think()
    client.assistant_threads_setStatus(channel_id=SUPPORT, thread_ts=thread, status="")
    assert statuses(sandbox) == []
    think()
    sandbox.clock.advance(121)
    assert statuses(sandbox) == []


def test_loading_messages_are_shown_in_turn(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """Up to ten sentences are shown in turn while a status is on.

    What is no list of sentences is refused.
    """
    ten = [f"step {n}" for n in range(10)]
    client.assistant_threads_setStatus(
        channel_id=SUPPORT, thread_ts=thread, status="is thinking", loading_messages=ten
    )
    (status,) = agents.current_statuses(sandbox.world)
    assert status.loading == ten
    for wrong in ([*ten, "more"], "soon", [7], [""]):
        call = {
            "channel_id": SUPPORT,
            "thread_ts": thread,
            "status": "x",
            "loading_messages": wrong,
        }
        assert refused(client, "assistant.threads.setStatus", **call) == "invalid_arguments"
    assert (
        refused(client, "assistant.threads.setStatus", channel_id=SUPPORT, status="x")
        == "invalid_arguments"
    )
    stray = {"channel_id": SUPPORT, "thread_ts": "1.000001", "status": "x"}
    assert refused(client, "assistant.threads.setStatus", **stray) == "invalid_thread_ts"


def test_the_manifests_prompts_are_shown_first(
    sandbox: Sandbox, client: WebClient, manifest: Json
) -> None:
    """The manifest's prompts are there at first.

    With a thread_ts a call says ok and changes nothing.
    """
    first, second = [{"title": "A", "message": "a"}], [{"title": "B", "message": "b"}]
    manifest["features"]["agent_view"]["suggested_prompts"] = first
    channel = sandbox.world.channels[sandbox.person("ana").dm_channel]
    assert agents.prompts_of(sandbox.world, channel) == first
    client.assistant_threads_setSuggestedPrompts(
        channel_id=channel.id, prompts=second, thread_ts="1.000001"
    )
    assert agents.prompts_of(sandbox.world, channel) == first
    client.assistant_threads_setSuggestedPrompts(channel_id=channel.id, prompts=second)
    assert agents.prompts_of(sandbox.world, channel) == second
    for wrong in (second * 5, [], "B", [{"title": "B"}], [{"title": "B", "message": ""}], None):
        call = {"channel_id": channel.id, "prompts": wrong}
        assert (
            refused(client, "assistant.threads.setSuggestedPrompts", **call) == "invalid_arguments"
        )
    del manifest["features"]["agent_view"]
    call = {"channel_id": channel.id, "prompts": second}
    assert refused(client, "assistant.threads.setSuggestedPrompts", **call) == "not_agent_app"


def session(sandbox: Sandbox, thread: str) -> tuple[str, str, str]:
    """Status, title and initiator of the thread's session."""
    found = agents.session_of(sandbox.world, (sandbox.world.app.id, SUPPORT, thread))
    assert found is not None
    return found["status"], found["title"], found["initiator"]


def test_a_session_is_made_by_its_first_status(
    sandbox: Sandbox, client: WebClient, thread: str
) -> None:
    """Title and initiator count only in that call."""
    here = {"channel_id": SUPPORT, "thread_ts": thread}
    assert refused(client, "agents.sessions.rename", **here, title="T") == "session_not_found"
    client.api_call("agents.sessions.setStatus", json={**here, "status": "active", "title": "A"})
    answer = client.api_call(
        "agents.sessions.setStatus",
        json={**here, "status": "suspended", "title": "B", "initiator_user_id": "UBEN00001"},
    )
    assert (answer["status"], answer["title"]) == ("suspended", "A")
    assert session(sandbox, thread) == ("suspended", "A", "")
    client.api_call("agents.sessions.rename", json={**here, "title": "T"})
    client.assistant_threads_setTitle(**here, title="U")
    assert session(sandbox, thread) == ("suspended", "U", "")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"status": "asleep"}, "invalid_status"),
        ({"status": ""}, "invalid_arguments"),
        ({"thread_ts": ""}, "thread_ts_required"),
        ({"title": "x" * 201}, "invalid_arguments"),
        ({"initiator_user_id": "UNOBODY"}, "user_not_found"),
        ({"channel_id": "C0NONE"}, "channel_not_found"),
    ],
)
def test_wrong_arguments_of_a_session_are_refused(
    client: WebClient, thread: str, changes: Json, error: str
) -> None:
    """Each wrong argument of a session's status has its error."""
    arguments = {"channel_id": SUPPORT, "thread_ts": thread, "status": "active", **changes}
    assert refused(client, "agents.sessions.setStatus", **arguments) == error


def test_only_agents_have_sessions(client: WebClient, thread: str, manifest: Json) -> None:
    """Without agent_view there is no session, and a stream makes none."""
    del manifest["features"]["agent_view"]
    here = {"channel_id": SUPPORT, "thread_ts": thread}
    assert (
        refused(client, "agents.sessions.setStatus", **here, status="active") == "feature_disabled"
    )
    assert refused(client, "agents.sessions.rename", **here, title="T") == "feature_disabled"


def test_processing_ends_by_itself(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """After an hour a processing session is active again, unless the status was set again."""
    call = {"channel_id": SUPPORT, "thread_ts": thread, "status": "processing"}
    client.api_call("agents.sessions.setStatus", json=call)
    sandbox.clock.advance(3599)
    client.api_call("agents.sessions.setStatus", json=call)
    sandbox.clock.advance(3599)
    assert session(sandbox, thread)[0] == "processing"
    sandbox.clock.advance(1)
    assert session(sandbox, thread)[0] == "active"


def test_streams_keep_a_session(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """The session is processing until the stream is stopped or abandoned."""
    whom = {"recipient_user_id": "UANA00001", "recipient_team_id": "T0SANDBOX"}
    ts = str(
        client.chat_startStream(channel=SUPPORT, thread_ts=thread, markdown_text="a", **whom)["ts"]
    )
    assert session(sandbox, thread) == ("processing", "", "UBEN00001")
    client.chat_stopStream(channel=SUPPORT, ts=ts, session_status="suspended")
    assert session(sandbox, thread)[0] == "suspended"
    ts = str(
        client.chat_startStream(channel=SUPPORT, thread_ts=thread, markdown_text="a", **whom)["ts"]
    )
    assert session(sandbox, thread)[0] == "processing"
    sandbox.clock.advance(601)
    assert session(sandbox, thread)[0] == "active"


def test_an_app_that_cannot_hear_stop_is_warned(
    sandbox: Sandbox, client: WebClient, thread: str, manifest: Json
) -> None:
    """An app that cannot hear Stop is warned when it sets a session's status."""
    call = {"channel_id": SUPPORT, "thread_ts": thread, "status": "processing"}
    assert "warning" not in client.api_call("agents.sessions.setStatus", json=call)
    manifest["settings"]["event_subscriptions"]["bot_events"].remove("agent_session_stopped")
    answer = client.api_call("agents.sessions.setStatus", json=call)
    assert answer["warning"] == "missing_agent_session_stopped_event_subscription"


def test_a_person_can_rename_a_session(sandbox: Sandbox, client: WebClient, thread: str) -> None:
    """The app gets the new title and the old one."""
    client.api_call(
        "agents.sessions.setStatus",
        json={"channel_id": SUPPORT, "thread_ts": thread, "status": "active"},
    )
    with sandbox.world.lock:
        heard = [
            agents.retitled(
                sandbox.world, "UBEN00001", (sandbox.world.app.id, SUPPORT, thread), title
            )
            for title in ("One", "Two")
        ]
    events = [delivery.event for delivery in heard if delivery]
    assert [(e["title"], e.get("previous_title"), e["thread_ts"]) for e in events] == [
        ("One", None, thread),
        ("Two", "One", thread),
    ]
