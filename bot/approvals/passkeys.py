"""Passkeys: added by their people, approved by others, listed, renamed and revoked.

Each time a passkey signs, it is checked again (`bot.approvals.signed_votes`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from bot.agent import outputs
from bot.approvals import signatures
from bot.approvals.direct_requests import begin_direct_request
from bot.approvals.permissions import PermissionChecker, reply_privately
from bot.approvals.signatures import PasskeyRefusal
from bot.approvals.signed_votes import build_jwk, list_alarmed_people, queue_alarm
from bot.cards import passkey_views
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import Click, DialogSubject, PasskeyTarget
from bot.config.connection_settings import PageAddress
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import ADD_PASSKEY, PasskeyTerms
from bot.tools.names import SlackIdResolver
from bot.tools.passkey_approval import NewPasskey, add_passkey
from storage import endings, inbox, outbox, passkeys, trail
from storage.passkeys import Passkey, SigningLink
from storage.record import Delivery, Message, Run, Store, Transaction
from storage.states import DeliveryKind, MessageKind, RunSource, SigningLinkKind

RELYING_PARTY_NAME = "Countersign"  # what the browser's dialog calls the site that asks
CEREMONY_TIMEOUT_MILLISECONDS = 300_000  # how long the browser waits for the authenticator
_CERTIFICATE_PATTERN = re.compile(
    "-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


# The page: the passkey a browser is asked to make, and the check of what it made.


def build_creation_options(
    tx: Transaction, link: SigningLink, name: str, address: PageAddress, terms: PasskeyTerms
) -> str:
    """Return the WebAuthn options with which a browser makes a passkey for this link.

    They are JSON for `PublicKeyCredential.parseCreationOptionsFromJSON`. `name`: the person's name,
    which the browser shows.
    """
    import webauthn
    from webauthn.helpers import structs

    attestation = structs.AttestationConveyancePreference
    options = webauthn.generate_registration_options(
        rp_id=address.rp_id,
        rp_name=RELYING_PARTY_NAME,
        user_id=sha256(f"{link.team}:{link.person}".encode()).digest(),
        user_name=name or link.person,
        challenge=signatures.compute_challenge(link),
        timeout=CEREMONY_TIMEOUT_MILLISECONDS,
        attestation=attestation.DIRECT if terms.models else attestation.NONE,
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.PREFERRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[
            structs.PublicKeyCredentialDescriptor(
                id=webauthn.base64url_to_bytes(each.credential_id)
            )
            for each in passkeys.list_passkeys(tx, link.team, person=link.person)
            # excluded are only passkeys that count or wait for approval; others can be added again
            if not signatures.find_passkey_problem(each, terms, link.issued_at, address.rp_id)
            or passkeys.is_waiting(tx, each)
        ],
    )
    return webauthn.options_to_json(options)


def verify_new_passkey(
    credential: Mapping[str, Any],
    link: SigningLink,
    address: PageAddress,
    terms: PasskeyTerms,
    at: datetime,
) -> Passkey | PasskeyRefusal:
    """Return the new passkey if it was made on our page for this link, or why it is refused."""
    from webauthn import helpers, verify_registration_response
    from webauthn.helpers.structs import AttestationFormat

    roots = [each.encode() for each in _CERTIFICATE_PATTERN.findall(terms.roots)]
    try:
        parsed_credential = helpers.parse_registration_credential_json(dict(credential))
        client = helpers.parse_client_data_json(parsed_credential.response.client_data_json)
        if client.origin != address.origin or client.cross_origin:
            return PasskeyRefusal("address", passkey_views.WRONG_ORIGIN_REPLY)
        verified = verify_registration_response(
            credential=parsed_credential,
            expected_challenge=signatures.compute_challenge(link),
            expected_rp_id=address.rp_id,
            expected_origin=address.origin,
            pem_root_certs_bytes_by_fmt=dict.fromkeys(AttestationFormat, roots),
        )
        statement = helpers.parse_attestation_object(verified.attestation_object).att_stmt
        public_key = helpers.bytes_to_base64url(verified.credential_public_key)
        build_jwk(public_key)  # fails if a receipt could not contain this key
    except Exception:  # noqa: BLE001 - what the library cannot read or believe is no passkey
        return PasskeyRefusal("attestation", passkey_views.INVALID_ATTESTATION_REPLY)
    if not verified.user_verified:
        return PasskeyRefusal("unverified", passkey_views.UNVERIFIED_PERSON_REPLY)
    attested = bool(roots and statement.x5c)  # else the model is only what the authenticator claims
    if not terms.allows_model(verified.aaguid, attested=attested):
        return PasskeyRefusal("model", passkey_views.WRONG_MODEL_REPLY)
    name = credential["name"] or passkey_views.choose_passkey_name(verified.aaguid, at)
    return Passkey(
        team=link.team,
        person=link.person,
        credential_id=helpers.bytes_to_base64url(verified.credential_id),
        public_key=public_key,
        sign_count=verified.sign_count,
        aaguid=verified.aaguid,
        attested=attested,
        rp_id=address.rp_id,
        name=name,
        transports=",".join(credential["response"].get("transports", ())),
        backed_up=verified.credential_backed_up,
        created_at=at,
        counts_from=at if terms.enrol == "self" else None,
    )


# The people: a link to add a passkey, the passkey they made, and what happens to it later.


@dataclass(frozen=True, slots=True)
class PasskeyManager:
    """Adds, lists, renames and revokes passkeys in one workspace; holds no state of its own."""

    store: Store
    policy: CurrentPolicy
    authority: Authority
    permissions: PermissionChecker
    links: signatures.SigningLinks

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handlers of the passkey buttons and of the dialog to rename a passkey."""
        return {
            Action.ADD_PASSKEY: self.send_enrolment_link,
            Action.REVOKE_PASSKEY: self.revoke_own_passkey,
            Action.DISOWN_PASSKEY: self.revoke_own_passkey,
            DialogId.RENAME_PASSKEY: self.rename_passkey,
        }

    def may_enrol(self, person: str) -> bool:
        """Return whether this person may add a passkey.

        That needs the right to decide something that has to be signed. Raises LookupFailedError.
        """
        who = self.policy.policy.list_signers(alone=True)
        varies = who.channel or who.requester or bool(who.owners)
        if not (varies or who.names) or not self.authority.is_active_colleague(person):
            return False
        if varies:  # anybody could be the requester, an owner or in the channel of a call
            return True
        named = self.authority.list_named_people(who, requester="", channel="")
        return person in named or person in self.authority.list_delegates(named)

    def send_enrolment_link(
        self, delivery: Delivery, _asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """Send the person who clicked a link to add a passkey, and mark the click as handled."""
        person, at = delivery.user, delivery.received_at
        why = self.links.describe_problem()
        refusal = passkey_views.not_set_up_reply(why) if why else ""
        if not self.may_enrol(person):
            refusal = passkey_views.NOT_A_SIGNER_REPLY
        with self.store.write() as tx:
            if refusal:
                reply_privately(tx, delivery, refusal)
            else:
                link = self.links.issue_enrolment_link(tx, self.authority.team, person, at)
                signatures.queue_links(tx, delivery, passkey_views.ADD_PASSKEY_REPLY, [link])
            inbox.mark_delivery_done(tx, delivery, "no link" if refusal else "link sent")

    def handle_enrolment(self, delivery: Delivery) -> None:
        """Add a passkey made on the signing page, tell its person, and ask others to approve it.

        Others are asked only if the policy requires that.
        """
        posted, at = json.loads(delivery.body), delivery.received_at
        with self.store.read() as tx:
            link = passkeys.find_signing_link(tx, posted["link"])
        passkey_or_refusal = self._check_enrolment(link, posted["credential"], at)
        passkey_details = (
            _build_new_passkey(passkey_or_refusal, self.authority)
            if isinstance(passkey_or_refusal, Passkey)
            else None
        )
        with self.store.write() as tx:
            if (
                link
                and passkey_details
                and isinstance(passkey_or_refusal, Passkey)
                and passkeys.add_passkey(tx, passkey_or_refusal)
            ):
                passkeys.use_signing_link(tx, link, at)
                _queue_new_passkey_notice(tx, passkey_or_refusal, passkey_details[0])
                answer, note = passkey_views.PASSKEY_ADDED_REPLY, "passkey added"
                if passkey_or_refusal.counts_from is None:
                    _ask_others(tx, passkey_or_refusal, *passkey_details)
                    answer = passkey_views.PASSKEY_PENDING_REPLY
            else:
                already_known = PasskeyRefusal("known", passkey_views.ALREADY_ADDED_REPLY)
                refusal = (
                    already_known if isinstance(passkey_or_refusal, Passkey) else passkey_or_refusal
                )
                answer, data = refusal.sentence, {"why": refusal.why}
                note = f"refused: {refusal.why}"
                trail.record_event(tx, "passkey.refused", at=at, actor=delivery.user, data=data)
            reply_privately(tx, delivery, answer)
            inbox.mark_delivery_done(tx, delivery, note)

    def _check_enrolment(
        self, link: SigningLink | None, credential: Mapping[str, Any], at: datetime
    ) -> Passkey | PasskeyRefusal:
        """Return the new passkey, not stored yet, or why it is not added. Looks people up."""
        address, why = self.links.address, self.links.describe_problem()
        if link is None or link.kind is not SigningLinkKind.ENROL:
            return PasskeyRefusal("link", passkey_views.USED_LINK_REPLY)
        with self.store.read() as tx:
            problem = signatures.describe_link_problem(tx, link, at)
        if problem:
            return PasskeyRefusal("link", problem)
        if link.team != self.authority.team or not self.may_enrol(link.person):
            return PasskeyRefusal("not_a_signer", passkey_views.NOT_A_SIGNER_REPLY)
        if address is None or why:
            return PasskeyRefusal("not_set_up", passkey_views.not_set_up_reply(why))
        return verify_new_passkey(credential, link, address, self.policy.policy.passkeys, at)

    def list_passkeys(self, person: str, now: datetime) -> tuple[passkey_views.PasskeyView, ...]:
        """Return this person's passkeys that are not revoked, the oldest first."""
        terms, host = self.policy.policy.passkeys, self.links.host
        with self.store.read() as tx:
            found = passkeys.list_passkeys(tx, self.authority.team, person=person)
            return tuple(build_passkey_view(tx, each, terms, now, host) for each in found)

    def find_own_passkey(self, tx: Transaction, passkey: str, person: str) -> Passkey | None:
        """Return this person's passkey with that id, if it is not revoked."""
        own = passkeys.list_passkeys(tx, self.authority.team, id=passkey, person=person)
        return next(iter(own), None)

    def rename_passkey(
        self, delivery: Delivery, asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Give a passkey the name that its person entered, and mark the dialog as handled."""
        assert isinstance(asked.target, PasskeyTarget)
        name = passkey_views.parse_passkey_name(payload["view"]["state"]["values"])
        person, at = delivery.user, delivery.received_at
        with self.store.write() as tx:
            row = self.find_own_passkey(tx, asked.target.passkey, person)
            if row is None:
                reply_privately(tx, delivery, passkey_views.ALREADY_REVOKED_REPLY)
            elif name:
                changed = {"name": name}
                passkeys.update_passkey(
                    tx, row, "passkey.renamed", at=at, actor=person, changed=changed
                )
            inbox.mark_delivery_done(tx, delivery, "renamed" if row else "no passkey to rename")

    def revoke_own_passkey(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """Revoke a passkey of the person who clicked, and mark the click as handled.

        If they say that it is not theirs, the people whom the policy names for such alarms are
        told.
        """
        assert isinstance(asked.target, PasskeyTarget)
        is_alarm = isinstance(asked, Click) and asked.action is Action.DISOWN_PASSKEY
        who = self.policy.policy.passkeys.alarm
        alarmed = list_alarmed_people(self.permissions, who) if is_alarm else []
        person, at = delivery.user, delivery.received_at
        with self.store.write() as tx:
            row = self.find_own_passkey(tx, asked.target.passkey, person)
            if row is None:
                reply_privately(tx, delivery, passkey_views.ALREADY_REVOKED_REPLY)
            else:
                _revoke(tx, row, person, at, "disowned" if is_alarm else "")
                reply = (
                    passkey_views.PASSKEY_DISOWNED_REPLY
                    if is_alarm
                    else passkey_views.PASSKEY_REVOKED_REPLY
                )
                reply_privately(tx, delivery, reply)
            if row is not None and is_alarm:
                signed = passkeys.count_signatures(tx, row.id)
                text = passkey_views.disowned_passkey_notice(person, row.name, signed)
                queue_alarm(tx, row, text, alarmed, f"disowned:{row.id}")
            inbox.mark_delivery_done(tx, delivery, "revoked" if row else "no passkey to revoke")

    def revoke_for_operator(self, passkey: str, actor: str, at: datetime) -> Passkey | None:
        """Revoke a passkey for the operator; alert its person and those the policy names for that.

        Returns None if no passkey has that id, or it is revoked already. Looks people up.
        """
        alarmed = list_alarmed_people(self.permissions, self.policy.policy.passkeys.alarm)
        with self.store.write() as tx:
            for row in passkeys.list_passkeys(tx, self.authority.team, id=passkey):
                _revoke(tx, row, actor, at, "by the operator")
                text = passkey_views.revoked_passkey_notice(row.person, row.name)
                queue_alarm(tx, row, text, alarmed, f"revoked:{row.id}")
                return row
        return None


def _build_new_passkey(row: Passkey, authority: Authority) -> tuple[NewPasskey, Mapping[str, str]]:
    """Return what approvers of a new passkey are shown, and the names of people in it."""
    names = SlackIdResolver(authority.directory, row.person)
    model = passkey_views.describe_model(row.aaguid, attested=row.attested)
    said = {"person": row.person, "passkey": row.name, "model": model}
    said["fingerprint"] = row.fingerprint
    return NewPasskey.model_validate(said, context=names), names.names_by_id


def _queue_new_passkey_notice(tx: Transaction, row: Passkey, shown: NewPasskey) -> None:
    """Tell the person in a direct message that they have a new passkey, and how to revoke it."""
    text = passkey_views.new_passkey_notice(
        row.name, shown.model, row.created_at, shown.fingerprint, row.counts_from is not None
    )
    blocks = passkey_views.render_new_passkey_notice(text, row.id)
    body = outbox.dump_message_body({"text": text, "blocks": blocks})
    key = f"passkey-added:{row.id}"
    outbox.queue_message(
        tx, Message(key=key, kind=MessageKind.NOTICE, channel=row.person, body=body)
    )


def _ask_others(tx: Transaction, row: Passkey, shown: NewPasskey, names: Mapping[str, str]) -> None:
    """Begin the request in which others approve a new passkey, in its person's name."""
    at, person = row.created_at, row.person
    run = Run(
        team=row.team,
        channel=person,
        thread_ts="",
        requester=person,
        source=RunSource.FORM,
        created_at=at,
        updated_at=at,
    )
    request_body = {"tool": ADD_PASSKEY, "arguments": shown.model_dump(mode="json"), "why": ""}
    delivery = Delivery(
        key=passkeys.build_request_key(row),
        kind=DeliveryKind.PROGRAM,
        team=row.team,
        user=person,
        body=json.dumps(request_body),
        received_at=at,
    )
    inbox.insert_delivery(tx, delivery)
    stored = inbox.find_delivery(tx, delivery.key)
    assert stored is not None
    begin_direct_request(tx, run, stored, add_passkey.effect_sentence(shown, names))


def _revoke(tx: Transaction, row: Passkey, by: str, at: datetime, why: str) -> None:
    """Revoke a passkey, and cancel the request to approve it."""
    passkeys.revoke_passkey(tx, row, by, at, why=why)
    run = passkeys.find_request(tx, row)
    if run is not None and endings.cancel_run(tx, run, at=at, actor=by, words=outputs):
        text = passkey_views.passkey_withdrawn_line(row.name)
        outbox.queue_notice(tx, run, f"cancelled:{run.id}", {"text": text})


def build_passkey_view(
    tx: Transaction, row: Passkey, terms: PasskeyTerms, now: datetime, host: str
) -> passkey_views.PasskeyView:
    """Return a passkey for display, with whether it can be used to sign, or why not."""
    problem = signatures.find_passkey_problem(row, terms, now, host)
    state = passkey_views.TEXT_BY_PASSKEY_PROBLEM[problem] if problem else "counts"
    if problem == "not_counted_yet" and not passkeys.is_waiting(tx, row):
        state = "does not count: nobody approved it"
    return passkey_views.PasskeyView(
        id=row.id,
        name=row.name or "a passkey",  # the name is removed when its person's data is erased
        model=passkey_views.describe_model(row.aaguid, attested=row.attested),
        added_at=row.created_at,
        last_used_at=row.last_used_at,
        state=state,
    )
