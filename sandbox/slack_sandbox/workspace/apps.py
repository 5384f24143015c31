"""The apps in a workspace of the local Slack: who they are, their secrets, their manifests' wishes.

Plain data; it sends nothing and knows no state of the workspace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slack_sandbox.spec.slack_error import Json

FIRST = 1


@dataclass(eq=False)
class App:
    """One app as one workspace has it: bot, tokens and scopes are of its installation there.

    `manifest` is read as it stands, so that a change to it counts at once.
    """

    id: str
    manifest: Json
    bot_user: str
    bot_id: str
    bot_token: str
    app_token: str
    client_id: str
    client_secret: str
    signing_secret: str
    team: str  # the workspace of this installation
    installed: bool = True
    # distributed to other companies but not in Slack's Marketplace: it may read fewer messages
    is_unlisted: bool = False
    is_org_wide: bool = False  # installed in an org: the same bot and token in all its workspaces
    revoked: bool = False  # the bot token is no longer valid
    verified: bool = False  # the request URL has answered Slack's challenge
    granted: frozenset[str] | None = None  # scopes granted by OAuth; None: the manifest's
    token_until: float | None = None  # sandbox seconds; None: the token does not expire
    refresh_token: str = ""
    # token replaced by rotation -> until when it is valid (sandbox seconds)
    earlier_tokens: dict[str, float] = field(default_factory=dict)

    def _at(self, *path: str) -> Any:
        """Return what the manifest has at that path; None if it has nothing there."""
        found: Any = self.manifest
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    @property
    def name(self) -> str:
        """The bot's user name."""
        return str(self._at("features", "bot_user", "display_name") or "countersign").lower()

    @property
    def title(self) -> str:
        """The app's name as people read it: that of the manifest, else the bot's, capitalized."""
        said = self._at("display_information", "name") or self._at(
            "features", "bot_user", "display_name"
        )
        return str(said or "Sandbox")

    @property
    def wanted_scopes(self) -> frozenset[str]:
        """The bot scopes that its manifest asks for."""
        return frozenset(self._at("oauth_config", "scopes", "bot") or ())

    @property
    def scopes(self) -> frozenset[str]:
        """The bot scopes that the app was given."""
        return self.wanted_scopes if self.granted is None else self.granted

    @property
    def subscriptions(self) -> frozenset[str]:
        """The bot events that the app asked for."""
        return frozenset(self._at("settings", "event_subscriptions", "bot_events") or ())

    @property
    def agent_view(self) -> Json | None:
        """The manifest's agent_view, or None if the app is no agent."""
        view: Json | None = self._at("features", "agent_view")
        return view

    @property
    def assistant_view(self) -> Json | None:
        """The manifest's assistant_view, which agents had before there was agent_view, or None."""
        view: Json | None = self._at("features", "assistant_view")
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

    @property
    def redirect_urls(self) -> list[str]:
        """The addresses to which, or below which, people may be sent back after an install."""
        return list(self._at("oauth_config", "redirect_urls") or ())

    @property
    def rotates(self) -> bool:
        """Whether the app's tokens expire and are refreshed."""
        return bool(self._at("settings", "token_rotation_enabled"))

    def has(self, token: str) -> bool:
        """Whether this is or was a bot token of the app, or its app-level token."""
        known = (self.bot_token, self.app_token, *self.earlier_tokens)
        return bool(token) and token in known

    def token_expired(self, token: str, now: float) -> bool:
        """Return whether a bot token of the app has expired; `now` in sandbox seconds."""
        until = self.token_until if token == self.bot_token else self.earlier_tokens.get(token)
        return until is not None and now > until

    # request URLs; "" if the manifest has none

    @property
    def events_url(self) -> str:
        """The URL to which events are sent; "" for none."""
        return str(self._at("settings", "event_subscriptions", "request_url") or "")

    @property
    def interactivity_url(self) -> str:
        """The URL to which clicks, submissions and shortcuts are sent; "" for none."""
        return str(self._at("settings", "interactivity", "request_url") or "")

    @property
    def options_url(self) -> str:
        """The URL that external selects ask for their options; "" for none."""
        return str(self._at("settings", "interactivity", "message_menu_options_url") or "")

    def command_url(self, command: str) -> str:
        """Return the URL to which a slash command (with its slash) is sent."""
        return next(
            (str(c.get("url") or "") for c in self.commands if c.get("command") == command), ""
        )

    @property
    def over_http(self) -> bool:
        """Whether payloads go to request URLs: there is one, and Socket Mode is not switched on."""
        urls = [
            self.events_url,
            self.interactivity_url,
            self.options_url,
            *(c.get("url") for c in self.commands),
        ]
        return any(urls) and not self._at("settings", "socket_mode_enabled")


def new_app(manifest: Json, number: int, team: str, mark: str, *, installed: bool) -> App:
    """App number 1, 2, 3 … of a sandbox as a workspace has it, with the same secrets every time.

    `mark` tells the bot's ids from those in other workspaces.
    """
    if number == FIRST:
        ids, tail = ("A0COUNTER", "UBOT00001", "BBOT00001"), ""
    else:
        ids, tail = (f"A0APP{number:04}", f"UBOT{number:05}", f"BBOT{number:05}"), f"-{number}"
    return App(
        ids[0],
        manifest,
        ids[1] + mark,
        ids[2] + mark,
        bot_token=f"xoxb-sandbox-bot{tail}" if installed else "",
        app_token=f"xapp-1-sandbox-app{tail}",
        client_id=f"1000000000.{number:010}",
        client_secret=f"sandbox-client-secret{tail}",
        signing_secret=f"sandbox-signing-secret{tail}",
        team=team,
        installed=installed,
        revoked=not installed,
    )
