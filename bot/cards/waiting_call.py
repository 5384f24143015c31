"""A call that waits for its decision: what it would do, how far the votes have come, the buttons.

Pure; part of `card`. The whole card is put together in `card`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bot.cards.action_names import Action, Block
from bot.cards.block_kit import (
    Json,
    actions,
    button,
    columns,
    confirm,
    context,
    header,
    line,
    menu,
    mrkdwn,
    pack_rich_text,
    person,
    plain_text,
    quote,
    rich,
    words,
)
from bot.cards.button_codec import CallTarget, Click, RunTarget, block_id
from bot.cards.call_pieces import (
    ALL_ROWS,
    FilledPieces,
    confirmation_of,
    effect_of,
    finality,
    headline,
)
from bot.cards.notices import delegated_task_line
from bot.cards.slack_text import (
    channel_mention,
    decider_mention,
    group_mention,
    isolate_leftward,
    isolate_leftward_runs,
    mention,
    plain,
    unescape,
    visible,
)
from bot.cards.views import CallView, CardView, DelegatedTask, Progress

# Above what a card asks: the words that began it, and which sub-agents stand between. Pure.

QUOTED = 200  # characters of each message quoted
EDITED_SINCE = " edited the request after the agent had read it. It says now:"


def origin_blocks(view: CardView) -> list[Json]:
    """Quote what was asked, say where it reads otherwise by now, and who asked whom for what."""
    blocks: list[Json] = []
    if view.asked:
        quoted = [
            plain_text(f"“{plain(isolate_leftward(visible(text)), QUOTED)}”") for text in view.asked
        ]
        by = mrkdwn(f"💬 {mention(view.requester)} wrote")
        blocks.append(context(block_id(Block.REQUEST, view.plan_id), [by, *quoted]))
    if view.reworded:
        says = line(words("✏️ "), person(view.requester), words(EDITED_SINCE, bold=True))
        now = [quote(plain(visible(text), QUOTED) or "(nothing)") for text in view.reworded]
        blocks.append(rich(block_id(Block.REWORDED, view.plan_id), [says, *now]))
    programs = dict.fromkeys(each.program for each in view.calls if each.program)
    for number, said in enumerate(programs):
        blocks.append(context(block_id(Block.PROGRAM, view.plan_id, number), [plain_text(said)]))
    return [*blocks, *delegated_task_blocks(view.plan_id, view.errands)]


def delegated_task_blocks(about: str | CallTarget, errands: Sequence[DelegatedTask]) -> list[Json]:
    """Say who asked whom for what between the requester's agent and what is asked."""
    return [
        context(block_id(Block.ERRANDS, about, number), [plain_text(text)])
        for number, text in enumerate(delegated_task_lines(errands))
    ]


def delegated_task_lines(errands: Sequence[DelegatedTask]) -> list[str]:
    """The same as plain text: of others' words, so not as mrkdwn."""
    return [unescape(delegated_task_line(each.agent, each.by, each.what)) for each in errands]


CANCEL = "Cancel the request (who asked)"
MOST_CHOICES = 5  # of a menu
RICH_LIMIT = 3_000  # characters of one rich_text block
ROW_LIMIT = 10  # cells of one section in two columns
NAMED = 10  # people and groups named of whom a step lacks


def waiting_blocks(
    call: CallView,
    filled: FilledPieces,
    *,
    small: Sequence[str],
    whole: RunTarget | None = None,
    alone: bool = False,
) -> list[Json]:
    """Build what the call would do, why, with what, and the buttons that decide it.

    What warns of it stands above its arguments. `small`: who asked, who may decide and until when,
    where nothing above the call says so (mrkdwn). `whole`: the request, where nothing
    else of it waits here; `alone`: the card shows nothing else.
    """
    about = call.target
    blocks = [header(block_id(Block.HEADLINE, about), headline(call))]
    if warned := _warnings(call):
        blocks.append(rich(block_id(Block.WARNING, about), warned))
    if filled.sentence or filled.reason:
        said = [*filled.sentence, *filled.reason]
        blocks += pack_rich_text(said, RICH_LIMIT, partial(block_id, Block.AGENT_WORDS, about))
    for start in range(0, len(filled.cells), ROW_LIMIT):
        cells = [plain_text(text) for text in filled.cells[start : start + ROW_LIMIT]]
        blocks.append(columns(block_id(Block.SHORT_VALUES, about, start), cells))
    blocks += pack_rich_text(filled.body, RICH_LIMIT, partial(block_id, Block.VALUES, about))
    if filled.missing:
        blocks.append(context(block_id(Block.MISSING, about), [plain_text(f"🔎 {filled.missing}")]))
    below = [*small, *([f"Edited by {mention(call.edited_by)}"] if call.edited_by else [])]
    if below:
        blocks.append(context(block_id(Block.SMALL_PRINT, about), [mrkdwn("  ·  ".join(below))]))
    if call.progress:
        blocks.append(context(block_id(Block.PROGRESS, about), [mrkdwn(_so_far(call.progress))]))
    row = [*_buttons(call, filled), _more(call, filled, whole, alone)]
    return [*blocks, actions(block_id(Block.CALL_BUTTONS, about), row)]


