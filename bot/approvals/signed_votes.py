"""Decisions that have to be signed: links are sent for them, and signatures are checked.

The package `webauthn` is loaded only once it is needed. Runs on the loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from bot.approvals.call_state import describe_call_effect
from bot.approvals.call_views import build_call_view_for_approvers
from bot.approvals.dialog_access import DialogAccessChecker
from bot.approvals.permissions import PermissionChecker, record_refused_action, reply_privately
from bot.approvals.receipts import check_evidence
from bot.approvals.signatures import (
    Decider,
    PasskeyRefusedError,
    SigningLinks,
    build_statement,
    compute_challenge,
    find_passkey_problem,
    list_signing_passkeys,
    queue_links,
)
from bot.cards import passkey_views
from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget
from bot.config.connection_settings import PageAddress
from bot.policy.authority import LookupFailedError
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import PasskeyTerms
from bot.tools import Registry
from countersign.receipts import MIN_RSA_BITS
from storage import calls, endings, inbox, outbox, passkeys
from storage.digest import canonical_json
from storage.passkeys import Passkey, SigningLink, VoteSignature
from storage.record import Call, Delivery, Store, Transaction
from storage.states import CallVerb, Surface, UnknownCallResolution


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """A person's decision with a valid signature; whether it counts is decided later."""

    link: SigningLink
    passkey: Passkey
    evidence: VoteSignature
    sign_count: int

    def fits_call(self, tx: Transaction, key: bytes, call: Call, delegator: str) -> bool:
        """Return whether the call and the person whose right is used are still what was signed."""
        signed = self.link.statement
        nonce = json.loads(signed)["nonce"]
        return build_statement(tx, key, call, self.link, delegator, nonce) == signed

    def store_evidence(self, tx: Transaction, call: Call, at: datetime) -> None:
        """Store the signature of a vote, use up its link, and note the passkey's new counter."""
        passkeys.store_signature(tx, self.evidence, call.run_id)
        if not (
            passkeys.use_signing_link(tx, self.link, at)
            and passkeys.record_passkey_use(tx, self.passkey, self.sign_count, at)
        ):
            raise RuntimeError("a passkey was used inside the writer's own transaction")


# Asking for signatures.


@dataclass(frozen=True, slots=True)
class SignatureRequester:
    """Sends people the links by which they sign; one per process."""

    links: SigningLinks
    policy: CurrentPolicy
    tools: Registry
    access: DialogAccessChecker  # records that the page showed somebody all of a call

    def request_signatures(
        self,
        tx: Transaction,
        delivery: Delivery,
        calls_with_delegators: Sequence[tuple[Call, str]],
        verb: Decider,
        reason: str = "",
    ) -> str:
        """Send the person who clicked a link to sign their decision on each of these calls.

        A person without a passkey gets a link to add one. `calls_with_delegators`: calls that they
        may decide, each with the person whose right they use, "" for their own. Returns what
        prevents it; "" if nothing.
        """
        if delivery.surface is not Surface.SLACK:
            return passkey_views.SIGN_IN_SLACK_REPLY
        if why := self.links.describe_problem():
            return passkey_views.not_set_up_reply(why)
        at, person, team = delivery.received_at, delivery.user, delivery.team
        terms = self.policy.policy.passkeys
        text, buttons = passkey_views.SIGNING_LINK_REPLY, []
        if list_signing_passkeys(tx, team, terms, at, self.links.host, person=person):
            issue = self.links.issue_signing_link
            for call, delegator in calls_with_delegators:
                effect = describe_call_effect(self.tools, tx, call)
                buttons.append(issue(tx, delivery, call, delegator, verb, reason, effect))
                stored_call = calls.find_call_with_revision(tx, call.id)
                assert stored_call is not None
                whole = build_call_view_for_approvers(self.tools, tx, stored_call)
                more = bool(whole.masked_pieces)
                self.access.record_call_shown(tx, call, person, Action.OPEN_PAGE, more=more)
        elif any(
            passkeys.is_waiting(tx, each)
            for each in passkeys.list_passkeys(tx, team, person=person)
        ):
            return passkey_views.NOT_COUNTED_YET_REPLY
        else:
            text = passkey_views.ENROL_FIRST_REPLY
            buttons.append(self.links.issue_enrolment_link(tx, delivery))
        queue_links(tx, delivery, text, buttons)
        return ""


