"""Programs: at the socket, over HTTP, and a function that runs after approval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLong
from pathlib import Path
from typing import ClassVar, TypeVar

from countersign import Countersign, OwnAction, Request, countersigned
from countersign.client import generate_claimant_id
from countersign.request import CountersignError, find_request_error
from tests.sources.place import BEN, PATIENCE, Place
from tests.sources.relay import Relay
from tests.sources.source import Asked, End, ReportedEnd, Source, Stage
from tests.stories.harness import SUPPORT

T = TypeVar("T")
STATUSES = {
    End.DONE: "succeeded",
    End.REJECTED: "rejected",
    End.EXPIRED: "expired",
    End.CANCELLED: "cancelled",
}
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}
WRITE = OwnAction("write_down", "Write down", "Write “{text}” down", schema=SCHEMA)


class AtTheSocket(Source):
    """A program beside the bot."""

    name = "socket"
    hears = STATUSES

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.relay = Relay(place.harness.folder / "beside", place.database, place.line.cut)

    def close(self) -> None:
        """See Source."""
        self.relay.close()

    def losing(self, stage: Stage, text: str) -> Callable[[], bool]:
        """See Source."""
        del stage, text
        return self.relay.losing().is_set

    def ask(self, text: str) -> Asked:
        """See Source; while no bot is there it asks again with the same key."""
        return _AtTheSocket(self.place, text, self.relay.database)


class _AtTheSocket(Asked):
    def __init__(self, place: Place, text: str, database: Path) -> None:
        """`database`: the socket is beside it."""
        super().__init__(place, text)
        self._client = Countersign.beside(database)
        self._pool = ThreadPoolExecutor(1)
        self._asked = self._pool.submit(self._ask)

    def _ask(self) -> Request:
        found = self._once()
        return self._once() if self.place.line.twice else found

    def _once(self) -> Request:
        where = {"requester": BEN, "channel": SUPPORT}
        return self._client.request("note", {"text": self.text}, run=self.text, **where)

    def outcome(self) -> ReportedEnd:
        """See Asked."""
        ended = self._client.ended(self._asked.result(PATIENCE).id, PATIENCE)
        self._pool.shutdown()
        return ReportedEnd(ended.status.value, str(find_request_error(ended) or ended.result))


class OverHttp(Source):
    """A program that asks for a tool of the bot's own."""

    name = "HTTP"
    hears = STATUSES

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _OverHttp(self.place, text)


class _OverHttp(Asked):
    what: str | OwnAction = "note"

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(place, text)
        self.client = Countersign(place.line.url, place.key)
        self._pool = ThreadPoolExecutor(2)
        self._asked = self._pool.submit(
            self.client.request, self.what, {"text": text}, channel=SUPPORT
        )
        self._ended = self._pool.submit(self._hear)

    def take_back(self) -> None:
        """See Asked."""
        self.client.cancel(self._asked.result(PATIENCE).id)

    def outcome(self) -> ReportedEnd:
        """See Asked."""
        found = self._ended.result(PATIENCE)
        self._pool.shutdown()
        trouble = find_request_error(found)
        return ReportedEnd(found.status.value, str(trouble or found.result))

    def _hear(self) -> Request:
        return self.does(self._asked.result(PATIENCE).id)

    def does(self, request_id: str) -> Request:
        """What the program does until the request has ended."""
        return self.client.ended(request_id, PATIENCE)


class HandedOverHttp(Source):
    """A program that claims what was approved, does it, and reports."""

    name = "handed over"
    claims = True
    hears = STATUSES

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _HandedOver(self.place, text)


class _HandedOver(_OverHttp):
    what = WRITE

    def does(self, request_id: str) -> Request:
        """See _OverHttp."""
        found = self.client.wait(request_id, PATIENCE)
        if found.status.value != "approved":
            return found
        claimant = generate_claimant_id()
        handout = self.client.claim(request_id, claimant)
        result = self.place.did(handout.arguments["text"])
        return self.client.report(request_id, claimant, succeeded=True, result=result)


class Decorated(Source):
    """An async function whose calls need approval."""

    name = "@countersigned"
    claims = True
    hears: ClassVar = {
        End.DONE: "returned",
        End.REJECTED: "Rejected",
        End.EXPIRED: "Expired",
        End.CANCELLED: "cancelled",
    }

    def ask(self, text: str) -> Asked:
        """See Source."""
        return _Decorated(self.place, text)


async def _others_end() -> None:
    """Wait until no other task of this loop is left."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


class _Decorated(Asked):
    def __init__(self, place: Place, text: str) -> None:
        super().__init__(place, text)
        self._pool = ThreadPoolExecutor(1)
        self._loop = asyncio.new_event_loop()
        self._running = self._pool.submit(self._loop.run_forever)
        client = Countersign(place.line.url, place.key)

        @countersigned(effect="Write “{text}” down", channel=SUPPORT, client=client)
        async def write_text(text: str) -> str:
            return await asyncio.to_thread(place.did, text)

        self._called = asyncio.run_coroutine_threadsafe(write_text(text), self._loop)

    def take_back(self) -> None:
        """Cancel the task that awaits it."""
        self._called.cancel()

    def outcome(self) -> ReportedEnd:
        """See Asked."""
        try:
            return ReportedEnd("returned", str(self._called.result(PATIENCE)))
        except CountersignError as error:
            return ReportedEnd(type(error).__name__, str(error))
        except TooLong:
            raise
        except CancelledError:
            return ReportedEnd("cancelled")
        finally:
            # a cancelled task still has to take its request back
            asyncio.run_coroutine_threadsafe(_others_end(), self._loop).result(PATIENCE)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._pool.shutdown()
