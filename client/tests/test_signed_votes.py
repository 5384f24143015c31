"""Votes that passkeys have signed: each signature is checked, and is for exactly one decision."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from client.tests.test_receipts import AT, KEYS, VOTE, signed, statement
from countersign import receipts
from tests.authenticator import PRESENT, VERIFIED, Authenticator, PrivateKey, encode

GATE = hashlib.sha256(b"a gate").hexdigest()
ABOUT = {"workspace": "T0SANDBOX", "call": "q8x", "revision": 2, "gate": GATE}
MAKERS: dict[str, Callable[[], PrivateKey]] = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
}


def jwk_of(key: PrivateKey) -> dict[str, str]:
    """The public key as a receipt has it."""
    public = key.public_key()
    if isinstance(public, ec.EllipticCurvePublicKey):
        point = public.public_numbers()
        x, y = (encode(each.to_bytes(32, "big")) for each in (point.x, point.y))
        return {"crv": "P-256", "kty": "EC", "x": x, "y": y}
    if isinstance(public, rsa.RSAPublicKey):
        found = public.public_numbers()
        size = (found.n.bit_length() + 7) // 8
        return {"e": "AQAB", "kty": "RSA", "n": encode(found.n.to_bytes(size, "big"))}
    return {"crv": "Ed25519", "kty": "OKP", "x": encode(public.public_bytes_raw())}


def said(**changed: Any) -> dict[str, Any]:
    """What Ana signs."""
    [subject] = statement()["subject"]
    return {
        **ABOUT,
        "digest": subject["digest"]["sha256"],
        "verb": "approve",
        "approver": VOTE["person"],
        "right": "",
        "nonce": "5" * 32,
        "issued": (AT - timedelta(minutes=1)).isoformat(),
        "expires": (AT + timedelta(minutes=4)).isoformat(),
    } | changed


def signed_vote(
    key: Authenticator | None = None, what: dict[str, Any] | None = None, **vote: Any
) -> dict[str, Any]:
    """Ana's vote with the signature of her passkey over `what`."""
    key, what = key or Authenticator(), what or said()
    challenge = hashlib.sha256(receipts.encode_canonical_json(what).encode()).digest()
    response = key.sign(challenge)["response"]
    parts = {name: response[name] for name in ("authenticatorData", "clientDataJSON", "signature")}
    site = {"rpId": "approve.example.com", "model": "0" * 8 + "-0000" * 3 + "-" + "0" * 12}
    passkey = {"statement": what, **parts, "key": jwk_of(key.key), **site}
    return {**VOTE, "evidence": "passkey", "passkey": passkey, **vote}


def receipt_with(*votes: dict[str, Any], **content: Any) -> str:
    """A receipt with these votes, signed by the installation."""
    return json.dumps(signed(statement(**{**ABOUT, "votes": list(votes), **content})))


def check(text: str, **demanded: Any) -> None:
    receipt = receipts.verify_receipt(text, KEYS)
    receipts.check_approval(receipt, passkeys=True, now=AT, **demanded)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_signed_vote_holds(kind: str) -> None:
    """Of each kind of passkey."""
    check(receipt_with(signed_vote(Authenticator(key=MAKERS[kind]()))))


def test_only_signed_votes_count_where_that_is_demanded() -> None:
    """Of two approvals one is a click."""
    other = VOTE | {"person": "UCLEO0001", "evidence": "slack"}
    text = receipt_with(signed_vote(), other)
    check(text)
    receipts.check_approval(receipts.verify_receipt(text, KEYS), approvers=2, now=AT)
    with pytest.raises(receipts.ReceiptError, match="1 person has approved it with a passkey"):
        check(text, approvers=2)
    with pytest.raises(receipts.ReceiptError, match="0 people have approved it with a passkey"):
        check(receipt_with(other))


def test_a_delegate_signs_with_their_own_passkey() -> None:
    """It counts for the person whose right it is, which is signed as well."""
    cleo = {"person": "UCLEO0001", "for": "UANA00001"}
    vote = signed_vote(what=said(approver="UCLEO0001", right="UANA00001"), **cleo)
    text = receipt_with(vote)
    check(text)
    receipt = receipts.verify_receipt(text, KEYS)
    assert receipts.list_approvers(receipt, passkeys=True) == ["UANA00001"]


OTHER = {"verb": "break_glass", "approver": "UEVE00001", "right": "UBEN00001", "digest": "0" * 64}
OTHER |= {"workspace": "TEVIL", "call": "other", "gate": "0" * 64}


@pytest.mark.parametrize("name", [*OTHER, "revision"])
def test_each_name_of_what_was_signed_is_compared(name: str) -> None:
    """A signature over another decision is none of this one."""
    changed: dict[str, Any] = {name: OTHER.get(name, 3)}
    with pytest.raises(receipts.ReceiptError, match=f"has signed another {name}"):
        check(receipt_with(signed_vote(what=said(**changed))))


BAD_TIMES = {
    "before": {"issued": (AT + timedelta(seconds=1)).isoformat()},
    "expired": {"expires": AT.isoformat()},
    "without a zone": {"issued": "2026-11-26T11:59:00"},
    "no time": {"expires": "soon"},
}


