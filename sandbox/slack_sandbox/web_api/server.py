"""The Web API's front door: formats, tokens, scopes, faults, the log, then the method.

The methods themselves are given, as the catalogue lists them.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from slack_sandbox.delivery.transports import Transports
from slack_sandbox.spec.facts import FACTS, SCOPES
from slack_sandbox.spec.slack_error import Json, SlackError
from slack_sandbox.web_api import formats, orgs, scopes
from slack_sandbox.web_api.arguments import Args, basic, read_args
from slack_sandbox.web_api.faults import Fault, Faults
from slack_sandbox.web_api.rates import Rates
from slack_sandbox.workspace.records import ApiCall
from slack_sandbox.workspace.state import World

if TYPE_CHECKING:
    from slack_sandbox.web_api.catalogue import Method


@dataclass(slots=True)
class _Request:
    method: str
    token: str
    args: Json
    warning: str = ""
    began: float = field(default_factory=time.monotonic)


class WebApi:
    """Answers /api/<method>."""

    def __init__(
        self,
        world: World,
        transports: Transports,
        faults: Faults,
        methods: Mapping[str, Method],
    ) -> None:
        self.world, self.transports, self.faults = world, transports, faults
        self.methods = methods
        self.rates = Rates(world)

    async def handle(self, http: web.Request) -> web.StreamResponse:
        """Answer one call, in JSON, form, multipart or query format."""
        method = http.match_info["method"]
        try:
            call = await self._read(http, method)
        except SlackError as error:
            return self._answer(_Request(method, "", {}), error.body())
        if seconds := self._too_fast(call):
            return self._slow_down(call, seconds)
        app = self.world.app_of_token(call.token)
        fault = self.faults.take(method, call.args, app.team if app else "")
        if fault is None:
            return self._answer(call, self._run(call))
        return await self._with_fault(http, call, fault)

    async def _with_fault(
        self, http: web.Request, call: _Request, fault: Fault
    ) -> web.StreamResponse:
        if fault.kind == "fail":
            return self._answer(call, {"ok": False, "error": fault.error})
        if fault.kind == "rate_limit":
            return self._slow_down(call, fault.number)
        answer = self._run(call) if fault.when == "after" else None
        if fault.kind == "status":
            self._log(call, None, fault.number)
            return web.Response(status=fault.number, text="the server had a fault on demand")
        if fault.hold is not None:
            await fault.hold.wait()
            if fault.hold.effect:
                return self._answer(call, answer or self._run(call))
        self._log(call, None, 0)
        if fault.kind == "hang":
            await self.faults.until_cleared()
        if http.transport is not None:
            http.transport.abort()
        raise asyncio.CancelledError

    def _too_fast(self, call: _Request) -> int:
        with self.world.lock:
            app = self.world.app_of_token(call.token)
            return self.rates.wait_for(app, call.method, call.args) if app else 0

    def _slow_down(self, call: _Request, seconds: int) -> web.Response:
        body = {"ok": False, "error": "ratelimited"}
        self._log(call, body, 429)
        return web.json_response(body, status=429, headers={"Retry-After": str(seconds)})

    async def _read(self, http: web.Request, method: str) -> _Request:
        form: Json = {}
        body = b""
        if http.content_type == "multipart/form-data":
            form = {key: str(value) for key, value in (await http.post()).items()}
        elif http.can_read_body:
            body = await http.read()
        formats.check_head(http.headers, http.charset, bool(body or form))
        args = formats.readable(
            method,
            http.content_type,
            read_args(http.content_type, body, http.query, form),
            http.query,
        )
        scheme, _, header = http.headers.get("Authorization", "").partition(" ")
        sent = str(args.pop("token", ""))
        token = (
            header.strip()
            if scheme == "Bearer"
            else sent
            if http.content_type != "application/json"
            else ""
        )
        if scheme == "Basic":
            args = basic(header) | args
        formats.check_names(args)
        bare_json = bool(body) and http.content_type == "application/json" and not http.charset
        return _Request(method, token, args, "missing_charset" if bare_json else "")

    def _run(self, call: _Request) -> Json:
        try:
            with self.world.lock:
                return {"ok": True, **self._dispatch(call)}
        except SlackError as error:
            return error.body()

    def _dispatch(self, call: _Request) -> Json:
        world, facts = self.world, FACTS.get(call.method)
        if facts is None or (facts.caller in ("bot", "anyone") and call.method not in self.methods):
            raise SlackError("unknown_method", req_method=call.method)
        if facts.caller == "anyone":
            # this method takes the token as an argument
            token = {"token": call.token} if call.method == "oauth.v2.exchange" else {}
            return self.methods[call.method](world, Args(call.args | token, world.app))
        if not call.token:
            raise SlackError("not_authed")
        app = world.app_of_token(call.token)
        if app is None:
            raise SlackError("invalid_auth")
        kind = "app" if call.token == app.app_token else "bot"
        if kind == "bot" and app.revoked:
            raise SlackError("token_revoked")
        if app.token_expired(call.token, world.now()):
            raise SlackError("token_expired")
        if kind != facts.caller:
            raise SlackError("not_allowed_token_type")
        world = world.worlds[app.team]
        if app.is_org_wide and kind == "bot" and call.method not in orgs.ORG_METHODS:
            world = orgs.workspace_for(world, app, call.method, call.args)
            app = world.apps[app.id]
        if call.method == "apps.connections.open":
            return {"url": self.transports.hub(app).ticket_url()}
        if facts.scopes and not app.scopes.intersection(facts.scopes):
            raise scopes.missing(app, facts.scopes)
        args = Args(call.args, app)
        formats.check_required(call.method, args)
        return self.methods[call.method](world, args)

    def _answer(self, call: _Request, body: Json) -> web.Response:
        if call.warning:
            metadata = body.get("response_metadata", {})
            warnings = [*metadata.get("warnings", []), call.warning]
            body = {
                **body,
                "warning": call.warning,
                "response_metadata": {**metadata, "warnings": warnings},
            }
        self._log(call, body, 200)
        app = self.world.app_of_token(call.token)
        headers = {
            "X-OAuth-Scopes": ",".join(sorted(app.scopes if app else ())),
            "X-Accepted-OAuth-Scopes": ",".join(SCOPES.get(call.method, ())),
        }
        return web.json_response(body, headers=headers)

    def _log(self, call: _Request, body: Json | None, status: int) -> None:
        with self.world.lock:
            app = self.world.app_of_token(call.token)
            entry = ApiCall(
                call.method, call.args, copy.deepcopy(body), status, self.world.clock.now()
            )
            entry.app_id, entry.team = (app.id, app.team) if app else ("", "")
            entry.ms = (time.monotonic() - call.began) * 1000
            self.world.requests.append(entry)
            self.world.touch([])
