"""Two replicas share the work: each request is handled once."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.long


def test_two_replicas_handle_each_request_once(cluster: Cluster) -> None:
    """Slack spreads requests and clicks over both."""
    cluster.start_replica()
    cluster.start_replica()
    words = [f"w{number}" for number in range(20)]
    cluster.ask(*words)
    cluster.approve(*words)
    cluster.check_all()


def test_one_persons_flood_holds_up_nobody_on_two_replicas(cluster: Cluster) -> None:
    """While one person's requests use all workers they may, another's approved call runs."""
    cluster.start_replica()
    cluster.start_replica()
    channel, other = "C00000000", cluster.slack.person("p1")
    cluster.threads["w0"] = channel, other.say(channel, "@bot do w0")
    cluster.wait(lambda: cluster.card("w0"))
    holds = [cluster.planner.hold_next_request() for _ in range(10)]
    many = [f"w{number}" for number in range(1, 25)]
    cluster.ask(*many)
    assert all(hold.arrived.wait(60) for hold in holds)
    cluster.approve("w0")
    cluster.wait(lambda: cluster.is_answered("w0"), 20)
    assert set(cluster.effects()) == {"w0"}
    for hold in holds:
        hold.release()
    cluster.approve(*many)
    cluster.check_all()
