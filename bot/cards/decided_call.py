"""The blocks of a decided call: what became of it, by whom, and what to do next. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bot.cards import block_kit, call_pieces, slack_text
from bot.cards.action_names import Action, BlockRole
from bot.cards.button_codec import CallTarget, CardTarget, Click, build_block_id
from bot.cards.views import ArgumentValue, CallView, RunWithoutApproval
from storage.states import CallStatus, CallVerb

CHECK_OUTCOME_TEXT = ". Check in the system itself whether it happened, then say so."
MAX_RESULT_CHARS = 400  # of a note or a result on a card; the thread shows all of it
MAX_EFFECT_CHARS = 300
MAX_REMARK_CHARS = 150  # of an approver's remark
MAX_REMARKS = 2
INLINE_LIMIT = 120  # a note that is longer or has several lines gets a quote block

S = CallStatus
ICONS = {
    S.PENDING: "⏳",
    S.APPROVED: "✅",
    S.REJECTED: "🚫",
    S.ANSWERED: "💬",
    S.EXPIRED: "⏰",
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
LABEL_BY_STATUS = {
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
LABEL_BY_VOTE = {
    CallVerb.APPROVE: "✅ approved by ",
    CallVerb.REJECT: "🚫 rejected by ",
    CallVerb.BREAK_GLASS: "🚨 run without approval by ",
    CallVerb.LOOK: "👀 looked at by ",
    CallVerb.OBJECT: "⚠️ found wrong by ",
}
STARTED_STATUSES = (S.RUNNING, S.ENTRUSTED, S.SUCCEEDED, S.FAILED, S.UNKNOWN)
STARTED_LABEL_BY_STATUS = {
    S.RUNNING: "Running",
    S.ENTRUSTED: "At work",
    S.SUCCEEDED: "Done",
    S.FAILED: "It failed",
}
# statuses of calls that can be requested again
REPEATABLE_STATUSES = (S.SUCCEEDED, S.FAILED, S.REJECTED, S.EXPIRED, S.CANCELLED, S.INVALIDATED)
HANDED_OVER_ICON = "📤"
HANDED_OVER_LABEL = "Handed over"
PROGRAM_NOT_STARTED_TEXT = "the program that asked has not begun yet"
FINISHED_STATUSES = (S.SUCCEEDED, S.FAILED)
DASH_SEPARATED_STATUSES = (S.APPROVED, S.REJECTED, S.CANCELLED, S.EXPIRED, S.UNKNOWN, S.PENDING)


def render_decided_call(
    call: CallView, *, alone: bool, undecided: bool = False
) -> list[block_kit.Json]:
    """Build the blocks of a decided call: its result or effect, arguments, status and why, people.

    There are buttons only if nobody knows how the call ended. `alone`: the card shows no other
    call, and its foot says who took part. `undecided`: whether an approved call waits for decisions
    about others of its plan.
    """
    title = _get_outcome_or_effect(call)
    elements = [block_kit.rich_text_line(block_kit.text_leaf(title, bold=True))]
    # before the status: below “Rejected by”, an argument “Reason” would pass for the approver's
    if values := [each for each in call.values if _should_list_value(each, title)]:
        elements.append(block_kit.rich_text_line(*call_pieces.render_arguments_on_one_line(values)))
    text = _format_result_or_note(call)
    inline = (
        bool(text) and len(text) <= INLINE_LIMIT and "\n" not in text and not call.needs_quotation
    )
    elements.append(
        block_kit.rich_text_line(
            *_render_status(call, undecided),
            *(
                [block_kit.text_leaf(_choose_status_separator(call)), block_kit.text_leaf(text)]
                if inline
                else []
            ),
        )
    )
    if text and not inline:
        elements.append(block_kit.rich_text_quote(text))
    if call.without_approval:
        elements += _render_run_without_approval(call, call.without_approval)
    elements += [_render_remark(*each) for each in call.remarks[:MAX_REMARKS]]
    blocks = [block_kit.rich_text_block(build_block_id(BlockRole.OUTCOME, call.target), elements)]
    if (small := _list_small_print_parts(call)) and not alone:
        joined = block_kit.mrkdwn("  ·  ".join(small))
        blocks.append(
            block_kit.context_block(build_block_id(BlockRole.SMALL_PRINT, call.target), [joined])
        )
    if call.is_to_be_looked_at:
        looks = build_block_id(BlockRole.LOOKS, call.target)
        blocks.append(block_kit.actions_block(looks, render_look_buttons(call.target)))
    if is_awaiting_outcome_report(call):
        blocks.append(
            block_kit.actions_block(
                build_block_id(BlockRole.RESOLUTIONS, call.target), _render_resolution_buttons(call)
            )
        )
    return blocks


def _render_run_without_approval(call: CallView, run: RunWithoutApproval) -> list[block_kit.Json]:
    """Return who ran the call without approval and why, and who has looked at it since."""
    lines = [
        block_kit.rich_text_line(
            block_kit.text_leaf("🚨 Run without approval by ", bold=True),
            *_render_decider(call, run.person),
            block_kit.text_leaf(f": “{_format_words(run.reason)}”"),
        )
    ]
    if not run.looked_at_by:
        ask = "👀 Needs a look by somebody who could have approved it"
        look_request = block_kit.rich_text_line(block_kit.text_leaf(ask, italic=True))
        return [*lines, look_request] if call.is_to_be_looked_at else lines
    icon, objection_text = "👀 Looked at by ", ""
    if run.objection:
        icon, objection_text = "⚠️ Something is wrong, says ", f": “{_format_words(run.objection)}”"
    leaves = [block_kit.text_leaf(icon), block_kit.user_mention_leaf(run.looked_at_by)]
    return [*lines, block_kit.rich_text_line(*leaves, block_kit.text_leaf(objection_text or "."))]


def _format_words(said: str) -> str:
    words = call_pieces.show_hidden_characters_or_default(" ".join(said.split()), "(blank)")
    return slack_text.shorten_text(words, MAX_EFFECT_CHARS)


def render_look_buttons(target: CallTarget) -> list[block_kit.Json]:
    """Build the buttons for people asked to look at a call that ran without approval."""
    return [
        block_kit.button(Action.LOOKED_AT, "I have looked", target),
        block_kit.button(Action.OBJECT, "Something is wrong…", target),
    ]


def _get_outcome_or_effect(call: CallView) -> str:
    """Return what a call did, in its tool's words, or else what it would do."""
    came_to = " ".join(call.outcome.split()) if call.status is S.SUCCEEDED else ""
    return slack_text.shorten_text(
        call_pieces.show_hidden_characters_or_default(
            came_to, call_pieces.get_effect_sentence(call)
        ),
        MAX_EFFECT_CHARS,
    )


