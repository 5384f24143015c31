"""Advances runs that came from a form or a program, without asking the model.

The run's one call is proposed by the same code as an agent's. Once it has ended, the thread is
informed of the outcome, unless another message there says it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bot.agent import prompt
from bot.agent.turn import FunctionCall, PlannerError
from bot.approvals.call_state import describe_revision_effect
from bot.approvals.form_requests import FilledForm, FormReader, FormRefusal
from bot.cards import sentences
from bot.cards.button_codec import DialogSubject, FormTarget, decode_dialog_subject
from bot.cards.field_layout import FieldErrors
from bot.cards.request_form import quoted_message_line
from bot.policy.authority import LookupFailedError
from bot.runs import plans
from bot.runs.ports import Presence, announce_run_waits
from bot.runs.proposals import ProposalPreparer
from bot.runs.results import post_outcome_unless_posted
from bot.signals import Signals
from storage import calls, inbox, moves, outbox, runs
from storage.record import Call, Delivery, Plan, Run
from storage.states import DeliveryKind, RunSource, RunStatus

NAMES_UNAVAILABLE_ERROR = "Slack could not be asked for the names in your form just now."


@dataclass(frozen=True, slots=True)
class DirectCall:
    """A call requested by a form or a program instead of the agent."""

    tool: str
    values: dict[str, Any]
    reason_for_approver: str
    audit_data: dict[str, Any]
    quoted: str = ""  # the message that the call is about
    action: str = ""  # a program's description of the call, if it executes it itself
    # time to decide, if shorter than the gate's deadline
    decide_within_seconds: float | None = None


class DirectCallTurnTaker:
    """Advances runs of forms and programs, which need no model; one per worker, without state."""

    def __init__(
        self,
        signals: Signals,
        *,
        proposals: ProposalPreparer,
        entries: FormReader,
        presence: Presence,
    ) -> None:
        """`entries` reads submitted forms; `proposals` validates the call and applies policy."""
        self._store = proposals.sources.store
        self._clock = proposals.sources.clock
        self._tools = proposals.tools
        self._signals = signals
        self._proposals = proposals
        self._entries = entries
        self._presence = presence

    def take_turn(self, run: Run, _waiting: Sequence[Call] = ()) -> bool:
        """Propose the requested call or, if that is done, end the run; return whether to go on.

        Raises PlannerError if Slack cannot be asked, moves.StaleFenceError if the run was taken
        away.
        """
        with self._store.read() as tx:
            submitted = inbox.list_messages_held_for_run(tx, run.id)
        if not submitted:
            return self._end_run(run)
        self._presence.show_working(run)
        match self._read_request(run, submitted[0]):
            case DirectCall() as wanted:
                return self._propose_call(run, submitted[0], wanted)
            case FormRefusal(sentence=sentence):
                return self._decline_form(run, submitted[0], sentence)
            case FieldErrors(errors=errors):
                why = next(iter(errors.values()), "")
                decline_text = (
                    sentences.request_not_made_reply(why) if why else sentences.FORM_CHANGED_REPLY
                )
                return self._decline_form(run, submitted[0], decline_text)

    def _read_request(self, run: Run, delivery: Delivery) -> DirectCall | FieldErrors | FormRefusal:
        if delivery.kind is DeliveryKind.PROGRAM:
            request_body = json.loads(delivery.body)
            birth: dict[str, Any] = {"program": True} if run.source is RunSource.PROGRAM else {}
            birth |= {"client": run.client} if run.client else {}
            return DirectCall(
                request_body["tool"],
                request_body["arguments"],
                request_body["why"],
                birth,
                action=request_body.get("action", ""),
                decide_within_seconds=request_body.get("within"),
            )
        match self._read_form(run, delivery):
            case FilledForm() as entry:
                return DirectCall(
                    entry.tool.name,
                    entry.filled.values,
                    entry.filled.reason,
                    {"form": entry.form.title},
                    entry.target.form_context.quoted,
                )
            case found:
                return found

    def _read_form(self, run: Run, delivery: Delivery) -> FilledForm | FieldErrors | FormRefusal:
        view = json.loads(delivery.body)["view"]
        match decode_dialog_subject(view):
            case DialogSubject(target=FormTarget() as target):
                try:
                    return self._entries.read_form_without_member_check(
                        target, run.requester, view["state"]["values"]
                    )
                except LookupFailedError as error:
                    raise PlannerError(NAMES_UNAVAILABLE_ERROR) from error
            case _:
                return FormRefusal(sentences.FORM_CHANGED_REPLY)

    def _propose_call(self, run: Run, delivery: Delivery, spec: DirectCall) -> bool:
        now = self._clock.now()
        row = Plan(run_id=run.id, turn=run.turns + 1, created_at=now)
        function_call = FunctionCall("", spec.tool, json.dumps(spec.values), 0)
        prepared = self._proposals.prepare_calls(
            run, row.id, [function_call], frozenset(), spec.action
        )
        for each in prepared:
            call, each.call.reason = each.call, spec.reason_for_approver
            if call.deadline is not None and spec.decide_within_seconds is not None:
                call.deadline = min(
                    call.deadline, now + timedelta(seconds=spec.decide_within_seconds)
                )
            each.audit_data |= spec.audit_data
        waits = plans.should_wait_for_people(prepared)
        with self._store.write(durable=False) as tx:
            asks = plans.needs_approval_or_answer(prepared)
            current_run = runs.add_turn_to_counters(
                tx, run, tokens=0, calls=len(prepared), cards=asks
            )
            effect = self._effect_text(prepared)
            runs.append_transcript_item(
                tx, current_run, prompt.build_form_request_item(run.requester, effect), at=now
            )
            if spec.quoted:
                quoted_line, who = quoted_message_line(spec.quoted), run.requester
                runs.append_transcript_item(
                    tx, current_run, prompt.build_request_item(who, who, quoted_line, now), at=now
                )
            plans.store_plan(tx, self._tools, row, prepared, actor=run.requester)
            inbox.mark_delivery_done(tx, delivery, "asked")
            plans.post_plan_cards(tx, current_run, row.id, prepared)
            if waits and not moves.change_run_status(
                tx, current_run, RunStatus.WAITING, at=now, fence=run.fence
            ):
                raise moves.StaleFenceError(run.id)
        if waits:
            announce_run_waits(run, self._signals, self._presence)
        else:
            self._signals.outbox.notify()
        return not waits

    def _effect_text(self, prepared: list[plans.PreparedCall]) -> str:
        found = (
            describe_revision_effect(self._tools, p.call, p.revision)
            for p in prepared
            if p.revision
        )
        return next(found, prepared[0].call.tool)

    def _decline_form(self, run: Run, delivery: Delivery, sentence: str) -> bool:
        """Post why the form's request cannot be made; return True, as the run has yet to end."""
        with self._store.write() as tx:
            held = runs.get_run_with_fence(tx, run.id, run.fence)
            outbox.queue_notice(tx, held, f"declined:{delivery.seq}", {"text": sentence})
            inbox.mark_delivery_done(tx, delivery, "declined")
        return True

    def _end_run(self, run: Run) -> bool:
        with self._store.write(durable=False) as tx:
            held = runs.get_run_with_fence(tx, run.id, run.fence)
            for call in calls.list_calls_of_run(tx, run.id):
                post_outcome_unless_posted(tx, self._tools, held, call)
            now = self._clock.now()
            if not moves.change_run_status(tx, held, RunStatus.COMPLETED, at=now, fence=run.fence):
                raise moves.StaleFenceError(run.id)
        self._presence.show_done(run)
        self._signals.outbox.notify()
        return False
