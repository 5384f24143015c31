"""The check of what watches the bot: whether what the settings ask for is installed."""

from __future__ import annotations

from collections.abc import Iterator

from bot.cli.doctor.check import Check, fail, ok
from bot.config.settings import Settings
from bot.watch.watchers import TRACES, is_installed, missing


def check_watching(settings: Settings) -> Iterator[Check]:
    """Look at traces, where the settings want them."""
    if settings.traces is not None:
        there = ok(TRACES, f"sent to {settings.traces}")
        yield there if is_installed(TRACES) else fail(TRACES, missing(TRACES))
