"""Carries out what programs ask for over HTTP; each method may block, on a thread.

Nothing is decided here. Methods raise ProblemError for what cannot be done.
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

from bot.approvals.receipts import NoReceiptError
from bot.http import api_bodies
from bot.http.api_gate import build_rate_limit_problem
from bot.policy.authority import LookupFailedError, LookupPendingError
from bot.runs import program_calls
from bot.tools import Effect
from bot.tools.handed_over import HandedOverAction, HandedOverActionError
from bot.tools.names import SlackIdKind, SlackIdResolver
from bot.tools.person_question import ASK_PERSON
from countersign.request import RequestStatus
from storage import programs as program_requests
from storage import runs, webhooks
from storage.record import Store

if TYPE_CHECKING:
    from bot.policy.authority import Directory
    from bot.runs.program_calls import ProgramClaim
    from bot.runs.program_requests import ProgramRequest, ProgramRequests
    from storage.programs import ProgramApiKey


log = logging.getLogger("countersign.api")
POLL_INTERVAL_SECONDS = 0.25
MAX_WAITING_REQUESTS = 200
MAX_WAITING_REQUESTS_PER_KEY = 50


class RequestWatcher:
    """Wakes the programs that wait for a request to change; for the server's event loop only."""

    def __init__(self, store: Store, is_stopping: Callable[[], bool]) -> None:
        """`is_stopping` returns true once all waits have to end."""
        self._store = store
        self._turns = CapacityLimiter(1)  # its own limiter, so that it never waits for requests
        self._is_stopping = is_stopping
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._by_key: Counter[str] = Counter()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch_request(self, key_id: str, run_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each change of the request until the block ends.

        A caller that reads the status inside the block misses no change. Raises ProblemError if too
        many wait already.
        """
        if (
            self._by_key[key_id] >= MAX_WAITING_REQUESTS_PER_KEY
            or self._by_key.total() >= MAX_WAITING_REQUESTS
        ):
            many = HTTPStatus.TOO_MANY_REQUESTS
            raise api_bodies.build_retry_later_problem(
                many, "Too many requests wait at once. Ask without `wait`.", 5, "limits"
            )
        event = asyncio.Event()
        self._by_key[key_id] += 1
        self._waiters.setdefault(run_id, set()).add(event)
        if self._task is None:
            self._task = asyncio.create_task(self._watch_for_changes())
        try:
            yield event
        finally:
            self._by_key[key_id] -= 1
            waiters = self._waiters[run_id]
            waiters.discard(event)
            if not waiters:
                del self._waiters[run_id]

    async def _watch_for_changes(self) -> None:
        """Look for changes of the awaited requests until nobody waits any more."""
        seen: dict[str, program_requests.StatusFingerprint] = {}
        try:
            while self._waiters:
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
                seen = {} if self._is_stopping() else seen  # when stopping, wake all of them
                seen = await self._signal_changed_requests(seen)
        finally:
            self._task = None

    async def _signal_changed_requests(
        self, seen: dict[str, program_requests.StatusFingerprint]
    ) -> dict[str, program_requests.StatusFingerprint]:
        """Set the events of requests whose status differs from `seen`; return the statuses now."""
        try:
            marks = await to_thread.run_sync(
                self._load_status_marks, list(self._waiters), limiter=self._turns
            )
        except Exception:
            log.exception("the record could not be read")  # the programs keep waiting
            return seen
        for run_id, mark in marks.items():
            if mark != seen.get(run_id):
                for event in self._waiters.get(run_id, ()):
                    event.set()
        return marks

    def _load_status_marks(
        self, run_ids: list[str]
    ) -> dict[str, program_requests.StatusFingerprint]:
        with self._store.read() as tx:
            return dict(program_requests.get_status_fingerprints(tx, run_ids))


MAX_RESULT_BYTES = 100_000  # for a result that a program reports
MAX_SCANNED_REQUESTS = 500  # for one page of the list


@dataclass(frozen=True, slots=True)
class ProgramCallSpec:
    """A call that a program asks for: tool or action, arguments and terms."""

    tool: str | HandedOverAction
    arguments: Mapping[str, Any]
    field: str  # the field of the body that has the arguments
    reason: str = ""
    deadline: timedelta | None = None
    while_open: bool = False  # its idempotency key counts only until it has ended

    @property
    def name(self) -> str:
        """Return the name of the tool or the action."""
        return self.tool if isinstance(self.tool, str) else self.tool.name


@dataclass(frozen=True, slots=True)
class ProgramRequestService:
    """The service behind the API's request endpoints; one per process, thread-safe."""

    _directory: Directory  # looks up people and channels
    _programs: ProgramRequests  # asks people about calls
    _expect: Callable[[], None] = lambda: None  # called after requests whose key has a webhook

    def ask(
        self,
        key: ProgramApiKey,
        body: api_bodies.ToolWanted | api_bodies.ActionWanted | api_bodies.QuestionWanted,
        idempotency: str,
    ) -> tuple[api_bodies.RequestShown, bool]:
        """Ask people about a call, or a question; return the request, and whether it is new.

        Raises ProblemError.
        """
        call = replace(_build_call_spec(body), while_open=body.while_open)
        if not key.may_ask_for(call.name):
            why = f"The key of {key.name} may not ask for {call.name}."
            raise api_bodies.ProblemError(HTTPStatus.FORBIDDEN, why, topic="keys")
        try:
            requester = self._resolve_requester_id(key, body.requester)
            channel = self._resolve_channel_id(body.channel, requester)
            program_request = self._create_request(key, call, requester, channel, idempotency)
        except (LookupFailedError, LookupPendingError) as error:
            raise api_bodies.build_slack_unavailable_problem(error) from error
        if key.webhook:
            with self._programs.store.write() as tx:
                webhooks.register_request_for_webhooks(
                    tx, key.id, program_request.run_id, at=self._programs.clock.now()
                )
            self._expect()
        return api_bodies.build_request_shown(program_request.load_status()), program_request.is_new

    def get_request(self, key: ProgramApiKey, run_id: str) -> ProgramRequest:
        """Return the request of that id; raises ProblemError if this key did not make it."""
        found = self._programs.find_request(run_id, key)
        if found is None:
            raise api_bodies.ProblemError(
                HTTPStatus.NOT_FOUND, f"This key has no request {run_id}."
            )
        return found

    def load_request(self, key: ProgramApiKey, run_id: str) -> api_bodies.RequestShown:
        """Return a request as it is now; raises ProblemError if this key did not make it."""
        return api_bodies.build_request_shown(self.get_request(key, run_id).load_status())

    def write_receipts(self, key: ProgramApiKey, run_id: str) -> api_bodies.ReceiptsShown:
        """Return the receipts of the request's call; raises ProblemError if there is none."""
        try:
            return api_bodies.ReceiptsShown(**self.get_request(key, run_id).write_receipts())
        except NoReceiptError as error:
            raise api_bodies.ProblemError(HTTPStatus.CONFLICT, str(error)) from error

    def build_public_keys(self, _key: ProgramApiKey) -> api_bodies.PublicKeysShown:
        """Return the public keys of the receipts as a JSON Web Key Set, the same for every key."""
        return api_bodies.PublicKeysShown(**self._programs.receipts.build_public_keys())

    def list_requests(
        self,
        key: ProgramApiKey,
        after: str,
        statuses: Collection[RequestStatus],
        limit: int,
    ) -> api_bodies.RequestsShown:
        """Return at most `limit` requests of this key, newest first, that have one of `statuses`.

        Empty `statuses` mean any. With `after`, the page begins behind the request of that id. If
        few requests have these statuses, a page may hold fewer than `limit`, or none, even if
        another page follows. Raises ProblemError.
        """
        before = self._programs.clock.now() + timedelta(days=1), ""
        if after:
            with self._programs.store.read() as tx:
                run = runs.find_run(tx, after)
                if run is None or not program_requests.is_request_of_key(tx, run, key):
                    raise api_bodies.build_field_problem(
                        "after", f"This key has no request {after}."
                    )
            before = run.created_at, run.id
        with self._programs.store.read() as tx:
            scanned = program_requests.list_requests_under_key_name(
                tx, key, before, MAX_SCANNED_REQUESTS
            )
        matching: list[api_bodies.RequestShown] = []
        last = ""
        for number, (run, is_own) in enumerate(scanned, 1):
            if not is_own:
                continue
            last = run.id
            shown = self.load_request(key, last)
            if not statuses or shown.status in statuses:
                matching.append(shown)
            if len(matching) == limit:
                is_last = number == len(scanned) < MAX_SCANNED_REQUESTS
                return api_bodies.RequestsShown(requests=matching, next=None if is_last else last)
        more = len(scanned) == MAX_SCANNED_REQUESTS and last
        return api_bodies.RequestsShown(requests=matching, next=last if more else None)

    def find_request_by_idempotency_key(self, key: ProgramApiKey, idempotency: str) -> str | None:
        """Return the id of the request that this key made with `idempotency`; None for none."""
        with self._programs.store.read() as tx:
            return program_requests.find_request_by_idempotency_key(tx, key, idempotency)

    def claim_call(
        self, key: ProgramApiKey, run_id: str, sent: api_bodies.ClaimSent
    ) -> ProgramClaim | None:
        """Claim a call; return None while it is still being checked. Raises ProblemError."""
        seconds = sent.lease_seconds
        lease = timedelta(seconds=seconds) if seconds else program_requests.CLAIM_LEASE_DURATION
        try:
            return self.get_request(key, run_id).claim_call(sent.claimant, lease)
        except program_calls.ClaimRefusedError as error:
            raise _build_conflict_problem(error) from error

    def report_outcome(
        self, key: ProgramApiKey, run_id: str, sent: api_bodies.OutcomeSent
    ) -> api_bodies.RequestShown:
        """Record the outcome of a claimed call; return the request. Raises ProblemError."""
        if len(json.dumps(sent.result, ensure_ascii=False).encode()) > MAX_RESULT_BYTES:
            raise api_bodies.build_field_problem(
                "result", f"This has more than {MAX_RESULT_BYTES:,} bytes."
            )
        program_request = self.get_request(key, run_id)
        try:
            program_request.report_outcome(sent.claimant, sent.succeeded, sent.result)
        except program_calls.ClaimRefusedError as error:
            raise _build_conflict_problem(error) from error
        return api_bodies.build_request_shown(program_request.load_status())

    def cancel_request(self, key: ProgramApiKey, run_id: str) -> api_bodies.RequestShown:
        """Cancel a request, unless it was cancelled before; return it. Raises ProblemError."""
        asked = self.get_request(key, run_id)
        is_taken_back = asked.cancel()
        found = api_bodies.build_request_shown(asked.load_status())
        if not is_taken_back and found.status is not RequestStatus.CANCELLED:
            why = "It has ended or is being executed, so it cannot be taken back."
            raise api_bodies.ProblemError(HTTPStatus.CONFLICT, why, topic="statuses")
        return found

    def _resolve_requester_id(self, key: ProgramApiKey, named: str) -> str:
        """Return the id of the requester named; ProblemError if the key may not ask for them."""
        if not named:
            return key.person
        try:
            found = SlackIdResolver(self._directory, None).resolve_id(SlackIdKind.PERSON, named)
        except ValueError as error:
            raise api_bodies.build_field_problem("requester", str(error)) from None
        if found != key.person and not key.is_service:
            why = f"The key of {key.name} may only ask in the name of {key.person}."
            raise api_bodies.ProblemError(HTTPStatus.FORBIDDEN, why, topic="keys")
        return found

    def _resolve_channel_id(self, named: str, requester: str) -> str:
        """Return the id of the channel; ProblemError for one that the requester does not see."""
        if not named:
            return ""
        try:
            return SlackIdResolver(self._directory, requester).resolve_id(
                SlackIdKind.CHANNEL, named
            )
        except ValueError as error:
            raise api_bodies.build_field_problem("channel", str(error)) from None

    def _create_request(
        self,
        key: ProgramApiKey,
        call: ProgramCallSpec,
        requester: str,
        channel: str,
        idempotency: str,
    ) -> ProgramRequest:
        try:
            return self._programs.ask(
                call.tool,
                call.arguments,
                requester=requester,
                channel=channel,
                why=call.reason,
                key=idempotency,
                client="" if key.is_bot_account else key,
                deadline=call.deadline,
                while_open=call.while_open,
            )
        except KeyError:
            raise api_bodies.build_field_problem("tool", f"There is no tool {call.name}.") from None
        except ValidationError as error:
            raise api_bodies.build_validation_problem(
                _build_field_errors(error, call.field)
            ) from None
        except HandedOverActionError as error:
            raise api_bodies.build_field_problem("action", str(error)) from None
        except program_calls.RequesterNotPermittedError as error:
            raise api_bodies.build_field_problem("requester", str(error)) from None
        except program_calls.RequestRateLimitError as error:
            raise build_rate_limit_problem(key, error.since, self._programs.clock.now()) from None
        except program_calls.RequestKeyReusedError as error:
            raise api_bodies.ProblemError(
                HTTPStatus.CONFLICT, str(error), topic="asking-twice"
            ) from None


def _build_call_spec(
    body: api_bodies.ToolWanted | api_bodies.ActionWanted | api_bodies.QuestionWanted,
) -> ProgramCallSpec:
    if isinstance(body, api_bodies.QuestionWanted):
        return ProgramCallSpec(ASK_PERSON.name, body.question, "question")
    seconds = body.deadline_seconds
    deadline = timedelta(seconds=seconds) if seconds is not None else None
    if isinstance(body, api_bodies.ToolWanted):
        return ProgramCallSpec(body.tool, body.arguments, "arguments", body.reason, deadline)
    sent = body.action
    # any object, if the program sends no schema
    schema = {"type": "object"} if sent.argument_schema is None else sent.argument_schema
    does = Effect(sent.does) if sent.does else None
    action = HandedOverAction(sent.name, sent.title, sent.effect, does, schema)
    return ProgramCallSpec(action, body.arguments, "arguments", body.reason, deadline)


def _build_field_errors(error: ValidationError, field: str) -> list[api_bodies.FieldError]:
    return [
        api_bodies.FieldError(field=".".join([field, *map(str, each["loc"])]), message=each["msg"])
        for each in error.errors(include_url=False, include_input=False, include_context=False)
    ]


def _build_conflict_problem(error: program_calls.ClaimRefusedError) -> api_bodies.ProblemError:
    text = str(error)
    sentence = f"{text[0].upper()}{text[1:]}."
    return api_bodies.ProblemError(HTTPStatus.CONFLICT, sentence, topic="handed-over-calls")
