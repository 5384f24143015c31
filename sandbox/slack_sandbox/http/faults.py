"""Faults and rate limits over HTTP, for tests of apps in any language.

POST /sandbox/faults switches one on, GET lists those still to come, DELETE forgets them all. POST
/sandbox/rates switches rate limits.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from slack_sandbox.http.bodies import body_of
from slack_sandbox.setup.manifests import first_problem
from slack_sandbox.spec.facts import FACTS
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api.faults import Fault, Faults, LostAck, When
from slack_sandbox.web_api.rates import Rates
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.state import World


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    def switch_on(self, world: World, faults: Faults) -> None:
        """Add the fault; ValueError if it names something that does not exist."""
        raise NotImplementedError


class _OnCalls(_Body):
    method: str = "*"
    person: str = ""
    times: int = Field(1, ge=1)

    def which(self, world: World) -> dict[str, Any]:
        """Return which calls fail; ValueError for an unknown method or person."""
        if self.method != "*" and self.method not in FACTS:
            raise ValueError(f"there is no method {self.method!r}")
        return {"method": self.method, "person": _person(world, self.person), "times": self.times}


class _Fail(_OnCalls):
    kind: Literal["fail"]
    error: str = "internal_error"

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.fail(**self.which(world), error=self.error)


class _Status(_OnCalls):
    kind: Literal["status"]
    status: int = Field(500, ge=400, le=599)
    when: When = "before"

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.status(**self.which(world), status=self.status, when=self.when)


class _RateLimit(_OnCalls):
    kind: Literal["rate_limit"]
    retry_after: int = Field(1, ge=0)

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.rate_limit(**self.which(world), retry_after=self.retry_after)


class _Drop(_OnCalls):
    kind: Literal["drop"]
    when: When = "before"

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.drop(**self.which(world), when=self.when)


class _Hang(_OnCalls):
    kind: Literal["hang"]
    when: When = "before"

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.hang(**self.which(world), when=self.when)


class _LoseAck(_Body):
    kind: Literal["lose_ack"]
    of: Literal["events_api", "interactive", "slash_commands"]
    person: str = ""
    times: int = Field(1, ge=1)

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.lose_ack(self.of, self.times, _person(world, self.person))


class _OnSockets(_Body):
    app: str = ""  # an app's id or name; "": all apps

    def which(self, world: World) -> App | None:
        """The app, None for all."""
        found = next((app for app in world.apps.values() if self.app in (app.id, app.name)), None)
        if self.app and found is None:
            raise ValueError(f"there is no app {self.app!r}")
        return found


class _Disconnect(_OnSockets):
    kind: Literal["disconnect"]
    reason: Literal["warning", "refresh_requested", "link_disabled"] = "warning"

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.disconnect(self.reason, self.which(world))


class _Refresh(_OnSockets):
    kind: Literal["refresh"]

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.refresh(self.which(world))


class _Cut(_OnSockets):
    kind: Literal["cut"]

    def switch_on(self, world: World, faults: Faults) -> None:
        faults.cut(self.which(world))


_Any = _Fail | _Status | _RateLimit | _Drop | _Hang | _LoseAck | _Disconnect | _Refresh | _Cut
_FAULT_ADAPTER: TypeAdapter[_Any] = TypeAdapter(Annotated[_Any, Field(discriminator="kind")])


def _person(world: World, name: str) -> str:
    if name and name not in world.people:
        raise ValueError(f"there is no person {name!r}")
    return name


class ControlFaults:
    """Serves /sandbox/faults and /sandbox/rates."""

    def __init__(self, world: World, faults: Faults, rates: Rates) -> None:
        self.world, self.faults, self.rates = world, faults, rates

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put the routes into the server."""
        router.add_post("/sandbox/faults", self._add)
        router.add_get("/sandbox/faults", self._list)
        router.add_delete("/sandbox/faults", self._clear)
        router.add_post("/sandbox/rates", self._limit)

    async def _limit(self, request: web.Request) -> web.Response:
        self.rates.enabled = (await body_of(request, {"enabled": bool}))["enabled"]
        return web.json_response({"ok": True})

    async def _add(self, request: web.Request) -> web.Response:
        try:
            body = _FAULT_ADAPTER.validate_python(await request.json())
            with self.world.lock:
                body.switch_on(self.world, self.faults)
        except ValidationError as error:
            return _refusal(first_problem(error))
        except ValueError as error:  # also raised if the body is not JSON
            return _refusal(str(error))
        return web.json_response({"ok": True})

    async def _list(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"ok": True, "faults": [_shown(fault) for fault in self.faults.waiting]}
        )

    async def _clear(self, _: web.Request) -> web.Response:
        self.faults.clear()
        return web.json_response({"ok": True})


def _shown(fault: Fault | LostAck) -> Json:
    if isinstance(fault, LostAck):
        return {"kind": "lose_ack", "of": fault.kind, "person": fault.person, "times": fault.times}
    shown: Json = {
        "kind": fault.kind,
        "method": fault.method,
        "person": fault.person,
        "times": fault.times,
    }
    if fault.kind in ("status", "drop", "hang", "hold"):
        shown["when"] = fault.when
    own: dict[str, Json] = {
        "fail": {"error": fault.error},
        "status": {"status": fault.number},
        "rate_limit": {"retry_after": fault.number},
    }
    return shown | own.get(fault.kind, {})


def _refusal(message: str) -> web.Response:
    return web.json_response({"ok": False, "message": message}, status=400)
