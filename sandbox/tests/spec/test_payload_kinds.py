"""Each kind of payload has the keys that Slack's has and no others, or there is a reason.

`TOO_MANY` and `TOO_FEW` list every difference by its place. Commands, shortcuts and suggestions
have own files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from slack_sdk import WebClient

from sandbox.tests.builders import Json, buttons, modal
from sandbox.tests.recordings import differences, fixture
from sandbox.tests.socket_app import HandApp
from sandbox.tests.spec.test_shapes import pruned
from slack_sandbox.server import Sandbox

SUPPORT = "C0SUPPORT"
# Keys that the recordings lack. The inventories of the Java SDK were made with its own classes and
# are incomplete.
TOO_MANY = {
    r"^/event/(root/|message/|previous_message/)?"
    r"(app_id|bot_id|bot_profile|team|user|client_msg_id)$": (
        "Slack sends them with messages of people and bots, see bolt_payloads.json; the "
        "inventory has none"
    ),
    r"^/event/(message/|previous_message/)?root$": "a broadcast reply that is changed or "
    "deleted; none was recorded",
    r"^/event/root/(is_locked|reply_users|reply_users_count)$": "recorded in bolt_payloads.json, "
    "not in the inventory",
    r"^/event/event_ts$": "every event has one, docs.slack.dev; the inventory has none",
    r"^/event/user/profile/status_emoji_display_info$": "newer than the inventory",
}
# Keys that only the recordings have.
TOO_FEW = {
    r"/enterprise(_id|_name)?$": "only in an organisation of several workspaces, which the "
    "sandbox is not",
    r"^/authed_users$": "deprecated; apps made since 2020 get authorizations instead",
    r"^/event/inviter$": "only where somebody invited; here the person came by themselves",
    r"^/event/client_msg_id$": "only of what a person's client sent; the bot sent this",
    r"^view_closed /response_urls$": "bolt-python's sample is a copied submission; Slack's "
    "inventory has none",
}


@dataclass
class Scene:
    """A running sandbox with one person at hand."""

    sandbox: Sandbox
    client: WebClient
    app: HandApp

    def post(self, **more: Any) -> str:
        """A message of the bot; its ts."""
        return str(self.client.chat_postMessage(channel=SUPPORT, text="x", **more)["ts"])

    def click(self) -> Json:
        """A click on a message's button, as the app gets it."""
        self.sandbox.person("ana").click("support", self.post(blocks=[buttons("go")]), "go")
        return self.next("block_actions")

    def open(self) -> None:
        """A modal with an input and a button, open before ana."""
        blocks = [*modal()["blocks"], buttons("inside")]
        self.client.views_open(
            trigger_id=self.click()["trigger_id"], view=modal(blocks=blocks, notify_on_close=True)
        )

    def next(self, kind: str, subtype: str | None = None) -> Json:
        """The next payload of that kind."""
        while True:
            payload: Json = self.app.take()["payload"]
            inner = payload.get("event", payload)
            if inner["type"] == kind and inner.get("subtype") == subtype:
                return payload


def _broadcast(scene: Scene) -> str:
    return scene.post(
        thread_ts=scene.sandbox.person("ana").say("support", "hello"), reply_broadcast=True
    )


def _in_modal(scene: Scene) -> None:
    scene.open()
    scene.sandbox.person("ana").click_view("inside")


def _closed(scene: Scene) -> None:
    scene.open()
    scene.sandbox.person("ana").close_view()


