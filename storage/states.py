"""The two state machines, as tables one can read. Pure: no database, no clock.

call:  born PENDING · APPROVED · REFUSED
       PENDING  ─► APPROVED | REJECTED | EXPIRED | CANCELLED | SUPERSEDED | INVALIDATED
       APPROVED ─► RUNNING | CANCELLED | SUPERSEDED | INVALIDATED | PENDING (asked again)
       RUNNING  ─► SUCCEEDED | FAILED | UNKNOWN | PENDING (it did nothing, for what was shown had changed: asked again)
       UNKNOWN  ─► SUCCEEDED | FAILED (a person says which) | APPROVED (a new vote to run it again)
run:   READY ─► RUNNING ─► WAITING ─► READY … ─► COMPLETED | FAILED | CANCELLED
       WAITING, READY, RUNNING ─► CANCELLED;  FAILED ─► READY (retry);  RUNNING ─► READY (handed back)
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar


class CallStatus(StrEnum):
    """Where one proposed tool call stands."""

    PENDING = "pending"  # shown to people, waiting for a decision or the deadline
    APPROVED = "approved"  # may run: by votes or by policy allow
    # never asked: denied by policy, invalid, unknown tool, repeat of a rejection
    REFUSED = "refused"
    REJECTED = "rejected"  # a person said no
    EXPIRED = "expired"  # the deadline said no
    CANCELLED = "cancelled"  # the run was cancelled, or an earlier step of the plan failed
    SUPERSEDED = "superseded"  # the requester asked for something else
    INVALIDATED = "invalidated"  # what was shown is no longer what would run
    RUNNING = "running"  # written before the effect
    SUCCEEDED = "succeeded"  # the tool returned
    FAILED = "failed"  # the tool raised, or a person said it did not happen
    UNKNOWN = "unknown"  # it started and nobody knows how it ended


class RunStatus(StrEnum):
    """Where one request stands."""

    READY = "ready"  # a worker may take it
    RUNNING = "running"  # a worker has it, with a fence and a lease
    WAITING = "waiting"  # for people
    COMPLETED = "completed"  # answered
    FAILED = "failed"  # could not go on; Retry makes it READY again
    CANCELLED = "cancelled"  # the requester stopped it


C, R = CallStatus, RunStatus

CALL_BIRTHS: frozenset[CallStatus] = frozenset({C.PENDING, C.APPROVED, C.REFUSED})
CALL_MOVES: dict[CallStatus, frozenset[CallStatus]] = {
    C.PENDING: frozenset(
        {C.APPROVED, C.REJECTED, C.EXPIRED, C.CANCELLED, C.SUPERSEDED, C.INVALIDATED}
    ),
    C.APPROVED: frozenset({C.RUNNING, C.CANCELLED, C.SUPERSEDED, C.INVALIDATED, C.PENDING}),
    C.RUNNING: frozenset({C.SUCCEEDED, C.FAILED, C.UNKNOWN, C.PENDING}),
    C.UNKNOWN: frozenset({C.SUCCEEDED, C.FAILED, C.APPROVED}),
    C.REFUSED: frozenset(),
    C.REJECTED: frozenset(),
    C.EXPIRED: frozenset(),
    C.CANCELLED: frozenset(),
    C.SUPERSEDED: frozenset(),
    C.INVALIDATED: frozenset(),
    C.SUCCEEDED: frozenset(),
    C.FAILED: frozenset(),
}
CALL_FINAL: frozenset[CallStatus] = frozenset(s for s, to in CALL_MOVES.items() if not to)

RUN_BIRTHS: frozenset[RunStatus] = frozenset({R.READY})
RUN_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    R.READY: frozenset({R.RUNNING, R.CANCELLED}),
    R.RUNNING: frozenset({R.WAITING, R.READY, R.COMPLETED, R.FAILED, R.CANCELLED}),
    R.WAITING: frozenset({R.READY, R.CANCELLED}),
    R.FAILED: frozenset({R.READY}),
    R.COMPLETED: frozenset(),
    R.CANCELLED: frozenset(),
}
RUN_OPEN: frozenset[RunStatus] = frozenset({R.READY, R.RUNNING, R.WAITING})


class IllegalMoveError(Exception):
    """A move the table does not have: a bug in the caller, never a race."""


S = TypeVar("S", CallStatus, RunStatus)


def check(moves: dict[S, frozenset[S]], source: S, target: S) -> None:
    """Raise IllegalMoveError unless the table has `source -> target`."""
    if target not in moves[source]:
        raise IllegalMoveError(f"{source} -> {target}")
