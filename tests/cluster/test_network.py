"""The network between a replica and its database is held up half-way, and cut."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.cluster]


def test_answers_do_not_come_back(cluster: Cluster) -> None:
    """What one replica asked has happened or not, nobody told it; the other goes on meanwhile."""
    network = cluster.proxy()
    cluster.replica(proxy=network)
    cluster.ask("w1", "w2", "w3")
    cluster.approve("w1", "w2")
    cluster.wait(lambda: cluster.card("w3"))
    cluster.replica()
    network.hold()
    more = [f"w{number}" for number in range(10, 30)]
    cluster.ask(*more)  # half of them go to the one that hears nothing
    cluster.wait(lambda: sum(cluster.card(word) is not None for word in more) >= len(more) // 3)
    network.cut()
    cluster.approve("w3", *more)
    cluster.all_is_well()


def test_cut_again_and_again(cluster: Cluster) -> None:
    """Connections that end at any moment lose nothing and repeat nothing."""
    network = cluster.proxy()
    cluster.replica(proxy=network)
    cluster.replica()
    for number in range(30):
        cluster.ask(f"w{number}")
        if number % 3 == 0:
            network.cut()
        cluster.approve(f"w{number}")
        if number % 3 == 1:
            network.cut()
    cluster.all_is_well()
