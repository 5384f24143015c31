"""What has arrived goes before what can wait, for a bounded time."""

from __future__ import annotations

import threading

from bot.signals import ACKNOWLEDGE_FIRST_SECONDS, Signals


def test_others_wait_for_acknowledgements() -> None:
    """A worker gives way until what has arrived is acknowledged, then goes on."""
    signals = Signals()
    worker = threading.Thread(target=signals.wait_until_urgent_work_done)
    with signals.arrivals.track_unacknowledged_delivery():
        worker.start()
        worker.join(0.2)
        assert worker.is_alive()
    worker.join(ACKNOWLEDGE_FIRST_SECONDS / 2)
    assert not worker.is_alive()


def test_what_never_ends_holds_up_nobody() -> None:
    """Where something is never acknowledged, others go on before Slack delivers it again."""
    signals = Signals()
    worker = threading.Thread(target=signals.wait_until_urgent_work_done)
    with signals.arrivals.track_unacknowledged_delivery():
        worker.start()
        worker.join(ACKNOWLEDGE_FIRST_SECONDS + 5)
        assert not worker.is_alive()
    assert ACKNOWLEDGE_FIRST_SECONDS < 3
