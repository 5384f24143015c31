"""Decisions go first: what can wait does while clicks are undecided, and not for ever."""

from __future__ import annotations

import threading
from pathlib import Path

from bot.signals import DecisionPriority
from tests.runs.harness import LoopHarness


def waiting(
    decisions: DecisionPriority, seconds: float
) -> tuple[threading.Thread, threading.Event]:
    """Somebody who waits for decisions, and what is set when they go on."""
    went_on = threading.Event()

    def wait() -> None:
        decisions.wait_for_decisions(seconds)
        went_on.set()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread, went_on


def test_others_wait_until_no_click_is_undecided() -> None:
    """Who can wait goes on when the claim is released, and at once when there is none."""
    decisions = DecisionPriority()
    decisions.hold_other_work()
    thread, went_on = waiting(decisions, 10)
    assert not went_on.wait(0.05)
    decisions.release_other_work()
    assert went_on.wait(30)
    thread.join(30)
    decisions.wait_for_decisions(10)


def test_a_wait_in_vain_ends_the_claim() -> None:
    """Where nobody decides, only the first one waits its moment: the others are not paced by it."""
    decisions = DecisionPriority()
    decisions.hold_other_work()
    thread, went_on = waiting(decisions, 0.05)
    assert went_on.wait(30)
    thread.join(30)
    decisions.wait_for_decisions(1000)


def test_a_model_turn_waits_for_decisions(tmp_path: Path) -> None:
    """The model is not asked while a click is undecided; deciding it frees the turn."""
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
