"""Ephemeral messages: the person and the places they are shown in."""

from __future__ import annotations

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from slack_sandbox.server import Sandbox


def post(client: WebClient, **options: str) -> str:
    """A message in #support; returns its ts."""
    return str(client.chat_postMessage(channel="C0SUPPORT", text="x", **options)["ts"])


def test_an_ephemeral_message_is_seen_by_one_person(sandbox: Sandbox, client: WebClient) -> None:
    """No method finds it."""
    ts = client.chat_postEphemeral(channel="C0SUPPORT", user="UBEN00001", text="psst")["message_ts"]
    assert [(m["text"], m["is_ephemeral"]) for m in sandbox.person("ben").messages("support")] == [
        ("psst", True)
    ]
    assert sandbox.person("ana").messages("support") == []
    assert client.conversations_history(channel="C0SUPPORT")["messages"] == []
    for method in ("chat.update", "chat.delete"):
        with pytest.raises(SlackApiError) as refused:
            client.api_call(method, json={"channel": "C0SUPPORT", "ts": ts, "text": "x"})
        assert refused.value.response["error"] == "message_not_found"
    with pytest.raises(SlackApiError) as refused:
        client.chat_postEphemeral(channel="C0FINANCE", user="UBEN00001", text="psst")
    assert refused.value.response["error"] == "user_not_in_channel"


def test_an_ephemeral_message_is_not_seen_in_a_quiet_thread(
    sandbox: Sandbox, client: WebClient
) -> None:
    """Slack shows it in a thread only where there are replies."""
    root = post(client)
    said = {"channel": "C0SUPPORT", "user": "UBEN00001", "thread_ts": root}
    assert client.chat_postEphemeral(text="unseen", **said)["ok"]
    post(client, thread_ts=root)
    assert client.chat_postEphemeral(text="seen", **said)["ok"]
    thread = sandbox.person("ben").messages("support", root)
    assert [m["text"] for m in thread if m.get("is_ephemeral")] == ["seen"]
