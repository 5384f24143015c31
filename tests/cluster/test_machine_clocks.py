"""Machines whose clocks are hours apart decide by the database's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bot.cli import data_retention
from countersign.cli.commands import main
from storage.models import Audit, Call, Run
from storage.states import CallStatus
from tests.cluster.cluster import Cluster
from tests.cluster.replica import WrongClock

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


def test_a_command_on_another_machine_writes_the_databases_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that is started after it goes on from the newest time on record."""
    replica = cluster.start_replica()
    cluster.ask("w1")
    cluster.approve("w1")
    cluster.check_all()
    [run] = cluster.all(Run)
    for name, value in replica.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(data_retention, "SystemClock", lambda: WrongClock(timedelta(hours=1)))
    assert main(["forget", run.requester, "--yes"]) == 0
    rows = cluster.all(Audit)
    assert "run.purged" in {row.event for row in rows}
    now = datetime.now(UTC)
    assert all(abs(row.at - now) < NEAR for row in rows)
