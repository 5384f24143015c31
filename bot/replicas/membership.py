"""How a process becomes one of several, where its record is on a server; else it is alone.

Only then are Procrastinate and the driver imported, which an installation on a file does without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from bot.clock import Clock, RecordClock
from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.replicas.shared_clock import SharedClock
from bot.runs.worker_pool import Advance, NoOtherProcesses, WorkerPool
from bot.signals import Signals
from bot.slack.client import Pauses
from bot.slack.pace import Channels, EveryChannel
from storage import replicas
from storage.models import Delivery
from storage.store import Store

if TYPE_CHECKING:
    from bot.replicas.replicas import Replicas


# A process that is alone with its database: nothing to share, and nobody to wait for.


class SingleProcess(NoOtherProcesses):
    """What `Replicas` is where there are several."""

    def __init__(self, workers: WorkerPool) -> None:
        """Every channel is its own."""
        self.workers = workers
        self.channels: Channels = EveryChannel()

    def start(self) -> None:
        """Nothing is begun."""

    def rest(self) -> None:
        """Nothing is to rest."""

    def stop(self) -> None:
        """Nothing is ended."""

    def is_idle(self) -> bool:
        """Return whether nothing waits for a worker: the loop knows."""
        return True


LEASE = 6.0  # seconds at most that a run is held without a sign of life, where others wait for it
TICK = 2.0  # seconds at most between two looks
MISSING = (
    "DATABASE_URL: a record on a server is worked on by jobs of Procrastinate, which is not "
    "installed. Install countersign-bot[cluster]."
)


def settings_and_clock(settings: Settings, clock: Clock) -> tuple[Settings, RecordClock]:
    """Return the settings and the record's clock, as they are for one of several or one alone.

    Raises StartupError where something is missing for it.
    """
    if not settings.is_shared:
        return settings, RecordClock(clock)
    if find_spec("procrastinate") is None:
        raise StartupError([MISSING], ())
    soon = {"lease": min(settings.lease, LEASE), "tick": min(settings.tick, TICK)}
    return settings.model_copy(update={**soon, "other_connections": True}), SharedClock(clock)


def advance_clock(store: Store, clock: RecordClock) -> None:
    """Have the clock never tell a time before the newest on record; raises what the database does.

    So a clock that was set back while nobody ran makes nothing valid again that had expired.
    """
    if isinstance(clock, SharedClock):
        clock.measure(store)
    with store.read() as tx:
        newest = replicas.newest_moment(tx)
    if newest is not None:
        clock.advance_past(newest)


class ReplicaParts(Protocol):
    """What of the core is needed here."""

    @property
    def settings(self) -> Settings:
        """The limits and leases."""
        ...

    @property
    def store(self) -> Store:
        """The record."""
        ...

    @property
    def clock(self) -> Clock:
        """What the time is."""
        ...

    @property
    def signals(self) -> Signals:
        """What wakes whom."""
        ...


def join_replicas(
    core: ReplicaParts,
    advance: Advance,
    heard: Callable[[Mapping[str, Any]], bool],
    pauses: Pauses | None,
) -> Replicas | SingleProcess:
    """Return what this process is to the others, with its workers; nothing has begun.

    `advance` is their work. `heard` heeds an event about people and channels, `pauses` are
    those that Slack asks for.
    """
    settings, clock, signals = core.settings, core.clock, core.signals
    workers = WorkerPool(advance, settings.workers, signals)
    if not isinstance(clock, SharedClock) or pauses is None:
        return SingleProcess(workers)
    from bot.replicas.replicas import Replicas, parse_event

    def heed(events: Iterable[Delivery]) -> None:
        for each in events:
            heard(parse_event(each))

    found = Replicas(core.store, clock, signals, settings, workers, heard=heed, paused=pauses.learn)
    pauses.share(found.pause)
    return found
