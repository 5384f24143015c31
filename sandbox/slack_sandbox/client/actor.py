"""A person in the local Slack, as tests and the page use them: all that they can see and do.

This part is about commands, elements and modals. Every method may be called from any thread.
"""

from __future__ import annotations

from typing import Any

from slack_sandbox.blockkit import inputs
from slack_sandbox.client import commands, interact, places, suggestions
from slack_sandbox.client.app_user import AppUser
from slack_sandbox.client.places import Place
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace import choices, messages
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Delivery

# where a person acts: message (channel, ts), view id, app (its Home tab), None (the top modal)
Where = tuple[str, str] | str | App | None


class Actor(AppUser):
    """One person, with everything that tests and the page can have them do."""

    # commands

    def command(self, channel: str, line: str, thread_ts: str | None = None) -> Delivery | str:
        """Type a slash command; returns the delivery at once, or the sentence of Slack's notice.

        ValueError if this person cannot write.
        """
        with self._world.lock:
            place = self._member_of(channel)
            return commands.run(self._world, self.id, place, line, thread_ts or "", self._token)

    # elements

    def place(self, where: Where, seen: Json | None = None) -> Place:
        """Return the surface that `where` names (see `Where`); ValueError if there is none.

        `seen` is an older copy of a message. Called with the world's lock held.
        """
        world = self._world
        if isinstance(where, App):
            if (self.id, where.id) not in world.homes:
                raise ValueError(f"{where.name} has published no Home to {self.name}")
            return places.of_view(world, world.homes[self.id, where.id])
        if not isinstance(where, tuple):
            return places.of_view(world, interact.top(world, self.id, where))
        channel = world.channel(where[0])
        visible = [m for m in world.visible(self.id, channel) if m.ts == where[1]]
        shown = seen or (messages.seen(world, visible[0]) if visible else None)
        if shown is None:
            raise ValueError(f"{self.name} sees no message {where[1]} in {where[0]}")
        return places.of_message(world, self.id, channel.id, shown)

    def _use(
        self, place: Place, found: tuple[Json, Json], value: str | None, selected: Any
    ) -> Delivery | None:
        block, element = found
        key = (self.id, place.key, block["block_id"], element["action_id"])
        offered = self._world.offered.get(key, [])
        chosen = choices.selection(self._world, self.id, element, value, selected, offered)
        return interact.use(self._world, place, found, chosen)

    def click_in(
        self,
        where: Where,
        action_id: str,
        block_id: str | None = None,
        value: str | None = None,
        selected: Any = None,
        state: Json | None = None,
    ) -> Delivery:
        """Use an element and confirm that if asked; returns the delivery without waiting.

        `where`: see `Where`. `value` picks among buttons of one action_id, or is typed into an
        input; `selected` is an option, its value, an id, or a list of these; `state`: what was
        typed into the inputs there before. ValueError if there is no such element, or the app would
        not be notified.
        """
        with self._world.lock:
            return self._click(self.place(where), action_id, block_id, value, selected, state)

    def _click(
        self,
        place: Place,
        action_id: str,
        block_id: str | None,
        value: str | None,
        selected: Any,
        state: Json | None,
    ) -> Delivery:
        interact.typed_in(self._world, place, state or {}, strictly=False)
        delivery = self._use(place, place.find(action_id, block_id, value), value, selected)
        if delivery is None:
            raise ValueError(
                f"{action_id} tells the app nothing: "
                "its input block has no dispatch_action; use `choose`"
            )
        return delivery

    def click(
        self,
        channel: str,
        message_ts: str,
        action_id: str,
        block_id: str | None = None,
        value: str | None = None,
        selected: Any = None,
        seen: Json | None = None,
    ) -> Delivery:
        """Click an element of a visible message; see `click_in`.

        `seen` is an older copy of the message, for a click on an element that is gone.
        """
        with self._world.lock:
            return self._click(
                self.place((channel, message_ts), seen), action_id, block_id, value, selected, None
            )

    def click_view(
        self,
        action_id: str,
        block_id: str | None = None,
        value: str | None = None,
        selected: Any = None,
    ) -> Delivery:
        """Click an element of the top modal; see `click_in`."""
        return self.click_in(None, action_id, block_id, value, selected)

    def click_home(
        self,
        action_id: str,
        block_id: str | None = None,
        value: str | None = None,
        selected: Any = None,
    ) -> Delivery:
        """Click an element of the Home tab of the first app; see `click_in`."""
        return self.click_in(self._world.app, action_id, block_id, value, selected)

    def suggest(
        self, action_id: str, query: str = "", block_id: str | None = None, where: Where = None
    ) -> list[Json]:
        """Type into a select that looks its options up; return them, without their groups.

        `where`: see `Where`. ValueError for too short a query, and if the options could not be
        loaded.
        """
        with self._world.lock:
            place = self.place(where)
        found = suggestions.ask(self._world, place, action_id, block_id, query)
        if "message" in found:
            raise ValueError(found["message"])
        return choices.flat(found)

    def choose(
        self, action_id: str, selected: Any, block_id: str | None = None, where: Where = None
    ) -> Delivery | None:
        """Choose in a menu, or enter a date, time or rich text; `where`: see `Where`.

        `selected` is an option, its value, an id, or a list of these; None empties it. Returns the
        delivery if the app is notified at once, else None. ValueError for what is not offered.
        """
        with self._world.lock:
            place = self.place(where)
            return self._use(place, place.find(action_id, block_id), None, selected)

    def type(
        self,
        action_id: str,
        text: str,
        block_id: str | None = None,
        where: Where = None,
        enter: bool = False,
    ) -> list[Delivery]:
        """Type into a text input, then press Enter or not; see `Where`.

        Returns what was sent: one payload for on_character_entered, one for Enter where the input
        dispatches on it.
        """
        with self._world.lock:
            place = self.place(where)
            block, element = place.find(action_id, block_id)
            value = choices.checked(self._world, self.id, element, text, [])
            interact.typed_in(
                self._world, place, {block["block_id"]: {action_id: {"value": value}}}
            )
            on = inputs.triggers(element)
            times = ("on_character_entered" in on) + (enter and "on_enter_pressed" in on)
            sent = [
                interact.use(self._world, place, (block, element), {"value": value})
                for _ in range(times)
            ]
            return [delivery for delivery in sent if delivery is not None]

    # modals

    def view(self) -> Json | None:
        """The modal on top of this person's screen, with what is typed in it, or None."""
        with self._world.lock:
            stack = self._world.stacks.get(self.id, [])
            return stack[-1].with_state() if stack else None

    def submit(self, values: Json | None = None) -> Json:
        """Submit the top modal with these element states typed in; waits for the outcome.

        {"outcome": "closed" | "errors" | "updated" | "pushed" | "timeout" | "invalid", "errors":
        {block_id: text}, "message": what Slack would say}. "invalid" is an answer of the app that
        Slack would not take.
        """
        return interact.submit(self._world, self.id, None, values or {})

    def close_view(self, everything: bool = False) -> None:
        """Close the top modal with its Cancel, or all of them with the ×."""
        interact.close_view(self._world, self.id, None, everything=everything)
