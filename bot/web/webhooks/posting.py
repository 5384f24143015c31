"""One attempt to tell an address something: signed, without following it anywhere else."""

from __future__ import annotations

import json
import threading
from concurrent.futures import CancelledError
from datetime import datetime
from typing import Any, NamedTuple

import anyio
from anyio.from_thread import BlockingPortal
from httpx2 import AsyncClient, HTTPError
from standardwebhooks import Webhook as Signature

from bot.tools.preview import Portal

PATIENCE = 10.0  # seconds for the address to take it, however slowly it answers
TAKEN = range(200, 300)
GONE = 410  # the address wants to be told nothing any more


class Envelope(NamedTuple):
    """What is told, and how it is signed."""

    id: str
    kind: str
    secrets: tuple[str, ...]  # of the key in use, and of older ones: each of them signs
    at: datetime  # of this attempt
    happened_at: datetime
    data: dict[str, Any]  # the request, as it stands now


class Attempted(NamedTuple):
    """What came of an attempt."""

    is_taken: bool
    is_last: bool = False  # it is in vain to try again
    why: str = ""


class Poster:
    """One per process; any thread."""

    def __init__(self) -> None:
        """No address has been told anything."""
        self._client = AsyncClient(timeout=None, follow_redirects=False)
        self._portal = Portal()
        self._lock = threading.Lock()
        self._running: BlockingPortal | None = None
        self._closed = False

    def post(self, url: str, envelope: Envelope) -> Attempted:
        """Tell it; returns what came of that."""
        body = json.dumps(
            {
                "type": envelope.kind,
                "timestamp": envelope.happened_at.isoformat(),
                "data": envelope.data,
            }
        )
        at = envelope.at
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Countersign",
            "webhook-id": envelope.id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": " ".join(
                Signature(each).sign(envelope.id, at, body) for each in envelope.secrets
            ),
        }
        try:
            return self._started().call(self._attempt, url, body, headers)
        except (CancelledError, RuntimeError):  # the portal is closed, or was just then
            return Attempted(False, why="this process stops")

    async def _attempt(self, url: str, body: str, headers: dict[str, str]) -> Attempted:
        try:
            with anyio.fail_after(PATIENCE):
                async with self._client.stream(
                    "POST", url, content=body, headers=headers
                ) as answer:
                    status = answer.status_code  # what else it says is not read
        except (HTTPError, TimeoutError) as error:
            return Attempted(False, why=type(error).__name__)
        return Attempted(status in TAKEN, status == GONE, f"it answers {status}")

    def close(self) -> None:
        """Tell nobody anything any more; what is under way is cut short."""
        with self._lock:
            portal, self._running, self._closed = self._running, None, True
        if portal is None:  # nobody was told anything: there is nothing to end
            return
        portal.call(portal.stop, True)
        self._portal.close()

    def _started(self) -> BlockingPortal:
        """The portal; CancelledError once this is closed."""
        with self._lock:
            if self._closed:
                raise CancelledError
            self._running = self._portal()
            return self._running
