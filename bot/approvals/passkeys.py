"""Passkeys: added by their people, approved by others, listed, renamed and revoked.

Each time a passkey signs, it is checked again (`bot.approvals.signed_votes`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.approvals import signatures
from bot.approvals.direct_requests import begin_direct_request
from bot.approvals.permissions import PermissionChecker, reply_privately
from bot.approvals.signatures import PasskeyRefusedError
from bot.approvals.signed_votes import build_jwk, list_alarmed_people, revoke_passkey
from bot.cards import passkey_views
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import Click, DialogSubject, PasskeyTarget
from bot.config.connection_settings import PageAddress
from bot.policy.authority import Authority
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import ADD_PASSKEY, PasskeyTerms
from bot.tools.names import SlackIdResolver
from bot.tools.passkey_approval import NewPasskey, add_passkey
from storage import inbox, outbox, passkeys, trail
from storage.passkeys import Passkey, SigningLink
from storage.record import Delivery, Message, Store, Transaction
from storage.states import DeliveryKind, MessageKind, RunSource, SigningLinkKind

_CERTIFICATE_PATTERN = re.compile(
    "-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)


# What a browser's authenticator made: the check of a new passkey.


def verify_new_passkey(
    credential: Mapping[str, Any],
    link: SigningLink,
    address: PageAddress,
    terms: PasskeyTerms,
    at: datetime,
) -> Passkey:
    """Return the new passkey if it was made on our page for this link, else PasskeyRefusedError."""
    from webauthn import helpers, verify_registration_response

    roots = [each.encode() for each in _CERTIFICATE_PATTERN.findall(terms.roots)]
    try:
        parsed_credential = helpers.parse_registration_credential_json(dict(credential))
        client = helpers.parse_client_data_json(parsed_credential.response.client_data_json)
        if client.origin != address.origin or client.cross_origin:
            raise PasskeyRefusedError("address", passkey_views.WRONG_ORIGIN_REPLY)
        verified = verify_registration_response(
            credential=parsed_credential,
            expected_challenge=signatures.compute_challenge(link),
            expected_rp_id=address.rp_id,
            expected_origin=address.origin,
            pem_root_certs_bytes_by_fmt=dict.fromkeys(helpers.structs.AttestationFormat, roots),
        )
        public_key = helpers.bytes_to_base64url(verified.credential_public_key)
        build_jwk(public_key)  # fails if a receipt could not contain this key
        maker = helpers.parse_attestation_object(verified.attestation_object).att_stmt.x5c
    except PasskeyRefusedError:
        raise
    except Exception as error:  # what the library cannot read or believe is no passkey
        raise PasskeyRefusedError("attestation", passkey_views.INVALID_ATTESTATION_REPLY) from error
    if not verified.user_verified:
        raise PasskeyRefusedError("unverified", passkey_views.UNVERIFIED_PERSON_REPLY)
    attested = bool(roots and maker)  # else the model is only what the authenticator claims
    if not terms.allows_model(verified.aaguid, attested=attested):
        raise PasskeyRefusedError("model", passkey_views.WRONG_MODEL_REPLY)
    return Passkey(
        team=link.team,
        person=link.person,
        credential_id=helpers.bytes_to_base64url(verified.credential_id),
        public_key=public_key,
        sign_count=verified.sign_count,
        aaguid=verified.aaguid,
        attested=attested,
        rp_id=address.rp_id,
        name=credential["name"] or passkey_views.choose_passkey_name(verified.aaguid, at),
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
        """Return whether this person may decide anything signed; raises LookupFailedError."""
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
        why = self.links.describe_problem()
        refusal = passkey_views.not_set_up_reply(why) if why else ""
        if not self.may_enrol(delivery.user):
            refusal = passkey_views.NOT_A_SIGNER_REPLY
        with self.store.write() as tx:
            if refusal:
                reply_privately(tx, delivery, refusal)
            else:
                link = self.links.issue_enrolment_link(tx, delivery)
                signatures.queue_links(tx, delivery, passkey_views.ADD_PASSKEY_REPLY, [link])
            inbox.mark_delivery_done(tx, delivery, "no link" if refusal else "link sent")

    def handle_enrolment(self, delivery: Delivery) -> None:
        """Add a passkey made on the signing page; if the policy says so, have others approve it."""
        posted, at = json.loads(delivery.body), delivery.received_at
        try:
            link, row = self._check_enrolment(posted["link"], posted["credential"], at)
            shown, names = _build_new_passkey(row, self.authority)
            with self.store.write() as tx:
                if not passkeys.add_passkey(tx, row):
                    raise PasskeyRefusedError("known", passkey_views.ALREADY_ADDED_REPLY)
                passkeys.use_signing_link(tx, link, at)
                _queue_new_passkey_notice(tx, row, shown)
                answer = passkey_views.PASSKEY_ADDED_REPLY
                if row.counts_from is None:
                    _ask_others(tx, row, shown, names)
                    answer = passkey_views.PASSKEY_PENDING_REPLY
                reply_privately(tx, delivery, answer)
                inbox.mark_delivery_done(tx, delivery, "passkey added")
        except PasskeyRefusedError as refusal:
            with self.store.write() as tx:
                data = {"why": refusal.why}
                trail.record_event(tx, "passkey.refused", at=at, actor=delivery.user, data=data)
                reply_privately(tx, delivery, str(refusal))
                inbox.mark_delivery_done(tx, delivery, f"refused: {refusal.why}")

    def _check_enrolment(
        self, token_hash: str, credential: Mapping[str, Any], at: datetime
    ) -> tuple[SigningLink, Passkey]:
        """Return the link and the new passkey, not stored yet; raises PasskeyRefusedError.

        Looks people up.
        """
        address, why = self.links.address, self.links.describe_problem()
        with self.store.read() as tx:
            link = passkeys.find_signing_link(tx, token_hash)
            problem = signatures.describe_link_problem(tx, link, at) if link else ""
        if link is None or link.kind is not SigningLinkKind.ENROL or problem:
            raise PasskeyRefusedError("link", problem or passkey_views.USED_LINK_REPLY)
        if link.team != self.authority.team or not self.may_enrol(link.person):
            raise PasskeyRefusedError("not_a_signer", passkey_views.NOT_A_SIGNER_REPLY)
        if address is None or why:
            raise PasskeyRefusedError("not_set_up", passkey_views.not_set_up_reply(why))
        terms = self.policy.policy.passkeys
        return link, verify_new_passkey(credential, link, address, terms, at)

    def list_passkeys(self, person: str, now: datetime) -> tuple[tuple[Passkey, str], ...]:
        """Return this person's unrevoked passkeys, the oldest first, each with its state."""
        terms, host = self.policy.policy.passkeys, self.links.host
        with self.store.read() as tx:
            found = passkeys.list_passkeys(tx, self.authority.team, person=person)
            return tuple(
                (each, describe_passkey_state(tx, each, terms, now, host)) for each in found
            )

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
                passkeys.update_passkey(tx, row, "passkey.renamed", at, person, name=name)
            inbox.mark_delivery_done(tx, delivery, "renamed" if row else "no passkey to rename")

    def revoke_own_passkey(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """Revoke a passkey of the person who clicked; alert people if they say it is not theirs."""
        assert isinstance(asked.target, PasskeyTarget)
        is_alarm = isinstance(asked, Click) and asked.action is Action.DISOWN_PASSKEY
        terms, person, at = self.policy.policy.passkeys, delivery.user, delivery.received_at
        alarmed = list_alarmed_people(self.permissions, terms) if is_alarm else []
        with self.store.write() as tx:
            row = self.find_own_passkey(tx, asked.target.passkey, person)
            reply = passkey_views.ALREADY_REVOKED_REPLY
            if row is not None and is_alarm:
                signed = passkeys.count_signatures(tx, row.id)
                alarm = passkey_views.disowned_passkey_notice(person, row.name, signed)
                revoke_passkey(tx, row, person, at, "disowned", alarm, alarmed)
                reply = passkey_views.PASSKEY_DISOWNED_REPLY
            elif row is not None:
                revoke_passkey(tx, row, person, at)
                reply = passkey_views.PASSKEY_REVOKED_REPLY
            reply_privately(tx, delivery, reply)
            inbox.mark_delivery_done(tx, delivery, "revoked" if row else "no passkey to revoke")

    def revoke_for_operator(self, passkey: str, actor: str, at: datetime) -> Passkey | None:
        """Revoke and return a passkey, and alert people; None if none with that id is unrevoked."""
        terms, why = self.policy.policy.passkeys, "by the operator"
        alarmed = list_alarmed_people(self.permissions, terms)
        with self.store.write() as tx:
            for row in passkeys.list_passkeys(tx, self.authority.team, id=passkey):
                alarm = passkey_views.revoked_passkey_notice(row.person, row.name)
                revoke_passkey(tx, row, actor, at, why, alarm, alarmed)
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
    request_body = {"tool": ADD_PASSKEY, "arguments": shown.model_dump(mode="json"), "why": ""}
    delivery = Delivery(
        key=passkeys.build_request_key(row),
        kind=DeliveryKind.PROGRAM,
        team=row.team,
        user=row.person,
        body=json.dumps(request_body),
        received_at=row.created_at,
    )
    inbox.insert_delivery(tx, delivery)
    stored = inbox.find_delivery(tx, delivery.key)
    assert stored is not None
    effect = add_passkey.effect_sentence(shown, names)
    begin_direct_request(tx, stored, RunSource.FORM, effect, at=row.created_at)


def describe_passkey_state(
    tx: Transaction, row: Passkey, terms: PasskeyTerms, now: datetime, host: str
) -> str:
    """Return in words whether a passkey can be used to sign, or why not."""
    problem = signatures.find_passkey_problem(row, terms, now, host)
    if problem == "not_counted_yet" and not passkeys.is_waiting(tx, row):
        return "does not count: nobody approved it"
    return passkey_views.TEXT_BY_PASSKEY_PROBLEM[problem] if problem else "counts"
