"""Machines whose clocks are hours apart decide by the database's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from storage.models import Audit, Call
from storage.states import CallStatus
from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.cluster]
HOUR = 3600.0
NEAR = timedelta(minutes=1)


def test_clocks_an_hour_apart_change_nothing(cluster: Cluster) -> None:
    """No deadline passes because of a wrong clock, and every row has the database's time."""
    cluster.policy.write_text('[defaults]\napprovers = ["@crew"]\ndeadline = "30m"\n')
    cluster.start_replica(ahead=HOUR)
    cluster.start_replica(ahead=-HOUR)
    words = [f"w{number}" for number in range(10)]
    cluster.ask(*words)
    cluster.approve(*words)
    cluster.check_all()
    now = datetime.now(UTC)
    assert all(abs(row.at - now) < NEAR for row in cluster.all(Audit))
    assert all(abs(call.asked_at - now) < NEAR for call in cluster.all(Call))


def test_a_deadline_passes_once_and_in_time(cluster: Cluster) -> None:
    """By the database's clock, whichever replica notices."""
    cluster.policy.write_text('[defaults]\napprovers = ["@crew"]\ndeadline = "30s"\n')
    cluster.start_replica(ahead=HOUR)
    cluster.start_replica(ahead=-HOUR)
    cluster.ask("w1")
    cluster.wait(lambda: cluster.card("w1"))
    [call] = cluster.wait(lambda: [c for c in cluster.all(Call) if c.status is CallStatus.EXPIRED])
    assert call.deadline is not None
    assert call.deadline <= call.decided_at < call.deadline + timedelta(seconds=3)
    fell = [row for row in cluster.all(Audit) if row.event == "call.expired"]
    assert len(fell) == 1
