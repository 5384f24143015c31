"""Decisions go first: other work waits while clicks are undecided, but not for ever."""

from __future__ import annotations

import threading
from pathlib import Path

from bot.signals import DecisionPriority
from tests.runs.harness import LoopHarness


def start_waiting(
    decisions: DecisionPriority, seconds: float
) -> tuple[threading.Thread, threading.Event]:
    """A thread that waits for decisions, and an event that is set when it goes on."""
    went_on = threading.Event()

    def wait() -> None:
        decisions.wait_for_decisions(seconds)
        went_on.set()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, went_on


def test_other_work_waits_until_no_click_is_undecided() -> None:
    """It goes on when the claim is released, and at once if there is none."""
    decisions = DecisionPriority()
    decisions.hold_other_work()
    thread, went_on = start_waiting(decisions, 10)
    assert not went_on.wait(0.05)
    decisions.release_other_work()
    assert went_on.wait(30)
    thread.join(30)
    decisions.wait_for_decisions(10)


def test_a_wait_that_times_out_ends_the_claim() -> None:
    """Only the first one waits if nobody decides."""
    decisions = DecisionPriority()
    decisions.hold_other_work()
    thread, went_on = start_waiting(decisions, 0.05)
    assert went_on.wait(30)
    thread.join(30)
    decisions.wait_for_decisions(1000)


def test_a_model_turn_waits_for_undecided_clicks(tmp_path: Path) -> None:
    """Deciding them lets the turn go on."""
    harness = LoopHarness(tmp_path / "countersign.db")
    harness.model.script = ["answer"]
    harness.say("please")
    harness.loop.tick()
    harness.core.signals.decisions.hold_other_work()
    thread = threading.Thread(target=harness.work)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert harness.model.script == ["answer"]
    harness.loop.tick()
    thread.join(30)
    assert not thread.is_alive()
    harness.stop()
