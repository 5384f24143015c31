"""Which watchers there are, as the settings say; what they need is imported only then."""

from __future__ import annotations

from importlib.util import find_spec

from bot.watch.passages import Watcher

TRACES = "traces"  # the extra that brings what they need
# what is imported of it; `opentelemetry` alone may be there with other packages
MODULES = {TRACES: ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")}


class MissingExtraError(Exception):
    """What a setting asks for needs packages that are not installed; the text says which."""


def make_watchers(*, traces: str | None) -> tuple[Watcher, ...]:
    """Make what sends traces there; raises MissingExtraError where that is not installed."""
    if traces is None:
        return ()
    if not is_installed(TRACES):
        raise MissingExtraError(missing(TRACES))
    from bot.watch.traces import Traces

    return (Traces(traces),)


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
