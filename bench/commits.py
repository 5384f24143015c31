"""Counts and times the commits of writers, and tells which of them waited for the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, event

from storage.sqlite import SOFT, WRITE

OUTBOX = "outbox"  # how the names of the threads that tell Slack begin


class Span(NamedTuple):
    """One commit; moments in `time.monotonic()` seconds."""

    began: float
    ended: float
    durable: bool  # it waited for the disk
    thread: str


class Commits:
    """Watches one engine from now on."""

    def __init__(self, engine: Engine) -> None:
        self.spans: list[Span] = []
        self._engine = engine
        self._local = threading.local()
        self._commit = engine.dialect.do_commit
        event.listen(engine, "commit", self._about_to)
        engine.dialect.do_commit = self._timed  # type: ignore[method-assign,assignment]  # where all commits pass

    def close(self) -> None:
        """Watch no longer."""
        event.remove(self._engine, "commit", self._about_to)
        self._engine.dialect.do_commit = self._commit  # type: ignore[method-assign]  # as it was

    def _about_to(self, connection: Connection) -> None:
        options = connection.get_execution_options()
        self._local.durable = not options.get(SOFT, False) if options.get(WRITE, False) else None

    def _timed(self, connection: Any) -> None:
        began = time.monotonic()
        self._commit(connection)
        durable = self._local.__dict__.pop("durable", None)
        if durable is not None:
            self.spans.append(
                Span(began, time.monotonic(), durable, threading.current_thread().name)
            )


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
