"""Whoever watches the work, as the settings say."""

from __future__ import annotations

from bot.clock import Clock
from bot.config.connection import Transport
from bot.config.settings import Settings
from bot.config.startup import StartupError
from bot.watch.passages import Lookout
from bot.watch.watchers import MissingExtraError, make_watchers


def make_lookout(settings: Settings, clock: Clock) -> Lookout:
    """Make where work is reported; raises StartupError for what is asked for and not installed."""
    counts = settings.http is not None or settings.transport is Transport.HTTP
    try:
        made = make_watchers(clock.now, counts=counts, traces=settings.traces)
    except MissingExtraError as error:
        raise StartupError([f"COUNTERSIGN_TRACES: {error}"], ()) from None
    return Lookout(made, clock.now)
