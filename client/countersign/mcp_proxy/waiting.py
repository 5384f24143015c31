"""How a host waits for people: it is told that it does, and after a while to come back."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio import to_thread

if TYPE_CHECKING:
    from countersign.client import Countersign
    from countersign.request import Request

LOOK = 10.0  # seconds that one look at a request waits; so often the host hears that it waits
Told = Callable[[str], Awaitable[None]]
T = TypeVar("T")


class StillWaitsError(Exception):
    """It has come to no end yet; the sentence says how to come back."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a host waits at one address, and what it is told."""

    countersign: Countersign
    hold: float  # seconds until it is told to come back
    told: Told

    async def decided(self, request: Request) -> Request:
        """Return it once nobody has to decide any more. Raises StillWaitsError."""
        look = self.countersign.look
        still = "People have not decided yet{link}. Nothing was done."
        says = "waits for people to approve it"
        return await self._until(request, lambda found: found.is_decided, look, says, still)

    async def ended(self, request: Request, says: str, still: str) -> Request:
        """Return it once nothing more will come of it. Raises StillWaitsError.

        `says` is told meanwhile, `still` at last.
        """
        look = self.countersign.ended
        return await self._until(request, lambda found: found.has_ended, look, says, still)

    async def _until(
        self,
        request: Request,
        is_so: Callable[[Request], bool],
        look: Callable[[str, float], Request],
        says: str,
        still: str,
    ) -> Request:
        until = time.monotonic() + self.hold
        while not is_so(request):
            left = until - time.monotonic()
            if left <= 0:
                link = f" ({request.link})" if request.link else ""
                raise StillWaitsError(
                    f"{still.format(link=link)} Make the same call again, with the same arguments, "
                    "to go on waiting; it is not asked twice."
                )
            await self.told(f"{says} {request.link}".strip())
            request = await in_thread(partial(look, request.id, min(LOOK, left)))
        return request


async def in_thread(work: Callable[[], T]) -> T:
    """Return what this comes to on a thread, which nobody waits for who gives up."""
    return await to_thread.run_sync(work, abandon_on_cancel=True)
