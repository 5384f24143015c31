"""Above what a card asks: the words that began it, and which sub-agents stand between. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from bot.messages.actions.codec import block_id
from bot.messages.actions.names import Block
from bot.messages.actions.targets import CallTarget
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
from bot.messages.text import apart, mention, plain, unescape, visible
from bot.messages.views import CardView, Errand

QUOTED = 200  # characters of each message quoted
EDITED_SINCE = " edited the request after the agent had read it. It says now:"


def origin_blocks(view: CardView) -> list[Json]:
    """Quote what was asked, say where it reads otherwise by now, and who asked whom for what."""
    blocks: list[Json] = []
    if view.asked:
        quoted = [plain_text(f"“{plain(apart(visible(text)), QUOTED)}”") for text in view.asked]
        by = mrkdwn(f"💬 {mention(view.requester)} wrote")
        blocks.append(context(block_id(Block.REQUEST, view.plan_id), [by, *quoted]))
    if view.reworded:
        says = line(words("✏️ "), person(view.requester), words(EDITED_SINCE, bold=True))
        now = [quote(plain(visible(text), QUOTED) or "(nothing)") for text in view.reworded]
        blocks.append(rich(block_id(Block.REWORDED, view.plan_id), [says, *now]))
    programs = dict.fromkeys(each.program for each in view.calls if each.program)
    for number, said in enumerate(programs):
        blocks.append(context(block_id(Block.PROGRAM, view.plan_id, number), [plain_text(said)]))
    return [*blocks, *errand_blocks(view.plan_id, view.errands)]


def errand_blocks(about: str | CallTarget, errands: Sequence[Errand]) -> list[Json]:
    """Say who asked whom for what between the requester's agent and what is asked."""
    return [
        context(block_id(Block.ERRANDS, about, number), [plain_text(text)])
        for number, text in enumerate(errand_lines(errands))
    ]


def errand_lines(errands: Sequence[Errand]) -> list[str]:
    """The same as plain text: of others' words, so not as mrkdwn."""
    return [unescape(errand_line(each.agent, each.by, each.what)) for each in errands]
