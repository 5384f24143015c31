"""Receipts: signed statements of what people decided about a call, and of how it ended.

A receipt is a DSSE envelope (github.com/secure-systems-lab/dsse) around an in-toto Statement v1,
signed with the installation's Ed25519 key. Checking one needs its public key and nothing else: no
network, no bot. The package `cryptography` does the arithmetic (`countersign-client[verify]`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from countersign.request import Handout

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
DECISION_KIND = "urn:countersign:decision:v1"
END_KIND = "urn:countersign:end:v1"
MAX_RECEIPT_BYTES = 1_000_000
EXACT = 2**53  # from here on not every integer has an exact float
_TIME_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class ReceiptError(ValueError):
    """Raised for a receipt that is not valid; the text is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt whose signature is valid."""

    kind: str  # DECISION_KIND or END_KIND
    key_id: str  # the installation's key that signed it
    subject: str  # SHA-256 of what may run, in hex digits
    content: Mapping[str, Any]  # the statement's predicate
    digest: str  # SHA-256 of the signed statement; the receipt of the end refers to it


# Public keys.


def build_public_jwk(raw: bytes) -> dict[str, str]:
    """Return an Ed25519 public key, given as its 32 bytes, as a JSON Web Key.

    Its id (`kid`) is its RFC 7638 thumbprint.
    """
    members = {"kty": "OKP", "crv": "Ed25519", "x": encode_base64url(raw)}
    key_id = encode_base64url(_compute_digest(members))
    return {**members, "kid": key_id, "use": "sig", "alg": "EdDSA"}


def read_public_keys(text: str) -> dict[str, Ed25519PublicKey]:
    """Return the Ed25519 public keys in a JSON Web Key Set or a single JSON Web Key, by their id.

    The id is computed from the key itself; a `kid` that says something else is an error. Raises
    ReceiptError for anything that is not such a key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key_set = parse_object(text, "the file of keys")
    listed = key_set["keys"] if isinstance(key_set.get("keys"), list) else [key_set]
    keys: dict[str, Ed25519PublicKey] = {}
    for each in listed:
        jwk = each if isinstance(each, dict) else {}
        raw = decode_base64url(jwk.get("x"))
        if (jwk.get("kty"), jwk.get("crv"), len(raw)) != ("OKP", "Ed25519", 32):
            raise ReceiptError("A key in the file is not an Ed25519 public key.")
        key_id = build_public_jwk(raw)["kid"]
        if jwk.get("kid", key_id) != key_id:
            raise ReceiptError("A key in the file has another key's id.")
        keys[key_id] = Ed25519PublicKey.from_public_bytes(raw)
    if not keys:
        raise ReceiptError("The file of keys has no key.")
    return keys


# The signature.


