"""The apps that are installed in the local Slack: who they are, their secrets, and what their manifests ask for.

Plain data; it sends nothing and knows no state of the workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bot.sandbox.wire import Json

FIRST = 1


@dataclass(eq=False)
class App:
    """One app, installed; `manifest` is read as it stands, so that a change to it counts at once."""

    id: str
    manifest: Json
    bot_user: str
    bot_id: str
    bot_token: str
    app_token: str
    client_id: str
    client_secret: str
    signing_secret: str
    revoked: bool = False  # the bot token is no longer good

    def _at(self, *path: str) -> Any:
        """What the manifest says at that path, None where it says nothing."""
        found: Any = self.manifest
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    @property
    def name(self) -> str:
        """The bot's user name."""
        return str(self._at("features", "bot_user", "display_name") or "countersign").lower()

    @property
    def scopes(self) -> frozenset[str]:
        """The bot scopes that the app was given."""
        return frozenset(self._at("oauth_config", "scopes", "bot") or ())

    @property
    def subscriptions(self) -> frozenset[str]:
        """The bot events that the app asked for."""
        return frozenset(self._at("settings", "event_subscriptions", "bot_events") or ())

    @property
    def agent_view(self) -> Json | None:
        """The manifest's agent_view, or None where the app is no agent."""
        view: Json | None = self._at("features", "agent_view")
        return view

    @property
    def app_home(self) -> Json:
        """The manifest's app_home: which tabs of the conversation with the app there are."""
        return dict(self._at("features", "app_home") or {})

    @property
    def commands(self) -> list[Json]:
        """The manifest's slash commands: command, description, usage_hint, should_escape, url."""
        return list(self._at("features", "slash_commands") or ())

    @property
    def shortcuts(self) -> list[Json]:
        """The manifest's shortcuts: name, type (global or message), callback_id, description."""
        return list(self._at("features", "shortcuts") or ())


def new_app(manifest: Json, number: int) -> App:
    """The app that is installed as number 1, 2, 3 … of a workspace; the same ids and secrets every time."""
    if number == FIRST:
        ids, tail = ("A0COUNTER", "UBOT00001", "BBOT00001"), ""
    else:
        ids, tail = (f"A0APP{number:04}", f"UBOT{number:05}", f"BBOT{number:05}"), f"-{number}"
    return App(
        ids[0],
        manifest,
        ids[1],
        ids[2],
        bot_token=f"xoxb-sandbox-bot{tail}",
        app_token=f"xapp-1-sandbox-app{tail}",
        client_id=f"1000000000.{number:010}",
        client_secret=f"sandbox-client-secret{tail}",
        signing_secret=f"sandbox-signing-secret{tail}",
    )
