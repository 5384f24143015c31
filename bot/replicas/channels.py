"""Which channels this replica sends to: who first has something to send to one that is free keeps
it, until it is silent there for a while, or is no more.

So nothing overtakes in a channel, and what is found half sent there is nobody's who is alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from bot.clock import elapsed
from bot.replicas.living import Living
from storage import replicas
from storage.store import Store
from storage.transaction import Transaction

KEPT = 30.0  # seconds that a channel is kept where nothing is sent


class ReplicaChannels:
    """One per process; any thread."""

    def __init__(
        self,
        store: Store,
        living: Living,
        replica: str,
        is_alive: Callable[[], bool],
        tell: Callable[[], None],
    ) -> None:
        """`living` says who of the others is no more, `is_alive` whether this replica counts as
        alive; `tell` tells the others to send.
        """
        self._store, self._living, self._replica = store, living, replica
        self._is_alive, self._tell = is_alive, tell
        self._lock = threading.Lock()
        self._mine: dict[str, float] = {}  # when there was last something to send

    def mine(self, channels: set[str]) -> set[str]:
        """Return those of the channels that this replica sends to, having taken what is free."""
        if not channels or not self._is_alive():
            return set()
        with self._lock:
            unknown = channels - self._mine.keys()
        taken = self._take(unknown) if unknown else set()
        with self._lock:
            held = channels & (self._mine.keys() | taken)
            self._mine |= dict.fromkeys(held, elapsed())
        if held != channels:
            self._tell()
        return held

    def holds(self, channel: str) -> bool:
        """Return whether this replica still sends to it."""
        return channel in self._mine and self._is_alive()

    def lose(self) -> None:
        """Others may have taken all of them: this replica did not count as alive for a while."""
        with self._lock:
            self._mine.clear()

    def release(self, tx: Transaction, *, used: set[str]) -> None:
        """Give up those in which nothing was sent for long, and is not now."""
        before = elapsed() - KEPT
        with self._lock:
            idle = [each for each, last in self._mine.items() if last < before and each not in used]
            for channel in idle:
                del self._mine[channel]
        for channel in idle:
            replicas.give_up_lane(tx, channel, self._replica)

    def _take(self, channels: set[str]) -> set[str]:
        with self._store.read() as tx:
            self._living.look(lambda: replicas.beats(tx))
            gone = self._living.gone()
            senders = replicas.senders(tx, gone)
        free = [each for each in channels if senders.get(each, self._replica) == self._replica]
        if not free:
            return set()
        with self._store.write() as tx:
            return {each for each in free if replicas.take_lane(tx, each, self._replica, gone)}
