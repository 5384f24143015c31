"""A rolling restart: each replica ends and is started again, while people ask and approve."""

from __future__ import annotations

import threading

import pytest

from countersign import Countersign
from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.cluster]
MANY = 60


def test_people_notice_nothing_of_a_rolling_restart(cluster: Cluster) -> None:
    """Every request is answered, and each call ran once."""
    replicas = [cluster.start_replica() for _ in range(3)]
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
    cluster.check_all()


def test_the_newest_replica_answers_commands(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one machine; also after the older one, whose place it took, has ended."""
    older, newer = cluster.start_replica(), cluster.start_replica()
    for name in ("DATABASE_URL", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, newer.environ[name])
    asked = {"requester": "UBEN00001", "channel": "C00000000"}
    first = Countersign.beside().request("once", {"text": "w1"}, **asked)
    older.end()
    second = Countersign.beside().request("once", {"text": "w2"}, **asked)
    assert first.id != second.id
