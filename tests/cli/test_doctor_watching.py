"""What `countersign doctor` says of traces: whether what they need is installed."""

from __future__ import annotations

import pytest

from bot.cli.doctor.checks import check_watching
from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.edges.watchers import watchers_of
from tests.missing import missing

COLLECTOR = "http://127.0.0.1:4318/v1/traces"


def wanted(settings: Settings) -> Settings:
    """The settings with a collector of traces."""
    return settings.model_copy(update={"traces": COLLECTOR})


def test_what_is_installed_is_well(settings: Settings) -> None:
    """Where everything is there, it is said where it goes; unasked, nothing is said."""
    pytest.importorskip("opentelemetry.sdk")
    assert [str(each) for each in check_watching(wanted(settings))] == [
        f"ok    traces: sent to {COLLECTOR}"
    ]
    assert list(check_watching(settings)) == []


def test_a_missing_extra_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is to send traces says what to install."""
    missing(monkeypatch, "opentelemetry", "bot.watch.traces")
    assert [str(each) for each in check_watching(wanted(settings))] == [
        "fail  traces: traces need opentelemetry: pip install 'countersign-bot[traces]'"
    ]
    with pytest.raises(StartupError, match="COUNTERSIGN_TRACES: traces need opentelemetry"):
        watchers_of(wanted(settings))
