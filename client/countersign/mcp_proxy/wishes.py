"""What hosts wish for: the same call again, while it is open, is the same wish, and asked once.

Which it is follows from the call alone, so that a later life of the proxy finds it as well.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from countersign.mcp_proxy.waiting import StillWaitsError, in_thread

if TYPE_CHECKING:
    from countersign.client import Countersign
    from countersign.request import OwnAction, Request

MOST_KNOWN = 500  # of one key and server
KEPT = 600.0  # seconds that an end waits for a host which had given up


@dataclass(slots=True)
class HostWish:
    """One call that hosts have made, until one of them was given its result."""

    run: str  # under which it is asked
    request_id: str = ""
    result: Any = None
    is_done: bool = False  # there is a result
    hosts: int = 0  # that wait for it now
    seen_at: float = 0.0  # when a host last waited for it, by the monotonic clock
    asking: anyio.Lock = field(default_factory=anyio.Lock)
    taking: anyio.Lock = field(default_factory=anyio.Lock)


class Wishes:
    """Those of one server and one key; for one event loop."""

    def __init__(self, countersign: Countersign, around: Mapping[str, str], server: str) -> None:
        """`around`: requester, channel, reason of all; `server`: what else makes them the same."""
        self._countersign = countersign
        self._of = [server, dict(around)]
        self._known: OrderedDict[str, HostWish] = OrderedDict()

    def of(self, what: str | OwnAction, arguments: Mapping[str, Any]) -> HostWish:
        """Return the wish for this call."""
        asked = what if isinstance(what, str) else what.written()
        name = json.dumps([*self._of, asked, arguments], sort_keys=True)
        run = f"mcp {hashlib.sha256(name.encode()).hexdigest()}"
        found = self._known.setdefault(run, HostWish(run))
        self._known.move_to_end(run)
        self._tidy(found)
        return found

    def _tidy(self, newest: HostWish) -> None:
        """Forget the oldest for which no host waits: what they have asked is found again."""
        left = len(self._known) - MOST_KNOWN
        for each in [*self._known.values()] if left > 0 else ():
            if left > 0 and not each.hosts and each is not newest:
                self._forget(each)
                left -= 1

    @contextmanager
    def answered(self, wish: HostWish) -> Iterator[None]:
        """Have the same call be another wish once this block has answered a host, with a result or
        with why there is none; not where it waits still, or the host has given up.
        """
        wish.hosts += 1
        try:
            yield
        except StillWaitsError:
            raise
        except Exception:
            self._forget(wish)
            raise
        finally:
            wish.hosts -= 1
        self._forget(wish)

    def _forget(self, wish: HostWish) -> None:
        if self._known.get(wish.run) is wish:
            del self._known[wish.run]

    async def request(self, wish: HostWish, ask: Callable[[], Request]) -> Request:
        """Return the request there is for it, as it stands; where there is none, `ask` for it.

        One that ended is told to a host that had given up, for a while. `ask` finds one that an
        earlier life of this process has made, and that is open still.
        """
        async with wish.asking:  # of the same call twice at once, one asks
            found: Request | None = None
            if wish.request_id:
                found = await in_thread(partial(self._countersign.look, wish.request_id))
                if found.has_ended and time.monotonic() - wish.seen_at > KEPT:
                    found, wish.is_done, wish.result = None, False, None
            if found is None:
                found = await in_thread(ask)
                wish.request_id = found.id
            wish.seen_at = time.monotonic()
            return found
