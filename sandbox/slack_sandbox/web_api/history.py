"""conversations.history and conversations.replies: reading messages.

Called with the world's lock held.
"""

from __future__ import annotations

import re

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import marks, scopes
from slack_sandbox.web_api.arguments import Args, page
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

MAX_HISTORY_PAGE = 999
MAX_REPLIES_PAGE = 1000
MAX_UNLISTED_PAGE = 15  # for an app that is_unlisted
_TS = re.compile(r"\d+(\.\d{1,6})?")


def _channel(world: World, args: Args, method: str) -> Channel:
    channel = world.seen_by(args.app, args.text("channel"))
    scopes.require(args.app, method, channel)
    if args.app.bot_user not in channel.members:
        raise SlackError("not_in_channel")
    return channel


def _window(args: Args, found: list[Message]) -> list[Message]:
    """The messages between `oldest` and `latest` (both left out unless inclusive)."""
    oldest, latest = args.text("oldest", "0") or "0", args.text("latest")
    if not _TS.fullmatch(oldest):
        raise SlackError("invalid_ts_oldest")
    if latest and not _TS.fullmatch(latest):
        raise SlackError("invalid_ts_latest")
    low, high = float(oldest), float(latest) if latest else float("inf")
    edges = args.flag("inclusive")
    return [m for m in found if low < float(m.ts) < high or (edges and float(m.ts) in (low, high))]


def _page(found: list[Message], args: Args, most: int) -> tuple[list[Message], str]:
    """Return one page of messages; an unlisted app gets fewer than it asks for."""
    return page(found, args, most=most, cut=MAX_UNLISTED_PAGE if args.app.is_unlisted else most)


def _answer(world: World, args: Args, found: list[Message], cursor: str) -> Json:
    metadata = args.flag("include_all_metadata")
    shown = [
        messages.show(world, message, args.app.bot_user, metadata=metadata) for message in found
    ]
    following: Json = {"response_metadata": {"next_cursor": cursor}} if cursor else {}
    return {"messages": shown, "has_more": bool(cursor), **following}


def history(world: World, args: Args) -> Json:
    """conversations.history: top-level messages, newest first."""
    channel = _channel(world, args, "conversations.history")
    stored = [m for m in world.messages.get(channel.id, {}).values() if not m.only_for]
    top = [m for m in stored if m.root == m.ts or m.body.get("subtype") == "thread_broadcast"]
    found, cursor = _page(list(reversed(_window(args, top))), args, MAX_HISTORY_PAGE)
    return _answer(world, args, found, cursor) | {"pin_count": len(marks.pinned(world, channel))}


def replies(world: World, args: Args) -> Json:
    """conversations.replies: the root (in every page), then the replies, oldest first."""
    channel = _channel(world, args, "conversations.replies")
    root = messages.root_of(world, channel.id, args.text("ts"))
    if root is None:
        raise SlackError("thread_not_found")
    under = _window(args, world.replies(channel.id, root.ts))
    found, cursor = _page(under, args, MAX_REPLIES_PAGE)
    return _answer(world, args, [root, *found], cursor)


METHODS = {"conversations.history": history, "conversations.replies": replies}
