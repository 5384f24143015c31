"""Whoever watches the work, as the settings say."""

from __future__ import annotations

from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.watch.passages import Watcher
from bot.watch.watchers import MissingExtraError, make_watchers


def watchers_of(settings: Settings) -> tuple[Watcher, ...]:
    """Make them; raises StartupError for what is asked for and not installed."""
    try:
        return make_watchers(traces=settings.traces)
    except MissingExtraError as error:
        raise StartupError([f"COUNTERSIGN_TRACES: {error}"], ()) from None
