"""Lists who decides for whom, with what begins and ends it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.messages.actions.codec import block_id
from bot.messages.actions.names import Action, Block
from bot.messages.actions.targets import DelegationTarget, Nothing
from bot.messages.overview.view import Answered
from bot.messages.parts import Json, button, confirm, mrkdwn, section
from bot.messages.sentences.delegations import decides_for


@dataclass(frozen=True, slots=True)
class Delegated:
    """That somebody decides for another."""

    id: str
    giver: str  # Slack user id
    delegate: str  # Slack user id
    until: datetime
    words: str
    own: bool  # whether who looks at it has given it, and may end it


def listed(found: Sequence[Delegated]) -> Answered:
    """Draw the answer to `/approvals delegate`: what holds; the menu below it has the button."""
    title = "Who decides for whom" if found else "Nobody decides for you, nor you for anybody."
    top = section(block_id(Block.DELEGATION, "title"), mrkdwn(title))
    return Answered(title, [top, *(entry(each) for each in found)])


def entry(each: Delegated) -> Json:
    """Draw one, with the button that ends it for who gave it."""
    text = decides_for(each.giver, each.delegate, each.until, each.words)
    block = section(block_id(Block.DELEGATION, DelegationTarget(each.id)), mrkdwn(text))
    if not each.own:
        return block
    ask = confirm("End this?", "From now on you decide alone.", "End it")
    target = DelegationTarget(each.id)
    return {**block, "accessory": button(Action.END_DELEGATION, "End", target, confirm=ask)}


def begin_button() -> Json:
    """Build the button that opens the dialog."""
    return button(Action.DELEGATE, "Delegate…", Nothing())