@pytest.mark.parametrize("name", BAD_TIMES)
def test_it_was_signed_in_time(name: str) -> None:
    """After the link was made, and before it expired."""
    with pytest.raises(receipts.ReceiptError, match="at another time"):
        check(receipt_with(signed_vote(what=said(**BAD_TIMES[name]))))


BAD_KEYS: dict[str, tuple[dict[str, Any], str]] = {
    "not verified": ({"flags": PRESENT}, "did not check who used it"),
    "not present": ({"flags": VERIFIED}, "did not check who used it"),
    "another site": ({"rp_id": "evil.example"}, "for another site"),
    "another origin": ({"origin": "https://evil.example"}, "something else, or elsewhere"),
    "like it": ({"origin": "https://evilapprove.example.com"}, "something else, or elsewhere"),
    "plain": ({"origin": "http://approve.example.com"}, "something else, or elsewhere"),
    "framed": ({"cross_origin": True}, "something else, or elsewhere"),
    "enrolment": ({"kind": "webauthn.create"}, "something else, or elsewhere"),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_what_the_authenticator_says_is_checked(name: str) -> None:
    """Though the signature itself is right."""
    changed, why = BAD_KEYS[name]
    with pytest.raises(receipts.ReceiptError, match=why):
        check(receipt_with(signed_vote(Authenticator(**changed))))


def flipped(text: str, at: int) -> str:
    """Base64url with one bit changed."""
    raw = bytearray(base64_of(text))
    raw[at % len(raw)] ^= 1 << (at % 8)
    return encode(bytes(raw))


def base64_of(text: str) -> bytes:
    import base64

    return base64.urlsafe_b64decode(text + "==")


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ["authenticatorData", "clientDataJSON", "signature", "key"])
def test_no_bit_of_the_evidence_may_change(name: str, kind: str) -> None:
    """Also where the installation itself would sign the receipt again."""
    vote = signed_vote(Authenticator(key=MAKERS[kind]()))
    passkey = vote["passkey"]
    whole = passkey["key"][{"ES256": "x", "EdDSA": "x", "RS256": "n"}[kind]]
    whole = whole if name == "key" else passkey[name]
    for at in range(0, len(base64_of(whole)), 1 if kind == "ES256" else 16):
        changed = deepcopy(vote)
        if name == "key":
            member = "n" if kind == "RS256" else "x"
            changed["passkey"]["key"][member] = flipped(whole, at)
        else:
            changed["passkey"][name] = flipped(whole, at)
        with pytest.raises(receipts.ReceiptError, match=r"^[A-Z]"):
            check(receipt_with(changed))


@pytest.mark.parametrize("name", [*said(), "more", "rpId", "kty"])
def test_nothing_of_what_was_signed_may_change(name: str) -> None:
    """Each name of the statement, one more, and how it is to be checked."""
    vote = signed_vote()
    passkey = vote["passkey"]
    if name == "rpId":
        passkey[name] = "example.com"
    elif name == "kty":
        passkey["key"][name] = "OKP"
    else:
        passkey["statement"][name] = "7" * 32 if name != "revision" else 7
    with pytest.raises(receipts.ReceiptError):
        check(receipt_with(vote))


@pytest.mark.parametrize("name", receipts.SIGNED_NAMES)
@pytest.mark.parametrize("value", [None, 7, "", "=", [], {}])
def test_what_is_no_evidence_is_refused(name: str, value: Any) -> None:
    """With a sentence, whatever stands there."""
    vote = signed_vote()
    vote["passkey"][name] = value
    with pytest.raises(receipts.ReceiptError, match=r"^[A-Z].*\.$"):
        check(receipt_with(vote))
    del vote["passkey"][name]
    with pytest.raises(receipts.ReceiptError, match="is not whole"):
        check(receipt_with(vote))


def test_a_weak_key_is_refused() -> None:
    """RSA below 2048 bits."""
    key = Authenticator(key=rsa.generate_private_key(65537, 1024))
    with pytest.raises(receipts.ReceiptError, match="of a kind that this program does not know"):
        check(receipt_with(signed_vote(key)))


VECTORS = Path(__file__).parents[2] / "docs" / "receipt-vectors.json"


def test_the_published_examples_hold_and_fail_as_they_say() -> None:
    """Good ones of each kind of passkey, and bad ones, each with the reason."""
    found = json.loads(VECTORS.read_text("utf-8"))
    keys = receipts.read_public_keys(json.dumps(found["keys"]))

    def look(text: str) -> None:
        receipt = receipts.verify_receipt(text, keys)
        receipts.check_approval(
            receipt,
            tool=found["tool"],
            arguments=found["arguments"],
            passkeys=True,
            now=AT,
        )

    assert [each["name"] for each in found["signed"]] == [*MAKERS]
    for each in found["signed"]:
        look(each["receipt"])
    assert len(found["bad_signed"]) >= 20
    for each in found["bad_signed"]:
        with pytest.raises(receipts.ReceiptError, match=f"^{each['why']}"):
            look(each["receipt"])
