"""A rolling restart: each replica ends and is begun anew, while people ask and approve."""

from __future__ import annotations

import threading

import pytest

from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.cluster]
MANY = 60


def test_each_in_turn_is_begun_anew(cluster: Cluster) -> None:
    """People notice nothing: every request has its answer, each call ran once."""
    replicas = [cluster.replica() for _ in range(3)]
    words = [f"w{number}" for number in range(MANY)]

    def people() -> None:
        for word in words:
            cluster.ask(word)
            cluster.approve(word)

    busy = threading.Thread(target=people)
    busy.start()
    for each in replicas:
        each.end()
        cluster.begin(each)
    busy.join(120)
    assert not busy.is_alive()
    cluster.all_is_well()
