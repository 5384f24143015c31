"""What goes on is told to whoever listens, and costs nothing where nobody does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.monitoring.live_events import Event, EventKind, LiveEventBroadcaster, RunEvent
from storage.models import Run

NOW = datetime(2026, 11, 21, 14, 2, tzinfo=UTC)
RUN = Run(
    team="T0", channel="C0", thread_ts="1.0", requester="UBEN00001", created_at=NOW, updated_at=NOW
)


def works() -> Event:
    """A request is at work."""
    return RunEvent(EventKind.WORKS, RUN)


def never() -> Event:
    """An event that nobody is to ask for."""
    raise AssertionError("this is put together for nobody")


def test_nothing_is_put_together_for_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Where nobody listens, or nobody any more, no event is made."""
    live, heard = LiveEventBroadcaster(), list[Event]()
    live.broadcast(never)
    end = live.listen(heard.append)
    live.broadcast(works)
    end()
    live.broadcast(never)
    assert heard == [works()]
    assert not caplog.records


def test_a_listener_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The others hear what there is, whoever tells goes on, and the log says what failed."""
    live, heard = LiveEventBroadcaster(), list[Event]()

    def deaf(_event: Event) -> None:
        raise RuntimeError("I hear nothing")

    live.listen(deaf)
    live.listen(heard.append)
    live.broadcast(works)
    live.broadcast(never)
    assert heard == [works()]
    assert "a listener failed at works" in caplog.text
    assert "an event could not be described" in caplog.text
