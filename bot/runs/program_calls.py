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

from bot.approvals.call_gates import ReapprovalRequest
from bot.approvals.call_state import is_approval_expired
from bot.runs.endings import CallOutcomeStore
from bot.runs.results import post_outcome_unless_posted
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


class ProgramRequestError(ValueError):
    """Raised if a request is not put before people; the text says why."""


class RequesterNotPermittedError(ProgramRequestError):
    """Raised if the requester that a program names may not ask."""


class RequestKeyReusedError(ProgramRequestError):
    """Raised if the request's key was used for a different request before."""


class RequestRateLimitError(ProgramRequestError):
    """Raised if an API key has used up its requests; `since`: the time of the first of them."""

    def __init__(self, since: datetime) -> None:
        super().__init__("this key has asked as often as it may")
        self.since = since


class ClaimRefusedError(ValueError):
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
        self._endings = CallOutcomeStore(store, clock, signals, tools, _refuse_renewal)

    def claim_call(
        self, run_id: str, claimant: str, lease: timedelta = programs.LEASE
    ) -> ClaimedCall | None:
        """Claim the run's call for the program that gives the secret text `claimant`.

        Returns None while the call is still being checked: claim again. The same claimant gets the
        same call again, and its claim is prolonged by `lease` from now. Raises NotClaimedError;
        also if the approval is too old, in which case people are asked again.
        """
        who, now = _hash_claimant(claimant), self._clock.now()
        with self._store.write() as tx:
            run, call = _load_run_and_call(tx, run_id)
            is_free = call.status is C.APPROVED and not call.claimant
            if is_free and not programs.claim_call(
                tx, call, who, at=now, actor=_describe_actor(run)
            ):
                raise ClaimRefusedError("it has just changed: look at it again")
            if not is_free and call.claimant != who:
                raise ClaimRefusedError(_claim_refusal_text(call))
            is_held = call.status is C.RUNNING and programs.renew_claim(tx, call, lease, at=now)
            current = calls.find_revision(tx, call.id, call.revision)
        if is_held and current is not None:
            arguments = json.loads(current.arguments)
            return ClaimedCall(arguments, call.revision, call.digest, lease)
        if call.status is not C.APPROVED:
            raise ClaimRefusedError(_claim_refusal_text(call))
        self._signals.work.notify()  # what has aged is asked again where it would start
        if is_approval_expired(call, now):
            raise ClaimRefusedError("its approval is too old: people are asked again")
        return None

    def report_outcome(
        self, run_id: str, claimant: str, succeeded: bool | None, result: Any
    ) -> None:
        """Store how a claimed call ended, as its claimant says; accepted late if still unknown.

        `succeeded`: None if the program handed the work on and cannot say (yet) how it ends.
        `result`: text or JSON. Raises NotClaimedError.
        """
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        target = _TARGETS[succeeded]
        with self._store.write() as tx:
            run, call = _load_run_and_call(tx, run_id)
            if call.claimant != _hash_claimant(claimant):
                raise ClaimRefusedError(_claim_refusal_text(call))
            if call.status is target:
                return
            shown = calls.find_approval_of_call(tx, call)
            if call.status not in (C.RUNNING, C.UNKNOWN) or shown is None:
                raise ClaimRefusedError(_claim_refusal_text(call))
            line = " ".join(text.split())[:MOST_SUMMARY]
            if succeeded is None:
                self._endings.mark_handed_on(tx, run, shown, line)
            else:
                done, failed = (
                    ToolSuccess(text[:MOST_RESULT], line),
                    ToolFailure(line, certain=False),
                )
                self._endings.store_reported_outcome(tx, run, shown, done if succeeded else failed)
                if run.status is RunStatus.COMPLETED and (ended := calls.find_call(tx, call.id)):
                    post_outcome_unless_posted(tx, self._tools, run, ended)
        self._signals.work.notify()
        self._signals.outbox.notify()

    def expire_lapsed_claims(self) -> bool:
        """Mark claimed calls UNKNOWN whose lease has lapsed; return whether there were any."""
        now = self._clock.now()
        with self._store.read() as tx:
            lapsed = programs.list_calls_with_lapsed_claim(tx, now)
        for each in lapsed:
            with self._store.write() as tx:
                call = calls.find_call(tx, each.id)
                run = runs.find_run(tx, each.run_id)
                if call is None or run is None or call.held_until != each.held_until:
                    continue
                if call.status is C.RUNNING:
                    self._endings.mark_unknown(tx, run, call, NOT_HEARD_OF)
        return bool(lapsed)


def _load_run_and_call(tx: Transaction, run_id: str) -> tuple[Run, Call]:
    """Return the run and its call; NotClaimedError if the call is not for a program to execute."""
    run, found = runs.find_run(tx, run_id), calls.list_calls_of_run(tx, run_id)
    if run is None or not found:
        raise ClaimRefusedError("nothing has been asked yet")
    if not found[0].action:
        raise ClaimRefusedError("Countersign runs it itself")
    return run, found[0]


def _claim_refusal_text(call: Call) -> str:
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


def _hash_claimant(claimant: str) -> str:
    return hashlib.sha256(claimant.encode()).hexdigest()


def _describe_actor(run: Run) -> str:
    return f"client {run.client}" if run.client else "program"


def _refuse_renewal(
    _tx: Transaction, _run: Run, _call: Call, _renewal: ReapprovalRequest
) -> NoReturn:
    raise TypeError("a program's own call is not asked again by how it ended")
