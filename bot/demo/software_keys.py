"""Passkeys in software, for the people of the demo, whose browser may have no authenticator.

They prove nothing, as the page says: whoever presses its button signs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from countersign import receipts
from countersign.receipts import encode_base64url as encode
from storage import passkeys

if TYPE_CHECKING:
    from bot.config.connection_settings import PageAddress
    from bot.core import Core

KEY_NAME = "The demo’s software key"
PRESENT_AND_VERIFIED = 0x05  # WebAuthn flags: user present, user verified
ATTESTED_KEY_INCLUDED = 0x40  # WebAuthn flag: a new key follows


class SoftwareKeys:
    """The software keys of the demo's people, kept as long as the demo runs."""

    def __init__(self, address: PageAddress) -> None:
        """`address`: the address of the page on which people sign."""
        self._address = address
        self._keys: dict[str, ec.EllipticCurvePrivateKey] = {}  # by credential id

    def add_passkeys(self, core: Core, people: Iterable[str]) -> None:
        """Store a new passkey for each of these people, which may be used at once."""
        at = core.clock.now()
        with core.store.write() as tx:
            for person in people:
                new = self._create_key()
                row = passkeys.Passkey(
                    team=core.identity.team,
                    person=person,
                    credential_id=new,
                    public_key=encode(_encode_public_key(self._keys[new])),
                    rp_id=self._address.rp_id,
                    name=KEY_NAME,
                    created_at=at,
                    counts_from=at,
                )
                passkeys.add_passkey(tx, row)

    def has_key(self, credential_id: str) -> bool:
        """Return whether this is the id of one of these keys."""
        return credential_id in self._keys

    def answer(self, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what a browser would post for these WebAuthn options; None if no key may sign."""
        challenge = options["challenge"]
        if "allowCredentials" not in options:
            return self._register(self._create_key(), challenge)
        allowed = (each["id"] for each in options["allowCredentials"])
        found = next(filter(self.has_key, allowed), None)
        return self._sign(found, challenge) if found else None

    def _create_key(self) -> str:
        """Make a key and return its credential id."""
        new = encode(secrets.token_bytes(32))
        self._keys[new] = ec.generate_private_key(ec.SECP256R1())
        return new

    def _register(self, key_id: str, challenge: str) -> dict[str, Any]:
        """Return what a browser posts once its authenticator has made this key."""
        raw = receipts.decode_base64url(key_id)
        new = bytes(16) + len(raw).to_bytes(2, "big") + raw + _encode_public_key(self._keys[key_id])
        data = self._describe_authenticator(PRESENT_AND_VERIFIED | ATTESTED_KEY_INCLUDED) + new
        return _build_credential(
            key_id,
            clientDataJSON=self._describe_client("create", challenge),
            attestationObject=cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data}),
        )

    def _sign(self, key_id: str, challenge: str) -> dict[str, Any]:
        """Return what a browser posts once its authenticator has signed this challenge."""
        client = self._describe_client("get", challenge)
        data = self._describe_authenticator(PRESENT_AND_VERIFIED)
        signed, how = data + sha256(client).digest(), ec.ECDSA(hashes.SHA256())
        signature = self._keys[key_id].sign(signed, how)
        return _build_credential(
            key_id, clientDataJSON=client, authenticatorData=data, signature=signature
        )

    def _describe_client(self, act: str, challenge: str) -> bytes:
        raw = receipts.decode_base64url(challenge)
        return receipts.build_client_data(raw, self._address.origin, act)

    def _describe_authenticator(self, flags: int) -> bytes:
        """Return WebAuthn's authenticator data: hash of the host, flags, and a counter of 0."""
        return sha256(self._address.rp_id.encode()).digest() + bytes([flags]) + bytes(4)


def _encode_public_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public key as COSE has it (RFC 9053: ES256 on P-256)."""
    point = key.public_key().public_numbers()
    x, y = point.x.to_bytes(32, "big"), point.y.to_bytes(32, "big")
    return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y})


def _build_credential(key_id: str, **response: bytes) -> dict[str, Any]:
    said = {name: encode(each) for name, each in response.items()}
    return {"id": key_id, "rawId": key_id, "type": "public-key", "response": said}
