"""Approvals and rejections: voters are looked up first, then votes are cast in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bot.agent import outputs
from bot.approvals import grants
from bot.approvals.call_state import effect_of, opens_next, still_needed, weigher
from bot.approvals.permissions import Permissions, own_words, words_for
from bot.approvals.replies import record_refusal, tell
from bot.cards import notices, refusals
from bot.cards.button_codec import CallTarget, CardTarget
from bot.clock import Clock
from bot.policy.authority import No, Yes
from bot.policy.evaluation import CurrentPolicy
from bot.policy.gates import Ask, Offer, load_gate
from bot.tools import Registry
from storage import calls, decisions, inbox, outbox, runs
from storage.decisions import AppliedDecision, Closed, MissingCall, OpenRevision, Outcome
from storage.models import Call, Delivery, Run
from storage.states import CallStatus, Verb
from storage.store import Store
from storage.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Barred:
    """Refusal of a vote; the sentence is for the voter."""

    call: Call
    verdict: No
    sentence: str


@dataclass(frozen=True, slots=True)
class Admission:
    """Permission to vote, with the stage of the gate where the vote counts."""

    gate: Ask
    stage: int
    why: str  # for the record
    giver: str = ""  # by whose right, where it is not their own
    offer: Offer | None = None  # what is remembered of it
    also: tuple[int, ...] = ()  # further stages where it may count


Admitted = Admission | Closed | Barred


class Votes:
    """Casts votes on calls. One per process; called on the loop only."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        permissions: Permissions,
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

    def vote(
        self,
        delivery: Delivery,
        targets: list[CallTarget],
        verb: Verb,
        reason: str = "",
        *,
        remember: int | None = None,
    ) -> None:
        """Vote on calls, each by itself, and settle the delivery.

        The voter is told which votes do not count, the thread is told which do. People are looked
        up first; the votes, the messages about them and the settling are one transaction.
        """
        admitted = [
            (target, self._admitted(delivery, target, verb, reason, remember)) for target in targets
        ]
        with self._store.write() as tx:
            self._count(tx, delivery, admitted, verb, reason, remember)

    def admit_editor(self, delivery: Delivery, edited: Call, run: Run) -> Admission | Barred:
        """Return how an editor may approve the call as it will be once `edited` is stored.

        Looks people up.
        """
        return self._judged(delivery, edited, run, Verb.APPROVE, fresh_editor=True)

    def approve_edited(
        self,
        tx: Transaction,
        delivery: Delivery,
        edited: Call,
        found: Admission | Barred,
        tell_edit: Callable[[], None],
    ) -> None:
        """Approve a call for the person who has edited it, in the transaction that stores the edit.

        Settles the delivery. `tell_edit` announces the edit in the thread, unless the approval
        starts the call: then the thread gets the result.
        """
        target = CallTarget(edited.id, edited.revision)
        self._count(tx, delivery, [(target, found)], Verb.APPROVE, tell_edit=tell_edit)

    def _count(
        self,
        tx: Transaction,
        delivery: Delivery,
        admitted: list[tuple[CallTarget, Admitted]],
        verb: Verb,
        reason: str = "",
        remember: int | None = None,
        tell_edit: Callable[[], None] = lambda: None,
    ) -> None:
        """Cast the votes of people who may, report the results, and settle the delivery."""
        done: list[tuple[Call, Admission]] = []
        told: list[str] = []
        for target, found in admitted:
            if isinstance(found, Barred):
                record_refusal(tx, delivery, found.call, verb, found.verdict)
                told.append(found.sentence)
                continue
            outcome: Outcome | Closed = (
                _cast(tx, delivery, target, verb, reason, found)
                if isinstance(found, Admission)
                else found
            )
            if isinstance(outcome, AppliedDecision) and isinstance(found, Admission):
                done.append((outcome.call, found))
                if remember is not None and found.offer is None:
                    told.append(refusals.not_remembered())
                continue
            told.append(self._permissions.lost(outcome, delivery.user))
            if not isinstance(outcome, MissingCall):  # its card was out of date when it was clicked
                outbox.redraw(tx, outcome.call.plan_id)
        starts = bool(done) and verb is Verb.APPROVE and _is_decided(tx, done[0][0].plan_id)
        if not starts:
            tell_edit()
        tells = not starts or any(found.offer for _, found in done)
        if done and tells and (run := runs.get(tx, done[0][0].run_id)):
            said = "" if starts else self._decision(tx, delivery, run, done, verb, reason)
            self._announce(tx, delivery, run, done, said)
        tell(tx, delivery, "\n".join(dict.fromkeys(told)))
        inbox.settle_delivery(tx, delivery, f"{verb}: {len(done)} counted, {len(told)} did not")

    def vote_all(self, delivery: Delivery, card: CardTarget, verb: Verb, reason: str = "") -> None:
        """Vote on every pending call of the clicked card, if the plan has not changed since."""
        with self._store.read() as tx:
            waiting = decisions.pending_calls_on_card(tx, card.plan, card.revision, card.card)
        targets = [CallTarget(call.id, call.revision) for call in waiting]
        if targets:
            self.vote(delivery, targets, verb, reason)
            return
        with self._store.write() as tx:
            outbox.redraw(tx, card.plan)
            tell(tx, delivery, refusals.stale_card())
            inbox.settle_delivery(tx, delivery, f"{verb} all: stale")

    def _admitted(
        self, delivery: Delivery, target: CallTarget, verb: Verb, reason: str, remember: int | None
    ) -> Admitted:
        """Return how this person may vote, or what prevents it. Looks people up."""
        at = delivery.received_at
        with self._store.read() as tx:
            found = decisions.check_decidable(tx, target.call, target.revision, at)
            if not isinstance(found, OpenRevision):
                return found
            run = runs.get(tx, found.call.run_id)
            # who may reject does not depend on what others have said
            involved = calls.involvement(tx, found.call) if verb is Verb.APPROVE else None
        if run is None:
            return MissingCall()
        return self._judged(delivery, found.call, run, verb, reason, remember, involved)

    def _judged(
        self,
        delivery: Delivery,
        call: Call,
        run: Run,
        verb: Verb,
        reason: str = "",
        remember: int | None = None,
        involved: calls.Involvement | None = None,
        *,
        fresh_editor: bool = False,
    ) -> Admission | Barred:
        at, person = delivery.received_at, delivery.user
        verdict = self._permissions.verdict(
            verb, call, run, person, at=at, involved=involved, fresh_editor=fresh_editor
        )
        gate = load_gate(call.gate)
        if isinstance(verdict, Yes) and isinstance(gate, Ask):
            if words_for(call, verb) and not own_words(verb, reason):
                return Barred(call, No("words"), refusals.words_needed())
            offer = grants.offer_of(gate, remember) if verb is Verb.APPROVE else None
            if offer and not self._permissions.may_be_remembered(gate, run, person):
                offer = None
            who, also = verdict.giver, verdict.also
            return Admission(gate, verdict.stage, verdict.why, who, offer, also)
        assert isinstance(verdict, No)
        return Barred(call, verdict, self._permissions.refusal(verdict, call, verb))

    def _announce(
        self,
        tx: Transaction,
        delivery: Delivery,
        run: Run,
        done: list[tuple[Call, Admission]],
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
                given = grants.remember(tx, policy, run, call, person, offer, now=now)
                if given:
                    same = grants.covers(self._tools, given)
                    lines.append(notices.remembered(given.until, given.uses, same))
        if lines:
            outbox.notice(tx, run, f"decided:{delivery.seq}", {"text": "\n".join(lines)})

    def _decision(
        self,
        tx: Transaction,
        delivery: Delivery,
        run: Run,
        done: list[tuple[Call, Admission]],
        verb: Verb,
        reason: str,
    ) -> str:
        """Return the line that says who voted what, naming the requester if the calls are rejected.

        "" if the votes open the next stage: the line that notifies its people says so.
        """
        if verb is Verb.APPROVE and all(opens_next(tx, call) for call, _ in done):
            return ""
        effects = [effect_of(self._tools, tx, call) for call, _ in done]
        needed = max(still_needed(tx, call) for call, _ in done)
        over = all(call.status is CallStatus.REJECTED for call, _ in done)
        asker = run.requester if over and run.requester != delivery.user else ""
        givers = {found.giver for _, found in done}
        giver = givers.pop() if len(givers) == 1 else ""  # for several, the cards say for whom
        return notices.decision_line(verb, delivery.user, effects, reason, needed, asker, giver)


def _is_decided(tx: Transaction, plan_id: str) -> bool:
    """Return whether no call of the plan is pending any more."""
    return all(each.status is not CallStatus.PENDING for each in calls.of_plan(tx, plan_id))


def _cast(
    tx: Transaction,
    delivery: Delivery,
    target: CallTarget,
    verb: Verb,
    reason: str,
    admission: Admission,
) -> Outcome:
    return decisions.vote(
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
        weigh=weigher(admission.gate),
        words=outputs,
    )
