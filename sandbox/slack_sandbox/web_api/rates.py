"""Rate limits: requests a minute by method, app and workspace; messages a second by channel.

Off unless switched on, except that an unlisted app may read messages once a minute only. It runs on
the sandbox's clock, so that moving the clock frees what waits. Called with the world's lock held.
"""

from __future__ import annotations

import math
from collections import deque

from slack_sandbox.spec.facts import TIERS
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.state import World

WINDOW_SECONDS = 60.0  # over which the requests of a tier are counted
CHANNEL_MESSAGES_PER_SECOND = 1.0
CHANNEL_BURST = 5  # messages that a quiet channel accepts at once
# one call a minute for unlisted apps (docs.slack.dev: Rate limit changes for non-Marketplace apps)
UNLISTED_METHODS = ("conversations.history", "conversations.replies")


class Rates:
    """Counts calls; `enabled` switches the limits on and off, and off forgets what was counted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._enabled = False
        # (workspace, app, method) -> times of its calls, in sandbox seconds
        self._calls: dict[tuple[str, str, str], deque[float]] = {}
        # (workspace, app, channel) -> (messages left, at what time)
        self._channels: dict[tuple[str, str, str], tuple[float, float]] = {}

    @property
    def enabled(self) -> bool:
        """Whether calls are limited."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        with self.world.lock:
            self._enabled = value
            self._calls.clear()
            self._channels.clear()

    def wait_for(self, app: App, method: str, args: Json) -> int:
        """Count one call of that app; return 0, or the whole seconds after which to try again.

        A refused call is not counted, nor is one of a method that does not exist.
        """
        is_reading = app.is_unlisted and method in UNLISTED_METHODS
        if not (self._enabled or is_reading) or method not in TIERS:
            return 0
        now = self.world.now()
        calls = self._calls.setdefault((app.team, app.id, method), deque())
        while calls and calls[0] <= now - WINDOW_SECONDS:
            calls.popleft()
        if len(calls) >= (1 if is_reading else TIERS[method]):
            return max(1, math.ceil(calls[0] + WINDOW_SECONDS - now))
        channel = str(args.get("channel", "")) if method == "chat.postMessage" else ""
        if channel and (wait := self._channel(app, channel, now)):
            return wait
        calls.append(now)
        return 0

    def _channel(self, app: App, channel: str, now: float) -> int:
        key = (app.team, app.id, channel)
        left, since = self._channels.get(key, (float(CHANNEL_BURST), now))
        left = min(float(CHANNEL_BURST), left + (now - since) * CHANNEL_MESSAGES_PER_SECOND)
        enough = left >= 1
        self._channels[key] = (left - 1 if enough else left, now)
        return 0 if enough else max(1, math.ceil((1 - left) / CHANNEL_MESSAGES_PER_SECOND))
