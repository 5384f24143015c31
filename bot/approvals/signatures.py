"""Signatures with passkeys: what needs one, what is signed, and links to the signing page.

A link is for one person and one purpose, and works once. What an authenticator says comes back as
a delivery, which the loop decides like a click (`bot.approvals.signed_votes`).
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from hashlib import sha256
from importlib.util import find_spec
from typing import Any

from bot.approvals.call_state import compute_gate_digest, compute_receipt_subject
from bot.cards import passkey_views
from bot.config.connection_settings import PageAddress, parse_page_address
from bot.policy.gates import Ask, Gate, PasskeyTerms
from countersign import receipts
from storage import calls, decisions, inbox, outbox, passkeys, runs, states
from storage.digest import canonical_json
from storage.passkeys import Passkey, SigningLink
from storage.record import Call, Delivery, Transaction
from storage.states import CallVerb, SigningLinkKind, Surface, UnknownCallResolution

LIFETIME_BY_LINK_KIND = {
    SigningLinkKind.SIGN: receipts.SIGNING_LINK_DURATION,
    SigningLinkKind.ENROL: timedelta(minutes=30),
}
PATH_BY_LINK_KIND = {SigningLinkKind.SIGN: "sign", SigningLinkKind.ENROL: "passkeys"}
RELYING_PARTY_NAME = "Countersign"  # what the browser's dialog calls the site that asks
COSE_ALGORITHMS = (-8, -7, -257)  # Ed25519, ES256, RS256: those that receipts can contain
CEREMONY_TIMEOUT_MILLISECONDS = 300_000  # how long the browser waits for the authenticator
Decider = CallVerb | UnknownCallResolution  # what is signed: a vote, or that a call may run again
Json = dict[str, Any]


def needs_signature(gate: Gate, verb: Decider, stages: Iterable[int] = ()) -> bool:
    """Return whether this decision has to be signed; `stages`: where an approval may count."""
    if not isinstance(gate, Ask):
        return False
    if verb is CallVerb.APPROVE:
        return any(gate.stages[stage].signature for stage in stages if stage < len(gate.stages))
    return gate.wants_signature and verb in (CallVerb.BREAK_GLASS, UnknownCallResolution.AGAIN)


class PasskeyRefusedError(Exception):
    """Raised if a signature does not count, or no passkey is added; its text tells the person."""

    def __init__(self, why: str, sentence: str) -> None:
        super().__init__(sentence)
        self.why = why  # for the audit


# What is signed.


def build_statement(
    tx: Transaction, key: bytes, call: Call, link: SigningLink, delegator: str, nonce: str
) -> str:
    """Return the canonical JSON of what the link's person signs for the call as it is now.

    `delegator`: the person whose right they use; "" for their own.
    """
    run, current = runs.get_run(tx, call.run_id), calls.find_revision(tx, call.id, call.revision)
    assert current is not None
    again = link.verb == UnknownCallResolution.AGAIN  # approves the next revision, an equal one
    revision = call.revision + again
    _, subject = compute_receipt_subject(key, call, current, revision)
    statement_fields = {
        "workspace": run.team,
        "call": call.id,
        "revision": revision,
        "digest": subject,  # of what may run; the same as the subject of the receipt
        "gate": compute_gate_digest(call),
        "verb": CallVerb.APPROVE if again else link.verb,
        "approver": link.person,
        "right": delegator,
        "nonce": nonce,
        "expires": link.expires_at.isoformat().replace("+00:00", "Z"),
    }
    return canonical_json(statement_fields)


def compute_challenge(link: SigningLink) -> bytes:
    """Return what the authenticator is asked to sign: the SHA-256 of the link's statement."""
    return sha256(link.statement.encode()).digest()


# The links.


def hash_token(token: str) -> str:
    """Return the SHA-256 of a link's token, by which the link is found."""
    return sha256(token.encode()).hexdigest()


