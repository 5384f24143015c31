"""The parts of a message that a call brings: text, blocks, attachments, metadata, appearance.

Each is checked by Slack's rules and given back as it will be stored.
"""

from __future__ import annotations

import re
from typing import Any

from slack_sandbox.blockkit import attachments
from slack_sandbox.blockkit import blocks as checker
from slack_sandbox.spec.slack_error import Json, SlackError, invalid
from slack_sandbox.web_api.arguments import Args

MARKDOWN_LIMIT, METADATA_LIMIT = 12_000, 16_000
_TS = re.compile(r"\d{1,12}\.\d{6}")


def checked_blocks(args: Args, name: str = "blocks") -> list[Json] | None:
    """The blocks of a call, None if it has none; SlackError for what Slack would not take."""
    value: Any = args.json(name, "invalid_blocks_format")
    if value is None:
        return None
    if not isinstance(value, list):
        raise SlackError("invalid_blocks_format")
    problems = checker.check_blocks(value, "message")
    if problems := problems or checker.check_leave(value, args.app.scopes, args.app.manifest):
        raise invalid(problems, checker.error_of(problems))
    if error := checker.check_message_size(value):
        raise SlackError(error)
    return value


def checked_metadata(args: Args) -> Json | None:
    """The metadata of a call, None if it has none."""
    value: Any = args.json("metadata", "invalid_metadata_format")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise SlackError("invalid_metadata_format")
    payload = value.get("event_payload")
    if (
        not isinstance(value.get("event_type"), str)
        or not value["event_type"]
        or not isinstance(payload, dict)
    ):
        raise SlackError("invalid_metadata_schema")
    if len(repr(payload)) > METADATA_LIMIT:
        raise SlackError("metadata_too_large")
    return value


def content(args: Args) -> tuple[str | None, list[Json] | None]:
    """Text and blocks of a call as they will be stored.

    `markdown_text` becomes a markdown block.
    """
    text = args.text("text") if args.has("text") else None
    found = checked_blocks(args)
    if args.has("markdown_text"):
        if text is not None or found is not None:
            raise SlackError("markdown_text_conflict")
        text = args.text("markdown_text")
        if len(text) > MARKDOWN_LIMIT:
            raise SlackError("msg_too_long")
        found = [{"type": "markdown", "text": text}]
    return None if text is None else escaped(text), found


def escaped(text: str) -> str:
    """The text with every lone & as Slack stores it."""
    return re.sub(r"&(?!(?:amp|lt|gt);)", "&amp;", text)


def checked_attachments(args: Args, found: list[Json] | None) -> list[Json] | None:
    """Return a call's attachments beside its blocks `found`, as they will be stored, or None."""
    value: Any = args.json("attachments", "invalid_attachments")
    if value is None:
        return None
    code, problems = attachments.check_attachments(value, found or [])
    if code:
        raise invalid(problems, code) if problems else SlackError(code)
    return attachments.completed_attachments(value)


def extras(args: Args, found: list[Json] | None) -> Json:
    """Return a message's parts beside text and the blocks `found`: attachments, name, picture."""
    attached = checked_attachments(args, found)
    return ({"attachments": attached} if attached else {}) | appearance(args)


def appearance(args: Args) -> Json:
    """The name and picture that a call gives its message.

    Without chat:write.customize there are none.
    """
    extra: Json = {}
    if "chat:write.customize" not in args.app.scopes:
        return extra
    if name := args.text("username"):
        extra["username"] = name
    if emoji := args.text("icon_emoji"):
        extra["icons"] = {"emoji": emoji}
    elif url := args.text("icon_url"):
        extra["icons"] = {"image_48": url}
    return extra


def something(text: str | None, found: list[Json] | None, extra: Json) -> None:
    """SlackError unless there is something to post."""
    if (
        not found
        and "attachments" not in extra
        and (error := checker.check_message_text(text or ""))
    ):
        raise SlackError(error)


def thread_of(args: Args, error: str = "invalid_thread_ts") -> str:
    """The call's thread_ts, "" if it has none; SlackError(`error`) when it is no timestamp."""
    thread_ts = args.text("thread_ts")
    if thread_ts and not _TS.fullmatch(thread_ts):
        raise invalid(["must be the ts of a message [json-pointer:/thread_ts]"], error)
    return thread_ts
