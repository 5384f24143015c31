"""Approvals and rejections: voters are looked up first, then votes are cast in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bot.agent import outputs
from bot.approvals import call_state, grants
from bot.approvals.permissions import (
    PermissionChecker,
    has_own_words,
    needs_reason,
    record_refusal,
    reply_privately,
)
from bot.cards import notices, refusals
from bot.cards.button_codec import CallTarget, CardTarget
from bot.clock import Clock
from bot.policy.authority import Denial, Permission
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import Ask, GrantOffer, load_gate
from bot.tools import Registry
from storage import calls, decisions, inbox, outbox, runs
from storage.decisions import (
    AppliedDecision,
    DecidableCall,
    DecisionOutcome,
    MissingCall,
    UndecidableOutcome,
)
from storage.models import Call, Delivery, Run
from storage.states import CallStatus, CallVerb
from storage.store import Store
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class VoteRefusal:
    """Refusal of a vote; the sentence is for the voter."""

    call: Call
    verdict: Denial
    sentence: str


@dataclass(frozen=True, slots=True)
class VoteAdmission:
    """Permission to vote, with the stage of the gate where the vote counts."""

    gate: Ask
    stage: int
    why: str  # for the record
    giver: str = ""  # by whose right, where it is not their own
    offer: GrantOffer | None = None  # what is remembered of it
    also: tuple[int, ...] = ()  # further stages where it may count


AdmissionResult = VoteAdmission | UndecidableOutcome | VoteRefusal


class VoteHandler:
    """Casts votes on calls. One per process; called on the loop only."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        permissions: PermissionChecker,
        policy: CurrentPolicy,
    ) -> None:
        """Store the dependencies; `permissions` says who may vote, `tools` word what was decided.

        `policy` says which approvals may be saved.
        """
        self._store = store
        self._clock = clock
        self._tools = tools
        self._permissions = permissions
        self._policy = policy

    def cast_votes(
        self,
        delivery: Delivery,
        targets: list[CallTarget],
        verb: CallVerb,
        reason: str = "",
        *,
        remember: int | None = None,
    ) -> None:
        """Vote on calls, each by itself, and settle the delivery.

        The voter is told which votes do not count, the thread is told which do. People are looked
        up first; the votes, the messages about them and the settling are one transaction.
        """
        admitted = [
            (target, self._decide_admission(delivery, target, verb, reason, remember))
            for target in targets
        ]
        with self._store.write() as tx:
            self._apply_votes(tx, delivery, admitted, verb, reason, remember)

    def admit_editor(
        self, delivery: Delivery, edited: Call, run: Run
    ) -> VoteAdmission | VoteRefusal:
        """Return how an editor may approve the call as it will be once `edited` is stored.

        Looks people up.
        """
        return self._judge_voter(delivery, edited, run, CallVerb.APPROVE, fresh_editor=True)

    def approve_edited_call(
        self,
        tx: Transaction,
        delivery: Delivery,
        edited: Call,
        found: VoteAdmission | VoteRefusal,
        tell_edit: Callable[[], None],
    ) -> None:
        """Approve a call for the person who has edited it, in the transaction that stores the edit.

        Settles the delivery. `tell_edit` announces the edit in the thread, unless the approval
        starts the call: then the thread gets the result.
        """
        target = CallTarget(edited.id, edited.revision)
        self._apply_votes(tx, delivery, [(target, found)], CallVerb.APPROVE, tell_edit=tell_edit)

    def _apply_votes(
        self,
        tx: Transaction,
        delivery: Delivery,
        admitted: list[tuple[CallTarget, AdmissionResult]],
        verb: CallVerb,
        reason: str = "",
        remember: int | None = None,
        tell_edit: Callable[[], None] = lambda: None,
    ) -> None:
        """Cast the votes of people who may, report the results, and settle the delivery."""
        done: list[tuple[Call, VoteAdmission]] = []
        told: list[str] = []
        for target, found in admitted:
            if isinstance(found, VoteRefusal):
                record_refusal(tx, delivery, found.call, verb, found.verdict)
                told.append(found.sentence)
                continue
            outcome: DecisionOutcome | UndecidableOutcome = (
                _cast_vote(tx, delivery, target, verb, reason, found)
                if isinstance(found, VoteAdmission)
                else found
            )
            if isinstance(outcome, AppliedDecision) and isinstance(found, VoteAdmission):
                done.append((outcome.call, found))
                if remember is not None and found.offer is None:
                    told.append(refusals.approval_not_saved_reply())
                continue
            told.append(self._permissions.too_late_sentence(outcome, delivery.user))
            if not isinstance(outcome, MissingCall):  # its card was out of date when it was clicked
                outbox.mark_cards_for_redraw(tx, outcome.call.plan_id)
        starts = (
            bool(done) and verb is CallVerb.APPROVE and _is_plan_decided(tx, done[0][0].plan_id)
        )
        if not starts:
            tell_edit()
        tells = not starts or any(found.offer for _, found in done)
        if done and tells and (run := runs.find_run(tx, done[0][0].run_id)):
            said = "" if starts else self._decision_line(tx, delivery, run, done, verb, reason)
            self._save_grants_and_announce(tx, delivery, run, done, said)
        reply_privately(tx, delivery, "\n".join(dict.fromkeys(told)))
        inbox.mark_delivery_done(tx, delivery, f"{verb}: {len(done)} counted, {len(told)} did not")

    def vote_on_card(
        self, delivery: Delivery, card: CardTarget, verb: CallVerb, reason: str = ""
    ) -> None:
        """Vote on every pending call of the clicked card, if the plan has not changed since."""
        with self._store.read() as tx:
            waiting = decisions.list_pending_calls_on_card(tx, card.plan, card.revision, card.card)
        targets = [CallTarget(call.id, call.revision) for call in waiting]
        if targets:
            self.cast_votes(delivery, targets, verb, reason)
            return
        with self._store.write() as tx:
            outbox.mark_cards_for_redraw(tx, card.plan)
            reply_privately(tx, delivery, refusals.outdated_card_reply())
            inbox.mark_delivery_done(tx, delivery, f"{verb} all: stale")

    def _decide_admission(
        self,
        delivery: Delivery,
        target: CallTarget,
        verb: CallVerb,
        reason: str,
        remember: int | None,
    ) -> AdmissionResult:
        """Return how this person may vote, or what prevents it. Looks people up."""
        at = delivery.received_at
        with self._store.read() as tx:
            found = decisions.check_decidable(tx, target.call, target.revision, at)
            if not isinstance(found, DecidableCall):
                return found
            run = runs.find_run(tx, found.call.run_id)
            # who may reject does not depend on what others have said
            involved = (
                calls.get_call_participants(tx, found.call) if verb is CallVerb.APPROVE else None
            )
        if run is None:
            return MissingCall()
        return self._judge_voter(delivery, found.call, run, verb, reason, remember, involved)

    def _judge_voter(
        self,
        delivery: Delivery,
        call: Call,
        run: Run,
        verb: CallVerb,
        reason: str = "",
        remember: int | None = None,
        involved: calls.CallPeople | None = None,
        *,
        fresh_editor: bool = False,
    ) -> VoteAdmission | VoteRefusal:
        at, person = delivery.received_at, delivery.user
        verdict = self._permissions.judge_action(
            verb, call, run, person, at=at, involved=involved, fresh_editor=fresh_editor
        )
        gate = load_gate(call.gate)
        if isinstance(verdict, Permission) and isinstance(gate, Ask):
            if needs_reason(call, verb) and not has_own_words(verb, reason):
                return VoteRefusal(call, Denial("words"), refusals.reason_required_reply())
            offer = grants.find_grant_offer(gate, remember) if verb is CallVerb.APPROVE else None
            if offer and not self._permissions.may_save_approval(gate, run, person):
                offer = None
            who, also = verdict.giver, verdict.also
            return VoteAdmission(gate, verdict.stage, verdict.why, who, offer, also)
        assert isinstance(verdict, Denial)
        return VoteRefusal(call, verdict, self._permissions.refusal_sentence(verdict, call, verb))

    def _save_grants_and_announce(
        self,
        tx: Transaction,
        delivery: Delivery,
        run: Run,
        done: list[tuple[Call, VoteAdmission]],
        said: str,
    ) -> None:
        """Save the approvals to be remembered, and post them in the thread below the line `said`.

        `said` is "" for an approval that starts calls: the thread gets their results.
        """
        lines = [said] if said else []
        policy, now = self._policy, self._clock.now()
        for call, found in done:
            if call.status is CallStatus.APPROVED and found.offer is not None:
                person, offer = delivery.user, found.offer
                given = grants.save_approval(tx, policy, run, call, person, offer, now=now)
                if given:
                    same = grants.describe_grant_scope(self._tools, given)
                    lines.append(notices.approval_saved_notice(given.until, given.uses, same))
        if lines:
            outbox.queue_notice(tx, run, f"decided:{delivery.seq}", {"text": "\n".join(lines)})

    def _decision_line(
        self,
        tx: Transaction,
        delivery: Delivery,
        run: Run,
        done: list[tuple[Call, VoteAdmission]],
        verb: CallVerb,
        reason: str,
    ) -> str:
        """Return the line that says who voted what, naming the requester if the calls are rejected.

        "" if the votes open the next stage: the line that notifies its people says so.
        """
        if verb is CallVerb.APPROVE and all(
            call_state.has_newly_opened_stage(tx, call) for call, _ in done
        ):
            return ""
        effects = [call_state.describe_call_effect(self._tools, tx, call) for call, _ in done]
        needed = max(call_state.count_missing_approvals(tx, call) for call, _ in done)
        over = all(call.status is CallStatus.REJECTED for call, _ in done)
        asker = run.requester if over and run.requester != delivery.user else ""
        givers = {found.giver for _, found in done}
        giver = givers.pop() if len(givers) == 1 else ""  # for several, the cards say for whom
        return notices.decision_line(verb, delivery.user, effects, reason, needed, asker, giver)


def _is_plan_decided(tx: Transaction, plan_id: str) -> bool:
    """Return whether no call of the plan is pending any more."""
    return all(
        each.status is not CallStatus.PENDING for each in calls.list_calls_of_plan(tx, plan_id)
    )


def _cast_vote(
    tx: Transaction,
    delivery: Delivery,
    target: CallTarget,
    verb: CallVerb,
    reason: str,
    admission: VoteAdmission,
) -> DecisionOutcome:
    return decisions.apply_vote(
        tx,
        target.call,
        target.revision,
        verb,
        delivery.user,
        at=delivery.received_at,
        reason=reason,
        stage=admission.stage,
        also=admission.also,
        counts_as=admission.why,
        surface=delivery.surface,
        giver=admission.giver,
        weigh=call_state.build_vote_counter(admission.gate),
        words=outputs,
    )
