"""The metrics of this process, for Prometheus; imported only where there is a page to show them.

What is done is counted as it is reported; what the record says is read when somebody asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from bot import __version__
from bot.live import StepEnd
from bot.monitoring import measures
from bot.monitoring.health_checks import OK, CachedCheck, check_writable
from bot.monitoring.measures import Measure, Shape
from bot.monitoring.spans import Incident, Span, Work
from bot.version import commit_id
from storage.audit_log import AuditLine
from storage.schedule import Backlog, count_backlog
from storage.states import CallStatus, Verb
from storage.store import Store

_WAITED = {f"call.{status}": status for status in measures.DECIDED} | {
    "question.answered": CallStatus.ANSWERED
}
_ENDS = {f"run.{status}": status for status in measures.OVER}
_REFUSED = {"dialog.refused": "dialog", "mode.refused": "mode", "call.born.refused": "call"}


class Metrics:
    """An exporter that counts; any thread."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Everything is at nought; where the values of a label are known, so are they."""
        self._now = now
        self._backlog: BacklogCollector | None = None
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # its own
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._of = {each.name: self._make(each) for each in measures.RECORDED}
        self._of[measures.BUILD.name].labels(__version__, commit_id()).set(1)
        self._by_work: dict[Work, Callable[[Span], None]] = {
            Work.ACKNOWLEDGE: lambda each: self._took(measures.ACKNOWLEDGED, each),
            Work.TICK: lambda each: self._took(measures.TICKS, each),
            Work.TURN: lambda each: self._took(measures.TURNS, each),
            Work.MODEL: self._asked_model,
            Work.TOOL: self._ran,
            Work.SLACK: self._asked_slack,
            Work.LOOK_UP: self._looked_up,
        }

    def opened(self, store: Store) -> None:
        """From now on tell what stands in the record, too."""
        self._backlog = BacklogCollector(store, self._now)
        self._registry.register(self._backlog)

    def close(self) -> None:
        """Look at the record no more."""
        if self._backlog is not None:
            self._backlog.close()

    def page(self) -> str | None:
        """Return all of it, as Prometheus reads it."""
        return prometheus_client.generate_latest(self._registry).decode()

    def ended(self, span: Span) -> None:
        """Count a piece of work, and how long it took."""
        if count := self._by_work.get(span.work):
            count(span)

    def heard(self, facts: Sequence[AuditLine]) -> None:
        """Count what was decided, refused and brought to its end."""
        for fact in facts:
            self._count(fact)

    def happened(self, what: Incident, about: str) -> None:
        """Count it."""
        match what:
            case Incident.PAUSE:
                self._add(measures.PAUSES, about)
            case Incident.POLICY_REFUSED:
                self._add(measures.POLICIES, measures.REFUSED_POLICY)
            case Incident.UNSTORED:
                self._of[measures.UNSTORED.name].inc()
            case Incident.LATE:
                self._of[measures.LATE.name].inc()

    def inspected(self, counts: Mapping[str, int]) -> None:
        """Show it until the next look."""
        for level, number in counts.items():
            self._of[measures.SETUP.name].labels(level).set(number)

    def _make(self, measure: Measure) -> Any:
        given: dict[str, Any] = {"labelnames": measure.labels, "registry": self._registry}
        match measure.shape:
            case Shape.COUNTER:
                made: Any = Counter(measure.name, measure.about, **given)
            case Shape.HISTOGRAM:
                made = Histogram(measure.name, measure.about, buckets=measure.buckets, **given)
            case Shape.GAUGE:
                made = Gauge(measure.name, measure.about, **given)
        for value in measure.values:
            made.labels(value)
        return made

    def _add(self, measure: Measure, *labels: str, number: float = 1) -> None:
        self._of[measure.name].labels(*labels).inc(number)

    def _took(self, measure: Measure, span: Span, *labels: str) -> None:
        metric = self._of[measure.name]
        (metric.labels(*labels) if labels else metric).observe(span.seconds)

    def _asked_model(self, span: Span) -> None:
        for direction, number in span.amounts.items():
            self._add(measures.TOKENS, direction, number=number)
        if span.end in measures.MODEL_ERRORS.values:
            self._add(measures.MODEL_ERRORS, span.end)

    def _ran(self, span: Span) -> None:
        self._took(measures.TOOL_TIME, span, span.about)
        end = span.end if span.end in set(StepEnd) else StepEnd.UNKNOWN
        self._add(measures.TOOLS, span.about, end)

    def _asked_slack(self, span: Span) -> None:
        self._took(measures.SLACK_TIME, span, span.about)
        if span.end:
            self._add(measures.SLACK_ERRORS, span.about, span.end)

    def _looked_up(self, span: Span) -> None:
        self._took(measures.LOOK_UPS, span, span.about)
        if span.end:
            self._add(measures.LOOK_UP_FAILURES, span.about)

    def _count(self, fact: AuditLine) -> None:
        data = fact.data
        if verb := _verb(fact):
            self._add(measures.DECISIONS, verb)
        if fact.call_id and data.get("to") in measures.SETTLED:
            self._add(measures.CALLS, data["to"])
        if fact.event in _WAITED and fact.since is not None:
            waited = (fact.at - fact.since).total_seconds()
            self._of[measures.DECISION_TIME.name].labels(_WAITED[fact.event]).observe(waited)
        if fact.event in _ENDS:
            self._add(measures.RUNS, _ENDS[fact.event])
        if fact.event in _REFUSED:
            self._add(measures.REFUSALS, _REFUSED[fact.event])
        match fact.event:
            case "decision.refused":
                why = str(data.get("why", "")).rsplit(" ", 1)[-1]
                self._add(measures.REFUSALS, why if why in measures.REFUSED else measures.OTHER)
            case "call.born.refused":
                self._add(measures.CALLS, CallStatus.REFUSED)
            case "policy.reloaded":
                self._add(measures.POLICIES, measures.TAKEN)


def _verb(fact: AuditLine) -> str:
    """Return what a person did, as this row says; "" where it tells of none."""
    if "said" in fact.data and fact.call_id:
        return Verb.RESOLVE
    if vote := fact.data.get("vote"):
        return str(vote)
    return {"call.edited": Verb.EDIT, "question.answered": measures.ANSWER}.get(fact.event, "")


# What stands in the record and waits, as gauges that are read when Prometheus asks.


class BacklogCollector(Collector):
    """Reads one snapshot for each scrape, and has something written beside it."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        """The oldest message that was unsent at the last look is remembered, for its age."""
        self._store, self._now = store, now
        self._lock = threading.Lock()
        self._oldest: tuple[int, datetime] | None = None
        self._written = CachedCheck(lambda: check_writable(store), 0.0)

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
                found = count_backlog(tx)
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