# kind, subtype, what leads to it, the inventory of its keys, recordings of it
Kind = tuple[str, str | None, Callable[[Scene], object], str, tuple[str, ...]]
KINDS: dict[str, Kind] = {
    "app_mention": (
        "app_mention",
        None,
        lambda scene: scene.sandbox.person("ana").say("support", "@bot hello"),
        "AppMentionPayload",
        ("events.valid_event_body", "events_shared_channels.valid_event_body"),
    ),
    "message": (
        "message",
        None,
        lambda scene: scene.sandbox.person("ana").say("support", "hello"),
        "MessagePayload",
        (
            "message.message_body",
            "message_bot.user_message_event_payload",
            "events_org_apps.event_payload",
        ),
    ),
    "message of a bot": (
        "message",
        None,
        lambda scene: scene.post(),
        "MessageBotPayload",
        ("message_bot.bot_message_event_payload",),
    ),
    "thread_broadcast": (
        "message",
        "thread_broadcast",
        _broadcast,
        "MessageThreadBroadcastPayload",
        ("message_thread_broadcast.event_payload",),
    ),
    "message_changed": (
        "message",
        "message_changed",
        lambda scene: scene.client.chat_update(channel=SUPPORT, ts=_broadcast(scene), text="y"),
        "MessageChangedPayload",
        ("message_changed.event_payload",),
    ),
    "message_deleted": (
        "message",
        "message_deleted",
        lambda scene: scene.client.chat_delete(channel=SUPPORT, ts=scene.post()),
        "MessageDeletedPayload",
        ("message_deleted.event_payload",),
    ),
    "member_joined_channel": (
        "member_joined_channel",
        None,
        lambda scene: scene.sandbox.join("dan", "partners"),
        "",
        ("events.join_event_body", "events_shared_channels.join_event_body"),
    ),
    "member_left_channel": (
        "member_left_channel",
        None,
        lambda scene: scene.sandbox.leave("dan", "support"),
        "",
        ("events.left_event_body", "events_shared_channels.left_event_body"),
    ),
    "team_join": (
        "team_join",
        None,
        lambda scene: scene.sandbox.hire("nia"),
        "",
        (),
    ),
    "user_change": (
        "user_change",
        None,
        lambda scene: scene.sandbox.deactivate("dan"),
        "UserChangePayload",
        (),
    ),
    "subteam_members_changed": (
        "subteam_members_changed",
        None,
        lambda scene: scene.sandbox.set_group("finance", ["ana"]),
        "SubteamMembersChangedPayload",
        (),
    ),
    "app_home_opened": (
        "app_home_opened",
        None,
        lambda scene: scene.sandbox.person("ana").open_dm(),
        "AppHomeOpenedPayload",
        (),
    ),
    "channel_id_changed": (
        "channel_id_changed",
        None,
        lambda scene: scene.sandbox.change_id("partners"),
        "ChannelIdChangedPayload",
        (),
    ),
    "channel_shared": (
        "channel_shared",
        None,
        lambda scene: scene.sandbox.share("general"),
        "ChannelSharedPayload",
        (),
    ),
    "tokens_revoked": (
        "tokens_revoked",
        None,
        lambda scene: scene.sandbox.uninstall(),
        "TokensRevokedPayload",
        ("events.tokens_revoked_body",),
    ),
    "app_uninstalled": (
        "app_uninstalled",
        None,
        lambda scene: scene.sandbox.uninstall(),
        "AppUninstalledPayload",
        ("events.app_uninstalled_body", "events_token_revocations.event_payload"),
    ),
    "click in a modal": ("block_actions", None, _in_modal, "BlockActionPayload", ()),
    "view_closed": ("view_closed", None, _closed, "ViewClosedPayload", ("view_closed.body",)),
}


def unexplained(found: list[str], reasons: dict[str, str], kind: str) -> list[str]:
    """The differences without a reason, each a place and what is there."""
    places = [(what, what.split(": ")[0]) for what in found]
    return [
        what
        for what, at in places
        if not any(re.search(r, at) or re.search(r, f"{kind} {at}") for r in reasons)
    ]


@pytest.mark.parametrize("name", KINDS)
def test_a_payload_has_slacks_keys_and_types(
    sandbox: Sandbox, client: WebClient, app: HandApp, name: str
) -> None:
    """A payload has the keys and types of Slack's and no others, but for the listed ones."""
    kind, subtype, cause, inventory, recordings = KINDS[name]
    scene = Scene(sandbox, client, app)
    cause(scene)
    ours = pruned(scene.next(kind, subtype))
    if inventory:
        many = differences(ours, fixture(f"slack/{inventory}.json"))
        assert unexplained(many, TOO_MANY, name) == []
    for recording in recordings:
        few = differences(pruned(fixture("bolt_payloads.json")[recording]), ours)
        assert unexplained(few, TOO_FEW, name) == []


def test_app_rate_limited_comes_unasked_without_an_event(sandbox: Sandbox, app: HandApp) -> None:
    """app_rate_limited is a payload of its own, without an event in it, and comes unasked."""
    sandbox.world.app.manifest["settings"]["event_subscriptions"]["bot_events"] = []
    sandbox.rate_limit()
    ours, theirs = app.take()["payload"], fixture("slack/AppRateLimitedPayload.json")["event"]
    assert differences(ours, theirs) == differences(theirs, ours) == []
    assert ours["minute_rate_limited"] % 60 == 0


def test_a_channel_may_change_its_id(sandbox: Sandbox, client: WebClient, app: HandApp) -> None:
    """After channel_id_changed the old id names nothing; the new one has all that was said."""
    ts = sandbox.person("ana").say("support", "hello")
    new = sandbox.change_id("support")
    event = Scene(sandbox, client, app).next("channel_id_changed")["event"]
    assert (event["old_channel_id"], event["new_channel_id"]) == (SUPPORT, new)
    assert [m["ts"] for m in client.conversations_history(channel=new)["messages"]] == [ts]
    assert (
        client.api_call("conversations.info", params={"channel": new})["channel"]["name"]
        == "support"
    )
    with pytest.raises(Exception, match="channel_not_found"):
        client.conversations_history(channel=SUPPORT)


def test_the_root_of_a_broadcast_counts_it(
    sandbox: Sandbox, client: WebClient, app: HandApp
) -> None:
    """The thread's root that comes with a broadcast reply has that reply counted."""
    scene = Scene(sandbox, client, app)
    ts = _broadcast(scene)
    root = scene.next("message", "thread_broadcast")["event"]["root"]
    assert (root["reply_count"], root["latest_reply"]) == (1, ts)
