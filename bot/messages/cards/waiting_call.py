"""A call that waits for its decision: what it would do, how far the votes have come, the buttons.

Pure; part of `cards`. The whole card is put together in `card`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bot.messages.actions.codec import Click, block_id
from bot.messages.actions.names import Action, Block
from bot.messages.actions.targets import CallTarget, RunTarget
from bot.messages.parts import (
    Json,
    actions,
    button,
    confirm,
    context,
    header,
    menu,
    mrkdwn,
    packed,
    plain_text,
    rich,
    section,
)
from bot.messages.pieces import ALL_ROWS, Filled, effect_of, headline, title_of
from bot.messages.text import due, mention, plain, visible
from bot.messages.views import CallView, Progress

CANCEL = "Cancel the request (who asked)"
RICH_LIMIT = 3_000  # characters of one rich_text block


def waiting_blocks(
    call: CallView, filled: Filled, *, asked: Sequence[str] = (), whole: RunTarget | None = None
) -> list[Json]:
    """Build what the call would do, until when it waits, and the buttons that decide it.

    `asked`: who asked and who may decide, where nothing below the call says so (mrkdwn).
    `whole`: the request that the call is all of.
    """
    about = call.target
    blocks = [header(block_id(Block.HEADLINE, about), headline(call))]
    if call.does == "destructive":
        blocks.append(section(block_id(Block.WARNING, about), mrkdwn("⚠️ *This cannot be undone.*")))
    if call.note and not call.edited_by:
        blocks.append(
            context(
                block_id(Block.NOTE, about),
                [plain_text(plain(f"🔁 Why this is asked: {visible(call.note)}", 300))],
            )
        )
    blocks += packed(filled.body, RICH_LIMIT, partial(block_id, Block.VALUES, about))
    if filled.missing:
        blocks.append(context(block_id(Block.MISSING, about), [plain_text(f"🔎 {filled.missing}")]))
    if filled.reason:
        blocks.append(rich(block_id(Block.AGENT_WORDS, about), filled.reason))
    small = [*asked]
    if call.edited_by:
        small.append(f"Edited by {mention(call.edited_by)}")
    if call.deadline:
        small.append(f"⏳ Decide by {due(call.deadline)}")
    facts = [mrkdwn("  ·  ".join(small))] if small else []
    facts.append(plain_text(f"{title_of(call)}  ·  #{call.digest[:8]}"))
    blocks.append(context(block_id(Block.SMALL_PRINT, about), facts))
    if call.progress:
        blocks.append(context(block_id(Block.PROGRESS, about), [mrkdwn(_so_far(call.progress))]))
    row = [*_buttons(call, filled), _more(call, filled, whole)]
    return [*blocks, actions(block_id(Block.CALL_BUTTONS, about), row)]


def _so_far(progress: Progress) -> str:
    """Say how far the votes have come, in mrkdwn of ids and numbers only.

    "🗳️ Step 1 of 2  ·  ✅ @ana  ·  1 more approval needed"
    """
    parts = [f"Step {progress.stage} of {progress.stages}"] if progress.stages > 1 else []
    parts += [f"✅ {mention(person)}" for person in progress.approved]
    parts += [f"🚫 {mention(person)}" for person in progress.rejected]
    more = "more " if progress.approved else ""
    here = " in this step" if progress.stages > 1 else ""
    approvals = "approval" if progress.needed == 1 else "approvals"
    parts.append(f"{progress.needed} {more}{approvals} needed{here}")
    if progress.veto > 1:
        left = progress.veto - len(progress.rejected)
        more = "more " if progress.rejected else ""
        parts.append(f"{left} {more}{'rejection' if left == 1 else 'rejections'} would end it")
    return "🗳️ " + "  ·  ".join(parts)


def approved_here(call: CallView, filled: Filled) -> bool:
    """Return whether the card approves the call itself; else Review does, or a note is wanted."""
    return filled.complete and not call.needs_words


def _buttons(call: CallView, filled: Filled) -> list[Json]:
    about = call.target
    if approved_here(call, filled):
        ask = None
        if call.does == "destructive":
            text = f"{plain(effect_of(call), 240)}\n\nThis cannot be undone."
            ask = confirm("Approve this?", text, "Approve")
        row = [button(Action.APPROVE, "Approve", about, style="primary", confirm=ask)]
    else:
        row = [button(Action.REVIEW, "Review and approve…", about, style="primary")]
    if call.editable:
        row.append(button(Action.EDIT, "Edit", about))
    if call.no_needs_words:
        return [*row, button(Action.REJECT, "Reject…", about, style="danger")]
    return [*row, button(Action.REJECT_NOW, "Reject", about, style="danger")]


def _more(call: CallView, filled: Filled, whole: RunTarget | None) -> Json:
    """Build the menu of what is needed less often, without what is a button already."""
    about, choices = call.target, []
    if approved_here(call, filled):
        remember = " or remember it" if call.offers else ""
        label = f"Approve with a note{remember}…"
        choices.append((label, Click(Action.REVIEW, about)))
    if not call.no_needs_words:
        choices.append(("Reject with a reason…", Click(Action.REJECT, about)))
    if call.has_rows:
        choices.append((ALL_ROWS, Click(Action.ROWS, about)))
    taken_back = (
        (CANCEL, Click(Action.CANCEL_RUN, whole))
        if whole
        else (
            "Withdraw (who asked)",
            Click(Action.WITHDRAW, about),
        )
    )
    if call.by_agent:
        choices.append(send_back(about))
    return menu([*choices, taken_back])


def send_back(about: CallTarget) -> tuple[str, Click]:
    """Build the choice that has the plan of this call made anew."""
    return "Send the plan back…", Click(Action.SEND_BACK, about)
