"""One call on its card: its effect, votes and buttons while it waits, then how it ended and why.

Pure; part of `card`.
"""

from __future__ import annotations

import re
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
    moment,
    mrkdwn,
    pack_rich_text,
    person,
    plain_text,
    quote,
    rich,
    section,
    words,
)
from bot.cards.button_codec import CallTarget, CardTarget, Click, RunTarget, block_id
from bot.cards.call_pieces import (
    ALL_ROWS,
    FilledPieces,
    compact,
    confirmation_of,
    effect_of,
    finality,
    headline,
    shown,
)
from bot.cards.notices import delegated_task_line
from bot.cards.slack_text import (
    channel_mention,
    decider_mention,
    escape,
    group_mention,
    isolate_leftward,
    isolate_leftward_runs,
    mention,
    plain,
    unescape,
    visible,
    when,
)
from bot.cards.views import CallView, CardView, DelegatedTask, Progress, Value
from storage.states import CallStatus

# A call that waits for its decision: its effect, the votes so far, the buttons.

# What stands above the calls: the requester's words, and sub-agents on the way. Pure.

QUOTED = 200  # characters of each message quoted
EDITED_SINCE = " edited the request after the agent had read it. It says now:"


def origin_blocks(view: CardView) -> list[Json]:
    """Build what stands above the calls: the requester's words, edits, programs, sub-agents."""
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
    """Build small print that says who asked which sub-agent for what, one block for each."""
    return [
        context(block_id(Block.ERRANDS, about, number), [plain_text(text)])
        for number, text in enumerate(delegated_task_lines(errands))
    ]


def delegated_task_lines(errands: Sequence[DelegatedTask]) -> list[str]:
    """Return lines that say who asked which sub-agent for what.

    They are plain text, not mrkdwn, since others wrote the words.
    """
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
    """Build the blocks of a call that waits: effect, warnings, reason, arguments, buttons.

    Warnings stand above the arguments. `small`: who asked, who may decide and until when, if
    nothing above the call says so (mrkdwn). `whole`: the request, if no other call waits on this
    card; `alone`: the card shows no other call.
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
    """Return what to consider before approving, as rich text; mostly nothing."""
    found = []
    if final := finality(call.does, call.stated):
        found.append(line(words(f"⚠️ {final}", bold=True)))
    if call.note and not call.edited_by:
        why = plain(isolate_leftward_runs(visible(" ".join(call.note.split()))), 300)
        found.append(line(words(f"🔁 Why this is asked: {why}")))
    return found


def is_warned_of(call: CallView) -> bool:
    """Return whether the call has warnings, so that its Approve button is not highlighted."""
    return bool(_warnings(call))


def approve_style(*calls: CallView) -> str:
    """Return the style of a button that approves these calls: "primary" if none has warnings."""
    return "" if any(map(is_warned_of, calls)) else "primary"


def _so_far(progress: Progress) -> str:
    """Return how far the votes on a call have come, in mrkdwn of ids and numbers only.

    "🗳️ Step 1 of 2 · ✅ @ana · 1 more approval needed"
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
    """Return whose approvals are missing if the steps have no order: ": 1 of @hr, 1 of @legal"."""
    found = []
    for each in progress.missing:
        names = [group_mention(group) for group in each.groups]
        names += [mention(user) for user in each.users]
        names += [f"members of {channel_mention(each.channel)}"] if each.channel else []
        names[NAMED:] = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
        found.append(f"{each.count} of {' or '.join(names) or 'others'}")
    return f": {', '.join(found)}" if found else ""


def approved_here(call: CallView, filled: FilledPieces) -> bool:
    """Return whether the card has Approve: it shows the whole call, and no reason is required."""
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
    """Build the menu of less common actions, without those that have a button."""
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
    """Return the menu choice that sends the plan of this call back, to be made again."""
    return "Send the plan back…", Click(Action.SEND_BACK, about)


TEXT_LIMIT = 400  # characters of a note or a result on a card; the whole is in the thread
EFFECT_LIMIT = 300
REMARK_LIMIT, MOST_REMARKS = 150, 2  # characters of what an approver said; how many are shown
INLINE_LIMIT = 120  # a longer or many-line note stands in a quote of its own

