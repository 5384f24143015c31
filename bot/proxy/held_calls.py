"""Holds a call until people have approved it, then has it run once, with what they approved.

Hosts give up after a while: the request goes on, and the same call again adopts it instead of
asking twice. Nothing runs while nobody waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from bot.client.countersign import Countersign, new_claimant
from bot.client.request import OwnAction, Request
from bot.client.troubles import CountersignError, trouble_of
from bot.proxy.waiting import Patience, Told, in_thread
from bot.proxy.wishes import Wishes


class NotRunError(CountersignError):
    """What was approved was not run after all; says why."""


class LostError(CountersignError):
    """It was begun, and nobody knows how it ended."""


log = logging.getLogger("countersign.proxy")
SIGNS_OF_LIFE = 3  # in each lease
T = TypeVar("T")


class HeldCalls:
    """One per proxy; for one event loop."""

    def __init__(
        self, countersign: Countersign, around: dict[str, str], hold: float, server: str = ""
    ) -> None:
        """`around`: requester, channel, reason of all; `hold`: seconds until a caller is told.

        `server`: the one behind, in a text that is the same in each life of this process.
        """
        self._countersign = countersign
        self._around = around
        self._hold = hold
        self.wishes = Wishes(countersign, around, server)

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
        Raises StillWaitsError and CountersignError: then nothing has run, but with LostError, which
        `run` raises where it does not know.
        """
        wish = self.wishes.of(action, arguments)
        ask = partial(
            self._countersign.open_request,
            action,
            arguments,
            **{**self._around, "run": wish.run},
        )
        with self.wishes.answered(wish):
            request = await self.wishes.request(wish, ask)
            request = await Patience(self._countersign, self._hold, told).decided(request)
            async with wish.taking:  # of the same call twice at once, one runs, and both hear of it
                if not wish.is_done:
                    wish.result = await self._taken(request, run, outcome)
                    wish.is_done = True
        found: T = wish.result
        return found

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
                ended: list[T] = []
                failed: Exception | None = None
                try:
                    ended.append(await run(handout.arguments))
                except Exception as error:  # noqa: BLE001 # told below, and raised again
                    failed = error
                beside.cancel_scope.cancel()
            if failed is not None:
                if not isinstance(failed, LostError):  # else people are asked what became of it
                    why = str(failed) if isinstance(failed, NotRunError) else type(failed).__name__
                    await self._report(request.id, claimant, False, why)
                raise failed
            [result] = ended
            worked, said = outcome(result)
            await self._report(request.id, claimant, worked, said)
        return result

    async def _kept(self, request_id: str, claimant: str, lease: float) -> None:
        while True:
            await anyio.sleep(lease / SIGNS_OF_LIFE)
            try:
                await in_thread(partial(self._countersign.claim, request_id, claimant))
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
