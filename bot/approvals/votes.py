"""Clicks and submitted dialogs, each passed to the code that handles it, and votes: voters are
looked up first, then votes are cast in one transaction. Runs on the loop.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.agent import outputs
from bot.approvals import call_state
from bot.approvals.edits import Edit, EditHandler, ForbiddenEdit, UnchangedEdit
from bot.approvals.grants import GrantManager, get_chosen_or_default_offer
from bot.approvals.permissions import (
    DeliverySettler,
    PermissionChecker,
    is_reason_in_own_words,
    needs_reason,
    reason_required_reply,
    record_refused_action,
    reply_privately,
)
from bot.cards import button_codec, decided_call, notices, sentences
from bot.cards.action_names import Action, DialogId
from bot.cards.field_layout import FieldErrors
from bot.cards.review_dialog import (
    parse_approval_submission,
    parse_entered_words,
    parse_rejection_reason,
)
from bot.policy.authority import Authority, Denial, Permission
from bot.policy.gates import Ask, GrantOffer, load_gate
from storage import calls, decisions, inbox, outbox, runs
from storage.record import Call, Delivery, Message, Run, Transaction
from storage.states import CallStatus, CallVerb, DeliveryKind, MessageKind

OBJECT = CallVerb.OBJECT


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


AdmissionResult = VoteAdmission | decisions.UndecidableOutcome | VoteRefusal


class VoteHandler:
    """Casts votes on calls. One per process; called on the loop only."""

    def __init__(self, permissions: PermissionChecker, grants: GrantManager) -> None:
        """Store the dependencies; `permissions` says who may vote, `grants` saves approvals."""
        self._store = grants.store
        self._tools = grants.tools
        self._permissions = permissions
        self._grants = grants

    def cast_votes(
        self,
        delivery: Delivery,
        targets: list[button_codec.CallTarget],
        verb: CallVerb,
        reason: str = "",
        *,
        remember: int | None = None,
    ) -> None:
        """Apply one person's vote to each of these calls, and mark their click as handled.

        The voter is told which votes do not count, the thread is told which do. People are looked
        up first; the votes, the messages about them and the settling are one transaction.
        """
        admitted = [
            (target, self._decide_admission(delivery, target, verb, reason, remember))
            for target in targets
        ]
        policy = self._grants.policy.policy
        readers = self._permissions.list_active_people(policy.readers) if verb is OBJECT else []
        with self._store.write() as tx:
            done = self._apply_votes(tx, delivery, admitted, verb, reason, remember)
            if done and verb is OBJECT:
                self._announce_objection(tx, delivery, done[0], reason, readers)

    def admit_editor_as_voter(
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
    ) -> None:
        """Approve a call for the person who has edited it, in the transaction that stores the edit.

        Settles the delivery.
        """
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
    ) -> list[Call]:
        """Cast the votes of people who may, report the results, and settle the delivery.

        Returns the calls on which a vote counts.
        """
        done: list[tuple[Call, VoteAdmission]] = []
        told: list[str] = []
        for target, found in admitted:
            if isinstance(found, VoteRefusal):
                record_refused_action(tx, delivery, found.call, verb, found.verdict)
                told.append(found.sentence)
                continue
            outcome: decisions.DecisionOutcome | decisions.UndecidableOutcome = (
                _cast_vote(tx, delivery, target, verb, reason, found)
                if isinstance(found, VoteAdmission)
                else found
            )
            if isinstance(outcome, decisions.AppliedDecision) and isinstance(found, VoteAdmission):
                done.append((outcome.call, found))
                if remember is not None and found.offer is None:
                    told.append(sentences.APPROVAL_NOT_SAVED_REPLY)
                continue
            told.append(self._permissions.too_late_sentence(outcome, delivery.user))
            if not isinstance(
                outcome, decisions.MissingCall
            ):  # its card was out of date when it was clicked
                outbox.mark_cards_for_redraw(tx, outcome.call.plan_id)
        if done and (run := runs.find_run(tx, done[0][0].run_id)):
            if verb is CallVerb.REJECT:
                self._announce_rejection(tx, delivery, run, done, reason)
            self._announce_start_times(tx, delivery, run, [call for call, _ in done])
            self._save_and_announce_grants(tx, delivery, run, done)
        reply_privately(tx, delivery, "\n".join(dict.fromkeys(told)))
        inbox.mark_delivery_done(tx, delivery, f"{verb}: {len(done)} counted, {len(told)} did not")
        return [call for call, _ in done]

    def vote_on_card(
        self, delivery: Delivery, card: button_codec.CardTarget, verb: CallVerb, reason: str = ""
    ) -> None:
        """Vote on every pending call of the clicked card, if the plan has not changed since."""
        with self._store.read() as tx:
            waiting = decisions.list_pending_calls_on_card(tx, card.plan, card.revision, card.card)
        if verb is CallVerb.APPROVE:  # the others are approved, and wait for their time to start
            waiting = [call for call in waiting if not calls.is_scheduled(call)]
        targets = [button_codec.CallTarget(call.id, call.revision) for call in waiting]
        if targets:
            self.cast_votes(delivery, targets, verb, reason)
            return
        with self._store.write() as tx:
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
        with self._store.read() as tx:
            found = decisions.check_vote_is_possible(tx, target.call, target.revision, verb, at)
            if not isinstance(found, decisions.DecidableCall):
                return found
            run = runs.find_run(tx, found.call.run_id)
            # who may reject does not depend on what others have said
            involved = (
                calls.get_call_editors_and_votes(tx, found.call)
                if verb is CallVerb.APPROVE
                else None
            )
        if run is None:
            return decisions.MissingCall()
        return self._judge_voter(delivery, found.call, run, verb, reason, remember, involved)

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
        verdict = self._permissions.judge_action(
            verb, call, run, person, at=at, involved=involved, fresh_editor=fresh_editor
        )
        gate = load_gate(call.gate)
        if isinstance(verdict, Permission) and isinstance(gate, Ask):
            if needs_reason(call, verb) and not is_reason_in_own_words(verb, reason):
                return VoteRefusal(call, Denial("words"), reason_required_reply(verb))
            offer = (
                get_chosen_or_default_offer(gate, remember) if verb is CallVerb.APPROVE else None
            )
            if offer and not self._permissions.may_save_approval_as_grant(gate, run, person):
                offer = None
            who, also = verdict.giver, verdict.also
            return VoteAdmission(gate, verdict.stage, verdict.why, who, offer, also)
        assert isinstance(verdict, Denial)
        return VoteRefusal(call, verdict, self._permissions.refusal_sentence(verdict, call, verb))

    def _save_and_announce_grants(
        self, tx: Transaction, delivery: Delivery, run: Run, done: list[tuple[Call, VoteAdmission]]
    ) -> None:
        """Save the approvals that are to be remembered, and say so in the thread."""
        lines: list[str] = []
        for call, found in done:
            if call.status is CallStatus.APPROVED and found.offer is not None:
                lines += self._grants.save_approval_as_grant(
                    tx, run, call, delivery.user, found.offer
                )
        if lines:
            outbox.queue_notice(tx, run, f"saved:{delivery.seq}", {"text": "\n".join(lines)})

    def _announce_rejection(
        self,
        tx: Transaction,
        delivery: Delivery,
        run: Run,
        done: list[tuple[Call, VoteAdmission]],
        reason: str,
    ) -> None:
        """Say in the thread who rejected what and why; notify who asked if that decides it."""
        effects = [call_state.describe_call_effect(self._tools, tx, call) for call, _ in done]
        over = all(call.status is CallStatus.REJECTED for call, _ in done)
        asker = run.requester if over and run.requester != delivery.user else ""
        givers = {found.giver for _, found in done}
        giver = givers.pop() if len(givers) == 1 else ""  # for several, the cards say for whom
        text = notices.call_decision_line(
            CallVerb.REJECT, delivery.user, effects, reason, requester=asker, giver=giver
        )
        key, to = f"decided:{delivery.seq}", filter(None, [asker])
        outbox.queue_notice(tx, run, key, {"text": text}, notified=to)

    def _announce_start_times(
        self, tx: Transaction, delivery: Delivery, run: Run, decided: Sequence[Call]
    ) -> None:
        """Tell who asked when what is approved now starts, if that is at a time of its own."""
        for call in filter(calls.is_scheduled, decided):
            effect = call_state.describe_call_effect(self._tools, tx, call)
            asker = run.requester if run.requester != delivery.user else ""
            text = decided_call.approved_for_later_line(
                effect, call.starts_at, delivery.user, requester=asker
            )
            key, to = f"starts:{call.id}:{call.revision}", filter(None, [asker])
            outbox.queue_notice(tx, run, key, {"text": text}, notified=to)

    def _announce_objection(
        self, tx: Transaction, delivery: Delivery, call: Call, words: str, readers: Sequence[str]
    ) -> None:
        """Tell who asked, who ran it without approval, and the policy's readers what is wrong."""
        votes = calls.list_votes_on_revision(tx, call.id, call.revision)
        run, alone = runs.find_run(tx, call.run_id), call_state.find_break_glass_vote(votes)
        if run is None or alone is None:
            return
        effects, key = [call_state.describe_call_effect(self._tools, tx, call)], delivery.seq
        people = dict.fromkeys((alone.person, run.requester))
        text = notices.objection_notice(effects, delivery.user, words, alone.person, people)
        outbox.queue_line_in_all_threads(
            tx, run, [call.plan_id], f"objection:{key}", text, notified=people
        )
        for reader in (each for each in readers if each not in {*people, delivery.user}):
            outbox.queue_message(
                tx,
                Message(
                    key=f"objection:{key}:{reader}",
                    kind=MessageKind.NOTICE,
                    run_id=run.id,
                    channel=reader,
                    body=outbox.dump_message_body({"text": text, "mrkdwn": True}),
                ),
            )