def encode_for_signing(payload: bytes) -> bytes:
    """Return the bytes that are signed: DSSE's pre-authentication encoding of a statement."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def verify_receipt(text: str, keys: Mapping[str, Ed25519PublicKey]) -> Receipt:
    """Check a receipt's form and signatures and return it; raises ReceiptError.

    `text`: the envelope as JSON. `keys`: see `read_public_keys`. Nothing in the receipt is trusted
    before its signature is checked, and nothing outside the signed part is accepted. Votes signed
    with a passkey are checked as well: each signature has to be for exactly this decision.
    """
    from cryptography.exceptions import InvalidSignature

    envelope = parse_object(text, "the receipt")
    if set(envelope) != {"payloadType", "payload", "signatures"}:
        raise ReceiptError("This is not a receipt of Countersign.")
    signatures = envelope["signatures"]
    one = signatures[0] if isinstance(signatures, list) and len(signatures) == 1 else None
    if not isinstance(one, dict) or set(one) != {"keyid", "sig"}:
        raise ReceiptError("The receipt does not have exactly one signature.")
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise ReceiptError("The receipt contains something other than a statement.")
    payload, signature = _decode_base64(envelope["payload"]), _decode_base64(one["sig"])
    key = keys.get(one["keyid"]) if isinstance(one["keyid"], str) else None
    if key is None:
        raise ReceiptError("The receipt is signed with a key that was not given.")
    try:
        key.verify(signature, encode_for_signing(payload))
    except InvalidSignature:
        raise ReceiptError("The signature does not match: the receipt was changed.") from None
    receipt = _read_statement(payload, one["keyid"])
    for vote in list_votes(receipt):
        if vote.get("evidence") == "passkey":
            check_vote_signature(receipt, vote)
    return receipt


def _read_statement(payload: bytes, key_id: str) -> Receipt:
    statement = parse_object(payload, "the statement")
    kind = statement.get("predicateType")
    if statement.get("_type") != STATEMENT_TYPE or kind not in (DECISION_KIND, END_KIND):
        raise ReceiptError("The receipt is of a kind that this program does not know.")
    match statement:
        case {"subject": [{"digest": {"sha256": str(subject)}}], "predicate": dict(content)}:
            digest = hashlib.sha256(payload).hexdigest()
            return Receipt(str(kind), key_id, subject, content, digest)
    raise ReceiptError("The receipt's statement is incomplete.")


# Votes that were signed with passkeys (WebAuthn).

SIGNED_VOTE_FIELDS = ("nonce", "expires", "authenticator", "signature", "key")
MIN_RSA_BITS = 2048  # for an RSA passkey
PRESENT_AND_VERIFIED = 0x05  # WebAuthn flags: user present, user verified
SIGNING_LINK_DURATION = timedelta(minutes=5)  # how long a signing link works
Json = dict[str, Any]


def list_votes(receipt: Receipt, verb: str = "") -> list[Json]:
    """Return the votes in the receipt of a decision: all, or only those with this verb."""
    votes = receipt.content.get("votes")
    found = [each for each in votes if isinstance(each, dict)] if isinstance(votes, list) else []
    return [each for each in found if not verb or each.get("verb") == verb]


def build_client_data(challenge: bytes, origin: object, act: str = "get") -> bytes:
    """Return the `clientDataJSON` of a signature, as most browsers write it."""
    said = {"type": f"webauthn.{act}", "challenge": encode_base64url(challenge), "origin": origin}
    return json.dumps(said | {"crossOrigin": False}, separators=(",", ":")).encode()


def check_vote_signature(receipt: Receipt, vote: Json) -> None:
    """Raise ReceiptError unless the passkey in this vote has signed exactly this decision."""
    signed = vote.get("passkey")
    if (
        not isinstance(signed, dict)
        or not signed.keys() >= {*SIGNED_VOTE_FIELDS}
        or ("origin" in signed) is ("clientDataJSON" in signed)
    ):
        raise ReceiptError("A vote's signature is incomplete.")
    expires, at = _parse_time(signed["expires"]), _parse_time(vote.get("at"))
    if expires is None or at is None or not timedelta(0) < expires - at <= SIGNING_LINK_DURATION:
        raise ReceiptError("A vote's passkey signed at another time.")
    about = {name: receipt.content.get(name) for name in ("workspace", "call", "revision", "gate")}
    statement = about | {  # what has to have been signed: this vote on this call
        "digest": receipt.subject,
        "verb": vote.get("verb"),
        "approver": vote.get("person"),
        "right": vote.get("for", ""),
        "nonce": signed["nonce"],
        "expires": signed["expires"],
    }
    challenge = _compute_digest(statement)
    if "origin" in signed:
        client_data = build_client_data(challenge, signed["origin"])
        site = get_host_of_origin(signed["origin"])
    else:
        client_data = decode_base64url(signed["clientDataJSON"])
        site = str(signed.get("rpId"))
    said = parse_object(client_data, "a vote's signature")
    is_at_site = f".{get_host_of_origin(said.get('origin'))}".endswith(f".{site}")
    if (
        (said.get("type"), said.get("challenge")) != ("webauthn.get", encode_base64url(challenge))
        or not (site and is_at_site)
        or said.get("crossOrigin") not in (None, False)
    ):
        raise ReceiptError("A vote's signature was made for something else, or at another address.")
    data = hashlib.sha256(site.encode()).digest() + decode_base64url(signed["authenticator"])
    if len(data) < 37 or data[32] & PRESENT_AND_VERIFIED != PRESENT_AND_VERIFIED:
        raise ReceiptError("A vote's authenticator did not verify its user.")
    whole = data + hashlib.sha256(client_data).digest()
    _verify_with_jwk(signed["key"], decode_base64url(signed["signature"]), whole)


def get_host_of_origin(origin: object) -> str:
    """Return the host of a web origin where passkeys may sign; "" if they may not."""
    found = re.fullmatch(r"(https?)://([a-z0-9.-]+)(:[0-9]{1,5})?", str(origin))
    if found is None:
        return ""
    local = found[2] == "localhost" or found[2].endswith(".localhost")
    return found[2] if found[1] == "https" or local else ""


def _verify_with_jwk(key: object, signature: bytes, signed: bytes) -> None:
    """Verify a passkey's signature: ES256, RS256 or Ed25519, as its key says."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

    jwk = key if isinstance(key, dict) else {}
    parts = {name: decode_base64url(jwk.get(name)) for name in ("x", "y", "n", "e")}
    x, y, n, e = (int.from_bytes(each, "big") for each in parts.values())
    try:
        match jwk.get("kty"), jwk.get("crv"):
            case "EC", "P-256":
                curve = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
                curve.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
            case "OKP", "Ed25519":
                edwards = ed25519.Ed25519PublicKey.from_public_bytes(parts["x"])
                edwards.verify(signature, signed)
            case "RSA", None if n.bit_length() >= MIN_RSA_BITS:
                modulus = rsa.RSAPublicNumbers(e, n).public_key()
                modulus.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
            case _:
                raise ReceiptError("A vote's passkey is of a kind that this program does not know.")
    except InvalidSignature:
        raise ReceiptError("A vote's signature does not match what was signed.") from None
    except ReceiptError:
        raise
    except ValueError:
        raise ReceiptError("A vote's passkey is not a public key.") from None


