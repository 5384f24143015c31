"""assistant.threads.* and agents.sessions.*: status lines, suggested prompts and the state of an agent's session.

Called with the world's lock held.
"""

from __future__ import annotations

from typing import Any

from bot.sandbox import messages
from bot.sandbox.people import Channel
from bot.sandbox.records import Status
from bot.sandbox.state import World
from bot.sandbox.wire import Args, Json, SlackError, invalid

STATUS_SECONDS = 120  # an answer that never comes does not "think" for ever
SESSION_STATES = ("active", "processing", "suspended", "closed")


def _channel(world: World, args: Args) -> Channel:
    return world.seen_by(args.app, args.required("channel_id"))


def set_status(world: World, args: Args) -> Json:
    """assistant.threads.setStatus; an empty status clears it."""
    channel, thread_ts = _channel(world, args), args.required("thread_ts")
    if not args.has("status"):
        raise invalid(["missing required field: status"])
    loading = args.json("loading_messages")
    if loading is not None and (not isinstance(loading, list) or len(loading) > 10):
        raise invalid(["must be a list of at most 10 [json-pointer:/loading_messages]"])
    root = messages.root_of(world, channel.id, thread_ts)
    if root is None:
        raise SlackError("invalid_thread_ts")
    key = (channel.id, root.ts)
    if status := args.text("status"):
        world.statuses[key] = Status(channel.id, root.ts, status, world.now() + STATUS_SECONDS, args.app.id)
    else:
        world.statuses.pop(key, None)
    world.touch(messages.audience(channel))
    return {}


def current_statuses(world: World) -> list[Status]:
    """The statuses that have not run out by the sandbox's clock."""
    now = world.now()
    world.statuses = {key: status for key, status in world.statuses.items() if status.until > now}
    return list(world.statuses.values())


def set_prompts(world: World, args: Args) -> Json:
    """assistant.threads.setSuggestedPrompts; with a thread_ts it says ok and does nothing, as agent_view does."""
    channel = _channel(world, args)
    prompts: Any = args.json("prompts")
    if not isinstance(prompts, list) or not 1 <= len(prompts) <= 4:
        raise invalid(["must be a list of 1 to 4 prompts [json-pointer:/prompts]"])
    for prompt in prompts:
        if not isinstance(prompt, dict) or not all(isinstance(prompt.get(k), str) for k in ("title", "message")):
            raise invalid(["each needs a title and a message [json-pointer:/prompts]"])
    if args.app.agent_view is None:
        raise SlackError("not_agent_app")
    if not args.has("thread_ts"):
        world.prompts[channel.id] = [{"title": p["title"], "message": p["message"]} for p in prompts]
        world.touch(channel.members)
    return {}


def prompts_of(world: World, channel: Channel) -> list[Json]:
    """What a person is offered in their DM with an app: what the app set, else what the manifest says."""
    if channel.kind != "im":
        return []
    default: list[Json] = (world.app_of_dm(channel).agent_view or {}).get("suggested_prompts", [])
    return world.prompts.get(channel.id, default)


def _session_key(world: World, args: Args) -> tuple[str, str]:
    channel = _channel(world, args)
    if args.app.agent_view is None:
        raise SlackError("feature_disabled")
    thread_ts = args.text("thread_ts")
    if not thread_ts and channel.kind != "im":
        raise SlackError("thread_ts_required")
    return channel.id, thread_ts


def set_session(world: World, args: Args) -> Json:
    """agents.sessions.setStatus."""
    key = _session_key(world, args)
    status = args.required("status")
    if status not in SESSION_STATES:
        raise SlackError("invalid_status")
    initiator = args.text("initiator_user_id")
    if initiator and initiator not in world.by_id:
        raise SlackError("user_not_found")
    session = world.sessions.setdefault(key, {"title": ""})
    session["status"] = status
    if args.has("title"):
        session["title"] = args.text("title")
    world.touch(messages.audience(world.channels[key[0]]))
    return {}


def rename_session(world: World, args: Args) -> Json:
    """agents.sessions.rename."""
    key = _session_key(world, args)
    title = args.required("title")
    if key not in world.sessions:
        raise SlackError("session_not_found")
    world.sessions[key]["title"] = title
    world.touch(messages.audience(world.channels[key[0]]))
    return {}


METHODS = {
    "assistant.threads.setStatus": set_status,
    "assistant.threads.setSuggestedPrompts": set_prompts,
    "agents.sessions.setStatus": set_session,
    "agents.sessions.rename": rename_session,
}
