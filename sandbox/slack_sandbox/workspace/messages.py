"""Messages as stored: added, changed, removed and shown, with the events that follow.

It checks no permission and no limit: the caller has done so.
"""

from __future__ import annotations

import copy
import marshal
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from slack_sandbox.blockkit.text import completed, mentions, rich_text
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace import events
from slack_sandbox.workspace.api_objects import bot_profile
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World


@dataclass(slots=True)
class Draft:
    """What is to be posted; an unknown `thread_ts` makes a top-level message, as on Slack."""

    channel: Channel
    user: str
    text: str
    blocks: list[Json] = field(default_factory=list)
    thread_ts: str = ""
    metadata: Json | None = None
    only_for: str = ""
    subtype: str = ""
    broadcast: bool = False
    # further fields of the message: files, attachments, username …
    extra: Json = field(default_factory=dict)


def audience(channel: Channel) -> Iterable[str] | None:
    """Return the ids of those who can see what happens in the channel; None for everyone."""
    return None if channel.kind == "channel" else list(channel.members)


def root_of(world: World, channel_id: str, thread_ts: str) -> Message | None:
    """The root of the thread that `thread_ts` (of the root or of a reply) belongs to, or None."""
    message = world.find(channel_id, thread_ts) if thread_ts else None
    return world.find(channel_id, message.root) if message else None


def _body(world: World, draft: Draft, root: Message | None) -> Json:
    body: Json = {"type": "message", "user": draft.user, "ts": world.next_ts(), "text": draft.text}
    if draft.subtype:
        body["subtype"] = draft.subtype
    if app := world.app_of_bot(draft.user):
        body |= {"bot_id": app.bot_id, "app_id": app.id, "bot_profile": bot_profile(app, world.url)}
    else:
        body["client_msg_id"] = str(uuid.uuid4())
    who = world.by_id.get(draft.user)
    body["team"] = world.acts_from(who) if who else world.team
    if draft.channel.is_ext_shared or draft.channel.teams:
        body |= {"user_team": body["team"], "source_team": body["team"]}
    body |= copy.deepcopy(draft.extra)
    if blocks := completed(copy.deepcopy(draft.blocks)) or (
        [rich_text(draft.text)] if draft.text else []
    ):
        body["blocks"] = blocks
    if root is not None:
        body["thread_ts"] = root.ts
        body |= (
            {"subtype": "thread_broadcast"}
            if draft.broadcast
            else {"parent_user_id": root.body.get("user", "")}
        )
    return body


def add(world: World, draft: Draft) -> Message:
    """Store a message, clear the app's status in its thread, notify those named, tell the apps."""
    root = root_of(world, draft.channel.id, draft.thread_ts)
    message = Message(draft.channel.id, _body(world, draft, root), draft.metadata, draft.only_for)
    message.app_id = str(message.body.get("app_id", ""))
    world.messages.setdefault(draft.channel.id, {})[message.ts] = message
    if draft.broadcast and root is not None:
        message.body["root"] = show(world, root, draft.user)  # stored before, so counted in it
    if draft.only_for:
        world.touch([draft.only_for])
        return message
    status = world.statuses.get((draft.channel.id, message.root))
    if status and status.app_id == message.app_id:
        del world.statuses[draft.channel.id, message.root]
    users, groups = mentions(draft.text, draft.blocks)
    spoken = draft.subtype in ("", "file_share", "me_message")
    if spoken:
        _notify(world, message, draft.channel, users, groups)
    events.message_posted(world, message, users if spoken else set())
    world.touch(audience(draft.channel))
    return message


def _notify(
    world: World, message: Message, channel: Channel, users: set[str], groups: set[str]
) -> None:
    named = set(users)
    for group in world.groups.values():
        if group.id in groups and not group.disabled:
            named.update(group.users)
    for member in channel.members:
        if member == message.body["user"]:
            continue
        if channel.kind in ("im", "mpim") or member in named:
            note = {
                "channel": channel.id,
                "ts": message.ts,
                "text": message.body["text"],
                "at": world.now(),
            }
            note["thread_ts"] = message.body.get("thread_ts")
            for each in world.sharing(channel):
                if (person := each.by_id.get(member)) and (each is world or each.is_member(person)):
                    each.notes.setdefault(member, []).append(note)


def edit(
    world: World, message: Message, *, text: str, blocks: list[Json], by: str, marked: bool
) -> None:
    """Give a message a new text and new blocks; `marked` shows "(edited)"."""
    before = copy.deepcopy(message.body)
    message.body["text"] = text
    message.body.pop("blocks", None)
    if new := completed(copy.deepcopy(blocks)) or ([rich_text(text)] if text else []):
        message.body["blocks"] = new
    if marked:
        message.body["edited"] = {"user": by, "ts": world.next_ts()}
    if message.only_for:
        world.touch([message.only_for])
        return
    if marked:
        events.mention_edited(world, message, mentions(text, blocks)[0])
    events.message_changed(world, message, before)
    world.touch(audience(world.channels[message.channel]))


def change(world: World, message: Message, parts: Json) -> None:
    """Give a message other parts beside its words, such as files or attachments."""
    before = copy.deepcopy(message.body)
    message.body |= copy.deepcopy(parts)
    events.message_changed(world, message, before)
    world.touch(audience(world.channels[message.channel]))


def remove(world: World, message: Message) -> None:
    """Delete a message; a root with replies stays behind as a tombstone."""
    channel = world.channels[message.channel]
    if world.replies(message.channel, message.ts):
        before = copy.deepcopy(message.body)
        message.body = {
            "type": "message",
            "subtype": "tombstone",
            "user": "USLACKBOT",
            "hidden": True,
            "text": "This message was deleted.",
            "ts": message.ts,
        }
        message.metadata, message.stream = None, None
        events.message_changed(world, message, before)
    else:
        del world.messages[message.channel][message.ts]
        events.message_deleted(world, message)
    world.touch(audience(channel))


def show(world: World, message: Message, viewer: str, *, metadata: bool = False) -> Json:
    """Return the message as `viewer` (a user id) reads it, with its thread's counters."""
    # ten times as fast as deepcopy, and a body holds plain JSON values
    body: Json = marshal.loads(marshal.dumps(message.body))  # noqa: S302 - of our own making
    if metadata and message.metadata:
        body["metadata"] = copy.deepcopy(message.metadata)
    if message.stream:
        body["streaming_state"] = message.stream.state_at(world.now())
    if message.root == message.ts and (replies := world.replies(message.channel, message.ts)):
        authors = list(dict.fromkeys(str(r.body["user"]) for r in replies))
        body |= {
            "thread_ts": message.ts,
            "reply_count": len(replies),
            "reply_users_count": len(authors),
            "latest_reply": replies[-1].ts,
            "reply_users": authors[:5],
            "is_locked": False,
            "subscribed": any(r.body["user"] == viewer for r in [message, *replies]),
        }
    return body


def seen(world: World, message: Message) -> Json:
    """The message as the page and the tests get it: like `show`, ephemeral ones marked."""
    return show(world, message, world.app.bot_user) | (
        {"is_ephemeral": True} if message.only_for else {}
    )


def post_system(world: World, channel: Channel, user: str, subtype: str, text: str) -> None:
    """A line such as "joined the channel", which Slack writes in a person's name."""
    add(world, Draft(channel, user, text, subtype=subtype))


def announce_change(world: World, message: Message) -> None:
    """Notify apps and people that a message has grown to its present form."""
    events.message_changed(world, message, copy.deepcopy(message.body))
    world.touch(audience(world.channels[message.channel]))
