"""Opens dialogs from rows and checks what was submitted.

Decides nothing: a good submission is stored for the loop.
"""

from __future__ import annotations

import logging
from typing import Any

from slack_sdk import WebClient

from bot.approvals.cards.card_view import call_view
from bot.approvals.edits import Edit, Edits, Forbidden, Unchanged
from bot.approvals.permissions import Permissions
from bot.approvals.terms.effect import effect_of
from bot.approvals.votes import pending_on, words_for
from bot.clock import Clock
from bot.messages import sentences
from bot.messages.actions import (
    Action,
    CallTarget,
    CardTarget,
    Click,
    Dialog,
    Field,
    Malformed,
    Subject,
    decode_action,
    decode_dialog,
    in_thread,
)
from bot.messages.forms.form import FieldErrors, edit_modal
from bot.messages.modals import read_rejection, reject_modal, send_back_modal
from bot.messages.parts import Json
from bot.messages.review import review_modal
from bot.policy.authority import Directory, No, Yes
from bot.policy.gates import Ask, load_gate
from bot.signals import Signal
from bot.slack.directory import with_names
from bot.tools import Registry
from bot.tools.arguments import as_editable, readable_arguments
from storage import calls, decisions, outbox, runs
from storage.calls import Shown
from storage.models import Call
from storage.outcomes import Open
from storage.states import CallStatus, Verb
from storage.store import Store
from storage.transaction import Transaction

log = logging.getLogger("countersign.dialogs")


