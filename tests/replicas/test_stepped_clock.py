"""The database's clock is set while two replicas send: each keeps its channels, and none has two
senders.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from bot.clock import SystemClock
from bot.replicas.replicas import (
    HEARTBEAT_LEASE_SECONDS,
    DeadReplicaDetector,
    HeartbeatSender,
    ReplicaChannelOwnership,
)
from bot.replicas.shared_clock import DatabaseClock
from storage import replicas
from storage.store import Store
from tests.postgres_server import Server, binaries, serve
from tests.records import KEY

pytestmark = pytest.mark.long
CHANNELS = {"C1", "C2"}
HOUR = timedelta(hours=1)
STEPS = {"back": -HOUR, "forward": HOUR, "a little back": timedelta(seconds=-20)}


class Database:
    """A record on a server whose clock can be set."""

    def __init__(self, server: Server) -> None:
        self._server = server
        server.fresh("stepped")
        with server.connect("stepped") as owner:
            owner.execute("CREATE TABLE public.set_by (by interval)")
            owner.execute("INSERT INTO public.set_by VALUES ('0')")
            owner.execute(
                "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
                " 'SELECT pg_catalog.clock_timestamp() + by FROM public.set_by'"
            )
            owner.execute("ALTER DATABASE stepped SET search_path = public, pg_catalog")
        self.store = Store(server.url("stepped", "owner"), key=KEY.encode()).open()

    def step(self, by: timedelta) -> None:
        """Set the clock of the database."""
        with self._server.connect("stepped") as owner:
            owner.execute("UPDATE public.set_by SET by = by + %s", [by])


@dataclass
class Time:
    """The passing of time for one replica."""

    at: float = 100.0

    def passed(self) -> float:
        """The seconds."""
        return self.at


class Replica:
    """The heartbeat and the channels of a replica."""

    def __init__(self, store: Store, name: str) -> None:
        self.clock, self.time = DatabaseClock(SystemClock()), Time()
        self.living = DeadReplicaDetector(HEARTBEAT_LEASE_SECONDS, self.time.passed)
        self.pulse = HeartbeatSender(
            store,
            self.clock,
            name,
            HEARTBEAT_LEASE_SECONDS,
            active=set,
            learn=lambda tx: self.living.observe_heartbeats(
                lambda: replicas.get_heartbeat_expiry_by_replica(tx)
            ),
            lapsed=lambda: self.channels.forget_all_channels(),
        )
        self.channels = ReplicaChannelOwnership(
            store, self.living, name, self.pulse.is_alive, lambda: None
        )
        self.clock.synchronize_with_database(store)
        assert self.pulse.store_heartbeat()


@pytest.fixture
def database() -> Iterator[Database]:
    """A database on a server of its own."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as server:
        made = Database(server)
        yield made
        made.store.close()


def list_owned_channels(*all_: Replica) -> list[set[str]]:
    """The channels that each owns, when all have something to send."""
    for each in all_:
        each.channels.claim_channels(CHANNELS)
    return [{name for name in CHANNELS if each.channels.is_channel_owned(name)} for each in all_]


@pytest.mark.parametrize("step", STEPS)
def test_replicas_keep_their_channels_when_the_clock_is_set(database: Database, step: str) -> None:
    """Whoever notices the step first, and beside a replica that starts after it."""
    first, second = Replica(database.store, "a"), Replica(database.store, "b")
    assert first.channels.claim_channels({"C1"}) == {"C1"}
    assert second.channels.claim_channels({"C2"}) == {"C2"}
    database.step(STEPS[step])
    assert first.pulse.store_heartbeat()
    assert list_owned_channels(first, second) == [{"C1"}, {"C2"}]
    third = Replica(database.store, "c")
    assert list_owned_channels(third, second, first) == [set(), {"C2"}, {"C1"}]
    for each in (second, first, third):
        each.time.at += HEARTBEAT_LEASE_SECONDS / 2
        assert each.pulse.store_heartbeat()
    assert list_owned_channels(third, first, second) == [set(), {"C1"}, {"C2"}]


@pytest.mark.parametrize("step", STEPS)
def test_a_dead_replicas_channels_are_free(database: Database, step: str) -> None:
    """As soon as its heartbeat has expired, whatever the clock says."""
    first, second = Replica(database.store, "a"), Replica(database.store, "b")
    assert first.channels.claim_channels({"C1"}) == {"C1"}
    assert second.channels.claim_channels(CHANNELS) == {"C2"}
    database.step(STEPS[step])
    for _ in range(2):
        second.time.at += HEARTBEAT_LEASE_SECONDS * 0.4
        assert second.channels.claim_channels(CHANNELS) == {"C2"}
    second.time.at += HEARTBEAT_LEASE_SECONDS * 0.3
    assert second.channels.claim_channels(CHANNELS) == CHANNELS


def test_a_stalled_replica_takes_no_other_for_dead(database: Database) -> None:
    """It did not see their heartbeats meanwhile."""
    first, second = Replica(database.store, "a"), Replica(database.store, "b")
    assert first.channels.claim_channels({"C1"}) == {"C1"}
    assert second.channels.claim_channels(CHANNELS) == {"C2"}
    second.time.at += 10 * HEARTBEAT_LEASE_SECONDS
    assert first.pulse.store_heartbeat()
    assert second.channels.claim_channels(CHANNELS) == {"C2"}
