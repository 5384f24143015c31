"""The form of a question: its dialog, and what is entered there, read as an edit is.

Pure: views and values in, views and values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.messages.actions.codec import Subject, encode_dialog
from bot.messages.actions.names import Block, Dialog
from bot.messages.actions.targets import CallTarget
from bot.messages.forms.blocks import input_block, text_object
from bot.messages.forms.form import FieldErrors, read_submission
from bot.messages.forms.inputs import make
from bot.messages.forms.slots import lookup, slots
from bot.messages.parts import Json, quote, rich
from bot.messages.text import plain, unescape, visible
from bot.tools.people.question import AskPerson, Given, checked, form_of, suggested

TOLD = " is told your answer, and it stands under the question. It approves nothing."
FILL_IN = "Please fill this in."


def answer_modal(question: AskPerson, target: CallTarget, asker: str = "the agent") -> Json:
    """Build the dialog in which a question is answered, with what is suggested filled in.

    `asker`: who is told the answer, in mrkdwn.
    """
    tool, initial = form_of(question), suggested(question)
    asked = quote(plain(visible(question.question), 2_900))
    blocks = [rich(Block.QUESTION, [asked])]
    for slot in slots(tool, initial):
        made = make(slot, lookup(initial, slot.keys))
        if made:
            block = {**input_block(made), "optional": slot.nullable}
            block.pop("hint", None)  # how "not set" differs from empty matters to no answer
            blocks.append(block)
    told = unescape(asker[:1].upper() + asker[1:]) + TOLD
    blocks.append({"type": "context", "elements": [text_object(told, 200)]})
    return {
        "type": "modal",
        "callback_id": Dialog.ANSWER,
        "private_metadata": encode_dialog(Subject(Dialog.ANSWER, target)),
        "title": text_object("Answer", 24),
        "submit": text_object("Answer", 24),
        "close": text_object("Back", 24),
        "blocks": blocks,
    }


def read_answer(question: AskPerson, state: Mapping[str, Mapping[str, Any]]) -> Given | FieldErrors:
    """Read a submitted dialog, given `view.state.values`."""
    tool, initial = form_of(question), suggested(question)
    parsed = read_submission(tool, initial, state)
    if isinstance(parsed, FieldErrors):
        return parsed
    first = slots(tool, initial)[0].block_id
    return checked(question, parsed.arguments) or FieldErrors({first: FILL_IN})
