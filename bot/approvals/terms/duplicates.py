"""The same call again: the same tool with the same arguments, in one request or by one program.

What can be done twice without harm, and was done with nothing changed since, is not done or asked
again. Everything else goes its way as if it were new, and the card says that it repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bot.messages.text import in_utc
from bot.tools import Effect, Tool
from storage import call_history, calls, runs
from storage.models import Call, Run
from storage.states import CallStatus
from storage.transaction import Transaction

C = CallStatus
LATELY = timedelta(minutes=10)  # in which a program that asks anew may not know how it ended
RAN = (C.RUNNING, C.SUCCEEDED, C.FAILED, C.UNKNOWN)  # also what failed may have changed something
SAME = "same as an earlier call, whose result it got"


@dataclass(frozen=True, slots=True)
class Repeat:
    """An earlier call that was the same."""

    note: str  # for the card, should people be asked
    stands: Call | None = None  # its result stands for this call as well


def find(
    tx: Transaction,
    tool: Tool[Any],
    earlier: Sequence[Call],
    arguments: str,
    siblings: Sequence[tuple[Call, str]],
) -> Repeat | None:
    """Return what this call repeats, if anything.

    `earlier`: the request's calls of this tool with the same arguments, none refused. `siblings`:
    the earlier calls of its plan with their canonical arguments.
    """
    ended = (call for call in reversed(earlier) if call.status in (C.SUCCEEDED, C.UNKNOWN))
    done = next(ended, None)
    if done is not None:
        return Repeat(_told(done), done if _stands(tx, done, tool, siblings) else None)
    if any((call.tool, given) == (tool.name, arguments) for call, given in siblings):
        return Repeat("the same stands in this plan already, so it would be done twice")
    return Repeat(_told(earlier[-1])) if earlier else None


def lately(
    tx: Transaction, run: Run, tool: Tool[Any], arguments: str, now: datetime
) -> Repeat | None:
    """Return what a program repeats that it asked for minutes ago, in another request.

    It may not have heard how that ended, or want it twice: only people can say.
    """
    if not run.client or run.parent_call or tool.does is Effect.READ:
        return None
    done = call_history.begun_lately(tx, run.client, tool.name, arguments, now - LATELY)
    if done is None:
        return None
    match done.status:
        case C.SUCCEEDED:
            at = in_utc(done.finished_at or done.created_at)
            return Repeat(f"the same was done already for this program, {at}")
        case C.RUNNING:
            return Repeat("the same is being done already for this program")
    return Repeat(
        "the same was started already for this program, and nobody knows whether it happened"
    )


def _stands(
    tx: Transaction, done: Call, tool: Tool[Any], siblings: Sequence[tuple[Call, str]]
) -> bool:
    """Return whether the result of `done` is still what running it again would come to."""
    if not tool.idempotent or tool.does is Effect.READ or done.status is not C.SUCCEEDED:
        return False
    ran = [call for call in calls.after(tx, done) if call.status in RAN]
    # those of its own plan run before it, if people let them
    between = [*ran, *(call for call, _ in siblings)]
    # what other agents of the request did may have come before it or after
    run = runs.get(tx, done.run_id)
    found = calls.of_request(tx, run.root_id) if run else []
    between += [call for call in found if call.run_id != done.run_id and call.status in RAN]
    return done.schema_digest == tool.schema_digest() and all(
        call.does == Effect.READ for call in between
    )


def _told(call: Call) -> str:
    """Return what became of the earlier call, in words that follow "Why this is asked:"."""
    match call.status:
        case C.SUCCEEDED:
            at = in_utc(call.finished_at or call.created_at)
            return f"the same was done already in this request, {at}"
        case C.UNKNOWN:
            return (
                "the same was started already in this request, and nobody knows whether it happened"
            )
        case C.FAILED:
            return "the same was tried already in this request, and failed"
        case C.EXPIRED:
            return "the same was asked already in this request, and nobody answered"
        case _:
            return "the same was asked already in this request, and not done"
