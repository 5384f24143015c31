"""A replica is frozen past its lease and goes on as if nothing had happened."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster, build_answer
from tests.stories.messages import words as words_of

pytestmark = [pytest.mark.long, pytest.mark.cluster]


def test_a_replica_frozen_in_a_model_turn_changes_nothing(cluster: Cluster) -> None:
    """Its run goes on elsewhere; what it writes afterwards changes nothing."""
    sleeper = cluster.start_replica()
    held = cluster.planner.hold_next_request()
    cluster.ask("w1")
    assert held.arrived.wait(10)
    cluster.start_replica()
    sleeper.freeze()
    held.release()
    cluster.wait(lambda: cluster.card("w1"), 30)
    sleeper.thaw()
    cluster.approve("w1")
    cluster.ask("w2", "w3")
    cluster.approve("w2")
    cluster.approve("w3")
    cluster.check_all()


def test_a_replica_frozen_while_posting_posts_nothing_twice(cluster: Cluster) -> None:
    """Another sends to its channel meanwhile."""
    sleeper = cluster.start_replica()
    held = cluster.slack.faults.hold(
        "chat.postMessage", when="after", match=lambda args: "approve" in str(args.get("blocks"))
    )
    cluster.ask("w1")
    assert held.arrived.wait(10)
    sleeper.freeze()
    cluster.start_replica()
    cluster.approve("w1")
    cluster.wait(lambda: cluster.is_answered("w1"), 30)
    held.release()
    sleeper.thaw()
    cluster.ask("w2")
    cluster.approve("w2")
    cluster.check_all()
    assert sum(build_answer("w1") in words_of(each) for each in cluster.list_messages("w1")) == 1
