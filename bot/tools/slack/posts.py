"""The Slack tools that post, now or later: text only, without live mentions, always signed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AwareDatetime, Field, field_validator

from bot.tools import Effect, Tool, ToolContext, ToolError, tool
from bot.tools.names import ChannelId
from bot.tools.slack.common import SlackArguments, escaped, previewed, target
from bot.tools.slack.lookup import Channel, Lookup
from bot.tools.slack.refusals import act

if TYPE_CHECKING:  # the client is given, never made here
    from slack_sdk import WebClient

EVENT_TYPE = "countersign_tool"  # metadata of what a tool posted; the payload holds the call's id
FARTHEST = timedelta(days=120)
USER = re.compile(r"[UW][A-Z0-9]+")

Text = Annotated[
    str,
    Field(
        title="Message",
        min_length=1,
        max_length=3000,
        description="Plain words; *bold*, _italic_ and `code` work, mentions do not notify "
        "anybody.",
    ),
]
ExternalOk = Annotated[
    bool,
    Field(
        title="Also where people outside the company read",
        description="Needed for shared channels.",
    ),
]


class Post(SlackArguments):
    """Arguments of post_message."""

    channel: ChannelId = Field(title="Channel")
    text: Text
    external_ok: ExternalOk = False

    @field_validator("text")
    @classmethod
    def _says_something(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("the message is blank")
        return text


class Schedule(Post):
    """Arguments of schedule_message.

    Whether `at` lies ahead is for the moment it runs, not for its type.
    """

    at: AwareDatetime = Field(title="When", description="With a time zone, at most 120 days ahead.")


def post_message_tool(client: WebClient, lookup: Lookup) -> Tool[Any]:
    """post_message over `client`, which should have no retry handlers: a repeated post is a second
    post.
    """

    @tool(
        title="Post a message",
        effect="Post a message in {channel}",
        does=Effect.WRITE,
        preview=previewed(lookup, _sharing),
        outcome=lambda _args, done: f"Posted in {done['channel']}",
        step=lambda _args: "posting a message",
    )
    def post_message(args: Post, context: ToolContext) -> dict[str, Any]:
        """Post a text message in a Slack channel.

        It is signed with the name of the person who asked.
        """
        channel = target(lookup, args.channel, context, external_ok=args.external_ok)
        answer = act(
            "posting the message",
            f"#{channel.name}",
            lambda: client.chat_postMessage(
                channel=channel.id,
                text=_signed(args.text, context),
                unfurl_links=False,
                unfurl_media=False,
                link_names=False,
                parse="none",
                metadata={"event_type": EVENT_TYPE, "event_payload": {"call_id": context.call_id}},
            ),
        )
        return {"channel": f"#{channel.name}", "channel_id": channel.id, "ts": answer.get("ts")}

    return post_message


def schedule_message_tool(client: WebClient, lookup: Lookup) -> Tool[Any]:
    """schedule_message over `client`; the same holds."""

    def details(args: Schedule, channel: Channel, context: ToolContext) -> list[str]:
        _check_time(args.at, context.now)
        when = f"On {args.at.astimezone(UTC):%a %d %b %Y, %H:%M} UTC"
        return [*_sharing(args, channel, context), when]

    @tool(
        title="Schedule a message",
        effect="Post a message in {channel} on {at:%d %b %Y, %H:%M %Z}",
        does=Effect.WRITE,
        preview=previewed(lookup, details),
        outcome=lambda _args, done: (
            f"Slack posts it in {done['channel']} on {done['at']:%d %b %Y, %H:%M} UTC"
        ),
        step=lambda _args: "scheduling a message",
    )
    def schedule_message(args: Schedule, context: ToolContext) -> dict[str, Any]:
        """Have Slack post a text message in a channel later, at most 120 days ahead.

        Signed like post_message.
        """
        _check_time(args.at, context.now)
        channel = target(lookup, args.channel, context, external_ok=args.external_ok)
        answer = act(
            "scheduling the message",
            f"#{channel.name}",
            # Without metadata: Slack accepts it here, and then never posts the message.
            lambda: client.chat_scheduleMessage(
                channel=channel.id,
                text=_signed(args.text, context),
                post_at=int(args.at.timestamp()),
                unfurl_links=False,
                unfurl_media=False,
                link_names=False,
                parse="none",
            ),
        )
        return {
            "channel": f"#{channel.name}",
            "at": args.at.astimezone(UTC),
            "scheduled_message_id": answer.get("scheduled_message_id"),
        }

    return schedule_message


def _check_time(at: datetime, now: datetime) -> None:
    if at <= now:
        raise ToolError("That time is over; nothing was scheduled.")
    if at > now + FARTHEST:
        raise ToolError("Slack schedules at most 120 days ahead; nothing was scheduled.")


def _signed(text: str, context: ToolContext) -> str:
    who = f"<@{context.requester}>" if USER.fullmatch(context.requester) else "a colleague"
    return f"{escaped(text)}\n_Sent for {who} by Countersign_"


def _sharing(_args: Post, channel: Channel, _context: ToolContext) -> list[str]:
    return ["⚠ People of another company will read it."] if channel.external else []
