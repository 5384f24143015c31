"""Clicks and submitted dialogs, each handed to the act it asks for. Runs on the loop."""

from __future__ import annotations

import json
import logging
from typing import Any

from bot.approvals.edits import Edit, Edits, Forbidden, Unchanged
from bot.approvals.plans import PlanChanges
from bot.approvals.replies import Replies
from bot.approvals.requests import Requests
from bot.approvals.votes import Votes
from bot.messages import sentences
from bot.messages.forms.form import FieldErrors
from bot.messages.modals import read_feedback, read_rejection
from bot.messages.review import read_approval
from storage.models import Delivery

log = logging.getLogger("countersign.clicks")
RESOLVE = {"resolve_done": "done", "resolve_not_done": "not_done", "run_again": "again"}


class Clicks:
    """One per process; `take` is called by the loop only."""

    def __init__(
        self, votes: Votes, edits: Edits, plans: PlanChanges, requests: Requests, replies: Replies
    ) -> None:
        """Each act knows who may do it."""
        self._votes = votes
        self._edits = edits
        self._plans = plans
        self._requests = requests
        self._replies = replies

    def take(self, delivery: Delivery) -> None:
        """Deal with one click or submitted dialog, and settle it."""
        payload = json.loads(delivery.body)
        if delivery.kind == "action":
            action = payload["actions"][0]
            self._click(delivery, str(action["action_id"]), _value(action))
        else:
            self._submitted(delivery, payload["view"])

    def _click(self, delivery: Delivery, action: str, value: str) -> None:
        target, _, number = value.partition(":")
        match action:
            case "approve":
                self._votes.vote(delivery, [(target, _int(number))], "approve")
            case "approve_all":
                self._votes.vote_all(delivery, value, "approve")
            case "more" if target == "withdraw":
                call_id, _, revision = number.partition(":")
                self._plans.withdraw(delivery, call_id, _int(revision))
            case "cancel_run":
                self._requests.cancel(delivery, target)
            case "retry":
                self._requests.retry(delivery, target)
            case "feedback":
                self._requests.feedback(delivery, value)
            case "resolve_done" | "resolve_not_done" | "run_again":
                self._requests.resolve(delivery, target, _int(number), RESOLVE[action])
            case _:
                log.warning("delivery %s: unknown action %r refused", delivery.seq, action[:80])
                self._replies.settle(delivery, "unknown action refused")

    def _submitted(self, delivery: Delivery, view: dict[str, Any]) -> None:
        about: dict[str, Any] = json.loads(view["private_metadata"])
        state = view["state"]["values"]
        match view["callback_id"]:
            case "review_call":
                note, chosen = read_approval(state)
                shown = [(about["call"], about["revision"])]
                self._votes.vote(delivery, shown, "approve", note, remember=chosen)
            case "send_back":
                target, _, number = about["target"].partition(":")
                self._plans.send_back(delivery, target, _int(number), read_feedback(state))
            case "reject":
                reason = read_rejection(state)
                kind, _, rest = about["target"].partition(":")
                target, _, number = rest.partition(":")
                if not isinstance(reason, str):
                    self._replies.settle(delivery, "invalid reason")
                elif kind == "plan":
                    self._votes.vote_all(delivery, rest, "reject", reason)
                else:
                    self._votes.vote(delivery, [(target, _int(number))], "reject", reason)
            case "edit_call":
                self._edited(delivery, about["call"], about["revision"], state)
            case _:
                self._replies.settle(delivery, "unknown dialog refused")

    def _edited(
        self, delivery: Delivery, call_id: str, revision: int, state: dict[str, Any]
    ) -> None:
        at = delivery.received_at
        match self._edits.read(call_id, revision, state, delivery.user, at=at):
            case Forbidden(sentence=sentence):
                self._replies.refuse(delivery, sentence)
            case FieldErrors():  # the dialog would have said so: the tool has changed since
                self._replies.refuse(delivery, sentences.stale_card())
            case Unchanged(approve=True):
                self._votes.vote(delivery, [(call_id, revision)], "approve")
            case Unchanged():
                self._replies.settle(delivery, "an edit that changes nothing")
            case Edit() as edit:
                # never approve what somebody else made of it
                if self._edits.store(delivery, edit) and edit.approve:
                    self._votes.vote(delivery, [(call_id, revision + 1)], "approve")


def _value(action: dict[str, Any]) -> str:
    return str(action.get("value") or (action.get("selected_option") or {}).get("value") or "")


def _int(text: str) -> int:
    return int(text) if text.isdigit() and len(text) < 10 else -1
