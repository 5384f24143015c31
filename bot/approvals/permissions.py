"""Whether a person may do something to a call, and the sentence for who may not or came too late.

Looks people up live; serves the loop, which decides, and the dialogs, which check what was
submitted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from bot.approvals.terms.gating import gate_of, standing, waited
from bot.core import Core
from bot.messages import sentences
from bot.messages.forms.form import Parsed
from bot.messages.text import mention
from bot.policy.authority import LookupFailedError, No, Verdict, Yes
from bot.policy.gates import Allow, Ask, Deny, load_gate, stricter
from bot.tools import Preview
from bot.tools.arguments import dump_arguments, load_arguments
from bot.tools.preview import preview
from storage import calls, decisions, outbox, runs
from storage.calls import Shown
from storage.decisions import Decided, Open, Outcome, TooLate, Voted
from storage.models import Call, Run
from storage.states import CallStatus
from storage.transaction import Transaction

NAMED = 10  # people named to who may not decide
PAST = {
    CallStatus.REJECTED: "reject",
    CallStatus.EXPIRED: "expired",
    CallStatus.CANCELLED: "cancel",
    CallStatus.SUPERSEDED: "superseded",
    CallStatus.INVALIDATED: "invalidated",
}


@dataclass(frozen=True, slots=True)
class Edit:
    """A submitted edit, checked and ready to be stored."""

    arguments: str  # canonical JSON
    gate: Ask
    preview: Preview


class Judge:
    """Answers for one process; holds no state of its own."""

    def __init__(self, core: Core) -> None:
        """Needs nothing but the core."""
        self._core = core

    def judge(
        self,
        verb: str,
        call: Call,
        run: Run,
        person: str,
        *,
        at: datetime,
        fresh_editor: bool = False,
    ) -> Verdict:
        """Whether `person` may do `verb` (approve, reject, edit) to this call as of `at`, by live
        look-ups.

        A yes to approve carries the stage in which it is given.
        """
        gate = load_gate(call.gate)
        if not isinstance(gate, Ask):
            return No("not_approver")
        authority, waiting = self._core.authority, waited(call, at)
        if verb == "resolve":  # whoever could have approved it says what became of it
            return self._any_stage(gate, call, run, person, at)
        if verb == "send_back" and person == run.requester:
            return Yes()
        if verb == "edit":
            return authority.may_edit(
                gate, person, requester=run.requester, channel=run.channel, waited=waiting
            )
        if verb in ("reject", "send_back"):
            return authority.may_reject(
                gate, person, requester=run.requester, channel=run.channel, waited=waiting
            )
        with self._core.store.read() as tx:
            editors = calls.editors(tx, call.id) | ({person} if fresh_editor else frozenset())
            votes = [] if fresh_editor else calls.votes(tx, call.id, call.revision)
        stage = standing(gate, votes).stage
        verdict = authority.may_approve(
            gate,
            person,
            requester=run.requester,
            editors=editors,
            channel=run.channel,
            stage=stage,
            waited=waiting,
        )
        return Yes(stage) if isinstance(verdict, Yes) else verdict

    def _any_stage(self, gate: Ask, call: Call, run: Run, person: str, at: datetime) -> Verdict:
        with self._core.store.read() as tx:
            editors = calls.editors(tx, call.id)
        verdicts = [
            self._core.authority.may_approve(
                gate,
                person,
                requester=run.requester,
                editors=editors,
                channel=run.channel,
                stage=stage,
                waited=waited(call, at),
            )
            for stage in range(len(gate.stages))
        ]
        return next((each for each in verdicts if isinstance(each, Yes)), verdicts[0])

    def refusal(self, verdict: No, call: Call, verb: str) -> str:
        """The private sentence for who may not."""
        match verdict.why:
            case "own_request":
                return sentences.own_request()
            case "own_edit":
                return sentences.own_edit()
            case "lookup":
                return sentences.lookup_failed()
            case "not_yet":
                return sentences.not_yet(self._approvers(call))
            case _ if verb == "edit":
                return sentences.not_an_editor()
            case _:
                return sentences.not_an_approver(self._approvers(call))

    def _approvers(self, call: Call) -> str:
        """Who could approve it now, as mentions.

        The policy's own list when Slack cannot be asked.
        """
        gate = load_gate(call.gate)
        with self._core.store.read() as tx:
            run = runs.get(tx, call.run_id)
            votes = calls.votes(tx, call.id, call.revision)
        if not isinstance(gate, Ask) or run is None:
            return ""
        stage, waiting = standing(gate, votes).stage, waited(call, self._core.clock.now())
        try:
            people = self._core.authority.eligible(
                gate, requester=run.requester, channel=run.channel, stage=stage, waited=waiting
            )
        except LookupFailedError:
            return ", ".join(
                [*(mention(user) for user in gate.approvers.users), *gate.approvers.groups]
            )
        people = [user for user in people if user not in {vote.person for vote in votes}]
        named = [mention(user) for user in people[:NAMED]]
        return ", ".join(named) + (
            f" and {len(people) - NAMED} more" if len(people) > NAMED else ""
        )

    def lost(self, outcome: Outcome | Open, person: str) -> str:
        """What to tell who came too late, and by what."""
        match outcome:
            case Decided(call=call) if call.status is CallStatus.EXPIRED:
                return sentences.too_late(call.deadline)
            case Decided(call=call):
                with self._core.store.read() as tx:
                    votes = calls.votes(tx, call.id, call.revision)
                by = votes[0].person if votes else ""
                verb = votes[0].verb if votes else PAST.get(call.status, "decided")
                if by == person:
                    return sentences.your_own_click(verb)
                return sentences.already_decided(by, verb, call.decided_at)
            case TooLate(call=call):
                return sentences.too_late(call.deadline)
            case Voted(verb=verb):
                return sentences.your_own_click(verb)
            case _:
                return sentences.stale_card()

    def edit_of(self, run: Run, shown: Shown, parsed: Parsed) -> Edit | str:
        """A parsed edit with the policy's word on it; a sentence when policy forbids it.

        Where policy says something else of the new arguments than of the old, both gates have to be
        met.
        """
        call, core = shown.call, self._core
        tool = core.tools.tools[call.tool]
        args = load_arguments(tool, json.dumps(parsed.arguments))
        before, now = load_gate(call.gate), gate_of(core, run, tool, args, call=call)
        match now:
            case Deny(reason=reason):
                return f"Policy forbids this: {sentences.said(reason)}"
            case Allow() if isinstance(before, Ask):
                now = before  # what people were asked about is not taken from them by an edit
            case Ask() if isinstance(before, Ask):
                now = stricter(before, now)
            case _:
                pass
        assert isinstance(now, Ask)
        return Edit(dump_arguments(args), now, preview(tool, args))


def words_for(call: Call, verb: str) -> bool:
    """Whether the gate wants to be told why this call is approved or rejected (`verb`)."""
    gate = load_gate(call.gate)
    return isinstance(gate, Ask) and gate.reasons in (verb, "always")


def pending_on(tx: Transaction, value: str) -> list[Call]:
    """The pending calls a button for all of a card is about (`plan:revision:card`).

    None when the plan has changed.
    """
    plan_id, _, rest = value.partition(":")
    revision, _, card = rest.partition(":")
    plan = calls.plan(tx, plan_id)
    if plan is None or str(plan.revision) != revision or not card.isdigit() or len(card) > 18:
        return []
    return decisions.plan_calls(tx, plan, outbox.calls_of(tx, plan_id, int(card)))
