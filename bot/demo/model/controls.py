"""How the demo and the tests steer the stand-in planner: scripted turns, faults, cuts and holds.

It keeps what was ordered until the server takes it. It may not answer a request itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from bot.demo.model.wire import Turn


class Part(StrEnum):
    """What a server may lack that speaks as OpenAI's does."""

    RESPONSES = "responses"  # the Responses API
    COMPACTION = "compaction"  # its means to say a long transcript in fewer items
    TOOLS = "tools"  # a model that can call them
    SIGHT = "sight"  # a model that sees pictures
    FILES = "files"  # a model that reads files
    REQUIRED = "required"  # a choice that leaves the model nothing but to call one
    STREAMS = "streams"  # answers as they are made, where tools are offered


class Hold:
    """One request kept waiting: `arrived` is set when it is there, `release()` lets it go on."""

    def __init__(self, after_events: int) -> None:
        self.after_events = after_events
        self.arrived = threading.Event()
        self._lock = threading.Lock()
        self._released = False
        self._wake: Callable[[], object] | None = None

    def release(self) -> None:
        """Let the request go on, or not wait at all when it comes; safe to call twice."""
        with self._lock:
            self._released = True
            wake, self._wake = self._wake, None
        if wake:
            wake()

    async def wait(self) -> None:
        """Arrive and wait for the release (on the server's loop)."""
        loop, free = asyncio.get_running_loop(), asyncio.Event()
        with self._lock:
            if not self._released:
                self._wake = lambda: loop.call_soon_threadsafe(free.set)
            else:
                free.set()
        self.arrived.set()
        await free.wait()


class Controls:
    """The controls; each may be called from any thread, before and after the start of the server.

    `requests` holds every body that came as JSON, oldest first, one of Chat Completions as the
    Responses API would have it; `chats` those as they came; `refused` the message of every refusal.
    `compactions` holds the bodies of what was to be said in fewer items. `context` is how many
    tokens the model reads at once, None for any number; `chunk_delay` is the pause after each delta
    in seconds; `lenient_ids` accepts call ids used twice; `without` names what the server is to
    lack.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.chats: list[dict[str, Any]] = []
        self.refused: list[str] = []
        self.compactions: list[dict[str, Any]] = []
        self.context: int | None = None
        self.without: set[Part] = set()
        self.chunk_delay = 0.0
        self.lenient_ids = False
        self._lock = threading.Lock()
        self._turns: deque[Turn] = deque()
        self._faults: deque[tuple[int, float | None]] = deque()
        self._cuts: deque[int] = deque()
        self._holds: deque[Hold] = deque()
        self._waiting: set[Hold] = set()
        self._refusing = 0
        self._era = 0  # grows with each clearing: what was scripted after it is for later requests

    def script(self, *turns: Turn) -> None:
        """Queue turns, one for each answered request, to be used before the built-in brain.

        A turn that was not sent to its end is used again.
        """
        with self._lock:
            self._turns.extend(turns)

    def fail(self, status: int = 500, retry_after: float | None = None, times: int = 1) -> None:
        """Answer the next `times` requests with that HTTP status; `retry_after` is in seconds."""
        with self._lock:
            self._faults.extend([(status, retry_after)] * times)

    def cut(self, after_events: int = 3, times: int = 1) -> None:
        """Break the next `times` answers off after that many events (at once when not streamed)."""
        with self._lock:
            self._cuts.extend([after_events] * times)

    def refuse_connection(self, times: int = 1) -> None:
        """Close the next `times` connections without reading a request's body or answering."""
        with self._lock:
            self._refusing += times

    def hold(self, after_events: int = 0) -> Hold:
        """Keep the next request waiting, before its answer or after that many streamed events."""
        hold = Hold(after_events)
        with self._lock:
            self._holds.append(hold)
        return hold

    def clear(self) -> None:
        """Forget scripted turns and faults that were not used, and let held requests go on.

        A request from before takes none of the turns that are scripted from now on.
        """
        with self._lock:
            self._era += 1
            self._turns.clear()
            self._faults.clear()
            self._cuts.clear()
            self._refusing = 0
        self._release_all()
        with self._lock:
            self._holds.clear()

    # for the server

    def _take_refusal(self) -> bool:
        with self._lock:
            refusing = self._refusing > 0
            self._refusing -= refusing
        return refusing

    def _take_request(
        self, body: dict[str, Any]
    ) -> tuple[tuple[int, float | None] | None, Hold | None, int]:
        """Record a request and take the fault or the hold that is meant for it, and the era."""
        with self._lock:
            self.requests.append(body)
            fault = self._faults.popleft() if self._faults else None
            hold = self._holds.popleft() if self._holds and not fault else None
            if hold:
                self._waiting.add(hold)
            return fault, hold, self._era

    def _take_turn(self, era: int) -> tuple[Turn | None, int | None]:
        """The scripted turn for the answer to a request of that era, and after how many of its
        events to cut it.
        """
        with self._lock:
            if era != self._era:
                return None, None
            turn = self._turns.popleft() if self._turns else None
            return turn, (self._cuts.popleft() if self._cuts else None)

    def _give_back(self, turn: Turn, era: int) -> None:
        with self._lock:
            if era == self._era:
                self._turns.appendleft(turn)

    def _release_all(self) -> None:
        with self._lock:
            holds = [*self._waiting, *self._holds]
        for hold in holds:
            hold.release()