S = CallStatus
ICONS = {
    S.PENDING: "⌛",
    S.APPROVED: "✅",
    S.REJECTED: "🚫",
    S.ANSWERED: "💬",
    S.EXPIRED: "⌛",
    S.CANCELLED: "⏹️",
    S.SUPERSEDED: "↪️",
    S.INVALIDATED: "⚠️",
    S.REFUSED: "⛔",
    S.RUNNING: "⏳",
    S.ENTRUSTED: "⏳",
    S.SUCCEEDED: "✅",
    S.FAILED: "❌",
    S.UNKNOWN: "❓",
}
WORDS = {
    S.PENDING: "Too late",
    S.APPROVED: "Approved",
    S.REJECTED: "Rejected",
    S.ANSWERED: "Answered",
    S.EXPIRED: "Expired",
    S.CANCELLED: "Cancelled",
    S.SUPERSEDED: "Replaced",
    S.INVALIDATED: "No longer valid",
    S.REFUSED: "Refused",
    S.RUNNING: "Running…",
    S.ENTRUSTED: "At work…",
    S.SUCCEEDED: "Done",
    S.FAILED: "Failed",
    S.UNKNOWN: "Unknown",
}
STARTED = (S.RUNNING, S.ENTRUSTED, S.SUCCEEDED, S.FAILED, S.UNKNOWN)
BEGAN = {
    S.RUNNING: "Running",
    S.ENTRUSTED: "At work",
    S.SUCCEEDED: "Done",
    S.FAILED: "It failed",
}
# what may be asked for once more
OVER = (S.SUCCEEDED, S.FAILED, S.REJECTED, S.EXPIRED, S.CANCELLED, S.INVALIDATED)
HANDED_ICON, HANDED_WORDS = "📤", "Handed over"
WAITS_FOR_PROGRAM = "the program that asked has not begun yet"
BY_A_PERSON = (S.APPROVED, S.REJECTED, S.CANCELLED)


def decided_blocks(call: CallView, *, alone: bool, undecided: bool = False) -> list[Json]:
    """Build the blocks of a decided call: its result or effect, its status and why, who took part.

    There are buttons only if nobody knows how the call ended. `alone`: the card shows no other
    call, and its foot says who took part. `undecided`: whether an approved call waits for decisions
    about others of its plan.
    """
    title = _title(call)
    elements = [line(words(title, bold=True))]
    text = _said(call)
    inline = bool(text) and len(text) <= INLINE_LIMIT and "\n" not in text and not call.quoted
    elements.append(
        line(*_status(call, undecided), *([words(_glue(call)), words(text)] if inline else []))
    )
    if text and not inline:
        elements.append(quote(text))
    elements += [_remark(*each) for each in call.remarks[:MOST_REMARKS]]
    if values := [each for each in call.values if _says_more(each, title)]:
        elements.append(line(*compact(values)))
    blocks = [rich(block_id(Block.OUTCOME, call.target), elements)]
    if (small := _small(call)) and not alone:
        joined = mrkdwn("  ·  ".join(small))
        blocks.append(context(block_id(Block.SMALL_PRINT, call.target), [joined]))
    if asks(call):
        blocks.append(actions(block_id(Block.RESOLUTIONS, call.target), _resolutions(call)))
    return blocks


def _title(call: CallView) -> str:
    """Return what a call did, in its tool's words, or else what it would do."""
    came_to = " ".join(call.outcome.split()) if call.status is S.SUCCEEDED else ""
    return plain(shown(came_to, effect_of(call)), EFFECT_LIMIT)


def _says_more(value: Value, title: str) -> bool:
    """Return whether to list the argument: it was edited, or is set and no word of the title yet.

    The 4 of "Deploy 2.8.4" is no word of its own.
    """
    if value.before is not None or not value.says_something:
        return value.says_something
    return re.search(rf"(?<![\w.,:/-]){re.escape(value.text)}(?![.,:/-]?\w)", title) is None


def _remark(who: str, said: str) -> Json:
    return quote(f": {plain(shown(said, '(blank)'), REMARK_LIMIT)}", person(who))


def asks(call: CallView) -> bool:
    """Return whether people are still asked how the call ended: nobody knows, and time is left."""
    return call.status is S.UNKNOWN and call.deadline is not None


def _status(call: CallView, undecided: bool) -> list[Json]:
    """Return the line "✅ Approved by @ana · 14:02 …" as rich-text leaves."""
    icon, is_now = ICONS[call.status], WORDS[call.status]
    if call.handed_on:
        icon, is_now = HANDED_ICON, HANDED_WORDS
    leaves = [words(f"{icon} "), words(is_now, bold=True)]
    match call.status:
        case S.APPROVED | S.REJECTED | S.CANCELLED:
            leaves += _by(call)
        case S.EXPIRED:
            leaves.append(words(": nobody answered"))
            leaves += (
                [words(" by "), moment(call.deadline)] if call.deadline else [words(" in time")]
            )
        case S.PENDING:
            leaves.append(words(": the deadline has passed, and this is being closed"))
        case S.UNKNOWN if call.handed_on:
            leaves.append(words(": the program that asked has not said how it went"))
        case S.UNKNOWN:
            given_up = "" if asks(call) else ", and it is no longer asked"
            leaves.append(words(f": started, never confirmed{given_up}"))
        case S.FAILED if call.midway:
            leaves.append(words(" after it had begun, so part of it may have happened"))
        case S.SUPERSEDED if not call.note.strip():
            leaves.append(words(" by a newer request"))
        case S.INVALIDATED if not call.note.strip():
            leaves.append(words(": what was shown is no longer what would run"))
    if call.status is S.APPROVED:
        waits = WAITS_FOR_PROGRAM if call.program else _waits_for(undecided)
        leaves.append(words(f" — {waits}", italic=True))
        if call.good_until:
            leaves += [words(". Approval expires ", italic=True), moment(call.good_until)]
    return leaves


