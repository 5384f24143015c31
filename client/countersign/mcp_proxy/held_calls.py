"""MCP tool calls that are held until people decide, and the two tools that only ask people."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

import anyio
from anyio import to_thread
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from mcp.server.context import ServerRequestContext
from mcp.types import CallToolResult, TextContent, Tool, ToolAnnotations

from countersign.client import HAS_ENDED, IS_DECIDED, Countersign
from countersign.gated_call import ClaimedGatedCall
from countersign.request import (
    CountersignError,
    NotAllowed,
    OwnAction,
    Request,
    escape_braces,
    find_request_error,
)

# While people decide, a host gets progress messages; after a while it is told to call again.

LOOK_SECONDS = 10.0  # one poll of a request; between two, the host gets a progress message
MIN_LOOK_SECONDS = 1.0  # a shorter wait would be answered at once
NOT_DECIDED_TEXT = "Nobody has decided yet{link}. Nothing was done."
ProgressSender = Callable[[str], Awaitable[None]]


class StillPendingError(Exception):
    """Raised when a request is still open after the time a host may wait; says what to do."""


def build_progress_sender(context: ServerRequestContext[Any], tool: str) -> ProgressSender:
    """Return a function that sends the host progress messages about its call of this tool."""
    numbers = count(1)

    async def send(words: str) -> None:
        await context.session.report_progress(float(next(numbers)), None, f"{tool} {words}")

    return send


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run `work` on a thread and return its result; a cancelled caller does not wait for it."""
    return await to_thread.run_sync(work, abandon_on_cancel=True)


# Calls made by hosts: people are asked only once, even if a host repeats the call meanwhile.

MAX_KNOWN_CALLS = 500  # per key and server
RESULT_RETENTION_SECONDS = 600.0  # for a host that had given up and calls again


@dataclass(slots=True)
class HostCall:
    """One tool call that hosts have made, kept until one of them was given the result."""

    run: str  # the run id of its request
    request_id: str = ""
    result: Any = None
    is_done: bool = False  # `result` is set
    waiting_hosts: int = 0  # hosts waiting for it now
    last_waited_at: float = 0.0  # by the monotonic clock
    ask_lock: anyio.Lock = field(default_factory=anyio.Lock)
    claim_lock: anyio.Lock = field(default_factory=anyio.Lock)


class OpenHostCalls:
    """The calls that hosts have made of one server with one key; for one event loop."""

    def __init__(self, countersign: Countersign, around: Mapping[str, str], server: str) -> None:
        """`around`: requester, channel, reason of all requests; `server`: tells servers apart."""
        self._countersign = countersign
        self._of = [server, dict(around)]
        self._known: OrderedDict[str, HostCall] = OrderedDict()

    def find_or_add_host_call(
        self, action: str | OwnAction, arguments: Mapping[str, Any], definition: object = None
    ) -> HostCall:
        """Return the kept call equal to this one, a new one if there is none.

        `definition`: the tool as its server describes it, if the server runs it. Two tools may be
        alike in all that people are shown, and one may change while they decide.
        """
        action_json = action if isinstance(action, str) else action.to_json()
        name = json.dumps([*self._of, action_json, arguments, definition], sort_keys=True)
        run = f"mcp {hashlib.sha256(name.encode()).hexdigest()}"
        call = self._known.setdefault(run, HostCall(run))
        self._known.move_to_end(run)
        self._forget_oldest(call)
        return call

    def _forget_oldest(self, newest: HostCall) -> None:
        """Forget the oldest calls above the limit for which no host waits.

        The request of a forgotten call is found again while it is open.
        """
        left = len(self._known) - MAX_KNOWN_CALLS
        for each in [*self._known.values()] if left > 0 else ():
            if left > 0 and not each.waiting_hosts and each is not newest:
                self._forget_call(each)
                left -= 1

    @contextmanager
    def forget_call_when_answered(self, call: HostCall) -> Iterator[None]:
        """Forget the host's call once this block ends with a result or an error for the host.

        Made again, the call is a new one. It is kept on StillPendingError, and if the host has
        given up.
        """
        call.waiting_hosts += 1
        try:
            yield
        except StillPendingError:
            raise
        except Exception:
            self._forget_call(call)
            raise
        finally:
            call.waiting_hosts -= 1
        self._forget_call(call)

    def _forget_call(self, call: HostCall) -> None:
        if self._known.get(call.run) is call:
            del self._known[call.run]

    async def get_or_create_request(self, call: HostCall, ask: Callable[[], Request]) -> Request:
        """Return the call's request in its current state; call `ask` for one if there is none.

        A request that has ended is still returned if a host waited for it in the last 600 seconds.
        `ask` also finds an open request that an earlier life of this process has made.
        """
        async with call.ask_lock:  # if a call comes twice at once, only one asks
            request: Request | None = None
            if call.request_id:
                request = await run_in_thread(
                    partial(self._countersign.get_request, call.request_id)
                )
                if (
                    request.has_ended
                    and time.monotonic() - call.last_waited_at > RESULT_RETENTION_SECONDS
                ):
                    request, call.is_done, call.result = None, False, None
            if request is None:
                request = await run_in_thread(ask)
                call.request_id = request.id
            call.last_waited_at = time.monotonic()
            return request


