"""What the operator types, as the dialog that says the same in Slack. Pure.

So the very same act deals with it, and with whatever that act refuses.
"""

from __future__ import annotations

import json
from typing import Any

from bot.messages.actions.codec import Subject, encode_dialog
from bot.messages.actions.names import Dialog, Entry, Field
from bot.messages.actions.targets import CallTarget
from storage.models import Delivery, Run, new_id
from storage.states import DeliveryKind, Surface, Verb

OWN_WORDS = "other"  # the choice in the Reject dialog that stands for words of one's own


def submission(verb: Verb, target: CallTarget, words: str, run: Run, person: str) -> Delivery:
    """Build the delivery: `person` approves (words: a note) or rejects (words: why) this call."""
    dialog = Dialog.REVIEW if verb is Verb.APPROVE else Dialog.REJECT
    view = {
        "callback_id": dialog,
        "private_metadata": encode_dialog(Subject(dialog, target)),
        "state": {"values": _entered(dialog, words)},
    }
    return Delivery(
        key=f"terminal:{new_id()}",
        kind=DeliveryKind.SUBMISSION,
        team=run.team,
        user=person,
        channel=run.channel,
        thread_ts=run.thread_ts,
        body=json.dumps({"view": view}, ensure_ascii=False),
        surface=Surface.TERMINAL,
    )


def _entered(dialog: Dialog, words: str) -> dict[str, Any]:
    typed = {Entry.TEXT: {"value": words}}
    if dialog is Dialog.REVIEW:
        return {Field.NOTE: typed}
    chosen = {Entry.PRESET: {"selected_option": {"value": OWN_WORDS}}}
    return {Field.REASON: chosen, Field.WORDS: typed}
