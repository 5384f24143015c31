"""The database's server dies, and a standby that lacks what was written last takes over."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from storage.models import Audit, Call
from storage.states import CallStatus
from storage.store import Store
from storage.transaction import fetch_rows
from tests.cluster.cluster import KEY, Cluster
from tests.cluster.hosts import hosts_in
from tests.postgres_server import binaries
from tests.stories.messages import words

pytestmark = [pytest.mark.long, pytest.mark.cluster]


def test_every_replica_ends_and_what_was_lost_is_asked_again(cluster: Cluster) -> None:
    """Done once, and lost: nothing runs it again by itself; one replica settles, and all go on."""
    replicas = [cluster.start_replica() for _ in range(2)]
    cluster.ask("w1")
    cluster.wait(lambda: cluster.card("w1"))
    cluster.server.copy_as_standby("standby")
    cluster.approve("w1")
    cluster.wait(lambda: cluster.is_answered("w1"))
    cluster.store.close()
    cluster.server.take_over("standby")

    cluster.wait(lambda: not any(each.lives for each in replicas), 60)
    for each in replicas:
        assert each.exit_code == 1
        assert "took over from another one" in each.log()
        cluster.begin(each)
    cluster.wait(lambda: any("older copy" in words(each) for each in cluster.list_messages("w1")))
    cluster.wait(lambda: cluster.card("w1"))
    url = cluster.server.url("cluster", "owner")
    with closing(Store(url, key=KEY.encode()).open()) as store, store.read() as tx:
        [call] = fetch_rows(tx, Call, select(Call))
        events = [row.event for row in fetch_rows(tx, Audit, select(Audit))]
    assert (call.status, call.revision) == (CallStatus.PENDING, 2)
    assert events.count("record.restored") == 1
    assert cluster.effects() == {"w1": 1}
    cluster.ask("w2")
    cluster.approve("w2")
    cluster.wait(lambda: cluster.is_answered("w2"))


def test_a_process_of_many_workspaces_ends_as_well(tmp_path: Path) -> None:
    """In each workspace people are asked again about what was open when the standby was behind."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with hosts_in(tmp_path, 2) as hosts:
        process = hosts.start_process()
        asked = [f"w{number}" for number in range(2)]
        for team, word in zip(hosts.teams, asked, strict=True):
            hosts.ask(team, word)
        hosts.wait(lambda: all(hosts.card(word) for word in asked))
        hosts.server.copy_as_standby("standby")
        hosts.approve("w0")
        hosts.wait(lambda: hosts.is_answered("w0"))
        hosts.server.take_over("standby")

        hosts.wait(lambda: not process.lives, 60)
        assert process.exit_code == 1
        assert "took over from another one" in process.log()
        hosts.begin(process)
        for word in asked:
            hosts.wait(
                lambda word=word: any(
                    "older copy" in words(each) for each in hosts.list_messages(word)
                )
            )
        for team in hosts.teams:
            assert hosts.rows(team, "SELECT status, revision FROM call") == [("pending", 2)]
        assert hosts.effects() == {"w0": 1}