def _should_list_value(value: ArgumentValue, title: str) -> bool:
    """Return whether to list the argument: it was edited, or is set and not in the title yet."""
    return value.is_or_was_set and not call_pieces.is_value_said(value, title)


def _render_remark(who: str, said: str) -> block_kit.Json:
    words = call_pieces.show_hidden_characters_or_default(said, "(blank)")
    return block_kit.rich_text_quote(
        f": {slack_text.shorten_text(words, MAX_REMARK_CHARS)}", block_kit.user_mention_leaf(who)
    )


def is_awaiting_outcome_report(call: CallView) -> bool:
    """Return whether people are still asked how the call ended: nobody knows, and time is left."""
    return call.status is S.UNKNOWN and call.deadline is not None


def _render_status(call: CallView, undecided: bool) -> list[block_kit.Json]:
    """Return the line "✅ Approved by @ana · 14:02 …" as rich-text leaves."""
    icon, is_now = ICONS[call.status], LABEL_BY_STATUS[call.status]
    if call.was_handed_over:
        icon, is_now = HANDED_OVER_ICON, HANDED_OVER_LABEL
    if call.status is S.APPROVED and call.without_approval:
        icon, is_now = ICONS[S.RUNNING], "Goes ahead"
    leaves = [block_kit.text_leaf(f"{icon} "), block_kit.text_leaf(is_now, bold=True)]
    match call.status:
        case S.APPROVED if call.without_approval:
            pass  # a separate line says who ran it
        case S.APPROVED | S.REJECTED | S.CANCELLED:
            leaves += _render_deciders(call)
        case S.EXPIRED:
            leaves.append(block_kit.text_leaf(": nobody answered"))
            leaves += (
                [block_kit.text_leaf(" by "), block_kit.time_leaf(call.deadline)]
                if call.deadline
                else [block_kit.text_leaf(" in time")]
            )
        case S.PENDING:
            closing = ": the deadline has passed, and this is being closed"
            leaves.append(block_kit.text_leaf(closing))
        case S.UNKNOWN if call.was_handed_over:
            leaves.append(block_kit.text_leaf(": the program that asked has not said how it went"))
        case S.UNKNOWN:
            is_still_asked = is_awaiting_outcome_report(call)
            what_now = CHECK_OUTCOME_TEXT if is_still_asked else ", and nobody is asked any more"
            leaves.append(block_kit.text_leaf(f": started, never confirmed{what_now}"))
        case S.SUCCEEDED | S.FAILED if call.reported_by:
            leaves += _render_outcome_report(call)
        case S.FAILED if call.failed_midway:
            leaves.append(
                block_kit.text_leaf(" after it had begun, so part of it may have happened")
            )
        case S.SUPERSEDED if not call.note.strip():
            leaves.append(block_kit.text_leaf(" by a newer request"))
        case S.INVALIDATED if not call.note.strip():
            leaves.append(block_kit.text_leaf(": what was shown is no longer what would run"))
    if call.status in FINISHED_STATUSES and call.finished_at:
        leaves += [block_kit.text_leaf(" · "), block_kit.time_leaf(call.finished_at)]
    if call.status is S.APPROVED:
        leaves += _render_wait_for_start(call, undecided)
    return leaves


