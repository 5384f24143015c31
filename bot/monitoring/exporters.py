"""Creation of the exporters that the settings ask for; their packages are imported only then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec

from bot.monitoring.spans import Exporter

METRICS_EXTRA = "metrics"  # name of the extra that installs what the exporter imports
TRACES_EXTRA = "traces"
# modules that each extra installs; other packages may install `opentelemetry` alone
MODULES_BY_EXTRA = {
    METRICS_EXTRA: ("prometheus_client",),
    TRACES_EXTRA: ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
}


class MissingExtraError(Exception):
    """Raised when a setting needs packages that are not installed; the text names them."""


def create_exporters(
    now: Callable[[], datetime], *, counts: bool, traces: str | None
) -> tuple[Exporter, ...]:
    """Return the exporters to use: metrics if wanted and installed, traces if configured.

    `traces`: the address to send traces to, None for no traces. Raises MissingExtraError when
    traces are wanted and their packages are not installed.
    """
    if traces is not None and not is_extra_installed(TRACES_EXTRA):
        raise MissingExtraError(missing_extra_text(TRACES_EXTRA))
    exporters: list[Exporter] = []
    if counts and is_extra_installed(METRICS_EXTRA):
        from bot.monitoring.metrics import PrometheusMetrics

        exporters.append(PrometheusMetrics(now))
    if traces is not None:
        from bot.monitoring.traces import OpenTelemetryTraces

        exporters.append(OpenTelemetryTraces(traces))
    return tuple(exporters)


def is_extra_installed(extra: str) -> bool:
    """Return whether all modules that an extra installs can be found."""
    try:
        return all(find_spec(each) is not None for each in MODULES_BY_EXTRA[extra])
    except ModuleNotFoundError:  # raised if the parent package is missing
        return False


def missing_extra_text(extra: str) -> str:
    """Return the error text for an extra that is not installed, with the pip command."""
    package = MODULES_BY_EXTRA[extra][0].partition(".")[0]
    return f"{extra} need {package}: pip install 'countersign-bot[{extra}]'"
