"""Payloads and answers, key by key and type by type, against what Slack was recorded to send."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.recordings import differences, fixture
from sandbox.tests.socket_app import HandApp
from slack_sandbox.server import Sandbox

# Known from Slack's documentation or measured, while the recordings (made with blanked test data)
# lack them.
NEWER = {"context_team_id", "context_enterprise_id"}
FREE = {"blocks", "values", "state"}  # compared by the tests of blocks and inputs


def pruned(value: Any) -> Any:
    """The payload without the fields that other tests compare."""
    if isinstance(value, dict):
        return {k: pruned(v) for k, v in value.items() if k not in FREE | NEWER}
    return [pruned(v) for v in value] if isinstance(value, list) else value


def event(app: HandApp, wanted: str, subtype: str | None = None) -> Json:
    """The next event of that type."""
    while True:
        payload: Json = app.take()["payload"]
        inner = payload["event"]
        if inner["type"] == wanted and inner.get("subtype") == subtype:
            return payload


def cause(sandbox: Sandbox, client: WebClient, what: str) -> None:
    """Make something happen that leads to the event."""
    ana = sandbox.person("ana")
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x")["ts"])
    causes: dict[str, Callable[[], object]] = {
        "app_mention": lambda: ana.say("support", "@bot hello"),
        "message": lambda: ana.say("support", "hello", ts),
        "message_changed": lambda: client.chat_update(channel="C0SUPPORT", ts=ts, text="y"),
        "message_deleted": lambda: client.chat_delete(channel="C0SUPPORT", ts=ts),
        "user_change": lambda: sandbox.deactivate("dan"),
        "subteam_members_changed": lambda: sandbox.set_group("finance", ["ana"]),
        "app_home_opened": ana.open_dm,
        "member_joined_channel": lambda: sandbox.join("dan", "partners"),
        "member_left_channel": lambda: sandbox.leave("dan", "support"),
    }
    causes[what]()


@pytest.mark.parametrize(
    ("what", "type_", "subtype", "recording", "unlisted"),
    [
        ("app_mention", "app_mention", None, "AppMentionPayload", set()),
        ("message", "message", None, "MessagePayload", {"app_id"}),
        ("message_changed", "message", "message_changed", "MessageChangedPayload", {"app_id"}),
        ("message_deleted", "message", "message_deleted", "MessageDeletedPayload", {"app_id"}),
        (
            "user_change",
            "user_change",
            None,
            "UserChangePayload",
            {"status_emoji_display_info", "event_ts"},
        ),
        (
            "subteam_members_changed",
            "subteam_members_changed",
            None,
            "SubteamMembersChangedPayload",
            set(),
        ),
        ("app_home_opened", "app_home_opened", None, "AppHomeOpenedPayload", set()),
    ],
)
def test_an_event_has_slacks_keys_and_types(
    sandbox: Sandbox,
    client: WebClient,
    app: HandApp,
    what: str,
    type_: str,
    subtype: str | None,
    recording: str,
    unlisted: set[str],
) -> None:
    """An event has no key and no type that Slack's own does not have."""
    cause(sandbox, client, what)
    found = differences(pruned(event(app, type_, subtype)), fixture(f"slack/{recording}.json"))
    assert [d for d in found if d.split(":")[0].rsplit("/", 1)[1] not in unlisted] == []


@pytest.mark.parametrize(
    ("what", "type_", "subtype", "recording"),
    [
        ("app_mention", "app_mention", None, "events_shared_channels.valid_event_body"),
        ("message", "message", None, "message.message_body"),
        ("message_changed", "message", "message_changed", "message_changed.event_payload"),
        ("message_deleted", "message", "message_deleted", "message_deleted.event_payload"),
        ("member_joined_channel", "member_joined_channel", None, "events.join_event_body"),
        ("member_left_channel", "member_left_channel", None, "events.left_event_body"),
    ],
)
def test_events_have_all_recorded_keys(
    sandbox: Sandbox,
    client: WebClient,
    app: HandApp,
    what: str,
    type_: str,
    subtype: str | None,
    recording: str,
) -> None:
    """An event has every key of the recorded one.

    Apart from those of big organisations and of old apps.
    """
    cause(sandbox, client, what)
    ours = event(app, type_, subtype)
    theirs = fixture("bolt_payloads.json")[recording]
    missing = differences(pruned(theirs), pruned(ours))
    optional = (
        "/enterprise_id",
        "/authed_users",
        "/inviter",
        "/client_msg_id",
        "/edited",
        "/message/ts",
    )
    assert [d for d in missing if not d.split(":")[0].endswith(optional)] == []


def test_socket_frames_are_as_recorded(app: HandApp, sandbox: Sandbox) -> None:
    """hello, envelopes and disconnect are framed as recorded."""
    frames = fixture("socket_mode_frames.json")
    hello = next(f for f in frames if f["type"] == "hello")
    assert differences(app.hello, hello) == differences(hello, app.hello) == []
    sandbox.person("ana").say("support", "hello")
    envelope, recorded = (
        app.take(),
        next(
            f for f in frames if f["type"] == "events_api" and "blocks" not in f["payload"]["event"]
        ),
    )
    assert (set(envelope), envelope["retry_attempt"], envelope["retry_reason"]) == (
        set(recorded),
        0,
        "",
    )
    sandbox.faults.disconnect("link_disabled")
    bye = app.frame()
    assert differences(bye, next(f for f in frames if f["type"] == "disconnect")) == []