class SigningLinks:
    """Issues private links to the signing page; for any thread, one per process.

    A token is made with the installation's key, so that the record holds none.
    """

    def __init__(self, key: bytes, url: str | None) -> None:
        """`url`: where browsers reach this installation, as the setting says it."""
        self.key = key
        self.address: PageAddress | None = None
        self._problem = "COUNTERSIGN_URL is not set"
        try:
            self.address = parse_page_address(url) if url else None
        except ValueError as error:
            self._problem = f"COUNTERSIGN_URL: {error}"
        self._own = hmac.digest(bytes(key), b"countersign signing links", "sha256")

    @property
    def host(self) -> str:
        """The host name for which people sign here; "" if they cannot."""
        return self.address.rp_id if self.address else ""

    def describe_problem(self) -> str:
        """Return why nobody can sign with a passkey here, for the operator; "" if people can."""
        if self.address is None:
            return self._problem
        if find_spec("webauthn") is None:
            return "signatures need webauthn: pip install 'countersign-bot[passkeys]'"
        return ""

    def build_url(self, kind: SigningLinkKind, nonce: str) -> str:
        """Return the address of a link to the signing page; "" if the page has no address."""
        token = self._build_token(kind, nonce)
        return f"{self.address.url}/{PATH_BY_LINK_KIND[kind]}/{token}" if self.address else ""

    def _build_token(self, kind: SigningLinkKind, nonce: str) -> str:
        made = hmac.digest(self._own, f"{kind} {nonce}".encode(), "sha256")
        return receipts.encode_base64url(made)

    def find_link(self, tx: Transaction, token: str) -> SigningLink | None:
        """Return the link with this token; None if there is none."""
        return passkeys.find_signing_link(tx, hash_token(token))

    def issue_enrolment_link(self, tx: Transaction, delivery: Delivery) -> passkey_views.LinkButton:
        """Store a link by which the person who clicked may add a passkey, and return its button."""
        link, nonce = self._build_link(SigningLinkKind.ENROL, delivery)
        issued = link.issued_at.isoformat()
        said = {"enrol": link.person, "issued": issued, "nonce": nonce, "workspace": link.team}
        link.statement = canonical_json(said)
        passkeys.store_signing_link(tx, link)
        about = "Your device keeps it, and asks for your fingerprint, face or PIN."
        return passkey_views.LinkButton(link.kind, nonce, "Add a passkey", about)

    def issue_signing_link(
        self,
        tx: Transaction,
        delivery: Delivery,
        call: Call,
        delegator: str,
        verb: Decider,
        reason: str,
        effect: str,
    ) -> passkey_views.LinkButton:
        """Store a link by which the person who clicked may sign this, and return its button."""
        link, nonce = self._build_link(SigningLinkKind.SIGN, delivery)
        link.call_id, link.revision, link.verb, link.reason = call.id, call.revision, verb, reason
        link.statement = build_statement(tx, self.key, call, link, delegator, nonce)
        passkeys.store_signing_link(tx, link)
        return passkey_views.LinkButton(link.kind, nonce, "Open and sign", effect)

    def _build_link(self, kind: SigningLinkKind, delivery: Delivery) -> tuple[SigningLink, str]:
        """Return a new link for the person who clicked, and the nonce that its token is made of."""
        nonce, at = secrets.token_urlsafe(16), delivery.received_at
        link = SigningLink(
            hash=hash_token(self._build_token(kind, nonce)),
            kind=kind,
            team=delivery.team,
            person=delivery.user,
            issued_at=at,
            expires_at=at + LIFETIME_BY_LINK_KIND[kind],
        )
        return link, nonce


def queue_links(
    tx: Transaction, delivery: Delivery, text: str, buttons: Iterable[passkey_views.LinkButton]
) -> None:
    """Queue a private text to the person who clicked, with a button for each of the links."""
    links = [asdict(each) for each in buttons]
    outbox.queue_private_reply(
        tx, delivery, text, key=f"sign:{delivery.seq}", mrkdwn=True, links=links
    )


# What the signing page asks an authenticator, as the JSON of WebAuthn.


def build_creation_options(
    tx: Transaction, link: SigningLink, name: str, address: PageAddress, terms: PasskeyTerms
) -> Json:
    """Return what an authenticator is asked, to make a passkey for the person with this name."""
    own = passkeys.list_passkeys(tx, link.team, person=link.person)
    user_id = sha256(f"{link.team}:{link.person}".encode()).digest()
    name = name or link.person
    return {
        "rp": {"id": address.rp_id, "name": RELYING_PARTY_NAME},
        "user": {"id": receipts.encode_base64url(user_id), "name": name, "displayName": name},
        "challenge": receipts.encode_base64url(compute_challenge(link)),
        "pubKeyCredParams": [{"type": "public-key", "alg": each} for each in COSE_ALGORITHMS],
        "timeout": CEREMONY_TIMEOUT_MILLISECONDS,
        "attestation": "direct" if terms.models else "none",
        "authenticatorSelection": {"residentKey": "preferred", "userVerification": "required"},
        # only passkeys that count or wait for approval; others can be added again
        "excludeCredentials": _describe_credentials(
            each
            for each in own
            if not find_passkey_problem(each, terms, link.issued_at, address.rp_id)
            or passkeys.is_waiting(tx, each)
        ),
    }


def build_request_options(link: SigningLink, rp_id: str, usable: Iterable[Passkey]) -> Json:
    """Return what an authenticator is asked, to sign the link's statement with one of these."""
    return {
        "challenge": receipts.encode_base64url(compute_challenge(link)),
        "rpId": rp_id,
        "allowCredentials": _describe_credentials(usable),
        "userVerification": "required",
    }


