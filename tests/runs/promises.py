"""What must be true of the rows after every step, and of everything in the end."""

from __future__ import annotations

import json
from collections import Counter

from storage import calls
from storage.models import Audit, Call, Run
from storage.states import (
    CALL_FINAL_STATUSES,
    MODEL_DRIVEN_SOURCES,
    RUN_OPEN_STATUSES,
    CallStatus,
    RunStatus,
)
from tests.record_checks import find_first_broken_row, list_transcript_items
from tests.runs.harness import LoopHarness

C, R = CallStatus, RunStatus
NEVER_AGAIN = {
    "call.rejected",
    "call.expired",
    "call.cancelled",
    "call.superseded",
    "call.invalidated",
}


def check_promises(harness: LoopHarness) -> None:
    """Check all promises that hold at every moment, on one reading of the rows."""
    found, proposed, told, _ = harness.all()
    check_only_approved_calls_ran(harness, proposed, told)
    check_refused_calls_never_ran(harness, proposed, told)
    assert harness.model.wrong == [], "at each model turn, each call has exactly one output"
    for call in proposed:
        assert replay_statuses(call, told) == call.status, call
    for run in found:
        assert replay_statuses(run, told) == run.status, run
    check_waiting_runs(found, proposed)
    check_entrusted_calls(found, proposed)
    with harness.store.read() as tx:
        assert find_first_broken_row(tx) is None


def check_only_approved_calls_ran(
    harness: LoopHarness, proposed: list[Call], told: list[Audit]
) -> None:
    """Calls ran with the arguments shown and a good approval by a vote or policy, once for each."""
    assert harness.wrong == []
    approvals = Counter(
        row.call_id for row in told if row.event in ("call.approved", "call.born.approved")
    )
    for call in proposed:
        ran = harness.effects[call.id]
        # idempotent: a crash may repeat these with the same key
        if call.tool not in ("put", "peek"):
            assert ran <= approvals[call.id], call
        assert not ran or approvals[call.id], call


def check_refused_calls_never_ran(
    harness: LoopHarness, proposed: list[Call], told: list[Audit]
) -> None:
    """Nothing starts after a rejection, an expiry and the like."""
    over: set[str] = set()
    for row in told:
        assert not (row.event == "call.running" and row.call_id in over), row
        over |= {row.call_id} if row.event in NEVER_AGAIN else set()
    for call in proposed:
        if call.status in (C.REJECTED, C.EXPIRED, C.SUPERSEDED, C.INVALIDATED, C.REFUSED):
            assert not harness.effects[call.id], call


def check_waiting_runs(found: list[Run], proposed: list[Call]) -> None:
    """A run waits only while people or a sub-agent have something left to do."""
    asked = {call.run_id for call in proposed if calls.is_blocking_run(call)}
    for run in found:
        assert run.status is not R.WAITING or run.id in asked, run


def check_entrusted_calls(found: list[Run], proposed: list[Call]) -> None:
    """A call that a sub-agent works on has one open run, and each open run of one has its call."""
    entrusted = [call.id for call in proposed if call.status is C.ENTRUSTED]
    works = [
        run.parent_call for run in found if run.parent_call and run.status in RUN_OPEN_STATUSES
    ]
    assert sorted(entrusted) == sorted(works)
    born = [run.parent_call for run in found if run.parent_call]
    assert len(born) == len(set(born))
    asked_by = {run.id: run.requester for run in found}
    assert all(run.requester == asked_by[run.root_id] for run in found)


def check_all_ended(harness: LoopHarness) -> None:
    """Check that no run is open and no call undecided, and that each call has its one output."""
    found, proposed, _, _ = harness.all()
    for run in found:
        assert run.status not in RUN_OPEN_STATUSES, run
        if run.status is not R.FAILED and run.source in MODEL_DRIVEN_SOURCES:
            check_outputs(harness, run, [call for call in proposed if call.run_id == run.id])
    assert not [c for c in proposed if c.status in (C.PENDING, C.RUNNING, C.ENTRUSTED)]


def check_outputs(harness: LoopHarness, run: Run, proposed: list[Call]) -> None:
    """Check that each call of an ended run is settled, and has its output in the transcript."""
    with harness.store.read() as tx:
        items = list_transcript_items(tx, run)
    told = Counter(item["call_id"] for item in items if item.get("type") == "function_call_output")
    for call in proposed:
        assert told[call.provider_id] == 1, call
        assert call.status in CALL_FINAL_STATUSES or call.status is C.UNKNOWN, call


def replay_statuses(row: Call | Run, told: list[Audit]) -> str:
    """Return the status to which the audit's rows lead; each must begin where the last ended."""
    at = ""
    ids = (row.run_id, row.id) if isinstance(row, Call) else (row.id, "")
    for each in told:
        if (each.run_id, each.call_id) != ids:
            continue
        if each.event.startswith(("call.born.", "run.born")):
            assert at == ""
            at = each.event.removeprefix("call.born.") if isinstance(row, Call) else "ready"
        elif "to" in (data := json.loads(each.data)):
            assert data["from"] == at, each
            at = data["to"]
    return at