def test_a_click_has_the_recorded_keys(sandbox: Sandbox, client: WebClient, app: HandApp) -> None:
    """A click carries the keys of a recorded one, `message` for all but ephemeral messages."""
    ana = sandbox.person("ana")
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    app.take()
    ana.click("support", ts, "go")
    ours = app.take()
    assert ours["accepts_response_payload"] is False
    recorded = fixture("bolt_payloads.json")["block_actions.body"]
    missing = differences(pruned(recorded), pruned(ours["payload"]))
    assert [d for d in missing if "/team/enterprise" not in d] == []
    inventory = fixture("slack/BlockActionPayload.json")
    extra = differences(pruned(ours["payload"]), inventory)
    known = (
        "/is_enterprise_install",
        "/response_url",
        "/actions",
        "/team",
        "/message/reply",
        "/message/is_locked",
        "/message/subscribed",
    )
    assert [d for d in extra if not d.split(":")[0].startswith(known)] == []
    assert ours["payload"]["message"]["ts"] == ts
    psst = client.chat_postEphemeral(
        channel="C0SUPPORT", user=ana.id, text="x", blocks=[buttons("go")]
    )["message_ts"]
    ana.click("support", psst, "go")
    ephemeral = app.take()["payload"]
    assert "message" not in ephemeral
    assert ephemeral["container"]["is_ephemeral"] is True


def test_views_and_submissions_have_the_recorded_keys(
    sandbox: Sandbox, client: WebClient, app: HandApp
) -> None:
    """Views, submissions and closings have the keys of recorded ones, no more and no fewer."""
    import threading

    ana = sandbox.person("ana")
    ts = str(client.chat_postMessage(channel="C0SUPPORT", text="x", blocks=[buttons("go")])["ts"])
    app.take()
    ana.click("support", ts, "go")
    trigger = app.take()["payload"]["trigger_id"]
    view = client.views_open(trigger_id=trigger, view=modal(notify_on_close=True))["view"]
    bodies = fixture("bolt_payloads.json")
    assert differences(pruned(bodies["view_submission.body"]["view"]), pruned(view)) == []
    assert differences(pruned(view), fixture("slack/views.open.json")["view"]) == []
    worker = threading.Thread(target=ana.submit, args=({"field": {"text": {"value": "v"}}},))
    worker.start()
    submission = app.take({"response_action": "errors", "errors": {"field": "no"}})
    worker.join(30)
    assert submission["accepts_response_payload"] is True
    recorded = bodies["view_submission.body"]
    assert [
        d
        for d in differences(pruned(recorded), pruned(submission["payload"]))
        if "enterprise" not in d
    ] == []
    assert (
        differences(
            pruned(submission["payload"]), recorded | fixture("slack/ViewSubmissionPayload.json")
        )
        == []
    )
    assert submission["payload"]["view"]["state"] == recorded_state("v")
    ana.close_view()
    closed = app.take()["payload"]
    assert differences(pruned(closed), fixture("slack/ViewClosedPayload.json")) == []
    assert closed["is_cleared"] is False


def recorded_state(value: str) -> Json:
    """The state of the test modal with that text typed in."""
    return {"values": {"field": {"text": {"type": "plain_text_input", "value": value}}}}


@pytest.mark.parametrize(
    ("method", "arguments", "unlisted"),
    [
        ("auth.test", {}, set()),
        ("users.info", {"user": "UANA00001"}, set()),
        ("conversations.members", {"channel": "C0SUPPORT"}, set()),
        ("usergroups.list", {"include_users": "1", "include_count": "1"}, {"auto_type"}),
        ("usergroups.users.list", {"usergroup": "S0LEADS"}, set()),
        ("chat.postEphemeral", {"channel": "C0SUPPORT", "user": "UANA00001", "text": "x"}, set()),
    ],
)
def test_an_answer_has_slacks_keys_and_types(
    client: WebClient, method: str, arguments: Json, unlisted: set[str]
) -> None:
    """Answers have no key and no type that Slack's own do not have."""
    answer = client.api_call(method, params=arguments).data
    found = differences(answer, fixture(f"slack/{method}.json"))
    assert [d for d in found if d.split(":")[0].rsplit("/", 1)[1] not in unlisted] == []


def test_every_refusal_has_a_documented_code(sandbox: Sandbox) -> None:
    """Each refusal in the code is one that Slack documents, or a general one measured elsewhere."""
    import re
    from pathlib import Path

    import slack_sandbox as package

    documented = {e for m in fixture("slack_methods.json").values() for e in m["errors"]}
    general = {
        "invalid_arguments",
        "invalid_json",
        "json_not_object",
        "invalid_auth",
        "invalid_thread_ts",
        "user_not_in_channel",
        "expired_url",
        "used_url",
        "invalid_payload",
        "client_id_token_mismatch",  # of apps.uninstall, which the scrape left out
        "invalid_presence",
        "team_access_not_granted",  # what an org-wide token meets where the app was not added
        "cannot_provide_both_markdown_text_and_chunks",
        "streaming_mode_mismatch",
    }
    folder = Path(str(package.__file__)).parent
    used = {
        c for f in folder.rglob("*.py") for c in re.findall(r'SlackError\("(\w+)"', f.read_text())
    }
    assert len(used) > 40
    assert used - documented - general == set()
