"""What stands in the record and waits, as gauges that are read when Prometheus asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from bot.watch import measures
from bot.watch.database import written
from bot.watch.looked import OK, Looked
from bot.watch.measures import Measure
from storage.backlog import Backlog, backlog
from storage.store import Store


class BacklogCollector(Collector):
    """Reads one snapshot for each scrape, and has something written beside it."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        """The oldest message that was unsent at the last look is remembered, for its age."""
        self._store, self._now = store, now
        self._lock = threading.Lock()
        self._oldest: tuple[int, datetime] | None = None
        self._written = Looked(lambda: written(store), 0.0)

    def close(self) -> None:
        """Write nothing any more."""
        self._written.close()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Name them without reading anything."""
        return map(_family, measures.READ)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read them; where the database cannot be read, that alone is told."""
        try:
            with self._store.read() as tx:
                found = backlog(tx)
        except SQLAlchemyError:
            yield _gauge(measures.READABLE, 0)
            return
        yield _gauge(measures.READABLE, self._written.now() == OK)
        yield from self._gauges(found)

    def _gauges(self, found: Backlog) -> Iterator[GaugeMetricFamily]:
        now = self._now()
        yield _gauge(measures.PENDING, found.pending)
        yield _gauge(measures.OLDEST, _age(found.oldest_asked, now))
        runs = _family(measures.OPEN_RUNS)
        for status in measures.OPEN:
            runs.add_metric([status], found.runs.get(status, 0))
        yield runs
        yield _gauge(measures.UNSENT, found.unsent)
        yield _gauge(measures.OUTBOX_LAG, self._waits(found.oldest_unsent, now))
        yield _gauge(measures.UNREAD, found.unread)
        yield _gauge(measures.INBOX_LAG, _age(found.oldest_unread, now))

    def _waits(self, oldest: int | None, now: datetime) -> float:
        """The seconds since this message was first seen as the oldest unsent one."""
        with self._lock:
            if oldest is None:
                self._oldest = None
            elif self._oldest is None or self._oldest[0] != oldest:
                self._oldest = oldest, now
            return _age(self._oldest[1] if self._oldest else None, now)


def _family(measure: Measure) -> GaugeMetricFamily:
    return GaugeMetricFamily(measure.name, measure.about, labels=measure.labels or None)


def _gauge(measure: Measure, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(measure.name, measure.about, value=value)


def _age(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since is not None else 0.0
