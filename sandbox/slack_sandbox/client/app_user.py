"""A person as a user of apps: their DMs, Home tabs, shortcuts and agents.

Every method may be called from any thread.
"""

from __future__ import annotations

from slack_sandbox.client import shortcuts
from slack_sandbox.client.member import Member
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import agents, assistants
from slack_sandbox.workspace import events, messages
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Delivery


class AppUser(Member):
    """A member of the workspace who uses apps."""

    # direct messages and Home tabs

    def dm(self, text: str, thread_ts: str | None = None) -> str:
        """Post in the DM with the first app; returns the message's ts."""
        return self.say(self.dm_channel, text, thread_ts)

    @property
    def dm_channel(self) -> str:
        """The id of this person's DM with the first app."""
        with self._world.lock:
            return self._world.dm(self.id).id

    def open_dm(self, app: App | None = None) -> None:
        """Open the Messages tab of the DM with the app (None: the first); sends app_home_opened."""
        self._opened(self._world.own(app), "messages")

    def open_home(self, app: App | None = None) -> Json | None:
        """Open the Home tab of the app (None: the first); sends app_home_opened with its view.

        Returns that view. ValueError when the app's manifest has no Home tab.
        """
        app = self._world.own(app)
        if not app.app_home.get("home_tab_enabled"):
            raise ValueError(f"{app.name} has no Home tab")
        self._opened(app, "home")
        return self.home(app)

    def _opened(self, app: App, tab: str) -> None:
        with self._world.lock:
            channel = self._world.dm(self.id, app)
            event: Json = {
                "type": "app_home_opened",
                "user": self.id,
                "channel": channel.id,
                "tab": tab,
            }
            if tab == "home" and (view := self.home(app)):
                event["view"] = view
            events.emit(self._world, app, event, channel)
            if tab == "messages":
                assistants.begin(self._world, app, channel, self.id)
            self._world.touch([self.id])

    def home(self, app: App | None = None) -> Json | None:
        """Return the person's Home view of the app (None: the first), with what is typed in it.

        None if the app published nothing.
        """
        with self._world.lock:
            view = self._world.homes.get((self.id, self._world.own(app).id))
            return view.with_state() if view else None

    # shortcuts and agents

    def shortcut(
        self, callback_id: str, app: App | None = None, channel: str | None = None
    ) -> Delivery:
        """Use a global shortcut while looking at a channel; returns the delivery at once.

        ValueError if it is none.
        """
        with self._world.lock:
            looking_at = self._channel(channel).id if channel else ""
            return shortcuts.use_global(
                self._world, self.id, callback_id, app.id if app else "", looking_at
            )

    def message_shortcut(
        self, channel: str, ts: str, callback_id: str, app: App | None = None
    ) -> Delivery:
        """Use a message shortcut; returns the delivery at once. ValueError if it is none."""
        world = self._world
        with world.lock:
            place = self._channel(channel)
            shown = next(
                (messages.seen(world, m) for m in world.visible(self.id, place) if m.ts == ts), None
            )
            if shown is None:
                raise ValueError(f"{self.name} sees no message {ts} in {channel}")
            return shortcuts.use_message(
                world, self.id, callback_id, app.id if app else "", place.id, shown
            )

    def stop_agent(self, channel: str, thread_ts: str) -> Delivery | None:
        """Press Slack's Stop in a thread; the app gets agent_session_stopped.

        Returns the delivery, None if the app did not subscribe to that event.
        """
        return agents.stopped(self._world, self.id, self._world.channel(channel).id, thread_ts)

    def rename_session(self, channel: str, thread_ts: str, title: str) -> Delivery | None:
        """Give the agent's session in a thread another title; the app is notified.

        Returns the delivery, None if the app did not subscribe to that event. ValueError if there
        is no session.
        """
        with self._world.lock:
            place = self._channel(channel)
            for key in self._world.sessions:
                if key[1:] == (place.id, thread_ts):
                    return agents.retitled(self._world, self.id, key, title)
            raise ValueError(f"there is no session in {channel} at {thread_ts}")
