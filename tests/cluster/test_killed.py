"""A replica is killed in the middle of two hundred approvals."""

from __future__ import annotations

import time

import pytest

from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.cluster]
MANY = 200
SOON = 10.0  # seconds in which the others have taken up what it left


def test_killed_amid_two_hundred_approvals(cluster: Cluster) -> None:
    """What a killed replica held, the other one takes up within ten seconds; nothing runs twice."""
    one, _ = cluster.replica(), cluster.replica()
    words = [f"w{number}" for number in range(MANY)]
    cluster.ask(*words)
    sent = [cluster.click(word) for word in words[: MANY // 2]]
    one.kill()
    failed = [word for word, each in zip(words, sent, strict=False) if not each.settled.wait(15)]
    failed += [word for word, each in zip(words, sent, strict=False) if not each.ok]
    cluster.approve(*dict.fromkeys(failed), *words[MANY // 2 :])
    cluster.all_is_well()


def test_the_last_one_is_killed_with_a_run_of_its_own(cluster: Cluster) -> None:
    """A run that a killed replica was working on goes on elsewhere within ten seconds."""
    one = cluster.replica()
    held = cluster.planner.hold_next_request()
    cluster.ask("w1")
    assert held.arrived.wait(10)
    cluster.replica()
    one.kill()
    killed = time.monotonic()
    held.release()
    cluster.wait(lambda: cluster.card("w1"), 30)
    assert time.monotonic() - killed < SOON
    cluster.approve("w1")
    cluster.all_is_well()
