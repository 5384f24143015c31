"""assistant.threads.* and agents.sessions.*: statuses, suggested prompts, titles, sessions.

Called with the world's lock held.
"""

from __future__ import annotations

from typing import Any

from slack_sandbox.blockkit.objects import array, record, text
from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.web_api import assistants
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import events, messages
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.records import Delivery, Status
from slack_sandbox.workspace.state import World

STATUS_SECONDS = 120  # a status disappears after it, so that nothing "thinks" for ever
SESSION_STATES = ("active", "processing", "suspended", "closed")
PROCESSING_SECONDS = 3600  # a session without a sign of life becomes active again after it
TITLE_LIMIT = 200  # characters
SessionKey = tuple[str, str, str]  # app id, channel id, ts of the thread's root
_LOADING = array(text(), 10)
_PROMPTS = array(record({"title": text(), "message": text()}), 4)


def _channel(world: World, args: Args) -> Channel:
    return world.seen_by(args.app, args.required("channel_id"))


def _thread(world: World, args: Args, channel: Channel) -> str:
    """Return the root of the thread that the call names; SlackError(invalid_thread_ts) if none."""
    root = messages.root_of(world, channel.id, args.required("thread_ts"))
    if root is None:
        raise SlackError("invalid_thread_ts")
    return root.ts


def set_status(world: World, args: Args) -> Json:
    """assistant.threads.setStatus.

    An empty status clears it, and so does the bot's next message there.
    """
    channel = _channel(world, args)
    args.required("thread_ts")
    if not args.has("status"):
        raise invalid(["missing required field: status"])
    status, loading = args.text("status"), args.json("loading_messages")
    if loading is not None and (problems := list(_LOADING(loading, "/loading_messages"))):
        raise invalid(problems)
    key = (channel.id, _thread(world, args, channel))
    if status:
        world.statuses[key] = Status(
            *key, status, world.now() + STATUS_SECONDS, args.app.id, loading or []
        )
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
    """assistant.threads.setSuggestedPrompts.

    With a thread_ts it says ok and, under agent_view, does nothing.
    """
    channel = _channel(world, args)
    prompts: Any = args.json("prompts")
    if prompts is None:
        raise invalid(["missing required field: prompts"])
    if problems := list(_PROMPTS(prompts, "/prompts")):
        raise invalid(problems)
    args.text("title")
    if args.app.agent_view is None and args.app.assistant_view is None:
        raise SlackError("not_agent_app")
    if not args.has("thread_ts") or args.app.agent_view is None:
        world.prompts[channel.id] = [dict(prompt) for prompt in prompts]
        world.touch(channel.members)
    return {}


def set_title(world: World, args: Args) -> Json:
    """assistant.threads.setTitle: the older way to give a thread's session a title."""
    channel = _channel(world, args)
    title = args.required("title")
    key = (args.app.id, channel.id, _thread(world, args, channel))
    (world.sessions.get(key) or _new_session(world, key))["title"] = title
    assistants.rename(world, channel.id, key[2], title)
    world.touch(messages.audience(channel))
    return {}


def prompts_of(world: World, channel: Channel) -> list[Json]:
    """Return the prompts of a person's DM with an app: the app's own, else the manifest's."""
    if channel.kind != "im":
        return []
    app = world.app_of_dm(channel)
    default: list[Json] = (app.agent_view or app.assistant_view or {}).get("suggested_prompts", [])
    return world.prompts.get(channel.id, default)


# Sessions: one per thread and app, only for apps with an agent_view.


def _session_key(world: World, args: Args) -> SessionKey:
    channel = _channel(world, args)
    if args.app.agent_view is None:
        raise SlackError("feature_disabled")
    if not args.text("thread_ts"):
        raise SlackError("thread_ts_required")
    return args.app.id, channel.id, args.text("thread_ts")


def _title(args: Args) -> str:
    title = args.text("title")
    if len(title) > TITLE_LIMIT:
        raise invalid([f"must be less than {TITLE_LIMIT + 1} characters [json-pointer:/title]"])
    return title