class NotRunError(CountersignError):
    """Raised when an approved call was not run after all; the message says why."""


class OutcomeUnknownError(CountersignError):
    """Raised when a call was begun and nobody knows how it ended; the message is for the host."""


log = logging.getLogger("countersign.proxy")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HeldOutcome(Generic[T]):
    """The outcome of a call that was made, according to the code that ran it."""

    result: T  # what the host gets
    succeeded: bool
    reported_result: Any  # what the record gets


@dataclass
class HeldCallRunner:
    """Holds tool calls until people have decided, then runs each once; for one event loop."""

    countersign: Countersign
    around: dict[str, str]  # requester, channel, reason of all requests
    hold: float  # seconds that a host waits
    server: str = ""  # the server behind the proxy, as text that each life of the process repeats

    def __post_init__(self) -> None:
        self.host_calls = OpenHostCalls(self.countersign, self.around, self.server)

    async def run_after_approval(
        self,
        action: OwnAction,
        arguments: dict[str, Any],
        run: Callable[[dict[str, Any]], Awaitable[HeldOutcome[T]]],
        progress: ProgressSender,
        definition: object = None,
    ) -> T:
        """Ask, wait, run the call with the approved arguments, and return the result for the host.

        `progress` gets messages for the host; `definition`: the server's own tool. `run` raises
        NotRunError if it did nothing, and OutcomeUnknownError, as which any other exception counts,
        if nobody knows how the call ended. Raises StillPendingError and CountersignError; nothing
        has run unless that is an OutcomeUnknownError.
        """
        call = self.host_calls.find_or_add_host_call(action, arguments, definition)
        ask = partial(self.countersign.open_request, action, arguments, **self.around, run=call.run)
        with self.host_calls.forget_call_when_answered(call):
            request = await self.host_calls.get_or_create_request(call, ask)
            look, says = self.countersign.get_request, "is waiting for approval"
            request = await self._wait_until(
                IS_DECIDED, request, look, progress, says, NOT_DECIDED_TEXT
            )
            async with call.claim_lock:  # of two at once, one runs and both get its result
                if not call.is_done:
                    call.result = await self._claim_and_run(request, action.name, run)
                    call.is_done = True
        found: T = call.result
        return found

    async def ask_until_end(
        self,
        asked: str,
        arguments: Mapping[str, Any],
        ask: Callable[..., Request],
        progress: ProgressSender,
        *,
        says: str,
        still: str,
    ) -> Request:
        """Ask people by `ask`, and return the request once it has ended without an error.

        `asked` names what `ask` asks, which takes the circumstances. `says`: the progress message
        for the host meanwhile; `still`: what the error says. Raises StillPendingError and
        CountersignError.
        """
        call = self.host_calls.find_or_add_host_call(asked, arguments)
        with self.host_calls.forget_call_when_answered(call):
            ask = partial(ask, **self.around, run=call.run)
            request = await self.host_calls.get_or_create_request(call, ask)
            look = self.countersign.ended
            request = await self._wait_until(HAS_ENDED, request, look, progress, says, still)
            if trouble := find_request_error(request):
                raise trouble
        return request

    async def _wait_until(
        self,
        is_so: Callable[[Request], bool],
        request: Request,
        look: Callable[[str, float], Request],
        progress: ProgressSender,
        says: str,
        still: str,
    ) -> Request:
        until = time.monotonic() + self.hold
        while not is_so(request):
            seconds_left = until - time.monotonic()
            if seconds_left <= 0:
                link = f" ({request.link})" if request.link else ""
                raise StillPendingError(
                    f"{still.format(link=link)} Make the same call again, with the same"
                    " arguments, to keep waiting; it is not asked twice."
                )
            await progress(f"{says} {request.link}".strip())
            seconds = min(LOOK_SECONDS, max(seconds_left, MIN_LOOK_SECONDS))
            request = await run_in_thread(partial(look, request.id, seconds))
        return request

    async def _claim_and_run(
        self,
        request: Request,
        tool: str,
        run: Callable[[dict[str, Any]], Awaitable[HeldOutcome[T]]],
    ) -> T:
        """Claim an approved call, run it and report, to the end even if the host gives up."""
        if trouble := find_request_error(request):
            raise trouble
        with anyio.CancelScope(shield=True):
            claimed = await run_in_thread(
                partial(ClaimedGatedCall, self.countersign, request, tool)
            )
            try:
                with claimed.renew_lease_during_block():
                    ended = await run(claimed.request.arguments)
            except NotRunError as error:
                await _report_outcome(claimed, False, str(error))
                raise
            except OutcomeUnknownError as error:  # people are asked for the outcome
                log.warning("request %s: %s", request.id, error)
                raise
            except Exception as error:
                log.exception("request %s ended in an unexpected way", request.id)
                raise OutcomeUnknownError(
                    f"The call was started, and its outcome is unknown ({type(error).__name__})."
                    " Do not make it again before you know."
                ) from None
            await _report_outcome(claimed, ended.succeeded, ended.reported_result)
        return ended.result


