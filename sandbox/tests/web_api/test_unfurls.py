"""chat.unfurl: an app's previews of links in messages."""

from __future__ import annotations

import json

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json
from sandbox.tests.harness import events
from sandbox.tests.refusals import refused
from slack_sandbox.server import Sandbox

SUPPORT = "C0SUPPORT"
LINK = "https://example.com/orders/1042?a=1&b=2"


def test_a_preview_stands_under_the_message(sandbox: Sandbox, client: WebClient) -> None:
    """A new preview replaces it."""
    ts = sandbox.person("ana").say("support", f"see <{LINK}>")
    for title in ("Order", "Order 1042"):
        client.chat_unfurl(
            channel=SUPPORT, ts=ts, unfurls={LINK: {"title": title, "text": "40 EUR"}}
        )
    (shown,) = sandbox.person("ben").messages("support")[-1]["attachments"]
    assert (shown["title"], shown["from_url"], shown["id"], shown["app_id"]) == (
        "Order 1042",
        LINK,
        1,
        sandbox.world.app.id,
    )
    assert events(sandbox, "message")[-1]["subtype"] == "message_changed"
    by_id = {
        "source": "conversations_history",
        "unfurl_id": f"{SUPPORT}-{ts}",
        "unfurls": {LINK: {"text": "again"}},
    }
    client.api_call("chat.unfurl", json=by_id)
    assert sandbox.person("ben").messages("support")[-1]["attachments"][0]["text"] == "again"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"channel": ""}, "missing_channel"),
        ({"ts": ""}, "missing_ts"),
        ({"channel": "C0NONE"}, "cannot_find_channel"),
        ({"channel": "C0RANDOM"}, "cannot_find_channel"),
        ({"ts": "1.000001"}, "cannot_find_message"),
        ({"unfurls": None}, "missing_unfurls"),
        ({"unfurls": "["}, "invalid_unfurls_format"),
        ({"unfurls": "[]"}, "invalid_unfurls_format"),
        ({"unfurls": json.dumps({"https://other.example": {"text": "x"}})}, "cannot_unfurl_url"),
        ({"unfurls": json.dumps({LINK: {}})}, "cannot_parse_attachment"),
        ({"unfurls": json.dumps({LINK: {"blocks": [{"type": "x"}]}})}, "cannot_parse_attachment"),
        ({"source": "elsewhere", "unfurl_id": "x"}, "invalid_source"),
        ({"source": "composer"}, "missing_unfurl_id"),
        ({"unfurl_id": "x"}, "missing_source"),
        ({"source": "composer", "unfurl_id": "x"}, "invalid_unfurl_id"),
    ],
)
def test_unsound_previews_are_refused(
    sandbox: Sandbox, client: WebClient, changes: Json, error: str
) -> None:
    """A preview needs a message the app may see, a link in it, and something to show."""
    ts = sandbox.person("ana").say("support", f"see <{LINK}>")
    sound = {"channel": SUPPORT, "ts": ts, "unfurls": json.dumps({LINK: {"text": "x"}})}
    arguments = {key: value for key, value in (sound | changes).items() if value is not None}
    assert refused(client, "chat.unfurl", **arguments) == error
    assert "attachments" not in client.conversations_history(channel=SUPPORT)["messages"][0]
