"""This process's metrics for Prometheus; imported only if their page is to be served.

The table of all metrics comes first, in the order of docs/watching.md. Names follow the conventions
of Prometheus. No label names a person; each label has few values, or those of the existing tools,
methods and codes. Work is counted when it is reported; values about the record are read from the
database when Prometheus asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
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
from bot.monitoring.health_checks import OK, CachedCheck, check_writable
from bot.monitoring.live_events import ToolStepOutcome
from bot.monitoring.spans import Exporter, Incident, Span, WorkKind
from bot.version import commit_id
from storage.audit_log import AuditLine
from storage.record import Store
from storage.schedule import Backlog, count_backlog
from storage.states import LOOK_VERBS, CallStatus, CallVerb, RunStatus

FAST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0)
SLOW_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
DECISION_TIME_BUCKETS = (
    5,
    15,
    30,
    60,
    120,
    300,
    600,
    1800,
    3600,
    4 * 3600,
    8 * 3600,
    86_400,
    3 * 86_400,
)
C = CallStatus
SETTLED_STATUSES = tuple(each for each in C if each not in (C.PENDING, C.RUNNING, C.ENTRUSTED))
DECIDED_STATUSES = (C.APPROVED, C.REJECTED, C.ANSWERED, C.EXPIRED)
OPEN_RUN_STATUSES = (RunStatus.READY, RunStatus.RUNNING, RunStatus.WAITING)
FINISHED_RUN_STATUSES = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
ANSWER_VERB = "answer"
OTHER_REFUSAL = "other"
COMMON_VERBS = (CallVerb.APPROVE, CallVerb.REJECT, CallVerb.EDIT, CallVerb.RESOLVE)
DECISION_VERBS = (*COMMON_VERBS, CallVerb.BREAK_GLASS, *LOOK_VERBS, ANSWER_VERB)
# reasons of a verdict for not counting a click; then other kinds of refusals
VERDICT_REASONS = ("stranger", "not_approver", "not_requester", "not_yet", "enough", "own_request")
REFUSAL_KINDS = (
    *VERDICT_REASONS,
    "own_edit",
    "own_run",
    "no_break_glass",
    "lookup",
    "words",
    "dialog",
    "mode",
    "call",
    OTHER_REFUSAL,
)
POLICY_TAKEN = "taken"
POLICY_REFUSED = "refused"


class Metric(Enum):
    """All metrics, each under its name in capitals, with its type, text, labels and values."""

    DECISIONS_TOTAL = (Counter, "decisions about calls", ("verb",), DECISION_VERBS)
    DECISION_SECONDS = (
        Histogram,
        "from the moment people are asked until a call is decided, or its deadline passes",
        ("status",),
        DECIDED_STATUSES,
        DECISION_TIME_BUCKETS,
    )
    CALLS_TOTAL = (
        Counter,
        "calls that reached that status; `expired`: nobody answered in time",
        ("status",),
        SETTLED_STATUSES,
    )
    REFUSALS_TOTAL = (
        Counter,
        "clicks that did not count, by reason; dialogs and modes refused; `call`: never asked"
        " about",
        ("kind",),
        REFUSAL_KINDS,
    )
    RUNS_TOTAL = (Counter, "requests that ended", ("status",), FINISHED_RUN_STATUSES)
    ACKNOWLEDGEMENT_SECONDS = (
        Histogram,
        "from a delivery's arrival until it is acknowledged; Slack waits three",
        (),
        (),
        FAST_BUCKETS,
    )
    TICK_SECONDS = (Histogram, "one pass of the loop", (), (), FAST_BUCKETS)
    LOOKUP_SECONDS = (
        Histogram,
        "look-ups of people, groups and channels at Slack",
        ("topic",),
        (),
        FAST_BUCKETS,
    )
    LOOKUP_FAILURES_TOTAL = (Counter, "those that failed", ("topic",))
    TURN_SECONDS = (Histogram, "turns of the model, with all tries", (), (), SLOW_BUCKETS)
    MODEL_ERRORS_TOTAL = (
        Counter,
        "requests to the model that failed",
        ("kind",),
        ("key", "credit", "limit", "time", "connection", "server", "request"),
    )
    MODEL_TOKENS_TOTAL = (Counter, "tokens used", ("direction",), ("in", "out"))
    TOOL_RUNS_TOTAL = (Counter, "tools that ran, by how they ended", ("tool", "outcome"))
    TOOL_SECONDS = (Histogram, "how long tools ran", ("tool",), (), SLOW_BUCKETS)
    SLACK_REQUEST_SECONDS = (Histogram, "calls of Slack's Web API", ("method",), (), FAST_BUCKETS)
    SLACK_ERRORS_TOTAL = (
        Counter,
        "those that failed, by Slack's code or the kind of the error",
        ("method", "code"),
    )
    SLACK_PAUSES_TOTAL = (Counter, "pauses that Slack asked for (Retry-After)", ("method",))
    POLICY_RELOADS_TOTAL = (
        Counter,
        "new policy files; `refused`: the old one stays in force",
        ("result",),
        (POLICY_TAKEN, POLICY_REFUSED),
    )
    UNSTORED_TOTAL = (
        Counter,
        "what the database did not store: deliveries (not acknowledged then) and results (kept)",
    )
    LATE_RUNS_TOTAL = (
        Counter,
        "requests that no job had taken up within five seconds, with several processes: the loop"
        " did",
    )
    PENDING_CALLS = (Gauge, "calls that wait for people")
    OLDEST_PENDING_CALL_SECONDS = (Gauge, "how long the longest of them has waited")
    OPEN_RUNS = (Gauge, "requests that are not over", ("status",), OPEN_RUN_STATUSES)
    OUTBOX_MESSAGES = (Gauge, "messages that are still to be sent to Slack")
    OUTBOX_LAG_SECONDS = (
        Gauge,
        "how long this process has seen the oldest of them wait, from one scrape to the next",
    )
    INBOX_DELIVERIES = (Gauge, "deliveries that are not yet processed")
    INBOX_LAG_SECONDS = (Gauge, "how old the oldest of them is")
    DATABASE_UP = (
        Gauge,
        "1 where the database could be read and written for this scrape, and has room",
    )
    SETUP_PROBLEMS = (
        Gauge,
        "what doctor finds about Slack, people and rules: how much is wrong (`fail`) or odd"
        " (`warn`)",
        ("level",),
        ("fail", "warn"),
    )
    BUILD_INFO = (Gauge, "1, with version and commit", ("version", "commit"))

    def __init__(
        self,
        metric_type: type[Counter | Gauge | Histogram],
        help_text: str,
        labels: tuple[str, ...] = (),
        values: Sequence[str] = (),
        buckets: tuple[float, ...] = (),
    ) -> None:
        """`values`: all those of its only label, if they are known."""
        self.metric_type, self.help_text = metric_type, help_text
        self.labels, self.values, self.buckets = labels, values, buckets

    @property
    def full_name(self) -> str:
        """Return the name that Prometheus knows: countersign_calls_total, for example."""
        return f"countersign_{self.name.lower()}"


# read from the record, so that each replica reports the same; all others are of one process
INSTALLATION_METRICS = (
    Metric.PENDING_CALLS,
    Metric.OLDEST_PENDING_CALL_SECONDS,
    Metric.OPEN_RUNS,
    Metric.OUTBOX_MESSAGES,
    Metric.INBOX_DELIVERIES,
    Metric.INBOX_LAG_SECONDS,
)
COLLECTED_METRICS = (*INSTALLATION_METRICS, Metric.OUTBOX_LAG_SECONDS, Metric.DATABASE_UP)
_DURATION_METRIC_BY_WORK = {
    WorkKind.ACKNOWLEDGE: Metric.ACKNOWLEDGEMENT_SECONDS,
    WorkKind.TICK: Metric.TICK_SECONDS,
    WorkKind.TURN: Metric.TURN_SECONDS,
    WorkKind.TOOL: Metric.TOOL_SECONDS,
    WorkKind.SLACK: Metric.SLACK_REQUEST_SECONDS,
    WorkKind.LOOK_UP: Metric.LOOKUP_SECONDS,
}
_STATUS_BY_DECISION_EVENT = {f"call.{status}": status for status in DECIDED_STATUSES} | {
    "question.answered": CallStatus.ANSWERED
}
_STATUS_BY_RUN_END_EVENT = {f"run.{status}": status for status in FINISHED_RUN_STATUSES}
_REFUSAL_KIND_BY_EVENT = {
    "dialog.refused": "dialog",
    "mode.refused": "mode",
    "call.born.refused": "call",
}


class PrometheusMetrics(Exporter):
    """An exporter that counts reported work in Prometheus metrics; any thread."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """Create all metrics with value 0, and one series for every known label value."""
        self._now = now
        self._backlog: BacklogCollector | None = None
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # its own
        self.registry = CollectorRegistry()  # holds all metrics; others may be added
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        recorded = (each for each in Metric if each not in COLLECTED_METRICS)
        self._of = {each: self._create_metric(each) for each in recorded}
        self._of[Metric.BUILD_INFO].labels(__version__, commit_id()).set(1)

    def attach_store(self, store: Store) -> None:
        """Include gauges that are read from this store from now on."""
        self._backlog = BacklogCollector(store, self._now)
        self.registry.register(self._backlog)

    def close(self) -> None:
        """Stop the test writes to the database."""
        if self._backlog is not None:
            self._backlog.close()

    def render_metrics_page(self) -> str | None:
        """Return all metrics in the text format of Prometheus."""
        return prometheus_client.generate_latest(self.registry).decode()

    def report_span(self, span: Span) -> None:
        """Record the duration of a span that has ended, and count how it ended."""
        subject = span.subject
        if metric := _DURATION_METRIC_BY_WORK.get(span.work):
            labels = [subject] if metric.labels else []
            self._get_labelled_metric(metric, *labels).observe(span.seconds)
        match span.work:
            case WorkKind.MODEL:
                for direction, number in span.amounts.items():
                    self._increment_counter(Metric.MODEL_TOKENS_TOTAL, direction, number=number)
                if span.end in Metric.MODEL_ERRORS_TOTAL.values:
                    self._increment_counter(Metric.MODEL_ERRORS_TOTAL, span.end)
            case WorkKind.TOOL:
                end = span.end if span.end in set(ToolStepOutcome) else ToolStepOutcome.UNKNOWN
                self._increment_counter(Metric.TOOL_RUNS_TOTAL, subject, end)
            case WorkKind.SLACK if span.end:
                self._increment_counter(Metric.SLACK_ERRORS_TOTAL, subject, span.end)
            case WorkKind.LOOK_UP if span.end:
                self._increment_counter(Metric.LOOKUP_FAILURES_TOTAL, subject)

    def report_audit_rows(self, facts: Sequence[AuditLine]) -> None:
        """Count the decisions, refusals and ends in these committed audit rows."""
        for fact in facts:
            self._count_audit_line(fact)

    def report_incident(self, what: Incident, subject: str) -> None:
        """Count an incident: a momentary trouble, such as a pause that Slack asks for."""
        match what:
            case Incident.PAUSE:
                self._increment_counter(Metric.SLACK_PAUSES_TOTAL, subject)
            case Incident.POLICY_REFUSED:
                self._increment_counter(Metric.POLICY_RELOADS_TOTAL, POLICY_REFUSED)
            case Incident.UNSTORED:
                self._increment_counter(Metric.UNSTORED_TOTAL)
            case Incident.LATE:
                self._increment_counter(Metric.LATE_RUNS_TOTAL)

    def report_setup_problems(self, counts: Mapping[str, int]) -> None:
        """Set the gauges for setup problems, by level; they stay until the next inspection."""
        for level, number in counts.items():
            self._of[Metric.SETUP_PROBLEMS].labels(level).set(number)

    def _create_metric(self, measure: Metric) -> Any:
        given: dict[str, Any] = {"labelnames": measure.labels, "registry": self.registry}
        if measure.buckets:
            given["buckets"] = measure.buckets
        made = measure.metric_type(measure.full_name, measure.help_text, **given)
        for value in measure.values:
            made.labels(value)
        return made

    def _get_labelled_metric(self, measure: Metric, *labels: str) -> Any:
        metric = self._of[measure]
        return metric.labels(*labels) if labels else metric

    def _increment_counter(self, measure: Metric, *labels: str, number: float = 1) -> None:
        self._get_labelled_metric(measure, *labels).inc(number)

    def _count_audit_line(self, fact: AuditLine) -> None:
        data = fact.data
        if verb := _find_decision_verb(fact):
            self._increment_counter(Metric.DECISIONS_TOTAL, verb)
        if fact.call_id and data.get("to") in SETTLED_STATUSES:
            self._increment_counter(Metric.CALLS_TOTAL, data["to"])
        if fact.event in _STATUS_BY_DECISION_EVENT and fact.since is not None:
            waited = (fact.at - fact.since).total_seconds()
            status = _STATUS_BY_DECISION_EVENT[fact.event]
            self._get_labelled_metric(Metric.DECISION_SECONDS, status).observe(waited)
        if fact.event in _STATUS_BY_RUN_END_EVENT:
            self._increment_counter(Metric.RUNS_TOTAL, _STATUS_BY_RUN_END_EVENT[fact.event])
        if fact.event in _REFUSAL_KIND_BY_EVENT:
            self._increment_counter(Metric.REFUSALS_TOTAL, _REFUSAL_KIND_BY_EVENT[fact.event])
        match fact.event:
            case "decision.refused":
                why = str(data.get("why", "")).rsplit(" ", 1)[-1]
                self._increment_counter(
                    Metric.REFUSALS_TOTAL, why if why in REFUSAL_KINDS else OTHER_REFUSAL
                )
            case "call.born.refused":
                self._increment_counter(Metric.CALLS_TOTAL, CallStatus.REFUSED)
            case "policy.reloaded":
                self._increment_counter(Metric.POLICY_RELOADS_TOTAL, POLICY_TAKEN)


def _find_decision_verb(fact: AuditLine) -> str:
    """Return what a person did according to this audit row; "" if it reports no such act."""
    if "said" in fact.data and fact.call_id:
        return CallVerb.RESOLVE
    if vote := fact.data.get("vote"):
        return str(vote)
    return {"call.edited": CallVerb.EDIT, "question.answered": ANSWER_VERB}.get(fact.event, "")


class BacklogCollector(Collector):
    """A Prometheus collector of what waits in the database; each scrape also tests a write."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store, self._now = store, now
        self._lock = threading.Lock()
        self._oldest: tuple[int, datetime] | None = None
        self._written = CachedCheck(lambda: check_writable(store), 0.0)

    def close(self) -> None:
        """Stop the test writes to the database."""
        self._written.close()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return the gauges' names without reading anything."""
        return map(_build_gauge, COLLECTED_METRICS)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges' values; if reading fails, only `countersign_database_up` with 0."""
        try:
            with self._store.read() as tx:
                found = count_backlog(tx)
        except SQLAlchemyError:
            yield _build_gauge(Metric.DATABASE_UP, 0)
            return
        yield _build_gauge(Metric.DATABASE_UP, self._written.get_valid_or_new_result() == OK)
        yield from self._build_gauges(found)

    def _build_gauges(self, backlog: Backlog) -> Iterator[GaugeMetricFamily]:
        now = self._now()
        yield _build_gauge(Metric.PENDING_CALLS, backlog.pending)
        yield _build_gauge(
            Metric.OLDEST_PENDING_CALL_SECONDS, _compute_age_seconds(backlog.oldest_asked, now)
        )
        runs = _build_gauge(Metric.OPEN_RUNS)
        for status in OPEN_RUN_STATUSES:
            runs.add_metric([status], backlog.runs.get(status, 0))
        yield runs
        yield _build_gauge(Metric.OUTBOX_MESSAGES, backlog.unsent)
        yield _build_gauge(
            Metric.OUTBOX_LAG_SECONDS, self._compute_outbox_lag(backlog.oldest_unsent, now)
        )
        yield _build_gauge(Metric.INBOX_DELIVERIES, backlog.unread)
        yield _build_gauge(
            Metric.INBOX_LAG_SECONDS, _compute_age_seconds(backlog.oldest_unread, now)
        )

    def _compute_outbox_lag(self, oldest: int | None, now: datetime) -> float:
        """Return the seconds since this message was first seen as the oldest unsent one."""
        with self._lock:
            if oldest is None:
                self._oldest = None
            elif self._oldest is None or self._oldest[0] != oldest:
                self._oldest = oldest, now
            return _compute_age_seconds(self._oldest[1] if self._oldest else None, now)


def _build_gauge(measure: Metric, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(measure.full_name, measure.help_text, value, measure.labels or None)


def _compute_age_seconds(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since is not None else 0.0
