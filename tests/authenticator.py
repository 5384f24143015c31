"""An authenticator in software: a key for one site, which signs what a browser would hand it."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

PRESENT, VERIFIED = 0x01, 0x04  # flags: user present; user verified
AAGUID = "00000000-0000-0000-0000-000000000000"
PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


def encode(raw: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass
class Authenticator:
    """One passkey; change its fields to make it misbehave."""

    rp_id: str = "approve.example.com"
    origin: str = "https://approve.example.com"
    key: PrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    credential_id: str = field(default_factory=lambda: encode(secrets.token_bytes(32)))
    count: int = 0  # signatures so far
    step: int = 1  # added with each signature; 0: no counter
    flags: int = PRESENT | VERIFIED
    cross_origin: bool = False
    kind: str = "webauthn.get"
    more: dict[str, Any] = field(default_factory=dict)  # added to the client data

    @property
    def public_key(self) -> str:
        """The public key as COSE has it, base64url."""
        public = self.key.public_key()
        if isinstance(public, ec.EllipticCurvePublicKey):
            point = public.public_numbers()
            x, y = point.x.to_bytes(32, "big"), point.y.to_bytes(32, "big")
            return encode(cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y}))
        if isinstance(public, rsa.RSAPublicKey):
            numbers = public.public_numbers()
            n = numbers.n.to_bytes(256, "big")
            return encode(cbor2.dumps({1: 3, 3: -257, -1: n, -2: numbers.e.to_bytes(3, "big")}))
        return encode(cbor2.dumps({1: 1, 3: -8, -1: 6, -2: public.public_bytes_raw()}))

    def sign(self, challenge: bytes) -> dict[str, Any]:
        """Return what `navigator.credentials.get` returns, as its `toJSON` gives it."""
        self.count += self.step
        client = json.dumps(
            {
                "type": self.kind,
                "challenge": encode(challenge),
                "origin": self.origin,
                "crossOrigin": self.cross_origin,
                **self.more,
            },
            separators=(",", ":"),
        ).encode()
        site = hashlib.sha256(self.rp_id.encode()).digest()
        data = site + bytes([self.flags]) + self.count.to_bytes(4, "big")
        return {
            "id": self.credential_id,
            "rawId": self.credential_id,
            "type": "public-key",
            "authenticatorAttachment": "platform",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": encode(client),
                "authenticatorData": encode(data),
                "signature": encode(self._sign(data + hashlib.sha256(client).digest())),
                "userHandle": None,
            },
        }

    def _sign(self, what: bytes) -> bytes:
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            return self.key.sign(what, ec.ECDSA(hashes.SHA256()))
        if isinstance(self.key, rsa.RSAPrivateKey):
            return self.key.sign(what, padding.PKCS1v15(), hashes.SHA256())
        return self.key.sign(what)
