"""The metrics of a process that serves many workspaces: what all of them do, and a few of each.

At most MAX_LABELLED_WORKSPACES have a label of their own, so that their number does not decide how
much there is to store; the others are counted together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bot.monitoring.metrics import PrometheusMetrics
from bot.monitoring.spans import Exporter, Incident, Span
from storage.audit_log import AuditLine
from storage.record import Store
from storage.schedule import count_backlog

MAX_LABELLED_WORKSPACES = 100
OTHERS_LABEL = "other"
PENDING_CALLS_METRIC = "countersign_workspace_pending_calls"
CALLS_METRIC = "countersign_workspace_calls_total"


class WorkspacesMetrics(Collector):
    """The metrics of all workspaces of a process; any thread."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.all = PrometheusMetrics(now)
        self.calls = Counter(
            CALLS_METRIC,
            "calls that reached that status, by workspace",
            ("workspace", "status"),
            registry=self.all.registry,
        )
        self._lock = threading.Lock()
        self._labels: dict[str, str] = {}
        self._exporters: dict[str, _WorkspaceExporter] = {}
        self.all.registry.register(self)

    def build_exporter(self, workspace: str) -> Exporter:
        """Return the exporter to which a workspace's app reports its metrics."""
        with self._lock:
            own = sum(each != OTHERS_LABEL for each in self._labels.values())
            label = self._labels.setdefault(
                workspace, workspace if own < MAX_LABELLED_WORKSPACES else OTHERS_LABEL
            )
            return self._exporters.setdefault(workspace, _WorkspaceExporter(self, label))

    def forget_workspace(self, workspace: str) -> None:
        """Drop the figures of a workspace that is no longer served; another may have its label."""
        with self._lock:
            self._exporters.pop(workspace, None)
            if self._labels.pop(workspace, OTHERS_LABEL) != OTHERS_LABEL:
                self.calls.remove_by_labels({"workspace": workspace})

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield how many calls wait for people, by workspace."""
        with self._lock:
            exporters = list(self._exporters.values())
        sums: dict[str, int] = {}
        for each in exporters:
            sums[each.label] = sums.get(each.label, 0) + each.count_pending_calls()
        about = "calls that wait for people, by workspace"
        family = GaugeMetricFamily(PENDING_CALLS_METRIC, about, labels=["workspace"])
        for label, number in sorted(sums.items()):
            family.add_metric([label], number)
        yield family


class _WorkspaceExporter(Exporter):
    """Adds what one workspace's app reports to the metrics of all workspaces.

    Problems of its setup are left out, as they would replace those of another workspace.
    """

    def __init__(self, metrics: WorkspacesMetrics, label: str) -> None:
        self._metrics, self.label = metrics, label
        self._store: Store | None = None  # the app's store while it runs
        self._pending = 0  # calls that waited for people when the app was stopped

    def report_span(self, span: Span) -> None:
        self._metrics.all.report_span(span)

    def report_audit_rows(self, facts: Sequence[AuditLine]) -> None:
        self._metrics.all.report_audit_rows(facts)
        for fact in facts:
            if fact.call_id and fact.data.get("to"):
                self._metrics.calls.labels(self.label, fact.data["to"]).inc()

    def report_incident(self, what: Incident, subject: str) -> None:
        self._metrics.all.report_incident(what, subject)

    def attach_store(self, store: Store) -> None:
        self._store = store

    def close(self) -> None:
        store, self._store = self._store, None  # dropped even if it can no longer be read
        if store is not None:
            self._pending = _count_pending(store)

    def count_pending_calls(self) -> int:
        store = self._store
        return self._pending if store is None else _count_pending(store)


def _count_pending(store: Store) -> int:
    with store.read() as tx:
        return count_backlog(tx).pending
