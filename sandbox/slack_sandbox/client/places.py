"""The surfaces in which a person uses elements (message, modal, Home), with what is typed there.

Called with the world's lock held.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from slack_sandbox.blockkit import inputs
from slack_sandbox.blockkit.text import elements_of, every_block
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import views
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import View
from slack_sandbox.workspace.state import World


@dataclass(slots=True)
class Place:
    """One surface (a message, modal or Home tab) as one person sees it."""

    user: str
    app: App
    key: str  # tells places apart: the view's id, or channel and ts
    blocks: list[Json]
    values: Json  # element states, which the world keeps; changed in place
    channel_id: str = ""  # the conversation before the person; "" if unknown
    shown: Json | None = None  # the message; None for a view
    view: View | None = None

    def find(
        self, action_id: str, block_id: str | None = None, value: str | None = None
    ) -> tuple[Json, Json]:
        """Return the (block, element) that fits and this person can see; ValueError if none."""
        for block in every_block(self.blocks):
            if block_id is not None and block.get("block_id") != block_id:
                continue
            for element in elements_of(block):
                shown_to = element.get("visible_to_user_ids")
                if element.get("action_id") != action_id or (
                    shown_to is not None and self.user not in shown_to
                ):
                    continue
                if value is None or element.get("value") == value or "value" not in element:
                    return block, element
        there = [
            (b.get("block_id"), e.get("action_id"), e.get("value"))
            for b in every_block(self.blocks)
            for e in elements_of(b)
        ]
        raise ValueError(
            f"no element {action_id!r} (block {block_id!r}, value {value!r}); there are {there}"
        )

    def input(self, block_id: str, action_id: str) -> Json:
        """The element with a state at these ids; ValueError when there is none."""
        if action_id not in self.values.get(block_id, {}):
            raise ValueError(f"there is no input {block_id}/{action_id}; there are {self.values}")
        return self.find(action_id, block_id)[1]

    def about(self, world: World) -> Json:
        """Return what payloads say of it: its container, and its view or channel and message."""
        if self.view is not None:
            container: Json = {"type": "view", "view_id": self.view.id}
            return {"container": container, "view": self.view.with_state()}
        assert self.shown is not None
        shown = copy.deepcopy(self.shown)
        ephemeral = bool(shown.pop("is_ephemeral", False))
        container = {"type": "message", "message_ts": shown["ts"], "channel_id": self.channel_id}
        container["is_ephemeral"] = ephemeral
        if "thread_ts" in shown:
            container["thread_ts"] = shown["thread_ts"]
        channel = {"id": self.channel_id, "name": world.channels[self.channel_id].label}
        about = {
            "container": container,
            "channel": channel,
            "state": {"values": copy.deepcopy(self.values)},
        }
        return about if ephemeral else about | {"message": shown}


def of_view(world: World, view: View) -> Place:
    """Return the place of a modal or a Home view, as its viewer sees it."""
    app = views.app_of(world, view)
    return Place(
        view.user, app, view.id, view.body["blocks"], view.values, view.channel_id, view=view
    )


def of_message(world: World, user: str, channel_id: str, shown: Json) -> Place:
    """Return the place of a message (of `messages.seen`), with what the person typed into it.

    ValueError for a message that no app posted.
    """
    app = world.author({**shown, "channel": channel_id})
    if app is None:
        raise ValueError(f"no app posted {shown['ts']}")
    key = f"{channel_id}/{shown['ts']}"
    blocks = shown.get("blocks", [])
    values = world.typed[user, key] = inputs.states(blocks, world.typed.get((user, key)))
    return Place(user, app, key, blocks, values, channel_id, shown)
