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

from bot.approvals.call_state import effect_of
from bot.approvals.card_views import approved_on_its_card, call_in_full
from bot.approvals.dialog_access import DialogAccess, DialogAdmission, DialogRefusal
from bot.approvals.edits import Edit, Edits, ForbiddenEdit, UnchangedEdit
from bot.approvals.permissions import Permissions, words_for
from bot.cards import refusals
from bot.cards.action_names import Action, Dialog, Field
from bot.cards.block_kit import Json
from bot.cards.button_codec import (
    CallTarget,
    CardTarget,
    Click,
    DialogSubject,
    decode_action,
    decode_dialog,
    note_thread,
)
from bot.cards.call_pieces import PieceKind
from bot.cards.edit_form import FieldErrors, edit_modal
from bot.cards.review_dialog import read_rejection, reject_modal, review_modal, send_back_modal
from bot.cards.slack_text import strip_mrkdwn
from bot.cards.views import team_of
from bot.clock import Clock
from bot.policy.authority import Directory, NotYetKnownError, Yes
from bot.policy.gates import Ask, load_gate
from bot.signals import Signal
from bot.slack.client import code_said, meaning
from bot.slack.directory import with_names
from bot.tools import Registry
from bot.tools.arguments import as_editable, readable_arguments
from storage import calls, outbox, runs
from storage.calls import ShownRevision
from storage.models import Call
from storage.states import CallStatus, Verb
from storage.store import Store
from storage.transaction import Transaction

# The interface of each kind of dialog: how it is opened and checked.


@dataclass(frozen=True, slots=True)
class Opening:
    """A dialog to open for a person who may use it."""

    view: Json
    call: Call | None = None  # the one that it shows all of
    reveals: bool = False  # it shows more of that call than the card does


def view_of(found: Opening | DialogRefusal) -> Json | str:
    """Return the view of the dialog to open, or the sentence that says why there is none."""
    return found.view if isinstance(found, Opening) else found.sentence


def why_not_opened(error: Exception) -> str:
    """Return the sentence (mrkdwn) for the person who clicked, from the error at opening."""
    if not isinstance(error, SlackApiError):
        return refusals.not_opened("")
    return refusals.not_opened(code_said(error), meaning(error))