def _new_session(world: World, key: SessionKey) -> Json:
    session = {"status": "active", "title": "", "initiator": "", "until": 0.0}
    return world.sessions.setdefault(key, session)


def note_session(
    world: World, key: SessionKey, status: str, seconds: float = PROCESSING_SECONDS
) -> Json:
    """Give a thread's session, made if need be, a status; *processing* lasts so many seconds."""
    session = world.sessions.get(key) or _new_session(world, key)
    session |= {"status": status, "until": world.now() + seconds}
    world.touch(messages.audience(world.channels[key[1]]))
    return session


def session_of(world: World, key: SessionKey) -> Json | None:
    """The session of a thread as it is now, or None.

    One that was *processing* for too long is active again.
    """
    session = world.sessions.get(key)
    if session and session["status"] == "processing" and session["until"] <= world.now():
        session["status"] = "active"
    return session


def set_session(world: World, args: Args) -> Json:
    """agents.sessions.setStatus; title and initiator count only when it makes the session."""
    key = _session_key(world, args)
    status, title = args.required("status"), _title(args)
    if status not in SESSION_STATES:
        raise SlackError("invalid_status")
    initiator = args.text("initiator_user_id")
    if initiator and initiator not in world.channels[key[1]].members:
        raise SlackError("user_not_found")
    new = key not in world.sessions
    session = note_session(world, key, status)
    if new:
        session |= {"title": title, "initiator": initiator}
    answer: Json = {"status": status, "title": session["title"]}
    if "agent_session_stopped" not in args.app.subscriptions:
        warning = "missing_agent_session_stopped_event_subscription"
        answer |= {"warning": warning, "response_metadata": {"warnings": [warning]}}
    return answer


def rename_session(world: World, args: Args) -> Json:
    """agents.sessions.rename."""
    key = _session_key(world, args)
    args.required("title")
    title = _title(args)
    if world.channels[key[1]].is_archived:
        raise SlackError("is_archived")
    if key not in world.sessions:
        raise SlackError("session_not_found")
    world.sessions[key]["title"] = title
    world.touch(messages.audience(world.channels[key[1]]))
    return {"title": title}


def retitled(world: World, user: str, key: SessionKey, title: str) -> Delivery | None:
    """Give a thread's session another title, as a person; notify the app. KeyError if none."""
    before, world.sessions[key]["title"] = world.sessions[key]["title"], title
    world.touch(messages.audience(world.channels[key[1]]))
    event = {
        "type": "agent_session_title_changed",
        "user": user,
        "team_id": world.team,
        "title": title,
    }
    event |= {"channel": key[1], "thread_ts": key[2]} | (
        {"previous_title": before} if before else {}
    )
    return events.emit(world, world.apps[key[0]], event, world.channels[key[1]])


def stopped(world: World, user: str, channel_id: str, thread_ts: str) -> Delivery | None:
    """Press Slack's Stop in a thread: streams there end, the app hears agent_session_stopped."""
    with world.lock:
        channel = world.channels[channel_id]
        ended: list[str] = []
        status = world.statuses.pop((channel_id, thread_ts), None)
        app_id = status.app_id if status else ""
        for message in world.messages.get(channel_id, {}).values():
            if (
                message.root == thread_ts
                and message.stream
                and message.stream.state == "in_progress"
            ):
                message.stream.state = "stopped_by_user"
                ended.append(message.ts)
                app_id = message.app_id
        world.touch(messages.audience(channel))
        event = {
            "type": "agent_session_stopped",
            "channel": channel_id,
            "thread_ts": thread_ts,
            "user": user,
            "streaming_message_ts": ended,
        }
        if not app_id and channel.kind == "im":
            app_id = world.app_of_dm(channel).id
        return events.emit(world, world.apps.get(app_id, world.app), event, channel)


METHODS = {
    "assistant.threads.setStatus": set_status,
    "assistant.threads.setSuggestedPrompts": set_prompts,
    "assistant.threads.setTitle": set_title,
    "agents.sessions.setStatus": set_session,
    "agents.sessions.rename": rename_session,
}
