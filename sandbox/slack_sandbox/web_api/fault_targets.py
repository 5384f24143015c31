"""Whom a call or a payload concerns: the people that faults can be limited to.

Called with the world's lock held.
"""

from __future__ import annotations

from typing import Any

from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World

# a channel argument may name a person, too
_USERS = ("user", "user_id", "users", "recipient_user_id", "initiator_user_id", "channel")


def of_call(world: World, args: Json) -> set[str]:
    """Return the user ids that a call of the Web API names or reaches.

    It names them as users, or reaches them by a DM, a trigger or a view of theirs.
    """
    named = {one.strip() for key in _USERS for one in _list(args.get(key))}
    found = named & world.by_id.keys()
    for key in ("channel", "channel_id"):
        channel = world.channels.get(str(args.get(key)))
        if channel and channel.kind == "im":
            found.update(channel.members)
    if trigger := world.triggers.get(str(args.get("trigger_id"))):
        found.add(trigger.user)
    views = [view for stack in world.stacks.values() for view in stack]
    wanted = {str(args[key]) for key in ("view_id", "external_id") if args.get(key)}
    found.update(
        view.user for view in views if wanted & {view.id, str(view.body.get("external_id"))}
    )
    return found & world.by_id.keys()


def of_delivery(delivery: Delivery) -> set[str]:
    """The user id of whoever caused a payload, if anybody did."""
    payload = delivery.payload
    acting = delivery.event.get("user") or payload.get("user_id") or payload.get("user")
    if isinstance(acting, dict):
        acting = acting.get("id")
    return {str(acting)} if acting else set()


def _list(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(one) for one in value]
    return value.split(",") if isinstance(value, str) else []