def _render_wait_for_start(call: CallView, undecided: bool) -> list[block_kit.Json]:
    # no number of missing votes here, as every vote would change it
    waits = "runs once the rest is decided" if undecided else "not started yet"
    waits = PROGRAM_NOT_STARTED_TEXT if call.program_note else waits
    leaves = [block_kit.text_leaf(f" — {waits}", italic=True)]
    if call.approval_expires_at:
        leaves += [
            block_kit.text_leaf(". Approval expires "),
            block_kit.time_leaf(call.approval_expires_at),
        ]
    return leaves


def _render_outcome_report(call: CallView) -> list[block_kit.Json]:
    happened = "happened" if call.status is S.SUCCEEDED else "did not happen"
    return [
        block_kit.text_leaf(": "),
        block_kit.user_mention_leaf(call.reported_by),
        block_kit.text_leaf(f" says that it {happened}"),
    ]


def _render_deciders(call: CallView) -> list[block_kit.Json]:
    leaves: list[block_kit.Json] = []
    for index, user in enumerate(call.decided_by):
        leaves += [
            block_kit.text_leaf(
                (" and " if index == len(call.decided_by) - 1 else ", ") if index else " by "
            ),
            *_render_decider(call, user),
        ]
    if not call.decided_by and call.status is S.APPROVED:
        leaves.append(block_kit.text_leaf(" by policy"))
    if call.decided_at:
        leaves += [block_kit.text_leaf(" · "), block_kit.time_leaf(call.decided_at)]
    return leaves


def _join_decider_mentions(call: CallView) -> str:
    return " and ".join(
        slack_text.decider_mention(user, call.stand_ins, call.signers) for user in call.decided_by
    )


def _render_decider(call: CallView, user: str) -> list[block_kit.Json]:
    """Return the rich-text leaves that name who decided: "@cleo, for @ana"."""
    leaves = [block_kit.user_mention_leaf(user)]
    if stand_in := call.stand_ins.get(user):
        leaves = [block_kit.user_mention_leaf(stand_in), block_kit.text_leaf(", for "), *leaves]
    return (
        [*leaves, block_kit.text_leaf(slack_text.SIGNED_SUFFIX)] if user in call.signers else leaves
    )


def _choose_status_separator(call: CallView) -> str:
    has_time = call.status in FINISHED_STATUSES and call.finished_at
    return " — " if has_time or call.status in DASH_SEPARATED_STATUSES else ": "


def _format_result_or_note(call: CallView) -> str:
    """Return the result, reason or error of a call: hidden characters shown, bounded."""
    text = call.result if call.status is S.SUCCEEDED else call.note
    if call.status is S.FAILED and not text.strip():
        text = call.result
    return slack_text.shorten_text(
        call_pieces.show_hidden_characters_or_default(text.strip(), ""), MAX_RESULT_CHARS
    )


def _list_small_print_parts(call: CallView) -> list[str]:
    """Return in mrkdwn who edited the call and, if it was started, who approved it; with times."""
    small = call_pieces.list_edit_parts(call)
    if call.status in STARTED_STATUSES and not call.without_approval:
        at = f", {slack_text.format_local_time(call.decided_at)}" if call.decided_at else ""
        small.append(f"Approved by {_join_decider_mentions(call) or 'policy'}{at}")
    return small


