"""A run that is ready again before its worker has let go of it is taken again."""

from __future__ import annotations

import threading

from bot.runs.worker_pool import MayKeepRun, WorkerPool
from bot.signals import Signals
from storage.runs import ReadyRun


def test_a_run_that_is_ready_while_worked_on_is_taken_again() -> None:
    """The loop is woken and told of it once."""
    ready = ReadyRun("r1", ("T1", "ana", ""), has_approved_call=False)
    entered, go_on = threading.Event(), threading.Event()
    times: list[str] = []

    def advance(run_id: str, _: MayKeepRun) -> None:
        times.append(run_id)
        if len(times) == 1:
            entered.set()
            assert go_on.wait(30)

    signals = Signals()
    workers = WorkerPool(advance, 2, signals)
    assert workers.hand_out_runs([ready]) == {"r1"}
    assert entered.wait(30)
    assert workers.hand_out_runs([ready, ready]) == set()
    assert (
        workers.list_active_run_ids(),
        workers.pop_run_ids_due_again(),
        signals.work.is_set(),
    ) == (
        {"r1"},
        [],
        False,
    )
    go_on.set()
    signals.work.wait(30)
    assert not workers.is_idle()
    assert (
        workers.list_active_run_ids(),
        workers.pop_run_ids_due_again(),
        workers.pop_run_ids_due_again(),
    ) == (set(), ["r1"], [])
    assert workers.hand_out_runs([ready]) == {"r1"}
    assert signals.rest.wait_for(workers.is_idle, 30)
    assert times == ["r1", "r1"]
    workers.stop(30)
