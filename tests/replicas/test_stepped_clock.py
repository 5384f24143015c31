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
        """Set its clock."""
        with self._server.connect("stepped") as owner:
            owner.execute("UPDATE public.set_by SET by = by + %s", [by])


@dataclass
class Time:
    """How time passes for one watcher."""

    at: float = 100.0

    def passed(self) -> float:
        """Seconds."""
        return self.at


class Replica:
    """What of a replica says that it is alive, and takes channels."""

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
    """One on a server of its own."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as server:
        made = Database(server)
        yield made
        made.store.close()


def held(*all_: Replica) -> list[set[str]]:
    """The channels that each takes itself for the sender of, all having something to send."""
    for each in all_:
        each.channels.claim_channels(CHANNELS)
    return [{name for name in CHANNELS if each.channels.is_channel_owned(name)} for each in all_]


@pytest.mark.parametrize("step", STEPS)
def test_each_keeps_its_channels(database: Database, step: str) -> None:
    """Whoever sees the step first, and also beside a replica that begins only then."""
    first, second = Replica(database.store, "a"), Replica(database.store, "b")
    assert first.channels.claim_channels({"C1"}) == {"C1"}
    assert second.channels.claim_channels({"C2"}) == {"C2"}
    database.step(STEPS[step])
    assert first.pulse.store_heartbeat()
    assert held(first, second) == [{"C1"}, {"C2"}]
    third = Replica(database.store, "c")
    assert held(third, second, first) == [set(), {"C2"}, {"C1"}]
    for each in (second, first, third):
        each.time.at += HEARTBEAT_LEASE_SECONDS / 2
        assert each.pulse.store_heartbeat()
    assert held(third, first, second) == [set(), {"C1"}, {"C2"}]


@pytest.mark.parametrize("step", STEPS)
def test_the_channels_of_one_who_died_are_free(database: Database, step: str) -> None:
    """As soon as a beat does not count any more, whatever the clock says by then."""
    first, second = Replica(database.store, "a"), Replica(database.store, "b")
    assert first.channels.claim_channels({"C1"}) == {"C1"}
    assert second.channels.claim_channels(CHANNELS) == {"C2"}
    database.step(STEPS[step])
    for _ in range(2):
        second.time.at += HEARTBEAT_LEASE_SECONDS * 0.4
        assert second.channels.claim_channels(CHANNELS) == {"C2"}
    second.time.at += HEARTBEAT_LEASE_SECONDS * 0.3
    assert second.channels.claim_channels(CHANNELS) == CHANNELS


def test_who_stalls_takes_nobody_for_dead(database: Database) -> None:
    """What was not seen meanwhile says nothing."""
    first, second = Replica(database.store, "a"), Replica(database.store, "b")
    assert first.channels.claim_channels({"C1"}) == {"C1"}
    assert second.channels.claim_channels(CHANNELS) == {"C2"}
    second.time.at += 10 * HEARTBEAT_LEASE_SECONDS
    assert first.pulse.store_heartbeat()
    assert second.channels.claim_channels(CHANNELS) == {"C2"}
