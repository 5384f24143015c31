"""Buttons by which people say what became of a call of unknown outcome, or have it run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.approvals.call_state import compute_next_revision_digest, find_break_glass_vote
from bot.approvals.permissions import (
    DeliverySettler,
    PermissionChecker,
    needs_reason,
    record_refused_action,
    reply_privately,
)
from bot.approvals.signatures import needs_signature
from bot.approvals.signed_votes import SignatureRequester, SignedDecision
from bot.cards import passkey_views, sentences
from bot.cards.action_names import Action, DialogId
from bot.cards.answers import RERUN_NEEDS_REASON_REPLY
from bot.cards.button_codec import CallTarget, Click, DialogSubject
from bot.policy.authority import Denial, Permission
from bot.policy.gates import Ask, load_gate
from storage import calls, decisions, inbox, runs
from storage.record import Call, Delivery, Run, Transaction, Vote
from storage.states import CallStatus, CallVerb, UnknownCallResolution

RESOLUTION_BY_ACTION = {
    Action.RESOLVE_DONE: UnknownCallResolution.DONE,
    Action.RESOLVE_NOT_DONE: UnknownCallResolution.NOT_DONE,
    Action.RUN_AGAIN: UnknownCallResolution.AGAIN,
}


@dataclass(frozen=True, slots=True)
class UnknownCallResolver:
    """Handles clicks about calls of unknown outcome. One per process; called on the loop only."""

    replies: DeliverySettler
    permissions: PermissionChecker  # says who may
    signatures: SignatureRequester  # sends links for the signature that running it again may need

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handler of each button about the outcome of a call."""
        return dict.fromkeys(RESOLUTION_BY_ACTION, self.handle_click)

    def handle_click(
        self, delivery: Delivery, asked: Click | DialogSubject, _payload: dict[str, Any]
    ) -> None:
        """Do what the clicked button is for, and mark the click as handled."""
        assert isinstance(asked, Click)
        assert isinstance(asked.target, CallTarget)
        self.resolve_unknown_call(delivery, asked.target, RESOLUTION_BY_ACTION[asked.action])

    def resolve_unknown_call(
        self,
        delivery: Delivery,
        target: CallTarget,
        resolution: UnknownCallResolution,
        signed: SignedDecision | None = None,
    ) -> None:
        """Record what a person says became of a call of unknown outcome, or have it run again.

        If that needs a signature and `signed` is None, the person gets a link to sign.
        """
        with self.replies.store.read() as tx:
            call = calls.find_call(tx, target.call)
            run = runs.get_run(tx, call.run_id) if call else None
            votes = calls.list_votes_on_revision(tx, target.call, target.revision)
        # a refused call has no gate
        if call is None or run is None or call.status is CallStatus.REFUSED:
            self.replies.refuse_click(delivery, sentences.OUTDATED_CARD_REPLY)
            return
        gate, alone = load_gate(call.gate), find_break_glass_vote(votes)
        # one click cannot stand for several votes
        takes_several = isinstance(gate, Ask) and (gate.required_approvers > 1 or bool(alone))
        if resolution is UnknownCallResolution.AGAIN and takes_several:
            self.replies.refuse_click(delivery, sentences.RERUN_NEEDS_ALL_APPROVERS_REPLY)
            return
        if resolution is UnknownCallResolution.AGAIN and needs_reason(call, CallVerb.APPROVE):
            self.replies.refuse_click(delivery, RERUN_NEEDS_REASON_REPLY)
            return
        if isinstance(gate, Ask):
            verdict = self.permissions.judge_action(
                CallVerb.RESOLVE, call, run, delivery.user, at=delivery.received_at
            )
        else:  # policy allowed it without approval, so its requester says what became of it
            is_own = delivery.user == run.requester
            verdict = Permission(why="requester") if is_own else Denial.NOT_APPROVER
        if resolution is UnknownCallResolution.AGAIN and isinstance(verdict, Permission):
            verdict = self.permissions.refuse_if_somebody_left(run) or verdict
        with self.replies.store.write() as tx:
            if isinstance(verdict, Denial):
                record_refused_action(tx, delivery, call, resolution, verdict)
                why = self.permissions.refusal_sentence(verdict, call, CallVerb.RESOLVE)
                reply_privately(tx, delivery, why)
            else:
                reply = self._resolve(tx, delivery, target, resolution, run, call, verdict, signed)
                reply_privately(tx, delivery, reply)
            inbox.mark_delivery_done(tx, delivery, f"resolve {resolution}")

    def _resolve(
        self,
        tx: Transaction,
        delivery: Delivery,
        target: CallTarget,
        resolution: UnknownCallResolution,
        run: Run,
        call: Call,
        verdict: Permission,
        signed: SignedDecision | None,
    ) -> str:
        """Store what became of a call of unknown outcome, or have it run again; return the reply.

        "" for no reply.
        """
        asking, delegator, key = self.signatures, verdict.delegator, self.signatures.links.key
        again = resolution is UnknownCallResolution.AGAIN
        if again and signed is None and needs_signature(load_gate(call.gate), resolution):
            now = calls.get_call(tx, call.id)
            if (now.status, now.revision) != (CallStatus.UNKNOWN, target.revision):
                return sentences.OUTDATED_CARD_REPLY
            return asking.request_signatures(tx, delivery, [(now, delegator)], resolution)
        if signed and not signed.fits_call(tx, key, call, delegator):
            return passkey_views.CHANGED_SINCE_REPLY
        outcome = decisions.resolve_unknown_call(
            tx,
            target.call,
            target.revision,
            delivery.user,
            resolution,
            at=delivery.received_at,
            counts_as=verdict.why,
            delegator=delegator,
            rerun=self._build_rerun_vote(tx, delivery, run, call, delegator, signed)
            if again
            else None,
        )
        # `too_late_sentence` would speak of the approval, but only the outcome was asked about
        if isinstance(outcome, decisions.EarlierDecision):
            return sentences.OUTDATED_CARD_REPLY
        if not isinstance(outcome, decisions.AppliedDecision):
            return self.permissions.too_late_sentence(outcome, delivery.user)
        if not signed:
            return ""
        signed.store_evidence(tx, call, delivery.received_at)
        return passkey_views.SIGNED_REPLY

    def _build_rerun_vote(
        self,
        tx: Transaction,
        delivery: Delivery,
        run: Run,
        call: Call,
        delegator: str,
        signed: SignedDecision | None,
    ) -> Vote:
        """Return the approval by which a call of unknown outcome runs again."""
        key, tools = self.signatures.links.key, self.signatures.tools
        return Vote(
            call_id=call.id,
            revision=call.revision + 1,
            person=delivery.user,
            verb=CallVerb.APPROVE,
            digest=compute_next_revision_digest(tx, key, run, call, tools),
            for_person=delegator,
            created_at=delivery.received_at,
            passkey_id=signed.passkey.id if signed else "",
        )
