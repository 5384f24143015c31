"""Opening of dialogs from rows, and checks of submitted ones: about calls, and of other families.

Nothing is decided here: a valid submission is stored for the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from bot.approvals.call_state import describe_call_effect
from bot.approvals.call_views import build_full_call_view
from bot.approvals.card_views import is_approvable_on_card
from bot.approvals.dialog_access import DialogAccess, DialogAdmission, DialogRefusal
from bot.approvals.edits import Edit, EditHandler, ForbiddenEdit, UnchangedEdit
from bot.approvals.permissions import PermissionChecker, needs_reason
from bot.cards import button_codec, refusals, review_dialog
from bot.cards.action_names import Action, DialogId, InputBlockId
from bot.cards.block_kit import Json
from bot.cards.call_pieces import PieceKind
from bot.cards.edit_form import FieldErrors, render_edit_dialog
from bot.cards.views import get_sender_workspace_id
from bot.clock import Clock
from bot.policy.authority import Directory, LookupPendingError, Permission
from bot.policy.gates import Ask, load_gate
from bot.signals import Signal
from bot.slack.client import classify_error, get_valid_error_code
from bot.slack.directory import format_field_error
from bot.tools import Registry
from bot.tools.arguments import build_readable_arguments, restrict_editable_fields
from storage import calls, outbox, runs
from storage.calls import CallWithRevision
from storage.models import Call
from storage.states import CallStatus, CallVerb
from storage.store import Store
from storage.transaction import Transaction

# The interface of each kind of dialog: how it is opened and checked.


@dataclass(frozen=True, slots=True)
class DialogOpening:
    """A dialog to open for a person who may use it."""

    view: Json
    call: Call | None = None  # the one that it shows all of
    reveals: bool = False  # it shows more of that call than the card does


def get_view_or_refusal_sentence(found: DialogOpening | DialogRefusal) -> Json | str:
    """Return the view of the dialog to open, or the sentence that says why there is none."""
    return found.view if isinstance(found, DialogOpening) else found.sentence


def dialog_error_sentence(error: Exception) -> str:
    """Return the sentence (mrkdwn) for the person who clicked, from the error at opening."""
    if not isinstance(error, SlackApiError):
        return refusals.dialog_not_opened_reply("")
    return refusals.dialog_not_opened_reply(get_valid_error_code(error), classify_error(error))


class DialogFamily(Protocol):
    """Dialogs of one kind; called on listener threads. It decides nothing."""

    @property
    def actions(self) -> Collection[Action]:
        """The buttons that open one of these dialogs; `button_codec.OPENS_DIALOG` has them, too."""
        ...

    @property
    def dialogs(self) -> Collection[DialogId]:
        """The dialogs that are checked here; `ClickDispatcher` decides about their submissions."""
        ...

    def prepare_dialog(
        self, click: button_codec.Click, body: dict[str, Any]
    ) -> DialogOpening | DialogRefusal:
        """Return the dialog that a button asks for, or why this person does not get it.

        `body` is the block_actions payload. May look people up, for two seconds.
        """
        ...

    def validate_submission(
        self, subject: button_codec.DialogSubject, body: dict[str, Any]
    ) -> dict[str, str]:
        """Return the errors of a submission by block id; {} if it may be stored.

        `body` is the view_submission payload. May look people up, for a second and a half.
        """
        ...


log = logging.getLogger("countersign.dialogs")
# seconds that a submitted edit may wait for the tool's preview; the loop waits for the rest
PATIENCE = 1.0
# what a person has to be allowed to do for the dialog of that button
VERBS: Mapping[Action, CallVerb] = {
    Action.REVIEW: CallVerb.APPROVE,
    Action.EDIT: CallVerb.EDIT,
    Action.REJECT: CallVerb.REJECT,
    Action.REJECT_ALL: CallVerb.REJECT,
    Action.SEND_BACK: CallVerb.SEND_BACK,
}


class DialogHandler:
    """The opening and checking of all dialogs; called on listener threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        directory: Directory,
        post: Signal,
        permissions: PermissionChecker,
        edits: EditHandler,
        families: Sequence[DialogFamily] = (),
    ) -> None:
        """`permissions` says who may do what, `edits` reads submitted edits.

        `families` handle the dialogs that are not about a decision on a call.
        """
        self._store = store
        self._clock = clock
        self._tools = tools
        self._directory = directory
        self._post = post
        self._permissions = permissions
        self._edits = edits
        self._access = DialogAccess(store, clock, permissions)
        self._opens = {action: family for family in families for action in family.actions}
        self._checks = {dialog: family for family in families for dialog in family.dialogs}

    def prepare_dialog(self, body: dict[str, Any]) -> DialogOpening | DialogRefusal:
        """Return the dialog that a button asks for, or why this person does not get it.

        Looks people up.
        """
        try:
            return self._prepare_dialog(body)
        except Exception as error:
            log.exception("dialog %s: %s", body["actions"][0]["action_id"], error)
            return DialogRefusal(refusals.trigger_expired_reply())

    def _prepare_dialog(self, body: dict[str, Any]) -> DialogOpening | DialogRefusal:
        match button_codec.decode_clicked_element(body["actions"][0]):
            case button_codec.Click(action) as click if action in self._opens:
                return self._opens[action].prepare_dialog(click, body)
            case button_codec.Click(
                action, button_codec.CallTarget() | button_codec.CardTarget() as target
            ) if action in VERBS:
                person, team = body["user"]["id"], get_sender_workspace_id(body)
                found = self._access.decide_access(VERBS[action], target, person, team)
                if isinstance(found, DialogRefusal):
                    return found
                return self._build_opening(action, target, found)
            case _:
                return DialogRefusal(refusals.outdated_card_reply())

    def open_or_refuse_dialog(
        self, client: WebClient, body: dict[str, Any], found: DialogOpening | DialogRefusal
    ) -> None:
        """Open the dialog, or tell the person privately why not.

        That the person was shown the call is stored before it opens.
        """
        action, person = body["actions"][0], body["user"]["id"]
        name = _get_dialog_name(action)
        match found:
            case DialogRefusal(sentence=told):
                pass
            case DialogOpening(view=view, call=call, reveals=reveals):
                try:
                    if call is not None:
                        with self._store.write() as tx:
                            self._access.record_call_shown(tx, call, person, name, more=reveals)
                    _open_or_replace_view(client, body, view)
                    return
                except Exception as error:  # noqa: BLE001 - the person is told, and may try again
                    log.warning("dialog %s for %s: %s", name, person, error)
                    told = dialog_error_sentence(error)
        channel = (body.get("channel") or {}).get("id") or person
        message = body.get("message") or {}
        with self._store.write() as tx:
            if isinstance(found, DialogRefusal):
                self._access.record_refused_access(tx, found, person, name)
            key = f"dialog:{person}:{action.get('action_ts', '')}:{action['action_id']}"
            thread = message.get("thread_ts") or message.get("ts") or ""
            outbox.queue_private_message(
                tx, key, channel=channel, thread_ts=thread, person=person, text=told
            )
        self._post.notify()

    def _build_opening(
        self,
        action: Action,
        target: button_codec.CallTarget | button_codec.CardTarget,
        admitted: DialogAdmission,
    ) -> DialogOpening | DialogRefusal:
        """Return the dialog built from the rows as they are now; a refusal if the card is stale."""
        run = admitted.run
        with self._store.read() as tx:
            match target:
                case button_codec.CardTarget():
                    made = DialogOpening(self._render_reject_all_form(tx, target, admitted.calls))
                case button_codec.CallTarget():
                    shown = calls.find_call_with_revision(tx, target.call)
                    tool = self._tools.find_tool_of_call(shown.call) if shown else None
                    if shown is None or shown.revision.number != target.revision:
                        return DialogRefusal(refusals.outdated_card_reply())
                    if action is Action.EDIT and tool is None:
                        return DialogRefusal(refusals.outdated_card_reply())
                    made = self._build_call_opening(tx, action, target, shown, admitted)
        return replace(
            made, view=button_codec.add_thread_to_metadata(made.view, run.channel, run.thread_ts)
        )

    def _build_call_opening(
        self,
        tx: Transaction,
        action: Action,
        target: button_codec.CallTarget,
        shown: CallWithRevision,
        by: DialogAdmission,
    ) -> DialogOpening:
        call = shown.call
        match action:
            case Action.REVIEW:
                whole = build_full_call_view(self._tools, tx, shown)
                bar = format_field_error(self._directory, by.view_only_reason)
                view = review_dialog.render_review_dialog(whole, bar=bar)
                return DialogOpening(view, call, bool(whole.covered_pieces))
            case Action.REJECT:
                view = review_dialog.render_reject_dialog(
                    target,
                    count=1,
                    title=describe_call_effect(self._tools, tx, call),
                    needs_words=needs_reason(call, CallVerb.REJECT),
                    by_agent=not runs.is_run_without_model(by.run),
                )
                return DialogOpening(view)
            case Action.SEND_BACK:
                title = self._describe_pending_calls(tx, call)
                return DialogOpening(review_dialog.render_send_back_dialog(target, title=title))
            case _:
                # it shows the arguments, and neither the preview nor the agent's words
                found = build_full_call_view(self._tools, tx, shown).covered_pieces
                covered = [name for name in found if name not in frozenset(PieceKind)]
                view = self._render_edit_form(tx, shown, covered)
                return DialogOpening(view, call, bool(covered))

    def _describe_pending_calls(self, tx: Transaction, call: Call) -> str:
        """Return one line for each pending call of this call's plan: what it would do."""
        plan = calls.list_calls_of_plan(tx, call.plan_id)
        waiting = [each for each in plan if each.status is CallStatus.PENDING]
        return "\n".join(describe_call_effect(self._tools, tx, each) for each in waiting)

    def _render_edit_form(
        self, tx: Transaction, shown: CallWithRevision, covered: Sequence[str]
    ) -> Json:
        call, gate = shown.call, load_gate(shown.call.gate)
        tool = self._tools.get_tool_of_call(call)
        counts = isinstance(gate, Ask) and gate.editor_counts
        here = counts and is_approvable_on_card(self._tools, tx, call, self._clock.now())
        return render_edit_dialog(
            restrict_editable_fields(tool, gate),
            build_readable_arguments(tool, shown.revision.arguments),
            target=button_codec.CallTarget(call.id, call.revision),
            save_and_approve=here,
            covered=covered,
        )

    def _render_reject_all_form(
        self, tx: Transaction, target: button_codec.CardTarget, pending: Sequence[Call]
    ) -> Json:
        title = "\n".join(describe_call_effect(self._tools, tx, call) for call in pending)
        needs = any(needs_reason(call, CallVerb.REJECT) for call in pending)
        return review_dialog.render_reject_dialog(
            target, count=len(pending), title=title, needs_words=needs
        )

    def validate_submission(self, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of a submission by block id; {} if it may be stored.

        Looks people up. A dialog without input fields has no place for an error: its submission is
        stored, and the loop tells the person what was wrong.
        """
        view = body["view"]
        match button_codec.decode_dialog_subject(view):
            case button_codec.DialogSubject(dialog) as subject if dialog in self._checks:
                return self._checks[dialog].validate_submission(subject, body)
            case button_codec.DialogSubject(
                DialogId.REJECT, button_codec.CallTarget() | button_codec.CardTarget() as target
            ):
                reason = review_dialog.parse_rejection(view["state"]["values"])
                if isinstance(reason, dict):
                    return reason
                return self._validate_permission(CallVerb.REJECT, target, body, InputBlockId.REASON)
            case button_codec.DialogSubject(
                DialogId.SEND_BACK, button_codec.CallTarget() as target
            ):
                return self._validate_permission(
                    CallVerb.SEND_BACK, target, body, InputBlockId.WORDS
                )
            case button_codec.DialogSubject(DialogId.REVIEW, button_codec.CallTarget() as target):
                return self._validate_permission(CallVerb.APPROVE, target, body, InputBlockId.NOTE)
            case button_codec.DialogSubject(DialogId.EDIT, button_codec.CallTarget() as target):
                return self._validate_edit(target, body)
            case _:
                return {}

    def _validate_edit(
        self, target: button_codec.CallTarget, body: dict[str, Any]
    ) -> dict[str, str]:
        view, person = body["view"], body["user"]["id"]
        first = next((each["block_id"] for each in view["blocks"] if each["type"] == "input"), "")
        if not first:
            return {}
        if refused := self._validate_permission(CallVerb.EDIT, target, body, first):
            return refused
        now, state = self._clock.now(), view["state"]["values"]
        try:
            read = self._edits.parse_edit(
                target.call, target.revision, state, person, at=now, patience=PATIENCE
            )
        except LookupPendingError:  # the tool is slow: the loop waits for it, and tells the rest
            return {}
        match read:
            case ForbiddenEdit(sentence=sentence):
                return {first: format_field_error(self._directory, sentence)}
            case FieldErrors(errors=errors):
                return errors
            case Edit(approve=True) | UnchangedEdit(approve=True) as submitted:
                return self._validate_approval(submitted, person)
            case _:
                return {}

    def _validate_approval(self, submitted: Edit | UnchangedEdit, person: str) -> dict[str, str]:
        call, edited = submitted.shown.call, isinstance(submitted, Edit)
        verdict = self._permissions.judge_action(
            CallVerb.APPROVE, call, submitted.run, person, at=self._clock.now(), fresh_editor=edited
        )
        if isinstance(verdict, Permission):
            return {}
        text = self._permissions.refusal_sentence(verdict, call, CallVerb.APPROVE)
        self._record_refusal(DialogRefusal(text, call, verdict.why), person, DialogId.EDIT)
        return {InputBlockId.APPROVE_TOO: format_field_error(self._directory, text)}

    def _validate_permission(
        self,
        verb: CallVerb,
        target: button_codec.CallTarget | button_codec.CardTarget,
        body: dict[str, Any],
        block: str,
    ) -> dict[str, str]:
        """Return why this person may not do this to the call, as {block: text}; {} if they may."""
        person = body["user"]["id"]
        match self._access.decide_access(verb, target, person, get_sender_workspace_id(body)):
            case DialogRefusal() as turned:
                self._record_refusal(turned, person, body["view"]["callback_id"])
                return {block: format_field_error(self._directory, turned.sentence)}
            case DialogAdmission(view_only_reason=bar) if bar:
                return {block: format_field_error(self._directory, bar)}
            case _:
                return {}

    def _record_refusal(self, turned: DialogRefusal, person: str, dialog: str) -> None:
        with self._store.write() as tx:
            self._access.record_refused_access(tx, turned, person, dialog)


def _open_or_replace_view(client: WebClient, body: dict[str, Any], view: Json) -> None:
    """Open a dialog; if it was asked for in another dialog, replace that one."""
    asked_in = body.get("view") or {}
    if asked_in.get("type") == "modal":
        client.views_update(view_id=asked_in["id"], view=view)
    else:
        client.views_open(trigger_id=body["trigger_id"], view=view)


def _get_dialog_name(action: dict[str, Any]) -> str:
    """Return the name of the dialog that a button asks for, for the audit."""
    click = button_codec.decode_clicked_element(action)
    return click.action if isinstance(click, button_codec.Click) else action["action_id"]
