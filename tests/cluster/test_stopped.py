"""A replica sleeps past its lease and wakes up as though nothing had been."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster, answer
from tests.stories.messages import words as words_of

pytestmark = [pytest.mark.long, pytest.mark.cluster]


def test_it_sleeps_while_the_model_answers(cluster: Cluster) -> None:
    """Its run goes on elsewhere; what it does with it after waking up changes nothing."""
    sleeper = cluster.replica()
    held = cluster.planner.hold_next_request()
    cluster.ask("w1")
    assert held.arrived.wait(10)
    cluster.replica()
    sleeper.freeze()
    held.release()
    cluster.wait(lambda: cluster.card("w1"), 30)
    sleeper.thaw()
    cluster.approve("w1")
    cluster.ask("w2", "w3")
    cluster.approve("w2")
    cluster.approve("w3")
    cluster.all_is_well()


def test_it_sleeps_while_it_posts(cluster: Cluster) -> None:
    """Another sends to its channel meanwhile; what it was about to post is not posted twice."""
    sleeper = cluster.replica()
    held = cluster.slack.faults.hold(
        "chat.postMessage", when="after", match=lambda args: "approve" in str(args.get("blocks"))
    )
    cluster.ask("w1")
    assert held.arrived.wait(10)
    sleeper.freeze()
    cluster.replica()
    cluster.approve("w1")
    cluster.wait(lambda: cluster.is_answered("w1"), 30)
    held.release()
    sleeper.thaw()
    cluster.ask("w2")
    cluster.approve("w2")
    cluster.all_is_well()
    assert sum(answer("w1") in words_of(each) for each in cluster.said("w1")) == 1
