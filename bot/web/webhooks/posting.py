"""One attempt to tell an address something: signed, without following it anywhere else."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from httpx2 import Client, HTTPError
from standardwebhooks import Webhook as Signature

PATIENCE = 10.0  # seconds for the address to take it
TAKEN = range(200, 300)
GONE = 410  # the address wants to be told nothing any more


class Envelope(NamedTuple):
    """What is told, and how it is signed."""

    id: str
    kind: str
    secret: str
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
        self._client = Client(timeout=PATIENCE, follow_redirects=False)

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
            "webhook-signature": Signature(envelope.secret).sign(envelope.id, at, body),
        }
        try:
            with self._client.stream("POST", url, content=body, headers=headers) as answer:
                status = answer.status_code  # what else it says is not read
        except HTTPError as error:
            return Attempted(False, why=type(error).__name__)
        return Attempted(status in TAKEN, status == GONE, f"it answers {status}")

    def close(self) -> None:
        """Tell nobody anything any more."""
        self._client.close()
