"""The dialogs about calls: to review, edit and reject them, and to send their plan back.

Opened from rows, and checked when they are submitted. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from bot.approvals.call_state import describe_call_effect
from bot.approvals.call_views import build_call_view_for_approvers
from bot.approvals.card_views import describe_people_in_review, is_approvable_on_card
from bot.approvals.dialog_access import DialogAccessChecker, DialogAdmission, DialogRefusal
from bot.approvals.edits import TOOL_CHANGED_ERROR, Edit, EditHandler, ForbiddenEdit, UnchangedEdit
from bot.approvals.hand_overs import HandOverHandler
from bot.approvals.permissions import (
    PermissionChecker,
    is_reason_in_own_words,
    needs_reason,
    reason_required_reply,
)
from bot.cards import button_codec, review_dialog
from bot.cards.action_names import Action, DialogId, InputBlockId
from bot.cards.edit_form import render_edit_dialog
from bot.cards.field_layout import MAX_ERROR_CHARS, WHOLE_FORM, FieldErrors
from bot.cards.sentences import OUTDATED_CARD_REPLY
from bot.cards.views import get_sender_workspace_id
from bot.clock import Clock
from bot.policy.authority import Directory, LookupPendingError, Permission
from bot.policy.gates import Ask, load_gate
from bot.slack.dialogs import DIALOG_PREVIEW_TIMEOUT_SECONDS, PreparedDialog
from bot.slack.directory import format_field_error
from bot.tools import Registry
from bot.tools.arguments import build_readable_arguments, restrict_editable_fields
from storage.calls import CallWithRevision, find_call_with_revision, list_calls_of_plan
from storage.record import Call, Store, Transaction
from storage.states import MODEL_DRIVEN_SOURCES, CallStatus, CallVerb

# what a person must be allowed to do to open the dialog of that button
VERB_BY_ACTION: Mapping[Action, CallVerb] = {
    Action.REVIEW: CallVerb.APPROVE,
    Action.EDIT: CallVerb.EDIT,
    Action.REJECT: CallVerb.REJECT,
    Action.REJECT_ALL: CallVerb.REJECT,
    Action.SEND_BACK: CallVerb.SEND_BACK,
    Action.BREAK_GLASS: CallVerb.BREAK_GLASS,
    Action.OBJECT: CallVerb.OBJECT,
    Action.HAND_OVER: CallVerb.APPROVE,
}


@dataclass(frozen=True, slots=True)
class CallDialogFamily:
    """The dialogs about calls, such as Review and Edit."""

    store: Store
    clock: Clock
    tools: Registry
    directory: Directory
    permissions: PermissionChecker
    edits: EditHandler
    access: DialogAccessChecker
    hand_overs: HandOverHandler

    actions: ClassVar[Collection[Action]] = VERB_BY_ACTION
    dialogs: ClassVar[Collection[DialogId]] = (
        DialogId.REVIEW,
        DialogId.EDIT,
        DialogId.REJECT,
        DialogId.SEND_BACK,
        DialogId.BREAK_GLASS,
        DialogId.OBJECT,
        DialogId.HAND_OVER,
    )

    def prepare_dialog(
        self, click: button_codec.Click, body: dict[str, Any]
    ) -> PreparedDialog | DialogRefusal:
        """Return the dialog that a button asks for, or why this person does not get it.

        Looks people up.
        """
        match click:
            case button_codec.Click(
                action, button_codec.CallTarget() | button_codec.CardTarget() as target
            ):
                person, team = body["user"]["id"], get_sender_workspace_id(body)
                admission = self.access.decide_access(VERB_BY_ACTION[action], target, person, team)
                if isinstance(admission, DialogRefusal):
                    return admission
                if action is Action.HAND_OVER and admission.view_only_reason:
                    return DialogRefusal(admission.view_only_reason)
                return self._build_opening(action, target, admission)
            case _:
                return DialogRefusal(OUTDATED_CARD_REPLY)

    def _build_opening(
        self,
        action: Action,
        target: button_codec.CallTarget | button_codec.CardTarget,
        admitted: DialogAdmission,
    ) -> PreparedDialog | DialogRefusal:
        """Return the dialog built from the rows as they are now; a refusal if the card is stale."""
        run = admitted.run
        with self.store.read() as tx:
            match target:
                case button_codec.CardTarget():
                    dialog = PreparedDialog(
                        self._render_reject_all_form(tx, target, admitted.calls)
                    )
                case button_codec.CallTarget():
                    shown = find_call_with_revision(tx, target.call)
                    if shown is None or shown.revision.number != target.revision:
                        return DialogRefusal(OUTDATED_CARD_REPLY)
                    if action is Action.EDIT and not self.tools.find_tool_as_shown(shown.call):
                        return DialogRefusal(TOOL_CHANGED_ERROR)
                    dialog = self._build_call_opening(tx, action, target, shown, admitted)
        return replace(
            dialog,
            view=button_codec.add_thread_to_metadata(dialog.view, run.channel, run.thread_ts),
        )

    def _build_call_opening(
        self,
        tx: Transaction,
        action: Action,
        target: button_codec.CallTarget,
        shown: CallWithRevision,
        by: DialogAdmission,
    ) -> PreparedDialog:
        call = shown.call
        match action:
            case Action.REVIEW:
                full_view = build_call_view_for_approvers(self.tools, tx, shown)
                bar = format_field_error(self.directory, by.view_only_reason)
                requester_text, approvers_text = describe_people_in_review(
                    tx, by.run, call, self.clock.now()
                )
                view = review_dialog.render_review_dialog(
                    full_view, asked=requester_text, bar=bar, approvers=approvers_text
                )
                return PreparedDialog(view, call, bool(full_view.masked_pieces), not bar)
            case Action.BREAK_GLASS:
                full_view = build_call_view_for_approvers(self.tools, tx, shown)
                view = review_dialog.render_break_glass_dialog(full_view)
                return PreparedDialog(view, call, bool(full_view.masked_pieces))
            case Action.OBJECT:
                title = describe_call_effect(self.tools, tx, call)
                return PreparedDialog(review_dialog.render_objection_dialog(target, title))
            case Action.REJECT:
                view = review_dialog.render_reject_dialog(
                    target,
                    count=1,
                    title=describe_call_effect(self.tools, tx, call),
                    needs_words=needs_reason(call, CallVerb.REJECT),
                    by_agent=by.run.source in MODEL_DRIVEN_SOURCES,
                )
                return PreparedDialog(view)
            case Action.HAND_OVER:
                title = describe_call_effect(self.tools, tx, call)
                return PreparedDialog(review_dialog.render_hand_over_dialog(target, title=title))
            case Action.SEND_BACK:
                title = self._describe_pending_calls(tx, call)
                return PreparedDialog(review_dialog.render_send_back_dialog(target, title=title))
            case _:
                # the edit form shows the arguments, but neither the preview nor the agent's words
                covered = review_dialog.list_masked_value_labels(
                    build_call_view_for_approvers(self.tools, tx, shown)
                )
                view = self._render_edit_form(tx, shown, covered)
                return PreparedDialog(view, call, bool(covered), is_to_decide=True)

    def _describe_pending_calls(self, tx: Transaction, call: Call) -> str:
        """Return one line for each pending call of this call's plan: what it would do."""
        plan = list_calls_of_plan(tx, call.plan_id)
        waiting = [each for each in plan if each.status is CallStatus.PENDING]
        return "\n".join(describe_call_effect(self.tools, tx, each) for each in waiting)

    def _render_edit_form(
        self, tx: Transaction, shown: CallWithRevision, covered: Sequence[str]
    ) -> dict[str, Any]:
        call, gate = shown.call, load_gate(shown.call.gate)
        tool = self.tools.get_call_tool_even_if_off(call)
        counts = isinstance(gate, Ask) and gate.editor_counts
        can_approve_here = counts and is_approvable_on_card(self.tools, tx, call, self.clock.now())
        return render_edit_dialog(
            restrict_editable_fields(tool, gate),
            build_readable_arguments(tool, shown.revision.arguments),
            target=button_codec.CallTarget(call.id, call.revision),
            save_and_approve=can_approve_here,
            covered=covered,
        )

    def _render_reject_all_form(
        self, tx: Transaction, target: button_codec.CardTarget, pending: Sequence[Call]
    ) -> dict[str, Any]:
        title = "\n".join(describe_call_effect(self.tools, tx, call) for call in pending)
        needs = any(needs_reason(call, CallVerb.REJECT) for call in pending)
        return review_dialog.render_reject_dialog(
            target, count=len(pending), title=title, needs_words=needs
        )

    def validate_submission(
        self, subject: button_codec.DialogSubject, body: dict[str, Any]
    ) -> dict[str, str]:
        """Return the errors of a submission by block id; {} if it may be stored."""
        match subject:
            case button_codec.DialogSubject(
                DialogId.REJECT, button_codec.CallTarget() | button_codec.CardTarget() as target
            ):
                reason = review_dialog.parse_rejection_reason(body["view"]["state"]["values"])
                if isinstance(reason, dict):
                    return reason
                return self._validate_permission(CallVerb.REJECT, target, body)
            case button_codec.DialogSubject(
                DialogId.SEND_BACK | DialogId.REVIEW as dialog, button_codec.CallTarget() as target
            ):
                verb = CallVerb.APPROVE if dialog is DialogId.REVIEW else CallVerb.SEND_BACK
                return self._validate_permission(verb, target, body)
            case button_codec.DialogSubject(
                (DialogId.BREAK_GLASS | DialogId.OBJECT) as name,
                button_codec.CallTarget() as target,
            ):
                words = review_dialog.parse_entered_words(body["view"]["state"]["values"])
                if not is_reason_in_own_words(CallVerb(name), words):
                    return {InputBlockId.WORDS: reason_required_reply(CallVerb(name))}
                return self._validate_permission(CallVerb(name), target, body)
            case button_codec.DialogSubject(
                DialogId.HAND_OVER, button_codec.CallTarget() as target
            ):
                return self._validate_hand_over(target, body)
            case button_codec.DialogSubject(DialogId.EDIT, button_codec.CallTarget() as target):
                return self._validate_edit(target, body)
            case _:
                return {}

    def _validate_hand_over(
        self, target: button_codec.CallTarget, body: dict[str, Any]
    ) -> dict[str, str]:
        block, person = InputBlockId.ASSIGNEE, body["user"]["id"]
        if refused := self._validate_permission(CallVerb.APPROVE, target, body):
            return refused
        state, now = body["view"]["state"]["values"], self.clock.now()
        found = self.hand_overs.judge_hand_over(target, person, state, now)
        return {block: format_field_error(self.directory, found)} if isinstance(found, str) else {}

    def _validate_edit(
        self, target: button_codec.CallTarget, body: dict[str, Any]
    ) -> dict[str, str]:
        view, person = body["view"], body["user"]["id"]
        if refused := self._validate_permission(CallVerb.EDIT, target, body):
            return refused
        now, state = self.clock.now(), view["state"]["values"]
        try:
            read = self.edits.parse_edit(
                target.call,
                target.revision,
                state,
                person,
                at=now,
                patience=DIALOG_PREVIEW_TIMEOUT_SECONDS,
            )
        except LookupPendingError:  # the tool is slow: the loop waits for it, and reports problems
            return {}
        match read:
            case ForbiddenEdit(sentence=sentence):
                return {WHOLE_FORM: format_field_error(self.directory, sentence)}
            case FieldErrors(errors=errors):
                return errors
            case Edit(approve=True) | UnchangedEdit(approve=True) as submitted:
                return self._validate_approval(submitted, person)
            case _:
                return {}

    def _validate_approval(self, submitted: Edit | UnchangedEdit, person: str) -> dict[str, str]:
        call, edited = submitted.shown.call, isinstance(submitted, Edit)
        verdict = self.permissions.judge_action(
            CallVerb.APPROVE, call, submitted.run, person, at=self.clock.now(), fresh_editor=edited
        )
        if isinstance(verdict, Permission):
            return {}
        text = self.permissions.refusal_sentence(verdict, call, CallVerb.APPROVE)
        self._record_refusal(DialogRefusal(text, call, verdict), person, DialogId.EDIT)
        why = format_field_error(self.directory, text, MAX_ERROR_CHARS)
        return {InputBlockId.APPROVE_TOO: why}

    def _validate_permission(
        self,
        verb: CallVerb,
        target: button_codec.CallTarget | button_codec.CardTarget,
        body: dict[str, Any],
    ) -> dict[str, str]:
        """Return why the person may not do this to the call, as an error of the form; else {}."""
        person = body["user"]["id"]
        match self.access.decide_access(verb, target, person, get_sender_workspace_id(body)):
            case DialogRefusal() as turned:
                self._record_refusal(turned, person, body["view"]["callback_id"])
                return {WHOLE_FORM: format_field_error(self.directory, turned.sentence)}
            case DialogAdmission(view_only_reason=bar) if bar:
                return {WHOLE_FORM: format_field_error(self.directory, bar)}
            case _:
                return {}

    def _record_refusal(self, turned: DialogRefusal, person: str, dialog: str) -> None:
        with self.store.write() as tx:
            self.access.record_refused_access(tx, turned, person, dialog)
