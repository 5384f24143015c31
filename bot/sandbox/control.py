"""The HTTP interface of the page: what a person sees, what they do, and a stream that says when to look again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web

from bot.sandbox import agents, interact, messages, views
from bot.sandbox.actor import Actor
from bot.sandbox.people import TEAM, TEAM_NAMES, Channel, Person
from bot.sandbox.records import Delivery
from bot.sandbox.state import World
from bot.sandbox.wire import Json

PAGE = Path(__file__).parent / "page"
Action = Callable[[Actor, Json], Awaitable[Json]]


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
        router.add_get("/sandbox/people", self._people)
        router.add_get("/sandbox/state", self._state)
        router.add_get("/sandbox/events", self._events)
        router.add_post("/sandbox/clock", self._clock)
        actions: dict[str, Action] = {
            "say": self._say,
            "open": self._open,
            "click": self._click,
            "view/click": self._view_click,
            "view/submit": self._view_submit,
            "view/close": self._view_close,
            "stop": self._stop,
        }
        for name, action in actions.items():
            router.add_post(f"/sandbox/{name}", self._acting(action))

    # files

    async def _index(self, request: web.Request) -> web.StreamResponse:
        path = PAGE / "index.html"
        return web.FileResponse(path) if path.is_file() else web.Response(text="The sandbox is running.")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        path = (PAGE / request.match_info["path"]).resolve()
        if not path.is_relative_to(PAGE.resolve()) or not path.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(path, headers={"Cache-Control": "no-cache"})

    async def _archive(self, request: web.Request) -> web.StreamResponse:
        digits = request.match_info["ts"].removeprefix("p")
        ts = f"{digits[:-6]}.{digits[-6:]}"
        thread = request.query.get("thread_ts", "")
        raise web.HTTPFound(f"/?channel={request.match_info['channel']}&ts={ts}&thread_ts={thread}")

    # seeing

    def _who(self, user: str) -> Person:
        person = self.world.by_id.get(user) or self.world.people.get(user)
        if person is None:
            raise web.HTTPNotFound(text=f"there is no {user!r}")
        return person

    def _people_json(self) -> list[Json]:
        people = [
            {
                "id": p.id,
                "name": p.name,
                "real_name": p.real_name,
                "team_id": p.team_id,
                "team": TEAM_NAMES[p.team_id][0],
                "is_restricted": p.is_restricted,
                "deleted": p.deleted,
                "is_bot": False,
            }
            for p in self.world.people.values()
        ]
        of_bots: Json = {"team_id": TEAM, "team": TEAM_NAMES[TEAM][0], "deleted": False, "is_restricted": False}
        bots = [
            {"id": app.bot_user, "name": app.name, "real_name": app.name, "is_bot": True, **of_bots}
            for app in self.world.apps.values()
        ]
        return [*people, *bots]

    async def _people(self, request: web.Request) -> web.Response:
        with self.world.lock:
            return web.json_response(self._people_json())

    async def _state(self, request: web.Request) -> web.Response:
        me = self._who(request.query.get("as", ""))
        with self.world.lock:
            return web.json_response(self._seen_by(me))

    def _seen_by(self, me: Person) -> Json:
        world = self.world
        if me.team_id in TEAM_NAMES and not me.deleted:
            for app in world.apps.values():
                world.dm(me.id, app)
        mine = [c for c in world.channels.values() if me.id in c.members]
        ids = {c.id for c in mine}
        people = {p["id"]: p for p in self._people_json()}
        return {
            "me": people[me.id],
            "people": list(people.values()),
            "groups": [{"id": g.id, "handle": g.handle, "users": g.users} for g in world.groups.values()],
            "channels": [self._channel(c, me) for c in mine],
            "messages": {c.id: [messages.seen(world, m) for m in world.visible(me.id, c)] for c in mine},
            "statuses": [
                {"channel": s.channel, "thread_ts": s.thread_ts, "status": s.status}
                for s in agents.current_statuses(world)
                if s.channel in ids
            ],
            "prompts": {c.id: agents.prompts_of(world, c) for c in mine if c.kind == "im"},
            "views": [views.with_state(v) for v in world.stacks.get(me.id, [])],
            "notifications": world.notes.get(me.id, []),
            "bot": {"id": world.app.bot_user, "name": world.app.name},
            "now": world.now(),
            "seq": world.seq,
        }

    def _channel(self, channel: Channel, me: Person) -> Json:
        name = self.world.app_of_dm(channel).name if channel.kind == "im" else channel.name
        return {
            "id": channel.id,
            "name": name,
            "is_im": channel.kind == "im",
            "is_private": channel.kind != "channel",
            "is_ext_shared": channel.is_ext_shared,
            "is_archived": channel.is_archived,
            "topic": channel.topic,
            "members": list(channel.members),
            "unread": self.world.unread(me.id, channel),
        }

    # streaming changes

    def _changed(self, seq: int, audience: frozenset[str] | None) -> None:
        loop = self._loop
        if loop is None or loop.is_closed() or not self._listeners:
            return
        for queue, user in list(self._listeners.items()):
            if audience is None or user in audience:
                loop.call_soon_threadsafe(queue.put_nowait, seq)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        me = self._who(request.query.get("as", ""))
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

    # doing

    def _acting(self, action: Action) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            body = await request.json()
            try:
                actor = Actor(self.world, self._who(body.get("as", "")).name)
                return web.json_response({"ok": True, **await action(actor, body)})
            except (ValueError, KeyError) as error:
                return web.json_response({"ok": False, "message": str(error)})

        return handle

    async def _outcome(self, delivery: Delivery) -> Json:
        """Whether the app took it, in the words of Slack's warning where it did not."""
        await asyncio.to_thread(delivery.wait, 10.0)
        return {} if delivery.ok else {"ok": False, "message": interact.WARNINGS[delivery.outcome]}

    async def _say(self, actor: Actor, body: Json) -> Json:
        return {"ts": actor.say(body["channel"], body["text"], body.get("thread_ts"))}

    async def _open(self, actor: Actor, body: Json) -> Json:
        with self.world.lock:
            channel = self.world.channel(body["channel"])
            self.world.read(actor.id, channel)
        if channel.kind == "im":
            actor.open_dm(self.world.app_of_dm(channel))
        return {}

    async def _click(self, actor: Actor, body: Json) -> Json:
        value, selected = _chosen(body)
        place = (body["channel"], body["ts"], body["action_id"], body.get("block_id"))
        return await self._outcome(actor.click(*place, value, selected))

    async def _view_click(self, actor: Actor, body: Json) -> Json:
        with self.world.lock:
            view = interact.top(self.world, actor.id, body.get("view_id"))
            interact.typed_in(view, _values(body.get("state")))
            value, selected = _chosen(body)
            delivery = actor.click_view(body["action_id"], body.get("block_id"), value, selected)
        return await self._outcome(delivery)

    async def _view_submit(self, actor: Actor, body: Json) -> Json:
        values = _values(body.get("state"))
        result = await asyncio.to_thread(interact.submit, self.world, actor.id, body.get("view_id"), values)
        return {"ok": "message" not in result, **result}

    async def _view_close(self, actor: Actor, body: Json) -> Json:
        everything = bool(body.get("everything"))
        interact.close_view(self.world, actor.id, body.get("view_id"), everything=everything)
        return {}

    async def _stop(self, actor: Actor, body: Json) -> Json:
        actor.stop_agent(body["channel"], body["thread_ts"])  # an event: nobody waits for its acknowledgement
        return {}

    async def _clock(self, request: web.Request) -> web.Response:
        body = await request.json()
        try:
            now = self.world.clock.advance(float(body.get("advance", 0)))
        except (ValueError, TypeError) as error:
            return web.json_response({"ok": False, "message": str(error)})
        return web.json_response({"ok": True, "now": now.timestamp()})


def _chosen(body: Json) -> tuple[str | None, Any]:
    option = body.get("selected_option")
    return body.get("value"), option["value"] if isinstance(option, dict) else option


def _values(state: Any) -> Json:
    """Element states by block and action, from `state` as the page sends it (with or without "values" around)."""
    if not isinstance(state, dict):
        return {}
    values: Json = state["values"] if set(state) == {"values"} else state
    return values
