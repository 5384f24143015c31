"""Helpers for stories about new passkeys: links, credentials of authenticators, cards."""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any

import cbor2

from bot.approvals.signatures import compute_challenge
from storage.passkeys import Passkey, SigningLink
from tests.authenticator import AAGUID, Authenticator, encode
from tests.stories.harness import Harness
from tests.stories.messages import action_ids, words
from tests.stories.signing import PageOutcome, find_link, links_of, passkeys_of, post_credential
from tests.stories.steps import arrived

ENROL = "/passkeys/"  # the path of links to add a passkey
ATTESTED = 0x40  # flag: the data has a new key
Attest = Callable[[bytes], dict[str, Any]]  # makes a maker's attestation statement about this data


def make_credential(
    key: Authenticator,
    challenge: bytes,
    *,
    name: str = "",
    aaguid: str = AAGUID,
    attest: Attest | None = None,
) -> dict[str, Any]:
    """Build the JSON that `navigator.credentials.create` returns, with the typed name."""
    client = {
        "type": "webauthn.create",
        "challenge": encode(challenge),
        "origin": key.origin,
        "crossOrigin": key.cross_origin,
    }
    raw, cose = (urlsafe_b64decode(each + "==") for each in (key.credential_id, key.public_key))
    data = hashlib.sha256(key.rp_id.encode()).digest() + bytes([key.flags | ATTESTED])
    data += key.count.to_bytes(4, "big") + bytes.fromhex(aaguid.replace("-", ""))
    data += len(raw).to_bytes(2, "big") + raw + cose
    said = json.dumps(client).encode()
    statement = attest(data + hashlib.sha256(said).digest()) if attest else {}
    fmt = "packed" if attest else "none"
    made = cbor2.dumps({"fmt": fmt, "attStmt": statement, "authData": data})
    return {
        "id": key.credential_id,
        "rawId": key.credential_id,
        "type": "public-key",
        "clientExtensionResults": {},
        "name": name,
        "response": {
            "clientDataJSON": encode(said),
            "attestationObject": encode(made),
            "transports": ["internal"],
        },
    }


def ask_for_link(harness: Harness, who: str) -> SigningLink:
    """Press Add a passkey on Home, and return the link that this person is sent."""
    before = len(links_of(harness, who, ENROL))
    person = harness.person(who)
    person.open_home()
    for button in ("home_passkeys", "add_passkey"):
        harness.slack.wait(lambda each=button: each in str(person.home()))
        person.click_home(button)
    harness.slack.wait(lambda: len(links_of(harness, who, ENROL)) > before)
    return find_link(harness, links_of(harness, who, ENROL)[-1])


def make_passkey(
    harness: Harness, link: SigningLink, key: Authenticator, name: str = ""
) -> PageOutcome:
    """Make a passkey for this link, and post it as the page does."""
    return post_credential(harness, link, make_credential(key, compute_challenge(link), name=name))


def enrol(harness: Harness, who: str, name: str = "") -> tuple[Authenticator, Passkey]:
    """Have this person add a passkey; return its authenticator and its row."""
    key = Authenticator()
    name = name or f"{who}’s phone"
    outcome = make_passkey(harness, ask_for_link(harness, who), key, name)
    assert outcome.is_done, outcome
    return key, passkeys_of(harness, who)[-1]


def wait_for_dm(harness: Harness, who: str, *parts: str) -> dict[str, Any]:
    """Wait for a message with these parts in the person's DMs; return the newest."""

    def look() -> dict[str, Any] | None:
        seen = harness.person(who)
        fits = [m for m in seen.everything(seen.dm_channel) if all(p in words(m) for p in parts)]
        return max(fits, key=lambda each: float(each["ts"])) if fits else None

    found: dict[str, Any] = harness.slack.wait(look)
    return found


def wait_for_passkey_card(harness: Harness, who: str, name: str) -> dict[str, Any]:
    """Wait for the card about the passkey of this name in the person's direct messages."""

    def look() -> dict[str, Any] | None:
        seen = harness.person(who)
        fits = [m for m in seen.everything(seen.dm_channel) if name in words(m)]
        return next((m for m in fits if "approve" in action_ids(m)), None)

    found: dict[str, Any] = harness.slack.wait(look)
    return found


def press_in_dm(harness: Harness, who: str, message: dict[str, Any], action: str) -> None:
    """Press a button in this person's direct messages, and wait until that is decided."""
    person = harness.person(who)
    person.click(person.dm_channel, message["ts"], action, seen=message)
    arrived(harness)
