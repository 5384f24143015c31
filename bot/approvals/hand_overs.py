"""Hand-overs: an approver passes a waiting decision to somebody else who may decide it now.

The others may still decide; reminders name only the assignee, until the next revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bot.approvals import card_routing
from bot.approvals.call_state import describe_call_effect
from bot.approvals.permissions import DeliverySettler, PermissionChecker, reply_privately
from bot.cards import delegation_dialog, sentences
from bot.cards.action_names import Action, DialogId, InputBlockId
from bot.cards.block_kit import get_chosen_person
from bot.cards.button_codec import CallTarget, Click, DialogSubject
from bot.policy.authority import Authority, Denial, Permission
from bot.policy.gates import Ask, load_gate
from bot.tools import Registry
from storage import calls, decisions, inbox, outbox, runs, schedule, trail
from storage.record import Call, Delivery, Run
from storage.states import CallVerb


@dataclass(frozen=True, slots=True)
class HandOverHandler:
    """Hands a waiting decision over to another person, or tells the approver why that cannot be."""

    replies: DeliverySettler
    tools: Registry
    authority: Authority
    permissions: PermissionChecker

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handler of the submitted dialog that hands a call over."""
        return {DialogId.HAND_OVER: self.hand_over}

    def judge_hand_over(
        self, target: CallTarget, by: str, state: dict[str, Any], at: datetime
    ) -> tuple[Call, Run, str] | str:
        """Return the call, its run and its new approver, or why `by` cannot hand the call over.

        Looks people up.

        `state`: the values of the submitted dialog.
        """
        to = get_chosen_person(state, InputBlockId.ASSIGNEE)
        with self.replies.store.read() as tx:
            check_result = decisions.check_revision_is_decidable(
                tx, target.call, target.revision, at
            )
            if not isinstance(check_result, decisions.DecidableCall):
                return self.permissions.too_late_sentence(check_result, by)
            call, run = check_result.call, runs.get_run(tx, check_result.call.run_id)
            votes = calls.list_votes_on_revision(tx, call.id, call.revision)
        if to in ("", by):
            return delegation_dialog.CHOOSE_SOMEBODY_ELSE_REPLY
        own = self.permissions.judge_action(CallVerb.APPROVE, call, run, by, at=at)
        if isinstance(own, Denial):
            return self.permissions.refusal_sentence(own, call, CallVerb.APPROVE)
        assignee_verdict = self.permissions.judge_action(CallVerb.APPROVE, call, run, to, at=at)
        if isinstance(assignee_verdict, Permission):
            voted = {who for each in votes for who in (each.person, each.counted_person)}
            if voted.isdisjoint({to, assignee_verdict.delegator}):
                return call, run, to
        if assignee_verdict is Denial.LOOKUP:
            return sentences.LOOKUP_FAILED_REPLY
        approvers_text = self.permissions.describe_approvers(call)
        return delegation_dialog.cannot_take_over_reply(to, approvers_text)

    def hand_over(
        self, delivery: Delivery, asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Hand a call over as a dialog asks, tell its new approver, and mark it as handled."""
        assert isinstance(asked.target, CallTarget)
        by, at = delivery.user, delivery.received_at
        judgement = self.judge_hand_over(asked.target, by, payload["view"]["state"]["values"], at)
        if isinstance(judgement, str):
            self.replies.refuse_click(delivery, judgement)
            return
        call, run, to = judgement
        gate, authority = load_gate(call.gate), self.authority
        assert isinstance(gate, Ask)
        place = card_routing.resolve_card_place_for_people(authority, run, gate, [to])
        place = replace(place, groups=card_routing.find_group_ids_of_gate(authority, gate))
        with self.replies.store.write() as tx:
            if not schedule.assign_call(tx, call, to, by):  # decided or edited in the meantime
                reply_privately(tx, delivery, sentences.OUTDATED_CARD_REPLY)
                inbox.mark_delivery_done(tx, delivery, "stale")
                return
            data = {"to": to, "tool": call.tool, "revision": call.revision}
            trail.record_event(tx, "call.assigned", at=at, actor=by, call=call, data=data)
            effect = describe_call_effect(self.tools, tx, call)
            text = delegation_dialog.hand_over_notice(by, to, effect, call.deadline)
            placed = card_routing.CallWithCardPlace(call, gate, place)
            key = f"assigned:{delivery.seq}"
            card_routing.queue_line_under_cards(tx, run, placed, key, text, [to])
            outbox.mark_cards_for_redraw(tx, call.plan_id)
            inbox.mark_delivery_done(tx, delivery, "handed over")
