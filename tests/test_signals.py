"""Unacknowledged deliveries go before other work, for a limited time."""

from __future__ import annotations

import threading

from bot.signals import ACKNOWLEDGE_FIRST_SECONDS, Signals


def test_a_worker_waits_until_deliveries_are_acknowledged() -> None:
    """Then they go on."""
    signals = Signals()
    worker = threading.Thread(target=signals.wait_until_urgent_work_done)
    with signals.arrivals.track_unacknowledged_delivery():
        worker.start()
        worker.join(0.2)
        assert worker.is_alive()
    worker.join(ACKNOWLEDGE_FIRST_SECONDS / 2)
    assert not worker.is_alive()


def test_a_delivery_never_acknowledged_stops_no_worker() -> None:
    """It goes on before Slack delivers again, which is after three seconds."""
    signals = Signals()
    worker = threading.Thread(target=signals.wait_until_urgent_work_done)
    with signals.arrivals.track_unacknowledged_delivery():
        worker.start()
        worker.join(ACKNOWLEDGE_FIRST_SECONDS + 5)
        assert not worker.is_alive()
    assert ACKNOWLEDGE_FIRST_SECONDS < 3