def _waits_for(undecided: bool) -> str:
    """Return what an approved call waits for, without a number that each vote would change."""
    return "runs once the rest is decided" if undecided else "not started yet"


def _by(call: CallView) -> list[Json]:
    leaves: list[Json] = []
    for index, user in enumerate(call.decided_by):
        leaves += [
            words((" and " if index == len(call.decided_by) - 1 else ", ") if index else " by "),
            *_person(call, user),
        ]
    if not call.decided_by and call.status is S.APPROVED:
        leaves.append(words(" by policy"))
    if call.decided_at:
        leaves += [words(" · "), moment(call.decided_at)]
    return leaves


def _mentions(call: CallView) -> str:
    return " and ".join(decider_mention(user, call.stand_ins) for user in call.decided_by)


def _person(call: CallView, user: str) -> list[Json]:
    """Return the leaves that name who decided: "@cleo, for @ana"."""
    stand_in = call.stand_ins.get(user)
    return [person(stand_in), words(", for "), person(user)] if stand_in else [person(user)]


def _glue(call: CallView) -> str:
    return (
        " — "
        if call.status in BY_A_PERSON or call.status in (S.EXPIRED, S.UNKNOWN, S.PENDING)
        else ": "
    )


def _said(call: CallView) -> str:
    """Return the result, reason or error of a call: hidden characters shown, bounded."""
    text = call.result if call.status is S.SUCCEEDED else call.note
    if call.status is S.FAILED and not text.strip():
        text = call.result
    return plain(shown(text.strip(), ""), TEXT_LIMIT)


def _small(call: CallView) -> list[str]:
    """Return in mrkdwn who edited the call and, if it was started, who approved it."""
    small = [f"Edited by {mention(call.edited_by)}"] if call.edited_by else []
    if call.status in STARTED:
        at = f", {when(call.decided_at)}" if call.decided_at else ""
        small.append(f"Approved by {_mentions(call) or 'policy'}{at}")
    return small


def _resolutions(call: CallView) -> list[Json]:
    again = confirm(
        "Run it again?",
        f"{plain(effect_of(call), 150)}\n\n"
        "If the first attempt did finish after all, this happens a second time.",
        "Run it again",
    )
    return [
        button(Action.RESOLVE_DONE, "It happened", call.target),
        button(Action.RESOLVE_NOT_DONE, "It did not happen", call.target),
        button(Action.RUN_AGAIN, "Run it again", call.target, style="danger", confirm=again),
    ]


def foot(calls: Sequence[CallView], asked: str, about: CardTarget) -> Json:
    """Build the line of who asked (mrkdwn), with a menu to ask for the same calls again.

    For a single call the line also says who edited and approved it.
    """
    if len(calls) == 1:
        asked = "  ·  ".join([asked, *_small(calls[0])])
    over = [call for call in calls if call.status in OVER or call.handed_on]
    choices = [
        (_again(call, alone=len(over) == 1), Click(Action.ASK_AGAIN, call.target)) for call in over
    ]
    if not choices:
        return context(block_id(Block.ASKED, about), [mrkdwn(asked)])
    return {**section(block_id(Block.ASKED, about), mrkdwn(asked)), "accessory": menu(choices)}


def _again(call: CallView, *, alone: bool) -> str:
    return "Ask again…" if alone else plain(f"Ask again: {effect_of(call)}", 75)


def outcome_sentence(call: CallView) -> str:
    """Return what became of the call, for the notification: escaped, with a shortened effect.

    "Refunded 30.00 EUR of order 1042, 59.90 left. Approved by <@U1>."
    """
    effect = escape(plain(effect_of(call), 120)).rstrip(".")
    by = f" by {_mentions(call)}" if call.decided_by else ""
    if call.status in STARTED:
        approved = f"Approved{by or ' by policy'}."
        came_to = escape(plain(_title(call), 120)).rstrip(".")
        if call.status is S.SUCCEEDED and call.outcome.strip():
            return f"{came_to}. {approved}"
        unsaid = HANDED_WORDS if call.handed_on else "Nobody knows whether this happened"
        start = BEGAN.get(call.status, unsaid)
        return f"{start}: {effect}. {approved}"
    if call.status is S.EXPIRED:
        return f"Nobody answered in time: {effect}."
    return f"{WORDS[call.status]}{by}: {effect}."
