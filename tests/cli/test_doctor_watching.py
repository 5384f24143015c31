"""What `countersign doctor` says of metrics and traces: whether what they need is installed."""

from __future__ import annotations

import pytest

from bot.app import build_tracer
from bot.cli.doctor.checks import check_monitoring
from bot.clock import SystemClock
from bot.config.connection_settings import ListeningAddress
from bot.config.settings import Settings
from bot.config.startup import StartupError
from tests.missing import missing

COLLECTOR = "http://127.0.0.1:4318/v1/traces"


def wanted(settings: Settings) -> Settings:
    """The settings with a page for metrics and a collector of traces."""
    return settings.model_copy(
        update={"http": ListeningAddress("127.0.0.1", 0), "traces": COLLECTOR}
    )


def test_what_is_installed_is_well(settings: Settings) -> None:
    """Where everything is there, it is said where it goes; unasked, nothing is said."""
    pytest.importorskip("prometheus_client")
    pytest.importorskip("opentelemetry.sdk")
    assert [str(each) for each in check_monitoring(wanted(settings))] == [
        "ok    metrics: counted, and shown at /metrics",
        f"ok    traces: sent to {COLLECTOR}",
    ]
    assert list(check_monitoring(settings)) == []


def test_a_missing_extra_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics are done without; a start that is to send traces says what to install."""
    missing(monkeypatch, "prometheus_client", "bot.monitoring.metrics")
    missing(monkeypatch, "opentelemetry", "bot.monitoring.traces")
    assert [str(each) for each in check_monitoring(wanted(settings))] == [
        "warn  metrics: metrics need prometheus_client: pip install 'countersign-bot[metrics]'",
        "fail  traces: traces need opentelemetry: pip install 'countersign-bot[traces]'",
    ]
    with pytest.raises(StartupError, match="COUNTERSIGN_TRACES: traces need opentelemetry"):
        build_tracer(wanted(settings), SystemClock())
    alone = wanted(settings).model_copy(update={"traces": None})
    assert build_tracer(alone, SystemClock()).render_metrics_page() is None