def _render_resolution_buttons(call: CallView) -> list[block_kit.Json]:
    again = block_kit.confirmation_dialog(
        "Run it again?",
        f"{slack_text.shorten_text(call_pieces.get_effect_sentence(call), 150)}\n\n"
        "If the first attempt did finish after all, this happens a second time.",
        "Run it again",
    )
    return [
        block_kit.button(Action.RESOLVE_DONE, "It happened", call.target),
        block_kit.button(Action.RESOLVE_NOT_DONE, "It did not happen", call.target),
        block_kit.button(Action.RUN_AGAIN, "Run it again", call.target, confirm=again),
    ]


def render_asked_by_line(
    calls: Sequence[CallView], asked: str, target: CardTarget
) -> block_kit.Json:
    """Build the line that says who asked (`asked`: mrkdwn), with a menu to ask for calls again.

    For a single call the line also says who edited and approved it.
    """
    if len(calls) == 1:
        asked = "  ·  ".join([asked, *_list_small_print_parts(calls[0])])
    repeatable_calls = [
        call for call in calls if call.has_form and call.status in REPEATABLE_STATUSES
    ]
    choices = [
        (
            _ask_again_label(call, alone=len(repeatable_calls) == 1),
            Click(Action.ASK_AGAIN, call.target),
        )
        for call in repeatable_calls
    ]
    if not choices:
        return block_kit.context_block(
            build_block_id(BlockRole.ASKED, target), [block_kit.mrkdwn(asked)]
        )
    return {
        **block_kit.section_block(build_block_id(BlockRole.ASKED, target), block_kit.mrkdwn(asked)),
        "accessory": block_kit.overflow_menu(choices),
    }


def _ask_again_label(call: CallView, *, alone: bool) -> str:
    return (
        "Ask again…"
        if alone
        else slack_text.shorten_text(f"Ask again: {call_pieces.get_effect_sentence(call)}", 75)
    )


def approved_for_later_sentence(call: CallView) -> str:
    """Return when an approved call starts, for the notification: escaped, its effect shortened."""
    effect = slack_text.shorten_text(call_pieces.get_effect_sentence(call), 120)
    by = f" by {_join_decider_mentions(call)}" if call.decided_by else ""
    start = slack_text.format_local_time(call.starts_at) if call.starts_at else "later"
    return f"Approved{by}, starts {start}: {slack_text.escape_mrkdwn(effect).rstrip('.')}."


def approved_for_later_line(
    effect: str, starts_at: datetime | None, approver: str, requester: str
) -> str:
    """Return the one-line notice that a call is approved, and when it starts.

    `requester`: whom to mention; "" for nobody.
    """
    start = slack_text.format_time_with_countdown(starts_at) if starts_at else "later"
    asked = f" Asked by {slack_text.user_mention(requester)}." if requester else ""
    return (
        f"🕙 {slack_text.user_mention(approver)} approved this, and it starts {start}: "
        f"{slack_text.join_effects([effect])}. Until then it can be stopped on its card.{asked}"
    )


def outcome_sentence(call: CallView) -> str:
    """Return what became of the call, for the notification: escaped, with a shortened effect.

    "Refunded 30.00 EUR of order 1042, 59.90 left. Approved by <@U1>."
    """
    effect = slack_text.escape_mrkdwn(
        slack_text.shorten_text(call_pieces.get_effect_sentence(call), 120)
    ).rstrip(".")
    by = f" by {_join_decider_mentions(call)}" if call.decided_by else ""
    if call.status in STARTED_STATUSES:
        approved = f"Approved{by or ' by policy'}."
        approved = f"Run without approval{by}." if call.without_approval else approved
        came_to = slack_text.escape_mrkdwn(
            slack_text.shorten_text(_get_outcome_or_effect(call), 120)
        ).rstrip(".")
        if call.status is S.SUCCEEDED and call.outcome.strip():
            return f"{came_to}. {approved}"
        unsaid = HANDED_OVER_LABEL if call.was_handed_over else "Nobody knows whether this happened"
        start = STARTED_LABEL_BY_STATUS.get(call.status, unsaid)
        by_word = (
            f" {slack_text.user_mention(call.reported_by)} said so." if call.reported_by else ""
        )
        return f"{start}: {effect}.{by_word} {approved}"
    if call.status is S.EXPIRED:
        return f"Nobody answered in time: {effect}."
    word = "To be run without approval" if call.without_approval else LABEL_BY_STATUS[call.status]
    return f"{word}{by}: {effect}."
