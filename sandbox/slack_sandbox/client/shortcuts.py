"""Shortcuts: which there are for a person, and what the app hears when one is used.

Called with the world's lock held.
"""

from __future__ import annotations

import copy

from slack_sandbox.client import payloads
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World


def available(world: World, user: str) -> list[tuple[App, Json]]:
    """The shortcuts that person can use, with their apps; none for people of other companies."""
    if not world.is_member(world.by_id[user]):
        return []
    apps = [
        app
        for app in world.known_apps
        if "commands" in app.scopes and app.installed and not app.revoked
    ]
    return [(app, shortcut) for app in apps for shortcut in app.shortcuts]


def _app(world: World, user: str, kind: str, callback_id: str, app_id: str) -> App:
    for app, shortcut in available(world, user):
        if (shortcut["type"], shortcut["callback_id"]) == (kind, callback_id) and app_id in (
            "",
            app.id,
        ):
            return app
    there = [(app.id, s["type"], s["callback_id"]) for app, s in available(world, user)]
    raise ValueError(
        f"there is no {kind} shortcut {callback_id!r} for this person; there are {there}"
    )


def use_global(
    world: World, user: str, callback_id: str, app_id: str = "", channel_id: str = ""
) -> Delivery:
    """Use a global shortcut while looking at `channel_id` ("": at none), which the app is not told.

    `app_id` picks among apps with the same callback_id. ValueError when there is no such shortcut
    for this person.
    """
    app = _app(world, user, "global", callback_id, app_id)
    payload = payloads.base(world, app, "shortcut", user) | {
        "action_ts": world.next_ts(),
        "callback_id": callback_id,
        "trigger_id": world.new_trigger(app, user, channel_id=channel_id),
    }
    del payload["api_app_id"], payload["user"]["name"]  # payloads recorded from Slack have neither
    return payloads.deliver(world, app, payload)


def use_message(
    world: World, user: str, callback_id: str, app_id: str, channel_id: str, shown: Json
) -> Delivery:
    """Use a message shortcut on `shown`, a message as the person sees it; ValueError if unknown."""
    app = _app(world, user, "message", callback_id, app_id)
    if shown.get("is_ephemeral"):
        raise ValueError("a message that only one person sees has no shortcuts")
    channel = world.channels[channel_id]
    payload = payloads.base(world, app, "message_action", user) | {
        "action_ts": world.next_ts(),
        "callback_id": callback_id,
        "trigger_id": world.new_trigger(app, user, channel_id=channel_id),
        "response_url": world.new_response_url(app, channel_id, shown["ts"], user),
        "message_ts": shown["ts"],
        "channel": {"id": channel_id, "name": channel.label},
        "message": copy.deepcopy(shown),
    }
    del payload["api_app_id"]
    return payloads.deliver(world, app, payload)
