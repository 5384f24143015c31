"""A replica is killed during two hundred approvals."""

from __future__ import annotations

import time

import pytest

from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.cluster]
MANY = 200
SOON = 10.0  # seconds until the others have taken over


def test_a_replica_killed_during_many_approvals_loses_nothing(cluster: Cluster) -> None:
    """The other takes over within ten seconds; nothing runs twice."""
    one, _ = cluster.start_replica(), cluster.start_replica()
    words = [f"w{number}" for number in range(MANY)]
    cluster.ask(*words)
    sent = [cluster.click(word) for word in words[: MANY // 2]]
    one.kill()
    failed = [word for word, each in zip(words, sent, strict=False) if not each.settled.wait(15)]
    failed += [word for word, each in zip(words, sent, strict=False) if not each.ok]
    cluster.approve(*dict.fromkeys(failed), *words[MANY // 2 :])
    cluster.check_all()


def test_a_killed_replicas_run_goes_on_elsewhere(cluster: Cluster) -> None:
    """A replica that started meanwhile continues within ten seconds."""
    one = cluster.start_replica()
    held = cluster.planner.hold_next_request()
    cluster.ask("w1")
    assert held.arrived.wait(10)
    cluster.start_replica()
    one.kill()
    killed = time.monotonic()
    held.release()
    cluster.wait(lambda: cluster.card("w1"), 30)
    assert time.monotonic() - killed < SOON
    cluster.approve("w1")
    cluster.check_all()
