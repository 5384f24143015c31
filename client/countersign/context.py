"""In whose name, where and why something is asked, for all that is asked within a block.

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
    trouble_of,
)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a request has beside what is asked.

    `run`: what the work is called, the same in every life of it: what was asked within it once is
    not asked again. `requester`: a Slack user id or @handle. `channel`: an id or #name. `reason`:
    for the approver. `call`: what the run calls this call, where it has names for its calls.
    """

    run: str = ""
    requester: str = ""
    channel: str = ""
    reason: str = ""
    call: str = ""


_NOW: ContextVar[Circumstances] = ContextVar("circumstances", default=Circumstances())  # noqa: B039 # frozen


def current() -> Circumstances:
    """Return the circumstances of this block."""
    return _NOW.get()


@contextmanager
def asking(
    *,
    run: str | None = None,
    requester: str | None = None,
    channel: str | None = None,
    reason: str | None = None,
) -> Iterator[Circumstances]:
    """Have what is asked in this block asked so; what is left out stays as it is around it.

    It holds in tasks and in threads that copy the context (`asyncio.to_thread`), in no others.
    """
    given = {"run": run, "requester": requester, "channel": channel, "reason": reason}
    made = replace(current(), **{name: text for name, text in given.items() if text is not None})
    token = _NOW.set(made)
    try:
        yield made
    finally:
        _NOW.reset(token)


def key_of(run: str, what: str, arguments: Mapping[str, Any]) -> str:
    """Return the idempotency key: the same for the same call in the same run, else a new one."""
    if not run:
        return uuid.uuid4().hex
    body = json.dumps([run, what, arguments], sort_keys=True)
    return hashlib.sha256(body.encode()).hexdigest()


# Calls for which a framework keeps its work while people decide, so that no process waits.


def undecided(request: Request) -> None:
    """Raise Undecided: what is done where a framework suspends somewhere else."""
    raise Undecided("Nobody has decided yet. It was not done.", request)


@dataclass(frozen=True, slots=True)
class Suspension:
    """Under what name one tool call is asked, and how the framework that makes it suspends.

    `run`, `call`: what the framework calls its work and this call, the same in every life of both;
    `call` is empty where it names none. `suspend`: raises what the framework suspends by; where it
    returns, it is looked again.
    """

    run: str
    call: str = ""
    suspend: Callable[[Request], object] = undecided


_SUSPENSION: ContextVar[Suspension | None] = ContextVar("suspension", default=None)


def suspension_now() -> Suspension | None:
    """Return how a call is suspended that is made here; None where it waits."""
    return _SUSPENSION.get()


@contextmanager
def suspending(suspension: Suspension) -> Iterator[None]:
    """Have decorated functions that are called in this block suspend instead of waiting.

    What would not run raises then, also where a function `tells_why`.
    """
    token = _SUSPENSION.set(suspension)
    try:
        yield
    finally:
        _SUSPENSION.reset(token)


def as_told(error: CountersignError) -> str:
    """Return why a call did not run, in words for whoever asked."""
    known = isinstance(error, AlreadyTaken | DidNotWork | Undecided)  # it may have been done
    return str(error) if known else f"It was not done. {error}"


def refusal_of(request: Request) -> str | None:
    """Return why a decided request is not run any more, in words; None where it may be."""
    trouble = trouble_of(request)
    return None if trouble is None else as_told(trouble)
