"""What the Slack tools share: how a channel is named, found, allowed and previewed.

It changes nothing in Slack.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from bot.tools import ToolContext, ToolError
from bot.tools.names import no_channel
from bot.tools.slack.lookup import Channel, Lookup
from bot.tools.slack.refusals import SENTENCES


class SlackArguments(BaseModel):
    """What all argument models share: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def target(
    lookup: Lookup, channel_id: str, context: ToolContext, *, external_ok: bool = True
) -> Channel:
    """The channel to act on; ToolError where the requester has no place in it or outsiders would
    read along.
    """
    channel = lookup.channel(channel_id)
    if channel.private and context.requester not in lookup.members(channel):
        # Else the bot would be a way into private channels.
        raise ToolError(no_channel(channel_id))
    if channel.external and not external_ok:
        raise ToolError(
            f"#{channel.name} is shared with another company; say external_ok if they may read it."
        )
    return channel


def escaped(text: str) -> str:
    """As Slack wants it: with these three characters replaced nothing in it is a mention, a
    broadcast or a link.
    """
    return html.escape(text, quote=False)


def previewed(
    lookup: Lookup, details: Callable[[Any, Channel, ToolContext], list[str]]
) -> Callable[[Any, ToolContext], str]:
    """A preview that says which channel is meant, then `details`.

    ToolError where nothing could be done in it.
    """

    def preview(args: Any, context: ToolContext) -> str:
        external_ok = getattr(args, "external_ok", True)
        channel = target(lookup, args.channel, context, external_ok=external_ok)
        if channel.archived:
            raise ToolError(f"#{channel.name} is archived.")
        if not channel.joined:
            raise ToolError(SENTENCES["not_in_channel"].format(channel=f"#{channel.name}"))
        count = "" if channel.members is None else f", {channel.members} members"
        kind = " · private" * channel.private
        return "\n".join([f"→ {channel}{count}{kind}", *details(args, channel, context)])

    return preview
