"""chat.scheduleMessage and its kin: messages that wait for the sandbox's clock.

Called with the world's lock held.
"""

from __future__ import annotations

from slack_sandbox.blockkit.text import rich_text
from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import chat, message_parts
from slack_sandbox.web_api.arguments import Args, page
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.messages import Draft
from slack_sandbox.workspace.state import World

MAX_DAYS_AHEAD = 120
MAX_MESSAGES_PER_WINDOW = 30  # per channel
WINDOW_SECONDS = 300
DELETE_CUTOFF_SECONDS = 60  # before its time; a message can no longer be deleted then


def schedule(world: World, args: Args) -> Json:
    """chat.scheduleMessage."""
    channel = chat.target(world, args)
    text, found = message_parts.content(args)
    extra = message_parts.extras(args, found)
    message_parts.something(text, found, extra)
    if text and len(text) > chat.POST_LIMIT:
        raise SlackError("msg_too_long")
    metadata, post_at = message_parts.checked_metadata(args), args.number("post_at", 0)
    if post_at <= world.now():
        raise SlackError("time_in_past")
    if post_at > world.now() + MAX_DAYS_AHEAD * 86_400:
        raise SlackError("time_too_far")
    others = [
        entry for entry in world.scheduled.values() if entry["draft"].channel.id == channel.id
    ]
    close = sum(abs(entry["post_at"] - post_at) < WINDOW_SECONDS for entry in others)
    if close >= MAX_MESSAGES_PER_WINDOW:
        raise SlackError("restricted_too_many")
    draft = Draft(
        channel,
        args.app.bot_user,
        text or "",
        found or [],
        message_parts.thread_of(args),
        metadata,
        extra=extra,
    )
    draft.broadcast = args.flag("reply_broadcast")
    key = world.new_id("Q")
    world.scheduled[key] = {"post_at": post_at, "draft": draft, "created": int(world.now())}
    world.touch([])
    shown: Json = {
        "type": "delayed_message",
        "text": text or "",
        "user": args.app.bot_user,
        "team": world.team,
    }
    shown |= {
        "bot_id": args.app.bot_id,
        "app_id": args.app.id,
        "blocks": found or [rich_text(text or "")],
    }
    return {
        "channel": channel.id,
        "scheduled_message_id": key,
        "post_at": post_at,
        "message": shown,
    }


def _own(world: World, args: Args) -> dict[str, Json]:
    return {
        key: entry
        for key, entry in world.scheduled.items()
        if entry["draft"].user == args.app.bot_user
    }


def list_all(world: World, args: Args) -> Json:
    """chat.scheduledMessages.list: the app's own, the next one first."""
    channel = args.text("channel")
    if channel and channel not in world.channels:
        raise SlackError("invalid_channel")
    low, high = args.number("oldest", 0), args.number("latest", 1 << 60)
    waiting = [
        {
            "id": key,
            "channel_id": entry["draft"].channel.id,
            "post_at": entry["post_at"],
            "date_created": entry["created"],
            "text": entry["draft"].text,
        }
        for key, entry in _own(world, args).items()
        if channel in ("", entry["draft"].channel.id) and low <= entry["post_at"] <= high
    ]
    waiting.sort(key=lambda each: each["post_at"])
    shown, cursor = page(waiting, args)
    return {"scheduled_messages": shown, "response_metadata": {"next_cursor": cursor}}


def delete(world: World, args: Args) -> Json:
    """chat.deleteScheduledMessage: until a minute before its time."""
    channel, key = world.seen_by(args.app, args.text("channel")), args.text("scheduled_message_id")
    entry = _own(world, args).get(key)
    if (
        entry is None
        or entry["draft"].channel.id != channel.id
        or entry["post_at"] - world.now() < DELETE_CUTOFF_SECONDS
    ):
        raise SlackError("invalid_scheduled_message_id")
    del world.scheduled[key]
    world.touch([])
    return {}


def post_due(world: World) -> float | None:
    """Post what was scheduled for now or earlier.

    Returns when the next one is due (Unix seconds), or None.
    """
    for key, entry in sorted(world.scheduled.items(), key=lambda item: item[1]["post_at"]):
        if entry["post_at"] <= world.now():
            del world.scheduled[key]
            if not entry["draft"].channel.is_archived:
                messages.add(world, entry["draft"])
    return min((float(entry["post_at"]) for entry in world.scheduled.values()), default=None)


METHODS = {
    "chat.scheduleMessage": schedule,
    "chat.scheduledMessages.list": list_all,
    "chat.deleteScheduledMessage": delete,
}
