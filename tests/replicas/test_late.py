"""A request for which no job comes is taken up all the same, and that is told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from bot.monitoring.spans import Exporter, Incident, Tracer
from bot.runs.worker_pool import OtherProcesses, WorkerPool
from tests.runs.harness import LoopHarness


class Jobs(OtherProcesses):
    """Requests are left to those who hear of them by a job."""

    job_pickup_timeout = timedelta(seconds=5)


class Heard(Exporter):
    """An exporter that keeps what happened."""

    def __init__(self) -> None:
        self.incidents: list[Incident] = []

    def report_incident(self, what: Incident, about: str) -> None:
        """Keep it."""
        self.incidents.append(what)


def test_a_request_without_a_job_is_taken_up_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left to a job for five seconds; then the loop hands it out, logs and counts it."""
    harness, heard = LoopHarness(tmp_path / "countersign.db"), Heard()
    taken: list[str] = []
    workers = WorkerPool(lambda run_id, _: taken.append(run_id), 1, harness.core.signals)
    loop = harness.core.build_loop(
        harness.core.build_intake(lambda _: False, lambda _: None),
        workers,
        lambda _: None,
        others=Jobs(),
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