# Applying what was signed.


@dataclass(frozen=True, slots=True)
class SignatureHandler:
    """Checks signatures made on the signing page, and applies the decisions that were signed.

    One per process; called on the loop only.
    """

    store: Store
    permissions: PermissionChecker
    requester: SignatureRequester
    # these apply the decision as for a click, once the signature has been checked
    cast: Callable[..., None]
    run_again: Callable[..., None]

    def handle_signature(self, delivery: Delivery) -> None:
        """Check a signature, apply the decision that it is for, and mark it as handled."""
        posted = json.loads(delivery.body)
        with self.store.read() as tx:
            link = passkeys.find_signing_link(tx, posted["link"])
            passkey = passkeys.find_passkey_by_credential(tx, posted["credential"]["id"])
        try:
            signed = self._check_signature(
                posted["credential"], link, passkey, delivery.received_at
            )
        except PasskeyRefusedError as refusal:
            self._refuse(delivery, link, passkey, refusal)
            return
        link, target = signed.link, CallTarget(signed.link.call_id, signed.link.revision)
        verb = _read_verb(link)
        if isinstance(verb, UnknownCallResolution):
            self.run_again(delivery, target, verb, signed=signed)
        else:
            self.cast(delivery, [target], verb, link.reason, signed=signed)

    def _check_signature(
        self,
        credential: Mapping[str, Any],
        link: SigningLink | None,
        passkey: Passkey | None,
        at: datetime,
    ) -> SignedDecision:
        """Return what this passkey may sign by this link, and has; raises PasskeyRefusedError."""
        terms, links = self.requester.policy.policy.passkeys, self.requester.links
        if link is None:
            raise PasskeyRefusedError("link", passkey_views.USED_LINK_REPLY)
        if at >= link.expires_at:
            raise PasskeyRefusedError("expired", passkey_views.EXPIRED_LINK_REPLY)
        if link.used_at is not None:
            raise PasskeyRefusedError("used", passkey_views.USED_LINK_REPLY)
        if passkey is None or passkey.team != link.team:
            raise PasskeyRefusedError("unknown_passkey", passkey_views.UNKNOWN_PASSKEY_REPLY)
        if passkey.person != link.person:
            sentence = passkey_views.other_persons_link_reply(link.person)
            raise PasskeyRefusedError("other_person", sentence)
        if problem := find_passkey_problem(passkey, terms, at, links.host):
            raise PasskeyRefusedError(problem, passkey_views.unusable_passkey_reply(problem))
        assert links.address is not None  # the passkey is for its host
        return _verify_signature(credential, link, passkey, links.address, at)

    def _refuse(
        self,
        delivery: Delivery,
        link: SigningLink | None,
        passkey: Passkey | None,
        refusal: PasskeyRefusedError,
    ) -> None:
        """Tell the person why their signature does not count, record it, and mark it handled."""
        terms, cloned = self.requester.policy.policy.passkeys, refusal.why == "cloned"
        alarmed = list_alarmed_people(self.permissions, terms) if cloned else []
        with self.store.write() as tx:
            if link and (call := calls.find_call(tx, link.call_id)):
                why = f"signature:{refusal.why}"
                record_refused_action(tx, delivery, call, _read_verb(link), why)
            if cloned and passkey is not None:
                at, why = delivery.received_at, "its counter went back"
                revoke_passkey(tx, passkey, "system", at, why, str(refusal), alarmed)
            reply_privately(tx, delivery, str(refusal))
            inbox.mark_delivery_done(tx, delivery, f"refused: {refusal.why}")


def _read_verb(link: SigningLink) -> Decider:
    again = UnknownCallResolution.AGAIN
    return again if link.verb == again else CallVerb(link.verb)


