"""The Slack tools: list channels and people, post, schedule, create channels, invite, set a topic.

Messages go out as plain text: no blocks, no live mentions, always signed. The given client should
have no retry handlers, since a repeated post is a second post. Names are looked up when a tool
runs, and when its preview is made, so that a card says which channel and person is meant.
"""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AwareDatetime, Field, field_validator

from bot.tools import Effect, Tool, ToolContext, ToolError, slack_lookup, tool
from bot.tools.names import ChannelId, PersonId

if TYPE_CHECKING:
    from slack_sdk import WebClient


EVENT_TYPE = "countersign_tool"  # metadata of what a tool posted; the payload has the call's id
MAX_SCHEDULE_AHEAD = timedelta(days=120)
# no link previews, and names do not turn into mentions
_PLAIN_TEXT_OPTIONS: dict[str, Any] = {
    "unfurl_links": False,
    "unfurl_media": False,
    "link_names": False,
    "parse": "none",
}
USER_ID_PATTERN = re.compile(r"[UW][A-Z0-9]+")

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


class Post(slack_lookup.SlackArguments):
    """Arguments of post_message."""

    channel: ChannelId = Field(title="Channel")
    text: Text
    external_ok: ExternalOk = False

    @field_validator("text")
    @classmethod
    def _check_not_blank(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("the message is blank")
        return text


class Schedule(Post):
    """Arguments of schedule_message.

    Whether `at` lies ahead is for the moment it runs, not for its type.
    """

    at: AwareDatetime = Field(title="When", description="With a time zone, at most 120 days ahead.")


def build_post_message_tool(client: WebClient, lookup: slack_lookup.SlackLookup) -> Tool[Any]:
    """Return the post_message tool; `client` should have no retry handlers, to never post twice."""

    @tool(
        title="Post a message",
        effect="Post a message in {channel}",
        does=Effect.WRITE,
        preview=slack_lookup.build_channel_preview_function(lookup, _external_channel_note),
        outcome=lambda _args, done: f"Posted in {done['channel']}",
        step=lambda _args: "posting a message",
    )
    def post_message(args: Post, context: ToolContext) -> dict[str, Any]:
        """Post a text message in a Slack channel.

        It is signed with the name of the person who asked.
        """
        channel = slack_lookup.get_checked_target_channel(
            lookup, args.channel, context, external_ok=args.external_ok
        )
        answer = slack_lookup.run_slack_change(
            "posting the message",
            f"#{channel.name}",
            lambda: client.chat_postMessage(
                channel=channel.id,
                text=_add_signature(args.text, context),
                **_PLAIN_TEXT_OPTIONS,
                metadata={"event_type": EVENT_TYPE, "event_payload": {"call_id": context.call_id}},
            ),
        )
        return {"channel": f"#{channel.name}", "channel_id": channel.id, "ts": answer.get("ts")}

    return post_message


def build_schedule_message_tool(client: WebClient, lookup: slack_lookup.SlackLookup) -> Tool[Any]:
    """Return the schedule_message tool; `client` should have no retry handlers."""

    def details(args: Schedule, channel: slack_lookup.Channel, context: ToolContext) -> list[str]:
        _check_schedule_time(args.at, context.now)
        when = f"On {args.at.astimezone(UTC):%a %d %b %Y, %H:%M} UTC"
        return [*_external_channel_note(args, channel, context), when]

    @tool(
        title="Schedule a message",
        effect="Post a message in {channel} on {at:%d %b %Y, %H:%M %Z}",
        does=Effect.WRITE,
        preview=slack_lookup.build_channel_preview_function(lookup, details),
        outcome=lambda _args, done: (
            f"Slack posts it in {done['channel']} on {done['at']:%d %b %Y, %H:%M} UTC"
        ),
        step=lambda _args: "scheduling a message",
    )
    def schedule_message(args: Schedule, context: ToolContext) -> dict[str, Any]:
        """Have Slack post a text message in a channel later, at most 120 days ahead.

        Signed like post_message.
        """
        _check_schedule_time(args.at, context.now)
        channel = slack_lookup.get_checked_target_channel(
            lookup, args.channel, context, external_ok=args.external_ok
        )
        answer = slack_lookup.run_slack_change(
            "scheduling the message",
            f"#{channel.name}",
            # Without metadata: Slack accepts it here, and then never posts the message.
            lambda: client.chat_scheduleMessage(
                channel=channel.id,
                text=_add_signature(args.text, context),
                post_at=int(args.at.timestamp()),
                **_PLAIN_TEXT_OPTIONS,
            ),
        )
        return {
            "channel": f"#{channel.name}",
            "at": args.at.astimezone(UTC),
            "scheduled_message_id": answer.get("scheduled_message_id"),
        }

    return schedule_message


def _check_schedule_time(at: datetime, now: datetime) -> None:
    if at <= now:
        raise ToolError("That time has passed; nothing was scheduled.", field="at")
    if at > now + MAX_SCHEDULE_AHEAD:
        raise ToolError("Slack schedules at most 120 days ahead; nothing was scheduled.")


def _add_signature(text: str, context: ToolContext) -> str:
    who = (
        f"<@{context.requester}>" if USER_ID_PATTERN.fullmatch(context.requester) else "a colleague"
    )
    return f"{slack_lookup.escape_slack_text(text)}\n_Sent for {who} by Countersign_"


def _external_channel_note(
    _args: Post, channel: slack_lookup.Channel, _context: ToolContext
) -> list[str]:
    return ["⚠ People of another company will read it."] if channel.external else []


MAX_LISTED_ENTRIES = 50


class ListChannels(slack_lookup.SlackArguments):
    """Arguments of list_channels."""

    query: str | None = Field(None, title="Name contains", max_length=80)


class ListPeople(slack_lookup.SlackArguments):
    """Arguments of list_people."""

    query: str | None = Field(None, title="Name contains", max_length=80)


class CreateChannel(slack_lookup.SlackArguments):
    """Arguments of create_channel."""

    name: str = Field(
        title="Name",
        pattern=r"^[a-z0-9_-]{1,80}$",
        description="Lower-case letters, digits, hyphens and underscores, at most 80.",
    )
    private: bool = Field(False, title="Private")


class Invite(slack_lookup.SlackArguments):
    """Arguments of invite."""

    channel: ChannelId = Field(title="Channel")
    people: list[PersonId] = Field(
        title="People", min_length=1, max_length=30, description="@handles, full names or ids."
    )


class SetTopic(slack_lookup.SlackArguments):
    """Arguments of set_topic."""

    channel: ChannelId = Field(title="Channel")
    topic: str = Field(title="Topic", max_length=250)


def build_slack_tools(
    client: WebClient, directory: slack_lookup.CachedDirectory
) -> list[Tool[Any]]:
    """Return the seven Slack tools; `client` should have no retry handlers."""
    lookup = slack_lookup.SlackLookup(client, directory)
    return [
        _build_list_channels_tool(lookup),
        _build_list_people_tool(lookup),
        build_post_message_tool(client, lookup),
        build_schedule_message_tool(client, lookup),
        _build_create_channel_tool(client),
        _build_invite_tool(client, lookup),
        _build_set_topic_tool(client, lookup),
    ]


def _build_list_channels_tool(lookup: slack_lookup.SlackLookup) -> Tool[Any]:
    @tool(
        title="List channels",
        effect="List the channels in Slack",
        does=Effect.READ,
        step=lambda _args: "looking through the channels",
    )
    def list_channels(args: ListChannels, context: ToolContext) -> dict[str, Any]:
        """List Slack channels, optionally those whose name contains the query."""
        matching = [
            each
            for each in lookup.list_channels()
            if (args.query or "").lower().lstrip("#") in each.name
        ]
        # The bot may be in private channels that the requester must not know of.
        common_private = (
            lookup.list_common_private_channels(context.requester)
            if any(e.private for e in matching)
            else ()
        )
        visible = [each for each in matching if not each.private or each.id in common_private]
        return {
            "matching": len(visible),
            "channels": [
                _drop_unset_values(
                    channel=f"#{each.name}",
                    id=each.id,
                    members=each.members,
                    topic=html.unescape(each.topic),
                    private=each.private,
                    shared_with_another_company=each.external,
                )
                for each in visible[:MAX_LISTED_ENTRIES]
            ],
        }

    return list_channels


def _build_list_people_tool(lookup: slack_lookup.SlackLookup) -> Tool[Any]:
    @tool(
        title="List people",
        effect="List the people in Slack",
        does=Effect.READ,
        step=lambda _args: "looking for people",
    )
    def list_people(args: ListPeople, context: ToolContext) -> dict[str, Any]:
        """List people in Slack, optionally those whose name contains the query."""
        query = (args.query or "").casefold().lstrip("@")
        matching = [
            each for each in lookup.list_people() if any(query in name for name in each.names)
        ]
        return {
            "matching": len(matching),
            "people": [
                _drop_unset_values(
                    name=each.name,
                    handle=f"@{each.handle}",
                    id=each.id,
                    job=each.job,
                    guest=each.guest,
                    of_another_company=bool(each.team)
                    and context.team not in (each.team, *each.teams),
                )
                for each in matching[:MAX_LISTED_ENTRIES]
            ],
        }

    return list_people


def _build_create_channel_tool(client: WebClient) -> Tool[Any]:
    def who(args: CreateChannel, _context: ToolContext) -> str:
        return (
            f"A {'private' if args.private else 'public'} channel, with the bot and the "
            "person who asked in it"
        )

    @tool(
        title="Create a channel",
        effect="Create the channel #{name}",
        does=Effect.WRITE,
        preview=who,
        outcome=lambda _args, created: f"Created {created['channel']}. {created.get('note', '')}",
        step=lambda args: f"creating the channel #{args.name}",
    )
    def create_channel(args: CreateChannel, context: ToolContext) -> dict[str, Any]:
        """Create a Slack channel with the person who asked in it; use `invite` for others."""

        def create() -> Any:
            where: dict[str, Any] = {}
            if context.team.startswith("E"):  # an organisation: use the request's workspace
                asked_in = client.conversations_info(channel=context.channel)["channel"]
                where["team_id"] = asked_in["context_team_id"]
            return client.conversations_create(name=args.name, is_private=args.private, **where)

        answer = slack_lookup.run_slack_change("creating the channel", f"#{args.name}", create)
        # the channel exists by now: no later error may count as a failure
        created = answer.get("channel") or {}
        result = {"channel": f"#{created.get('name', args.name)}", "channel_id": created.get("id")}
        try:
            client.conversations_invite(channel=created.get("id", ""), users=[context.requester])
        except slack_lookup.UNREACHABLE_ERRORS:
            return {**result, "note": "The person who asked could not be invited."}
        return result

    return create_channel


def _build_invite_tool(client: WebClient, lookup: slack_lookup.SlackLookup) -> Tool[Any]:
    def details(args: Invite, channel: slack_lookup.Channel, _context: ToolContext) -> list[str]:
        inside = lookup.list_channel_members(channel)
        return [
            f"{each}{' · is in it already' if each.id in inside else ''}"
            for each in lookup.get_people(args.people)
        ]

    @tool(
        title="Invite people",
        effect="Invite people to {channel}",
        does=Effect.WRITE,
        idempotent=True,  # people who are in the channel already are left out
        preview=slack_lookup.build_channel_preview_function(lookup, details),
        outcome=_invitation_sentence,
        step=lambda _args: "inviting people",
    )
    def invite(args: Invite, context: ToolContext) -> dict[str, Any]:
        """Invite people to a Slack channel that the bot is in."""
        channel = slack_lookup.get_checked_target_channel(lookup, args.channel, context)
        inside = lookup.list_channel_members(channel)
        people = lookup.get_people(args.people)
        new = [each for each in people if each.id not in inside]
        if new:
            ids = [each.id for each in new]
            slack_lookup.run_slack_change(
                "inviting",
                f"#{channel.name}",
                lambda: client.conversations_invite(channel=channel.id, users=ids),
            )
        return _drop_unset_values(
            channel=f"#{channel.name}",
            invited=[each.name for each in new],
            already_there=[each.name for each in people if each.id in inside],
        )

    return invite


def _build_set_topic_tool(client: WebClient, lookup: slack_lookup.SlackLookup) -> Tool[Any]:
    def details(_args: SetTopic, channel: slack_lookup.Channel, _context: ToolContext) -> list[str]:
        return [f"Topic now: {html.unescape(channel.topic) or '(none)'}"]

    @tool(
        title="Set a channel's topic",
        effect="Set the topic of {channel}",
        does=Effect.WRITE,
        idempotent=True,
        preview=slack_lookup.build_channel_preview_function(lookup, details),
        outcome=lambda _args, done: f"The topic of {done['channel']} is now “{done['topic']}”",
        step=lambda _args: "setting a channel's topic",
    )
    def set_topic(args: SetTopic, context: ToolContext) -> dict[str, Any]:
        """Set the topic of a Slack channel; an empty topic removes it."""
        channel = slack_lookup.get_checked_target_channel(lookup, args.channel, context)
        topic = slack_lookup.escape_slack_text(args.topic)
        slack_lookup.run_slack_change(
            "setting the topic",
            f"#{channel.name}",
            lambda: client.conversations_setTopic(channel=channel.id, topic=topic),
        )
        return {"channel": f"#{channel.name}", "topic": args.topic}

    return set_topic


def _invitation_sentence(_args: Invite, done: dict[str, Any]) -> str:
    new = ", ".join(done.get("invited", ()))
    there = ", ".join(done.get("already_there", ()))
    if not new:
        return f"Already in {done['channel']}: {there}"
    return f"Invited {new} to {done['channel']}" + (f"; already there: {there}" if there else "")


def _drop_unset_values(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, "", False, [])}
