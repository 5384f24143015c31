"""Where async tools and async previews run: one event loop on one thread, started when needed."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from anyio.from_thread import BlockingPortal, start_blocking_portal


class Portal:
    """Calls async functions from other threads; its own thread starts with the first of them."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._lock = threading.Lock()
        self._manager: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None

    def __call__(self) -> BlockingPortal:
        """Return the portal, started."""
        with self._lock:
            if self._portal is None:
                self._manager = start_blocking_portal()
                self._portal = self._manager.__enter__()
            return self._portal

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            if self._manager is not None:
                self._manager.__exit__(None, None, None)
                self._manager = self._portal = None
