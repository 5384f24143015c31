"""Parts of a message besides text: attachments, subtype, author's name, permalink, metadata."""

from __future__ import annotations

import json

import pytest
from slack_sdk import WebClient

from sandbox.tests.harness import second_client
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

SUPPORT = "C0SUPPORT"


def test_a_me_message_has_its_own_subtype(sandbox: Sandbox, client: WebClient) -> None:
    """chat.meMessage is a message with a subtype of its own, and mentions count in it."""
    ts = client.chat_meMessage(channel=SUPPORT, text="waves to <@UANA00001> & co")["ts"]
    (message,) = client.conversations_history(channel=SUPPORT)["messages"]
    assert (message["ts"], message["subtype"], message["text"]) == (
        ts,
        "me_message",
        "waves to <@UANA00001> &amp; co",
    )
    assert len(sandbox.person("ana").notifications()) == 1
    assert refused(client, "chat.meMessage", channel=SUPPORT, text="") == "no_text"
    assert refused(client, "chat.meMessage", channel=SUPPORT, text="x" * 40_001) == "msg_too_long"
    assert refused(client, "chat.meMessage", channel="C0NONE", text="x") == "channel_not_found"


# the SDK advises against what is shown here
@pytest.mark.filterwarnings("ignore:The top-level `text`", "ignore:Additionally, the attachment")
def test_attachments_alone_are_a_message(client: WebClient) -> None:
    """Attachments alone are a message.

    An update keeps them unless it names others, and [] takes them away.
    """
    ts = str(
        client.chat_postMessage(channel=SUPPORT, attachments=[{"text": "a"}, {"text": "b"}])["ts"]
    )

    def shown() -> list[str]:
        (message,) = client.conversations_history(channel=SUPPORT)["messages"]
        return [each["text"] for each in message.get("attachments", [])]

    assert shown() == ["a", "b"]
    client.chat_update(channel=SUPPORT, ts=ts, text="x")
    assert shown() == ["a", "b"]
    client.chat_update(channel=SUPPORT, ts=ts, attachments=[{"text": "c"}])
    assert shown() == ["c"]
    client.chat_update(channel=SUPPORT, ts=ts, text="x", attachments=[])
    assert shown() == []
    many = json.dumps([{"text": "x"}] * 101)
    assert (
        refused(client, "chat.postMessage", channel=SUPPORT, attachments=many)
        == "too_many_attachments"
    )
    assert (
        refused(client, "chat.postMessage", channel=SUPPORT, attachments="{}")
        == "invalid_attachments"
    )
    assert refused(client, "chat.postMessage", channel=SUPPORT, attachments="[]") == "no_text"


def test_chat_write_customize_shows_another_name(sandbox: Sandbox, client: WebClient) -> None:
    """With chat:write.customize a post shows another name and picture.

    Without it they are left out.
    """
    scopes = sandbox.world.app.manifest["oauth_config"]["scopes"]["bot"]
    scopes[:] = ["chat:write"]
    posted = client.chat_postMessage(
        channel=SUPPORT, text="x", username="Desk", icon_emoji=":bell:"
    )["message"]
    assert "username" not in posted
    scopes.append("chat:write.customize")
    posted = client.chat_postMessage(
        channel=SUPPORT, text="x", username="Desk", icon_emoji=":bell:"
    )["message"]
    assert (posted["username"], posted["icons"], posted["user"]) == (
        "Desk",
        {"emoji": ":bell:"},
        sandbox.bot_user_id,
    )


def test_permalinks_lead_only_to_visible_messages(sandbox: Sandbox, client: WebClient) -> None:
    """chat.getPermalink leads to any message that the app may see, in its thread, to no other."""
    ana = sandbox.person("ana")
    root = ana.say("support", "root")
    reply = ana.say("support", "reply", root)
    link = client.chat_getPermalink(channel=SUPPORT, message_ts=reply)["permalink"]
    assert (
        link == f"{sandbox.url}/archives/{SUPPORT}/p{reply.replace('.', '')}"
        f"?thread_ts={root}&cid={SUPPORT}"
    )
    assert (
        refused(client, "chat.getPermalink", channel=SUPPORT, message_ts="1.000001")
        == "message_not_found"
    )
    secret = ana.say("finance-approvals", "secret")
    second = second_client(sandbox, "support")
    assert (
        refused(second, "chat.getPermalink", channel="C0FINANCE", message_ts=secret)
        == "channel_not_found"
    )


def test_a_message_event_carries_the_metadata(sandbox: Sandbox, client: WebClient) -> None:
    """Other apps get the metadata that the author's app set, as on Slack."""
    metadata = {"event_type": "form", "event_payload": {"name": "Ana"}}
    said = client.chat_postMessage(channel="C0SUPPORT", text="sent", metadata=metadata)
    [event] = [d.event for d in sandbox.deliveries if d.event.get("ts") == said["ts"]]
    assert event["metadata"] == metadata
