"""Passkeys that people have: listed, renamed and revoked, by themselves and by the operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.agent import outputs
from bot.approvals.permissions import PermissionChecker, reply_privately
from bot.approvals.signed_votes import queue_alarm
from bot.cards import passkey_views
from bot.cards.action_names import Action, DialogId
from bot.cards.button_codec import Click, DialogSubject, PasskeyTarget
from bot.policy.authority import LookupFailedError
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import PasskeyTerms
from storage import endings, inbox, outbox, passkeys
from storage.passkeys import Passkey
from storage.record import Delivery, Store, Transaction


@dataclass(frozen=True, slots=True)
class PasskeyManager:
    """Lists, renames and revokes passkeys in one workspace; holds no state of its own."""

    store: Store
    policy: CurrentPolicy
    permissions: PermissionChecker

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handlers of the buttons on Home and in messages, and of the dialog."""
        return {
            Action.REVOKE_PASSKEY: self.revoke_own_passkey,
            Action.DISOWN_PASSKEY: self.revoke_own_passkey,
            DialogId.RENAME_PASSKEY: self.rename_passkey,
        }

    def list_passkeys(self, person: str, now: datetime) -> tuple[passkey_views.PasskeyView, ...]:
        """Return this person's passkeys that are not revoked, the oldest first."""
        terms = self.policy.policy.passkeys
        with self.store.read() as tx:
            found = passkeys.list_passkeys_of_person(tx, self.permissions.team, person)
            return tuple(build_passkey_view(tx, each, terms, now) for each in found)

    def find_own_passkey(self, tx: Transaction, passkey: str, person: str) -> Passkey | None:
        """Return this person's passkey with that id, if it is not revoked."""
        row = passkeys.find_passkey(tx, passkey)
        is_own = row is not None and (row.team, row.person) == (self.permissions.team, person)
        return row if row is not None and is_own and row.revoked_at is None else None

    def rename_passkey(
        self, delivery: Delivery, asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Give a passkey the name that its person entered, and settle the delivery."""
        assert isinstance(asked.target, PasskeyTarget)
        name = passkey_views.parse_passkey_name(payload["view"]["state"]["values"])
        person, at = delivery.user, delivery.received_at
        with self.store.write() as tx:
            row = self.find_own_passkey(tx, asked.target.passkey, person)
            if row is None:
                reply_privately(tx, delivery, passkey_views.ENDED_REPLY)
            elif name:
                changed = {"name": name}
                passkeys.update_passkey(
                    tx, row, "passkey.renamed", at=at, actor=person, changed=changed
                )
            inbox.mark_delivery_done(tx, delivery, "renamed" if row else "no passkey to rename")

    def revoke_own_passkey(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """Revoke a passkey of the person who clicked, and settle the delivery.

        If they say that it is not theirs, those whom the policy names for that are told.
        """
        assert isinstance(asked.target, PasskeyTarget)
        is_alarm = isinstance(asked, Click) and asked.action is Action.DISOWN_PASSKEY
        alarmed = self._list_alarmed_people() if is_alarm else []
        person, at = delivery.user, delivery.received_at
        with self.store.write() as tx:
            row = self.find_own_passkey(tx, asked.target.passkey, person)
            if row is None:
                reply_privately(tx, delivery, passkey_views.ENDED_REPLY)
            else:
                _revoke(tx, row, person, at, "disowned" if is_alarm else "")
                done = passkey_views.DISOWNED_REPLY if is_alarm else passkey_views.REVOKED_REPLY
                reply_privately(tx, delivery, done)
            if row is not None and is_alarm:
                signed = passkeys.count_signatures(tx, row.id)
                text = passkey_views.disowned_passkey_notice(person, row.name, signed)
                queue_alarm(tx, row, text, alarmed, f"disowned:{row.id}")
            inbox.mark_delivery_done(tx, delivery, "revoked" if row else "no passkey to revoke")

    def revoke_for_operator(self, passkey: str, actor: str, at: datetime) -> Passkey | None:
        """Revoke a passkey for the operator, and tell its person and whom the policy names.

        None if there is none with that id, or it is revoked already. Looks people up.
        """
        alarmed = self._list_alarmed_people()
        with self.store.write() as tx:
            row = passkeys.find_passkey(tx, passkey)
            is_ours = row is not None and row.team == self.permissions.team
            if row is None or not is_ours or not _revoke(tx, row, actor, at, "by the operator"):
                return None
            text = passkey_views.revoked_passkey_notice(row.person, row.name)
            queue_alarm(tx, row, text, alarmed, f"revoked:{row.id}")
        return row

    def _list_alarmed_people(self) -> list[str]:
        """Return whom the policy names to be told; whom it names by id if Slack cannot be asked.

        Nobody has to be found before a passkey is revoked.
        """
        who = self.policy.policy.passkeys.alarm
        try:
            return self.permissions.list_active_people(who)
        except LookupFailedError:
            return list(who.users)


def _revoke(tx: Transaction, row: Passkey, by: str, at: datetime, why: str) -> bool:
    """Revoke a passkey, and cancel the request to approve it; False if it was revoked before."""
    if not passkeys.revoke_passkey(tx, row, by, at, why=why):
        return False
    run = passkeys.find_request(tx, row)
    if run is not None and endings.cancel_run(tx, run, at=at, actor=by, words=outputs):
        text = passkey_views.passkey_withdrawn_line(row.name)
        outbox.queue_notice(tx, run, f"cancelled:{run.id}", {"text": text})
    return True


def build_passkey_view(
    tx: Transaction, row: Passkey, terms: PasskeyTerms, now: datetime
) -> passkey_views.PasskeyView:
    """Return a passkey as people see it, with whether it counts."""
    return passkey_views.PasskeyView(
        id=row.id,
        name=row.name or "a passkey",  # it was forgotten, with its person's words
        model=passkey_views.describe_model(row.aaguid, attested=row.attested),
        added_at=row.created_at,
        last_used_at=row.last_used_at,
        state=_describe_state(tx, row, terms, now),
    )


def _describe_state(tx: Transaction, row: Passkey, terms: PasskeyTerms, now: datetime) -> str:
    """Return whether a passkey counts, or why it does not, in words."""
    if row.counts_from is None:
        waits = passkeys.is_waiting(tx, row)
        return "waits for others to approve it" if waits else "does not count: nobody approved it"
    if not row.counts_at(now, terms.days):
        return "no longer counts: it is too old"
    if not terms.allows_model(row.aaguid, attested=row.attested):
        return "does not count: the policy asks for other models"
    return "counts"
