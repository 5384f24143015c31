"""chat.unfurl: an app's previews under links in somebody's message.

Called with the world's lock held.
"""

from __future__ import annotations

from typing import Any

from slack_sandbox.blockkit.attachments import check_attachments, completed_attachments
from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.records import Message
from slack_sandbox.workspace.state import World

_SOURCES = ("composer", "conversations_history")


def _message(world: World, args: Args) -> Message:
    """Return the message that a call names, by `channel` and `ts` or by both in one `unfurl_id`.

    Links in the composer are refused: the sandbox has none.
    """
    if args.has("unfurl_id") or args.has("source"):
        if args.text("source") not in ("", *_SOURCES):
            raise SlackError("invalid_source")
        if not args.has("unfurl_id"):
            raise SlackError("missing_unfurl_id")
        if not args.has("source"):
            raise SlackError("missing_source")
        place, _, ts = args.text("unfurl_id").partition("-")
        if args.text("source") == "composer" or not ts:
            raise SlackError("invalid_unfurl_id")
    else:
        place, ts = args.text("channel"), args.text("ts")
    if not place:
        raise SlackError("missing_channel")
    if not ts:
        raise SlackError("missing_ts")
    channel = world.channels.get(place)
    if channel is None or args.app.bot_user not in channel.members:
        raise SlackError("cannot_find_channel")
    message = world.find(channel.id, ts)
    if message is None:
        raise SlackError("cannot_find_message")
    return message


def _preview(content: Any) -> Json:
    code, _ = check_attachments([content], [])
    if code:
        raise SlackError("cannot_parse_attachment")
    return completed_attachments([content])[0]


def unfurl(world: World, args: Args) -> Json:
    """chat.unfurl: only links that the message has, each as one attachment."""
    message = _message(world, args)
    unfurls: Any = args.json("unfurls", "invalid_unfurls_format")
    if unfurls is None and not args.flag("user_auth_required"):
        raise SlackError("missing_unfurls")
    unfurls = {} if unfurls is None else unfurls
    if not isinstance(unfurls, dict):
        raise SlackError("invalid_unfurls_format")
    said = str(message.body.get("text", "")).replace("&amp;", "&")
    there = [
        each for each in message.body.get("attachments", []) if each.get("from_url") not in unfurls
    ]
    for link, content in unfurls.items():
        if link not in said:
            raise SlackError("cannot_unfurl_url")
        shown = _preview(content) | {
            "from_url": link,
            "app_unfurl_url": link,
            "is_app_unfurl": True,
        }
        there.append(shown | {"app_id": args.app.id, "bot_id": args.app.bot_id})
    for number, each in enumerate(there, 1):
        each["id"] = number
    if unfurls:
        messages.change(world, message, {"attachments": there})
    return {}


METHODS = {"chat.unfurl": unfurl}
