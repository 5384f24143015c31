"""The audit's hash chain: how a row is sealed.

The seal of a row covers the seal of the one before it and is made with a key, so nobody without the
key can change, add or swap rows. This module does no I/O; missing rows at the end are detected with
the head file (`storage.trail`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

PolicyContextReader = Callable[[], Mapping[str, str]]
FIRST = "0" * 64  # what comes before the first row


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest row of the chain: its number and its seal."""

    seq: int = 0
    hash: str = FIRST


def compute_key_id(key: bytes) -> str:
    """Return eight hex digits that identify a key without revealing anything of it."""
    return hashlib.sha256(b"countersign key id\0" + key).hexdigest()[:8]


class SigningKey(bytes):
    """The key in use with older keys, which only verify what they signed."""

    older_keys: tuple[bytes, ...]

    def __new__(cls, *keys: bytes) -> SigningKey:
        """Take the key in use first, then the older ones."""
        made = super().__new__(cls, keys[0])
        made.older_keys = tuple(keys[1:])
        return made

    def __reduce__(self) -> tuple[type[SigningKey], tuple[bytes, ...]]:
        """Pickle the older keys as well."""
        return SigningKey, (bytes(self), *self.older_keys)


def list_current_and_older_keys(key: bytes) -> tuple[bytes, ...]:
    """Return the key in use, followed by its older keys."""
    return (key, *key.older_keys) if isinstance(key, SigningKey) else (key,)


def get_key_by_id_or_current(key: bytes, wanted: str) -> bytes:
    """Return the key with that id, or the one in use if none has it."""
    return next(
        (each for each in list_current_and_older_keys(key) if compute_key_id(each) == wanted), key
    )


def list_key_ids(key: bytes) -> set[str]:
    """Return the ids of all accepted keys."""
    return {compute_key_id(each) for each in list_current_and_older_keys(key)}


class AuditChain:
    """The sealing key of one store's audit."""

    def __init__(self, key: bytes, under: PolicyContextReader = dict) -> None:
        """Derive the audit's key from `key`; `under` returns the policy and model in force now."""
        own = hmac.digest(key, b"countersign audit", "sha256")  # for nothing but this
        # copied for each seal: making one from a key takes three times as long as a seal
        self._begun = hmac.new(own, digestmod=hashlib.sha256)
        self.key_id = compute_key_id(key)
        self.under = under
        older = (AuditChain(each) for each in list_current_and_older_keys(key)[1:])
        self._older = {each.key_id: each for each in older}

    def find_chain_by_key_id(self, wanted: str) -> AuditChain | None:
        """Return the chain for the key with that id; None if the key is not known."""
        return self if wanted == self.key_id else self._older.get(wanted)

    def seal_row(
        self,
        before: AuditHead,
        at: datetime,
        run_id: str,
        call_id: str,
        actor: str,
        event: str,
        data: str,
    ) -> AuditHead:
        """Return the new head after this row is appended to `before`."""
        seq = before.seq + 1
        return AuditHead(
            seq, self.sign(seq, before.hash, at.isoformat(), run_id, call_id, actor, event, data)
        )

    def sign(self, *parts: str | int) -> str:
        """Return the HMAC-SHA256 (hex) of these parts under the audit's key."""
        seal = self._begun.copy()
        seal.update(json.dumps(parts).encode())
        return seal.hexdigest()