class Dialogs:
    """Called on listener threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tools: Registry,
        directory: Directory,
        post: Signal,
        permissions: Permissions,
        edits: Edits,
    ) -> None:
        """`permissions` says who may, `edits` reads what was submitted."""
        self._store = store
        self._clock = clock
        self._tools = tools
        self._directory = directory
        self._post = post
        self._permissions = permissions
        self._edits = edits

    def open(self, client: WebClient, body: dict[str, Any]) -> None:
        """Open the dialog a button asks for, or say privately why not."""
        action, person = body["actions"][0], body["user"]["id"]
        try:
            made = self._dialog(decode_action(action), person)
            if not isinstance(made, str):
                client.views_open(trigger_id=body["trigger_id"], view=made)
                return
        except Exception as error:  # noqa: BLE001 - the person is told, and may click again
            log.warning("dialog %s for %s: %s", action["action_id"], person, error)
            made = sentences.trigger_expired()
        channel = (body.get("channel") or {}).get("id") or person
        message = body.get("message") or {}
        with self._store.write() as tx:
            key = f"dialog:{person}:{action.get('action_ts', '')}:{action['action_id']}"
            thread = message.get("thread_ts") or message.get("ts") or ""
            outbox.private(tx, key, channel=channel, thread_ts=thread, person=person, text=made)
        self._post.give()

    def _dialog(self, click: Click | Malformed, person: str) -> Json | str:
        """The dialog that the click asks for, or a sentence why there is none."""
        match click:
            case Click(Action.REJECT_ALL, CardTarget() as target):
                return self._reject_all(target)
            case Click(action, CallTarget() as target):
                return self._about_call(action, target, person)
            case _:
                return sentences.stale_card()

    def _about_call(self, action: Action, target: CallTarget, person: str) -> Json | str:
        now = self._clock.now()
        with self._store.read() as tx:
            found = decisions.look(tx, target.call, target.revision, now)
            shown = calls.shown(tx, target.call) if isinstance(found, Open) else None
            run = runs.get(tx, shown.call.run_id) if shown else None
            if shown is None or run is None:
                return self._permissions.lost(found, person)
            match action:
                case Action.REVIEW:
                    drawn = call_view(self._tools, tx, target.call)
                    assert drawn is not None
                    view = review_modal(drawn)
                case Action.REJECT:
                    title, needs = (
                        effect_of(self._tools, tx, shown.call),
                        words_for(shown.call, Verb.REJECT),
                    )
                    view = reject_modal(target, count=1, title=title, needs_words=needs)
                case Action.SEND_BACK:
                    view = send_back_modal(target, title=self._waiting_effects(tx, shown.call))
                case _:
                    if self._tools.get(shown.call.tool) is None:
                        return sentences.stale_card()
                    view = self._edit_form(target, shown)
        return in_thread(view, run.channel, run.thread_ts)

    def _waiting_effects(self, tx: Transaction, call: Call) -> str:
        """What the calls of this call's plan would do that still wait, a line for each."""
        plan = calls.of_plan(tx, call.plan_id)
        waiting = [each for each in plan if each.status is CallStatus.PENDING]
        return "\n".join(effect_of(self._tools, tx, each) for each in waiting)

    def _edit_form(self, target: CallTarget, shown: Shown) -> Json:
        tool, gate = self._tools.tools[shown.call.tool], load_gate(shown.call.gate)
        return edit_modal(
            as_editable(tool, gate),
            readable_arguments(tool, shown.revision.arguments),
            target=target,
            save_and_approve=isinstance(gate, Ask) and gate.editor_counts,
        )

    def _reject_all(self, target: CardTarget) -> Json | str:
        with self._store.read() as tx:
            pending = pending_on(tx, target)
            run = runs.get(tx, pending[0].run_id) if pending else None
            if run is None:
                return sentences.stale_card()
            title = "\n".join(effect_of(self._tools, tx, call) for call in pending)
        needs = any(words_for(call, Verb.REJECT) for call in pending)
        view = reject_modal(target, count=len(pending), title=title, needs_words=needs)
        return in_thread(view, run.channel, run.thread_ts)

    def check(self, body: dict[str, Any]) -> dict[str, str]:
        """Return the errors of a submission by block id; none when it may be stored.

        Looks people up. Where there is nothing to enter there is no place for an error: such a
        submission is stored, and the loop tells the person what was wrong with it.
        """
        view, person = body["view"], body["user"]["id"]
        state = view["state"]["values"]
        match decode_dialog(view):
            case Subject(Dialog.REJECT, target):
                reason = read_rejection(state)
                if isinstance(reason, dict):
                    return reason
                if isinstance(target, CardTarget):
                    return {}
                return self._refusal(Verb.REJECT, target, person, Field.REASON)
            case Subject(Dialog.SEND_BACK, CallTarget() as target):
                return self._refusal(Verb.SEND_BACK, target, person, Field.WORDS)
            case Subject(Dialog.REVIEW, CallTarget() as target):
                return self._refusal(Verb.APPROVE, target, person, Field.NOTE)
            case Subject(Dialog.EDIT, CallTarget() as target):
                return self._check_edit(view, target, person)
            case _:
                return {}

    def _check_edit(self, view: Json, target: CallTarget, person: str) -> dict[str, str]:
        first = next(
            (block["block_id"] for block in view["blocks"] if block["type"] == "input"), ""
        )
        if not first:
            return {}
        now, state = self._clock.now(), view["state"]["values"]
        match self._edits.read(target.call, target.revision, state, person, at=now):
            case Forbidden(sentence=sentence):
                return {first: self._plainly(sentence)}
            case FieldErrors(errors=errors):
                return errors
            case Edit(approve=True) | Unchanged(approve=True) as submitted:
                return self._may_also_approve(submitted, person)
            case _:
                return {}

    def _may_also_approve(self, submitted: Edit | Unchanged, person: str) -> dict[str, str]:
        call, edited = submitted.shown.call, isinstance(submitted, Edit)
        verdict = self._permissions.verdict(
            Verb.APPROVE, call, submitted.run, person, at=self._clock.now(), fresh_editor=edited
        )
        if isinstance(verdict, Yes):
            return {}
        text = self._permissions.refusal(verdict, call, Verb.APPROVE)
        return {Field.APPROVE_TOO: self._plainly(text)}

    def _plainly(self, text: str) -> str:
        """An error at a field is plain text: mentions and dates would show as codes."""
        return sentences.plainly(with_names(self._directory, text))[:150]

    def _refusal(self, verb: Verb, target: CallTarget, person: str, block: str) -> dict[str, str]:
        """Why this person cannot do this to the call now, at `block`; empty when they can."""
        now = self._clock.now()
        with self._store.read() as tx:
            found = decisions.look(tx, target.call, target.revision, now)
            run = runs.get(tx, found.call.run_id) if isinstance(found, Open) else None
        if not isinstance(found, Open) or run is None:
            return {block: self._plainly(self._permissions.lost(found, person))}
        call: Call = found.call
        verdict = self._permissions.verdict(verb, call, run, person, at=now)
        return (
            {block: self._plainly(self._permissions.refusal(verdict, call, verb))}
            if isinstance(verdict, No)
            else {}
        )
