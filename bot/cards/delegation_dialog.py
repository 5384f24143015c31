"""The dialog in which a person delegates their decisions, and the list of delegations. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.cards.action_names import Action, Block, Dialog, Entry, Field
from bot.cards.block_kit import Json, button, confirm, mrkdwn, plain_text, section
from bot.cards.button_codec import (
    DelegationTarget,
    DialogSubject,
    NoTarget,
    block_id,
    encode_dialog,
)
from bot.cards.request_list import CommandAnswer
from bot.cards.request_sentences import decides_for
from bot.cards.review_dialog import entered_text, input_block, text_element
from bot.cards.slack_text import PERSON, mention, when

# The list of delegations, with the buttons that begin and end one. Pure.


@dataclass(frozen=True, slots=True)
class DelegationRow:
    """One delegation: who decides for whom, and until when."""

    id: str
    giver: str  # Slack user id
    delegate: str  # Slack user id
    until: datetime
    words: str
    own: bool  # whether who looks at it has given it, and may end it


def draw_delegations(found: Sequence[DelegationRow]) -> CommandAnswer:
    """Draw the answer to `/approvals delegate`: all current delegations of a person."""
    title = "Who decides for whom" if found else "You have no delegations, in either direction."
    top = section(block_id(Block.DELEGATION, "title"), mrkdwn(title))
    return CommandAnswer(title, [top, *(entry(each) for each in found)])


def entry(each: DelegationRow) -> Json:
    """Draw one delegation, with a button that ends it if the reader has given it."""
    text = decides_for(each.giver, each.delegate, each.until, each.words)
    block = section(block_id(Block.DELEGATION, DelegationTarget(each.id)), mrkdwn(text))
    if not each.own:
        return block
    ask = confirm("End this?", "From now on you decide alone.", "End it")
    target = DelegationTarget(each.id)
    return {**block, "accessory": button(Action.END_DELEGATION, "End", target, confirm=ask)}


def begin_button() -> Json:
    """Build the button that opens the delegation dialog."""
    return button(Action.DELEGATE, "Delegate…", NoTarget())


LONGEST = timedelta(days=90)
USUAL = timedelta(days=7)
WORDS = 200  # characters
SAYS = (
    "They may approve and reject wherever you may, except what they asked for or changed "
    "themselves. The two of you count as one. It ends by itself; you can end it earlier on my "
    "Home tab."
)


@dataclass(frozen=True, slots=True)
class DelegationWish:
    """What a person entered in the delegation dialog."""

    delegate: str  # Slack user id
    until: datetime
    words: str


def delegate_modal(now: datetime, *, until: datetime | None = None, delegate: str = "") -> Json:
    """Build the delegation dialog.

    `delegate`: who decides for this person already, and `until` when; "" and None for nobody.
    """
    says = [section("says", mrkdwn(SAYS))]
    if delegate and until:
        text = f"{mention(delegate)} decides for you until {when(until)}; this ends that."
        says.append(section("now", mrkdwn(text)))
    person = {"type": "users_select", "action_id": Entry.PERSON}
    usual = {
        "type": "datetimepicker",
        "action_id": Entry.MOMENT,
        "initial_date_time": int((now + USUAL).timestamp()),
    }
    words = {**text_element("Holiday; call me if it is over 1,000 EUR"), "max_length": WORDS}
    return {
        "type": "modal",
        "callback_id": Dialog.DELEGATE,
        "title": plain_text("Delegate my approvals"),
        "submit": plain_text("Delegate"),
        "close": plain_text("Back"),
        "private_metadata": encode_dialog(DialogSubject(Dialog.DELEGATE, NoTarget())),
        "blocks": [
            *says,
            input_block(Field.DELEGATE, "Who decides for you?", person),
            input_block(Field.UNTIL, "Until when?", usual, hint="At most 90 days from now."),
            input_block(Field.WORDS, "Anything they should know", words, optional=True),
        ],
    }


def read_wish(
    state_values: Mapping[str, Any], giver: str, now: datetime
) -> DelegationWish | dict[str, str]:
    """Return what was entered in the delegation dialog, or the errors by block id."""
    person = _entered(state_values, Field.DELEGATE, Entry.PERSON, "selected_user")
    seconds = _entered(state_values, Field.UNTIL, Entry.MOMENT, "selected_date_time")
    errors: dict[str, str] = {}
    delegate = person if isinstance(person, str) and PERSON.fullmatch(person) else ""
    if not delegate or delegate == giver:
        errors[Field.DELEGATE] = "Please choose somebody other than yourself."
    until = datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int) else now
    if not now < until <= now + LONGEST:
        errors[Field.UNTIL] = "Please choose a time within the next 90 days."
    words = entered_text(state_values, Field.WORDS)[:WORDS]
    return errors or DelegationWish(delegate, until, words)


def _entered(state_values: Mapping[str, Any], field: Field, entry: Entry, name: str) -> object:
    block = state_values.get(field)
    element = block.get(entry) if isinstance(block, Mapping) else None
    return element.get(name) if isinstance(element, Mapping) else None
