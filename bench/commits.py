"""Counts and times the commits of writers: each is one wait for the disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, event

from storage.sqlite import WRITE


class Commits:
    """Watches one engine from now on; `spans` are (begin, end) in `time.monotonic()` seconds."""

    def __init__(self, engine: Engine) -> None:
        self.spans: list[tuple[float, float]] = []
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
        self._local.writes = connection.get_execution_options().get(WRITE, False)

    def _timed(self, connection: Any) -> None:
        began = time.monotonic()
        self._commit(connection)
        if self._local.__dict__.pop("writes", False):
            self.spans.append((began, time.monotonic()))


def within(spans: Iterable[Sequence[float]], began: float, ended: float) -> float:
    """Seconds between two moments in which some commit was under way, overlaps counted once."""
    total, last = 0.0, began
    for start, end in sorted((span[0], span[1]) for span in spans):
        start, end = max(start, last), min(end, ended)
        if end > start:
            total, last = total + end - start, end
    return total
