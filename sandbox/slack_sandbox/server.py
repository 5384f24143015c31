"""The strict local Slack: one object that a test or the demo starts, stops and plays with.

`Sandbox` runs an aiohttp server on a thread of its own. It never imports the bot.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TypeVar

from aiohttp import web

from slack_sandbox.client.admin import Admin
from slack_sandbox.delivery.transports import Transports
from slack_sandbox.http import avatars
from slack_sandbox.http.consent import Consent
from slack_sandbox.http.control import Control
from slack_sandbox.http.faults import ControlFaults
from slack_sandbox.http.files import FilesHttp
from slack_sandbox.http.origins import own_page_only
from slack_sandbox.setup.manifests import full_manifest
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import scheduled
from slack_sandbox.web_api.catalogue import METHODS
from slack_sandbox.web_api.faults import Faults
from slack_sandbox.web_api.response_urls import ResponseUrls
from slack_sandbox.web_api.server import WebApi
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.clock import Clock, ShiftedClock
from slack_sandbox.workspace.people import Person
from slack_sandbox.workspace.records import ApiCall, Delivery
from slack_sandbox.workspace.seed import Seed, default_seeds
from slack_sandbox.workspace.state import Shared, World

T = TypeVar("T")


class Sandbox(Admin):
    """A workspace with one app installed; start it, connect the app to it, and act as people.

    The app is handed `api_url` and the tokens; `install` adds other apps.
    """

    def __init__(
        self,
        manifest: Json | None = None,
        clock: Clock | None = None,
        seed: Seed | Sequence[Seed] | None = None,
        port: int = 0,
        guide: Callable[[World], Json] | None = None,
        *,
        shares_clock: bool = False,
        workspaces: int = 1,
        org: int = 0,
        same_ids: bool = False,
    ) -> None:
        """Without a manifest the app may do all that the sandbox knows.

        `workspaces`: how many there are, unless `seed` says it; the app is installed in the first.
        The first `org` of them form one org. `same_ids`: channels, people and messages have the
        same ids in each workspace, so that a test notices what leaks from one into another.

        `shares_clock`: whether the apps use this clock, too: HTTP requests are then signed with its
        time. Otherwise they are signed with the machine's, which an app in its own process uses.
        """
        self.clock: Clock = clock or ShiftedClock()
        if seed is None:
            seeds = default_seeds(workspaces, org, same_ids=same_ids)
        else:
            seeds = [seed] if isinstance(seed, Seed) else list(seed)
        shared = Shared(self.clock, same_ids)
        for each in seeds:
            World(full_manifest() if manifest is None else manifest, self.clock, each, shared)
        world = next(iter(shared.worlds.values()))
        super().__init__(world)
        world.guide = guide
        self.team_id = world.team
        self.url = self.api_url = ""
        self._loop = asyncio.new_event_loop()
        self._transports = Transports(
            self.world, self._loop, self.world.now if shares_clock else time.time
        )
        self._transports.installed(self.world.app)
        self.faults = Faults(self.world, self._transports)
        self._web = WebApi(self.world, self._transports, self.faults, METHODS)
        self._control = Control(self.world)
        self.rates = self._web.rates
        self._response_urls = ResponseUrls(self.world)
        self._port = port
        self._thread: threading.Thread | None = None
        self._timer: asyncio.TimerHandle | None = None

    # start and end

    def start(self) -> None:
        """Serve on 127.0.0.1; returns when it answers. RuntimeError or OSError when it cannot."""
        ready: threading.Event = threading.Event()
        failed: list[BaseException] = []

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            try:
                runner = self._loop.run_until_complete(self._serve())
            except BaseException as error:  # noqa: BLE001  raised again on the caller's thread
                failed.append(error)
                ready.set()
                return
            ready.set()
            self._loop.run_forever()
            self._loop.run_until_complete(runner.cleanup())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

        self._thread = threading.Thread(target=run, name="sandbox", daemon=True)
        self._thread.start()
        ready.wait(10)
        if failed:
            raise failed[0]
        self.clock.on_shift.append(self._clock_moved)
        self.world.watchers.append(self._changed)

    async def _serve(self) -> web.AppRunner:
        app = web.Application(middlewares=[own_page_only], client_max_size=8 * 1024 * 1024)
        app.router.add_get("/api/{method}", self._web.handle, allow_head=False)
        app.router.add_post("/api/{method}", self._web.handle)
        app.router.add_get("/link/", self._transports.link)
        app.router.add_post("/actions/{team}/{token}", self._response_urls.handle)
        self._control.add_routes(app.router)
        ControlFaults(self.world, self.faults, self.rates).add_routes(app.router)
        app.on_cleanup.append(self._transports.close)
        FilesHttp(self.world).add_routes(app.router)
        Consent(self.world).add_routes(app.router)
        avatars.add_routes(app.router)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, handle_signals=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._port).start()
        self.url = self.world.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self.api_url = f"{self.url}/api/"
        return runner

    def stop(self) -> None:
        """Close every connection and end the thread."""
        if self._thread is None or not self._thread.is_alive():
            return
        if self._clock_moved in self.clock.on_shift:
            self.clock.on_shift.remove(self._clock_moved)
            self.world.watchers.remove(self._changed)
        self.faults.clear()
        self._control.close()
        self._transports.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._thread = None

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def install(self, app: Json | App, channels: Iterable[str] = (), workspace: str = "") -> App:
        """Install an app, its bot in these channels (names or ids): see `Admin.install`.

        `workspace`: the id of the workspace, by default the first. The app's request URL, if it has
        one, is verified.
        """
        there = self.workspace(workspace or self.team_id)
        app = there.install(app, channels)
        self._transports.installed(app)
        return app

    def workspace(self, team: str) -> Admin:
        """A workspace by its id: its people, and what an administrator does; KeyError for none."""
        return Admin(self.world.worlds[team])

    # the clock and what is due

    def _clock_moved(self) -> None:
        with self.world.lock:
            self.world.touch()
        self._transports.timers.wake()
        self._loop.call_soon_threadsafe(self._post_due)

    def _changed(self, _seq: int, _audience: frozenset[str] | None) -> None:
        if any(world.scheduled for world in self.world.worlds.values()):
            self._loop.call_soon_threadsafe(self._post_due)

    def _post_due(self) -> None:
        with self.world.lock:
            next_ones = [scheduled.post_due(each) for each in self.world.worlds.values()]
            due = min((each for each in next_ones if each is not None), default=None)
        if self._timer:
            self._timer.cancel()
        self._timer = (
            None
            if due is None
            else self._loop.call_later(max(0.0, due - self.world.now()), self._post_due)
        )

    # reading the state

    @property
    def bot_token(self) -> str:
        """The bot token of the first app."""
        return self.world.app.bot_token

    @property
    def app_token(self) -> str:
        """The app-level token of the first app."""
        return self.world.app.app_token

    @property
    def bot_user_id(self) -> str:
        """The user id of the first app's bot."""
        return self.world.app.bot_user

    @property
    def people(self) -> dict[str, Person]:
        """Everybody, by short name."""
        return self.world.people

    @property
    def deliveries(self) -> list[Delivery]:
        """Every payload ever sent to an app, in the order they were made."""
        with self.world.lock:
            return list(self.world.deliveries)

    @property
    def requests(self) -> list[ApiCall]:
        """Every call of the Web API that was answered or cut, in that order."""
        with self.world.lock:
            return list(self.world.requests)

    def wait(self, predicate: Callable[[], T], timeout: float = 30.0) -> T:
        """Return the first truthy value of `predicate`, asked again on every change.

        Raises TimeoutError, with a dump of the state, if it takes too long. The predicate may also
        look at things outside the sandbox: it is asked at least four times a second.
        """
        end = time.monotonic() + timeout
        while True:
            with self.world.lock:
                seq = self.world.seq
            if value := predicate():
                return value
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(
                    f"not within {timeout} s; the sandbox has\n  {self.world.dump()}"
                )
            with self.world.condition:
                if self.world.seq == seq:
                    self.world.condition.wait(min(left, 0.25))

    def wait_connected(self, timeout: float = 30.0, app: App | None = None) -> None:
        """Wait until the app (None: the first one) has a socket open; TimeoutError otherwise."""
        hub = self._transports.hub(app or self.world.app)
        self.wait(lambda: bool(hub.sockets), timeout)

    @property
    def connections(self) -> int:
        """How many sockets the apps have open."""
        return self._transports.connections

    @property
    def closed(self) -> list[int]:
        """How sockets have ended, as close codes; 1006 is one without a close frame."""
        return self._transports.closed
