"""Who may do what to a call now, and the sentences for people who may not or came too late.

Looks people up live; serves the loop, which decides, and the dialogs, which check what was
submitted.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from bot.approvals.call_state import standing, waited
from bot.approvals.grants import may_decide
from bot.cards import refusals
from bot.cards.review_dialog import REASONS
from bot.cards.slack_text import channel_mention, mention
from bot.clock import Clock
from bot.policy.authority import Authority, LookupFailedError, No, Verdict, Yes
from bot.policy.gates import Ask, load_gate
from storage import calls, delegations, runs
from storage.calls import Involvement
from storage.decisions import AlreadyDecided, MissedDeadline, OpenRevision, Outcome, RepeatedVote
from storage.models import Call, Run
from storage.states import CallStatus, Verb
from storage.store import Store

STRANGER = "You cannot decide this one: only full members of this workspace can."
# what one may have somebody else do: to decide, and to say what became of it; not to edit
DELEGATED = frozenset({Verb.APPROVE, Verb.REJECT, Verb.SEND_BACK, Verb.RESOLVE})
NAMED = 10  # people named to who may not decide
PAST = {
    CallStatus.REJECTED: Verb.REJECT,
    CallStatus.EXPIRED: "expired",
    CallStatus.CANCELLED: "cancel",
    CallStatus.SUPERSEDED: "replaced",
    CallStatus.INVALIDATED: "called off",
}


class Permissions:
    """Answers who may do what to a call; one per process, without state of its own."""

    def __init__(self, store: Store, clock: Clock, authority: Authority) -> None:
        """Store the dependencies; `authority` looks people up."""
        self._store = store
        self._clock = clock
        self._authority = authority

    @property
    def team(self) -> str:
        """Return the id of the workspace whose people may decide."""
        return self._authority.team

    def verdict(
        self,
        verb: Verb,
        call: Call,
        run: Run,
        person: str,
        *,
        at: datetime,
        involved: Involvement | None = None,
        fresh_editor: bool = False,
    ) -> Verdict:
        """Return whether `person` may do `verb` (approve, reject, edit, …) to this call as of `at`.

        Looks people up. A Yes to approve carries its stage, and the person it is given for if the
        voter is a delegate. `involved`: votes and editors if they were read with the call;
        otherwise they are read here where they matter.
        """
        if fresh_editor:
            involved = Involvement((involved or self._involvement(call)).editors | {person}, ())
        found = self._own(verb, call, run, person, involved, at)
        barred = isinstance(found, No) and found.why in ("not_approver", "not_yet", "enough")
        if barred and verb in DELEGATED and not fresh_editor:
            found = self._for_another(verb, call, run, person, involved, at) or found
        if verb is Verb.APPROVE and isinstance(found, Yes):
            return self._unless_left(run) or found
        return found

    def _unless_left(self, run: Run) -> No | None:
        """Return a No if the requester has no active account any more, or cannot be looked up."""
        try:
            requester = self._authority.directory.person(run.requester)
        except LookupFailedError:
            return No("lookup")
        return No("requester_gone") if requester is None or requester.deleted else None

    def _involvement(self, call: Call) -> Involvement:
        with self._store.read() as tx:
            return calls.involvement(tx, call)

    def _for_another(
        self,
        verb: Verb,
        call: Call,
        run: Run,
        person: str,
        involved: Involvement | None,
        at: datetime,
    ) -> Verdict | None:
        """Return a Yes as the delegate of somebody who may; None if there is nobody.

        Never for a call that this person requested or edited, and no further than one step:
        delegates cannot pass on the right. No("lookup") if somebody could not be looked up.
        """
        with self._store.read() as tx:
            givers = delegations.delegators(tx, self.team, person, at)
        if not givers:
            return None
        involved = involved or self._involvement(call)
        if person in {run.requester, *involved.editors}:
            return None
        spent = {vote.counts_for for vote in involved.votes}
        verdicts: list[Verdict] = []
        # by the right of who has said nothing yet, if there is one
        for giver in sorted(givers, key=spent.__contains__):
            found = self._own(verb, call, run, giver, involved, at)
            if isinstance(found, Yes):
                return replace(found, why=f"for {giver}: {found.why}", giver=giver)
            verdicts.append(found)
        return No("lookup") if No("lookup") in verdicts else None

    def _own(
        self,
        verb: Verb,
        call: Call,
        run: Run,
        person: str,
        involved: Involvement | None,
        at: datetime,
    ) -> Verdict:
        """Return whether the person may do it by their own right, not as a delegate."""
        gate = load_gate(call.gate)
        if not isinstance(gate, Ask):
            return No("not_approver")
        authority, waiting = self._authority, waited(gate, call, at)
        if verb is Verb.RESOLVE:  # whoever could have approved it says what became of it
            return self._any_stage(gate, call, run, person, involved or self._involvement(call), at)
        if verb is Verb.EDIT:
            return authority.may_edit(
                gate, person, requester=run.requester, channel=run.channel, waited=waiting
            )
        if verb in (Verb.REJECT, Verb.SEND_BACK):
            found = authority.may_reject(
                gate, person, requester=run.requester, channel=run.channel, waited=waiting
            )
            asked = verb is Verb.SEND_BACK and person == run.requester
            return Yes(why="requester") if asked and found == No("not_approver") else found
        involved = involved or self._involvement(call)
        known: dict[str, Any] = {
            "requester": run.requester,
            "editors": involved.editors,
            "channel": run.channel,
            "waited": waiting,
        }
        seen = standing(gate, involved.votes)
        if gate.any_order:
            return authority.may_approve_any(gate, person, seen.open, **known)
        verdict = authority.may_approve(gate, person, stage=seen.stage, **known)
        return Yes(seen.stage, verdict.why) if isinstance(verdict, Yes) else verdict

    def may_be_remembered(self, gate: Ask, run: Run, person: str) -> bool:
        """Return whether `person`'s approval under this gate may be saved for later calls.

        Looks people up.
        """
        return may_decide(self._authority, run, gate, person)

    def _any_stage(
        self, gate: Ask, call: Call, run: Run, person: str, involved: Involvement, at: datetime
    ) -> Verdict:
        verdicts = [
            self._authority.may_approve(
                gate,
                person,
                requester=run.requester,
                editors=involved.editors,
                channel=run.channel,
                stage=stage,
                waited=waited(gate, call, at),
            )
            for stage in range(len(gate.stages))
        ]
        return next((each for each in verdicts if isinstance(each, Yes)), verdicts[0])

    def refusal(self, verdict: No, call: Call, verb: Verb) -> str:
        """Return the private sentence for a person who may not do it."""
        match verdict.why:
            case "own_request":
                return refusals.own_request()
            case "own_edit":
                return refusals.own_edit()
            case "lookup":
                return refusals.lookup_failed()
            case "not_yet":
                return refusals.not_yet(self._approvers(call))
            case "enough":
                return refusals.enough(self._approvers(call))
            case "stranger":
                return STRANGER
            case "requester_gone":
                return refusals.requester_gone()
            case _ if verb is Verb.EDIT:
                return refusals.not_an_editor()
            case _:
                return refusals.not_an_approver(self._approvers(call))

    def _approvers(self, call: Call) -> str:
        """Return who could approve the call now, as mentions; a channel's members are not listed.

        The policy's own list when Slack cannot be asked.
        """
        gate = load_gate(call.gate)
        with self._store.read() as tx:
            run = runs.get(tx, call.run_id)
            votes = calls.votes(tx, call.id, call.revision)
        if not isinstance(gate, Ask) or run is None:
            return ""
        who = gate.approvers_in(standing(gate, votes).turn, waited(gate, call, self._clock.now()))
        if who.channel:
            return f"the other members of {channel_mention(run.channel)}"
        try:
            able = self._authority.candidates(
                gate, who, requester=run.requester, channel=run.channel
            ) - {vote.person for vote in votes}
            people = self._authority.first(able, NAMED + 1)
        except LookupFailedError:
            return ", ".join(
                [*(mention(user) for user in gate.approvers.users), *gate.approvers.groups]
            )
        others = " and others" if len(people) > NAMED else ""
        return ", ".join(mention(user) for user in people[:NAMED]) + others

    def lost(self, outcome: Outcome | OpenRevision, person: str) -> str:
        """Return what to tell a person who came too late, and what came first."""
        match outcome:
            case AlreadyDecided(call=call) if call.status is CallStatus.EXPIRED:
                return refusals.too_late(call.deadline)
            case AlreadyDecided(call=call):
                with self._store.read() as tx:
                    votes = calls.votes(tx, call.id, call.revision)
                by = votes[0].person if votes else ""
                verb = votes[0].verb if votes else PAST.get(call.status, "decided")
                if by == person:
                    return refusals.your_own_click(verb)
                return refusals.already_decided(by, verb, call.decided_at)
            case MissedDeadline(call=call):
                return refusals.too_late(call.deadline)
            case RepeatedVote(verb=verb, by=by) if by != person:
                return refusals.said_for_you(by, verb)
            case RepeatedVote(verb=verb):
                return refusals.your_own_click(verb)
            case _:
                return refusals.stale_card()


def own_words(verb: Verb, reason: str) -> bool:
    """Return whether the reason is in the person's own words, not a ready-made rejection reason."""
    return bool(reason.strip()) and not (verb is Verb.REJECT and reason in REASONS.values())


def words_for(call: Call, verb: Verb) -> bool:
    """Return whether the gate requires a reason to approve or reject (`verb`) this call."""
    gate = load_gate(call.gate)
    return isinstance(gate, Ask) and gate.reasons in (verb, "always")
