"""Clicks and submitted dialogs: each is decoded and passed to the code that handles it. Runs on the
loop.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from bot.approvals.dialog_access import AllRows
from bot.approvals.edits import Edit, Edits, ForbiddenEdit, UnchangedEdit
from bot.approvals.grants import GrantList
from bot.approvals.replies import Replies, tell
from bot.approvals.request_changes import PlanChanges, Requests
from bot.approvals.votes import Votes
from bot.cards import refusals
from bot.cards.action_names import Action, Dialog
from bot.cards.button_codec import (
    CallTarget,
    CardTarget,
    Click,
    DialogSubject,
    MalformedValue,
    Rating,
    RunTarget,
    decode_action,
    decode_dialog,
)
from bot.cards.edit_form import FieldErrors
from bot.cards.review_dialog import read_approval, read_feedback, read_rejection
from bot.policy.authority import Authority
from storage import inbox
from storage.models import Delivery
from storage.states import DeliveryKind, Resolution, Verb

log = logging.getLogger("countersign.clicks")
# deals with a click or a submitted dialog (the row, what it means, Slack's payload), and settles it
Act = Callable[[Delivery, Click | DialogSubject, dict[str, Any]], None]
NOTHING_LEFT = "That was revoked already, or has expired."
RESOLVE = {
    Action.RESOLVE_DONE: Resolution.DONE,
    Action.RESOLVE_NOT_DONE: Resolution.NOT_DONE,
    Action.RUN_AGAIN: Resolution.AGAIN,
}


class Clicks:
    """Dispatcher of clicks and submitted dialogs.

    One per process; `take` is called by the loop only.
    """

    def __init__(
        self,
        authority: Authority,
        votes: Votes,
        edits: Edits,
        plans: PlanChanges,
        requests: Requests,
        rows: AllRows,
        grants: GrantList,
        replies: Replies,
        acts: Mapping[Action | Dialog, Act],
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

    def take(self, delivery: Delivery) -> None:
        """Handle one click or submitted dialog, and settle its delivery.

        Raises LookupFailedError where Slack does not say who clicked, and NotYetKnownError where
        the delivery has to be taken again in a moment.
        """
        payload = json.loads(delivery.body)
        wanted = (
            decode_action(payload["actions"][0])
            if delivery.kind == DeliveryKind.ACTION
            else decode_dialog(payload["view"])
        )
        match wanted:
            case MalformedValue():
                self._odd(delivery, wanted)
                return
            case Click(name, target) | DialogSubject(name, target) if not self._is_heard(delivery):
                self._replies.turn_away(delivery, name, target)
                return
        delivery.team = self._authority.team  # whichever of their workspaces they clicked in
        match wanted:
            case Click(Action() as name) if name in self._acts:
                self._acts[name](delivery, wanted, payload)
            case DialogSubject(Dialog() as name) if name in self._acts:
                self._acts[name](delivery, wanted, payload)
            case Click():
                self._click(delivery, wanted)
            case DialogSubject():
                self._submitted(delivery, wanted, payload["view"]["state"]["values"])

    def _is_heard(self, delivery: Delivery) -> bool:
        return self._authority.hears(delivery.user, delivery.team)

    def _click(self, delivery: Delivery, click: Click) -> None:
        match click:
            case Click(Action.APPROVE, CallTarget() as target):
                self._votes.vote(delivery, [target], Verb.APPROVE)
            case Click(Action.REJECT_NOW, CallTarget() as target):
                self._votes.vote(delivery, [target], Verb.REJECT)
            case Click(Action.APPROVE_ALL, CardTarget() as target):
                self._votes.vote_all(delivery, target, Verb.APPROVE)
            case Click(Action.ROWS, CallTarget() as target):
                self._rows.send(delivery, target)
            case Click(Action.WITHDRAW, CallTarget() as target):
                self._plans.withdraw(delivery, target)
            case Click(Action.CANCEL_RUN, RunTarget(run)):
                self._requests.cancel(delivery, run)
            case Click(Action.RETRY, RunTarget(run)):
                self._requests.retry(delivery, run)
            case Click(Action.REVOKE, CallTarget() as target):
                self._revoke(delivery, target)
            case Click(Action.FEEDBACK, Rating() as rating):
                self._requests.feedback(delivery, rating)
            case Click(action, CallTarget() as target) if action in RESOLVE:
                self._requests.resolve(delivery, target, RESOLVE[action])
            case Click(action):
                self._odd(delivery, MalformedValue(f"{action} is not for the loop"))

    def _revoke(self, delivery: Delivery, target: CallTarget) -> None:
        """End the saved approval given with this call; Home then shows that it is gone."""
        with self._grants.store.write() as tx:
            person, at = delivery.user, delivery.received_at
            ended = self._grants.end(tx, target.call, person, at)
            tell(tx, delivery, "" if ended else NOTHING_LEFT)
            inbox.settle_delivery(tx, delivery, "revoked" if ended else "nothing to revoke")

    def _submitted(self, delivery: Delivery, dialog: DialogSubject, state: dict[str, Any]) -> None:
        match dialog:
            case DialogSubject(Dialog.REVIEW, CallTarget() as target):
                note, chosen = read_approval(state)
                self._votes.vote(delivery, [target], Verb.APPROVE, note, remember=chosen)
            case DialogSubject(Dialog.SEND_BACK, CallTarget() as target):
                self._plans.send_back(delivery, target, read_feedback(state))
            case DialogSubject(Dialog.REJECT, CallTarget() | CardTarget() as target):
                reason = read_rejection(state)
                if not isinstance(reason, str):
                    self._replies.settle(delivery, "invalid reason")
                elif isinstance(target, CardTarget):
                    self._votes.vote_all(delivery, target, Verb.REJECT, reason)
                else:
                    self._votes.vote(delivery, [target], Verb.REJECT, reason)
            case DialogSubject(Dialog.EDIT, CallTarget() as target):
                self._edited(delivery, target, state)
            case DialogSubject(name):
                self._odd(delivery, MalformedValue(f"{name} is about something else", name))

    def _odd(self, delivery: Delivery, malformed: MalformedValue) -> None:
        """Refuse a click with values the bot never sent.

        If the button is one of the bot's, the person is told that the card is out of date.
        """
        log.warning("delivery %s: %s, refused", delivery.seq, malformed.why)
        if malformed.name is None:
            self._replies.settle(delivery, "unknown action refused")
        else:
            self._replies.refuse(delivery, refusals.stale_card())

    def _edited(self, delivery: Delivery, target: CallTarget, state: dict[str, Any]) -> None:
        at = delivery.received_at
        match self._edits.read(target.call, target.revision, state, delivery.user, at=at):
            case ForbiddenEdit(sentence=sentence):
                self._replies.refuse(delivery, sentence)
            case FieldErrors(errors=errors):  # something has changed since the dialog was checked
                why = next(iter(errors.values()), "")
                self._replies.refuse(delivery, refusals.edit_not_saved(why))
            case UnchangedEdit(approve=True):
                self._votes.vote(delivery, [target], Verb.APPROVE)
            case UnchangedEdit():
                self._replies.settle(delivery, "an edit that changes nothing")
            case Edit(approve_too=True) as edit:  # saved and approved, or neither
                found = self._votes.admit_editor(delivery, edit.edited(), edit.run)
                self._edits.store(
                    delivery,
                    edit,
                    lambda tx, call, tell: self._votes.approve_edited(
                        tx, delivery, call, found, tell
                    ),
                )
            case Edit() as edit:
                self._edits.store(delivery, edit)
