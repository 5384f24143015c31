"""Set-up of a process as one of several replicas, or alone if its database is a file.

Procrastinate and the PostgreSQL driver are imported only for several replicas; an installation with
a database file does not need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bot.clock import Clock, ForwardOnlyClock
from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.replicas.shared_clock import DatabaseClock
from bot.runs.worker_pool import Advance, OtherProcesses, WorkerPool
from bot.signals import Signals
from bot.slack.client import RateLimitPauses
from bot.slack.pace import ChannelOwnership
from storage import replicas
from storage.record import Store

if TYPE_CHECKING:
    from bot.replicas.replicas import ReplicaMembership


class SingleProcess(OtherProcesses):
    """The counterpart of `ReplicaMembership` for a process that is alone with its database."""

    def __init__(self, workers: WorkerPool) -> None:
        self.workers = workers
        self.channels = ChannelOwnership()

    def start(self) -> None:
        """Do nothing: there are no other replicas."""

    def stop_taking_jobs(self) -> None:
        """Do nothing: there are no jobs to stop taking."""

    def stop(self) -> None:
        """Do nothing: nothing was started."""

    def is_idle(self) -> bool:
        """Return True: without other processes the loop alone knows what waits for a worker."""
        return True


MAX_LEASE_SECONDS = 6.0  # of a run's lease: other replicas wait that long if its replica dies
MAX_TICK_SECONDS = 2.0  # between two ticks of the loop
NO_PROCRASTINATE_ERROR = (
    "DATABASE_URL: a record on a server is worked on by jobs of Procrastinate, which is not "
    "installed. Install countersign-bot[cluster]."
)


def adapt_settings_and_clock(
    settings: Settings, clock: Clock, *, hosted: bool = False
) -> tuple[Settings, ForwardOnlyClock]:
    """Return settings and clock adapted to several replicas, or to a single process.

    `hosted`: this process hosts many workspaces; then one process at a time works on this database,
    even if it is on a server, and `clock` is the host's. Raises StartupError if several processes
    may share the database and Procrastinate is not installed.
    """
    if not settings.is_shared:
        return settings, ForwardOnlyClock(clock)
    if hosted:
        soon = {"lease": min(settings.lease, MAX_LEASE_SECONDS)}
        return settings.model_copy(update=soon), ForwardOnlyClock(clock)
    if find_spec("procrastinate") is None:
        raise StartupError([NO_PROCRASTINATE_ERROR], ())
    soon = {
        "lease": min(settings.lease, MAX_LEASE_SECONDS),
        "tick": min(settings.tick, MAX_TICK_SECONDS),
    }
    return settings.model_copy(update={**soon, "other_connections": True}), DatabaseClock(clock)


def advance_clock_past_stored_times(store: Store, clock: ForwardOnlyClock) -> None:
    """Advance the clock past the newest time in the database; raise what the database raises.

    If the machine's clock was set back while no process ran, nothing that had expired becomes valid
    again.
    """
    if isinstance(clock, DatabaseClock):
        clock.synchronize_with_database(store)
    with store.read() as tx:
        newest = replicas.find_time_of_newest_activity(tx)
    if newest is not None:
        clock.advance_past(newest)


def create_replica_or_single_process(
    settings: Settings,
    store: Store,
    clock: Clock,
    signals: Signals,
    advance: Advance,
    handle_event: Callable[[Mapping[str, Any]], bool],
    pauses: RateLimitPauses | None,
) -> ReplicaMembership | SingleProcess:
    """Return this process's `ReplicaMembership`, or `SingleProcess` if it is alone; starts nothing.

    `advance` is what the workers do with a run. `handle_event` handles a Slack event about people
    or channels; `pauses` holds the pauses that Slack asked for, None for a single process.
    """
    workers = WorkerPool(advance, settings.workers, signals)
    if not isinstance(clock, DatabaseClock) or pauses is None:
        return SingleProcess(workers)
    from bot.replicas.replicas import ReplicaMembership

    membership = ReplicaMembership(
        store,
        clock,
        signals,
        settings,
        workers,
        handle_slack_event=handle_event,
        paused=pauses.add_pauses,
    )
    pauses.set_pause_callback(membership.share_slack_pause)
    return membership
