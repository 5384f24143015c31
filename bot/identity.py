"""The bot's ids in its workspace, and what a process for many workspaces passes to each app."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from bot.monitoring.spans import Exporter


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids of the workspace and of the bot in it, and the workspace's address."""

    team: str
    user: str
    bot: str
    workspace: str = ""  # the address, "https://example.slack.com/"

    @classmethod
    def from_auth_test(cls, get_field: Callable[[str], Any]) -> Identity:
        """Return the identity; `get_field` returns a field of what Slack's `auth.test` answered."""
        fields = ("team_id", "user_id", "bot_id", "url")
        return cls(*(str(get_field(name) or "") for name in fields))


@dataclass(frozen=True, slots=True)
class HostedApp:
    """What a process that serves several workspaces passes to the app of one of them."""

    identity: Identity
    scopes: frozenset[str]  # granted at the installation
    url: str  # where that process serves the HTTP side of this workspace
    exporters: tuple[Exporter, ...] = ()  # for this workspace's spans and events
    # of an organisation: the workspaces that it lets the bot use; None for a single workspace
    list_granted_workspaces: Callable[[], Collection[str]] | None = None
