"""How a key is written, csk_<id>_<secret>, and what is kept of its secret: a hash. Pure.

What a key's webhooks are signed with is kept nowhere: it is made of the installation's key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

_WRITTEN = re.compile(r"csk_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)


class KeyText(NamedTuple):
    """Both parts of a key."""

    id: str  # no secret: it stands in the record
    secret: str  # 256 random bits

    def __str__(self) -> str:
        return f"csk_{self.id}_{self.secret}"

    @property
    def hash(self) -> str:
        """What is kept of the secret."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def fits(self, kept: str) -> bool:
        """Whether this is what was kept; takes the same time whatever is different."""
        return hmac.compare_digest(self.hash, kept)


def new_key_text() -> KeyText:
    """A key that nobody has seen."""
    return KeyText(secrets.token_hex(8), secrets.token_urlsafe(32))


def read_key_text(text: str) -> KeyText | None:
    """The key that is written there; None where that is none."""
    found = _WRITTEN.fullmatch(text)
    return KeyText(*found.groups()) if found else None


def webhook_secret(installation: bytes, key_id: str) -> str:
    """What is told to a key's address is signed with, as Standard Webhooks writes it: whsec_….

    `installation`: the key behind the fingerprints; another one makes other secrets.
    """
    own = hmac.digest(installation, b"countersign webhooks", "sha256")  # for nothing but this
    signing = hmac.digest(own, key_id.encode(), "sha256")
    return f"whsec_{base64.b64encode(signing).decode()}"
