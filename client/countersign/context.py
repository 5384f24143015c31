"""Who asks, where and why, for all requests that are made within a block.

with asking(run="thread 7", requester="@ben", channel="#support"):
    agent.run(…)
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from countersign.request import (
    AlreadyTaken,
    CountersignError,
    DidNotWork,
    Request,
    Undecided,
    find_request_error,
)


@dataclass(frozen=True, slots=True)
class RequestCircumstances:
    """Who makes a request, where and why, and the run that it belongs to.

    `run`: a name for the work, the same in every life of the process: a call asked once within the
    run is not asked again. `requester`: a Slack user id or @handle. `channel`: an id or #name.
    `reason`: for the approver. `call`: the run's own name for this call, if it names its calls.
    """

    run: str = ""
    requester: str = ""
    channel: str = ""
    reason: str = ""
    call: str = ""


# set by the surrounding `asking` block; empty without one
CURRENT_CIRCUMSTANCES: ContextVar[RequestCircumstances] = ContextVar(
    "circumstances",
    default=RequestCircumstances(),  # noqa: B039 # frozen
)


@contextmanager
def asking(
    *,
    run: str | None = None,
    requester: str | None = None,
    channel: str | None = None,
    reason: str | None = None,
) -> Iterator[RequestCircumstances]:
    """Set who asks, where and why for all requests in this block; None keeps the outer value.

    Applies in tasks and in threads that copy the context (`asyncio.to_thread`), in no other
    threads.
    """
    overrides = {"run": run, "requester": requester, "channel": channel, "reason": reason}
    circumstances = replace(
        CURRENT_CIRCUMSTANCES.get(),
        **{name: text for name, text in overrides.items() if text is not None},
    )
    token = CURRENT_CIRCUMSTANCES.set(circumstances)
    try:
        yield circumstances
    finally:
        CURRENT_CIRCUMSTANCES.reset(token)


def build_idempotency_key(run: str, what: str, arguments: Mapping[str, Any]) -> str:
    """Return an idempotency key: the same for the same call in one run, random without a run."""
    if not run:
        return uuid.uuid4().hex
    body = json.dumps([run, what, arguments], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()


# For frameworks that save their state while people decide, so that no process waits.


def raise_undecided(request: Request) -> None:
    """Raise Undecided for a request: the default way in which a call is suspended."""
    raise Undecided("Nobody has decided yet. It was not done.", request)


@dataclass(frozen=True, slots=True)
class CallSuspension:
    """The names of one tool call in its framework, and how the framework suspends the call.

    `run`, `call`: the framework's names for its work and this call, the same in every life of both;
    `call` is empty if there is none. `suspend`: raises the exception by which the framework
    suspends; if it returns, the request is read again.
    """

    run: str
    call: str = ""
    suspend: Callable[[Request], object] = raise_undecided


# how undecided calls are suspended; None if they wait for people
CURRENT_SUSPENSION: ContextVar[CallSuspension | None] = ContextVar("suspension", default=None)


@contextmanager
def suspend_undecided_calls(suspension: CallSuspension) -> Iterator[None]:
    """Have decorated functions that are called in this block suspend instead of waiting.

    A call that does not run raises its error then, even if the function `tells_why`.
    """
    token = CURRENT_SUSPENSION.set(suspension)
    try:
        yield
    finally:
        CURRENT_SUSPENSION.reset(token)


def describe_call_error(error: CountersignError) -> str:
    """Return a sentence that says why a call did not run, for the person or agent that asked."""
    known = isinstance(error, AlreadyTaken | DidNotWork | Undecided)  # then the call may have run
    return str(error) if known else f"It was not done. {error}"


def describe_refusal(request: Request) -> str | None:
    """Return a sentence that says why a decided request must not run; None if it may run."""
    trouble = find_request_error(request)
    return None if trouble is None else describe_call_error(trouble)