def _cast_vote(
    tx: Transaction,
    delivery: Delivery,
    target: button_codec.CallTarget,
    verb: CallVerb,
    reason: str,
    admission: VoteAdmission,
) -> decisions.DecisionOutcome:
    start = admission.gate.run_at if verb is CallVerb.APPROVE else None
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
        starts_at=start.find_next(delivery.received_at) if start else None,
    )


# Clicks and submitted dialogs: decoded, and passed to the code that handles them.

log = logging.getLogger("countersign.clicks")
# deals with a click or a submitted dialog (the row, what it means, Slack's payload), and settles it
ClickHandler = Callable[
    [Delivery, button_codec.Click | button_codec.DialogSubject, dict[str, Any]], None
]


class ClickDispatcher:
    """Dispatcher of clicks and submitted dialogs.

    One per process; `take` is called by the loop only.
    """

    def __init__(
        self,
        authority: Authority,
        votes: VoteHandler,
        edits: EditHandler,
        replies: DeliverySettler,
        acts: Mapping[Action | DialogId, ClickHandler],
    ) -> None:
        """Store the handlers; `authority` says from which workspaces clicks are accepted.

        Each handler checks who may use it. `acts` handle what is neither a vote nor an edit, by
        button or dialog.
        """
        self._authority = authority
        self._votes = votes
        self._edits = edits
        self._replies = replies
        self._acts = acts

    def handle_delivery(self, delivery: Delivery) -> None:
        """Handle one click or submitted dialog, and settle its delivery.

        Raises LookupFailedError where Slack does not say who clicked, and NotYetKnownError where
        the delivery has to be taken again in a moment.
        """
        payload = json.loads(delivery.body)
        wanted = (
            button_codec.decode_clicked_element(payload["actions"][0])
            if delivery.kind == DeliveryKind.ACTION
            else button_codec.decode_dialog_subject(payload["view"])
        )
        match wanted:
            case button_codec.MalformedValue():
                self._refuse_malformed(delivery, wanted)
                return
            case button_codec.Click(name, target) | button_codec.DialogSubject(name, target) if (
                not self._is_from_accepted_workspace(delivery)
            ):
                self._replies.refuse_outsider(delivery, name, target)
                return
        delivery.team = self._authority.team  # whichever of their workspaces they clicked in
        match wanted:
            case button_codec.Click(Action() as name) if name in self._acts:
                self._acts[name](delivery, wanted, payload)
            case button_codec.DialogSubject(DialogId() as name) if name in self._acts:
                self._acts[name](delivery, wanted, payload)
            case button_codec.Click():
                self._handle_click(delivery, wanted)
            case button_codec.DialogSubject():
                self._handle_dialog(delivery, wanted, payload["view"]["state"]["values"])

    def _is_from_accepted_workspace(self, delivery: Delivery) -> bool:
        return self._authority.may_act_from_workspace(delivery.user, delivery.team)

    def _handle_click(self, delivery: Delivery, click: button_codec.Click) -> None:
        match click:
            case button_codec.Click(Action.APPROVE, button_codec.CallTarget() as target):
                self._votes.cast_votes(delivery, [target], CallVerb.APPROVE)
            case button_codec.Click(Action.REJECT_NOW, button_codec.CallTarget() as target):
                self._votes.cast_votes(delivery, [target], CallVerb.REJECT)
            case button_codec.Click(Action.LOOKED_AT, button_codec.CallTarget() as target):
                self._votes.cast_votes(delivery, [target], CallVerb.LOOK)
            case button_codec.Click(Action.APPROVE_ALL, button_codec.CardTarget() as target):
                self._votes.vote_on_card(delivery, target, CallVerb.APPROVE)
            case button_codec.Click(action):
                self._refuse_malformed(
                    delivery, button_codec.MalformedValue(f"{action} is not for the loop")
                )

    def _handle_dialog(
        self, delivery: Delivery, dialog: button_codec.DialogSubject, state: dict[str, Any]
    ) -> None:
        match dialog:
            case button_codec.DialogSubject(DialogId.REVIEW, button_codec.CallTarget() as target):
                note, chosen = parse_approval_submission(state)
                self._votes.cast_votes(delivery, [target], CallVerb.APPROVE, note, remember=chosen)
            case button_codec.DialogSubject(
                DialogId.REJECT, button_codec.CallTarget() | button_codec.CardTarget() as target
            ):
                reason = parse_rejection_reason(state)
                if not isinstance(reason, str):
                    self._replies.settle_silently(delivery, "invalid reason")
                elif isinstance(target, button_codec.CardTarget):
                    self._votes.vote_on_card(delivery, target, CallVerb.REJECT, reason)
                else:
                    self._votes.cast_votes(delivery, [target], CallVerb.REJECT, reason)
            case button_codec.DialogSubject(
                (DialogId.BREAK_GLASS | DialogId.OBJECT) as name,
                button_codec.CallTarget() as target,
            ):
                words = parse_entered_words(state)
                self._votes.cast_votes(delivery, [target], CallVerb(name), words)
            case button_codec.DialogSubject(DialogId.EDIT, button_codec.CallTarget() as target):
                self._handle_edit(delivery, target, state)
            case button_codec.DialogSubject(name):
                self._refuse_malformed(
                    delivery, button_codec.MalformedValue(f"{name} is about something else", name)
                )

    def _refuse_malformed(self, delivery: Delivery, malformed: button_codec.MalformedValue) -> None:
        """Refuse a click with values the bot never sent.

        If the button is one of the bot's, the person is told that the card is out of date.
        """
        log.warning("delivery %s: %s, refused", delivery.seq, malformed.why)
        if malformed.name is None:
            self._replies.settle_silently(delivery, "unknown action refused")
        else:
            self._replies.refuse_click(delivery, sentences.OUTDATED_CARD_REPLY)

    def _handle_edit(
        self, delivery: Delivery, target: button_codec.CallTarget, state: dict[str, Any]
    ) -> None:
        at = delivery.received_at
        match self._edits.parse_edit(target.call, target.revision, state, delivery.user, at=at):
            case ForbiddenEdit(sentence=sentence):
                self._replies.refuse_click(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the dialog was checked
                why = next(iter(errors.values()), "")
                self._replies.refuse_click(delivery, sentences.edit_not_saved_reply(why))
            case UnchangedEdit(approve=True):
                self._votes.cast_votes(delivery, [target], CallVerb.APPROVE)
            case UnchangedEdit():
                self._replies.settle_silently(delivery, "an edit that changes nothing")
            case Edit(is_also_approval=True) as edit:  # saved and approved, or neither
                found = self._votes.admit_editor_as_voter(
                    delivery, edit.build_edited_call(), edit.run
                )
                self._edits.store_edit(
                    delivery,
                    edit,
                    lambda tx, call: self._votes.approve_edited_call(tx, delivery, call, found),
                )
            case Edit() as edit:
                self._edits.store_edit(delivery, edit)
