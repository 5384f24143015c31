"""Decisions that have to be signed: links are sent for them, and signatures are checked.

The package `webauthn` is loaded only once it is needed. Runs on the loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from bot.approvals import signatures
from bot.approvals.call_state import describe_call_effect
from bot.approvals.call_views import build_call_view_for_approvers
from bot.approvals.dialog_access import DialogAccessChecker
from bot.approvals.permissions import PermissionChecker, record_refused_action, reply_privately
from bot.approvals.receipts import check_evidence
from bot.approvals.signatures import Decider, PasskeyRefusal, SigningLinks
from bot.cards import passkey_views
from bot.cards.action_names import Action
from bot.cards.button_codec import CallTarget
from bot.policy.authority import Denial, LookupFailedError
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import Approvers
from bot.tools import Registry
from countersign import receipts
from storage import calls, inbox, outbox, passkeys
from storage.digest import canonical_json
from storage.passkeys import Passkey, SigningLink, VoteSignature
from storage.record import Call, Delivery, Store, Transaction
from storage.states import CallVerb, Surface, UnknownCallResolution

if TYPE_CHECKING:
    from webauthn.helpers.structs import AuthenticationCredential

RUN_AGAIN = UnknownCallResolution.AGAIN


@dataclass(frozen=True, slots=True)
class SignedDecision:
    """A person's decision with a valid signature; whether it counts is decided later."""

    link: SigningLink
    passkey: Passkey
    evidence: VoteSignature
    sign_count: int

    def fits_call(self, tx: Transaction, key: bytes, call: Call, delegator: str) -> bool:
        """Return whether the call and the `delegator` are still what was signed.

        `delegator`: the person whose right is used; "" for the signer's own.
        """
        nonce = json.loads(self.link.statement)["nonce"]
        return (
            signatures.build_statement(tx, key, call, self.link, delegator, nonce)
            == self.link.statement
        )

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
        if signatures.list_signing_passkeys(tx, team, terms, at, self.links.host, person=person):
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
            buttons.append(self.links.issue_enrolment_link(tx, team, person, at))
        signatures.queue_links(tx, delivery, text, buttons)
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
        found = self._check_signature(posted["credential"], link, passkey, delivery.received_at)
        if isinstance(found, PasskeyRefusal):
            self._refuse(delivery, link, passkey, found)
            return
        link, verb = found.link, _read_verb(found.link)
        target = CallTarget(link.call_id, link.revision)
        if verb is RUN_AGAIN:
            self.run_again(delivery, target, RUN_AGAIN, signed=found)
        else:
            self.cast(delivery, [target], CallVerb(verb), link.reason, signed=found)

    def _check_signature(
        self,
        credential: Mapping[str, Any],
        link: SigningLink | None,
        passkey: Passkey | None,
        at: datetime,
    ) -> SignedDecision | PasskeyRefusal:
        """Return the decision if this passkey may sign for this link, and has; else why not."""
        terms = self.requester.policy.policy.passkeys
        if link is None:
            return PasskeyRefusal("link", passkey_views.USED_LINK_REPLY)
        if at >= link.expires_at:
            return PasskeyRefusal("expired", passkey_views.EXPIRED_LINK_REPLY)
        if link.used_at is not None:
            return PasskeyRefusal("used", passkey_views.USED_LINK_REPLY)
        if passkey is None or passkey.team != link.team:
            return PasskeyRefusal("unknown_passkey", passkey_views.UNKNOWN_PASSKEY_REPLY)
        if passkey.person != link.person:
            sentence = passkey_views.other_persons_link_reply(link.person)
            return PasskeyRefusal("other_person", sentence)
        host = self.requester.links.host
        if problem := signatures.find_passkey_problem(passkey, terms, at, host):
            return PasskeyRefusal(problem, passkey_views.unusable_passkey_reply(problem))
        return self._verify(credential, link, passkey, at)

    def _verify(
        self, credential: Mapping[str, Any], link: SigningLink, passkey: Passkey, at: datetime
    ) -> SignedDecision | PasskeyRefusal:
        """Return the decision if the passkey signed it on our page for this link, else why not."""
        from webauthn import helpers, verify_authentication_response

        address = self.requester.links.address
        if address is None:
            return PasskeyRefusal("address", passkey_views.WRONG_ORIGIN_REPLY)
        try:
            parsed_credential = helpers.parse_authentication_credential_json(dict(credential))
            if not _is_signed_at(parsed_credential, address.origin, passkey.rp_id):
                return PasskeyRefusal("address", passkey_views.WRONG_ORIGIN_REPLY)
            verified = verify_authentication_response(
                credential=parsed_credential,
                expected_challenge=signatures.compute_challenge(link),
                expected_rp_id=passkey.rp_id,
                expected_origin=address.origin,
                credential_public_key=helpers.base64url_to_bytes(passkey.public_key),
                credential_current_sign_count=0,  # checked below, to report a copied passkey
            )
            evidence = _build_evidence(credential["response"], link, passkey, at)
            if verified.user_verified:
                check_evidence(evidence)  # fails if its receipt could not prove the signature
        except Exception:  # noqa: BLE001 - what the library cannot read is no signature
            return PasskeyRefusal("signature", passkey_views.WRONG_SIGNATURE_REPLY)
        if not verified.user_verified:
            return PasskeyRefusal("unverified", passkey_views.UNVERIFIED_PERSON_REPLY)
        if passkey.sign_count and verified.new_sign_count <= passkey.sign_count:
            sentence = passkey_views.cloned_passkey_notice(passkey.person, passkey.name)
            return PasskeyRefusal("cloned", sentence, is_cloned=True)
        return SignedDecision(link, passkey, evidence, verified.new_sign_count)

    def _refuse(
        self,
        delivery: Delivery,
        link: SigningLink | None,
        passkey: Passkey | None,
        refusal: PasskeyRefusal,
    ) -> None:
        """Tell the person why their signature does not count, record it, and mark it handled."""
        alarm = self.requester.policy.policy.passkeys.alarm
        alarmed = list_alarmed_people(self.permissions, alarm) if refusal.is_cloned else []
        with self.store.write() as tx:
            call = calls.find_call(tx, link.call_id) if link else None
            if link is not None and call is not None:
                denial = Denial(f"signature:{refusal.why}")
                record_refused_action(tx, delivery, call, _read_verb(link), denial)
            if refusal.is_cloned and passkey is not None:
                at = delivery.received_at
                passkeys.revoke_passkey(tx, passkey, "system", at, why="its counter went back")
                queue_alarm(tx, passkey, refusal.sentence, alarmed, f"cloned:{passkey.id}")
            reply_privately(tx, delivery, refusal.sentence)
            inbox.mark_delivery_done(tx, delivery, f"refused: {refusal.why}")


