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

GATE = encode(hashlib.sha256(b"a gate").digest())
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
        "expires": (AT + timedelta(minutes=4)).isoformat(),
    } | changed


def signed_vote(
    key: Authenticator | None = None,
    what: dict[str, Any] | None = None,
    *,
    verbatim: bool = False,
    **vote: Any,
) -> dict[str, Any]:
    """Ana's vote with the signature of her passkey over `what`.

    `verbatim`: as a receipt has it of a browser that writes its part in another way.
    """
    key, what = key or Authenticator(), what or said()
    challenge = hashlib.sha256(receipts.encode_canonical_json(what).encode()).digest()
    response = key.sign(challenge)["response"]
    where = {"clientDataJSON": response["clientDataJSON"], "rpId": "approve.example.com"}
    passkey = {
        "nonce": what["nonce"],
        "expires": what["expires"],
        "authenticator": encode(base64_of(response["authenticatorData"])[32:]),
        **(where if verbatim else {"origin": key.origin}),
        "signature": response["signature"],
        "key": jwk_of(key.key),
        "model": "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
    }
    return {**VOTE, "evidence": "passkey", "passkey": passkey, **vote}


def receipt_with(*votes: dict[str, Any], **content: Any) -> str:
    """A receipt with these votes, signed by the installation."""
    return json.dumps(signed(statement(**{**ABOUT, "votes": list(votes), **content})))


def check(text: str, **demanded: Any) -> None:
    receipt = receipts.verify_receipt(text, KEYS)
    receipts.check_approval(receipt, passkeys=True, now=AT, **demanded)


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("kind", MAKERS)
def test_a_signed_vote_holds(kind: str, verbatim: bool) -> None:
    """Of each kind of passkey, and whatever the browser writes beside what is needed."""
    check(receipt_with(signed_vote(Authenticator(key=MAKERS[kind]()), verbatim=verbatim)))


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
    with pytest.raises(receipts.ReceiptError, match="does not match what was signed"):
        check(receipt_with(signed_vote(what=said(**changed))))
    with pytest.raises(receipts.ReceiptError, match="made for something else"):
        check(receipt_with(signed_vote(what=said(**changed), verbatim=True)))


BAD_TIMES = {
    "before": {"expires": (AT + timedelta(minutes=5, seconds=1)).isoformat()},
    "expired": {"expires": AT.isoformat()},
    "without a zone": {"expires": "2026-11-26T12:04:00"},
    "no time": {"expires": "soon"},
    "the first of all": {"expires": "0001-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("name", BAD_TIMES)
def test_it_was_signed_in_time(name: str) -> None:
    """After the link was made, and before it expired."""
    with pytest.raises(receipts.ReceiptError, match="at another time"):
        check(receipt_with(signed_vote(what=said(**BAD_TIMES[name]))))


def test_it_may_be_signed_at_the_moment_of_its_link() -> None:
    """Then the link is good for all of its five minutes."""
    check(receipt_with(signed_vote(what=said(expires=(AT + timedelta(minutes=5)).isoformat()))))
    with pytest.raises(receipts.ReceiptError, match="at another time"):
        check(receipt_with(signed_vote(at=None)))


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://approve.example.com", "approve.example.com"),
        ("https://approve.example.com:8443", "approve.example.com"),
        ("http://localhost:8080", "localhost"),
        ("http://shop.localhost", "shop.localhost"),
        ("http://approve.example.com", ""),
        ("http://evillocalhost", ""),
        ("https://approve.example.com/sign", ""),
        (None, ""),
    ],
)
def test_passkeys_sign_over_https_or_on_this_machine(origin: object, host: str) -> None:
    """As browsers let them; whatever else an origin says is no host."""
    assert receipts.get_host_of_origin(origin) == host


def test_a_passkey_of_the_domain_signs_on_its_hosts() -> None:
    """As WebAuthn allows: the passkey is for example.com, the page on approve.example.com."""
    vote = signed_vote(Authenticator(rp_id="example.com"), verbatim=True)
    vote["passkey"]["rpId"] = "example.com"
    check(receipt_with(vote))


