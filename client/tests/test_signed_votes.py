"""Votes signed by passkeys: each signature is checked, and is for exactly one decision."""

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

from client.tests.test_receipts import AT, KEYS, VOTE, build_statement, sign_statement
from countersign import receipts
from tests.authenticator import PRESENT, VERIFIED, Authenticator, PrivateKey, encode

GATE = encode(hashlib.sha256(b"a gate").digest())
ABOUT = {"workspace": "T0SANDBOX", "call": "q8x", "revision": 2, "gate": GATE}
MAKERS: dict[str, Callable[[], PrivateKey]] = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
}


def build_jwk(key: PrivateKey) -> dict[str, str]:
    """The public key in the form of receipts."""
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


def build_vote_statement(**changed: Any) -> dict[str, Any]:
    """The statement that Ana signs."""
    [subject] = build_statement()["subject"]
    return {
        **ABOUT,
        "digest": subject["digest"]["sha256"],
        "verb": "approve",
        "approver": VOTE["person"],
        "right": "",
        "nonce": "5" * 32,
        "expires": (AT + timedelta(minutes=4)).isoformat(),
    } | changed


def sign_vote(
    key: Authenticator | None = None,
    what: dict[str, Any] | None = None,
    *,
    verbatim: bool = False,
    **vote: Any,
) -> dict[str, Any]:
    """Ana's vote with the signature of her passkey over `what`.

    `verbatim`: with the browser's own text, as for browsers that write it in another way.
    """
    key, what = key or Authenticator(), what or build_vote_statement()
    challenge = hashlib.sha256(receipts.encode_canonical_json(what).encode()).digest()
    response = key.sign(challenge)["response"]
    where = {"clientDataJSON": response["clientDataJSON"], "rpId": "approve.example.com"}
    passkey = {
        "nonce": what["nonce"],
        "expires": what["expires"],
        "authenticator": encode(decode(response["authenticatorData"])[32:]),
        **(where if verbatim else {"origin": key.origin}),
        "signature": response["signature"],
        "key": build_jwk(key.key),
        "model": "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
    }
    return {**VOTE, "evidence": "passkey", "passkey": passkey, **vote}


def build_receipt(*votes: dict[str, Any], **content: Any) -> str:
    """A receipt with these votes, signed by the installation."""
    return json.dumps(sign_statement(build_statement(**{**ABOUT, "votes": list(votes), **content})))


def check_with_passkeys(text: str, **demanded: Any) -> None:
    receipt = receipts.verify_receipt(text, KEYS)
    receipts.check_approval(receipt, passkeys=True, now=AT, **demanded)


@pytest.mark.parametrize("verbatim", [False, True])
@pytest.mark.parametrize("kind", MAKERS)
def test_a_vote_signed_by_a_passkey_is_accepted(kind: str, verbatim: bool) -> None:
    """Of each kind of passkey, whatever else the browser writes."""
    check_with_passkeys(
        build_receipt(sign_vote(Authenticator(key=MAKERS[kind]()), verbatim=verbatim))
    )


def test_only_signed_votes_count_if_passkeys_are_demanded() -> None:
    """One of two approvals is a click."""
    other = VOTE | {"person": "UCLEO0001", "evidence": "slack"}
    text = build_receipt(sign_vote(), other)
    check_with_passkeys(text)
    receipts.check_approval(receipts.verify_receipt(text, KEYS), approvers=2, now=AT)
    with pytest.raises(receipts.ReceiptError, match="1 person has approved it with a passkey"):
        check_with_passkeys(text, approvers=2)
    with pytest.raises(receipts.ReceiptError, match="0 people have approved it with a passkey"):
        check_with_passkeys(build_receipt(other))


def test_a_delegate_signs_with_their_own_passkey() -> None:
    """It counts for the person who delegated, who is named in the signed statement."""
    cleo = {"person": "UCLEO0001", "for": "UANA00001"}
    vote = sign_vote(what=build_vote_statement(approver="UCLEO0001", right="UANA00001"), **cleo)
    text = build_receipt(vote)
    check_with_passkeys(text)
    receipt = receipts.verify_receipt(text, KEYS)
    assert receipts.list_approvers(receipt, passkeys=True) == ["UANA00001"]


OTHER = {"verb": "break_glass", "approver": "UEVE00001", "right": "UBEN00001", "digest": "0" * 64}
OTHER |= {"workspace": "TEVIL", "call": "other", "gate": "0" * 64}


@pytest.mark.parametrize("name", [*OTHER, "revision"])
def test_every_field_of_the_signed_statement_is_compared(name: str) -> None:
    """A signature over another decision does not count for this one."""
    changed: dict[str, Any] = {name: OTHER.get(name, 3)}
    with pytest.raises(receipts.ReceiptError, match="does not match what was signed"):
        check_with_passkeys(build_receipt(sign_vote(what=build_vote_statement(**changed))))
    with pytest.raises(receipts.ReceiptError, match="made for something else"):
        check_with_passkeys(
            build_receipt(sign_vote(what=build_vote_statement(**changed), verbatim=True))
        )


