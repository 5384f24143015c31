"""Files over HTTP: the address that takes an upload, the one that gives a file, people's uploads.

Apps show their bot token; the page says whom it acts as (`?as=`). Everyone else gets Slack's
sign-in page, an app without files:read as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from aiohttp import BodyPartReader, web

from slack_sandbox.client.member import Member
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import file_store
from slack_sandbox.web_api.file_store import STORE_LIMIT
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.file_record import File
from slack_sandbox.workspace.state import World

SIGN_IN = (
    "<!DOCTYPE html><title>Sign in | Slack</title>"
    "<p>Sign in to see this file: its address takes a bot token.</p>"
)


class FilesHttp:
    """Serves /upload/v1/…, /files-pri/… and /sandbox/upload."""

    def __init__(self, world: World) -> None:
        self.world = world

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the routes into the server."""
        router.add_route("POST", "/upload/v1/{ticket}", self._upload)
        router.add_route("PUT", "/upload/v1/{ticket}", self._upload)
        router.add_get("/files-pri/{key}/{name}", self._give)
        router.add_post("/sandbox/upload", self._from_person)

    async def _body(self, request: web.Request, most: int) -> bytes | None:
        """The bytes of a request, raw or as the first file of a form; None for more than `most`."""
        if request.content_type != "multipart/form-data":
            return await _all(request.content.read, most)
        async for part in await request.multipart():
            if isinstance(part, BodyPartReader) and part.filename:
                return await _all(part.read_chunk, most)
        return b""

    async def _upload(self, request: web.Request) -> web.Response:
        ticket = request.match_info["ticket"]
        with self.world.lock:
            worlds = self.world.worlds.values()
            world = next((each for each in worlds if ticket in each.uploads), self.world)
            file = world.files.get(world.uploads.get(ticket, ""))
        if file is None or file.data is not None:
            return web.Response(status=404, text="this address does not accept uploads")
        data = await self._body(request, file.size)
        if data is None or len(data) != file.size:
            return web.Response(
                status=400, text=f"the file does not have the announced length of {file.size} bytes"
            )
        with self.world.lock:
            file.data = data
            del world.uploads[ticket]
        return web.Response(text=f"OK - {len(data)}")

    # downloads

    def _app(self, request: web.Request) -> App | None:
        """The app whose bot token the request shows."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        app = self.world.app_of_token(token.strip()) if scheme == "Bearer" else None
        return app if app is not None and token.strip() == app.bot_token else None

    def _lacks_scope(self, request: web.Request) -> bool:
        app = self._app(request)
        return app is not None and "files:read" not in app.scopes

    def _allowed(self, world: World, request: web.Request, file: File) -> bool:
        app, seen_by = self._app(request), file_store.audience(world, file)
        if app is not None:
            # another workspace's bot, which only happens to have the same id
            same = world.shared.same_ids and app.team != world.team
            return not app.revoked and not same and app.bot_user in seen_by
        return request.query.get("as", "") in seen_by

    async def _give(self, request: web.Request) -> web.Response:
        if "Authorization" not in request.headers and "as" not in request.query:
            return web.Response(text=SIGN_IN, content_type="text/html")
        with self.world.lock:
            team, _, file_id = request.match_info["key"].partition("-")
            world = self.world.worlds.get(team, self.world)
            file = world.files.get(file_id)
            if file is None or file.data is None or not file.completed:
                raise web.HTTPNotFound
            if self._lacks_scope(request):
                return web.Response(text=SIGN_IN, content_type="text/html")
            if not self._allowed(world, request, file):
                return web.Response(status=403, text="this file is not for you")
            data, kind, name = file.data, file.mimetype, file.name
        way = (
            "attachment"
            if request.query.get("download") or kind in ("text/html", "image/svg+xml")
            else "inline"
        )
        headers = {
            "Content-Disposition": f"{way}; filename*=UTF-8''{quote(name)}",
            "Content-Type": kind + ("; charset=utf-8" if kind.startswith("text/") else ""),
            "X-Content-Type-Options": "nosniff",
        }
        return web.Response(body=data, headers=headers)

    # uploads by people

    async def _from_person(self, request: web.Request) -> web.Response:
        query = request.query
        world = self.world.worlds.get(query.get("team", ""), self.world)
        person = world.by_id.get(query.get("as", "")) or world.people.get(query.get("as", ""))
        name = query.get("name", "")
        if person is None or not name:
            return web.json_response(
                {"ok": False, "message": "say who uploads (as) and the file's name (name)"}
            )
        with world.lock:
            left = STORE_LIMIT - file_store.stored(world)
        data = await self._body(request, left)
        if not data:
            return web.json_response(
                {"ok": False, "message": "the file is empty or too large for the sandbox"}
            )
        with world.lock:
            channel = world.channels.get(query.get("channel", ""))
            if "channel" in query and (
                channel is None or (person.id not in channel.members or channel.is_archived)
            ):
                return web.json_response(
                    {"ok": False, "message": f"{person.name} cannot post there"}
                )
            if channel is None:
                file = file_store.uploaded(world, name, person.id, data)
                shown: Json = {"file": file_store.file_json(world, file)}
            else:
                actor, thread_ts = Member(world, person.name), query.get("thread_ts")
                ts = actor.share(channel.id, query.get("comment", ""), {name: data}, thread_ts)
                [of_message] = actor.files_of(channel.id, ts)
                shown = {"file": of_message, "ts": ts}
            return web.json_response({"ok": True, **shown})


async def _all(read: Callable[[int], Awaitable[bytes]], most: int) -> bytes | None:
    """Return all that `read` gives; None as soon as there are more bytes than `most`."""
    found = bytearray()
    while chunk := await read(65_536):
        found += chunk
        if len(found) > most:
            return None
    return bytes(found)
