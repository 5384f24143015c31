"""chat.startStream, appendStream, stopStream: a message that grows, in one of four states.

in_progress ─► completed (stopStream) | stopped_by_user (the person's Stop) | abandoned (ten minutes
of silence). What comes is kept in the order in which it is shown: words, tasks (each where it was
first named, or all in one plan) and blocks. A stream that began with text takes text only, one that
began with chunks only chunks. Called with the world's lock held.
"""

from __future__ import annotations

import copy
from typing import Any

from slack_sandbox.blockkit import blocks as checker
from slack_sandbox.blockkit.elements import element
from slack_sandbox.blockkit.objects import anything, array, one_of, record, text, union
from slack_sandbox.blockkit.text import completed, new_block_id
from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.web_api import agents, chat, message_parts
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.messages import Draft
from slack_sandbox.workspace.records import STREAM_TIMEOUT_SECONDS, Message, Stream
from slack_sandbox.workspace.state import World

# Undocumented for the message as a whole; others measured that appends beyond it are refused with
# msg_too_long.
MARKDOWN_LIMIT = 12_000
CHUNK_LIMIT, BLOCK_LIMIT = 256, 50
_SHORT = text(CHUNK_LIMIT, low=0)
_MORE = {"details": _SHORT, "output": _SHORT, "sources": array(element("url"), low=0)}
_TASK = {
    "id": text(),
    "title": text(CHUNK_LIMIT),
    "status": one_of("pending", "in_progress", "complete", "error"),
}
_CHUNKS = array(
    union(
        {
            "markdown_text": record({"text": text(low=0)}),
            "task_update": record(_TASK, _MORE),
            "plan_update": record({"title": text(CHUNK_LIMIT)}),
            "blocks": record({"blocks": anything}),
        }
    ),
    low=0,
)


def _chunks(args: Args) -> list[Json]:
    """Return what a call adds, `markdown_text` as a chunk too; SlackError for an unsound chunk."""
    value: Any = args.json("chunks", "invalid_chunks")
    if problems := list(_CHUNKS(value or [], "/chunks")):
        raise invalid(problems, "invalid_chunks")
    chunks = list(value or [])
    if args.text("markdown_text"):
        if chunks:
            raise SlackError("cannot_provide_both_markdown_text_and_chunks")
        chunks = [{"type": "markdown_text", "text": args.text("markdown_text")}]
    for index, chunk in enumerate(chunks):
        if chunk["type"] == "blocks":
            at = f"/chunks/{index}/blocks"
            _check_blocks(chunk["blocks"], at)
            if problems := checker.check_leave(
                chunk["blocks"], args.app.scopes, args.app.manifest, at
            ):
                raise invalid(problems, checker.error_of(problems))
    return chunks


def _mode(args: Args, mode: str) -> str:
    """Return a stream's mode after this call; SlackError if it differs from `mode` before."""
    adds = _first_mode(args)
    if mode and adds and adds != mode:
        raise SlackError("streaming_mode_mismatch")
    return mode or adds


def _first_mode(args: Args) -> str:
    """Return the mode of what a call adds; "" if it adds nothing."""
    if args.text("markdown_text"):
        return "text"
    return "chunks" if args.json("chunks", "invalid_chunks") else ""


def _check_blocks(found: object, at: str) -> None:
    if problems := checker.check_blocks(found, "message", at):
        raise invalid(problems, checker.error_of(problems))


# The content of a stream, and how it is drawn.


def _take(stream: Stream, chunks: list[Json]) -> None:
    for chunk in copy.deepcopy(chunks):
        kind = chunk.pop("type")
        if kind == "markdown_text":
            _words(stream, chunk["text"])
        elif kind == "plan_update":
            stream.title = chunk["title"]
            _place(stream, {"type": "plan"})
        elif kind == "task_update":
            _task(stream, chunk)
        else:
            stream.parts += chunk["blocks"]


def _words(stream: Stream, words: str) -> None:
    stream.text += words
    if not stream.parts or stream.parts[-1]["type"] != "markdown":
        stream.parts.append({"type": "markdown", "text": ""})
    stream.parts[-1]["text"] += words


def _task(stream: Stream, chunk: Json) -> None:
    """Store a task's update: a later one replaces title and status.

    It adds to details, output and sources.
    """
    known = stream.tasks.get(chunk["id"], {})
    grown = {
        key: known[key] + chunk[key]
        for key in ("details", "output", "sources")
        if key in known and key in chunk
    }
    stream.tasks[chunk["id"]] = known | chunk | grown
    _place(
        stream,
        {"type": "plan"} if stream.display == "plan" else {"type": "task", "id": chunk["id"]},
    )


def _place(stream: Stream, part: Json) -> None:
    """Give a task or the plan its place when it is first mentioned.

    The plan has a place in plan mode only.
    """
    there = [{key: each[key] for key in each if key != "block_id"} for each in stream.parts]
    if part not in there and (part["type"] != "plan" or stream.display == "plan"):
        stream.parts.append(part | {"block_id": new_block_id()})


def _rich(words: str) -> Json:
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": words}]}
    return {"type": "rich_text", "elements": [section]}


def _card(task: Json) -> Json:
    card = {
        "type": "task_card",
        "task_id": task["id"],
        "title": task["title"],
        "status": task["status"],
    }
    card |= {key: _rich(task[key]) for key in ("details", "output") if task.get(key)}
    return card | ({"sources": task["sources"]} if task.get("sources") else {})


