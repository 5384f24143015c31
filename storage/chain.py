"""The audit's chain: how a row is sealed.

The seal of a row covers the seal of the one before it and is made with a key, so nobody without
the key can change, add or swap rows. Pure; that none is missing at the end is told by the head
file (`storage.head_file`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

Under = Callable[[], Mapping[str, str]]
FIRST = "0" * 64  # what comes before the first row


@dataclass(frozen=True, slots=True)
class Head:
    """How far the chain has come: its last row, and that row's seal."""

    seq: int = 0
    hash: str = FIRST


def key_id(key: bytes) -> str:
    """Eight hex digits by which a key is told from others; they tell nothing of it."""
    return hashlib.sha256(b"countersign key id\0" + key).hexdigest()[:8]


class Chain:
    """What one store's audit is sealed with."""

    def __init__(self, key: bytes, under: Under = dict) -> None:
        """`key`: behind the fingerprints; `under`: what holds at each decision (policy, model)."""
        own = hmac.digest(key, b"countersign audit", "sha256")  # for nothing but this
        # copied for each seal: making one from a key takes three times as long as a seal
        self._begun = hmac.new(own, digestmod=hashlib.sha256)
        self.key_id = key_id(key)
        self.under = under

    def seal(
        self,
        before: Head,
        at: datetime,
        run_id: str,
        call_id: str,
        actor: str,
        event: str,
        data: str,
    ) -> Head:
        """The head once this row has been appended to `before`."""
        seq = before.seq + 1
        return Head(
            seq,
            self.sign(seq, before.hash, at.isoformat(), run_id, call_id, actor, event, data),
        )

    def sign(self, *parts: str | int) -> str:
        """HMAC-SHA256 (hex) of these parts under the audit's key."""
        seal = self._begun.copy()
        seal.update(json.dumps(parts).encode())
        return seal.hexdigest()
