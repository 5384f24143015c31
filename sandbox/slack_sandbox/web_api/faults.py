"""Faults on demand: refused, failing, held and cut calls, lost acknowledgements, dropped sockets.

Faults of one method are used up in the order they were asked for; safe to use from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from slack_sandbox.delivery.transports import Transports
from slack_sandbox.spec.slack_error import Json
from slack_sandbox.web_api import fault_targets
from slack_sandbox.workspace.apps import App
from slack_sandbox.workspace.records import Delivery
from slack_sandbox.workspace.state import World

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
        """Let the request go on.

        With effect=False its connection is cut instead and nothing happens.
        """
        self.effect = effect
        self._loop.call_soon_threadsafe(self._gate.set)

    async def wait(self) -> None:
        """Wait for the release (on the server's loop)."""
        self.arrived.set()
        await self._gate.wait()


@dataclass(slots=True)
class Fault:
    """A fault for the next `times` calls of a method ("*": of any method)."""

    method: str
    kind: Literal["fail", "status", "rate_limit", "drop", "hang", "hold"]
    times: int = 1
    match: Match | None = None
    person: str = ""  # short name; the fault is only for calls that concern this person
    error: str = ""
    number: int = 0  # the HTTP status, or Retry-After in seconds
    when: When = "before"  # before or after the call takes effect
    hold: Hold | None = None
    team: str = ""  # the fault is only for calls with a token of this workspace


@dataclass(slots=True)
class LostAck:
    """The next `times` acknowledgements of that kind of payload that are to be lost."""

    kind: str
    times: int
    person: str
    match: Match | None = None
    team: str = ""


class Faults:
    """The faults still to come, each for everybody or for one person.

    If `person` (a short name) is given, a fault only hits what concerns them; KeyError for an
    unknown one.
    """

    def __init__(self, world: World, transports: Transports) -> None:
        self._world, self._transports = world, transports
        self._waiting: list[Fault] = []
        self._holds: list[Hold] = []
        self._lost_acks: list[LostAck] = []
        self._cleared = asyncio.Event()
        self._team = ""
        world.loses_ack = self._loses_ack

    @contextmanager
    def only(self, team: str) -> Iterator[None]:
        """Limit the faults that are added in this block to the workspace with the id `team`.

        A `person` then is somebody there. KeyError if there is no such workspace.
        """
        self._team = self._world.worlds[team].team
        try:
            yield
        finally:
            self._team = ""

    def _add(self, fault: Fault) -> None:
        with self._world.lock:
            fault.team = self._team
            self._is(fault, set())  # KeyError if there is no such person
            self._waiting.append(fault)

    def _is(self, fault: Fault | LostAck, ids: set[str]) -> bool:
        there = self._world.worlds[fault.team] if fault.team else self._world
        return not fault.person or there.people[fault.person].id in ids

    @property
    def waiting(self) -> list[Fault | LostAck]:
        """The faults of calls and acknowledgements that have not been used up."""
        with self._world.lock:
            return [*self._waiting, *self._lost_acks]

    def take(self, method: str, args: Json, team: str = "") -> Fault | None:
        """Return the fault for this call and use it up once; None if there is none.

        `team` is the workspace of its token, "" if it has none.
        """
        with self._world.lock:
            world = self._world.worlds.get(team, self._world)
            for fault in self._waiting:
                fits = fault.method in (method, "*") and (fault.match is None or fault.match(args))
                here = fits and fault.team in ("", team)
                if here and self._is(fault, fault_targets.of_call(world, args)):
                    fault.times -= 1
                    if fault.times <= 0:
                        self._waiting.remove(fault)
                    return fault
        return None

    # calls

    def fail(
        self,
        method: str,
        error: str = "internal_error",
        times: int = 1,
        match: Match | None = None,
        person: str = "",
    ) -> None:
        """Answer `error`, without effect; `match` picks calls by their arguments."""
        self._add(Fault(method, "fail", times, match, person, error=error))

    def status(
        self,
        method: str,
        status: int = 500,
        times: int = 1,
        match: Match | None = None,
        person: str = "",
        when: When = "before",
    ) -> None:
        """Answer with that HTTP status and no JSON, in place of the effect or after it."""
        self._add(Fault(method, "status", times, match, person, number=status, when=when))

    def rate_limit(
        self,
        method: str,
        retry_after: int = 1,
        times: int = 1,
        match: Match | None = None,
        person: str = "",
    ) -> None:
        """Answer 429 with Retry-After (seconds), without effect."""
        self._add(Fault(method, "rate_limit", times, match, person, number=retry_after))

    def drop(
        self,
        method: str,
        when: When = "before",
        times: int = 1,
        match: Match | None = None,
        person: str = "",
    ) -> None:
        """Cut the connection without an answer, before or after the effect."""
        self._add(Fault(method, "drop", times, match, person, when=when))

    def hang(
        self,
        method: str,
        when: When = "before",
        times: int = 1,
        match: Match | None = None,
        person: str = "",
    ) -> None:
        """Do not answer until the faults are cleared, which cuts the connection.

        `when`: before or after the effect.
        """
        self._add(Fault(method, "hang", times, match, person, when=when))

    def hold(
        self, method: str, when: When = "before", match: Match | None = None, person: str = ""
    ) -> Hold:
        """Let the next call wait until released, before its effect or after it."""
        hold = Hold(self._transports.loop)
        self._holds.append(hold)
        self._add(Fault(method, "hold", 1, match, person, when=when, hold=hold))
        return hold

    async def until_cleared(self) -> None:
        """Wait until the faults are cleared (on the server's loop)."""
        await self._cleared.wait()

    # deliveries and sockets

    def lose_ack(
        self, kind: str, times: int = 1, person: str = "", match: Match | None = None
    ) -> None:
        """Lose acknowledgements of that kind, as if their three seconds were over.

        `kind` is events_api, interactive or slash_commands. `person`: only for what this person
        did; `match` picks by payload.
        """
        with self._world.lock:
            lost = LostAck(kind, times, person, match, self._team)
            self._is(lost, set())
            self._lost_acks.append(lost)

    def _loses_ack(self, delivery: Delivery) -> bool:
        for lost in self._lost_acks:
            fits = lost.match is None or lost.match(delivery.payload)
            fits = fits and lost.team in ("", delivery.app.team)
            concerned = fault_targets.of_delivery(delivery)
            if lost.kind == delivery.kind and fits and self._is(lost, concerned):
                lost.times -= 1
                if lost.times <= 0:
                    self._lost_acks.remove(lost)
                return True
        return False

    def disconnect(self, reason: str = "warning", app: App | None = None) -> None:
        """Announce on every socket (of that app) that it will close.

        It is closed ten seconds later (at once for link_disabled).
        """
        self._transports.disconnect(reason, app)

    def refresh(self, app: App | None = None) -> None:
        """Ask the apps (or that one) to make new connections, as Slack does every few hours."""
        self._transports.disconnect("refresh_requested", app)

    def cut(self, app: App | None = None) -> None:
        """Drop every socket (of that app) without a word."""
        self._transports.cut(app)

    def count_dead(self, seconds: float, app: App | None = None) -> None:
        """Have `hello` count sockets for so many seconds after they ended without a close frame.

        So it is after a crash, which a server notices late.
        """
        self._transports.count_dead(seconds, app)

    def split_messages(self, most: int) -> None:
        """Send what has more than so many bytes over a socket in several frames; 0: nothing.

        As others saw it, also for clicks (github.com/slackapi/python-slack-sdk/issues/1124).
        """
        self._transports.split_messages(most)

    def clear(self) -> None:
        """Forget all faults, let every held request go and cut those that hang."""
        with self._world.lock:
            self._waiting.clear()
            self._lost_acks.clear()
        for hold in self._holds:
            hold.release(hold.effect)
        self._holds.clear()
        hanging, self._cleared = self._cleared, asyncio.Event()
        self._transports.loop.call_soon_threadsafe(hanging.set)
