"""A planner that is still being made does not hold up the end of the bot."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from bot.agent.late_planner import LazyPlanner
from bot.agent.turn import PlannerError


def test_closing_does_not_wait_for_a_planner_being_made() -> None:
    """A planner made too late is closed by its maker, and takes no turn."""
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def make() -> Any:
        begun.set()
        assert go_on.wait(30)
        return SimpleNamespace(close=closed.set)

    planner = LazyPlanner(make)
    making = threading.Thread(target=planner.prepare)
    making.start()
    assert begun.wait(10)
    planner.close()  # would wait for ever
    go_on.set()
    making.join(10)
    assert closed.is_set()
    with pytest.raises(PlannerError, match="stopping"):
        planner.take_turn([], [], "", None)  # type: ignore[arg-type]  # no turn begins
