"""Passes what people do to calls (clicks, dialogs, the signing page) to the code that handles it.

Runs on the loop.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.approvals.call_checks import CallRefusedError
from bot.approvals.edits import (
    CHECK_PREVIEW_FIRST_REPLY,
    Edit,
    EditHandler,
    ForbiddenEdit,
    UnchangedEdit,
)
from bot.approvals.permissions import DeliverySettler, reply_privately
from bot.approvals.votes import VoteHandler
from bot.cards import button_codec, review_dialog, sentences
from bot.cards.action_names import Action, DialogId
from bot.cards.field_layout import FieldErrors
from bot.policy.authority import Authority
from storage import inbox
from storage.record import Delivery
from storage.states import CallVerb, DeliveryKind

log = logging.getLogger("countersign.clicks")
# gets the delivery, its parsed meaning and Slack's payload, and marks the delivery as handled
ClickHandler = Callable[
    [Delivery, button_codec.Click | button_codec.DialogSubject, dict[str, Any]], None
]


@dataclass(frozen=True, slots=True)
class ClickDispatcher:
    """Passes clicks and submitted dialogs on to handlers, which check who may use them.

    One per process; called by the loop only.
    """

    authority: Authority  # says from which workspaces clicks are accepted
    votes: VoteHandler
    edits: EditHandler
    replies: DeliverySettler
    # handlers of all other buttons and dialogs: neither votes nor edits
    acts: Mapping[Action | DialogId, ClickHandler]
    page_acts: Mapping[DeliveryKind, Callable[[Delivery], None]]  # what people do on signing pages

    def handle_delivery(self, delivery: Delivery) -> None:
        """Handle a click, a submitted dialog or an act on the signing page, and mark it as handled.

        Raises LookupFailedError if Slack cannot be asked about the person, and LookupPendingError
        if the delivery has to be handled again in a moment.
        """
        if act := self.page_acts.get(delivery.kind):
            act(delivery)
            return
        payload = json.loads(delivery.body)
        wanted = (
            button_codec.decode_clicked_element(payload["actions"][0])
            if delivery.kind == DeliveryKind.ACTION
            else button_codec.decode_dialog_subject(payload["view"])
        )
        if isinstance(wanted, button_codec.MalformedValue):
            self._refuse_malformed(delivery, wanted)
            return
        name = wanted.action if isinstance(wanted, button_codec.Click) else wanted.dialog
        if not self.authority.may_act_from_workspace(delivery.user, delivery.team):
            self.replies.refuse_outsider(delivery, name, wanted.target)
            return
        delivery.team = self.authority.team  # wherever in the organisation they clicked
        if handle := self.acts.get(name):
            handle(delivery, wanted, payload)
        elif isinstance(wanted, button_codec.Click):
            self._handle_click(delivery, wanted)
        else:
            self._handle_dialog(delivery, wanted, payload["view"]["state"]["values"])

    def _handle_click(self, delivery: Delivery, click: button_codec.Click) -> None:
        match click:
            case button_codec.Click(Action.APPROVE, button_codec.CallTarget() as target):
                self.votes.cast_votes(delivery, [target], CallVerb.APPROVE)
            case button_codec.Click(Action.REJECT_NOW, button_codec.CallTarget() as target):
                self.votes.cast_votes(delivery, [target], CallVerb.REJECT)
            case button_codec.Click(Action.LOOKED_AT, button_codec.CallTarget() as target):
                self.votes.cast_votes(delivery, [target], CallVerb.LOOK)
            case button_codec.Click(Action.APPROVE_ALL, button_codec.CardTarget() as target):
                self.votes.vote_on_card(delivery, target, CallVerb.APPROVE)
            case button_codec.Click(action):
                self._refuse_malformed(
                    delivery, button_codec.MalformedValue(f"{action} is not for the loop")
                )

    def _handle_dialog(
        self, delivery: Delivery, dialog: button_codec.DialogSubject, state: dict[str, Any]
    ) -> None:
        match dialog:
            case button_codec.DialogSubject(DialogId.REVIEW, button_codec.CallTarget() as target):
                note, chosen = review_dialog.parse_approval_submission(state)
                self.votes.cast_votes(delivery, [target], CallVerb.APPROVE, note, remember=chosen)
            case button_codec.DialogSubject(
                DialogId.REJECT, button_codec.CallTarget() | button_codec.CardTarget() as target
            ):
                reason = review_dialog.parse_rejection_reason(state)
                if not isinstance(reason, str):
                    self.replies.settle_silently(delivery, "invalid reason")
                elif isinstance(target, button_codec.CardTarget):
                    self.votes.vote_on_card(delivery, target, CallVerb.REJECT, reason)
                else:
                    self.votes.cast_votes(delivery, [target], CallVerb.REJECT, reason)
            case button_codec.DialogSubject(
                (DialogId.BREAK_GLASS | DialogId.OBJECT) as name,
                button_codec.CallTarget() as target,
            ):
                words = review_dialog.parse_entered_words(state)
                self.votes.cast_votes(delivery, [target], CallVerb(name), words)
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
            self.replies.settle_silently(delivery, "unknown action refused")
        else:
            self.replies.refuse_click(delivery, sentences.OUTDATED_CARD_REPLY)

    def _handle_edit(
        self, delivery: Delivery, target: button_codec.CallTarget, state: dict[str, Any]
    ) -> None:
        at = delivery.received_at
        match self.edits.parse_edit(target.call, target.revision, state, delivery.user, at=at):
            case ForbiddenEdit(sentence=sentence):
                self.replies.refuse_click(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the dialog was checked
                why = next(iter(errors.values()), "")
                self.replies.refuse_click(delivery, sentences.edit_not_saved_reply(why))
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
            place = self.edits.find_new_place(edit)
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
