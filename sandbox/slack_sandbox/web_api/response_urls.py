"""response_url: answers to an interaction, five times within thirty minutes.

It is the only way to change an ephemeral message. It knows the world and the messages, no page and
no Web API.
"""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web

from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import message_parts
from slack_sandbox.web_api.arguments import Args
from slack_sandbox.workspace import messages
from slack_sandbox.workspace.messages import Draft
from slack_sandbox.workspace.records import ResponseUrl
from slack_sandbox.workspace.state import World

MAX_USES = 5


class ResponseUrls:
    """Serves /actions/<team>/<token>."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def handle(self, request: web.Request) -> web.Response:
        """Take one answer; reply "ok", or an error code with status 404 or 400."""
        try:
            body: Any = await request.json()
        except json.JSONDecodeError:
            return _refusal(400, "invalid_payload")
        if not isinstance(body, dict):
            return _refusal(400, "invalid_payload")
        with self.world.lock:
            link = self.world.response_urls.get(request.match_info["token"])
            if link is None or self.world.now() > link.until:
                return _refusal(404, "expired_url")
            if link.uses >= MAX_USES:
                return _refusal(404, "used_url")
            link.uses += 1
            try:
                self._apply(link, body)
            except SlackError as error:
                return _refusal(400, error.code)
        return web.Response(text="ok")

    def _apply(self, link: ResponseUrl, body: Json) -> None:
        world = self.world.worlds[link.team]
        app = world.apps[link.app_id]
        original = world.messages.get(link.channel, {}).get(link.ts)
        if body.get("delete_original"):
            if original and original.only_for:
                del world.messages[link.channel][link.ts]
                world.touch([link.user])
            elif original:
                messages.remove(world, original)
            return
        args = Args(body, app)
        text, blocks = message_parts.content(args)
        extra = message_parts.extras(args, blocks)
        if not text and not blocks and not extra:
            raise SlackError("no_text")
        if body.get("replace_original") and original is not None:
            messages.edit(
                world, original, text=text or "", blocks=blocks or [], by=app.bot_user, marked=False
            )
            return
        draft = Draft(
            world.channels[link.channel],
            app.bot_user,
            text or "",
            blocks or [],
            str(body.get("thread_ts") or ""),
        )
        draft.extra = extra
        draft.only_for = "" if body.get("response_type") == "in_channel" else link.user
        messages.add(world, draft)


def _refusal(status: int, code: str) -> web.Response:
    return web.json_response({"ok": False, "error": code}, status=status)
