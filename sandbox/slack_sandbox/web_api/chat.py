"""chat.*: posting, changing and deleting messages, with Slack's limits and its rules of ownership.

Streams have their own file. Called with the world's lock held.
"""

from __future__ import annotations

import copy

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import message_parts
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.messages import Draft
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

POST_LIMIT, UPDATE_LIMIT = 40_000, 4_000


def target(world: World, args: Args) -> Channel:
    """The channel to post to; a user id means the DM with them.

    SlackError if the bot may not.
    """
    name = args.required("channel")
    if name in world.by_id:
        if world.by_id[name].deleted:
            raise SlackError("channel_not_found")
        channel = world.dm(name, args.app)
    elif name in world.channels:
        channel = world.seen_by(args.app, name)
    else:
        named = [
            c
            for c in world.channels.values()
            if c.kind == "channel" and f"#{c.name}" in (name, f"#{name}")
        ]
        if not named:
            raise SlackError("channel_not_found")
        channel = named[0]
    if channel.is_archived:
        raise SlackError("is_archived")
    if args.app.bot_user not in channel.members and "chat:write.public" not in args.app.scopes:
        raise SlackError("not_in_channel")
    if channel.kind == "im" and not args.app.app_home.get("messages_tab_enabled", True):
        raise SlackError("messages_tab_disabled")
    return channel


def me_message(world: World, args: Args) -> Json:
    """chat.meMessage: "the bot does something"."""
    channel, text = target(world, args), message_parts.escaped(args.text("text"))
    if len(text) > POST_LIMIT:
        raise SlackError("msg_too_long")
    message = messages.add(world, Draft(channel, args.app.bot_user, text, subtype="me_message"))
    return {"channel": channel.id, "ts": message.ts}


def _post(world: World, args: Args) -> tuple[Message, Json]:
    channel = target(world, args)
    text, found = message_parts.content(args)
    thread_ts = message_parts.thread_of(args)
    metadata, extra = message_parts.checked_metadata(args), message_parts.extras(args, found)
    message_parts.something(text, found, extra)
    warning: Json = {}
    if text and len(text) > POST_LIMIT:
        text = text[:POST_LIMIT]
        warning = {
            "warning": "message_truncated",
            "response_metadata": {"warnings": ["message_truncated"]},
        }
    draft = Draft(
        channel, args.app.bot_user, text or "", found or [], thread_ts, metadata, extra=extra
    )
    draft.broadcast = args.flag("reply_broadcast")
    return messages.add(world, draft), warning


def post_message(world: World, args: Args) -> Json:
    """chat.postMessage."""
    message, extra = _post(world, args)
    shown = copy.deepcopy(message.body) | (
        {"metadata": message.metadata} if message.metadata else {}
    )
    return {"channel": message.channel, "ts": message.ts, "message": shown, **extra}


def own(world: World, args: Args, error: str) -> Message:
    """The bot's message that a call names; SlackError(`error`) when someone else wrote it."""
    channel = world.seen_by(args.app, args.required("channel"))
    message = world.find(channel.id, args.required("ts"))
    if message is None:
        raise SlackError("message_not_found")
    if message.body.get("user") != args.app.bot_user:
        raise SlackError(error)
    return message


def update(world: World, args: Args) -> Json:
    """chat.update: text without blocks takes the blocks away; what is left out else stays."""
    args.required("channel")
    args.required("ts")
    text, found = message_parts.content(args)
    metadata, attached = (
        message_parts.checked_metadata(args),
        message_parts.checked_attachments(args, found),
    )
    if text is not None and len(text) > UPDATE_LIMIT:
        raise SlackError("msg_too_long")
    message = own(world, args, "cant_update_message")
    if message.stream and message.stream.state_at(world.now()) == "in_progress":
        raise SlackError("streaming_state_conflict")
    if text is None and found is None and metadata is None and attached is None:
        raise SlackError("no_text")
    if found == [] and not text and not attached:
        raise SlackError("no_text")
    if attached is not None:
        message.body["attachments"] = attached
        if not attached:
            del message.body["attachments"]
    if metadata is not None:
        message.metadata = metadata
    if text is not None or found is not None:
        message.stream = None
        new_text = text if text is not None else str(message.body["text"])
        messages.edit(
            world,
            message,
            text=new_text,
            blocks=found or [],
            by=args.app.bot_user,
            marked=not found,
        )
    shown = copy.deepcopy(message.body)
    del shown["ts"]
    return {
        "channel": message.channel,
        "ts": message.ts,
        "text": message.body["text"],
        "message": shown,
    }


def delete(world: World, args: Args) -> Json:
    """chat.delete."""
    message = own(world, args, "cant_delete_message")
    messages.remove(world, message)
    return {"channel": message.channel, "ts": message.ts}


def post_ephemeral(world: World, args: Args) -> Json:
    """chat.postEphemeral: for one member's eyes; no method can find it again.

    In a thread it is only shown where there are replies.
    """
    channel = target(world, args)
    user = args.required("user")
    text, found = message_parts.content(args)
    extra = message_parts.extras(args, found)
    message_parts.something(text, found, extra)
    if text and len(text) > POST_LIMIT:
        raise SlackError("msg_too_long")
    if user not in channel.members:
        raise SlackError("user_not_in_channel")
    draft = Draft(
        channel,
        args.app.bot_user,
        text or "",
        found or [],
        message_parts.thread_of(args),
        only_for=user,
        extra=extra,
    )
    parent = world.find(channel.id, draft.thread_ts)
    if parent and not world.replies(channel.id, parent.root):
        return {"message_ts": world.next_ts()}  # Slack shows it to nobody if there are no replies
    return {"message_ts": messages.add(world, draft).ts}


def permalink(world: World, args: Args) -> Json:
    """chat.getPermalink."""
    channel = world.seen_by(args.app, args.required("channel"))
    message = world.find(channel.id, args.required("message_ts"))
    if message is None:
        raise SlackError("message_not_found")
    link = f"{world.url}/archives/{channel.id}/p{message.ts.replace('.', '')}"
    if message.root != message.ts:
        link += f"?thread_ts={message.root}&cid={channel.id}"
    return {"permalink": link, "channel": channel.id}


METHODS = {
    "chat.postMessage": post_message,
    "chat.update": update,
    "chat.delete": delete,
    "chat.postEphemeral": post_ephemeral,
    "chat.meMessage": me_message,
    "chat.getPermalink": permalink,
}