def _verify_signature(
    credential: Mapping[str, Any],
    link: SigningLink,
    passkey: Passkey,
    address: PageAddress,
    at: datetime,
) -> SignedDecision:
    """Return the decision if the passkey signed it on our page, else raise PasskeyRefusedError."""
    from webauthn import helpers, verify_authentication_response

    try:
        answer = helpers.parse_authentication_credential_json(dict(credential))
        client = helpers.parse_client_data_json(answer.response.client_data_json)
        for_host = answer.response.authenticator_data[:32]
        is_for_us = for_host == sha256(passkey.rp_id.encode()).digest()
        if client.origin != address.origin or client.cross_origin or not is_for_us:
            raise PasskeyRefusedError("address", passkey_views.WRONG_ORIGIN_REPLY)
        verified = verify_authentication_response(
            credential=answer,
            expected_challenge=compute_challenge(link),
            expected_rp_id=passkey.rp_id,
            expected_origin=address.origin,
            credential_public_key=helpers.base64url_to_bytes(passkey.public_key),
            credential_current_sign_count=0,  # checked below, to report a copied passkey
        )
        evidence = _build_evidence(credential["response"], link, passkey, at)
        if verified.user_verified:
            check_evidence(evidence)  # fails if its receipt could not prove the signature
    except PasskeyRefusedError:
        raise
    except Exception as error:  # what the library cannot read or believe is no signature
        raise PasskeyRefusedError("signature", passkey_views.WRONG_SIGNATURE_REPLY) from error
    if not verified.user_verified:
        raise PasskeyRefusedError("unverified", passkey_views.UNVERIFIED_PERSON_REPLY)
    if passkey.sign_count and verified.new_sign_count <= passkey.sign_count:
        alarm = passkey_views.cloned_passkey_notice(passkey.person, passkey.name)
        raise PasskeyRefusedError("cloned", alarm)
    return SignedDecision(link, passkey, evidence, verified.new_sign_count)


def _build_evidence(
    response: Mapping[str, str], link: SigningLink, passkey: Passkey, at: datetime
) -> VoteSignature:
    signed_statement = json.loads(link.statement)
    return VoteSignature(
        call_id=link.call_id,
        revision=signed_statement["revision"],
        person=link.person,
        verb=CallVerb(signed_statement["verb"]),
        passkey_id=passkey.id,
        statement=link.statement,
        authenticator_data=response["authenticatorData"],
        client_data=response["clientDataJSON"],
        signature=response["signature"],
        public_key=canonical_json(build_jwk(passkey.public_key)),
        aaguid=passkey.aaguid,
        rp_id=passkey.rp_id,
        created_at=at,
    )


def build_jwk(public_key: str) -> dict[str, str]:
    """Return a passkey's public key (COSE, base64url) as a JSON Web Key, for receipts.

    Raises ValueError for a key that receipts cannot prove anything with.
    """
    from webauthn import helpers

    key: Any = helpers.decode_credential_public_key(helpers.base64url_to_bytes(public_key))
    encode = helpers.bytes_to_base64url
    match key.alg, getattr(key, "crv", None):
        case -7, 1:
            return {"crv": "P-256", "kty": "EC", "x": encode(key.x), "y": encode(key.y)}
        case -8, 6:
            return {"crv": "Ed25519", "kty": "OKP", "x": encode(key.x)}
        case -257, None if int.from_bytes(key.n, "big").bit_length() >= MIN_RSA_BITS:
            return {"e": encode(key.e), "kty": "RSA", "n": encode(key.n)}
    raise ValueError("the passkey's key is none of ES256, RS256 and Ed25519, or too short")


# The end of a passkey.


def list_alarmed_people(permissions: PermissionChecker, terms: PasskeyTerms) -> list[str]:
    """Return the people whom the policy names to be alerted about a passkey."""
    try:
        return permissions.list_active_people(terms.alarm)
    except LookupFailedError:  # which must not keep a passkey from being revoked
        return list(terms.alarm.users)


def revoke_passkey(
    tx: Transaction,
    row: Passkey,
    by: str,
    at: datetime,
    why: str = "",
    alarm: str = "",
    alarmed: Iterable[str] = (),
) -> None:
    """Revoke a passkey, and cancel the request to approve it.

    `alarm`: sent to its person and to those `alarmed`; "" for nothing.
    """
    passkeys.revoke_passkey(tx, row, by, at, why=why)
    run = passkeys.find_request(tx, row)
    if run is not None and endings.cancel_run(tx, run, at=at, actor=by):
        text = passkey_views.passkey_withdrawn_line(row.name)
        outbox.queue_notice(tx, run, f"cancelled:{run.id}", {"text": text})
    for each in dict.fromkeys((row.person, *alarmed)) if alarm else ():
        outbox.queue_text_line(tx, f"revoked:{row.id}:{each}", each, "", alarm)
