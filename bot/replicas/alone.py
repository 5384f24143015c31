"""A process that is alone with its database: nothing to share, and nobody to wait for."""

from __future__ import annotations

from bot.runs.crew.others import NoOthers
from bot.runs.crew.workers import Workers
from bot.slack.outbox.channels import Channels, EveryChannel


class Alone(NoOthers):
    """What `Replicas` is where there are several."""

    def __init__(self, workers: Workers) -> None:
        """Every channel is its own."""
        self.workers = workers
        self.channels: Channels = EveryChannel()

    def start(self) -> None:
        """Nothing is begun."""

    def rest(self) -> None:
        """Nothing is to rest."""

    def stop(self) -> None:
        """Nothing is ended."""

    def is_idle(self) -> bool:
        """Return whether nothing waits for a worker: the loop knows."""
        return True
