"""A request without a job is worked on all the same, and reported."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from bot.monitoring.spans import Exporter, Incident, Tracer
from bot.runs.worker_pool import OtherProcesses, WorkerPool
from tests.runs.harness import LoopHarness


class JobPickup(OtherProcesses):
    """Requests are left to whoever gets their job."""

    job_pickup_timeout = timedelta(seconds=5)


class IncidentRecorder(Exporter):
    """An exporter that keeps the incidents."""

    def __init__(self) -> None:
        self.incidents: list[Incident] = []

    def report_incident(self, what: Incident, about: str) -> None:
        """Keep it."""
        self.incidents.append(what)


def test_a_request_without_a_job_is_handed_out_by_the_loop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After five seconds the loop hands it out, logs and counts it."""
    harness, heard = LoopHarness(tmp_path / "countersign.db"), IncidentRecorder()
    taken: list[str] = []
    workers = WorkerPool(lambda run_id, _: taken.append(run_id), 1, harness.core.signals)
    loop = harness.core.build_loop(
        harness.core.build_intake(lambda _: False, lambda _: None),
        workers,
        lambda _: None,
        others=JobPickup(),
    )
    loop.tracer = Tracer([heard])
    harness.say("please")
    loop.tick()
    loop.tick()
    assert (taken, heard.incidents) == ([], [])
    [run] = harness.all()[0]
    harness.clock.at += timedelta(seconds=6)
    loop.tick()
    workers.stop(30)
    assert taken == [run.id]
    assert heard.incidents == [Incident.LATE]
    assert f"no job took up run {run.id} within 5 s" in caplog.text
    harness.stop()
