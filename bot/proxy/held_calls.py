"""Holds a call until people have approved it, then has it run once, with what they approved.

Hosts give up after a while: the request goes on, and the same call again adopts it instead of
asking twice. Nothing runs while nobody waits for it.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from bot.client.countersign import Countersign, new_claimant
from bot.client.request import OwnAction, Request
from bot.client.troubles import CountersignError, trouble_of

log = logging.getLogger("countersign.proxy")
LOOK = 10.0  # seconds that one look at a request waits; so often the host hears that it waits
SIGNS_OF_LIFE = 3  # in each lease
KEPT = 600.0  # seconds that a result waits for a host which had given up
Told = Callable[[str], Awaitable[None]]
T = TypeVar("T")


class StillWaitsError(Exception):
    """People have not decided yet; the sentence says how to come back."""


@dataclass(slots=True)
class _Asked:
    """One call that some host has made, until its result was given."""

    run: str  # the name under which it is asked: the same call again is the same request
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    result: Any = None
    done_at: float | None = None  # by the monotonic clock


class HeldCalls:
    """One per proxy; for one event loop."""

    def __init__(self, countersign: Countersign, around: dict[str, str], hold: float) -> None:
        """`around`: requester, channel, reason of all; `hold`: seconds until a caller is told."""
        self._countersign = countersign
        self._around = around
        self._hold = hold
        self._asked: dict[str, _Asked] = {}

    async def held(
        self,
        action: OwnAction,
        arguments: dict[str, Any],
        run: Callable[[dict[str, Any]], Awaitable[T]],
        outcome: Callable[[T], tuple[bool, Any]],
        told: Told,
    ) -> T:
        """Ask, wait, and run it with the arguments that were approved; returns what `run` does.

        `outcome` says whether that worked, and what is reported; `told` tells the host meanwhile.
        Raises StillWaitsError and CountersignError: then nothing has run.
        """
        name = _name(action.name, arguments)
        asked = self._adopted(name)
        around = {**self._around, "run": asked.run}
        try:
            request = await _in_thread(
                partial(self._countersign.request, action, arguments, deadline=None, **around)
            )
            request = await self._decided(request, told)
            async with asked.turn:  # of the same call twice at once, one runs, and both hear of it
                if asked.done_at is None:
                    asked.result = await self._taken(request, run, outcome)
                    asked.done_at = time.monotonic()
        except StillWaitsError:
            raise
        except Exception:  # but not where the host gave up: the same call again adopts it
            self._forget(name, asked)
            raise
        self._forget(name, asked)
        found: T = asked.result
        return found

    def run_of(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return the name under which the same call is asked until it is forgotten."""
        return self._adopted(_name(tool, arguments)).run

    def forget(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Have the same call asked anew from now on: somebody was given its result."""
        self._asked.pop(_name(tool, arguments), None)

    def _adopted(self, name: str) -> _Asked:
        """Return what the same call asked before, where nobody was given its result yet."""
        asked = self._asked.get(name)
        is_old = asked is not None and asked.done_at is not None
        if asked is None or (is_old and time.monotonic() - (asked.done_at or 0.0) > KEPT):
            asked = self._asked[name] = _Asked(uuid.uuid4().hex)
        return asked

    def _forget(self, name: str, asked: _Asked) -> None:
        """Have the same call asked anew from now on."""
        if self._asked.get(name) is asked:
            del self._asked[name]

    async def _decided(self, request: Request, told: Told) -> Request:
        until = time.monotonic() + self._hold
        while not request.is_decided:
            left = until - time.monotonic()
            if left <= 0:
                where = f" ({request.link})" if request.link else ""
                raise StillWaitsError(
                    f"People have not decided yet{where}. Nothing was done. Make the same call "
                    "again, with the same arguments, to go on waiting; it is not asked twice."
                )
            await told(f"waits for people to approve it {request.link}".strip())
            look = partial(self._countersign.look, request.id, min(LOOK, left))
            request = await _in_thread(look)
        return request

    async def _taken(
        self,
        request: Request,
        run: Callable[[dict[str, Any]], Awaitable[T]],
        outcome: Callable[[T], tuple[bool, Any]],
    ) -> T:
        """Claim what was approved, run it and report; all of it, also where the host gives up."""
        if trouble := trouble_of(request):
            raise trouble
        claimant = new_claimant()
        with anyio.CancelScope(shield=True):
            claim = partial(self._countersign.claim, request.id, claimant)
            handout = await to_thread.run_sync(claim)
            async with anyio.create_task_group() as beside:
                beside.start_soon(self._kept, request.id, claimant, handout.lease)
                try:
                    result = await run(handout.arguments)
                    worked, said = outcome(result)
                except Exception as error:
                    await self._report(request.id, claimant, False, f"{type(error).__name__}")
                    raise
                finally:
                    beside.cancel_scope.cancel()
            await self._report(request.id, claimant, worked, said)
        return result

    async def _kept(self, request_id: str, claimant: str, lease: float) -> None:
        while True:
            await anyio.sleep(lease / SIGNS_OF_LIFE)
            try:
                await _in_thread(partial(self._countersign.claim, request_id, claimant))
            except CountersignError as error:  # the report will say
                log.warning("request %s could not be kept: %s", request_id, error)

    async def _report(self, request_id: str, claimant: str, worked: bool, said: Any) -> None:
        report = partial(
            self._countersign.report, request_id, claimant, succeeded=worked, result=said
        )
        try:
            await to_thread.run_sync(report)
        except CountersignError as error:
            log.warning("request %s was run, and not reported: %s", request_id, error)


def _name(tool: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([tool, arguments], sort_keys=True)


async def _in_thread(work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work, abandon_on_cancel=True)
