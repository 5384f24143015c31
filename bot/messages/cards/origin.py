"""Above what a card asks: the words that began it, and which sub-agents stand between. Pure."""

from __future__ import annotations

from bot.messages.actions.codec import block_id
from bot.messages.actions.names import Block
from bot.messages.parts import (
    Json,
    context,
    line,
    mrkdwn,
    person,
    plain_text,
    quote,
    rich,
    words,
)
from bot.messages.sentences.agents import errand_line
from bot.messages.text import mention, plain, unescape, visible
from bot.messages.views import CardView

QUOTED = 200  # characters of each message quoted
EDITED_SINCE = " edited the request after the agent had read it. It says now:"


def origin_blocks(view: CardView) -> list[Json]:
    """Quote what was asked, say where it reads otherwise by now, and who asked whom for what."""
    blocks: list[Json] = []
    if view.asked:
        quoted = [plain_text(f"“{plain(visible(text), QUOTED)}”") for text in view.asked]
        by = mrkdwn(f"💬 {mention(view.requester)} wrote")
        blocks.append(context(block_id(Block.REQUEST, view.plan_id), [by, *quoted]))
    if view.reworded:
        says = line(words("✏️ "), person(view.requester), words(EDITED_SINCE, bold=True))
        now = [quote(plain(visible(text), QUOTED) or "(nothing)") for text in view.reworded]
        blocks.append(rich(block_id(Block.REWORDED, view.plan_id), [says, *now]))
    for number, each in enumerate(view.errands):
        # of others' words, so not as mrkdwn
        text = unescape(errand_line(each.agent, each.by, each.what))
        blocks.append(context(block_id(Block.ERRANDS, view.plan_id, number), [plain_text(text)]))
    return blocks
