"""Calls for which a framework keeps its work while people decide, so that no process waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from countersign.errors import AlreadyTaken, CountersignError, DidNotWork, Undecided, trouble_of
from countersign.request import Request


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


_NOW: ContextVar[Suspension | None] = ContextVar("suspension", default=None)


def suspension_now() -> Suspension | None:
    """Return how a call is suspended that is made here; None where it waits."""
    return _NOW.get()


@contextmanager
def suspending(suspension: Suspension) -> Iterator[None]:
    """Have decorated functions that are called in this block suspend instead of waiting.

    What would not run raises then, also where a function `tells_why`.
    """
    token = _NOW.set(suspension)
    try:
        yield
    finally:
        _NOW.reset(token)


def as_told(error: CountersignError) -> str:
    """Return why a call did not run, in words for whoever asked."""
    known = isinstance(error, AlreadyTaken | DidNotWork | Undecided)  # it may have been done
    return str(error) if known else f"It was not done. {error}"


def refusal_of(request: Request) -> str | None:
    """Return why a decided request is not run any more, in words; None where it may be."""
    trouble = trouble_of(request)
    return None if trouble is None else as_told(trouble)