def _read_verb(link: SigningLink) -> Decider:
    return RUN_AGAIN if link.verb == RUN_AGAIN else CallVerb(link.verb)


def _is_signed_at(said: AuthenticationCredential, origin: str, rp_id: str) -> bool:
    """Return whether the signature was made on our own page, with a passkey for its host."""
    from webauthn.helpers import parse_client_data_json

    client = parse_client_data_json(said.response.client_data_json)
    here = client.origin == origin and not client.cross_origin
    return here and said.response.authenticator_data[:32] == sha256(rp_id.encode()).digest()


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

    Raises ValueError for a key that is neither for ES256, nor RS256 with 2048 bits or more, nor
    Ed25519: receipts of what it signs would not hold.
    """
    from webauthn import helpers

    key: Any = helpers.decode_credential_public_key(helpers.base64url_to_bytes(public_key))
    encode = helpers.bytes_to_base64url
    match key.alg, getattr(key, "crv", None):
        case -7, 1:
            return {"crv": "P-256", "kty": "EC", "x": encode(key.x), "y": encode(key.y)}
        case -8, 6:
            return {"crv": "Ed25519", "kty": "OKP", "x": encode(key.x)}
        case -257, None if int.from_bytes(key.n, "big").bit_length() >= receipts.MIN_RSA_BITS:
            return {"e": encode(key.e), "kty": "RSA", "n": encode(key.n)}
    raise ValueError("the passkey's key is none of ES256, RS256 and Ed25519, or too short")


def list_alarmed_people(permissions: PermissionChecker, who: Approvers) -> list[str]:
    """Return the people whom the policy names to be alerted about a passkey.

    If Slack cannot be asked, only those named by user id: that must not keep a passkey from being
    revoked.
    """
    try:
        return permissions.list_active_people(who)
    except LookupFailedError:
        return list(who.users)


def queue_alarm(
    tx: Transaction, passkey: Passkey, text: str, people: Sequence[str], key: str
) -> None:
    """Queue this alarm as a direct message to the passkey's person and to each of `people`."""
    for each in dict.fromkeys((passkey.person, *people)):
        outbox.queue_text_line(tx, f"{key}:{each}", each, "", text)
