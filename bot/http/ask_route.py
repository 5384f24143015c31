"""Carries out what programs ask for over HTTP; each method may block, on a thread.

Nothing is decided here. What cannot be done is raised as a ProblemError.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter, to_thread
from pydantic import ValidationError

from bot.http.api_bodies import (
    ActionWanted,
    ClaimSent,
    FieldError,
    OutcomeSent,
    ProblemError,
    QuestionWanted,
    RequestShown,
    RequestsShown,
    ShownStatus,
    ToolWanted,
    invalid,
    later,
    not_taken,
    shown,
)
from bot.http.api_gate import too_often
from bot.policy.authority import LookupFailedError
from bot.runs.program_calls import KeyUsedError, NotClaimedError, NotPermittedError, TooOftenError
from bot.tools import Effect
from bot.tools.handed_over import ActionError, HandedOverAction
from bot.tools.names import NamedKind, NameResolver
from bot.tools.person_question import ASK_PERSON
from storage import programs as program_requests
from storage import runs, webhooks
from storage.programs import LEASE, Mark

if TYPE_CHECKING:
    from bot.clock import Clock
    from bot.policy.authority import Directory
    from bot.runs.program_calls import ClaimedCall
    from bot.runs.program_requests import ProgramRequest, ProgramRequests
    from storage.programs import ClientKey
    from storage.store import Store


# Programs that wait for a request to change: one task on the server's loop looks for all.

log = logging.getLogger("countersign.api")
GLANCE = 0.25  # seconds between two looks
MOST = 200  # that wait at once
MOST_OF_ONE = 50  # with the same key


class WaitingPrograms:
    """The programs that wait for a request to change; used on the server's event loop only."""

    def __init__(
        self, store: Store, turns: CapacityLimiter, is_stopping: Callable[[], bool]
    ) -> None:
        """`turns`: how many read the record at once; `is_stopping`: all waits are to end."""
        self._store = store
        self._turns = turns
        self._is_stopping = is_stopping
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._by_key: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def one(self, key_id: str, run_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each change of the request until the block ends.

        A caller that looks inside the block misses no change. Raises ProblemError if too many wait
        already.
        """
        if self._by_key[key_id] >= MOST_OF_ONE or self._by_key.total() >= MOST:
            many = HTTPStatus.TOO_MANY_REQUESTS
            raise later(many, "Too many requests wait at once. Ask without `wait`.", 5, "limits")
        event = asyncio.Event()
        self._by_key[key_id] += 1
        self._waiters.setdefault(run_id, set()).add(event)
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        try:
            yield event
        finally:
            self._by_key[key_id] -= 1
            waiters = self._waiters[run_id]
            waiters.discard(event)
            if not waiters:
                del self._waiters[run_id]

    async def _look(self) -> None:
        """Look for changes of the awaited requests until nobody waits any more."""
        seen: dict[str, Mark] = {}
        try:
            while self._waiters:
                await asyncio.sleep(GLANCE)
                seen = {} if self._is_stopping() else seen  # then all of them look again
                seen = await self._glance(seen)
        finally:
            self._task = None

    async def _glance(self, seen: dict[str, Mark]) -> dict[str, Mark]:
        """Set the events of requests whose mark is not as in `seen`; return the new marks."""
        try:
            found = await to_thread.run_sync(self._marks, list(self._waiters), limiter=self._turns)
        except Exception:
            log.exception("the record could not be looked at")  # who waits goes on waiting
            return seen
        for run_id, mark in found.items():
            if mark != seen.get(run_id):
                for event in self._waiters.get(run_id, ()):
                    event.set()
        return found

    def _marks(self, run_ids: list[str]) -> dict[str, Mark]:
        with self._store.read() as tx:
            return dict(program_requests.status_marks(tx, run_ids))


MOST_RESULT = 100_000  # bytes of what a program reports
MOST_LOOKED = 500  # requests that are looked at for one page
ASK_SLACK_AGAIN = 10  # seconds


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A call that a program asks for: tool or action, arguments and terms."""

    tool: str | HandedOverAction
    arguments: Mapping[str, Any]
    field: str  # of the body, where the arguments stand
    reason: str = ""
    deadline: timedelta | None = None
    while_open: bool = False  # its key stands for it until it has ended

    @property
    def name(self) -> str:
        """Return the name of the tool or the action."""
        return self.tool if isinstance(self.tool, str) else self.tool.name


class AskHandler:
    """The methods behind the API's endpoints; one per process, thread-safe."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        directory: Directory,
        programs: ProgramRequests,
        expect: Callable[[], None] = lambda: None,
    ) -> None:
        """`directory` knows people and channels; `programs` puts calls before people.

        `expect` is called after each request whose key has a webhook.
        """
        self._store, self._clock = store, clock
        self._directory = directory
        self._programs = programs
        self._expect = expect

    def ask(
        self, key: ClientKey, wanted: ToolWanted | ActionWanted | QuestionWanted, idempotency: str
    ) -> tuple[RequestShown, bool]:
        """Put a call before people; return the request, and whether it is new.

        Raises ProblemError.
        """
        call = replace(_call(wanted), while_open=wanted.while_open)
        if not key.may_ask_for(call.name):
            why = f"The key of {key.name} may not ask for {call.name}."
            raise ProblemError(HTTPStatus.FORBIDDEN, why, about="keys")
        try:
            requester = self._requester(key, wanted.requester)
            channel = self._channel(wanted.channel, requester)
            asked = self._ask(key, call, requester, channel, idempotency)
        except LookupFailedError as error:
            raise later(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"Slack could not be asked ({error}).",
                ASK_SLACK_AGAIN,
            ) from error
        if key.webhook:
            with self._store.write() as tx:
                webhooks.expect_events(tx, key.id, asked.run_id, at=self._clock.now())
            self._expect()
        return shown(asked.stands()), asked.is_new

    def find(self, key: ClientKey, run_id: str) -> ProgramRequest:
        """Return the request of that id; raises ProblemError if this key did not make it."""
        found = self._programs.asked(run_id, key)
        if found is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, f"This key has no request {run_id}.")
        return found

    def asked_by(
        self, key: ClientKey, after: str, statuses: Collection[ShownStatus], most: int
    ) -> RequestsShown:
        """Return at most `most` requests of this key, newest first, that have one of `statuses`.

        Empty `statuses` mean any. With `after`, the page begins behind the request of that id. If
        few have these statuses, a page may hold fewer, or none, and a next page may follow all the
        same. Raises ProblemError.
        """
        before = self._clock.now() + timedelta(days=1), ""
        if after:
            with self._store.read() as tx:
                run = runs.get(tx, after)
                if run is None or not program_requests.belongs_to(tx, run, key):
                    raise not_taken("after", f"This key has no request {after}.")
            before = run.created_at, run.id
        with self._store.read() as tx:
            looked = program_requests.requests_of_key(tx, key, before, MOST_LOOKED)
        found: list[RequestShown] = []
        last = ""
        for number, (run, is_own) in enumerate(looked, 1):
            stands = self.find(key, run.id).stands() if is_own else None
            last = run.id if is_own else last
            if stands and (not statuses or shown(stands).status in statuses):
                found.append(shown(stands))
            if len(found) == most:
                is_last = number == len(looked) < MOST_LOOKED
                return RequestsShown(requests=found, next=None if is_last else last)
        more = len(looked) == MOST_LOOKED and last
        return RequestsShown(requests=found, next=last if more else None)

    def asked_with(self, key: ClientKey, idempotency: str) -> str | None:
        """Return the id of the request that this key made with `idempotency`; None for none."""
        with self._store.read() as tx:
            return program_requests.request_with_key(tx, key, idempotency)

    def claim(self, key: ClientKey, run_id: str, sent: ClaimSent) -> ClaimedCall | None:
        """Claim a call; return None while it is still being checked. Raises ProblemError."""
        try:
            lease = timedelta(seconds=sent.lease_seconds) if sent.lease_seconds else LEASE
            return self.find(key, run_id).claim(sent.claimant, lease)
        except NotClaimedError as error:
            raise _conflict(error) from error

    def report(self, key: ClientKey, run_id: str, sent: OutcomeSent) -> RequestShown:
        """Record the outcome of a claimed call; return the request. Raises ProblemError."""
        if len(json.dumps(sent.result, ensure_ascii=False).encode()) > MOST_RESULT:
            raise not_taken("result", f"This has more than {MOST_RESULT:,} bytes.")
        asked = self.find(key, run_id)
        try:
            asked.report(sent.claimant, sent.succeeded, sent.result)
        except NotClaimedError as error:
            raise _conflict(error) from error
        return shown(asked.stands())

    def cancel(self, key: ClientKey, run_id: str) -> RequestShown:
        """Cancel a request, unless it was cancelled before; return it. Raises ProblemError."""
        asked = self.find(key, run_id)
        is_taken_back = asked.cancel()
        found = shown(asked.stands())
        if not is_taken_back and found.status is not ShownStatus.CANCELLED:
            why = "It has ended or is being executed, so it cannot be taken back."
            raise ProblemError(HTTPStatus.CONFLICT, why, about="statuses")
        return found

    def _requester(self, key: ClientKey, named: str) -> str:
        """Return the id of the requester named; ProblemError if the key may not ask for them."""
        if not named:
            return key.person
        try:
            found = NameResolver(self._directory, None).id_of(NamedKind.PERSON, named)
        except ValueError as error:
            raise not_taken("requester", str(error)) from None
        if found != key.person and not key.is_service:
            why = f"The key of {key.name} may only ask in the name of {key.person}."
            raise ProblemError(HTTPStatus.FORBIDDEN, why, about="keys")
        return found

    def _channel(self, named: str, requester: str) -> str:
        """Return the id of the channel; ProblemError for one that the requester does not see."""
        if not named:
            return ""
        try:
            return NameResolver(self._directory, requester).id_of(NamedKind.CHANNEL, named)
        except ValueError as error:
            raise not_taken("channel", str(error)) from None

    def _ask(
        self, key: ClientKey, call: WantedCall, requester: str, channel: str, idempotency: str
    ) -> ProgramRequest:
        try:
            return self._programs.ask(
                call.tool,
                call.arguments,
                requester=requester,
                channel=channel,
                why=call.reason,
                key=idempotency,
                client="" if key.is_account else key,
                deadline=call.deadline,
                while_open=call.while_open,
            )
        except KeyError:
            raise not_taken("tool", f"There is no tool {call.name}.") from None
        except ValidationError as error:
            raise invalid(_errors(error, call.field)) from None
        except ActionError as error:
            raise not_taken("action", str(error)) from None
        except NotPermittedError as error:
            raise not_taken("requester", str(error)) from None
        except TooOftenError as error:
            raise too_often(key, error.since, self._clock.now()) from None
        except KeyUsedError as error:
            raise ProblemError(HTTPStatus.CONFLICT, str(error), about="asking-twice") from None


def _call(wanted: ToolWanted | ActionWanted | QuestionWanted) -> WantedCall:
    if isinstance(wanted, QuestionWanted):
        return WantedCall(ASK_PERSON.name, wanted.question, "question")
    seconds = wanted.deadline_seconds
    deadline = timedelta(seconds=seconds) if seconds is not None else None
    if isinstance(wanted, ToolWanted):
        return WantedCall(wanted.tool, wanted.arguments, "arguments", wanted.reason, deadline)
    sent = wanted.action
    # any object, where the program says nothing
    schema = {"type": "object"} if sent.argument_schema is None else sent.argument_schema
    does = Effect(sent.does) if sent.does else None
    action = HandedOverAction(sent.name, sent.title, sent.effect, does, schema)
    return WantedCall(action, wanted.arguments, "arguments", wanted.reason, deadline)


def _errors(error: ValidationError, field: str) -> list[FieldError]:
    return [
        FieldError(field=".".join([field, *map(str, each["loc"])]), message=each["msg"])
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _conflict(error: NotClaimedError) -> ProblemError:
    text = str(error)
    sentence = f"{text[0].upper()}{text[1:]}."
    return ProblemError(HTTPStatus.CONFLICT, sentence, about="handed-over-calls")
