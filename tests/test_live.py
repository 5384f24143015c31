"""Live events reach every listener, and cost nothing while nobody listens."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.monitoring.live_events import Event, EventKind, LiveEventBroadcaster, RunEvent
from storage.models import Run

NOW = datetime(2026, 11, 21, 14, 2, tzinfo=UTC)
RUN = Run(
    team="T0", channel="C0", thread_ts="1.0", requester="UBEN00001", created_at=NOW, updated_at=NOW
)


def build_event() -> Event:
    """A request is at work."""
    return RunEvent(EventKind.WORKS, RUN)


def fail_to_build() -> Event:
    """An event that nobody should ask for."""
    raise AssertionError("this is put together for nobody")


def test_no_event_is_built_while_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    """Neither before the first listener comes nor after the last has left."""
    live, heard = LiveEventBroadcaster(), list[Event]()
    live.broadcast(fail_to_build)
    end = live.listen(heard.append)
    live.broadcast(build_event)
    end()
    live.broadcast(fail_to_build)
    assert heard == [build_event()]
    assert not caplog.records


def test_a_failing_listener_stops_neither_sender_nor_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others and the sender go on, and the log says what failed."""
    live, heard = LiveEventBroadcaster(), list[Event]()

    def deaf(_event: Event) -> None:
        raise RuntimeError("I hear nothing")

    live.listen(deaf)
    live.listen(heard.append)
    live.broadcast(build_event)
    live.broadcast(fail_to_build)
    assert heard == [build_event()]
    assert "a listener failed at works" in caplog.text
    assert "an event could not be described" in caplog.text
