"""The older assistant_view: a DM with such an app is a row of threads that the app begins.

Slack creates no new apps of this kind, but many existing ones are. Called with the world's lock
held.
"""

from __future__ import annotations

from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace import events
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.messages import Draft, add, change
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

SUBTYPE = "assistant_app_thread"
TITLE = "New Assistant Thread"


def begin(world: World, app: App, channel: Channel, user: str) -> None:
    """Begin a thread, as a person opens the DM, unless they wrote nothing in the last one yet.

    The app gets assistant_thread_started.
    """
    if app.assistant_view is None:
        return
    root = latest(world, channel)
    if root is None or any(
        reply.body["user"] == user for reply in world.replies(channel.id, root.ts)
    ):
        extra: Json = {SUBTYPE: {"title": TITLE, "title_blocks": [], "artifacts": []}}
        root = add(world, Draft(channel, app.bot_user, TITLE, subtype=SUBTYPE, extra=extra))
        thread: Json = {
            "user_id": user,
            "context": {},
            "channel_id": channel.id,
            "thread_ts": root.ts,
        }
        events.emit(
            world, app, {"type": "assistant_thread_started", "assistant_thread": thread}, channel
        )


def latest(world: World, channel: Channel) -> Message | None:
    """Return the root of the newest thread in that DM, to which a person's messages go, or None."""
    roots = [
        m for m in world.messages.get(channel.id, {}).values() if m.body.get("subtype") == SUBTYPE
    ]
    return roots[-1] if roots else None


def rename(world: World, channel_id: str, ts: str, title: str) -> None:
    """Give the thread that this message began a title; do nothing if it began none."""
    root = world.find(channel_id, ts)
    if root and SUBTYPE in root.body:
        change(world, root, {SUBTYPE: root.body[SUBTYPE] | {"title": title}})
