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
    """Another process takes the worker for lost, right after its last check."""

    def __init__(self, harness: LoopHarness) -> None:
        self._harness = harness
        self.looks = 0

    def after_commit(self, tx: Transaction) -> None:
        """Make the run READY once its first tool has run and the worker has checked it."""
        if tx.writes or self.looks:
            return
        self.looks = 1  # without the reading here
        found, _, told, _ = self._harness.all()
        self.looks = 0
        if any(row.event == "call.succeeded" for row in told):
            self.looks += 1
            self.hand_back(found[0])

    def hand_back(self, run: Run) -> None:
        """As a loop does with an expired lease."""
        with self._harness.store.write() as tx:
            held = runs.find_run(tx, run.id)
            assert held is not None
            moves.change_run_status(tx, held, R.READY, at=self._harness.clock.now(), actor="system")


def test_a_run_that_was_handed_back_is_left_to_the_next_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease expired before the worker could write that the run waits."""
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
