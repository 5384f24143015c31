"""Stopping the bot."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from bot.demo.model_server import Turn
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import words
from tests.stories.steps import ask, vote


def test_an_idle_bot_stops_at_once(own_harness: Callable[..., Harness]) -> None:
    """None of its threads sleeps. The shortest of three counts, since the machine may be busy."""
    harness = own_harness(FakeTools().tools)
    took = []
    for _ in range(3):
        harness.settle()
        begun = time.monotonic()
        harness.app.stop()
        took.append(time.monotonic() - begun)
        harness.start()
    assert min(took) < 0.5


@pytest.mark.long
def test_a_call_proposed_during_the_stop_is_asked_after_the_next_start(
    own_harness: Callable[..., Harness],
) -> None:
    """Slack does not name its approvers before the bot has to stop, so the model is asked again."""
    fakes = FakeTools()
    harness = own_harness(fakes.tools)
    harness.settle()
    held = harness.slack.faults.hold("usergroups.list")
    thread = ask(harness, ("note", {"text": "amid an end"}))
    assert held.arrived.wait(30)
    harness.app.stop()
    held.release()
    harness.planner.clear_script()  # the model is asked again
    harness.planner.script(Turn(calls=[("note", {"text": "amid an end"})]))
    harness.planner.script(Turn(text="That is all."))
    harness.start()
    vote(harness, "ana", harness.card(SUPPORT, thread))
    harness.said(SUPPORT, thread, "That is all.")
    assert fakes.did("note", "amid an end") == 1
    assert "could not be asked" not in str(
        [words(each) for each in harness.thread(SUPPORT, thread)]
    )
