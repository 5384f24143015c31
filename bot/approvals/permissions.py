"""Who may do what to a call now, and the private replies to people who may not or came too late.

Looks people up live; serves the loop, which decides, and the dialogs, which check what was
submitted. Clicks that do not count are recorded in the audit.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from bot.approvals.call_state import (
    find_break_glass_vote,
    list_people_ruled_out,
    measure_waiting_time,
    tally_votes,
)
from bot.cards import notices, sentences
from bot.cards.action_names import Action, DialogId
from bot.cards.answers import ACCOUNT_REPLACED_REPLY, TOOL_CHANGED_REPLY
from bot.cards.button_codec import CallTarget, CardTarget, ModelAnswerRating, RunTarget, Target
from bot.cards.review_dialog import REJECTION_REASONS
from bot.cards.slack_text import channel_mention, user_mention
from bot.clock import Clock
from bot.policy.authority import (
    Authority,
    Denial,
    LookupFailedError,
    Permission,
    Verdict,
    is_colleague,
)
from bot.policy.gates import Approvers, Ask, load_gate
from storage import calls, decisions, delegations, inbox, outbox, runs, trail
from storage.record import Call, Delivery, Run, Store, Transaction
from storage.states import LOOK_VERBS, CallStatus, CallVerb, Surface, UnknownCallResolution

# what a delegate may do for somebody: decide, and say what became of a call; not edit
DELEGABLE_VERBS = frozenset(
    {CallVerb.APPROVE, CallVerb.REJECT, CallVerb.SEND_BACK, CallVerb.RESOLVE, *LOOK_VERBS}
)
VERBS_THAT_RUN = (CallVerb.APPROVE, CallVerb.BREAK_GLASS)
MIN_REASON_CHARS = 10  # for running a call without approval
MAX_PEOPLE_NAMED = 10  # in the reply to somebody who may not decide
_REPLY_BY_REASON = {
    Denial.OWN_REQUEST: sentences.OWN_REQUEST_REPLY,
    Denial.OWN_EDIT: sentences.OWN_EDIT_REPLY,
    Denial.LOOKUP: sentences.LOOKUP_FAILED_REPLY,
    Denial.STRANGER: "You cannot decide this one: only full members of this workspace can.",
    Denial.REQUESTER_GONE: sentences.REQUESTER_GONE_REPLY,
    Denial.ID_GONE: ACCOUNT_REPLACED_REPLY,
    Denial.TOOL_CHANGED: TOOL_CHANGED_REPLY,
    Denial.NO_BREAK_GLASS: notices.BREAK_GLASS_NOT_ALLOWED_REPLY,
    Denial.OWN_RUN: notices.OWN_RUN_REPLY,
}
_REPLY_WITH_APPROVERS_BY_REASON = {  # these also name the people who could approve it now
    Denial.NOT_YET: sentences.not_your_stage_reply,
    Denial.ENOUGH: sentences.stage_already_approved_reply,
}
VERB_BY_CLOSED_STATUS = {
    CallStatus.REJECTED: CallVerb.REJECT,
    CallStatus.EXPIRED: "expired",
    CallStatus.CANCELLED: "cancel",
    CallStatus.SUPERSEDED: "replaced",
    CallStatus.INVALIDATED: "called off",
}


@dataclass(frozen=True, slots=True)
class PermissionChecker:
    """Answers who may do what to a call; one per process, without state of its own."""

    store: Store
    clock: Clock
    authority: Authority  # looks people up

    def judge_action(
        self,
        verb: CallVerb,
        call: Call,
        run: Run,
        person: str,
        *,
        at: datetime,
        involved: calls.CallEditorsAndVotes | None = None,
        fresh_editor: bool = False,
    ) -> Verdict:
        """Return whether `person` may do `verb` (approve, reject, edit, …) to this call as of `at`.

        Looks people up. A Permission to approve carries its stage and, if the voter is a delegate,
        the person they vote for. `involved`: the call's editors and votes, if the caller has read
        them. `fresh_editor`: judge as if this person had just edited the call.
        """
        if involved is None:
            with self.store.read() as tx:
                involved = calls.get_call_editors_and_votes(tx, call)
        if fresh_editor:
            involved = calls.CallEditorsAndVotes(involved.editors | {person}, ())
        verdict = self._judge_own_right(verb, call, run, person, involved, at)
        barred = verdict in (Denial.NOT_APPROVER, Denial.NOT_YET, Denial.ENOUGH)
        if barred and verb in DELEGABLE_VERBS:
            verdict = self._judge_as_delegate(verb, call, run, person, involved, at) or verdict
        if verb in VERBS_THAT_RUN and isinstance(verdict, Permission):
            votes = involved.votes
            others = involved.editors | {
                who for vote in votes for who in (vote.person, vote.counted_person)
            }
            return self.refuse_if_somebody_left(run, others - {person}) or verdict
        return verdict

    def refuse_if_somebody_left(self, run: Run, others: Collection[str] = ()) -> Denial | None:
        """Return a denial if the requester is no full member any more, or cannot be looked up.

        Also if Slack no longer knows one of the `others`, who voted (or for whom a delegate did) or
        edited, by that id: under a new id they could count as a second person.
        """
        find = self.authority.directory.find_person
        try:
            requester = find(run.requester)
            if any(find(each) is None for each in sorted(others)):
                return Denial.ID_GONE
        except LookupFailedError:
            return Denial.LOOKUP
        return None if is_colleague(requester, self.authority.team) else Denial.REQUESTER_GONE

    def _judge_as_delegate(
        self,
        verb: CallVerb,
        call: Call,
        run: Run,
        person: str,
        involved: calls.CallEditorsAndVotes,
        at: datetime,
    ) -> Verdict | None:
        """Return permission as the delegate of somebody who may do this; None if there is nobody.

        Never for a call that this person requested or edited, and no further than one step:
        delegates cannot pass on the right. Denial.LOOKUP if somebody could not be looked up.
        """
        with self.store.read() as tx:
            delegators = delegations.list_delegators(tx, self.authority.team, person, at)
        if person in {run.requester, *involved.editors}:
            return None
        spent = {vote.counted_person for vote in involved.votes}
        verdicts: list[Verdict] = []
        # first by the right of delegators who have not voted yet
        for delegator in sorted(delegators, key=spent.__contains__):
            found = self._judge_own_right(verb, call, run, delegator, involved, at)
            if isinstance(found, Permission):
                return replace(found, why=f"for {delegator}: {found.why}", delegator=delegator)
            verdicts.append(found)
        return Denial.LOOKUP if Denial.LOOKUP in verdicts else None

    def _judge_own_right(
        self,
        verb: CallVerb,
        call: Call,
        run: Run,
        person: str,
        involved: calls.CallEditorsAndVotes,
        at: datetime,
    ) -> Verdict:
        """Return whether the person may do this (`verb`) by their own right, not as a delegate."""
        gate = load_gate(call.gate)
        if not isinstance(gate, Ask):
            return Denial.NOT_APPROVER
        authority, waited = self.authority, measure_waiting_time(gate, call, at)
        request_facts: dict[str, Any] = {"requester": run.requester, "channel": run.channel}
        vote_facts = request_facts | {"editors": involved.editors, "waited": waited}
        if verb in (CallVerb.RESOLVE, *LOOK_VERBS):  # everybody who could have approved the call
            alone = find_break_glass_vote(involved.votes)
            if verb in LOOK_VERBS and alone and alone.person == person:
                return Denial.OWN_RUN
            stages = range(len(gate.stages))
            verdicts = [
                authority.may_approve(gate, person, stage=each, **vote_facts) for each in stages
            ]
            return next((each for each in verdicts if isinstance(each, Permission)), verdicts[0])
        if verb is CallVerb.BREAK_GLASS:
            return authority.may_break_glass(gate, person, **request_facts)
        if verb is CallVerb.EDIT:
            return authority.may_edit(gate, person, **request_facts, waited=waited)
        if verb in (CallVerb.REJECT, CallVerb.SEND_BACK):
            reject_verdict = authority.may_reject(gate, person, **request_facts, waited=waited)
            is_own = verb is CallVerb.SEND_BACK and person == run.requester
            may_anyway = is_own and reject_verdict is Denial.NOT_APPROVER
            return Permission(why="requester") if may_anyway else reject_verdict
        tally = tally_votes(gate, involved.votes)
        if gate.any_order:
            return authority.may_approve_any_stage(gate, person, tally.open_stages, **vote_facts)
        verdict = authority.may_approve(gate, person, stage=tally.stage, **vote_facts)
        return replace(verdict, stage=tally.stage) if isinstance(verdict, Permission) else verdict

    def list_active_people(self, who: Approvers) -> list[str]:
        """Return up to MAX_PEOPLE_NAMED active colleagues among the people that the policy names.

        Raises LookupFailedError.
        """
        named = self.authority.list_named_people(who, requester="", channel="")
        return self.authority.list_first_colleagues(named, MAX_PEOPLE_NAMED)

    def refusal_sentence(self, verdict: Denial, call: Call, verb: CallVerb) -> str:
        """Return the sentence that tells a person privately why they may not do this (`verb`)."""
        if verb is CallVerb.RESOLVE and verdict in (Denial.OWN_REQUEST, Denial.OWN_EDIT):
            return sentences.OWN_OUTCOME_REPLY
        if reply := _REPLY_BY_REASON.get(verdict):
            return reply
        if verdict is Denial.NOT_APPROVER and verb in LOOK_VERBS:
            return notices.LOOK_NOT_ALLOWED_REPLY
        if verb is CallVerb.EDIT and verdict not in (Denial.NOT_YET, Denial.ENOUGH):
            return sentences.NOT_AN_EDITOR_REPLY
        reply_with = _REPLY_WITH_APPROVERS_BY_REASON.get(verdict, sentences.not_an_approver_reply)
        return reply_with(self.describe_approvers(call))

    def describe_approvers(self, call: Call) -> str:
        """Return who could approve the call now, or say what became of it, as mentions.

        A channel's members are not listed. If Slack cannot be asked, it is the list in the policy.
        """
        gate = load_gate(call.gate)
        with self.store.read() as tx:
            run = runs.get_run(tx, call.run_id)
            involved = calls.get_call_editors_and_votes(tx, call)
        if not isinstance(gate, Ask):
            return ""
        is_approved = call.status is CallStatus.UNKNOWN  # whoever approves such calls may decide it
        votes = () if is_approved else involved.votes
        out = list_people_ruled_out(gate, involved.editors, votes)
        named = gate.get_approvers_of_stages(
            range(len(gate.stages)) if is_approved else tally_votes(gate, votes).asked_stages,
            measure_waiting_time(gate, call, self.clock.now()),
            run.requester,
        )
        if named.channel:
            return f"the other members of {channel_mention(run.channel)}"
        try:
            for who in (named.notified, named):  # the silent ones only if there is nobody else
                candidates = self.authority.list_approver_candidates(
                    gate, who, requester=run.requester, channel=run.channel
                )
                people = self.authority.list_first_colleagues(
                    candidates - out, MAX_PEOPLE_NAMED + 1
                )
                if people:
                    break
        except LookupFailedError:
            who = named.shown
            return ", ".join([*map(user_mention, who.users), *(f"@{each}" for each in who.groups)])
        others = " and others" if len(people) > MAX_PEOPLE_NAMED else ""
        return ", ".join(user_mention(user) for user in people[:MAX_PEOPLE_NAMED]) + others

    def too_late_sentence(
        self, outcome: decisions.DecisionOutcome | decisions.DecidableCall | None, person: str
    ) -> str:
        """Return what to tell a person who came too late, and what came first; None: not known."""
        match outcome:
            case decisions.EarlierDecision(call=call) if call.status is CallStatus.EXPIRED:
                return sentences.decision_too_late_reply(call.deadline)
            case decisions.EarlierDecision(call=call):
                with self.store.read() as tx:
                    votes = calls.list_votes_on_revision(tx, call.id, call.revision)
                looked = [each for each in votes if each.verb in LOOK_VERBS]
                first = next(iter([*looked, *votes]), None)
                by = first.person if first else ""
                verb = first.verb if first else VERB_BY_CLOSED_STATUS.get(call.status, "decided")
                if by == person:
                    return sentences.repeated_click_reply(verb)
                return sentences.already_decided_reply(by, verb, call.decided_at)
            case decisions.DeadlinePassed(call=call):
                return sentences.decision_too_late_reply(call.deadline)
            case decisions.RepeatedVote(verb=verb, earlier_voter=by) if by != person:
                return sentences.vote_shared_with_delegate_reply(by, verb)
            case decisions.RepeatedVote(verb=verb):
                return sentences.repeated_click_reply(verb)
            case _:
                return sentences.OUTDATED_CARD_REPLY


def may_approve_alone(authority: Authority, run: Run, gate: Ask, person: str) -> bool:
    """Return whether this person could approve a call with this gate alone and at once.

    Looks people up; False if Slack cannot be asked.
    """
    verdict = authority.may_approve(
        gate, person, requester=run.requester, editors=frozenset(), channel=run.channel
    )
    return gate.required_approvers == 1 and isinstance(verdict, Permission)


def is_reason_in_own_words(verb: CallVerb, reason: str) -> bool:
    """Return whether the reason is in the person's own words, not a ready-made rejection reason.

    To run a call without approval, it has to have at least MIN_REASON_CHARS characters.
    """
    if verb is CallVerb.BREAK_GLASS:
        return len(" ".join(reason.split())) >= MIN_REASON_CHARS
    return bool(reason.strip()) and not (
        verb is CallVerb.REJECT and reason in REJECTION_REASONS.values()
    )


def reason_required_reply(verb: CallVerb) -> str:
    """Return the reply to a person who gave no reason of their own, or too short a one."""
    alone = verb is CallVerb.BREAK_GLASS
    return notices.BREAK_GLASS_REASON_REPLY if alone else sentences.REASON_REQUIRED_REPLY


def needs_reason(call: Call, verb: CallVerb) -> bool:
    """Return whether a reason is required to do this (`verb`) to the call."""
    if verb not in (CallVerb.APPROVE, CallVerb.REJECT):
        return verb in (CallVerb.BREAK_GLASS, CallVerb.OBJECT)
    gate = load_gate(call.gate)
    return isinstance(gate, Ask) and gate.reasons in (verb, "always")


# Private replies to people who clicked, and the audit record of clicks that do not count.

ONLY_MEMBERS_USE_BUTTONS_ERROR = "Only full members of this workspace can use these buttons."
RequestedAction = CallVerb | UnknownCallResolution | Action | DialogId


@dataclass(frozen=True, slots=True)
class DeliverySettler:
    """Marks deliveries (such as clicks) that change no call or run as handled."""

    store: Store

    def refuse_click(self, delivery: Delivery, text: str) -> None:
        """Tell the person why their click is refused, and mark it as handled."""
        with self.store.write() as tx:
            reply_privately(tx, delivery, text)
            inbox.mark_delivery_done(tx, delivery, "refused")

    def settle_silently(self, delivery: Delivery, note: str) -> None:
        """Mark a delivery (such as a click) as handled without telling anybody."""
        with self.store.write() as tx:
            inbox.mark_delivery_done(tx, delivery, note)

    def refuse_outsider(self, delivery: Delivery, action: RequestedAction, target: Target) -> None:
        """Refuse the action to somebody of another company, without looking anybody up.

        It is recorded in the audit, and the delivery is marked as handled.
        """
        with self.store.write() as tx:
            if about := _find_target_row(tx, target):
                record_refused_action(tx, delivery, about, action, Denial.STRANGER)
            reply_privately(tx, delivery, ONLY_MEMBERS_USE_BUTTONS_ERROR)
            inbox.mark_delivery_done(tx, delivery, "of another workspace")


def _find_target_row(tx: Transaction, target: Target) -> Call | Run | None:
    """Return the call or run that a click is about; None if it does not exist."""
    match target:
        case CallTarget(call=call):
            return calls.find_call(tx, call)
        case CardTarget(plan=plan_id):
            plan = calls.find_plan(tx, plan_id)
            return runs.get_run(tx, plan.run_id) if plan else None
        case RunTarget(run=run) | ModelAnswerRating(run=run):
            return runs.find_run(tx, run)
        case _:
            return None


def record_refused_action(
    tx: Transaction, delivery: Delivery, target: Call | Run, verb: RequestedAction, why: str
) -> None:
    """Record in the audit that somebody tried what they may not do, with their workspace.

    `why`: a Denial, or what is wrong with a signature.
    """
    run_id, call_id = target.id, ""
    what: dict[str, str | int] = {}
    if isinstance(target, Call):
        run_id, call_id = target.run_id, target.id
        what = {"tool": target.tool, "revision": target.revision}
    if delivery.surface is not Surface.SLACK:
        what["surface"] = delivery.surface
    trail.record_event(
        tx,
        "decision.refused",
        at=delivery.received_at,
        actor=delivery.user,
        run_id=run_id,
        call_id=call_id,
        data={"verb": verb, "why": why, "team": delivery.team, **what},
    )


def reply_privately(tx: Transaction, delivery: Delivery, text: str) -> None:
    """Send a private text to the person who clicked, where they clicked; nothing for ""."""
    if text and delivery.surface is not Surface.SLACK:
        inbox.store_delivery_answer(tx, delivery, text)
    elif text:
        outbox.queue_private_reply(tx, delivery, text)
