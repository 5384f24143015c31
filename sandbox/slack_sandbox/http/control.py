"""The HTTP interface of the page: what a person sees and does, and a stream of changes.

A body that is malformed is answered with 400, an unknown person or thing with 404; what the person
cannot do is answered with {"ok": false, "message"}.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from slack_sandbox.client.actor import Actor
from slack_sandbox.http import views
from slack_sandbox.http.actions import ACTIONS
from slack_sandbox.http.bodies import body_of, refusal
from slack_sandbox.http.fields import CLOCK, Fields
from slack_sandbox.workspace.people import Person
from slack_sandbox.workspace.state import World

if TYPE_CHECKING:  # only for type annotations
    from slack_sandbox.http.actions import Action

PAGE = Path(__file__).parents[1] / "page"
Query = Mapping[str, str]


class Control:
    """Serves / , /page/… and /sandbox/…"""

    def __init__(self, world: World) -> None:
        self.world = world
        self._listeners: dict[asyncio.Queue[int | None], str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        world.watchers.append(self._changed)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the routes of the page into the server."""
        self._loop = asyncio.get_running_loop()
        router.add_get("/", self._index)
        router.add_get("/page/{path:.+}", self._file)
        router.add_get("/archives/{channel}/{ts}", self._archive)
        router.add_get("/sandbox/events", self._events)
        router.add_post("/sandbox/clock", self._clock)
        for looking in (
            self._people,
            self._state,
            self._deliveries,
            self._calls,
            self._message,
            self._view,
        ):
            router.add_get(f"/sandbox/{looking.__name__[1:]}", self._looking(looking))
        for name, (fields, action) in ACTIONS.items():
            router.add_post(f"/sandbox/{name}", self._acting(action, fields))

    # files

    async def _index(self, request: web.Request) -> web.StreamResponse:
        path = PAGE / "index.html"
        if not path.is_file():
            return web.Response(text="The sandbox is running.")
        text = path.read_text("utf-8").replace("{title}", html.escape(self.world.title))
        return web.Response(
            text=text, content_type="text/html", headers={"Cache-Control": "no-cache"}
        )

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = (PAGE / request.match_info["path"]).resolve()
        if not path.is_relative_to(PAGE.resolve()) or not path.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(path, headers={"Cache-Control": "no-cache"})

    async def _archive(self, request: web.Request) -> web.StreamResponse:
        digits = request.match_info["ts"].removeprefix("p")
        ts = f"{digits[:-6]}.{digits[-6:]}"
        thread = request.query.get("thread_ts", "")
        channel = request.match_info["channel"]
        there = [team for team, world in self.world.worlds.items() if channel in world.channels]
        team = f"&team={there[0]}" if there and there[0] != self.world.team else ""
        raise web.HTTPFound(f"/?channel={channel}&ts={ts}&thread_ts={thread}{team}")

    # reading the state

    def _world(self, team: str | None) -> World:
        """The workspace of that id; the first where none is named."""
        if team and team not in self.world.worlds:
            raise refusal(web.HTTPNotFound, f"there is no workspace {team!r}")
        return self.world.worlds[team] if team else self.world

    def _who(self, world: World, user: str) -> Person:
        person = world.by_id.get(user) or world.people.get(user)
        if person is None or world.people.get(person.name) is not person:
            raise refusal(web.HTTPNotFound, f"there is no {user!r}")
        return person

    def _looking(
        self, look: Callable[[Query], Any]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            with self.world.lock:
                found = look(request.query)
                if found is None:
                    raise refusal(web.HTTPNotFound, "there is no such thing")
                return web.json_response(found)

        return handle

    def _people(self, query: Query) -> Any:
        return views.people(self._world(query.get("team")))

    def _state(self, query: Query) -> Any:
        world = self._world(query.get("team"))
        return views.seen_by(world, self._who(world, query.get("as", "")))

    def _deliveries(self, query: Query) -> Any:
        about = (query.get("app", ""), query.get("team", ""))
        return views.deliveries(self.world, about, _after(query))

    def _calls(self, query: Query) -> Any:
        about = (query.get("app", ""), query.get("team", ""))
        return views.calls(self.world, about, _after(query))

    def _message(self, query: Query) -> Any:
        return views.message(
            self._world(query.get("team")), query.get("channel", ""), query.get("ts", "")
        )

    def _view(self, query: Query) -> Any:
        return views.view(self._world(query.get("team")), query.get("id", ""))

    # streaming changes

    def _changed(self, seq: int, audience: frozenset[str] | None) -> None:
        loop = self._loop
        if loop is None or loop.is_closed() or not self._listeners:
            return
        for queue, user in list(self._listeners.items()):
            if audience is None or user in audience:
                loop.call_soon_threadsafe(queue.put_nowait, seq)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        world = self._world(request.query.get("team"))
        me = self._who(world, request.query.get("as", ""))
        queue: asyncio.Queue[int | None] = asyncio.Queue()
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        self._listeners[queue] = me.id
        queue.put_nowait(self.world.seq)
        try:
            while (seq := await queue.get()) is not None:
                while not queue.empty() and (later := queue.get_nowait()) is not None:
                    seq = later
                await response.write(f'data: {{"seq":{seq}}}\n\n'.encode())
        except ConnectionError:
            pass  # the page was closed
        finally:
            self._listeners.pop(queue, None)
        return response

    def close(self) -> None:
        """End every stream, from any thread."""
        if self._loop is not None:
            for queue in list(self._listeners):
                self._loop.call_soon_threadsafe(queue.put_nowait, None)

    # changing the state

    def _acting(
        self, action: Action, fields: Fields
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            body = await body_of(request, {"as": str, "team?": str, **fields})
            world = self._world(body.pop("team", None) or request.query.get("team"))
            actor = Actor(world, self._who(world, body.pop("as")).name)
            try:
                return web.json_response({"ok": True, **await action(world, actor, body)})
            except ValueError as error:
                return web.json_response({"ok": False, "message": str(error)})

        return handle

    async def _clock(self, request: web.Request) -> web.Response:
        body = await body_of(request, CLOCK)
        try:
            now = self.world.clock.advance(float(body.get("advance", 0)))
        except ValueError as error:
            return web.json_response({"ok": False, "message": str(error)})
        return web.json_response({"ok": True, "now": now.timestamp()})


def _after(query: Query) -> int:
    after = query.get("after", "0")
    if not after.isdecimal():
        raise refusal(web.HTTPBadRequest, "after must be a number")
    return int(after)
