"""Edits of calls: reading what was submitted, checking it and storing it.

A submitted dialog is checked at once, for errors at its fields (`EditHandler.parse_edit`), and
once more when the loop stores it: data, people and policy may have changed in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from json import dumps, loads
from typing import Any

from pydantic import BaseModel

from bot.approvals.call_checks import CallRefusedError, explain_incomplete_display
from bot.approvals.call_gates import PolicyFactSources, allow_full_preview_in_thread, compute_gate
from bot.approvals.call_state import (
    build_tool_context,
    compute_call_digest,
    copy_call_with_gate,
    dump_preview_to_call_columns,
    find_next_notification_time,
)
from bot.approvals.call_views import build_edit_notice
from bot.approvals.card_routing import CardPlace, find_place_under_new_gate, move_call_to_place
from bot.approvals.permissions import DeliverySettler, PermissionChecker, reply_privately
from bot.approvals.votes import VoteHandler
from bot.cards.button_codec import CallTarget, Click, DialogSubject
from bot.cards.edit_form import ParsedEdit, parse_edit_submission
from bot.cards.field_layout import FieldErrors, place_form_error
from bot.cards.sentences import (
    LOOKUP_FAILED_REPLY,
    edit_not_saved_reply,
    policy_forbids_sentence,
    too_few_approvers_after_edit_reply,
)
from bot.policy.authority import Authority, Denial, LookupFailedError
from bot.policy.gates import Ask, Deny, combine_gates, dump_gate, load_gate
from bot.tools import Preview, Registry, Tool, ToolError
from bot.tools.arguments import (
    build_readable_arguments,
    dump_arguments,
    load_arguments,
    load_new_arguments,
    restrict_editable_fields,
)
from bot.tools.names import SlackIdResolver
from bot.tools.preview import PreviewRunner
from storage import calls, decisions, inbox, outbox, runs
from storage.record import Call, Delivery, Run, Transaction
from storage.states import CallVerb


@dataclass(frozen=True, slots=True)
class Edit:
    """A submitted edit, checked and ready to be stored."""

    run: Run
    shown: calls.CallWithRevision  # as it was when the edit was checked
    arguments: str  # canonical JSON
    gate: Ask
    preview: Preview
    approve: bool  # the editor also wants to approve it
    names: str  # names by id, for the ids in the arguments, as JSON

    @property
    def is_also_approval(self) -> bool:
        """Return whether saving also approves: the editor chose so and saw the new preview."""
        call, new = self.shown.call, self.preview
        same = (new.text, new.expects) == (call.preview, call.expects)
        return self.approve and (same or not new.text.strip())

    def build_edited_call(self) -> Call:
        """Return the call as it will be after the edit, as far as it matters for permissions."""
        return copy_call_with_gate(self.shown.call, self.gate)


@dataclass(frozen=True, slots=True)
class UnchangedEdit:
    """A submitted Edit dialog that changes nothing."""

    run: Run
    shown: calls.CallWithRevision
    approve: bool


@dataclass(frozen=True, slots=True)
class ForbiddenEdit:
    """An edit that is not allowed; the sentence is for its editor."""

    sentence: str


UNREADABLE_VALUES_ERROR = "The tool cannot read these values again once they are stored."
TOOL_CHANGED_ERROR = (
    "This cannot be edited: its tool has changed since it was asked, or is no longer there, so it "
    "would not run. Reject it, and ask again if it is still needed."
)
CHECK_PREVIEW_FIRST_REPLY = "Saved, but not approved yet: check the new preview on the card first."
Submission = Edit | UnchangedEdit | FieldErrors | ForbiddenEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class EditHandler:
    """Parses edits (on any thread) and stores them (on the loop only). One per process."""

    sources: PolicyFactSources
    authority: Authority
    tools: Registry
    permissions: PermissionChecker  # says who may edit
    key: bytes = field(repr=False)  # signs digests
    previews: PreviewRunner
    wake: Callable[[], None]  # called when a late preview has arrived

    def parse_edit(
        self,
        call_id: str,
        revision: int,
        state: dict[str, Any],
        person: str,
        *,
        at: datetime,
        patience: float = 0,
    ) -> Submission:
        """Return the submitted edit, checked, or why it may not be stored. Looks people up.

        `state`: the values of the dialog's elements. `patience`: seconds to wait for the tool's
        preview.
        """
        with self.sources.store.read() as tx:
            check_result = decisions.check_revision_is_decidable(tx, call_id, revision, at)
            is_open = isinstance(check_result, decisions.DecidableCall)
            stored = calls.find_call_with_revision(tx, call_id) if is_open else None
            run = runs.get_run(tx, stored.call.run_id) if stored else None
        if stored is None or run is None:
            return ForbiddenEdit(self.permissions.too_late_sentence(check_result, person))
        if (tool := self.tools.find_tool_as_shown(stored.call)) is None:
            return ForbiddenEdit(TOOL_CHANGED_ERROR)
        verdict = self.permissions.judge_action(CallVerb.EDIT, stored.call, run, person, at=at)
        if isinstance(verdict, Denial):
            refusal = self.permissions.refusal_sentence(verdict, stored.call, CallVerb.EDIT)
            return ForbiddenEdit(refusal)
        editable = restrict_editable_fields(tool, load_gate(stored.call.gate))
        before = build_readable_arguments(tool, stored.revision.arguments)
        names = SlackIdResolver(self.sources.directory, run.requester)
        parsed = _parse_form(editable, before, state, names)
        if not isinstance(parsed, ParsedEdit):
            return parsed
        if not parsed.changed:
            return UnchangedEdit(run, stored, parsed.approve)
        args = load_arguments(tool, dumps(parsed.arguments))
        if isinstance(now := self._compute_gate(run, stored, tool, args), ForbiddenEdit):
            return now
        if short := self._find_approver_shortage(run, stored.call, now, person):
            return short
        try:
            preview = self._preview_edit(run, stored, tool, args, patience)
        except ToolError as error:
            return place_form_error(editable, before, str(error), error.field)
        names_by_id, arguments = loads(stored.call.names) | names.names_by_id, dump_arguments(args)
        if why := _describe_hidden_content(tool, stored, arguments, names_by_id, preview):
            return place_form_error(editable, before, why)
        return Edit(run, stored, arguments, now, preview, parsed.approve, dumps(names_by_id))

    def _find_approver_shortage(
        self, run: Run, call: Call, gate: Ask, person: str
    ) -> ForbiddenEdit | None:
        """Return a refusal if too few people could approve the call after this person's edit.

        None if there are enough. Looks people up.
        """
        with self.sources.store.read() as tx:
            editors = calls.list_editors(tx, call.id) | {person}
        try:
            short = self.authority.count_missing_approvers(
                gate, requester=run.requester, channel=run.channel, editors=editors
            )
        except LookupFailedError:
            return ForbiddenEdit(LOOKUP_FAILED_REPLY)
        return (
            ForbiddenEdit(too_few_approvers_after_edit_reply(gate.required_approvers))
            if short > 0
            else None
        )

    def _preview_edit(
        self,
        run: Run,
        shown: calls.CallWithRevision,
        tool: Tool[Any],
        args: BaseModel,
        patience: float,
    ) -> Preview:
        """Return the tool's preview of the edited call.

        Raises ToolError if it would fail, LookupPendingError while the tool is being asked.
        """
        call, now = shown.call, self.sources.clock.now()
        preview = self.previews.get_or_start_edit_preview(
            tool,
            args,
            build_tool_context(run, call, now),
            (call.id, call.revision, dump_arguments(args)),
            patience=patience,
            then=self.wake,
        )
        return allow_full_preview_in_thread(self.sources, run, preview)

    def _compute_gate(
        self, run: Run, shown: calls.CallWithRevision, tool: Tool[Any], args: BaseModel
    ) -> Ask | ForbiddenEdit:
        """Return the gate of the edited call, or a refusal if policy denies it.

        If policy gives another gate to the new arguments than to the old, both gates have to be
        met.
        """
        call = shown.call
        before, now = load_gate(call.gate), compute_gate(self.sources, run, tool, args, call=call)
        if isinstance(now, Deny):
            return ForbiddenEdit(policy_forbids_sentence(now.reason))
        assert isinstance(before, Ask)  # a call with any other gate cannot be edited
        # an edit does not take the decision from the people who were asked about the call
        return combine_gates(before, now) if isinstance(now, Ask) else before

    def store_edit(
        self, tx: Transaction, delivery: Delivery, edit: Edit, place: CardPlace | None
    ) -> Call | None:
        """Store an edit, and return the edited call; the caller marks the delivery as handled.

        `place`: where other people are asked about it now; None if it stays on its card. If the
        edit comes too late, its editor is told so, the delivery is marked as handled, and None is
        returned.
        """
        call = edit.shown.call
        self.previews.discard_edit_preview((call.id, call.revision, edit.arguments))
        outcome = decisions.apply_edit(
            tx,
            call.id,
            call.revision,
            delivery.user,
            at=delivery.received_at,
            **self._build_revision_columns(edit, delivery.received_at),
        )
        if not isinstance(outcome, decisions.AppliedDecision):
            reply_privately(
                tx, delivery, self.permissions.too_late_sentence(outcome, delivery.user)
            )
            inbox.mark_delivery_done(tx, delivery, "the edit came too late")
            return None
        if place is not None:
            move_call_to_place(tx, edit.run, outcome.call, edit.gate, place)
        line = build_edit_notice(self.tools, tx, call.id, delivery.user, edit.run.requester)
        to = {edit.run.requester} - {delivery.user}
        key = f"edited:{delivery.seq}"
        outbox.queue_notice(tx, edit.run, key, {"text": line}, notified=to)
        return outcome.call

    def _build_revision_columns(self, edit: Edit, at: datetime) -> dict[str, Any]:
        call, gate = edit.shown.call, dump_gate(edit.gate)
        if load_gate(call.gate) == edit.gate:  # an earlier version may have stored a longer form
            gate = call.gate
        tool, preview = self.tools.get_call_tool_even_if_off(call), edit.preview
        deadline = edit.gate.compute_due_time(at, edit.gate.deadline)
        return {
            "arguments": edit.arguments,
            "secret": tool.list_secret_paths(loads(edit.arguments)),
            "digest": compute_call_digest(
                self.key,
                edit.run,
                tool,
                edit.arguments,
                gate=gate,
                revision=call.revision + 1,
                expects=preview.expects,
                key_id=call.key_id,
            ),
            "gate": gate,
            "deadline": min(deadline, call.deadline) if call.deadline else deadline,
            **dump_preview_to_call_columns(preview),
            "names": edit.names,
            "next_at": find_next_notification_time(edit.gate, call.asked_at or call.created_at),
        }


def _parse_form(
    tool: Tool[Any], before: dict[str, Any], state: dict[str, Any], names: SlackIdResolver
) -> ParsedEdit | FieldErrors | ForbiddenEdit:
    """Return what was entered, or its errors, such as values that could not be read once stored."""
    try:
        parsed = parse_edit_submission(tool, before, state, names)
        if isinstance(parsed, ParsedEdit) and parsed.changed:
            load_new_arguments(tool, dumps(parsed.arguments))
    except LookupFailedError:
        return ForbiddenEdit(LOOKUP_FAILED_REPLY)
    except ValueError:  # the tool's model cannot read what it has serialised
        return place_form_error(tool, before, UNREADABLE_VALUES_ERROR)
    return parsed


def _describe_hidden_content(
    tool: Tool[Any],
    shown: calls.CallWithRevision,
    arguments: str,
    names: dict[str, str],
    seen: Preview,
) -> str:
    """Return why approvers could not be shown all of an edit; "" if they can."""
    before, reason = shown.revision.arguments, shown.call.reason
    return explain_incomplete_display(
        tool, arguments, names, preview=seen.text, reason=reason, before=before
    )


@dataclass(frozen=True, slots=True)
class EditSubmissionHandler:
    """Handles submitted Edit dialogs. One per process; called on the loop only."""

    edits: EditHandler
    votes: VoteHandler
    replies: DeliverySettler

    def handle_edit(
        self, delivery: Delivery, asked: Click | DialogSubject, payload: dict[str, Any]
    ) -> None:
        """Do what a submitted Edit dialog asks for, and mark its delivery as handled."""
        target, at = asked.target, delivery.received_at
        assert isinstance(target, CallTarget)
        state = payload["view"]["state"]["values"]
        match self.edits.parse_edit(target.call, target.revision, state, delivery.user, at=at):
            case ForbiddenEdit(sentence=sentence):
                self.replies.refuse_click(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the dialog was checked
                why = next(iter(errors.values()), "")
                self.replies.refuse_click(delivery, edit_not_saved_reply(why))
            case UnchangedEdit(approve=True):
                self.votes.cast_votes(delivery, [target], CallVerb.APPROVE)
            case UnchangedEdit():
                self.replies.settle_silently(delivery, "an edit that changes nothing")
            case Edit() as edit:
                self._store_edit(delivery, edit)

    def _store_edit(self, delivery: Delivery, edit: Edit) -> None:
        """Store an edit, with its editor's approval if the edit is also one: both or neither."""
        admission = None
        if edit.is_also_approval:
            call = edit.build_edited_call()
            admission = self.votes.admit_editor_as_voter(delivery, call, edit.run)
        try:
            place = find_place_under_new_gate(
                self.edits.authority, edit.run, edit.shown.call, edit.gate
            )
        except CallRefusedError as refused:
            self.replies.refuse_click(delivery, f"Nobody could approve that: {refused.note}.")
            return
        with self.replies.store.write() as tx:
            edited = self.edits.store_edit(tx, delivery, edit, place)
            if edited is not None and admission is not None:
                self.votes.approve_edited_call(tx, delivery, edited, admission)
            elif edited is not None:
                reply_privately(tx, delivery, CHECK_PREVIEW_FIRST_REPLY if edit.approve else "")
                inbox.mark_delivery_done(tx, delivery, "edited")
