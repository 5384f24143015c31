"""Which exporters there are, as the settings say; what they need is imported only then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib.util import find_spec

from bot.monitoring.spans import Exporter

METRICS, TRACES = "metrics", "traces"  # the extras that bring what they need
# what is imported of each; `opentelemetry` alone may be there with other packages
MODULES = {
    METRICS: ("prometheus_client",),
    TRACES: ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
}


class MissingExtraError(Exception):
    """What a setting asks for needs packages that are not installed; the text says which."""


def make_exporters(
    now: Callable[[], datetime], *, counts: bool, traces: str | None
) -> tuple[Exporter, ...]:
    """Make what counts, where it may be asked for and is installed, and what sends traces there.

    Raises MissingExtraError for traces that cannot be sent.
    """
    if traces is not None and not is_installed(TRACES):
        raise MissingExtraError(missing(TRACES))
    made: list[Exporter] = []
    if counts and is_installed(METRICS):
        from bot.monitoring.metrics import Metrics

        made.append(Metrics(now))
    if traces is not None:
        from bot.monitoring.traces import Traces

        made.append(Traces(traces))
    return tuple(made)


def is_installed(extra: str) -> bool:
    """Return whether what an extra brings is there."""
    try:
        return all(find_spec(each) is not None for each in MODULES[extra])
    except ModuleNotFoundError:  # of a package around it
        return False


def missing(extra: str) -> str:
    """Return what to say where an extra is not installed."""
    package = MODULES[extra][0].partition(".")[0]
    return f"{extra} need {package}: pip install 'countersign-bot[{extra}]'"
