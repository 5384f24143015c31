"""What one replica tells the others at once: a word on a channel of PostgreSQL's NOTIFY.

Nothing depends on it: whoever hears nothing looks by itself, a little later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import psycopg

log = logging.getLogger("countersign.replicas")
CHANNEL = "countersign"
QUIET = 5.0  # seconds after which the line is tried, where nothing is heard
AGAIN = 1.0  # seconds between two tries to reach the database


class Word(StrEnum):
    """What is told."""

    POST = "post"  # there is something to send, in a channel of yours
    WORK = "work"  # there is something to take up
    PAUSE = "pause"  # Slack wants to be asked less


class Ears:
    """One per process. `run` is a thread's body; `tell` may be called from any thread.

    It does not hear itself.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        heard: Mapping[Word, Callable[[], None]],
        replica: str,
    ) -> None:
        """`connect` makes a connection that commits by itself; `heard` is called for each word."""
        self._connect, self._heard, self._replica = connect, heard, replica
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._mouth: psycopg.Connection[Any] | None = None

    def tell(self, word: Word) -> None:
        """Have every replica hear it; never fails."""
        with self._lock:
            try:
                if self._mouth is None or self._mouth.closed:
                    self._mouth = self._connect()
                self._mouth.execute(
                    "SELECT pg_notify(%s, %s)", (CHANNEL, f"{word} {self._replica}")
                )
            except psycopg.Error as error:
                log.warning("the other replicas were not told: %s", error)
                self._hush()

    def run(self) -> None:
        """Hear what the others tell until `stop`; the thread's body."""
        while not self._stopping.is_set():
            try:
                with self._connect() as line:
                    line.execute(f"LISTEN {CHANNEL}")
                    self._all()  # what was told meanwhile
                    self._listen(line)
            except Exception as error:  # noqa: BLE001 - the database, whoever was asking
                log.warning("the other replicas cannot be heard: %s", error)
                self._stopping.wait(AGAIN)

    def stop(self) -> None:
        """Hear and tell no more."""
        self._stopping.set()
        with self._lock:
            self._hush()

    def _listen(self, line: psycopg.Connection[Any]) -> None:
        while not self._stopping.is_set():
            quiet = True
            for notice in line.notifies(timeout=QUIET, stop_after=1):
                quiet = False
                word, _, who = notice.payload.partition(" ")
                with suppress(ValueError):  # the word of a newer version
                    if who != self._replica:
                        self._heard[Word(word)]()
                if self._stopping.is_set():
                    return
            if quiet:  # or cut
                line.execute("SELECT 1")

    def _all(self) -> None:
        for heard in self._heard.values():
            heard()

    def _hush(self) -> None:
        if self._mouth is not None:
            self._mouth.close()
            self._mouth = None
