"""A call that a server works on: how long it may take, how far it is, and what it asks people.

While a person thinks, the server's time stands still; how long they may is a time of its own.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from mcp_types import ElicitRequestFormParams, ElicitResult

from bot.servers.elicited import Content, Elicited, NotTakenError, UnaskableError, taken
from bot.tools.elicitation import AnswerEnd, ElicitationAnswer, ElicitationPort, ElicitationRequest
from bot.tools.people.question import AskPerson

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams

    from bot.servers.file import Server

MOST_TRIES = 3  # at an answer that the server takes
SHORTEST = 1.0  # seconds in which anybody could answer

log = logging.getLogger("countersign.servers")


class _EndedError(Exception):
    """There is no answer: what the server is told of it."""

    def __init__(self, result: ElicitResult) -> None:
        super().__init__(result.action)
        self.result = result


class AmidCall:
    """One call under way; used on one loop."""

    def __init__(self, server: Server, line: ElicitationPort) -> None:
        """`line` leads to whoever asked for the call."""
        self._server, self._line = server, line
        self._scope = anyio.CancelScope()
        self._to_answer = server.answer_within
        self._left, self._asking = 0.0, 0
        self._turn, self._threads = anyio.Lock(), anyio.CapacityLimiter(1)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Raise TimeoutError where the server takes longer than it may."""
        with anyio.fail_after(self._server.timeout) as self._scope:
            yield

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell people how far it is, as the server says."""
        far = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        self._line.tell(" · ".join(filter(None, [far, message])))

    async def elicit(self, wanted: ElicitRequestParams) -> ElicitResult:
        """Ask whoever asked for the call what the server wants to know.

        Declined: it may not be asked, or they cannot say. Cancelled: nobody has answered in time.
        """
        with self._standing_still():
            async with self._turn:  # of several at once, each is put by itself
                try:
                    return ElicitResult(action="accept", content=await self._asked(wanted))
                except UnaskableError as error:
                    name = self._server.name
                    log.warning("a question of the server %s is declined: %s", name, error)
                    return ElicitResult(action="decline")
                except _EndedError as ended:
                    return ended.result

    async def _asked(self, wanted: ElicitRequestParams) -> Content:
        if not isinstance(wanted, ElicitRequestFormParams):
            raise UnaskableError("it wants somebody to open an address")
        found: Content = {}
        elicited = Elicited(wanted.message, wanted.requested_schema)
        for number, (asked, part) in enumerate(elicited.questions()):
            again = asked
            for _ in range(MOST_TRIES):
                heard = await self._heard(again)
                try:
                    found |= taken(part, heard.values)
                    break
                except NotTakenError as error:
                    again = list(elicited.questions(wrong=str(error)))[number][0]
            else:
                raise _EndedError(ElicitResult(action="cancel"))
        return found

    async def _heard(self, asked: AskPerson) -> ElicitationAnswer:
        """Ask one question; raises _EndedError where there is no answer."""
        began = anyio.current_time()
        if self._to_answer < SHORTEST:
            raise _EndedError(ElicitResult(action="cancel"))
        over = threading.Event()
        question = ElicitationRequest(asked, self._server.name, self._to_answer)
        try:
            heard = await to_thread.run_sync(
                partial(self._line.ask, question, over.is_set),
                abandon_on_cancel=True,
                limiter=self._threads,
            )
        finally:
            over.set()
            self._to_answer -= anyio.current_time() - began
        match heard.end:
            case AnswerEnd.ANSWERED:
                return heard
            case AnswerEnd.REFUSED:
                raise UnaskableError(heard.why)
            case AnswerEnd.DECLINED:
                raise _EndedError(ElicitResult(action="decline"))
            case AnswerEnd.NOBODY:
                raise _EndedError(ElicitResult(action="cancel"))

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        """Have the server's time stand still."""
        if not self._asking:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._scope.deadline = anyio.current_time() + self._left
