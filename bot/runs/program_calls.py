"""Calls that programs execute themselves: claimed once after approval, reported by the claimant.

A worker checks and starts a claimed call like every call; then it is held for the claimant, which
alone may report how it ended. If the program sends no sign of life in time, the call is UNKNOWN.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from bot.approvals.call_gates import Renewal
from bot.approvals.call_state import has_aged
from bot.runs.endings import Endings
from bot.runs.results import put_outcome
from bot.tools.runner import ToolFailure, ToolSuccess
from storage import calls, programs, runs
from storage.models import Call, Run
from storage.states import CallStatus, RunStatus

if TYPE_CHECKING:
    from bot.clock import Clock
    from bot.signals import Signals
    from bot.tools import Registry
    from storage.store import Store
    from storage.transaction import Transaction


# Errors for programs, each with a sentence that says why.


class NotAskedError(ValueError):
    """Raised if a request is not put before people; the text says why."""


class NotPermittedError(NotAskedError):
    """Raised if the requester that a program names may not ask."""


class KeyUsedError(NotAskedError):
    """Raised if the request's key was used for a different request before."""


class TooOftenError(NotAskedError):
    """Raised if an API key has used up its requests; `since`: the time of the first of them."""

    def __init__(self, since: datetime) -> None:
        super().__init__("this key has asked as often as it may")
        self.since = since


class NotClaimedError(ValueError):
    """Raised if this program may not run or report the call; the text says why."""


C = CallStatus
MOST_RESULT = 20_000  # characters that are kept of what a program reports
MOST_SUMMARY = 200
NOT_HEARD_OF = "nothing was heard of the program that runs it"
_TARGETS = {True: C.SUCCEEDED, False: C.FAILED, None: C.UNKNOWN}


@dataclass(frozen=True, slots=True)
class ClaimedCall:
    """A call that one program may run now, once."""

    arguments: dict[str, Any]  # final: people may have edited them
    revision: int
    digest: str
    lease: timedelta  # within which the program says again that it is at work, or how it ended


class ProgramCalls:
    """Claims and reports of calls that programs execute; one per process, for any thread."""

    def __init__(self, store: Store, clock: Clock, signals: Signals, tools: Registry) -> None:
        """`tools` describe the outcomes of calls."""
        self._store = store
        self._clock = clock
        self._signals = signals
        self._tools = tools
        self._endings = Endings(store, clock, signals, tools, _not_renewed)

    def claim(
        self, run_id: str, claimant: str, lease: timedelta = programs.LEASE
    ) -> ClaimedCall | None:
        """Claim the run's call for the program that gives the secret text `claimant`.

        Returns None while the call is still being checked: claim again. The same claimant gets the
        same call again, and its claim is prolonged by `lease` from now. Raises NotClaimedError;
        also if the approval is too old, in which case people are asked again.
        """
        who, now = _hashed(claimant), self._clock.now()
        with self._store.write() as tx:
            run, call = _found(tx, run_id)
            is_free = call.status is C.APPROVED and not call.claimant
            if is_free and not programs.claim_call(tx, call, who, at=now, actor=_actor(run)):
                raise NotClaimedError("it has just changed: look at it again")
            if not is_free and call.claimant != who:
                raise NotClaimedError(_why_not(call))
            is_held = call.status is C.RUNNING and programs.renew_claim(tx, call, lease, at=now)
            current = calls.revision(tx, call.id, call.revision)
        if is_held and current is not None:
            arguments = json.loads(current.arguments)
            return ClaimedCall(arguments, call.revision, call.digest, lease)
        if call.status is not C.APPROVED:
            raise NotClaimedError(_why_not(call))
        self._signals.work.give()  # what has aged is asked again where it would start
        if has_aged(call, now):
            raise NotClaimedError("its approval is too old: people are asked again")
        return None

    def report(self, run_id: str, claimant: str, succeeded: bool | None, result: Any) -> None:
        """Store how a claimed call ended, as its claimant says; accepted late if still unknown.

        `succeeded`: None if the program handed the work on and cannot say (yet) how it ends.
        `result`: text or JSON. Raises NotClaimedError.
        """
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        target = _TARGETS[succeeded]
        with self._store.write() as tx:
            run, call = _found(tx, run_id)
            if call.claimant != _hashed(claimant):
                raise NotClaimedError(_why_not(call))
            if call.status is target:
                return
            shown = calls.approved(tx, call)
            if call.status not in (C.RUNNING, C.UNKNOWN) or shown is None:
                raise NotClaimedError(_why_not(call))
            line = " ".join(text.split())[:MOST_SUMMARY]
            if succeeded is None:
                self._endings.handed_on(tx, run, shown, line)
            else:
                done, failed = (
                    ToolSuccess(text[:MOST_RESULT], line),
                    ToolFailure(line, certain=False),
                )
                self._endings.reported(tx, run, shown, done if succeeded else failed)
                if run.status is RunStatus.COMPLETED and (ended := calls.get(tx, call.id)):
                    put_outcome(tx, self._tools, run, ended)
        self._signals.work.give()
        self._signals.post.give()

    def lapse(self) -> bool:
        """Mark claimed calls UNKNOWN whose lease has lapsed; return whether there were any."""
        now = self._clock.now()
        with self._store.read() as tx:
            lapsed = programs.lapsed_claims(tx, now)
        for each in lapsed:
            with self._store.write() as tx:
                call = calls.get(tx, each.id)
                run = runs.get(tx, each.run_id)
                if call is None or run is None or call.held_until != each.held_until:
                    continue
                if call.status is C.RUNNING:
                    self._endings.unknown(tx, run, call, NOT_HEARD_OF)
        return bool(lapsed)


def _found(tx: Transaction, run_id: str) -> tuple[Run, Call]:
    """Return the run and its call; NotClaimedError if the call is not for a program to execute."""
    run, found = runs.get(tx, run_id), calls.of_run(tx, run_id)
    if run is None or not found:
        raise NotClaimedError("nothing has been asked yet")
    if not found[0].action:
        raise NotClaimedError("Countersign runs it itself")
    return run, found[0]


def _why_not(call: Call) -> str:
    match call.status:
        case C.PENDING:
            return "it waits for people"
        case C.APPROVED | C.RUNNING:
            return "somebody else has claimed it"
        case C.SUCCEEDED | C.FAILED:
            return f"it has ended: {call.status}"
        case C.UNKNOWN:
            return "its time was over; it is not to be run, and may still be reported by who had it"
        case _:
            return f"it is not to be run: {call.status}"


def _hashed(claimant: str) -> str:
    return hashlib.sha256(claimant.encode()).hexdigest()


def _actor(run: Run) -> str:
    return f"client {run.client}" if run.client else "program"


def _not_renewed(_tx: Transaction, _run: Run, _call: Call, _renewal: Renewal) -> NoReturn:
    raise TypeError("a program's own call is not asked again by how it ended")
