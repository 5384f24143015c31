"""Holds a call until people have approved it, then has it run once, with what they approved.

Hosts give up after a while: the request goes on, and the same call again adopts it instead of
asking twice. Nothing runs while nobody waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import anyio

from countersign.client import Countersign, new_claimant
from countersign.errors import CountersignError, trouble_of
from countersign.mcp_proxy.waiting import Patience, Told, in_thread
from countersign.mcp_proxy.wishes import Wishes
from countersign.request import OwnAction, Request


class NotRunError(CountersignError):
    """What was approved was not run after all; says why."""


class LostError(CountersignError):
    """It was begun, and nobody knows how it ended; the sentence is for the host."""


log = logging.getLogger("countersign.proxy")
SIGNS_OF_LIFE = 3  # in each lease
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldOutcome(Generic[T]):
    """What came of a call that was made, by the word of whoever was asked to do it."""

    result: T  # for the host
    worked: bool
    said: Any  # what is reported of it


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
        run: Callable[[dict[str, Any]], Awaitable[HeldOutcome[T]]],
        told: Told,
    ) -> T:
        """Ask, wait, and run it with the arguments that were approved; returns the result for the
        host. `told` tells the host meanwhile.

        `run` raises NotRunError where it has done nothing, and LostError where nobody knows how it
        ended; whatever else it raises is taken for the latter. Raises StillWaitsError and
        CountersignError: then nothing has run, but with LostError.
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
                    wish.result = await self._taken(request, run)
                    wish.is_done = True
        found: T = wish.result
        return found

    async def _taken(
        self, request: Request, run: Callable[[dict[str, Any]], Awaitable[HeldOutcome[T]]]
    ) -> T:
        """Claim what was approved, run it and report; all of it, also where the host gives up."""
        if trouble := trouble_of(request):
            raise trouble
        claimant = new_claimant()
        with anyio.CancelScope(shield=True):
            claim = partial(self._countersign.claim, request.id, claimant)
            handout = await in_thread(claim)
            async with anyio.create_task_group() as beside:
                beside.start_soon(self._kept, request.id, claimant, handout.lease)
                ended = await _ended(run, handout.arguments)
                beside.cancel_scope.cancel()
            if isinstance(ended, HeldOutcome):
                await self._report(request.id, claimant, ended.worked, ended.said)
            elif isinstance(ended, NotRunError):
                await self._report(request.id, claimant, False, str(ended))
            else:  # nothing is reported: people are asked what became of it
                log.warning("request %s: %s", request.id, ended)
        if isinstance(ended, HeldOutcome):
            return ended.result
        raise ended

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
            await in_thread(report)
        except CountersignError as error:
            log.warning("request %s was run, and not reported: %s", request_id, error)


async def _ended(
    run: Callable[[dict[str, Any]], Awaitable[HeldOutcome[T]]], arguments: dict[str, Any]
) -> HeldOutcome[T] | NotRunError | LostError:
    """Run it, and return how it ended; what nobody has foreseen leaves that open."""
    try:
        return await run(arguments)
    except (NotRunError, LostError) as error:
        return error
    except Exception as error:
        log.exception("a call has ended in a way that nobody has foreseen")
        return LostError(
            "The call was begun, and nobody knows how it ended"
            f" ({type(error).__name__}). Do not make it again before you know."
        )
