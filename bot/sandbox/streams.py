"""chat.startStream, appendStream, stopStream: a message that grows, in one of four states.

in_progress ─► completed (stopStream) | stopped_by_user (the person's Stop) | abandoned (ten minutes of silence).
Called with the world's lock held.
"""

from __future__ import annotations

import copy
from typing import Any

from bot.sandbox import agents, chat, messages
from bot.sandbox import blocks as checker
from bot.sandbox.messages import Draft
from bot.sandbox.people import TEAM_NAMES
from bot.sandbox.records import Message, Stream
from bot.sandbox.state import World
from bot.sandbox.text import completed
from bot.sandbox.wire import Args, Json, SlackError, invalid

ABANDONED = 600  # seconds without an append
MARKDOWN_LIMIT, CHUNK_LIMIT, BLOCK_LIMIT = 12_000, 256, 50
_TASK_STATES = ("pending", "in_progress", "complete", "error")


def _chunks(args: Args) -> list[Json]:
    """What a call adds, `markdown_text` as a chunk like the others; SlackError for what no chunk may be."""
    value: Any = args.json("chunks", "invalid_chunks")
    if value is not None and not isinstance(value, list):
        raise SlackError("invalid_chunks")
    chunks = list(value or [])
    if args.has("markdown_text"):
        chunks.insert(0, {"type": "markdown_text", "text": args.text("markdown_text")})
    for chunk in chunks:
        _check(chunk)
    if sum(len(c["text"]) for c in chunks if c["type"] == "markdown_text") > MARKDOWN_LIMIT:
        raise invalid([f"must be less than {MARKDOWN_LIMIT + 1} characters [json-pointer:/markdown_text]"])
    return chunks


def _check(chunk: Any) -> None:
    kind = chunk.get("type") if isinstance(chunk, dict) else None
    if kind == "markdown_text":
        good = isinstance(chunk.get("text"), str)
    elif kind == "task_update":
        short = all(len(str(chunk.get(key) or "")) <= CHUNK_LIMIT for key in ("title", "details", "output"))
        good = bool(chunk.get("id")) and bool(chunk.get("title")) and chunk.get("status") in _TASK_STATES and short
    elif kind == "plan_update":
        good = isinstance(chunk.get("title"), str) and len(chunk["title"]) <= CHUNK_LIMIT
    elif kind == "blocks":
        if problems := checker.check_blocks(chunk.get("blocks"), "message"):
            raise invalid(problems, "invalid_blocks")
        good = True
    else:
        good = False
    if not good:
        raise SlackError("invalid_chunks")


def _take(stream: Stream, chunks: list[Json]) -> None:
    for chunk in copy.deepcopy(chunks):
        kind = chunk.pop("type")
        if kind == "markdown_text":
            stream.text += chunk["text"]
        elif kind == "plan_update":
            stream.title = chunk["title"]
        elif kind == "task_update":
            stream.tasks.setdefault(chunk["id"], {}).update(chunk)
        else:
            stream.blocks += chunk["blocks"]


def _rich(text: str) -> Json:
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": text}]}
    return {"type": "rich_text", "elements": [section]}


def _card(task: Json) -> Json:
    card = {"type": "task_card", "task_id": task["id"], "title": task["title"], "status": task["status"]}
    card |= {key: _rich(str(task[key])) for key in ("details", "output") if task.get(key)}
    return card | ({"sources": task["sources"]} if task.get("sources") else {})


def _draw(message: Message) -> None:
    """Make the body's text and blocks of what was streamed so far."""
    stream = message.stream
    assert stream is not None
    drawn: list[Json] = [_card(task) for task in stream.tasks.values()]
    if drawn and stream.display == "plan":
        drawn = [{"type": "plan", "title": stream.title or "Plan", "tasks": drawn}]
    if stream.text:
        drawn.append({"type": "markdown", "text": stream.text})
    drawn += copy.deepcopy(stream.blocks)
    if len(drawn) > BLOCK_LIMIT:
        raise SlackError("msg_blocks_too_many")
    message.body["text"] = stream.text
    message.body["blocks"] = completed(drawn)


def start(world: World, args: Args) -> Json:
    """chat.startStream: a reply in a thread; in channels it must say for whom."""
    channel = chat.target(world, args)
    thread_ts = args.required("thread_ts")
    root = messages.root_of(world, channel.id, chat.thread_of(args))
    if root is None:
        raise invalid([f"no such thread: {thread_ts} [json-pointer:/thread_ts]"])
    if channel.kind != "im":
        if not args.text("recipient_team_id"):
            raise SlackError("missing_recipient_team_id")
        if not args.text("recipient_user_id"):
            raise SlackError("missing_recipient_user_id")
    if (team := args.text("recipient_team_id")) and team not in TEAM_NAMES:
        raise SlackError("team_not_found")
    if (user := args.text("recipient_user_id")) and user not in world.by_id:
        raise SlackError("user_not_found")
    display = args.text("task_display_mode", "timeline")
    if display not in ("timeline", "plan"):
        raise invalid(["must be timeline or plan [json-pointer:/task_display_mode]"])
    chunks = _chunks(args)
    stream = Stream("in_progress", world.now(), display)
    _take(stream, chunks)
    message = messages.add(world, Draft(channel, args.app.bot_user, stream.text, thread_ts=root.ts))
    message.stream = stream
    _draw(message)
    world.touch(messages.audience(channel))
    return {"channel": channel.id, "ts": message.ts}


def _streaming(world: World, args: Args) -> tuple[Message, Stream]:
    message = chat.own(world, args, "message_not_owned_by_app")
    stream = message.stream
    if stream is not None and stream.state == "in_progress" and world.now() - stream.touched > ABANDONED:
        stream.state = "abandoned"
    if stream is not None and stream.state == "stopped_by_user":
        raise SlackError("stopped_by_user")
    if stream is None or stream.state != "in_progress":
        raise SlackError("message_not_in_streaming_state")
    return message, stream


def _grow(world: World, message: Message, stream: Stream, chunks: list[Json]) -> None:
    backup = copy.deepcopy(stream)
    _take(stream, chunks)
    try:
        _draw(message)
    except SlackError:
        message.stream = backup
        raise
    stream.touched = world.now()
    world.touch(messages.audience(world.channels[message.channel]))


def append(world: World, args: Args) -> Json:
    """chat.appendStream."""
    chunks = _chunks(args)
    message, stream = _streaming(world, args)
    if not chunks:
        raise SlackError("no_text")
    _grow(world, message, stream, chunks)
    return {"channel": message.channel, "ts": message.ts}


def stop(world: World, args: Args) -> Json:
    """chat.stopStream: what is added last, and blocks below all of it; then it is a message like any other."""
    chunks = _chunks(args)
    if found := chat.checked_blocks(args):
        chunks.append({"type": "blocks", "blocks": found})
    metadata = chat.checked_metadata(args)
    session = args.text("session_status")
    if session and session not in agents.SESSION_STATES:
        raise SlackError("invalid_status")
    message, stream = _streaming(world, args)
    _grow(world, message, stream, chunks)
    stream.state = "completed"
    message.metadata = metadata or message.metadata
    if session:
        world.sessions.setdefault((message.channel, message.root), {"title": ""})["status"] = session
    messages.announce_change(world, message)
    return {"channel": message.channel, "ts": message.ts, "message": copy.deepcopy(message.body)}


METHODS = {"chat.startStream": start, "chat.appendStream": append, "chat.stopStream": stop}
