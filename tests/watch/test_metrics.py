"""Metrics as Prometheus reads them: complete, and counted right."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from bot.monitoring.metrics import COLLECTED_METRICS, Metric, PrometheusMetrics
from bot.monitoring.spans import Incident, Tracer, WorkKind
from storage import inbox
from storage.models import Call
from storage.store import Store
from storage.transaction import Trace
from tests.runs.fakes import ANA, StillClock
from tests.storage.builders import C, click, seed, set_message


class Scrapes:
    """The metrics of one process, read as Prometheus reads them."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.tracer = Tracer([PrometheusMetrics(self.clock.now)])

    def families(self) -> dict[str, str]:
        """The type of each metric."""
        found = text_string_to_metric_families(self.tracer.render_metrics_page() or "")
        return {
            f"{each.name}_total" if each.type == "counter" else each.name: each.type
            for each in found
        }

    def __call__(self, name: str, **labels: str) -> float:
        """The value of one series."""
        [value] = [
            each.value
            for family in text_string_to_metric_families(self.tracer.render_metrics_page() or "")
            for each in family.samples
            if (each.name, each.labels) == (name, labels)
        ]
        return float(value)


@pytest.fixture
def scraped() -> Scrapes:
    """Fresh metrics."""
    return Scrapes()


def test_every_metric_of_the_table_is_exported(scraped: Scrapes, store: Store) -> None:
    """Each with its name and type, and besides them only the process's own."""
    scraped.tracer.attach_store(store)
    found = scraped.families()
    own = {name: kind for name, kind in found.items() if name.startswith("countersign_")}
    assert own == {each.full_name: each.metric_type.__name__.lower() for each in Metric}
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes"} <= set(found)
    assert all(name.startswith(("process_", "python_")) for name in set(found) - set(own))
    assert scraped("countersign_calls_total", status="expired") == 0


def test_work_is_counted_by_its_outcome(scraped: Scrapes) -> None:
    """Tools, Slack's methods, look-ups and the model, with times and errors."""
    with scraped.tracer.start_span(WorkKind.TOOL, "note") as span:
        span.end = "failed"
    with (
        pytest.raises(OSError, match="gone"),
        scraped.tracer.start_span(WorkKind.SLACK, "chat.update"),
    ):
        raise OSError("gone")
    with scraped.tracer.start_span(WorkKind.LOOK_UP, "person"):
        pass
    with scraped.tracer.start_span(WorkKind.MODEL) as span:
        span.amounts, span.end = {"in": 70, "out": 7}, "limit"
    scraped.tracer.report_incident(Incident.PAUSE, "chat.update")
    scraped.tracer.report_incident(Incident.POLICY_REFUSED)
    scraped.tracer.report_incident(Incident.LATE)
    assert scraped("countersign_tool_runs_total", tool="note", outcome="failed") == 1
    assert scraped("countersign_tool_seconds_count", tool="note") == 1
    errors = "countersign_slack_errors_total"
    assert scraped(errors, method="chat.update", code="OSError") == 1
    assert scraped("countersign_slack_request_seconds_count", method="chat.update") == 1
    assert scraped("countersign_lookup_seconds_count", topic="person") == 1
    assert scraped("countersign_model_tokens_total", direction="in") == 70
    assert scraped("countersign_model_tokens_total", direction="out") == 7
    assert scraped("countersign_model_errors_total", kind="limit") == 1
    assert scraped("countersign_slack_pauses_total", method="chat.update") == 1
    assert scraped("countersign_policy_reloads_total", result="refused") == 1
    assert scraped("countersign_late_runs_total") == 1


def test_open_work_is_read_from_the_record(scraped: Scrapes, store: Store) -> None:
    """Open calls, requests, messages and deliveries, and the age of the oldest."""
    clock = scraped.clock
    mine = seed(store, C.PENDING, C.PENDING, C.APPROVED)
    with store.write() as tx:
        asked = clock.now() - timedelta(minutes=5)
        tx.execute(update(Call).values(asked_at=asked))
        set_message(tx, mine.card(), status="stale")
        at = clock.now() - timedelta(seconds=40)
        inbox.insert_delivery(tx, click("late", action="approve", value="x", person=ANA, at=at))
    scraped.tracer.attach_store(store)
    assert scraped("countersign_pending_calls") == 2
    assert scraped("countersign_oldest_pending_call_seconds") == 300
    assert scraped("countersign_outbox_messages") == 1
    assert scraped("countersign_outbox_lag_seconds") == 0
    clock.at += timedelta(seconds=90)
    assert scraped("countersign_outbox_lag_seconds") == 90
    assert scraped("countersign_inbox_deliveries") == 1
    assert scraped("countersign_inbox_lag_seconds") == 130
    runs = [
        scraped("countersign_open_runs", status=each) for each in ("ready", "running", "waiting")
    ]
    assert sum(runs) == 1
    with store.write() as tx:
        set_message(tx, mine.card(), status="sent")
    assert scraped("countersign_outbox_lag_seconds") == 0


class Locked(Trace):
    """A database that refuses every statement."""

    def before_statement(self, sql: str, values: object) -> None:
        """Refuse the statement."""
        raise OperationalError(sql, None, Exception("locked"))


@pytest.fixture
def unreadable(store: Store) -> Iterator[Store]:
    """The store while it cannot be read."""
    store.trace = Locked()
    yield store
    store.trace = None


def test_an_unreadable_database_is_reported(scraped: Scrapes, unreadable: Store) -> None:
    """The record's other metrics are missing then; this process's own counts are there."""
    scraped.tracer.attach_store(unreadable)
    assert scraped("countersign_database_up") == 0
    missing = {each.full_name for each in COLLECTED_METRICS} - set(scraped.families())
    assert len(missing) == len(COLLECTED_METRICS) - 1
    assert scraped("countersign_calls_total", status="expired") == 0
