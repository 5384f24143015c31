"""What a decision meets: it counts, somebody was first, or it is stale, late or void."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from storage import calls
from storage.models import Call, Vote
from storage.states import Balance, CallStatus, Verb
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Open:
    """It can be decided: the call waits, and this is its newest revision."""

    call: Call


@dataclass(frozen=True, slots=True)
class Applied:
    """It counts."""

    call: Call


@dataclass(frozen=True, slots=True)
class Decided:
    """Somebody, or the clock, was first; `call` as it stands now."""

    call: Call


@dataclass(frozen=True, slots=True)
class Stale:
    """The button belongs to an older revision."""

    call: Call


@dataclass(frozen=True, slots=True)
class TooLate:
    """It was stored at or after the deadline."""

    call: Call


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no such call."""


@dataclass(frozen=True, slots=True)
class Voted:
    """This person has voted on this revision before, or somebody else for them."""

    call: Call
    verb: Verb
    by: str  # who has


Closed = Decided | Stale | TooLate | Gone
Outcome = Applied | Voted | Closed


class Outputs(Protocol):
    """What the model is told of calls that end here; `bot.agent.outputs` has the words."""

    def rejected(self, votes: Sequence[tuple[str, str]]) -> str: ...
    def expired(self) -> str: ...
    def cancelled(self) -> str: ...
    def withdrawn(self) -> str: ...
    def left_behind(self) -> str: ...
    def superseded(self) -> str: ...
    def sent_back(self, person: str, feedback: str) -> str: ...
    def lost(self) -> str: ...
    def resolved(self, person: str, done: bool) -> str: ...
    def stopped(self, why: str, done: Sequence[tuple[str, str, str]]) -> str: ...
    def abandoned(self) -> str: ...


class Standing(Protocol):
    """How far votes have come, in the words of whoever knows the gate."""

    @property
    def outcome(self) -> Balance:
        """What they come to."""
        ...

    @property
    def stage(self) -> int:
        """The stage that is open, or the first of them, from 0."""
        ...

    @property
    def open(self) -> tuple[int, ...]:
        """The stages in one of which an approval counts now."""
        ...


Weigh = Callable[[list[Vote]], Standing]


def look(tx: Transaction, call_id: str, revision: int, at: datetime) -> Open | Closed:
    """Return what a decision on this revision, stored at `at`, would meet."""
    call = calls.get(tx, call_id)
    if call is None:
        return Gone()
    if call.status is not CallStatus.PENDING:
        return Decided(call)
    if call.revision != revision:
        return Stale(call)
    if call.deadline is not None and at >= call.deadline:
        return TooLate(call)
    return Open(call)
