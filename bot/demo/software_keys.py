"""Passkeys in software, for the people of the demo, whose browser may have no authenticator.

They prove nothing: who presses the page's button signs. The page says so.
"""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from countersign.receipts import encode_base64url as encode
from storage import passkeys

if TYPE_CHECKING:
    from bot.config.connection_settings import PageAddress
    from bot.core import Core

NAME = "The demo’s software key"
CHECKED = 0x05  # flags of an authenticator: somebody is there, and it was checked who
NEW = 0x40  # and: a new key follows


@dataclass(slots=True)
class SoftwareKey:
    """One person's key for one address, with the counter of its signatures."""

    address: PageAddress
    private: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )
    id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    count: int = 0

    @property
    def public_key(self) -> bytes:
        """Return the public key as COSE has it (RFC 9053: ES256 on P-256)."""
        point = self.private.public_key().public_numbers()
        x, y = point.x.to_bytes(32, "big"), point.y.to_bytes(32, "big")
        return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})

    def sign(self, challenge: str) -> dict[str, Any]:
        """Return what a browser posts once its authenticator has signed this challenge."""
        self.count += 1
        client = self._describe_client("webauthn.get", challenge)
        data = self._describe_authenticator(CHECKED)
        signed = data + sha256(client).digest()
        answer = {
            "clientDataJSON": encode(client),
            "authenticatorData": encode(data),
            "signature": encode(self.private.sign(signed, ec.ECDSA(hashes.SHA256()))),
        }
        return self._build_credential(answer)

    def register(self, challenge: str) -> dict[str, Any]:
        """Return what a browser posts once its authenticator has made this key."""
        client = self._describe_client("webauthn.create", challenge)
        new = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + self.public_key
        data = self._describe_authenticator(CHECKED | NEW) + new
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        answer = {
            "clientDataJSON": encode(client),
            "attestationObject": encode(attestation),
        }
        return self._build_credential(answer)

    def _describe_client(self, kind: str, challenge: str) -> bytes:
        found = {"type": kind, "challenge": challenge, "origin": self.address.origin}
        return json.dumps(found | {"crossOrigin": False}, separators=(",", ":")).encode()

    def _describe_authenticator(self, flags: int) -> bytes:
        site = sha256(self.address.rp_id.encode()).digest()
        return site + bytes([flags]) + self.count.to_bytes(4, "big")

    def _build_credential(self, answer: Mapping[str, str]) -> dict[str, Any]:
        own = encode(self.id)
        return {"id": own, "rawId": own, "type": "public-key", "response": dict(answer)}


class SoftwareKeys:
    """The software keys of the demo's people, kept as long as the demo runs."""

    def __init__(self, address: PageAddress) -> None:
        """`address`: where people sign."""
        self._address = address
        self._keys: dict[bytes, SoftwareKey] = {}

    def add_passkeys(self, core: Core, people: Iterable[str]) -> None:
        """Store a passkey of each of these people, which counts at once."""
        at = core.clock.now()
        with core.store.write() as tx:
            for person in people:
                key = self._create_key()
                row = passkeys.Passkey(
                    team=core.identity.team,
                    person=person,
                    credential_id=encode(key.id),
                    public_key=encode(key.public_key),
                    rp_id=self._address.rp_id,
                    name=NAME,
                    created_at=at,
                    counts_from=at,
                )
                passkeys.add_passkey(tx, row)

    def has_key(self, credential_id: str) -> bool:
        """Return whether this is the id of one of these keys."""
        return urlsafe_b64decode(credential_id + "==") in self._keys

    def answer(self, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a browser would post for these options; None if no key here may sign."""
        if "allowCredentials" not in options:
            return self._create_key().register(options["challenge"])
        allowed = [urlsafe_b64decode(each["id"] + "==") for each in options["allowCredentials"]]
        found = next((self._keys[each] for each in allowed if each in self._keys), None)
        return found.sign(options["challenge"]) if found else None

    def _create_key(self) -> SoftwareKey:
        key = SoftwareKey(self._address)
        self._keys[key.id] = key
        return key
