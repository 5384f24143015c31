"""The card: one Slack message that shows the calls of a plan and takes the decision.

Pure: rows in, blocks out. Nothing is read back from a message. Nobody can approve a call on a card
that does not show it in full: the call has a Review button instead of Approve, and the message has
no "Approve all". If people decide elsewhere, the requester sees a copy of the card without buttons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.cards import block_kit, call_blocks, call_pieces, decided_call, slack_text
from bot.cards.action_names import Action, BlockRole
from bot.cards.button_codec import CardTarget, Click, RunTarget, build_block_id
from bot.cards.notices import card_posted_elsewhere_notice, through_program_suffix, viewers_note
from bot.cards.views import CallView, CardView
from bot.tools import EffectSource
from countersign.durations import format_rough_duration
from storage.states import CallStatus

MAX_MESSAGE_CHARS = 12_500
NOT_ALL_SHOWN_CHARS = 400  # room for the note about what is not shown
CHARS_PER_BLOCK = 100  # added for each block: Slack limits text and blocks together
MAX_NOTIFICATION_CHARS = 300
MINUTE = timedelta(minutes=1)
MAX_CALLS_PER_MESSAGE = 5
MAX_CALLS_WITH_COLUMNS = 3  # with more calls, short arguments get no columns
MAX_CELLS_PER_CALL = 20
MAX_MESSAGE_BLOCKS = 50
MAX_NAMED_APPROVERS = 80  # people and groups


@dataclass(frozen=True, slots=True)
class RenderedMessage:
    """A message ready for Slack: the notification's text and the blocks."""

    text: str  # the notification: one plain sentence, escaped
    blocks: list[block_kit.Json]
    # ids of people and groups notified when it is posted; others are only shown by name
    notified: frozenset[str] = frozenset()


def render_card(view: CardView, now: datetime) -> RenderedMessage:
    """Draw the card for one to five calls, as of `now` (aware).

    ValueError for no calls or more than five.
    """
    if not 1 <= len(view.calls) <= MAX_CALLS_PER_MESSAGE:
        raise ValueError("a card shows one to five calls; the caller splits longer plans")
    waiting = [call for call in view.calls if can_still_be_decided(call, now)]
    blocks = _render_card_blocks(view, now, _fit_waiting_calls(view, now, waiting))
    if waiting and view.viewers and len(blocks) < MAX_MESSAGE_BLOCKS:
        # below the buttons, so that no button moves while somebody is clicking
        viewer_elements = [block_kit.mrkdwn(viewers_note(view.viewers))]
        blocks.append(
            block_kit.context_block(build_block_id(BlockRole.VIEWERS, view.target), viewer_elements)
        )
    notified_ids = {*view.approver_groups, *view.approver_users} - {view.requester}
    return RenderedMessage(_build_notification(view, waiting, now), blocks, frozenset(notified_ids))


def list_directly_approvable_call_ids(view: CardView, now: datetime) -> frozenset[str]:
    """Return the ids of the calls that have an Approve button on this card, not Review."""
    waiting = [call for call in view.calls if can_still_be_decided(call, now)]
    fills = _fit_waiting_calls(view, now, waiting)
    return frozenset(
        call.id
        for call in waiting
        if not call.starts_at and call_blocks.has_approve_button(call, fills[call.id])
    )


def _fit_waiting_calls(
    view: CardView, now: datetime, waiting: Sequence[CallView]
) -> dict[str, call_pieces.FittedPieces]:
    """Return, by id, the pieces of each waiting call that the card has room for."""
    if not waiting:
        return {}
    bare = _render_card_blocks(
        view, now, {call.id: call_pieces.fit_pieces_into_limit([], 0) for call in view.calls}
    )
    fixed = block_kit.count_text_characters(bare) + CHARS_PER_BLOCK * len(bare)
    cells = MAX_CELLS_PER_CALL if len(view.calls) <= MAX_CALLS_WITH_COLUMNS else 0
    return _divide_room_among_calls(
        {call.id: call for call in waiting}, MAX_MESSAGE_CHARS - fixed, cells
    )


def can_still_be_decided(call: CallView, now: datetime) -> bool:
    """Return whether the call can still be decided: pending, and its deadline not reached."""
    return call.status is CallStatus.PENDING and (call.deadline is None or now < call.deadline)