BAD_TIMES = {
    "before": {"expires": (AT + timedelta(minutes=5, seconds=1)).isoformat()},
    "expired": {"expires": AT.isoformat()},
    "without a zone": {"expires": "2026-11-26T12:04:00"},
    "no time": {"expires": "soon"},
    "the first of all": {"expires": "0001-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("name", BAD_TIMES)
def test_a_vote_signed_at_another_time_is_refused(name: str) -> None:
    """After the link was made, before it expired."""
    with pytest.raises(receipts.ReceiptError, match="at another time"):
        check_with_passkeys(build_receipt(sign_vote(what=build_vote_statement(**BAD_TIMES[name]))))


def test_it_may_be_signed_at_the_moment_of_its_link() -> None:
    """Then the link is good for all of its five minutes."""
    check_with_passkeys(
        build_receipt(
            sign_vote(what=build_vote_statement(expires=(AT + timedelta(minutes=5)).isoformat()))
        )
    )
    with pytest.raises(receipts.ReceiptError, match="at another time"):
        check_with_passkeys(build_receipt(sign_vote(at=None)))


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
    """As browsers demand; any other origin has no host."""
    assert receipts.get_host_of_origin(origin) == host


def test_a_passkey_of_the_domain_signs_on_its_hosts() -> None:
    """As WebAuthn allows: the passkey is for example.com, the page on approve.example.com."""
    vote = sign_vote(Authenticator(rp_id="example.com"), verbatim=True)
    vote["passkey"]["rpId"] = "example.com"
    check_with_passkeys(build_receipt(vote))


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
def test_the_authenticators_flags_site_and_origin_are_checked(name: str) -> None:
    """Though the signature itself is right."""
    changed, why, verbatim = BAD_KEYS[name]
    with pytest.raises(receipts.ReceiptError, match=why):
        check_with_passkeys(build_receipt(sign_vote(Authenticator(**changed))))
    with pytest.raises(receipts.ReceiptError, match=verbatim):
        check_with_passkeys(build_receipt(sign_vote(Authenticator(**changed), verbatim=True)))


def flip_bit(text: str, at: int) -> str:
    """Base64url with one bit changed."""
    raw = bytearray(decode(text))
    raw[at % len(raw)] ^= 1 << (at % 8)
    return encode(bytes(raw))


def decode(text: str) -> bytes:
    import base64

    return base64.urlsafe_b64decode(text + "==")


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", ["authenticator", "clientDataJSON", "signature", "key"])
def test_no_bit_of_the_evidence_may_change(name: str, kind: str) -> None:
    """Even if the installation signed the receipt again."""
    vote = sign_vote(Authenticator(key=MAKERS[kind]()), verbatim=name == "clientDataJSON")
    passkey = vote["passkey"]
    whole = passkey["key"][{"ES256": "x", "EdDSA": "x", "RS256": "n"}[kind]]
    whole = whole if name == "key" else passkey[name]
    for at in range(0, len(decode(whole)), 1 if kind == "ES256" else 16):
        changed = deepcopy(vote)
        if name == "key":
            member = "n" if kind == "RS256" else "x"
            changed["passkey"]["key"][member] = flip_bit(whole, at)
        else:
            changed["passkey"][name] = flip_bit(whole, at)
        with pytest.raises(receipts.ReceiptError, match=r"^[A-Z]"):
            check_with_passkeys(build_receipt(changed))


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
def test_no_signed_field_of_a_vote_may_change(name: str) -> None:
    """Each signed field of the vote, and how it is to be checked."""
    vote = sign_vote(verbatim=name == "rpId")
    passkey = vote["passkey"]
    holder = vote if name in ("person", "for", "verb") else passkey
    holder = passkey["key"] if name == "kty" else holder
    holder[name] = CHANGED[name]
    with pytest.raises(receipts.ReceiptError, match=r"^A vote's"):
        check_with_passkeys(build_receipt(vote))


@pytest.mark.parametrize("name", [*receipts.SIGNED_VOTE_FIELDS, "origin", "clientDataJSON", "rpId"])
@pytest.mark.parametrize("value", [None, 7, "", "=", [], {}])
def test_missing_or_odd_evidence_is_refused(name: str, value: Any) -> None:
    """With a sentence, whatever is in its place."""
    vote = sign_vote(verbatim=name in ("clientDataJSON", "rpId"))
    vote["passkey"][name] = value
    with pytest.raises(receipts.ReceiptError, match=r"^[A-Z].*\.$"):
        check_with_passkeys(build_receipt(vote))
    del vote["passkey"][name]
    with pytest.raises(receipts.ReceiptError, match=r"is incomplete|or at another address"):
        check_with_passkeys(build_receipt(vote))


@pytest.mark.parametrize("value", [None, 7, "signed", [1]])
def test_signed_evidence_without_its_parts_is_refused(value: Any) -> None:
    """A vote that says it is signed has all that a signature takes."""
    with pytest.raises(receipts.ReceiptError, match="is incomplete"):
        check_with_passkeys(build_receipt(sign_vote(passkey=value)))


def test_evidence_in_both_forms_at_once_is_refused() -> None:
    """The browser's own text, or the origin from which it can be built."""
    vote = sign_vote()
    vote["passkey"] |= sign_vote(verbatim=True)["passkey"]
    with pytest.raises(receipts.ReceiptError, match="is incomplete"):
        check_with_passkeys(build_receipt(vote))


def test_a_weak_key_is_refused() -> None:
    """RSA with fewer than 2048 bits."""
    key = Authenticator(key=rsa.generate_private_key(65537, 1024))
    with pytest.raises(receipts.ReceiptError, match="of a kind that this program does not know"):
        check_with_passkeys(build_receipt(sign_vote(key)))


VECTORS = Path(__file__).parents[2] / "docs" / "receipt-vectors.json"


def test_published_signed_examples_pass_and_fail_as_stated() -> None:
    """Good ones of each kind of passkey, and bad ones with the reason."""
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
