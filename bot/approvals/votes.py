"""Votes: voters are looked up first, then votes are cast in one transaction. Runs on the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.agent.outputs import invalidated_output
from bot.approvals.call_state import (
    build_vote_counter,
    describe_call_effect,
    describe_tool_change,
    find_break_glass_vote,
)
from bot.approvals.grants import GrantManager, get_chosen_or_default_offer
from bot.approvals.permissions import (
    VERBS_THAT_RUN,
    PermissionChecker,
    is_reason_in_own_words,
    may_approve_alone,
    needs_reason,
    reason_required_reply,
    record_refused_action,
    reply_privately,
)
from bot.approvals.signatures import needs_signature
from bot.approvals.signed_votes import SignatureRequester, SignedDecision
from bot.cards import button_codec, decided_call, notices, passkey_views, review_dialog, sentences
from bot.cards.action_names import Action, DialogId
from bot.policy.authority import Denial, Permission
from bot.policy.gates import Ask, GrantOffer, load_gate
from storage import calls, decisions, endings, inbox, outbox, runs
from storage.record import Call, Delivery, Run, Transaction, Vote
from storage.states import CallStatus, CallVerb

OBJECT = CallVerb.OBJECT
_VERB_BY_BUTTON = {
    Action.APPROVE: CallVerb.APPROVE,
    Action.APPROVE_ALL: CallVerb.APPROVE,
    Action.REJECT_NOW: CallVerb.REJECT,
    Action.LOOKED_AT: CallVerb.LOOK,
}
_VOTE_DIALOGS = (DialogId.REVIEW, DialogId.REJECT, DialogId.BREAK_GLASS, DialogId.OBJECT)
_VOTE_ACTIONS: tuple[Action | DialogId, ...] = (*_VERB_BY_BUTTON, *_VOTE_DIALOGS)


@dataclass(frozen=True, slots=True)
class VoteRefusal:
    """Refusal of a vote; the sentence is for the voter."""

    call: Call
    verdict: Denial
    sentence: str


@dataclass(frozen=True, slots=True)
class VoteAdmission:
    """How a person may vote under a gate."""

    gate: Ask
    permission: Permission
    offer: GrantOffer | None  # terms on which the approval is saved as a grant; None if it is not
    needs_signature: bool


AdmissionResult = VoteAdmission | decisions.UndecidableOutcome | VoteRefusal


@dataclass(frozen=True, slots=True)
class VoteHandler:
    """Casts votes on calls. One per process; called on the loop only."""

    permissions: PermissionChecker  # says who may vote
    grants: GrantManager  # saves approvals
    signatures: SignatureRequester  # sends links for the signatures that a vote needs

    def get_action_handlers(self) -> Mapping[Action | DialogId, Any]:
        """Return the handler of each button and dialog by which people vote."""
        return dict.fromkeys(_VOTE_ACTIONS, self.handle_vote)

    def handle_vote(
        self,
        delivery: Delivery,
        asked: button_codec.Click | button_codec.DialogSubject,
        payload: dict[str, Any],
    ) -> None:
        """Cast the votes that a button or dialog asks for, and mark its delivery as handled."""
        if isinstance(asked, button_codec.Click):
            self._vote(delivery, asked.target, _VERB_BY_BUTTON[asked.action])
            return
        state = payload["view"]["state"]["values"]
        if asked.dialog is DialogId.REVIEW:
            note, chosen = review_dialog.parse_approval_submission(state)
            self._vote(delivery, asked.target, CallVerb.APPROVE, note, chosen)
        elif asked.dialog is not DialogId.REJECT:
            words = review_dialog.parse_entered_words(state)
            self._vote(delivery, asked.target, CallVerb(asked.dialog), words)
        elif isinstance(reason := review_dialog.parse_rejection_reason(state), str):
            self._vote(delivery, asked.target, CallVerb.REJECT, reason)
        else:
            with self.grants.store.write() as tx:
                inbox.mark_delivery_done(tx, delivery, "invalid reason")

    def _vote(
        self,
        delivery: Delivery,
        target: button_codec.Target,
        verb: CallVerb,
        reason: str = "",
        remember: int | None = None,
    ) -> None:
        """Vote on a call, or on every pending call of a card."""
        if isinstance(target, button_codec.CardTarget):
            self.vote_on_card(delivery, target, verb, reason)
        else:
            assert isinstance(target, button_codec.CallTarget)
            self.cast_votes(delivery, [target], verb, reason, remember=remember)

    def cast_votes(
        self,
        delivery: Delivery,
        targets: list[button_codec.CallTarget],
        verb: CallVerb,
        reason: str = "",
        *,
        remember: int | None = None,
        signed: SignedDecision | None = None,
    ) -> None:
        """Apply one person's vote to each of these calls, and mark their click as handled.

        The voter is told which votes do not count, the thread is told which do. People are looked
        up first; the votes, the messages about them and the settling are one transaction. If a vote
        needs a signature and `signed` is None, it is not cast: the voter gets a link to sign.
        """
        admitted = [
            (target, self._decide_admission(delivery, target, verb, reason, remember))
            for target in targets
        ]
        policy = self.grants.policy.policy
        readers = self.permissions.list_active_people(policy.readers) if verb is OBJECT else []
        with self.grants.store.write() as tx:
            applied_votes = self._apply_votes(
                tx, delivery, admitted, verb, reason, remember, signed
            )
            if applied_votes and verb is OBJECT:
                self._announce_objection(tx, delivery, applied_votes[0], reason, readers)

    def admit_editor_as_voter(
        self, delivery: Delivery, edited: Call, run: Run
    ) -> VoteAdmission | VoteRefusal:
        """Return how a call's editor may approve it as `edited`, or a refusal. Looks people up."""
        return self._judge_voter(delivery, edited, run, CallVerb.APPROVE, fresh_editor=True)

    def approve_edited_call(
        self,
        tx: Transaction,
        delivery: Delivery,
        edited: Call,
        found: VoteAdmission | VoteRefusal,
    ) -> None:
        """Approve a call for its editor in the edit's transaction, and mark the edit as handled."""
        target = button_codec.CallTarget(edited.id, edited.revision)
        self._apply_votes(tx, delivery, [(target, found)], CallVerb.APPROVE)

    def _apply_votes(
        self,
        tx: Transaction,
        delivery: Delivery,
        admitted: list[tuple[button_codec.CallTarget, AdmissionResult]],
        verb: CallVerb,
        reason: str = "",
        remember: int | None = None,
        signed: SignedDecision | None = None,
    ) -> list[Call]:
        """Cast votes, report them, mark the click as handled; return calls whose votes count."""
        applied_votes: list[tuple[Call, VoteAdmission]] = []
        unsigned: list[tuple[Call, str]] = []
        replies: list[str] = []
        for target, admission in admitted:
            if isinstance(admission, VoteRefusal):
                self._record_refusal(tx, delivery, target, verb, admission)
                replies.append(admission.sentence)
                continue
            outcome = self._apply_vote(tx, delivery, target, verb, reason, admission, signed)
            if isinstance(outcome, decisions.DecidableCall):
                assert isinstance(admission, VoteAdmission)
                unsigned.append((outcome.call, admission.permission.delegator))
            elif isinstance(outcome, decisions.AppliedDecision):
                assert isinstance(admission, VoteAdmission)
                applied_votes.append((outcome.call, admission))
            else:
                late = self.permissions.too_late_sentence(outcome, delivery.user)
                is_stale = signed and isinstance(outcome, decisions.StaleRevision)
                replies.append(passkey_views.CHANGED_SINCE_REPLY if is_stale else late)
                if not isinstance(outcome, decisions.MissingCall):  # this person's card is outdated
                    outbox.mark_cards_for_redraw(tx, outcome.call.plan_id)
        if unsigned and (
            why := self.signatures.request_signatures(tx, delivery, unsigned, verb, reason)
        ):
            replies.append(why)
        replies += [passkey_views.SIGNED_REPLY] if signed and applied_votes else []
        if applied_votes:
            run = runs.get_run(tx, applied_votes[0][0].run_id)
            if verb is CallVerb.REJECT:
                self._announce_rejection(tx, delivery, run, applied_votes, reason)
            self._announce_start_times(tx, delivery, run, [call for call, _ in applied_votes])
            is_saved = self._save_and_announce_grants(tx, delivery, run, applied_votes)
            if remember is not None and verb is CallVerb.APPROVE and not is_saved:
                replies.append(sentences.APPROVAL_NOT_SAVED_REPLY)
        reply_privately(tx, delivery, "\n".join(dict.fromkeys(replies)))
        inbox.mark_delivery_done(
            tx, delivery, f"{verb}: {len(applied_votes)} counted, {len(replies)} did not"
        )
        return [call for call, _ in applied_votes]

    def _record_refusal(
        self,
        tx: Transaction,
        delivery: Delivery,
        target: button_codec.CallTarget,
        verb: CallVerb,
        refusal: VoteRefusal,
    ) -> None:
        """Record that a vote is refused; invalidate a call that people would approve in vain."""
        record_refused_action(tx, delivery, refusal.call, verb, refusal.verdict)
        if refusal.verdict is Denial.TOOL_CHANGED:
            why = describe_tool_change(self.grants.tools, refusal.call)
            output, at = invalidated_output(why), delivery.received_at
            call, revision = target.call, target.revision
            endings.invalidate_pending_call(tx, call, revision, at=at, output=output, note=why)

    def vote_on_card(
        self, delivery: Delivery, card: button_codec.CardTarget, verb: CallVerb, reason: str = ""
    ) -> None:
        """Vote on every pending call of the clicked card, if the plan has not changed since."""
        with self.grants.store.read() as tx:
            waiting = decisions.list_pending_calls_on_card(tx, card.plan, card.revision, card.card)
        if verb is CallVerb.APPROVE:  # scheduled calls are approved already and wait to start
            waiting = [call for call in waiting if not calls.is_scheduled(call)]
        targets = [button_codec.CallTarget(call.id, call.revision) for call in waiting]
        if targets:
            self.cast_votes(delivery, targets, verb, reason)
            return
        with self.grants.store.write() as tx:
            outbox.mark_cards_for_redraw(tx, card.plan)
            reply_privately(tx, delivery, sentences.OUTDATED_CARD_REPLY)
            inbox.mark_delivery_done(tx, delivery, f"{verb} all: stale")

    def _decide_admission(
        self,
        delivery: Delivery,
        target: button_codec.CallTarget,
        verb: CallVerb,
        reason: str,
        remember: int | None,
    ) -> AdmissionResult:
        """Return how this person may vote, or what prevents it. Looks people up."""
        at = delivery.received_at
        with self.grants.store.read() as tx:
            check_result = decisions.check_vote_is_possible(
                tx, target.call, target.revision, verb, at
            )
            if not isinstance(check_result, decisions.DecidableCall):
                return check_result
            run = runs.get_run(tx, check_result.call.run_id)
            involved = calls.get_call_editors_and_votes(tx, check_result.call)
        return self._judge_voter(delivery, check_result.call, run, verb, reason, remember, involved)

    def _judge_voter(
        self,
        delivery: Delivery,
        call: Call,
        run: Run,
        verb: CallVerb,
        reason: str = "",
        remember: int | None = None,
        involved: calls.CallEditorsAndVotes | None = None,
        *,
        fresh_editor: bool = False,
    ) -> VoteAdmission | VoteRefusal:
        at, person = delivery.received_at, delivery.user
        verdict = self.permissions.judge_action(
            verb, call, run, person, at=at, involved=involved, fresh_editor=fresh_editor
        )
        gate, tools = load_gate(call.gate), self.grants.tools
        if isinstance(verdict, Permission) and verb in VERBS_THAT_RUN:
            verdict = verdict if tools.find_tool_as_shown(call) else Denial.TOOL_CHANGED
        if isinstance(verdict, Permission) and isinstance(gate, Ask):
            if needs_reason(call, verb) and not is_reason_in_own_words(verb, reason):
                return VoteRefusal(call, Denial.WORDS, reason_required_reply(verb))
            offer = (
                get_chosen_or_default_offer(gate, remember) if verb is CallVerb.APPROVE else None
            )
            if offer and not may_approve_alone(self.permissions.authority, run, gate, person):
                offer = None
            signs = needs_signature(gate, verb, (verdict.stage, *verdict.also))
            return VoteAdmission(gate, verdict, offer, signs)
        assert isinstance(verdict, Denial)
        return VoteRefusal(call, verdict, self.permissions.refusal_sentence(verdict, call, verb))

    def _save_and_announce_grants(
        self, tx: Transaction, delivery: Delivery, run: Run, done: list[tuple[Call, VoteAdmission]]
    ) -> bool:
        """Save the approvals to be remembered as grants, say so in the thread; return whether any.

        None is saved where the policy no longer has the rule that offered it.
        """
        lines: list[str] = []
        for call, found in done:
            if call.status is CallStatus.APPROVED and found.offer is not None:
                lines += self.grants.save_approval_as_grant(
                    tx, run, call, delivery.user, found.offer
                )
        if lines:
            outbox.queue_notice(tx, run, f"saved:{delivery.seq}", {"text": "\n".join(lines)})
        return bool(lines)

    def _announce_rejection(
        self,
        tx: Transaction,
        delivery: Delivery,
        run: Run,
        applied_votes: list[tuple[Call, VoteAdmission]],
        reason: str,
    ) -> None:
        """Say in the thread who rejected what and why; notify the requester if that decides it."""
        effects = [describe_call_effect(self.grants.tools, tx, call) for call, _ in applied_votes]
        over = all(call.status is CallStatus.REJECTED for call, _ in applied_votes)
        asker = run.requester if over and run.requester != delivery.user else ""
        delegators = {found.permission.delegator for _, found in applied_votes}
        # with several delegators, the cards say who voted for whom
        delegator = delegators.pop() if len(delegators) == 1 else ""
        text = notices.call_decision_line(
            CallVerb.REJECT, delivery.user, effects, reason, requester=asker, delegator=delegator
        )
        key, to = f"decided:{delivery.seq}", filter(None, [asker])
        outbox.queue_notice(tx, run, key, {"text": text}, notified=to)

    def _announce_start_times(
        self, tx: Transaction, delivery: Delivery, run: Run, decided: Sequence[Call]
    ) -> None:
        """Tell the requester when calls approved now start, if they start at a set time."""
        for call in filter(calls.is_scheduled, decided):
            effect = describe_call_effect(self.grants.tools, tx, call)
            asker = run.requester if run.requester != delivery.user else ""
            text = decided_call.approved_for_later_line(
                effect, call.starts_at, delivery.user, requester=asker
            )
            key, to = f"starts:{call.id}:{call.revision}", filter(None, [asker])
            outbox.queue_notice(tx, run, key, {"text": text}, notified=to)

    def _announce_objection(
        self, tx: Transaction, delivery: Delivery, call: Call, words: str, readers: Sequence[str]
    ) -> None:
        """Tell the people concerned that somebody objects to a call that ran without approval.

        Those are the requester, the person who ran it, and the policy's readers.
        """
        votes = calls.list_votes_on_revision(tx, call.id, call.revision)
        run, alone = runs.get_run(tx, call.run_id), find_break_glass_vote(votes)
        if alone is None:
            return
        effects, key = [describe_call_effect(self.grants.tools, tx, call)], delivery.seq
        people = dict.fromkeys((alone.person, run.requester))
        text = notices.objection_notice(effects, delivery.user, words, alone.person, people)
        outbox.queue_line_in_all_threads(
            tx, run, [call.plan_id], f"objection:{key}", text, notified=people
        )
        for reader in (each for each in readers if each not in {*people, delivery.user}):
            outbox.queue_text_line(tx, f"objection:{key}:{reader}", reader, "", text, run.id)

    def _apply_vote(
        self,
        tx: Transaction,
        delivery: Delivery,
        target: button_codec.CallTarget,
        verb: CallVerb,
        reason: str,
        admission: VoteAdmission | decisions.UndecidableOutcome,
        signed: SignedDecision | None,
    ) -> decisions.DecisionOutcome | decisions.DecidableCall:
        """Cast one permitted vote; if it has to be signed first, return a DecidableCall instead."""
        if not isinstance(admission, VoteAdmission):
            return admission
        at, right, passkey_id = delivery.received_at, admission.permission, ""
        if admission.needs_signature or signed:
            check_result = decisions.check_vote_is_possible(
                tx, target.call, target.revision, verb, at
            )
            if not isinstance(check_result, decisions.DecidableCall) or signed is None:
                return check_result
            if not signed.fits_call(
                tx, self.signatures.links.key, check_result.call, right.delegator
            ):
                return decisions.StaleRevision(check_result.call)
            passkey_id = signed.passkey.id
        start = admission.gate.run_at if verb is CallVerb.APPROVE else None
        vote = Vote(
            call_id=target.call,
            revision=target.revision,
            person=delivery.user,
            verb=verb,
            stage=right.stage,
            also=",".join(map(str, right.also)),
            reason=reason,
            for_person=right.delegator,
            created_at=at,
            passkey_id=passkey_id,
        )
        outcome = decisions.apply_vote(
            tx,
            vote,
            build_vote_counter(admission.gate),
            counts_as=right.why,
            surface=delivery.surface,
            starts_at=start.find_next(at) if start else None,
        )
        if signed and isinstance(outcome, decisions.AppliedDecision):
            signed.store_evidence(tx, outcome.call, at)
        return outcome
