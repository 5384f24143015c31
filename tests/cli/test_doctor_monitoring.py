"""`countersign doctor` on metrics and traces, and the packages that they need."""

from __future__ import annotations

import pytest

from bot.app import build_tracer
from bot.cli.doctor.http_checks import check_monitoring
from bot.clock import SystemClock
from bot.config.connection_settings import ListeningAddress
from bot.config.settings import Settings
from bot.config.startup import StartupError
from tests.missing import missing

COLLECTOR = "http://127.0.0.1:4318/v1/traces"


def with_monitoring(settings: Settings) -> Settings:
    """Add a metrics page and a collector of traces to the settings."""
    return settings.model_copy(
        update={"http": ListeningAddress("127.0.0.1", 0), "traces": COLLECTOR}
    )


def test_installed_metrics_and_traces_are_fine(settings: Settings) -> None:
    """The output says where they go; without the settings there is none."""
    pytest.importorskip("prometheus_client")
    pytest.importorskip("opentelemetry.sdk")
    assert [str(each) for each in check_monitoring(with_monitoring(settings))] == [
        "ok    metrics: counted, and shown at /metrics",
        f"ok    traces: sent to {COLLECTOR}",
    ]
    assert list(check_monitoring(settings)) == []


def test_a_missing_extra_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing metrics are a warning; a start with traces fails and says what to install."""
    missing(monkeypatch, "prometheus_client", "bot.monitoring.metrics")
    missing(monkeypatch, "opentelemetry", "bot.monitoring.traces")
    assert [str(each) for each in check_monitoring(with_monitoring(settings))] == [
        "warn  metrics: metrics need prometheus_client: pip install 'countersign-bot[metrics]'",
        "fail  traces: traces need opentelemetry: pip install 'countersign-bot[traces]'",
    ]
    with pytest.raises(StartupError, match="COUNTERSIGN_TRACES: traces need opentelemetry"):
        build_tracer(with_monitoring(settings), SystemClock())
    alone = with_monitoring(settings).model_copy(update={"traces": None})
    assert build_tracer(alone, SystemClock()).render_metrics_page() is None
