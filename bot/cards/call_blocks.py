"""One call on its card: its effect, votes and buttons while it waits, then how it ended and why.

Pure; part of `card`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from bot.cards.action_names import Action, BlockKind
from bot.cards.block_kit import (
    Json,
    actions_block,
    button,
    confirmation_dialog,
    context_block,
    header_block,
    mrkdwn,
    overflow_menu,
    pack_rich_text,
    plain_text,
    rich_text_block,
    rich_text_line,
    rich_text_quote,
    section_block,
    text_leaf,
    time_leaf,
    two_column_section,
    user_leaf,
)
from bot.cards.button_codec import CallTarget, CardTarget, Click, RunTarget, build_block_id
from bot.cards.call_pieces import (
    ALL_ROWS,
    FilledPieces,
    build_approval_confirmation,
    get_card_headline,
    get_effect_sentence,
    irreversibility_warning,
    render_values_on_one_line,
    show_hidden_or_default,
)
from bot.cards.notices import delegated_task_line
from bot.cards.slack_text import (
    channel_mention,
    decider_mention,
    escape_mrkdwn,
    format_local_time,
    group_mention,
    isolate_right_to_left_runs,
    isolate_right_to_left_text,
    shorten_text,
    show_hidden_characters,
    unescape_mrkdwn,
    user_mention,
)
from bot.cards.views import ArgumentValue, CallView, CardView, DelegatedTask, VoteProgress
from storage.states import CallStatus

# A call that waits for its decision: its effect, the votes so far, the buttons.

# What stands above the calls: the requester's words, and sub-agents on the way. Pure.

QUOTED = 200  # characters of each message quoted
EDITED_SINCE = " edited the request after the agent had read it. It says now:"


def render_request_origin(view: CardView) -> list[Json]:
    """Build what stands above the calls: the requester's words, edits, programs, sub-agents."""
    blocks: list[Json] = []
    if view.requester_messages:
        quoted = [
            plain_text(f"“{shorten_text(each, QUOTED)}”")
            for each in map(
                isolate_right_to_left_text, map(show_hidden_characters, view.requester_messages)
            )
        ]
        by = mrkdwn(f"💬 {user_mention(view.requester)} wrote")
        blocks.append(context_block(build_block_id(BlockKind.REQUEST, view.plan_id), [by, *quoted]))
    if view.edited_messages:
        says = rich_text_line(
            text_leaf("✏️ "), user_leaf(view.requester), text_leaf(EDITED_SINCE, bold=True)
        )
        now = [
            rich_text_quote(shorten_text(show_hidden_characters(text), QUOTED) or "(nothing)")
            for text in view.edited_messages
        ]
        blocks.append(
            rich_text_block(build_block_id(BlockKind.REWORDED, view.plan_id), [says, *now])
        )
    programs = dict.fromkeys(each.program_note for each in view.calls if each.program_note)
    for number, said in enumerate(programs):
        blocks.append(
            context_block(
                build_block_id(BlockKind.PROGRAM, view.plan_id, number), [plain_text(said)]
            )
        )
    return [*blocks, *render_delegated_tasks(view.plan_id, view.delegated_tasks)]


def render_delegated_tasks(about: str | CallTarget, errands: Sequence[DelegatedTask]) -> list[Json]:
    """Build small print that says who asked which sub-agent for what, one block for each."""
    return [
        context_block(build_block_id(BlockKind.ERRANDS, about, number), [plain_text(text)])
        for number, text in enumerate(list_delegated_task_lines(errands))
    ]


def list_delegated_task_lines(errands: Sequence[DelegatedTask]) -> list[str]:
    """Return lines that say who asked which sub-agent for what.

    They are plain text, not mrkdwn, since others wrote the words.
    """
    return [
        unescape_mrkdwn(delegated_task_line(each.agent, each.by, each.what)) for each in errands
    ]


CANCEL = "Cancel the request (who asked)"
MOST_CHOICES = 5  # of a menu
RICH_LIMIT = 3_000  # characters of one rich_text block
ROW_LIMIT = 10  # cells of one section in two columns
NAMED = 10  # people and groups named of whom a step lacks