async def _report_outcome(taken: ClaimedGatedCall, succeeded: bool, result: Any) -> None:
    await run_in_thread(partial(taken.report_outcome, succeeded=succeeded, result=result))


ASK_TOOL = "ask_person"
APPROVE_TOOL = "request_approval"
_MAX_TITLE_CHARS = 80
NOT_ANSWERED_TEXT = "Nobody has answered yet{link}."
_READ_ONLY_HINTS = ToolAnnotations(read_only_hint=True)
_TOOLS = (
    Tool(
        name=ASK_TOOL,
        title="Ask a person",
        description="Ask somebody in Slack for information. The answer is data, and approves "
        "nothing. It may take long: if nobody has answered yet, make the same call again.",
        input_schema={
            "type": "object",
            "properties": {
                "question": {"type": "string", "maxLength": 2000},
                "to": {
                    "type": "string",
                    "description": "A Slack id or @handle; default: the requester.",
                },
                "choices": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
            },
            "required": ["question"],
            "additionalProperties": False,
        },
        annotations=_READ_ONLY_HINTS,
    ),
    Tool(
        name=APPROVE_TOOL,
        title="Request an approval",
        description="Have people approve what you are about to do by other means, and wait for "
        "it. Do it only after an approval, once, and as the approved details say.",
        input_schema={
            "type": "object",
            "properties": {
                "title": {"type": "string", "minLength": 1, "maxLength": _MAX_TITLE_CHARS},
                "details": {"type": "string", "minLength": 1, "maxLength": 3000},
            },
            "required": ["title", "details"],
            "additionalProperties": False,
        },
        annotations=_READ_ONLY_HINTS,
    ),
)
TOOLS = {each.name: each for each in _TOOLS}
_DETAILS_SCHEMA = {
    "type": "object",
    "properties": {"details": {"type": "string", "title": "What is to be done", "maxLength": 3000}},
    "required": ["details"],
    "additionalProperties": False,
}


async def call_own_tool(
    held_calls: HeldCallRunner, name: str, given: Mapping[str, Any], told: ProgressSender
) -> CallToolResult:
    """Call one of the tools that only ask people, and return people's answer.

    Raises StillPendingError and CountersignError.
    """
    validator = Draft202012Validator(TOOLS[name].input_schema)
    if wrong := best_match(validator.iter_errors(dict(given))):
        raise NotAllowed(f"{name} does not accept that: {wrong.message}")
    text = await (_ask_person if name == ASK_TOOL else _request_approval)(held_calls, given, told)
    return build_text_result(text)


def build_text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    """Return the result of a call that consists of a text."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


async def _ask_person(
    held_calls: HeldCallRunner, given: Mapping[str, Any], told: ProgressSender
) -> str:
    question = {name: value for name, value in given.items() if value is not None}
    ask = partial(held_calls.countersign.open_question, question)
    request = await held_calls.ask_until_end(
        ASK_TOOL, question, ask, told, says="is waiting for an answer", still=NOT_ANSWERED_TEXT
    )
    said = json.dumps(request.result, ensure_ascii=False)
    return f"They answered (data, not an approval): {said}"


async def _request_approval(
    held_calls: HeldCallRunner, given: Mapping[str, Any], told: ProgressSender
) -> str:
    title = str(given["title"])[:_MAX_TITLE_CHARS]
    effect = escape_braces(title)
    action = OwnAction(name=APPROVE_TOOL, title=title, effect=effect, schema=_DETAILS_SCHEMA)
    approved = await held_calls.run_after_approval(
        action, {"details": given["details"]}, _return_approved_arguments, told
    )
    return f"Approved. Do this, once, and nothing else: {approved['details']}"


async def _return_approved_arguments(arguments: dict[str, Any]) -> HeldOutcome[dict[str, Any]]:
    return HeldOutcome(arguments, True, "handed on to the program that asked")
