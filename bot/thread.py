"""How the worker hears what people said, whoever carries it."""

from __future__ import annotations

from typing import Protocol

from storage.models import Run


class Thread(Protocol):
    """A run's thread."""

    def take_in(self, run: Run) -> None:
        """Turn messages that wait for this run into items of its transcript."""
        ...
