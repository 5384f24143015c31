"""A card as who asked sees it where others decide: all of it, and nothing to press. Pure."""

from __future__ import annotations

from datetime import datetime

from bot.cards.action_names import Block
from bot.cards.button_codec import block_id
from bot.cards.card import Drawn, card, is_waiting
from bot.cards.notices import card_elsewhere
from bot.cards.parts import context, mrkdwn
from bot.cards.views import CardView


def copy(view: CardView, place: str, now: datetime) -> Drawn:
    """Draw the card without its buttons, as of `now` (aware), below a line of where people decide.

    `place`: the channel's id, or "" for direct messages; it is said while the card waits.
    """
    drawn = card(view, now)
    blocks = [block for block in drawn.blocks if block["type"] != "actions"]
    if not any(is_waiting(call, now) for call in view.calls):
        return Drawn(drawn.text, blocks)
    said = card_elsewhere(place)
    where = context(block_id(Block.ELSEWHERE, view.target), [mrkdwn(said)])
    return Drawn(said, [where, *blocks])