FITS, ELSEWHERE = "does not match what was signed", "something else, or at another address"
CHECKED = "did not verify its user"
BAD_KEYS: dict[str, tuple[dict[str, Any], str, str]] = {
    "not verified": ({"flags": PRESENT}, CHECKED, CHECKED),
    "not present": ({"flags": VERIFIED}, CHECKED, CHECKED),
    "another site": ({"rp_id": "evil.example"}, FITS, FITS),
    "another origin": ({"origin": "https://evil.example"}, FITS, ELSEWHERE),
    "like it": ({"origin": "https://evilapprove.example.com"}, FITS, ELSEWHERE),
    "plain": ({"origin": "http://approve.example.com"}, ELSEWHERE, ELSEWHERE),
    "framed": ({"cross_origin": True}, FITS, ELSEWHERE),
    "enrolment": ({"kind": "webauthn.create"}, FITS, ELSEWHERE),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_what_the_authenticator_says_is_checked(name: str) -> None:
    """Though the signature itself is right."""
    changed, why, verbatim = BAD_KEYS[name]
    with pytest.raises(receipts.ReceiptError, match=why):
        check(receipt_with(signed_vote(Authenticator(**changed))))
    with pytest.raises(receipts.ReceiptError, match=verbatim):
        check(receipt_with(signed_vote(Authenticator(**changed), verbatim=True)))


def flipped(text: str, at: int) -> str:
    """Base64url with one bit changed."""
    raw = bytearray(base64_of(text))
    raw[at % len(raw)] ^= 1 << (at % 8)
    return encode(bytes(raw))


def base64_of(text: str) -> bytes:
    import base64

    return base64.urlsafe_b64decode(text + "==")


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ["authenticator", "clientDataJSON", "signature", "key"])
def test_no_bit_of_the_evidence_may_change(name: str, kind: str) -> None:
    """Also where the installation itself would sign the receipt again."""
    vote = signed_vote(Authenticator(key=MAKERS[kind]()), verbatim=name == "clientDataJSON")
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


CHANGED = {
    "person": "UEVE00001",
    "for": "UBEN00001",
    "verb": "break_glass",
    "nonce": "7" * 32,
    "expires": (AT + timedelta(minutes=3)).isoformat(),
    "origin": "https://example.com",
    "rpId": "example.com",
    "kty": "OKP",
}


@pytest.mark.parametrize("name", CHANGED)
def test_nothing_of_what_was_signed_may_change(name: str) -> None:
    """Each name of the vote that is signed, and how it is to be checked."""
    vote = signed_vote(verbatim=name == "rpId")
    passkey = vote["passkey"]
    holder = vote if name in ("person", "for", "verb") else passkey
    holder = passkey["key"] if name == "kty" else holder
    holder[name] = CHANGED[name]
    with pytest.raises(receipts.ReceiptError, match=r"^A vote's"):
        check(receipt_with(vote))


@pytest.mark.parametrize("name", [*receipts.SIGNED_VOTE_FIELDS, "origin", "clientDataJSON", "rpId"])
@pytest.mark.parametrize("value", [None, 7, "", "=", [], {}])
def test_what_is_no_evidence_is_refused(name: str, value: Any) -> None:
    """With a sentence, whatever stands there."""
    vote = signed_vote(verbatim=name in ("clientDataJSON", "rpId"))
    vote["passkey"][name] = value
    with pytest.raises(receipts.ReceiptError, match=r"^[A-Z].*\.$"):
        check(receipt_with(vote))
    del vote["passkey"][name]
    with pytest.raises(receipts.ReceiptError, match=r"is incomplete|or at another address"):
        check(receipt_with(vote))


@pytest.mark.parametrize("value", [None, 7, "signed", [1]])
def test_evidence_has_the_form_of_a_passkeys(value: Any) -> None:
    """A vote that is said to be signed has to have all that a signature takes."""
    with pytest.raises(receipts.ReceiptError, match="is incomplete"):
        check(receipt_with(signed_vote(passkey=value)))


def test_it_is_written_in_one_way_only() -> None:
    """A browser's own text, or what it is made of."""
    vote = signed_vote()
    vote["passkey"] |= signed_vote(verbatim=True)["passkey"]
    with pytest.raises(receipts.ReceiptError, match="is incomplete"):
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

    assert [each["name"] for each in found["signed"]] == [*MAKERS, "verbatim"]
    for each in found["signed"]:
        look(each["receipt"])
    assert len(found["bad_signed"]) >= 20
    for each in found["bad_signed"]:
        with pytest.raises(receipts.ReceiptError, match=f"^{each['why']}"):
            look(each["receipt"])