def _shown(stream: Stream, part: Json) -> Json:
    if part["type"] == "task":
        return _card(stream.tasks[part["id"]]) | {"block_id": part["block_id"]}
    if part["type"] == "plan":
        tasks = [_card(task) for task in stream.tasks.values()]
        return {
            "type": "plan",
            "title": stream.title or "Plan",
            "tasks": tasks,
            "block_id": part["block_id"],
        }
    return part


def _drawn(stream: Stream) -> list[Json]:
    """The blocks of what was streamed so far; SlackError if they are too much together."""
    drawn = completed([_shown(stream, part) for part in stream.parts if part.get("text") != ""])
    if len(drawn) > BLOCK_LIMIT:
        raise SlackError("msg_blocks_too_many")
    if len(stream.text) > MARKDOWN_LIMIT:
        raise SlackError("msg_too_long")
    _check_blocks(drawn, "/blocks")
    return copy.deepcopy(drawn)


# The methods.


def _recipient(world: World, args: Args) -> None:
    """Raise SlackError for a recipient team or user that does not exist."""
    team, user = args.text("recipient_team_id"), args.text("recipient_user_id")
    if team and team not in world.teams:
        raise SlackError("team_not_found")
    if user and user not in world.by_id:
        raise SlackError("user_not_found")


def start(world: World, args: Args) -> Json:
    """chat.startStream: a reply in a thread, in channels also a message of its own.

    In a channel, the call must name the recipient.
    """
    channel = chat.target(world, args)
    thread_ts = message_parts.thread_of(args)
    root = messages.root_of(world, channel.id, thread_ts)
    if thread_ts and root is None:
        raise invalid([f"no such thread: {thread_ts} [json-pointer:/thread_ts]"])
    if channel.kind == "im" and root is None:
        raise invalid(["missing required field: thread_ts"])
    if channel.kind != "im":
        for name in ("recipient_team_id", "recipient_user_id"):
            if not args.text(name):
                raise SlackError(f"missing_{name}")
    _recipient(world, args)
    display = args.text("task_display_mode", "timeline")
    if display not in ("timeline", "plan"):
        raise invalid(
            ["must be one of the following: timeline, plan [json-pointer:/task_display_mode]"]
        )
    stream = Stream("in_progress", world.now(), display)
    stream.mode = _first_mode(args)
    _take(stream, _chunks(args))
    draft = Draft(channel, args.app.bot_user, stream.text, _drawn(stream), root.ts if root else "")
    draft.extra = message_parts.appearance(args)
    message = messages.add(world, draft)
    message.stream = stream
    _processing(world, args, message)
    world.touch(messages.audience(channel))
    return {"channel": channel.id, "ts": message.ts}


def _processing(world: World, args: Args, message: Message) -> None:
    """Keep the session of a stream's thread *processing*, for as long as the stream grows."""
    if args.app.agent_view is not None:
        key = (args.app.id, message.channel, message.root)
        new = key not in world.sessions
        session = agents.note_session(world, key, "processing", STREAM_TIMEOUT_SECONDS)
        if new and (root := messages.root_of(world, *key[1:])):
            session["initiator"] = root.body.get("user", "")


def _streaming(world: World, args: Args, *, stopping: bool = False) -> tuple[Message, Stream]:
    message = chat.own(world, args, "message_not_owned_by_app")
    if world.channels[message.channel].is_archived:
        raise SlackError("is_archived")
    stream = message.stream
    state = stream.state_at(world.now()) if stream else ""
    if state == "stopped_by_user" and not stopping:
        raise SlackError("stopped_by_user")
    if stream is None or state not in ("in_progress", "stopped_by_user"):
        raise SlackError("message_not_in_streaming_state")
    return message, stream


def _grow(world: World, args: Args, message: Message, stream: Stream, chunks: list[Json]) -> Stream:
    grown = copy.deepcopy(stream)
    grown.mode = _mode(args, stream.mode)
    _take(grown, chunks)
    message.body["blocks"] = _drawn(grown)
    message.body["text"] = grown.text
    message.stream = grown
    grown.touched = world.now()
    world.touch(messages.audience(world.channels[message.channel]))
    return grown


def append(world: World, args: Args) -> Json:
    """chat.appendStream."""
    chunks = _chunks(args)
    message, stream = _streaming(world, args)
    if not chunks:
        raise SlackError("no_text")
    _grow(world, args, message, stream, chunks)
    _processing(world, args, message)
    return {"channel": message.channel, "ts": message.ts}


def stop(world: World, args: Args) -> Json:
    """chat.stopStream: adds last words and blocks; then the stream is a message like any other.

    Also the app's answer to a person's Stop: its last words, and the session's next status.
    """
    chunks = _chunks(args)
    if found := message_parts.checked_blocks(args):
        chunks.append({"type": "blocks", "blocks": found})
    metadata = message_parts.checked_metadata(args)
    session = args.text("session_status", "active")
    if session not in agents.SESSION_STATES:
        raise SlackError("invalid_status")
    message, stream = _streaming(world, args, stopping=True)
    _grow(world, args, message, stream, chunks).state = "completed"
    message.metadata = metadata or message.metadata
    if args.app.agent_view is not None:
        agents.note_session(world, (args.app.id, message.channel, message.root), session)
    messages.announce_change(world, message)
    return {"channel": message.channel, "ts": message.ts, "message": copy.deepcopy(message.body)}


METHODS = {"chat.startStream": start, "chat.appendStream": append, "chat.stopStream": stop}
