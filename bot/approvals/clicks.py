"""Clicks and submitted dialogs: each is decoded and passed to the code that handles it. Runs on the
loop.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from bot.approvals.dialog_access import PreviewRowsSender
from bot.approvals.edits import Edit, EditHandler, ForbiddenEdit, UnchangedEdit
from bot.approvals.grants import GrantList
from bot.approvals.permissions import DeliverySettler, reply_privately
from bot.approvals.request_changes import PlanChangeHandler, RequestActionHandler
from bot.approvals.votes import VoteHandler
from bot.cards import button_codec, refusals
from bot.cards.action_names import Action, DialogId
from bot.cards.edit_form import FieldErrors
from bot.cards.review_dialog import parse_approval, parse_feedback, parse_rejection
from bot.policy.authority import Authority
from storage import inbox
from storage.models import Delivery
from storage.states import CallVerb, DeliveryKind, UnknownCallResolution

log = logging.getLogger("countersign.clicks")
# deals with a click or a submitted dialog (the row, what it means, Slack's payload), and settles it
ClickHandler = Callable[
    [Delivery, button_codec.Click | button_codec.DialogSubject, dict[str, Any]], None
]
NOTHING_LEFT = "That was revoked already, or has expired."
RESOLVE = {
    Action.RESOLVE_DONE: UnknownCallResolution.DONE,
    Action.RESOLVE_NOT_DONE: UnknownCallResolution.NOT_DONE,
    Action.RUN_AGAIN: UnknownCallResolution.AGAIN,
}


class ClickDispatcher:
    """Dispatcher of clicks and submitted dialogs.

    One per process; `take` is called by the loop only.
    """

    def __init__(
        self,
        authority: Authority,
        votes: VoteHandler,
        edits: EditHandler,
        plans: PlanChangeHandler,
        requests: RequestActionHandler,
        rows: PreviewRowsSender,
        grants: GrantList,
        replies: DeliverySettler,
        acts: Mapping[Action | DialogId, ClickHandler],
    ) -> None:
        """Store the handlers; `authority` says from which workspaces clicks are accepted.

        Each handler checks who may use it. `acts` handle what does not decide a call, by button or
        dialog.
        """
        self._authority = authority
        self._votes = votes
        self._edits = edits
        self._plans = plans
        self._requests = requests
        self._rows = rows
        self._grants = grants
        self._replies = replies
        self._acts = acts

    def handle_delivery(self, delivery: Delivery) -> None:
        """Handle one click or submitted dialog, and settle its delivery.

        Raises LookupFailedError where Slack does not say who clicked, and NotYetKnownError where
        the delivery has to be taken again in a moment.
        """
        payload = json.loads(delivery.body)
        wanted = (
            button_codec.decode_clicked_element(payload["actions"][0])
            if delivery.kind == DeliveryKind.ACTION
            else button_codec.decode_dialog_subject(payload["view"])
        )
        match wanted:
            case button_codec.MalformedValue():
                self._refuse_malformed(delivery, wanted)
                return
            case button_codec.Click(name, target) | button_codec.DialogSubject(name, target) if (
                not self._is_from_accepted_workspace(delivery)
            ):
                self._replies.refuse_outsider(delivery, name, target)
                return
        delivery.team = self._authority.team  # whichever of their workspaces they clicked in
        match wanted:
            case button_codec.Click(Action() as name) if name in self._acts:
                self._acts[name](delivery, wanted, payload)
            case button_codec.DialogSubject(DialogId() as name) if name in self._acts:
                self._acts[name](delivery, wanted, payload)
            case button_codec.Click():
                self._handle_click(delivery, wanted)
            case button_codec.DialogSubject():
                self._handle_dialog(delivery, wanted, payload["view"]["state"]["values"])

    def _is_from_accepted_workspace(self, delivery: Delivery) -> bool:
        return self._authority.may_act_from_workspace(delivery.user, delivery.team)

    def _handle_click(self, delivery: Delivery, click: button_codec.Click) -> None:
        match click:
            case button_codec.Click(Action.APPROVE, button_codec.CallTarget() as target):
                self._votes.cast_votes(delivery, [target], CallVerb.APPROVE)
            case button_codec.Click(Action.REJECT_NOW, button_codec.CallTarget() as target):
                self._votes.cast_votes(delivery, [target], CallVerb.REJECT)
            case button_codec.Click(Action.APPROVE_ALL, button_codec.CardTarget() as target):
                self._votes.vote_on_card(delivery, target, CallVerb.APPROVE)
            case button_codec.Click(Action.ROWS, button_codec.CallTarget() as target):
                self._rows.send_rows(delivery, target)
            case button_codec.Click(Action.WITHDRAW, button_codec.CallTarget() as target):
                self._plans.withdraw_call(delivery, target)
            case button_codec.Click(Action.CANCEL_RUN, button_codec.RunTarget(run)):
                self._requests.cancel_request(delivery, run)
            case button_codec.Click(Action.RETRY, button_codec.RunTarget(run)):
                self._requests.retry_request(delivery, run)
            case button_codec.Click(Action.REVOKE, button_codec.CallTarget() as target):
                self._revoke_grants(delivery, target)
            case button_codec.Click(Action.FEEDBACK, button_codec.AnswerRating() as rating):
                self._requests.record_feedback(delivery, rating)
            case button_codec.Click(action, button_codec.CallTarget() as target) if (
                action in RESOLVE
            ):
                self._requests.resolve_unknown_call(delivery, target, RESOLVE[action])
            case button_codec.Click(action):
                self._refuse_malformed(
                    delivery, button_codec.MalformedValue(f"{action} is not for the loop")
                )

    def _revoke_grants(self, delivery: Delivery, target: button_codec.CallTarget) -> None:
        """End the saved approval given with this call; Home then shows that it is gone."""
        with self._grants.store.write() as tx:
            person, at = delivery.user, delivery.received_at
            ended = self._grants.end_grants_of_call(tx, target.call, person, at)
            reply_privately(tx, delivery, "" if ended else NOTHING_LEFT)
            inbox.mark_delivery_done(tx, delivery, "revoked" if ended else "nothing to revoke")

    def _handle_dialog(
        self, delivery: Delivery, dialog: button_codec.DialogSubject, state: dict[str, Any]
    ) -> None:
        match dialog:
            case button_codec.DialogSubject(DialogId.REVIEW, button_codec.CallTarget() as target):
                note, chosen = parse_approval(state)
                self._votes.cast_votes(delivery, [target], CallVerb.APPROVE, note, remember=chosen)
            case button_codec.DialogSubject(
                DialogId.SEND_BACK, button_codec.CallTarget() as target
            ):
                self._plans.send_back_plan(delivery, target, parse_feedback(state))
            case button_codec.DialogSubject(
                DialogId.REJECT, button_codec.CallTarget() | button_codec.CardTarget() as target
            ):
                reason = parse_rejection(state)
                if not isinstance(reason, str):
                    self._replies.settle_silently(delivery, "invalid reason")
                elif isinstance(target, button_codec.CardTarget):
                    self._votes.vote_on_card(delivery, target, CallVerb.REJECT, reason)
                else:
                    self._votes.cast_votes(delivery, [target], CallVerb.REJECT, reason)
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
            self._replies.settle_silently(delivery, "unknown action refused")
        else:
            self._replies.refuse_click(delivery, refusals.outdated_card_reply())

    def _handle_edit(
        self, delivery: Delivery, target: button_codec.CallTarget, state: dict[str, Any]
    ) -> None:
        at = delivery.received_at
        match self._edits.parse_edit(target.call, target.revision, state, delivery.user, at=at):
            case ForbiddenEdit(sentence=sentence):
                self._replies.refuse_click(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the dialog was checked
                why = next(iter(errors.values()), "")
                self._replies.refuse_click(delivery, refusals.edit_not_saved_reply(why))
            case UnchangedEdit(approve=True):
                self._votes.cast_votes(delivery, [target], CallVerb.APPROVE)
            case UnchangedEdit():
                self._replies.settle_silently(delivery, "an edit that changes nothing")
            case Edit(is_also_approval=True) as edit:  # saved and approved, or neither
                found = self._votes.admit_editor(delivery, edit.build_edited_call(), edit.run)
                self._edits.store_edit(
                    delivery,
                    edit,
                    lambda tx, call, tell: self._votes.approve_edited_call(
                        tx, delivery, call, found, tell
                    ),
                )
            case Edit() as edit:
                self._edits.store_edit(delivery, edit)
