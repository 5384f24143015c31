"""The bot ends when it is told to."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.stories.fakes import FakeTools
from tests.stories.harness import Harness


def test_a_bot_at_rest_ends_at_once(own_harness: Callable[..., Harness]) -> None:
    """No thread of its waits for a time to pass: neither Home's pause nor Slack's next message.

    The shortest of three counts: the machine may be busy.
    """
    harness = own_harness(FakeTools().tools)
    took = []
    for _ in range(3):
        harness.settle()
        begun = time.monotonic()
        harness.app.stop()
        took.append(time.monotonic() - begun)
        harness.start()
    assert min(took) < 0.5