def _divide_room_among_calls(
    calls: dict[str, CallView], room: int, cells: int
) -> dict[str, call_pieces.FittedPieces]:
    """Divide the card's room among the calls: what small calls leave over goes to larger ones."""
    pieces = {key: call_pieces.build_call_pieces(call) for key, call in calls.items()}
    sizes = {
        key: sum(map(call_pieces.count_piece_characters_on_card, each))
        for key, each in pieces.items()
    }
    # Blocks added by the pieces of each call: a long effect, the arguments, those in columns, the
    # agent's words, and a note if something is not shown.
    blocks_per_call = 4 + -(-cells // call_blocks.MAX_FIELDS)
    room -= (blocks_per_call * CHARS_PER_BLOCK + NOT_ALL_SHOWN_CHARS) * len(
        calls
    ) + CHARS_PER_BLOCK * max(room, 0) // call_blocks.MAX_RICH_TEXT_CHARS
    fills: dict[str, call_pieces.FittedPieces] = {}
    for calls_left, key in zip(
        range(len(sizes), 0, -1), sorted(sizes, key=sizes.__getitem__), strict=True
    ):
        fills[key] = call_pieces.fit_pieces_into_limit(
            pieces[key], room // calls_left, calls[key].masked_pieces, cells=cells
        )
        room -= min(sizes[key], room // calls_left)
    return fills


def _render_card_blocks(
    view: CardView, now: datetime, fills: dict[str, call_pieces.FittedPieces]
) -> list[block_kit.Json]:
    waiting = [call for call in view.calls if can_still_be_decided(call, now)]
    undecided = [call for call in waiting if not call.starts_at]
    alone, shared = len(view.calls) == 1, _find_common_deadline(undecided)
    blocks: list[block_kit.Json] = []
    if view.parts > 1:
        blocks.append(
            block_kit.context_block(
                build_block_id(BlockRole.PART, view.plan_id),
                [block_kit.plain_text(f"Part {view.part} of {view.parts}")],
            )
        )
    if waiting and not alone:
        blocks.append(_render_multi_call_head(view, undecided))
        blocks += call_blocks.render_request_edits(view)
    for index, call in enumerate(view.calls):
        # also below the heading; with the most calls allowed, no blocks are left for dividers
        if not alone and len(view.calls) < MAX_CALLS_PER_MESSAGE and (index or waiting):
            blocks.append(block_kit.divider_block(build_block_id(BlockRole.DIVIDER, call.target)))
        if call in waiting:
            small = _list_request_small_print(view) if alone else []
            with_others = not alone and shared is not None
            small += call_blocks.build_time_parts(call, decided_with_others=with_others)
            run_target = RunTarget(view.run_id) if len(waiting) == 1 else None
            blocks += call_blocks.render_waiting_call(
                call, fills[call.id], small=small, whole=run_target, card=view if alone else None
            )
        else:
            blocks += decided_call.render_decided_call(
                call, alone=alone, undecided=view.has_undecided_calls or bool(waiting)
            )
    if not waiting:
        requester_text = call_blocks.describe_requester(view)
        blocks.append(decided_call.render_asked_by_line(view.calls, requester_text, view.target))
    elif not alone:
        if len(view.calls) < MAX_CALLS_PER_MESSAGE:
            blocks.append(block_kit.divider_block(build_block_id(BlockRole.DIVIDER, view.target)))
        blocks += call_blocks.render_request_origin(view)
        blocks += _render_multi_call_foot(view, waiting, fills, shared)
    return blocks


def _find_common_deadline(waiting: Sequence[CallView]) -> datetime | None:
    """Return the first deadline; None if a call has none or they differ by more than a minute."""
    found = [call.deadline for call in waiting if call.deadline]
    if len(found) < len(waiting) or not found or max(found) - min(found) > MINUTE:
        return None
    return min(found)


def _list_request_small_print(view: CardView) -> list[str]:
    """Return a card's small print, as parts of mrkdwn: who asked, who may decide, further notes.

    Who asked is left out if the card quotes them above.
    """
    names = [slack_text.group_mention(each) for each in view.approver_groups] + [
        slack_text.user_mention(each) for each in view.approver_users
    ]
    more = len(names) - MAX_NAMED_APPROVERS
    approvers = names[:MAX_NAMED_APPROVERS] + (
        [f"members of {slack_text.channel_mention(view.approver_channel)}"]
        if view.approver_channel
        else []
    )
    approvers += [f"{more} more"] if more > 0 else []
    requester_parts = [] if view.requester_messages else [call_blocks.describe_requester(view)]
    return [*requester_parts, f"Approvers: {', '.join(approvers) or 'nobody'}", *view.notes]


def _render_multi_call_head(view: CardView, undecided: Sequence[CallView]) -> block_kit.Json:
    """Build the header above several calls: how many are left to decide (`undecided`)."""
    left, of = len(undecided), len(view.calls)
    count = f"{left} things to decide" if left == of else f"{left} of {of} left to decide"
    count = count if left else "All decided; something starts later"
    if view.open_question_count:
        count += f", and {'a question' if view.open_question_count == 1 else 'questions'} to answer"
    return block_kit.header_block(build_block_id(BlockRole.HEAD, view.target), count)


def _render_multi_call_foot(
    view: CardView,
    waiting: Sequence[CallView],
    fills: dict[str, call_pieces.FittedPieces],
    deadline: datetime | None,
) -> list[block_kit.Json]:
    """Build the blocks below several calls: who asked, who decides until when, buttons for all.

    `deadline`: the deadline of all of them; None if they differ.
    """
    about = view.target
    # a click counts only for the calls of its own message
    which = "all" if view.parts == 1 else "these"
    row: list[block_kit.Json] = []
    undecided = [call for call in waiting if not call.starts_at]
    complete = all(call_blocks.has_approve_button(call, fills[call.id]) for call in undecided)
    if undecided and complete:
        row.append(_render_approve_all_button(undecided, about, which))
    style = call_blocks.choose_reject_button_style(*waiting)
    row.append(block_kit.button(Action.REJECT_ALL, f"Reject {which}", about, style=style))
    cancel = (call_blocks.CANCEL_REQUEST_LABEL, Click(Action.CANCEL_RUN, RunTarget(view.run_id)))
    row.append(
        block_kit.overflow_menu([call_blocks.build_send_back_choice(waiting[0].target), cancel])
    )
    small = [*_list_request_small_print(view), *call_blocks.build_deadline_parts(deadline)]
    small_print_block = block_kit.context_block(
        build_block_id(BlockRole.ASKED, about), [block_kit.mrkdwn("  ·  ".join(small))]
    )
    # a single call has its own buttons
    return (
        [
            small_print_block,
            block_kit.actions_block(build_block_id(BlockRole.HEAD_BUTTONS, about), row),
        ]
        if len(waiting) > 1
        else [small_print_block]
    )


def _render_approve_all_button(
    waiting: Sequence[CallView], target: CardTarget, which: str
) -> block_kit.Json:
    final = [call for call in waiting if call.does == "destructive"]
    ask = None
    if final:
        known = [
            call_pieces.get_effect_sentence(call)
            for call in final
            if call.effect_source is EffectSource.BY_AUTHOR
        ]
        unsure = [
            call_pieces.get_effect_sentence(call)
            for call in final
            if call.effect_source is not EffectSource.BY_AUTHOR
        ]
        sure = call_pieces.build_joint_approval_confirmation(
            known, len(waiting), which, unsure=unsure
        )
        ask = block_kit.confirmation_dialog(sure.title, sure.text, sure.yes)
    return block_kit.button(
        Action.APPROVE_ALL,
        f"Approve {which} ({len(waiting)})",
        target,
        style=call_blocks.choose_approve_button_style(*waiting),
        confirm=ask,
    )


def _build_notification(view: CardView, waiting: Sequence[CallView], now: datetime) -> str:
    """Return one plain sentence for a lock screen: who asks for what, or how the calls ended.

    The effect is escaped; beside it stand only mentions and the bot's own words.
    """
    if not waiting:
        return _join_sentences_that_fit(
            [decided_call.outcome_sentence(call) for call in view.calls]
        )
    undecided = [call for call in waiting if not call.starts_at]
    if not undecided:
        return _join_sentences_that_fit(
            [decided_call.approved_for_later_sentence(call) for call in waiting]
        )
    waiting = undecided
    first = min((call.deadline for call in waiting if call.deadline), default=None)
    within = f" within {format_rough_duration(first - now)}" if first else ""
    end = f". Approve or reject{within}."
    count = f"{len(waiting)} things: " if len(waiting) > 1 else ""
    requester = f"{slack_text.user_mention(view.requester)}{through_program_suffix(view.client)}"
    start = f"{requester} asks for {count}" if count else f"{requester} asks to "
    room = (
        MAX_NOTIFICATION_CHARS
        - slack_text.count_slack_characters(start)
        - slack_text.count_slack_characters(end)
    )
    effects = "; ".join(
        _lower_first_letter(call_pieces.get_effect_sentence(call)).rstrip(".") for call in waiting
    )
    return f"{start}{slack_text.escape_mrkdwn(slack_text.shorten_text(effects, room))}{end}"


def _lower_first_letter(sentence: str) -> str:
    """Lower the first letter ("Refund 40": "refund 40"), but not of an acronym ("DM Ana")."""
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _join_sentences_that_fit(sentences: Sequence[str]) -> str:
    """Join as many of the sentences as a notification holds, and say how many are left out."""
    kept = list(sentences)
    while True:
        left = len(sentences) - len(kept)
        text = " ".join(kept) + (f" And {left} more." if left else "")
        if len(text) <= MAX_NOTIFICATION_CHARS or len(kept) == 1:
            return text
        kept.pop()


def render_card_without_buttons(view: CardView, place: str, now: datetime) -> RenderedMessage:
    """Draw the card without buttons, as of `now` (aware), below a line on where people decide.

    `place`: the channel's id, or "" for direct messages. The line is there while the card waits.
    """
    drawn = render_card(view, now)
    blocks = [block for block in drawn.blocks if block["type"] != "actions"]
    if not any(can_still_be_decided(call, now) for call in view.calls):
        return RenderedMessage(drawn.text, blocks)
    notice = card_posted_elsewhere_notice(place)
    notice_block = block_kit.context_block(
        build_block_id(BlockRole.ELSEWHERE, view.target), [block_kit.mrkdwn(notice)]
    )
    return RenderedMessage(notice, [notice_block, *blocks])