def render_waiting_call(
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
    blocks = [header_block(build_block_id(BlockKind.HEADLINE, about), get_card_headline(call))]
    if warned := _render_warnings(call):
        blocks.append(rich_text_block(build_block_id(BlockKind.WARNING, about), warned))
    if filled.sentence or filled.reason:
        said = [*filled.sentence, *filled.reason]
        blocks += pack_rich_text(
            said, RICH_LIMIT, partial(build_block_id, BlockKind.AGENT_WORDS, about)
        )
    for start in range(0, len(filled.cells), ROW_LIMIT):
        cells = [plain_text(text) for text in filled.cells[start : start + ROW_LIMIT]]
        blocks.append(
            two_column_section(build_block_id(BlockKind.SHORT_VALUES, about, start), cells)
        )
    blocks += pack_rich_text(
        filled.body, RICH_LIMIT, partial(build_block_id, BlockKind.VALUES, about)
    )
    if filled.missing:
        missing = plain_text(f"🔎 {filled.missing}")
        blocks.append(context_block(build_block_id(BlockKind.MISSING, about), [missing]))
    below = [*small, *([f"Edited by {user_mention(call.edited_by)}"] if call.edited_by else [])]
    if below:
        line = mrkdwn("  ·  ".join(below))
        blocks.append(context_block(build_block_id(BlockKind.SMALL_PRINT, about), [line]))
    if call.progress:
        line = mrkdwn(_describe_vote_progress(call.progress))
        blocks.append(context_block(build_block_id(BlockKind.PROGRESS, about), [line]))
    row = [*_render_decision_buttons(call, filled), _render_more_menu(call, filled, whole, alone)]
    return [*blocks, actions_block(build_block_id(BlockKind.CALL_BUTTONS, about), row)]


def _render_warnings(call: CallView) -> list[Json]:
    """Return what to consider before approving, as rich text; mostly nothing."""
    found = []
    if final := irreversibility_warning(call.does, call.effect_source):
        found.append(rich_text_line(text_leaf(f"⚠️ {final}", bold=True)))
    if call.note and not call.edited_by:
        why = shorten_text(
            isolate_right_to_left_runs(show_hidden_characters(" ".join(call.note.split()))), 300
        )
        found.append(rich_text_line(text_leaf(f"🔁 Why this is asked: {why}")))
    return found


def has_warnings(call: CallView) -> bool:
    """Return whether the call has warnings, so that its Approve button is not highlighted."""
    return bool(_render_warnings(call))


def choose_approve_button_style(*calls: CallView) -> str:
    """Return the style of a button that approves these calls: "primary" if none has warnings."""
    return "" if any(map(has_warnings, calls)) else "primary"


def _describe_vote_progress(progress: VoteProgress) -> str:
    """Return how far the votes on a call have come, in mrkdwn of ids and numbers only.

    "🗳️ Step 1 of 2 · ✅ @ana · 1 more approval needed"
    """
    parts = [f"Step {progress.stage} of {progress.stages}"] if progress.stages > 1 else []
    parts += [f"✅ {decider_mention(person, progress.stand_ins)}" for person in progress.approved]
    parts += [f"🚫 {decider_mention(person, progress.stand_ins)}" for person in progress.rejected]
    more = "more " if progress.approved else ""
    here = " in this step" if progress.stages > 1 else ""
    approvals = "approval" if progress.approvals_needed == 1 else "approvals"
    parts.append(
        f"{progress.approvals_needed} {more}{approvals} "
        f"needed{here}{_describe_missing_votes(progress)}"
    )
    if progress.rejections_to_end > 1:
        left = progress.rejections_to_end - len(progress.rejected)
        more = "more " if progress.rejected else ""
        parts.append(f"{left} {more}{'rejection' if left == 1 else 'rejections'} would end it")
    return "🗳️ " + "  ·  ".join(parts)


def _describe_missing_votes(progress: VoteProgress) -> str:
    """Return whose approvals are missing if the steps have no order: ": 1 of @hr, 1 of @legal"."""
    found = []
    for each in progress.missing:
        names = [group_mention(group) for group in each.groups]
        names += [user_mention(user) for user in each.users]
        names += [f"members of {channel_mention(each.channel)}"] if each.channel else []
        names[NAMED:] = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
        found.append(f"{each.count} of {' or '.join(names) or 'others'}")
    return f": {', '.join(found)}" if found else ""


def has_approve_button(call: CallView, filled: FilledPieces) -> bool:
    """Return whether the card has Approve: it shows the whole call, and no reason is required."""
    return filled.is_complete and not call.needs_approval_reason


def _render_decision_buttons(call: CallView, filled: FilledPieces) -> list[Json]:
    about = call.target
    if has_approve_button(call, filled):
        ask = None
        if final := irreversibility_warning(call.does, call.effect_source):
            sure = build_approval_confirmation(get_effect_sentence(call), final)
            ask = confirmation_dialog(sure.title, sure.text, sure.yes)
        row = [
            button(
                Action.APPROVE,
                "Approve",
                about,
                style=choose_approve_button_style(call),
                confirm=ask,
            )
        ]
    else:
        row = [button(Action.REVIEW, "Review…", about, style=choose_approve_button_style(call))]
    if call.editable:
        row.append(button(Action.EDIT, "Edit", about))
    if call.needs_rejection_reason:
        return [*row, button(Action.REJECT, "Reject…", about, style="danger")]
    return [*row, button(Action.REJECT_NOW, "Reject", about, style="danger")]


def _render_more_menu(
    call: CallView, filled: FilledPieces, whole: RunTarget | None, alone: bool
) -> Json:
    """Build the menu of less common actions, without those that have a button."""
    about, choices = call.target, []
    if has_approve_button(call, filled):
        remember = " or remember it" if call.grant_offers else ""
        label = f"Details, approve with a note{remember}…"
        choices.append((label, Click(Action.REVIEW, about)))
    if not call.needs_rejection_reason:
        choices.append(("Reject with a reason…", Click(Action.REJECT, about)))
    if call.has_more_rows:
        choices.append((ALL_ROWS, Click(Action.ROWS, about)))
    if call.by_agent:
        choices.append(build_send_back_choice(about))
    if not alone:
        choices.append(("Withdraw (who asked)", Click(Action.WITHDRAW, about)))
    if whole:
        choices.append((CANCEL, Click(Action.CANCEL_RUN, whole)))
    return overflow_menu(choices[:MOST_CHOICES])


def build_send_back_choice(about: CallTarget) -> tuple[str, Click]:
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


def render_decided_call(call: CallView, *, alone: bool, undecided: bool = False) -> list[Json]:
    """Build the blocks of a decided call: its result or effect, its status and why, who took part.

    There are buttons only if nobody knows how the call ended. `alone`: the card shows no other
    call, and its foot says who took part. `undecided`: whether an approved call waits for decisions
    about others of its plan.
    """
    title = _get_outcome_or_effect(call)
    elements = [rich_text_line(text_leaf(title, bold=True))]
    text = _format_result_or_note(call)
    inline = (
        bool(text) and len(text) <= INLINE_LIMIT and "\n" not in text and not call.needs_quotation
    )
    elements.append(
        rich_text_line(
            *_render_status(call, undecided),
            *([text_leaf(_choose_status_separator(call)), text_leaf(text)] if inline else []),
        )
    )
    if text and not inline:
        elements.append(rich_text_quote(text))
    elements += [_render_remark(*each) for each in call.remarks[:MOST_REMARKS]]
    if values := [each for each in call.values if _should_list_value(each, title)]:
        elements.append(rich_text_line(*render_values_on_one_line(values)))
    blocks = [rich_text_block(build_block_id(BlockKind.OUTCOME, call.target), elements)]
    if (small := _list_small_print_parts(call)) and not alone:
        joined = mrkdwn("  ·  ".join(small))
        blocks.append(context_block(build_block_id(BlockKind.SMALL_PRINT, call.target), [joined]))
    if is_outcome_still_asked(call):
        blocks.append(
            actions_block(
                build_block_id(BlockKind.RESOLUTIONS, call.target), _render_resolution_buttons(call)
            )
        )
    return blocks


def _get_outcome_or_effect(call: CallView) -> str:
    """Return what a call did, in its tool's words, or else what it would do."""
    came_to = " ".join(call.outcome.split()) if call.status is S.SUCCEEDED else ""
    return shorten_text(show_hidden_or_default(came_to, get_effect_sentence(call)), EFFECT_LIMIT)


def _should_list_value(value: ArgumentValue, title: str) -> bool:
    """Return whether to list the argument: it was edited, or is set and no word of the title yet.

    The 4 of "Deploy 2.8.4" is no word of its own.
    """
    if value.previous_text is not None or not value.is_or_was_set:
        return value.is_or_was_set
    return re.search(rf"(?<![\w.,:/-]){re.escape(value.text)}(?![.,:/-]?\w)", title) is None


def _render_remark(who: str, said: str) -> Json:
    return rich_text_quote(
        f": {shorten_text(show_hidden_or_default(said, '(blank)'), REMARK_LIMIT)}", user_leaf(who)
    )


def is_outcome_still_asked(call: CallView) -> bool:
    """Return whether people are still asked how the call ended: nobody knows, and time is left."""
    return call.status is S.UNKNOWN and call.deadline is not None


def _render_status(call: CallView, undecided: bool) -> list[Json]:
    """Return the line "✅ Approved by @ana · 14:02 …" as rich-text leaves."""
    icon, is_now = ICONS[call.status], WORDS[call.status]
    if call.was_handed_over:
        icon, is_now = HANDED_ICON, HANDED_WORDS
    leaves = [text_leaf(f"{icon} "), text_leaf(is_now, bold=True)]
    match call.status:
        case S.APPROVED | S.REJECTED | S.CANCELLED:
            leaves += _render_deciders(call)
        case S.EXPIRED:
            leaves.append(text_leaf(": nobody answered"))
            leaves += (
                [text_leaf(" by "), time_leaf(call.deadline)]
                if call.deadline
                else [text_leaf(" in time")]
            )
        case S.PENDING:
            leaves.append(text_leaf(": the deadline has passed, and this is being closed"))
        case S.UNKNOWN if call.was_handed_over:
            leaves.append(text_leaf(": the program that asked has not said how it went"))
        case S.UNKNOWN:
            given_up = "" if is_outcome_still_asked(call) else ", and it is no longer asked"
            leaves.append(text_leaf(f": started, never confirmed{given_up}"))
        case S.FAILED if call.failed_midway:
            leaves.append(text_leaf(" after it had begun, so part of it may have happened"))
        case S.SUPERSEDED if not call.note.strip():
            leaves.append(text_leaf(" by a newer request"))
        case S.INVALIDATED if not call.note.strip():
            leaves.append(text_leaf(": what was shown is no longer what would run"))
    if call.status is S.APPROVED:
        waits = WAITS_FOR_PROGRAM if call.program_note else _describe_wait_after_approval(undecided)
        leaves.append(text_leaf(f" — {waits}", italic=True))
        if call.approval_expires_at:
            leaves += [
                text_leaf(". Approval expires ", italic=True),
                time_leaf(call.approval_expires_at),
            ]
    return leaves


def _describe_wait_after_approval(undecided: bool) -> str:
    """Return what an approved call waits for, without a number that each vote would change."""
    return "runs once the rest is decided" if undecided else "not started yet"


def _render_deciders(call: CallView) -> list[Json]:
    leaves: list[Json] = []
    for index, user in enumerate(call.decided_by):
        leaves += [
            text_leaf(
                (" and " if index == len(call.decided_by) - 1 else ", ") if index else " by "
            ),
            *_render_decider(call, user),
        ]
    if not call.decided_by and call.status is S.APPROVED:
        leaves.append(text_leaf(" by policy"))
    if call.decided_at:
        leaves += [text_leaf(" · "), time_leaf(call.decided_at)]
    return leaves


def _join_decider_mentions(call: CallView) -> str:
    return " and ".join(decider_mention(user, call.stand_ins) for user in call.decided_by)


def _render_decider(call: CallView, user: str) -> list[Json]:
    """Return the leaves that name who decided: "@cleo, for @ana"."""
    stand_in = call.stand_ins.get(user)
    return (
        [user_leaf(stand_in), text_leaf(", for "), user_leaf(user)]
        if stand_in
        else [user_leaf(user)]
    )


def _choose_status_separator(call: CallView) -> str:
    return (
        " — "
        if call.status in BY_A_PERSON or call.status in (S.EXPIRED, S.UNKNOWN, S.PENDING)
        else ": "
    )


def _format_result_or_note(call: CallView) -> str:
    """Return the result, reason or error of a call: hidden characters shown, bounded."""
    text = call.result if call.status is S.SUCCEEDED else call.note
    if call.status is S.FAILED and not text.strip():
        text = call.result
    return shorten_text(show_hidden_or_default(text.strip(), ""), TEXT_LIMIT)


def _list_small_print_parts(call: CallView) -> list[str]:
    """Return in mrkdwn who edited the call and, if it was started, who approved it."""
    small = [f"Edited by {user_mention(call.edited_by)}"] if call.edited_by else []
    if call.status in STARTED:
        at = f", {format_local_time(call.decided_at)}" if call.decided_at else ""
        small.append(f"Approved by {_join_decider_mentions(call) or 'policy'}{at}")
    return small


def _render_resolution_buttons(call: CallView) -> list[Json]:
    again = confirmation_dialog(
        "Run it again?",
        f"{shorten_text(get_effect_sentence(call), 150)}\n\n"
        "If the first attempt did finish after all, this happens a second time.",
        "Run it again",
    )
    return [
        button(Action.RESOLVE_DONE, "It happened", call.target),
        button(Action.RESOLVE_NOT_DONE, "It did not happen", call.target),
        button(Action.RUN_AGAIN, "Run it again", call.target, style="danger", confirm=again),
    ]


def render_card_foot(calls: Sequence[CallView], asked: str, about: CardTarget) -> Json:
    """Build the line of who asked (mrkdwn), with a menu to ask for the same calls again.

    For a single call the line also says who edited and approved it.
    """
    if len(calls) == 1:
        asked = "  ·  ".join([asked, *_list_small_print_parts(calls[0])])
    over = [call for call in calls if call.status in OVER or call.was_handed_over]
    choices = [
        (_ask_again_label(call, alone=len(over) == 1), Click(Action.ASK_AGAIN, call.target))
        for call in over
    ]
    if not choices:
        return context_block(build_block_id(BlockKind.ASKED, about), [mrkdwn(asked)])
    return {
        **section_block(build_block_id(BlockKind.ASKED, about), mrkdwn(asked)),
        "accessory": overflow_menu(choices),
    }


def _ask_again_label(call: CallView, *, alone: bool) -> str:
    return "Ask again…" if alone else shorten_text(f"Ask again: {get_effect_sentence(call)}", 75)


def outcome_sentence(call: CallView) -> str:
    """Return what became of the call, for the notification: escaped, with a shortened effect.

    "Refunded 30.00 EUR of order 1042, 59.90 left. Approved by <@U1>."
    """
    effect = escape_mrkdwn(shorten_text(get_effect_sentence(call), 120)).rstrip(".")
    by = f" by {_join_decider_mentions(call)}" if call.decided_by else ""
    if call.status in STARTED:
        approved = f"Approved{by or ' by policy'}."
        came_to = escape_mrkdwn(shorten_text(_get_outcome_or_effect(call), 120)).rstrip(".")
        if call.status is S.SUCCEEDED and call.outcome.strip():
            return f"{came_to}. {approved}"
        unsaid = HANDED_WORDS if call.was_handed_over else "Nobody knows whether this happened"
        start = BEGAN.get(call.status, unsaid)
        return f"{start}: {effect}. {approved}"
    if call.status is S.EXPIRED:
        return f"Nobody answered in time: {effect}."
    return f"{WORDS[call.status]}{by}: {effect}."