class DialogFamily(Protocol):
    """Dialogs of one kind; called on listener threads. It decides nothing."""

    @property
    def actions(self) -> Collection[Action]:
        """The buttons that open one of these dialogs; `button_codec.OPENS_DIALOG` has them, too."""
        ...

    @property
    def dialogs(self) -> Collection[Dialog]:
        """The dialogs that are checked here; `Clicks` decides about their submissions."""
        ...

    def opening(self, click: Click, body: dict[str, Any]) -> Opening | DialogRefusal:
        """Return the dialog that a button asks for, or why this person does not get it.

        `body` is the block_actions payload. May look people up, for two seconds.
        """
        ...

    def check(self, subject: DialogSubject, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of a submission by block id; {} if it may be stored.

        `body` is the view_submission payload. May look people up, for a second and a half.
        """
        ...


log = logging.getLogger("countersign.dialogs")
# seconds that a submitted edit may wait for the tool's preview; the loop waits for the rest
PATIENCE = 1.0
# what a person has to be allowed to do for the dialog of that button
VERBS: Mapping[Action, Verb] = {
    Action.REVIEW: Verb.APPROVE,
    Action.EDIT: Verb.EDIT,
    Action.REJECT: Verb.REJECT,
    Action.REJECT_ALL: Verb.REJECT,
    Action.SEND_BACK: Verb.SEND_BACK,
}


class Dialogs:
    """The opening and checking of all dialogs; called on listener threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        directory: Directory,
        post: Signal,
        permissions: Permissions,
        edits: Edits,
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

    def asked(self, body: dict[str, Any]) -> Opening | DialogRefusal:
        """Return the dialog that a button asks for, or why this person does not get it.

        Looks people up.
        """
        try:
            return self._asked(body)
        except Exception as error:
            log.exception("dialog %s: %s", body["actions"][0]["action_id"], error)
            return DialogRefusal(refusals.trigger_expired())

    def _asked(self, body: dict[str, Any]) -> Opening | DialogRefusal:
        match decode_action(body["actions"][0]):
            case Click(action) as click if action in self._opens:
                return self._opens[action].opening(click, body)
            case Click(action, CallTarget() | CardTarget() as target) if action in VERBS:
                person, team = body["user"]["id"], team_of(body)
                found = self._access.admit(VERBS[action], target, person, team)
                if isinstance(found, DialogRefusal):
                    return found
                return self._opening(action, target, found)
            case _:
                return DialogRefusal(refusals.stale_card())

    def open(self, client: WebClient, body: dict[str, Any], found: Opening | DialogRefusal) -> None:
        """Open the dialog, or tell the person privately why not.

        That the person was shown the call is stored before it opens.
        """
        action, person = body["actions"][0], body["user"]["id"]
        name = _name(action)
        match found:
            case DialogRefusal(sentence=told):
                pass
            case Opening(view=view, call=call, reveals=reveals):
                try:
                    if call is not None:
                        with self._store.write() as tx:
                            self._access.record_shown(tx, call, person, name, more=reveals)
                    _put(client, body, view)
                    return
                except Exception as error:  # noqa: BLE001 - the person is told, and may try again
                    log.warning("dialog %s for %s: %s", name, person, error)
                    told = why_not_opened(error)
        channel = (body.get("channel") or {}).get("id") or person
        message = body.get("message") or {}
        with self._store.write() as tx:
            if isinstance(found, DialogRefusal):
                self._access.record(tx, found, person, name)
            key = f"dialog:{person}:{action.get('action_ts', '')}:{action['action_id']}"
            thread = message.get("thread_ts") or message.get("ts") or ""
            outbox.put_private(tx, key, channel=channel, thread_ts=thread, person=person, text=told)
        self._post.give()

    def _opening(
        self, action: Action, target: CallTarget | CardTarget, admitted: DialogAdmission
    ) -> Opening | DialogRefusal:
        """Return the dialog built from the rows as they are now; a refusal if the card is stale."""
        run = admitted.run
        with self._store.read() as tx:
            match target:
                case CardTarget():
                    made = Opening(self._reject_all(tx, target, admitted.calls))
                case CallTarget():
                    shown = calls.shown(tx, target.call)
                    tool = self._tools.of(shown.call) if shown else None
                    if shown is None or shown.revision.number != target.revision:
                        return DialogRefusal(refusals.stale_card())
                    if action is Action.EDIT and tool is None:
                        return DialogRefusal(refusals.stale_card())
                    made = self._about_call(tx, action, target, shown, admitted)
        return replace(made, view=note_thread(made.view, run.channel, run.thread_ts))

    def _about_call(
        self,
        tx: Transaction,
        action: Action,
        target: CallTarget,
        shown: ShownRevision,
        by: DialogAdmission,
    ) -> Opening:
        call = shown.call
        match action:
            case Action.REVIEW:
                whole = call_in_full(self._tools, tx, shown)
                view = review_modal(whole, bar=self._plainly(by.bar))
                return Opening(view, call, bool(whole.covered))
            case Action.REJECT:
                title, needs = effect_of(self._tools, tx, call), words_for(call, Verb.REJECT)
                agent = not runs.is_form(by.run)
                return Opening(
                    reject_modal(target, count=1, title=title, needs_words=needs, by_agent=agent)
                )
            case Action.SEND_BACK:
                return Opening(send_back_modal(target, title=self._waiting_effects(tx, call)))
            case _:
                # it shows the arguments, and neither the preview nor the agent's words
                found = call_in_full(self._tools, tx, shown).covered
                covered = [name for name in found if name not in frozenset(PieceKind)]
                return Opening(self._edit_form(tx, shown, covered), call, bool(covered))

    def _waiting_effects(self, tx: Transaction, call: Call) -> str:
        """Return one line for each pending call of this call's plan: what it would do."""
        plan = calls.of_plan(tx, call.plan_id)
        waiting = [each for each in plan if each.status is CallStatus.PENDING]
        return "\n".join(effect_of(self._tools, tx, each) for each in waiting)

    def _edit_form(self, tx: Transaction, shown: ShownRevision, covered: Sequence[str]) -> Json:
        call, gate = shown.call, load_gate(shown.call.gate)
        tool, counts = self._tools.known(call), isinstance(gate, Ask) and gate.editor_counts
        here = counts and approved_on_its_card(self._tools, tx, call, self._clock.now())
        return edit_modal(
            as_editable(tool, gate),
            readable_arguments(tool, shown.revision.arguments),
            target=CallTarget(call.id, call.revision),
            save_and_approve=here,
            covered=covered,
        )

    def _reject_all(self, tx: Transaction, target: CardTarget, pending: Sequence[Call]) -> Json:
        title = "\n".join(effect_of(self._tools, tx, call) for call in pending)
        needs = any(words_for(call, Verb.REJECT) for call in pending)
        return reject_modal(target, count=len(pending), title=title, needs_words=needs)

    def check(self, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of a submission by block id; {} if it may be stored.

        Looks people up. A dialog without input fields has no place for an error: its submission is
        stored, and the loop tells the person what was wrong.
        """
        view = body["view"]
        match decode_dialog(view):
            case DialogSubject(dialog) as subject if dialog in self._checks:
                return self._checks[dialog].check(subject, body)
            case DialogSubject(Dialog.REJECT, CallTarget() | CardTarget() as target):
                reason = read_rejection(view["state"]["values"])
                if isinstance(reason, dict):
                    return reason
                return self._refusal(Verb.REJECT, target, body, Field.REASON)
            case DialogSubject(Dialog.SEND_BACK, CallTarget() as target):
                return self._refusal(Verb.SEND_BACK, target, body, Field.WORDS)
            case DialogSubject(Dialog.REVIEW, CallTarget() as target):
                return self._refusal(Verb.APPROVE, target, body, Field.NOTE)
            case DialogSubject(Dialog.EDIT, CallTarget() as target):
                return self._check_edit(target, body)
            case _:
                return {}

    def _check_edit(self, target: CallTarget, body: dict[str, Any]) -> dict[str, str]:
        view, person = body["view"], body["user"]["id"]
        first = next(
            (block["block_id"] for block in view["blocks"] if block["type"] == "input"), ""
        )
        if not first:
            return {}
        if refused := self._refusal(Verb.EDIT, target, body, first):
            return refused
        now, state = self._clock.now(), view["state"]["values"]
        try:
            read = self._edits.read(
                target.call, target.revision, state, person, at=now, patience=PATIENCE
            )
        except NotYetKnownError:  # the tool is slow: the loop waits for it, and tells the rest
            return {}
        match read:
            case ForbiddenEdit(sentence=sentence):
                return {first: self._plainly(sentence)}
            case FieldErrors(errors=errors):
                return errors
            case Edit(approve=True) | UnchangedEdit(approve=True) as submitted:
                return self._may_also_approve(submitted, person)
            case _:
                return {}

    def _may_also_approve(self, submitted: Edit | UnchangedEdit, person: str) -> dict[str, str]:
        call, edited = submitted.shown.call, isinstance(submitted, Edit)
        verdict = self._permissions.verdict(
            Verb.APPROVE, call, submitted.run, person, at=self._clock.now(), fresh_editor=edited
        )
        if isinstance(verdict, Yes):
            return {}
        text = self._permissions.refusal(verdict, call, Verb.APPROVE)
        self._record(DialogRefusal(text, call, verdict.why), person, Dialog.EDIT)
        return {Field.APPROVE_TOO: self._plainly(text)}

    def _plainly(self, text: str) -> str:
        """Return mrkdwn as plain text for an error at a field: 150 characters, with names."""
        return strip_mrkdwn(with_names(self._directory, text))[:150]

    def _refusal(
        self, verb: Verb, target: CallTarget | CardTarget, body: dict[str, Any], block: str
    ) -> dict[str, str]:
        """Return why this person may not do this to the call, as {block: text}; {} if they may."""
        person = body["user"]["id"]
        match self._access.admit(verb, target, person, team_of(body)):
            case DialogRefusal() as turned:
                self._record(turned, person, body["view"]["callback_id"])
                return {block: self._plainly(turned.sentence)}
            case DialogAdmission(bar=bar) if bar:
                return {block: self._plainly(bar)}
            case _:
                return {}

    def _record(self, turned: DialogRefusal, person: str, dialog: str) -> None:
        with self._store.write() as tx:
            self._access.record(tx, turned, person, dialog)


def _put(client: WebClient, body: dict[str, Any], view: Json) -> None:
    """Open a dialog; if it was asked for in another dialog, replace that one."""
    asked_in = body.get("view") or {}
    if asked_in.get("type") == "modal":
        client.views_update(view_id=asked_in["id"], view=view)
    else:
        client.views_open(trigger_id=body["trigger_id"], view=view)


def _name(action: dict[str, Any]) -> str:
    """Return the name of the dialog that a button asks for, for the audit."""
    click = decode_action(action)
    return click.action if isinstance(click, Click) else action["action_id"]
