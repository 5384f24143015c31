"""What the operator types, as the click or the dialog that says the same in Slack. Pure.

So the very same act deals with it, and with whatever that act refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bot.messages.actions.codec import Subject, encode, encode_dialog
from bot.messages.actions.names import Action, Dialog, Entry, Field
from bot.messages.actions.targets import CallTarget, Target
from storage.models import Delivery, Run, new_id
from storage.states import DeliveryKind, Surface, Verb

OWN_WORDS = "other"  # the choice in the Reject dialog that stands for words of one's own
State = Mapping[str, Mapping[str, Any]]  # of a dialog's elements, by the ids of its blocks


def vote(verb: Verb, target: CallTarget, words: str, run: Run, person: str) -> Delivery:
    """Build the delivery: `person` approves (words: a note) or rejects (words: why) this call."""
    typed: dict[str, Any] = {Entry.TEXT: {"value": words}}
    if verb is Verb.APPROVE:
        return submission(Dialog.REVIEW, target, {Field.NOTE: typed}, run, person)
    chosen: dict[str, Any] = {Entry.PRESET: {"selected_option": {"value": OWN_WORDS}}}
    return submission(
        Dialog.REJECT, target, {Field.REASON: chosen, Field.WORDS: typed}, run, person
    )


def send_back(target: CallTarget, words: str, run: Run, person: str) -> Delivery:
    """Build the delivery: `person` has the plan of this call made anew, as these words say."""
    state: State = {Field.WORDS: {Entry.TEXT: {"value": words}}}
    return submission(Dialog.SEND_BACK, target, state, run, person)


def submission(dialog: Dialog, target: CallTarget, state: State, run: Run, person: str) -> Delivery:
    """Build the delivery of a dialog that `person` has filled in."""
    view = {
        "callback_id": dialog,
        "private_metadata": encode_dialog(Subject(dialog, target)),
        "state": {"values": state},
    }
    return _delivery(DeliveryKind.SUBMISSION, {"view": view}, run, person)


def click(action: Action, target: Target, run: Run, person: str) -> Delivery:
    """Build the delivery of a button that `person` has clicked."""
    clicked = {"action_id": action, "value": encode(target)}
    return _delivery(DeliveryKind.ACTION, {"actions": [clicked]}, run, person)


def typed(words: str, run: Run | None, team: str, person: str, at: datetime) -> Delivery:
    """Build the delivery of words for the agent, in the thread of `run` or in a new one."""
    event = {"text": words, "ts": f"{at.timestamp():.6f}"}
    return Delivery(
        key=f"terminal:{new_id()}",
        kind=DeliveryKind.TYPED,
        team=team,
        user=person,
        channel=run.channel if run else "",
        thread_ts=run.thread_ts if run else "",
        body=json.dumps({"event": event}, ensure_ascii=False),
        surface=Surface.TERMINAL,
    )


def _delivery(kind: DeliveryKind, body: Mapping[str, Any], run: Run, person: str) -> Delivery:
    return Delivery(
        key=f"terminal:{new_id()}",
        kind=kind,
        team=run.team,
        user=person,
        channel=run.channel,
        thread_ts=run.thread_ts,
        body=json.dumps(body, ensure_ascii=False),
        surface=Surface.TERMINAL,
    )
