"""Faults on demand: refused, failing, held and cut calls, lost acknowledgements, dropped sockets.

Faults of one method are used up in the order they were asked for; safe to use from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bot.sandbox.records import Delivery
from bot.sandbox.state import World
from bot.sandbox.transports import Transports
from bot.sandbox.wire import Json

Match = Callable[[Json], bool]
When = Literal["before", "after"]


class Hold:
    """One request that waits in the server until the test lets it go."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.arrived = threading.Event()
        self.effect = True
        self._loop = loop
        self._gate = asyncio.Event()

    def release(self, effect: bool = True) -> None:
        """Let the request go on; with effect=False its connection is cut instead and nothing happens."""
        self.effect = effect
        self._loop.call_soon_threadsafe(self._gate.set)

    async def wait(self) -> None:
        """Wait for the release (on the server's loop)."""
        self.arrived.set()
        await self._gate.wait()


@dataclass(slots=True)
class Fault:
    """What is to go wrong with the next `times` calls of a method ("*": of any)."""

    method: str
    kind: Literal["fail", "status", "rate_limit", "drop", "hold"]
    times: int = 1
    match: Match | None = None
    error: str = ""
    number: int = 0  # the HTTP status, or the seconds of Retry-After
    when: When = "before"  # the effect
    hold: Hold | None = None


class Faults:
    """The faults still to come."""

    def __init__(self, world: World, transports: Transports) -> None:
        self._world, self._transports = world, transports
        self._waiting: list[Fault] = []
        self._holds: list[Hold] = []
        self._lost_acks: dict[str, int] = {}  # kind -> how many acknowledgements are still to be lost
        world.loses_ack = self._loses_ack

    def _add(self, fault: Fault) -> None:
        with self._world.lock:
            self._waiting.append(fault)

    def take(self, method: str, args: Json) -> Fault | None:
        """The fault that this call is to meet, used up once; None when all is well."""
        with self._world.lock:
            for fault in self._waiting:
                if fault.method in (method, "*") and (fault.match is None or fault.match(args)):
                    fault.times -= 1
                    if fault.times <= 0:
                        self._waiting.remove(fault)
                    return fault
        return None

    def fail(self, method: str, error: str = "internal_error", times: int = 1, match: Match | None = None) -> None:
        """Answer `error`, without effect; `match` picks calls by their arguments."""
        self._add(Fault(method, "fail", times, match, error=error))

    def status(self, method: str, status: int = 500, times: int = 1, match: Match | None = None) -> None:
        """Answer with that HTTP status and no JSON, without effect."""
        self._add(Fault(method, "status", times, match, number=status))

    def rate_limit(self, method: str, retry_after: int = 1, times: int = 1, match: Match | None = None) -> None:
        """Answer 429 with Retry-After (seconds), without effect."""
        self._add(Fault(method, "rate_limit", times, match, number=retry_after))

    def drop(self, method: str, when: When = "before", times: int = 1, match: Match | None = None) -> None:
        """Cut the connection without an answer, before or after the effect."""
        self._add(Fault(method, "drop", times, match, when=when))

    def hold(self, method: str, when: When = "before", match: Match | None = None) -> Hold:
        """Let the next call wait until released, before its effect or after it (only its answer waits)."""
        hold = Hold(self._transports.loop)
        self._holds.append(hold)
        self._add(Fault(method, "hold", 1, match, when=when, hold=hold))
        return hold

    def lose_ack(self, kind: str, times: int = 1) -> None:
        """Lose acknowledgements of that kind (events_api, interactive), as if their three seconds were over."""
        with self._world.lock:
            self._lost_acks[kind] = self._lost_acks.get(kind, 0) + times

    def _loses_ack(self, delivery: Delivery) -> bool:
        if self._lost_acks.get(delivery.kind, 0) <= 0:
            return False
        self._lost_acks[delivery.kind] -= 1
        return True

    def disconnect(self, reason: str = "warning") -> None:
        """Tell every socket to go; it is closed ten seconds later (at once for link_disabled)."""
        self._transports.disconnect(reason)

    def refresh(self) -> None:
        """Ask the apps to make new connections, as Slack does every few hours."""
        self._transports.disconnect("refresh_requested")

    def cut(self) -> None:
        """Drop every socket without a word."""
        self._transports.cut()

    def clear(self) -> None:
        """Forget all faults and let every held request go."""
        with self._world.lock:
            self._waiting.clear()
            self._lost_acks.clear()
        for hold in self._holds:
            hold.release(hold.effect)
        self._holds.clear()
