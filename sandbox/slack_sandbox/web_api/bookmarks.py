"""bookmarks.*: the links at the top of a channel. Called with the world's lock held."""

from __future__ import annotations

import copy
import re
from urllib.parse import urlsplit

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.people import Channel
from slack_sandbox.workspace.state import World

MAX_BOOKMARKS = 100  # in one channel
_EMOJI = re.compile(r":[\w+'-]{1,100}:")


def of(world: World, channel: Channel) -> list[Json]:
    """Copies of the channel's bookmarks, in the order of the bar."""
    return copy.deepcopy(world.bookmarks.get(channel.id, []))


def _channel(world: World, args: Args, error: str = "permission_denied") -> Channel:
    """The channel of a call, which the app must be in to change its bar."""
    channel = world.seen_by(args.app, args.text("channel_id"))
    if args.app.bot_user not in channel.members:
        raise SlackError(error)
    return channel


def _link(args: Args) -> str:
    link = args.text("link")
    parts = urlsplit(link)
    if parts.scheme not in ("http", "https", "mailto") or not (parts.netloc or parts.path):
        raise SlackError("invalid_link")
    return link


def _emoji(args: Args) -> str:
    emoji = args.text("emoji")
    if emoji and not _EMOJI.fullmatch(emoji):
        raise SlackError("invalid_emoji")
    return emoji


def add(world: World, args: Args) -> Json:
    """bookmarks.add: links, which are all that an app may add."""
    channel = _channel(world, args)
    if args.text("type") != "link":
        raise SlackError("invalid_bookmark_type")
    if args.has("parent_id"):
        raise SlackError("invalid_parent_type")
    there = world.bookmarks.setdefault(channel.id, [])
    link, emoji = _link(args), _emoji(args)
    if len(there) >= MAX_BOOKMARKS:
        raise SlackError("too_many_bookmarks")
    now = int(world.now())
    bookmark: Json = {
        "id": world.new_id("Bk"),
        "channel_id": channel.id,
        "title": args.text("title"),
        "link": link,
        "emoji": emoji,
        "icon_url": None,
        "type": "link",
        "entity_id": None,
        "date_created": now,
        "date_updated": now,
        "rank": f"{len(there):04}",
        "last_updated_by_user_id": args.app.bot_user,
        "last_updated_by_team_id": world.team,
        "shortcut_id": None,
        "app_id": args.app.id,
    }
    there.append(bookmark)
    world.touch(messages.audience(channel))
    return {"bookmark": dict(bookmark)}


def _found(world: World, args: Args) -> tuple[Channel, Json]:
    channel = _channel(world, args)
    for bookmark in world.bookmarks.get(channel.id, []):
        if bookmark["id"] == args.text("bookmark_id"):
            return channel, bookmark
    raise SlackError("not_found")


def edit(world: World, args: Args) -> Json:
    """bookmarks.edit: title, link or emoji; what is left out stays."""
    channel, bookmark = _found(world, args)
    changes: Json = {}
    if args.text("title"):
        changes["title"] = args.text("title")
    if args.has("link"):
        changes["link"] = _link(args)
    if args.has("emoji"):
        changes["emoji"] = _emoji(args)
    bookmark |= changes | {
        "date_updated": int(world.now()),
        "last_updated_by_user_id": args.app.bot_user,
    }
    world.touch(messages.audience(channel))
    return {"bookmark": dict(bookmark)}


def remove(world: World, args: Args) -> Json:
    """bookmarks.remove."""
    channel, bookmark = _found(world, args)
    world.bookmarks[channel.id].remove(bookmark)
    world.touch(messages.audience(channel))
    return {}


def list_all(world: World, args: Args) -> Json:
    """bookmarks.list."""
    return {"bookmarks": of(world, _channel(world, args, "channel_not_found"))}


METHODS = {
    "bookmarks.add": add,
    "bookmarks.edit": edit,
    "bookmarks.list": list_all,
    "bookmarks.remove": remove,
}
