"""Counts and times the commits of writers, and tells which of them waited for the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple

from storage.store import Store
from storage.transaction import Trace, Transaction

OUTBOX = "outbox"  # how the names of the threads that tell Slack begin


class Span(NamedTuple):
    """One commit; moments in `time.monotonic()` seconds."""

    began: float
    ended: float
    durable: bool  # it waited for the disk
    thread: str


class Commits(Trace):
    """Watches one store from now on."""

    def __init__(self, store: Store) -> None:
        self.spans: list[Span] = []
        self._store = store
        self._local = threading.local()
        store.trace = self

    def close(self) -> None:
        """Watch no longer."""
        self._store.trace = None

    def committing(self, tx: Transaction) -> None:
        """Note when it began."""
        self._local.began = time.monotonic()

    def committed(self, tx: Transaction) -> None:
        """Keep it, if it was a writer's."""
        if tx.writes:
            thread = threading.current_thread().name
            self.spans.append(Span(self._local.began, time.monotonic(), tx.durable, thread))


def within(spans: Iterable[Span], began: float, ended: float) -> float:
    """Seconds between two moments in which some commit was under way that Slack's news did not
    cause; overlaps once.
    """
    total, last = 0.0, began
    for start, end in sorted(
        (span.began, span.ended) for span in spans if not span.thread.startswith(OUTBOX)
    ):
        start, end = max(start, last), min(end, ended)
        if end > start:
            total, last = total + end - start, end
    return total
