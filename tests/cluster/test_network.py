"""The network between a replica and its database is held up half-way, and cut."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.cluster]


def test_nothing_is_lost_when_database_answers_are_held_up(cluster: Cluster) -> None:
    """The replica does not learn whether its statements took effect; the other goes on."""
    network = cluster.create_proxy()
    cluster.start_replica(proxy=network)
    cluster.ask("w1", "w2", "w3")
    cluster.approve("w1", "w2")
    cluster.wait(lambda: cluster.card("w3"))
    cluster.start_replica()
    network.hold()
    more = [f"w{number}" for number in range(10, 30)]
    cluster.ask(*more)  # half of them go to the one without answers
    cluster.wait(lambda: sum(cluster.card(word) is not None for word in more) >= len(more) // 3)
    network.cut()
    cluster.approve("w3", *more)
    cluster.check_all()


def test_nothing_is_lost_when_connections_are_cut(cluster: Cluster) -> None:
    """Connections end at any moment."""
    network = cluster.create_proxy()
    cluster.start_replica(proxy=network)
    cluster.start_replica()
    for number in range(30):
        cluster.ask(f"w{number}")
        if number % 3 == 0:
            network.cut()
        cluster.approve(f"w{number}")
        if number % 3 == 1:
            network.cut()
    cluster.check_all()
