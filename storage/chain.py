"""The audit's chain: how a row is sealed.

The seal of a row covers the seal of the one before it and is made with a key, so nobody without
the key can change, add or swap rows. Pure; that none is missing at the end is told by the head
file (`storage.trail`).
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


class SigningKey(bytes):
    """The key in use, and older ones: nothing new is made with those, and what they made holds."""

    older: tuple[bytes, ...]

    def __new__(cls, *keys: bytes) -> SigningKey:
        """Take the one in use, and the others behind it."""
        made = super().__new__(cls, keys[0])
        made.older = tuple(keys[1:])
        return made

    def __reduce__(self) -> tuple[type[SigningKey], tuple[bytes, ...]]:
        """Take the older ones along."""
        return SigningKey, (bytes(self), *self.older)


def all_keys(key: bytes) -> tuple[bytes, ...]:
    """The key, and the older ones that are beside it."""
    return (key, *key.older) if isinstance(key, SigningKey) else (key,)


def key_with_id(key: bytes, wanted: str) -> bytes:
    """The one of these with that id; the one in use where none has it."""
    return next((each for each in all_keys(key) if key_id(each) == wanted), key)


def key_ids(key: bytes) -> set[str]:
    """The ids of all that are accepted."""
    return {key_id(each) for each in all_keys(key)}


class Chain:
    """What one store's audit is sealed with."""

    def __init__(self, key: bytes, under: Under = dict) -> None:
        """`key`: behind the fingerprints; `under`: what holds at each decision (policy, model)."""
        own = hmac.digest(key, b"countersign audit", "sha256")  # for nothing but this
        # copied for each seal: making one from a key takes three times as long as a seal
        self._begun = hmac.new(own, digestmod=hashlib.sha256)
        self.key_id = key_id(key)
        self.under = under
        older = (Chain(each) for each in all_keys(key)[1:])
        self._older = {each.key_id: each for each in older}

    def of(self, wanted: str) -> Chain | None:
        """What seals by the key of that id; None where that key is not there."""
        return self if wanted == self.key_id else self._older.get(wanted)

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
