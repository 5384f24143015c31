"""Two replicas share the work: each request once, whoever hears of it."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.long


def test_two_share_the_work(cluster: Cluster) -> None:
    """Requests and clicks that Slack spreads over both are each dealt with once."""
    cluster.replica()
    cluster.replica()
    words = [f"w{number}" for number in range(20)]
    cluster.ask(*words)
    cluster.approve(*words)
    cluster.all_is_well()
