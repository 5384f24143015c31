"""The metrics of a process that serves many workspaces: what all of them do, and a few of each.

No more than MOST workspaces have a label of their own, so that their number does not decide how
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

MOST = 100  # workspaces with a label of their own
OTHERS = "other"
PENDING = "countersign_workspace_pending_calls"
CALLS = "countersign_workspace_calls_total"


class WorkspacesMetrics(Collector):
    """The metrics of all workspaces of a process; any thread."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        """`now` returns the time that ages are reckoned from."""
        self.all = PrometheusMetrics(now)
        self.calls = Counter(
            CALLS,
            "calls that came to that status, by workspace",
            ("workspace", "status"),
            registry=self.all.registry,
        )
        self.lock = threading.Lock()
        self._labels: dict[str, str] = {}
        self.stores: dict[str, Store] = {}  # of the apps that are running
        self.pending: dict[str, int] = {}  # calls that wait for people, of those that were stopped
        self.all.registry.register(self)

    def build_exporter(self, workspace: str) -> Exporter:
        """Return what a workspace's app reports to."""
        with self.lock:
            label = workspace if len(self._labels) < MOST else OTHERS
            label = self._labels.setdefault(workspace, label)
        return _WorkspaceExporter(self, workspace, label)

    def forget_workspace(self, workspace: str) -> None:
        """Show nothing of a workspace that is no longer served."""
        with self.lock:
            self.pending.pop(workspace, None)
            self.stores.pop(workspace, None)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield how many calls wait for people, by workspace."""
        with self.lock:
            stores, pending = dict(self.stores), dict(self.pending)
        pending |= {each: _count_pending(store) for each, store in stores.items()}
        sums: dict[str, int] = {}
        for workspace, number in pending.items():
            label = self._labels.get(workspace, OTHERS)
            sums[label] = sums.get(label, 0) + number
        about = "calls that wait for people, by workspace"
        family = GaugeMetricFamily(PENDING, about, labels=["workspace"])
        for label, number in sorted(sums.items()):
            family.add_metric([label], number)
        yield family


def _count_pending(store: Store) -> int:
    with store.read() as tx:
        return count_backlog(tx).pending


class _WorkspaceExporter(Exporter):
    """Adds what one workspace's app reports to the metrics of all.

    Not the problems of its setup, which would stand in the place of another's.
    """

    def __init__(self, metrics: WorkspacesMetrics, workspace: str, label: str) -> None:
        self._metrics, self._workspace, self._label = metrics, workspace, label

    def report_span(self, span: Span) -> None:
        self._metrics.all.report_span(span)

    def report_audit_rows(self, facts: Sequence[AuditLine]) -> None:
        self._metrics.all.report_audit_rows(facts)
        for fact in facts:
            if fact.call_id and fact.data.get("to"):
                self._metrics.calls.labels(self._label, fact.data["to"]).inc()

    def report_incident(self, what: Incident, subject: str) -> None:
        self._metrics.all.report_incident(what, subject)

    def attach_store(self, store: Store) -> None:
        with self._metrics.lock:
            self._metrics.stores[self._workspace] = store

    def close(self) -> None:
        with self._metrics.lock:
            store = self._metrics.stores.pop(self._workspace, None)
        if store is not None:
            self._metrics.pending[self._workspace] = _count_pending(store)
