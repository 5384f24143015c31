"""Sends payloads to the apps, to each in its own way: by Socket Mode or by HTTP.

It looks into no payload. `send`, `disconnect` and `cut` may be called from any thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from slack_sandbox.delivery.http_mode import HttpMode
from slack_sandbox.delivery.socket_mode import Hub
from slack_sandbox.delivery.timers import Timers
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World


class Transports:
    """The hubs of the apps that use Socket Mode, and HTTP for the others."""

    def __init__(
        self,
        world: World,
        loop: asyncio.AbstractEventLoop,
        signing_time: Callable[[], float],
    ) -> None:
        self.world, self.loop = world, loop
        self.timers = Timers(world.clock, loop)
        self.http = HttpMode(world, loop, self.timers, signing_time)
        self._hubs: dict[str, Hub] = {}
        world.send = self.send

    def hub(self, app: App) -> Hub:
        """The app's sockets."""
        with self.world.lock:
            if app.id not in self._hubs:
                self._hubs[app.id] = Hub(self.world, app, self.loop, self.timers)
            return self._hubs[app.id]

    @property
    def connections(self) -> int:
        """How many sockets all apps have open."""
        return sum(len(hub.sockets) for hub in list(self._hubs.values()))

    @property
    def closed(self) -> list[int]:
        """How the sockets of all apps ended, as close codes; 1006 is one without a close frame."""
        return [code for hub in list(self._hubs.values()) for code in hub.closed]

    def send(self, delivery: Delivery) -> None:
        """Pass a payload to its app; an uninstalled one gets no interactions and no commands."""
        with self.world.lock:
            self.world.deliveries.append(delivery)
        if delivery.kind != "events_api" and not delivery.app.installed:
            with self.world.lock:
                delivery.settle("no_socket")
        elif delivery.app.over_http:
            self.http.send(delivery)
        else:
            self.hub(delivery.app).send(delivery)

    def installed(self, app: App) -> None:
        """Verify the request URL of a newly installed app, if it takes HTTP requests."""
        if app.over_http and app.events_url:
            self.http.verify(app)

    async def link(self, request: web.Request) -> web.StreamResponse:
        """GET /link/?ticket=…&app_id=…: the WebSocket."""
        app = self.world.apps.get(request.query.get("app_id", ""))
        if app is None:
            return web.Response(status=403, text="there is no such app")
        return await self.hub(app).link(request)

    async def close(self, _: web.Application) -> None:
        """End what is under way over HTTP."""
        await self.http.close()

    def _of(self, app: App | None) -> list[Hub]:
        return list(self._hubs.values()) if app is None else [self.hub(app)]

    def disconnect(self, reason: str, app: App | None = None) -> None:
        """Announce on every socket (of that app) that it will close, and close it later."""
        for hub in self._of(app):
            hub.disconnect(reason)

    def count_dead(self, seconds: float, app: App | None = None) -> None:
        """Count sockets (of that app) for so long after they ended without a close frame."""
        for each in [app] if app else list(self.world.apps.values()):
            self.hub(each).counts_dead = seconds

    def split_messages(self, most: int) -> None:
        """Send messages of more bytes in several frames."""
        for each in self._of(None):
            each.max_frame_bytes = most

    def cut(self, app: App | None = None) -> None:
        """Drop every socket (of that app) without a word."""
        for hub in self._of(app):
            hub.cut()