# Checks for a program to make before it runs the call.


def compute_subject_digest(tool: str, arguments: Mapping[str, Any], nonce: str) -> str:
    """Return the SHA-256 of a tool's name, its arguments and a nonce, in hexadecimal digits.

    It is computed from the RFC 8785 JSON of {"arguments", "nonce", "tool"}. Raises ReceiptError for
    a value that has no such form.
    """
    whole = {"arguments": arguments, "nonce": nonce, "tool": tool}
    return _compute_digest(whole).hex()


def check_approval(
    receipt: Receipt,
    *,
    tool: str = "",
    arguments: Mapping[str, Any] | None = None,
    approvers: int = 1,
    passkeys: bool = False,
    now: datetime,
) -> None:
    """Raise ReceiptError unless the receipt approves this call now.

    `tool`, `arguments`: what is about to run; "" and None: whatever was approved. `approvers`: how
    many different people have to have approved it at least; with `passkeys` only those count who
    have signed with one. `now`: aware; an approval is good until the time it names.
    """
    if receipt.content.get("decision") != "approved":
        raise ReceiptError("The receipt does not say that the call was approved.")
    check_subject(receipt, tool=tool, arguments=arguments)
    count = len(set(list_approvers(receipt, passkeys=passkeys)))
    if count < approvers:
        people = "1 person has" if count == 1 else f"{count} people have"
        how = " with a passkey" if passkeys else ""
        raise ReceiptError(f"{people} approved it{how}, but it takes {approvers}.")
    until = _parse_time(receipt.content.get("goodUntil"))
    if until is None or now > until:
        raise ReceiptError("The approval is too old.")


def check_subject(receipt: Receipt, *, tool: str, arguments: Mapping[str, Any] | None) -> None:
    """Raise ReceiptError unless the receipt is of a decision about this: see `check_approval`."""
    content = receipt.content
    if receipt.kind != DECISION_KIND:
        raise ReceiptError("The receipt does not say what was decided.")
    if tool and content.get("tool") != tool:
        raise ReceiptError(f"What was approved is {content.get('tool')}, not {tool}.")
    if arguments is None and not content.get("secrets"):
        arguments = content.get("arguments")
        if not isinstance(arguments, dict):
            raise ReceiptError("The receipt does not say what was approved.")
    if arguments is not None:
        named, nonce = (str(content.get(name)) for name in ("tool", "nonce"))
        if compute_subject_digest(named, arguments, nonce) != receipt.subject:
            raise ReceiptError("The arguments are not the ones that were approved.")


def get_decision_time(receipt: Receipt) -> datetime:
    """Return when the call was decided; raises ReceiptError if the receipt does not say so."""
    found = _parse_time(receipt.content.get("decidedAt"))
    if found is None:
        raise ReceiptError("The receipt does not say when it was decided.")
    return found


def list_approvers(receipt: Receipt, *, passkeys: bool = False) -> list[str]:
    """Return the ids of the people whose approval counts, in the order in which they gave it.

    If somebody decided for another person, that other person is listed. With `passkeys`, only those
    who have signed with one; `verify_receipt` has checked these signatures.
    """
    found = [
        each.get("for") or each.get("person")
        for each in list_votes(receipt, "approve")
        if not passkeys or each.get("evidence") == "passkey"
    ]
    return [each for each in found if isinstance(each, str)]


def check_end(receipt: Receipt, decision: Receipt) -> None:
    """Raise ReceiptError unless `receipt` says how the call of this decision ended."""
    named = receipt.content.get("decision")
    digest = named.get("sha256") if isinstance(named, dict) else None
    if receipt.kind != END_KIND or digest != decision.digest or receipt.subject != decision.subject:
        raise ReceiptError("The receipt of the outcome belongs to another decision.")


# Strict parsing and canonical writing of JSON.


def _compute_digest(value: Any) -> bytes:
    """Return the SHA-256 of a value's RFC 8785 JSON; ReceiptError if it has no such form."""
    try:
        return hashlib.sha256(encode_canonical_json(value).encode()).digest()
    except (UnicodeEncodeError, RecursionError):
        raise ReceiptError("A text is not Unicode, or a value is nested too deeply.") from None


