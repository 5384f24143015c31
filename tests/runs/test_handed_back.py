"""A worker whose run was handed back meanwhile does nothing more with it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from storage import moves, runs
from storage.models import Run
from storage.states import CallStatus, RunStatus
from storage.transaction import Trace, Transaction
from tests.runs.harness import LoopHarness

C, R = CallStatus, RunStatus


class HandsBack(Trace):
    """Another process takes the worker for lost, right after it has looked for the last time."""

    def __init__(self, harness: LoopHarness) -> None:
        self._harness = harness
        self.looks = 0

    def after_commit(self, tx: Transaction) -> None:
        """The run is READY again once the first tool has run and the worker has looked."""
        if tx.writes or self.looks:
            return
        self.looks = 1  # not for what is read here
        found, _, told, _ = self._harness.all()
        self.looks = 0
        if any(row.event == "call.succeeded" for row in told):
            self.looks += 1
            self.hand_back(found[0])

    def hand_back(self, run: Run) -> None:
        """As a loop does with a lease that has lapsed."""
        with self._harness.store.write() as tx:
            held = runs.find_run(tx, run.id)
            assert held is not None
            moves.change_run_status(tx, held, R.READY, at=self._harness.clock.now(), actor="system")


def test_a_run_handed_back_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where its lease lapsed before it could write that it waits, the next worker goes on."""
    harness = LoopHarness(tmp_path / "db")
    harness.model.script = [[("note", "a"), ("peek", "b")]]
    harness.say("please")
    harness.loop.tick()
    trace = HandsBack(harness)
    harness.store.trace = trace
    with caplog.at_level(logging.ERROR):
        harness.work()
    found, proposed, _, _ = harness.all()
    assert trace.looks == 1
    assert not caplog.records
    assert [run.status for run in found] == [R.WAITING]
    assert [call.status for call in proposed] == [C.PENDING, C.SUCCEEDED]
    harness.stop()
