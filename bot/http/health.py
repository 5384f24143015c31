"""Whether the process lives, and whether work may be sent to it, for whatever looks after it.

It says what is so at this moment or was so a moment ago, in words that hold no secret. Nobody waits
for it longer than PATIENCE.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

from bot.http.app import Page, PageText
from bot.monitoring.exporters import METRICS, missing
from bot.monitoring.health_checks import OK, CachedCheck
from bot.monitoring.spans import Tracer
from bot.signals import Signal

# What Prometheus reads: the page of metrics.

KIND = "text/plain; version=0.0.4; charset=utf-8"


def metrics_page(watch: Tracer) -> Page:
    """Return the page; where nothing counts it says which extra is missing."""

    def answer() -> PageText:
        text = watch.page()
        if text is None:
            return PageText(HTTPStatus.NOT_IMPLEMENTED, f"{missing(METRICS)}\n")
        return PageText(HTTPStatus.OK, text, KIND)

    return Page("/metrics", answer)


GOOD_FOR = 2.0  # seconds for which the database is not asked again
ASK_AGAIN = 60.0  # seconds between two questions to Slack
BEHIND = 5.0  # seconds after a look was due when no work is sent here any more
LOST = 120.0  # and when nobody expects the loop to look again


class Health:
    """What is asked about this process."""

    def __init__(
        self,
        loop: Signal,
        tick: float,
        database: CachedCheck,
        slack: CachedCheck,
        stopping: Callable[[], bool],
    ) -> None:
        """`loop` is the signal that the loop looks at, every `tick` seconds at least.

        `stopping` says that the process is on its way out.
        """
        self._loop, self._tick = loop, tick
        self._database, self._slack = database, slack
        self._stopping = stopping

    def pages(self) -> list[Page]:
        """Return where it is asked."""
        return [Page("/healthz", self.alive), Page("/readyz", self.ready)]

    def alive(self) -> PageText:
        """Say whether the process lives: its loop looks, or is only late."""
        return _said("alive", {"loop": self._late(LOST)})

    def ready(self) -> PageText:
        """Say whether work may be sent here."""
        if self._stopping():
            return _said("ready", {"process": "is stopping"})
        return _said(
            "ready",
            {
                "loop": self._late(BEHIND),
                "database": self._database.now(),
                "slack": self._slack.lately(),
            },
        )

    def close(self) -> None:
        """Look at nothing any more."""
        self._database.close()
        self._slack.close()

    def _late(self, allowed: float) -> str:
        looked = self._loop.looked_at
        if looked is None:
            return "has not begun"
        late = time.monotonic() - looked - self._tick
        return OK if late <= allowed else f"is {late:.0f} seconds late"


def _said(word: str, found: Mapping[str, str]) -> PageText:
    """The answer to these findings: the word where all is well, and a line for each."""
    well = all(each == OK for each in found.values())
    lines = [word if well else f"not {word}", *(f"{name}: {each}" for name, each in found.items())]
    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
    return PageText(status, "\n".join(lines) + "\n")
