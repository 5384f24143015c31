"""Faults and rate limits over HTTP, for tests of apps in any language: POST /sandbox/faults and /sandbox/rates."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from bot.sandbox.control import body_of
from bot.sandbox.control_fields import Fields, read_kind
from bot.sandbox.faults import Faults, Match
from bot.sandbox.rates import Rates
from bot.sandbox.state import World
from bot.sandbox.wire import Json

_CALLS: Fields = {"method": str, "person?": str}
_TIMES: Fields = {"times?": int}
_WHEN: Fields = {"when?": str}
KINDS: Mapping[str, Fields] = {
    "fail": {**_CALLS, **_TIMES, "error?": str},
    "status": {**_CALLS, **_TIMES, "status?": int},
    "rate_limit": {**_CALLS, **_TIMES, "retry_after?": int},
    "drop": {**_CALLS, **_TIMES, **_WHEN},
    "hold": {**_CALLS, **_WHEN},
    "lose_ack": {"delivery": str, **_TIMES},
    "disconnect": {"reason?": str},
    "refresh": {},
    "cut": {},
    "clear": {},
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "when": ("before", "after"),
    "delivery": ("events_api", "interactive", "slash_commands"),
    "reason": ("warning", "refresh_requested", "link_disabled"),
}


class ControlFaults:
    """Serves /sandbox/faults and /sandbox/rates."""

    def __init__(self, world: World, faults: Faults, rates: Rates) -> None:
        self.world, self.faults, self.rates = world, faults, rates

    def add_routes(self, router: web.UrlDispatcher) -> None:
        """Put both routes into the server."""
        router.add_post("/sandbox/faults", self._ask)
        router.add_post("/sandbox/rates", self._limit)

    async def _limit(self, request: web.Request) -> web.Response:
        self.rates.enabled = (await body_of(request, {"enabled": bool}))["enabled"]
        return web.json_response({"ok": True})

    async def _ask(self, request: web.Request) -> web.Response:
        """One more fault; {"kind": "clear"} forgets all, and lets every call go that is held."""
        body = await body_of(request, lambda body: read_kind(body, KINDS))
        try:
            self._add(body.pop("kind"), body)
        except ValueError as error:
            return web.json_response({"ok": False, "message": str(error)}, status=400)
        return web.json_response({"ok": True})

    def _add(self, kind: str, body: Json) -> None:
        for name, choices in _CHOICES.items():
            if name in body and body[name] not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}")
        if body.get("times", 1) < 1:
            raise ValueError("times must be 1 or more")
        if "person" in body:
            body["match"] = self._names(body.pop("person"))
        if kind == "lose_ack":
            body["kind"] = body.pop("delivery")
        getattr(self.faults, kind)(**body)

    def _names(self, who: str) -> Match:
        """Whether the arguments of a call name that person or the DM of an app with them."""
        person = self.world.by_id.get(who) or self.world.people.get(who)
        if person is None:
            raise ValueError(f"there is no {who!r}")
        ids = {person.id}

        def match(args: Json) -> bool:
            dms = {c.id for c in self.world.channels.values() if c.kind == "im" and person.id in c.members}
            named = [part for value in args.values() for part in str(value).split(",")]
            return bool((ids | dms).intersection(named))

        return match