def _warnings(call: CallView) -> list[Json]:
    """Say what to think of before approving, as rich text: nothing, mostly."""
    found = []
    if final := finality(call.does, call.stated):
        found.append(line(words(f"⚠️ {final}", bold=True)))
    if call.note and not call.edited_by:
        why = plain(isolate_leftward_runs(visible(" ".join(call.note.split()))), 300)
        found.append(line(words(f"🔁 Why this is asked: {why}")))
    return found


def is_warned_of(call: CallView) -> bool:
    """Return whether something about the call warns: then Approve does not invite a click."""
    return bool(_warnings(call))


def approve_style(*calls: CallView) -> str:
    """Return the style of a button that approves these calls."""
    return "" if any(map(is_warned_of, calls)) else "primary"


def _so_far(progress: Progress) -> str:
    """Say how far the votes have come, in mrkdwn of ids and numbers only.

    "🗳️ Step 1 of 2  ·  ✅ @ana  ·  1 more approval needed"
    """
    parts = [f"Step {progress.stage} of {progress.stages}"] if progress.stages > 1 else []
    parts += [f"✅ {decider_mention(person, progress.stand_ins)}" for person in progress.approved]
    parts += [f"🚫 {decider_mention(person, progress.stand_ins)}" for person in progress.rejected]
    more = "more " if progress.approved else ""
    here = " in this step" if progress.stages > 1 else ""
    approvals = "approval" if progress.needed == 1 else "approvals"
    parts.append(f"{progress.needed} {more}{approvals} needed{here}{_of_whom(progress)}")
    if progress.veto > 1:
        left = progress.veto - len(progress.rejected)
        more = "more " if progress.rejected else ""
        parts.append(f"{left} {more}{'rejection' if left == 1 else 'rejections'} would end it")
    return "🗳️ " + "  ·  ".join(parts)


def _of_whom(progress: Progress) -> str:
    """Say who is still missing, where the steps have no order: ": 1 of @finance, 1 of @legal"."""
    found = []
    for each in progress.missing:
        names = [group_mention(group) for group in each.groups]
        names += [mention(user) for user in each.users]
        names += [f"members of {channel_mention(each.channel)}"] if each.channel else []
        names[NAMED:] = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
        found.append(f"{each.count} of {' or '.join(names) or 'others'}")
    return f": {', '.join(found)}" if found else ""


def approved_here(call: CallView, filled: FilledPieces) -> bool:
    """Return whether the card approves the call itself; else Review does, or a note is wanted."""
    return filled.complete and not call.needs_words


def _buttons(call: CallView, filled: FilledPieces) -> list[Json]:
    about = call.target
    if approved_here(call, filled):
        ask = None
        if final := finality(call.does, call.stated):
            sure = confirmation_of(effect_of(call), final)
            ask = confirm(sure.title, sure.text, sure.yes)
        row = [button(Action.APPROVE, "Approve", about, style=approve_style(call), confirm=ask)]
    else:
        row = [button(Action.REVIEW, "Review…", about, style=approve_style(call))]
    if call.editable:
        row.append(button(Action.EDIT, "Edit", about))
    if call.no_needs_words:
        return [*row, button(Action.REJECT, "Reject…", about, style="danger")]
    return [*row, button(Action.REJECT_NOW, "Reject", about, style="danger")]


def _more(call: CallView, filled: FilledPieces, whole: RunTarget | None, alone: bool) -> Json:
    """Build the menu of what is needed less often, without what is a button already."""
    about, choices = call.target, []
    if approved_here(call, filled):
        remember = " or remember it" if call.offers else ""
        label = f"Details, approve with a note{remember}…"
        choices.append((label, Click(Action.REVIEW, about)))
    if not call.no_needs_words:
        choices.append(("Reject with a reason…", Click(Action.REJECT, about)))
    if call.has_rows:
        choices.append((ALL_ROWS, Click(Action.ROWS, about)))
    if call.by_agent:
        choices.append(send_back(about))
    if not alone:
        choices.append(("Withdraw (who asked)", Click(Action.WITHDRAW, about)))
    if whole:
        choices.append((CANCEL, Click(Action.CANCEL_RUN, whole)))
    return menu(choices[:MOST_CHOICES])


def send_back(about: CallTarget) -> tuple[str, Click]:
    """Build the choice that has the plan of this call made anew."""
    return "Send the plan back…", Click(Action.SEND_BACK, about)