def _describe_credentials(rows: Iterable[Passkey]) -> list[Json]:
    return [
        {
            "type": "public-key",
            "id": each.credential_id,
            "transports": list(filter(None, each.transports.split(","))),
        }
        for each in rows
    ]


# What the signing page posts, and what becomes of it.

_RESPONSE_FIELDS_BY_KIND = {
    SigningLinkKind.SIGN: ("clientDataJSON", "authenticatorData", "signature"),
    SigningLinkKind.ENROL: ("clientDataJSON", "attestationObject"),
}


def parse_credential(kind: SigningLinkKind, posted: Any) -> Json | None:
    """Return what an authenticator answered, from the JSON a browser posts; None if malformed.

    Only what is checked or needed is kept; for a new passkey, that includes the `name` it is given.
    """
    try:
        response = posted["response"]
        credential_fields = {name: posted[name] for name in ("id", "rawId", "type")}
        response_fields = {name: response[name] for name in _RESPONSE_FIELDS_BY_KIND[kind]}
    except (LookupError, TypeError):
        return None
    if not all(
        isinstance(each, str) and each
        for each in (*credential_fields.values(), *response_fields.values())
    ):
        return None
    if kind is SigningLinkKind.ENROL:
        credential_fields["name"] = " ".join(str(posted.get("name") or "").split())[:60]
        transports = response.get("transports")
        if isinstance(transports, list) and all(map(_is_word, transports)):
            response_fields["transports"] = transports[:8]
    return {**credential_fields, "response": response_fields}


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.replace("-", "").isalnum() and len(value) <= 20


def build_page_delivery(link: SigningLink, credential: Mapping[str, Any]) -> Delivery:
    """Return the delivery for what a person did on the signing page.

    A link has one delivery key, so only its first delivery is stored.
    """
    signs = link.kind is SigningLinkKind.SIGN
    said = {"link": link.hash, "call": link.call_id, "credential": dict(credential)}
    return Delivery(
        key=f"sign:{link.hash}",
        kind=states.DeliveryKind.SIGNATURE if signs else states.DeliveryKind.ENROLMENT,
        team=link.team,
        user=link.person,
        surface=Surface.PAGE,
        body=json.dumps(said, separators=(",", ":")),
    )


def describe_link_problem(tx: Transaction, link: SigningLink, at: datetime) -> str:
    """Return why this link cannot be used at that moment, for its person; "" if it can."""
    if link.used_at is not None:
        return passkey_views.USED_LINK_REPLY
    if at >= link.expires_at:
        return passkey_views.EXPIRED_LINK_REPLY
    if link.kind is SigningLinkKind.ENROL:
        return ""
    again = link.verb == UnknownCallResolution.AGAIN
    status = states.CallStatus.UNKNOWN if again else states.CallStatus.PENDING
    found = decisions.check_revision_is_decidable(tx, link.call_id, link.revision, at, status)
    if isinstance(found, decisions.DecidableCall):
        return ""
    is_over = isinstance(found, decisions.EarlierDecision)
    return passkey_views.ALREADY_DECIDED_REPLY if is_over else passkey_views.CHANGED_SINCE_REPLY


def find_outcome(tx: Transaction, link: SigningLink) -> str | None:
    """Return the reply to what this link's page posted: "" until decided, None for nothing."""
    found = inbox.find_delivery(tx, f"sign:{link.hash}")
    if found is None or found.status is states.DeliveryStatus.NEW:
        return None if found is None else ""
    return found.answer or passkey_views.PAGE_FAILED_REPLY


def find_passkey_problem(row: Passkey, terms: PasskeyTerms, at: datetime, host: str) -> str:
    """Return why a passkey cannot be used to sign at `host` at that moment; "" if it can.

    The reason is one of `bot.cards.passkey_views.TEXT_BY_PASSKEY_PROBLEM`.
    """
    if row.revoked_at is not None and row.revoked_at <= at:
        return "revoked"
    if row.counts_from is None or row.counts_from > at:
        return "not_counted_yet"
    if terms.days and at >= row.created_at + timedelta(days=terms.days):
        return "too_old"
    if row.rp_id != host:
        return "address"
    return "" if terms.allows_model(row.aaguid, attested=row.attested) else "model"


def list_signing_passkeys(
    tx: Transaction, team: str, terms: PasskeyTerms, at: datetime, host: str, **held: str
) -> list[Passkey]:
    """Return the passkeys with these columns that can be used to sign at `host` at that moment."""
    found = passkeys.list_passkeys(tx, team, **held)
    return [each for each in found if not find_passkey_problem(each, terms, at, host)]


def list_people_who_can_sign(
    tx: Transaction, team: str, terms: PasskeyTerms, at: datetime, host: str
) -> frozenset[str]:
    """Return everybody with a passkey usable at `host` at that moment, whether or not they left."""
    return frozenset(each.person for each in list_signing_passkeys(tx, team, terms, at, host))