def encode_canonical_json(value: Any) -> str:
    """Return RFC 8785 JSON; raises ReceiptError for a value that has no such form."""
    if isinstance(value, Mapping):
        ordered = sorted(value, key=lambda key: str(key).encode("utf-16-be", "surrogatepass"))
        members = (f"{json.dumps(key, ensure_ascii=False)}:" for key in ordered)
        pairs = zip(members, (encode_canonical_json(value[key]) for key in ordered), strict=True)
        return "{" + ",".join(name + each for name, each in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(encode_canonical_json, value)) + "]"
    if isinstance(value, float):
        return _format_float(value)
    is_large = isinstance(value, int) and abs(value) >= EXACT  # below 10**21 written like a float
    if is_large and (abs(value) >= 10**21 or _format_float(float(value)) != str(value)):
        raise ReceiptError("A number is too large to be exact.")
    return json.dumps(value, ensure_ascii=False)


def _format_float(value: float) -> str:
    """Return a number as ECMAScript writes it, which is what RFC 8785 asks for."""
    if not math.isfinite(value):
        raise ReceiptError("A number is not finite.")
    if value == 0:
        return "0"
    shortest = repr(value)  # the fewest digits that round-trip
    if 1e-6 <= abs(value) < 1e21:
        return f"{Decimal(shortest):f}".removesuffix(".0")
    return shortest.replace("e-0", "e-")


def parse_object(text: str | bytes, what: str) -> dict[str, Any]:
    """Return a JSON object; ReceiptError about `what` for anything else, and for a name twice."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(found)
        if len(made) != len(found):
            raise ReceiptError(f"In {what} a name is given twice.")
        return made

    def refuse(_: str) -> Any:
        raise ReceiptError(f"In {what} a number is not finite.")

    if len(text) > MAX_RECEIPT_BYTES:
        raise ReceiptError(f"{what[:1].upper()}{what[1:]} is too long.")
    try:
        whole = text if isinstance(text, str) else text.decode()
        value = json.loads(whole, object_pairs_hook=pairs, parse_constant=refuse)
    except ReceiptError:
        raise
    except (ValueError, RecursionError):
        raise ReceiptError(f"{what[:1].upper()}{what[1:]} is not JSON.") from None
    if not isinstance(value, dict):
        raise ReceiptError(f"{what[:1].upper()}{what[1:]} is not a JSON object.")
    return value


def _decode_base64(text: object) -> bytes:
    """Decode standard base64; raises ReceiptError unless it is written in the canonical way."""
    try:
        raw = base64.b64decode(str(text), validate=True)
    except ValueError:
        raw = b""
    if base64.b64encode(raw).decode() != text:
        raise ReceiptError("The receipt's base64 is not valid.")
    return raw


def encode_base64url(raw: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decode_base64url(text: object) -> bytes:
    """Decode base64url without padding; b"" for anything else, and for what is not canonical."""
    try:
        raw = base64.urlsafe_b64decode(f"{text}==")
    except ValueError:
        return b""
    return raw if encode_base64url(raw) == text else b""


def _parse_time(text: Any) -> datetime | None:
    """Return an RFC 3339 time; None for anything else."""
    try:
        return datetime.fromisoformat(text) if _TIME_PATTERN.fullmatch(str(text)) else None
    except ValueError:
        return None


def split_receipt_file(text: str) -> Sequence[tuple[str, str | None]]:
    """Return the decision and the end in each line of a receipt file, each as its JSON text.

    A line is what `countersign receipt` prints and the API returns: {"decision": …, "end": … or
    null}; a bare envelope of a decision is accepted as well. Raises ReceiptError.
    """
    try:
        whole = [parse_object(text, "the receipt")]
    except ReceiptError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        whole = [parse_object(line, f"line {number}") for number, line in enumerate(lines, 1)]
    pairs = [
        (each["decision"], each.get("end")) if "decision" in each else (each, None)
        for each in whole
    ]
    return [(json.dumps(one), None if end is None else json.dumps(end)) for one, end in pairs]


@dataclass(frozen=True, slots=True)
class ReceiptVerifier:
    """Checks the receipt of each call that a program claims, before the program runs the call."""

    keys: Mapping[str, Ed25519PublicKey]
    approvers: int
    passkeys: bool = False  # whether only approvals signed with a passkey count

    def check_claim(self, request_id: str, tool: str, handout: Handout) -> None:
        """Raise ReceiptError unless the receipt approves just this call, now."""
        receipt = verify_receipt(json.dumps(handout.receipt), self.keys)
        about = receipt.content.get("request"), receipt.content.get("revision")
        if about != (request_id, handout.revision):
            raise ReceiptError("It is the receipt of another call.")
        now = datetime.now(UTC)  # noqa: TID251  # a program that has no clock of ours
        check_approval(
            receipt,
            tool=tool,
            arguments=handout.arguments,
            approvers=self.approvers,
            passkeys=self.passkeys,
            now=now,
        )
