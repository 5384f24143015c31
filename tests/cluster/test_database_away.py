"""The database restarts under the replicas, or is away for longer than any lease."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.replica import Replica

pytestmark = [pytest.mark.long, pytest.mark.cluster]
AWAY = 12  # heartbeats missed: longer than the leases of runs and replicas


def count_missed(replica: Replica) -> int:
    """How many heartbeats it could not store."""
    return replica.log().count("no sign of life")


@pytest.mark.parametrize("away", [0, AWAY])
def test_work_goes_on_after_the_database_was_away(cluster: Cluster, away: int) -> None:
    """Work in progress goes on, and jobs for new requests arrive at once."""
    cluster.start_replica()
    cluster.start_replica()
    before = [f"w{number}" for number in range(20)]
    cluster.ask(*before)
    cluster.approve(*before[:10])
    held = cluster.planner.hold_next_request()
    cluster.ask("w100")
    assert held.arrived.wait(10)
    cluster.server.stop()
    cluster.wait(lambda: all(count_missed(each) >= away for each in cluster.replicas))
    held.release()
    cluster.server.start()
    cluster.approve(*before[10:])
    cluster.approve("w100")
    after = [f"w{number}" for number in range(200, 210)]
    cluster.ask(*after)
    cluster.approve(*after)
    cluster.check_all()
    for each in cluster.replicas:
        assert each.lives
        assert each.list_lines_with_traceback() == []  # failures have no traceback
