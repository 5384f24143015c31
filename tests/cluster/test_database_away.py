"""The database is restarted under the replicas, or is away for longer than any lease."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.replica import Replica

pytestmark = [pytest.mark.long, pytest.mark.cluster]
AWAY = 12  # beats that cannot be given: for longer than runs and replicas are held without one


def missed(replica: Replica) -> int:
    """How many signs of life it could not give."""
    return replica.log().count("no sign of life")


@pytest.mark.parametrize("away", [0, AWAY])
def test_the_server_goes_and_comes_back(cluster: Cluster, away: int) -> None:
    """What was under way goes on, and new requests are taken, by jobs that are heard of at once."""
    cluster.replica()
    cluster.replica()
    before = [f"w{number}" for number in range(20)]
    cluster.ask(*before)
    cluster.approve(*before[:10])
    held = cluster.planner.hold_next_request()
    cluster.ask("w100")
    assert held.arrived.wait(10)
    cluster.server.stop()
    cluster.wait(lambda: all(missed(each) >= away for each in cluster.replicas))
    held.release()
    cluster.server.start()
    cluster.approve(*before[10:])
    cluster.approve("w100")
    after = [f"w{number}" for number in range(200, 210)]
    cluster.ask(*after)
    cluster.approve(*after)
    cluster.all_is_well()
    for each in cluster.replicas:
        assert each.lives
        assert each.list_lines_with_traceback() == []  # that it is away is a line, each time
