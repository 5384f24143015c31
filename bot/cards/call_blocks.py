"""One call on its card: its effect, votes and buttons while it waits, then how it ended and why.

Pure; part of `card`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from bot.cards import block_kit, call_pieces, slack_text
from bot.cards.action_names import Action, BlockRole
from bot.cards.button_codec import CallTarget, Click, RunTarget, build_block_id
from bot.cards.notices import delegated_task_line, requester_line
from bot.cards.views import CallView, CardView, DelegatedTask, VoteProgress

MAX_QUOTE_CHARS = 200  # of each message quoted
REQUEST_EDITED_TEXT = " edited the request after the agent had read it. It says now:"


def describe_requester(view: CardView) -> str:
    """Return who asked, through which program, and a link to the request: mrkdwn."""
    link = (
        slack_text.escape_mrkdwn(view.origin.replace("|", "%7C"))
        if view.origin.startswith(("https://", "http://"))
        else ""
    )
    return requester_line(view.requester, view.client) + (f" (<{link}|see it>)" if link else "")


def build_deadline_parts(deadline: datetime | None) -> list[str]:
    """Return until when a call can be decided, as parts of a line of mrkdwn; [] for no deadline."""
    return [f"⏳ Decide by {slack_text.format_time_with_countdown(deadline)}"] if deadline else []


def build_time_parts(call: CallView, *, decided_with_others: bool = False) -> list[str]:
    """Return until when a call can be decided and when it starts, as parts of a line of mrkdwn.

    `decided_with_others`: leave out the deadline, as the card shows it once below all of its calls.
    """
    if call.starts_at is None:
        until = [] if decided_with_others else build_deadline_parts(call.deadline)
        return [*until, *([f"🕙 Once approved, starts at {call.run_at}"] if call.run_at else [])]
    by = [slack_text.decider_mention(each, call.stand_ins) for each in call.decided_by]
    start = slack_text.format_time_with_countdown(call.starts_at)
    return [f"✅ Approved by {', '.join(by)}", f"🕙 Starts {start}"]


def render_request_origin(view: CardView) -> list[block_kit.Json]:
    """Build a card's blocks on who asked: the requester's words, the program, sub-agents."""
    blocks: list[block_kit.Json] = []
    if view.requester_messages:
        quoted = [
            block_kit.plain_text(f"“{slack_text.shorten_text(each, MAX_QUOTE_CHARS)}”")
            for each in map(
                slack_text.isolate_right_to_left_text,
                map(slack_text.show_hidden_characters, view.requester_messages),
            )
        ]
        by = block_kit.mrkdwn(f"💬 {describe_requester(view)}")
        blocks.append(
            block_kit.context_block(build_block_id(BlockRole.REQUEST, view.plan_id), [by, *quoted])
        )
    programs = dict.fromkeys(each.program_note for each in view.calls if each.program_note)
    for number, program_note in enumerate(programs):
        blocks.append(
            block_kit.context_block(
                build_block_id(BlockRole.PROGRAM, view.plan_id, number),
                [block_kit.plain_text(program_note)],
            )
        )
    return [*blocks, *render_delegated_tasks(view.plan_id, view.delegated_tasks)]


def render_request_edits(view: CardView) -> list[block_kit.Json]:
    """Build the block that warns of messages edited after the agent had read them, if any were."""
    if not view.edited_messages:
        return []
    says = block_kit.rich_text_line(
        block_kit.text_leaf("✏️ "),
        block_kit.user_mention_leaf(view.requester),
        block_kit.text_leaf(REQUEST_EDITED_TEXT, bold=True),
    )
    now = [
        block_kit.rich_text_quote(
            slack_text.shorten_text(slack_text.show_hidden_characters(text), MAX_QUOTE_CHARS)
            or "(nothing)"
        )
        for text in view.edited_messages
    ]
    return [
        block_kit.rich_text_block(build_block_id(BlockRole.REWORDED, view.plan_id), [says, *now])
    ]


def render_delegated_tasks(
    target: str | CallTarget, delegated_tasks: Sequence[DelegatedTask]
) -> list[block_kit.Json]:
    """Build small print that says who asked which sub-agent for what, one block for each task."""
    return [
        block_kit.context_block(
            build_block_id(BlockRole.DELEGATED_TASKS, target, number), [block_kit.plain_text(text)]
        )
        for number, text in enumerate(list_delegated_task_lines(delegated_tasks))
    ]


def list_delegated_task_lines(delegated_tasks: Sequence[DelegatedTask]) -> list[str]:
    """Return lines that say who asked which sub-agent for what.

    They are plain text, not mrkdwn, since others wrote the words.
    """
    return [
        slack_text.unescape_mrkdwn(delegated_task_line(each.agent, each.by, each.what))
        for each in delegated_tasks
    ]


CANCEL_REQUEST_LABEL = "Cancel the request (only the person who asked)"
BREAK_GLASS_LABEL = "🚨 Run now without approval…"
MAX_MENU_OPTIONS = 5
MAX_RICH_TEXT_CHARS = 3_000  # of one rich_text block
MAX_FIELDS = 10  # of one section, in two columns
MAX_NAMED_APPROVERS = 10  # people and groups from whom a stage still needs approvals


def render_waiting_call(
    call: CallView,
    filled: call_pieces.FittedPieces,
    *,
    small: Sequence[str],
    whole: RunTarget | None = None,
    card: CardView | None = None,
) -> list[block_kit.Json]:
    """Build the blocks of a call that waits: effect, warnings, what changes, who asked, buttons.

    `small`: who asked, who may decide and until when, if nothing else on the card says so (mrkdwn).
    `whole`: the request, if this is the only waiting call on the card. `card`: the card, if this is
    its only call.
    """
    about, headline = call.target, call_pieces.get_call_headline(call)
    blocks = [block_kit.header_block(build_block_id(BlockRole.HEADLINE, about), headline)]
    blocks += block_kit.pack_into_rich_text_blocks(
        [*_render_warnings(call), *filled.sentence],
        MAX_RICH_TEXT_CHARS,
        partial(build_block_id, BlockRole.WARNING, about),
    )
    blocks += render_request_edits(card) if card else []
    for start in range(0, len(filled.cells), MAX_FIELDS):
        cells = [block_kit.plain_text(text) for text in filled.cells[start : start + MAX_FIELDS]]
        blocks.append(
            block_kit.two_column_section(
                build_block_id(BlockRole.SHORT_VALUES, about, start), cells
            )
        )
    blocks += block_kit.pack_into_rich_text_blocks(
        filled.body, MAX_RICH_TEXT_CHARS, partial(build_block_id, BlockRole.VALUES, about)
    )
    if filled.missing:
        missing = block_kit.plain_text(f"🔎 {filled.missing}")
        blocks.append(block_kit.context_block(build_block_id(BlockRole.MISSING, about), [missing]))
    blocks += block_kit.pack_into_rich_text_blocks(
        filled.reason, MAX_RICH_TEXT_CHARS, partial(build_block_id, BlockRole.AGENT_WORDS, about)
    )
    blocks += render_request_origin(card) if card else []
    if below := [*small, *call_pieces.list_edit_parts(call)]:
        line = block_kit.mrkdwn("  ·  ".join(below))
        blocks.append(block_kit.context_block(build_block_id(BlockRole.SMALL_PRINT, about), [line]))
    if call.progress:
        line = block_kit.mrkdwn(_describe_vote_progress(call.progress))
        blocks.append(block_kit.context_block(build_block_id(BlockRole.PROGRESS, about), [line]))
    row = [
        *_render_decision_buttons(call, filled),
        _render_more_menu(call, filled, whole, alone=card is not None),
    ]
    return [*blocks, block_kit.actions_block(build_block_id(BlockRole.CALL_BUTTONS, about), row)]


def _render_warnings(call: CallView) -> list[block_kit.Json]:
    """Return what to consider before approving, as rich text; mostly nothing."""
    lines = []
    if final := call_pieces.irreversibility_warning(call.does, call.effect_source):
        lines.append(block_kit.rich_text_line(block_kit.text_leaf(f"⚠️ {final}", bold=True)))
    if call.note and (not call.edits or call.note.startswith(call_pieces.RESTORED_RECORD_NOTE)):
        why = slack_text.shorten_text(
            slack_text.isolate_right_to_left_runs(
                slack_text.show_hidden_characters(" ".join(call.note.split()))
            ),
            300,
        )
        lines.append(block_kit.rich_text_line(block_kit.text_leaf(f"🔁 Why this is asked: {why}")))
    return lines


def has_warnings(call: CallView) -> bool:
    """Return whether the call has warnings, so that its Approve button is not highlighted."""
    return bool(_render_warnings(call))


def choose_approve_button_style(*calls: CallView) -> str:
    """Return the style of a button that approves these calls: "primary" if none has warnings."""
    return "" if any(map(has_warnings, calls)) else "primary"


def choose_reject_button_style(*calls: CallView) -> str:
    """Return the style of a button that rejects these calls, never louder than Approve."""
    return "danger" if choose_approve_button_style(*calls) else ""


def _describe_vote_progress(progress: VoteProgress) -> str:
    """Return how far the votes on a call have come, in mrkdwn of ids and numbers only.

    "🗳️ Step 1 of 2 · ✅ @ana · 1 more approval needed"
    """
    parts = [f"Step {progress.stage} of {progress.stages}"] if progress.stages > 1 else []
    parts += [
        f"✅ {slack_text.decider_mention(person, progress.stand_ins, progress.signers)}"
        for person in progress.approved
    ]
    parts += [
        f"🚫 {slack_text.decider_mention(person, progress.stand_ins)}"
        for person in progress.rejected
    ]
    more = "more " if progress.approved else ""
    in_this_step = " in this step" if progress.stages > 1 else ""
    approvals = "approval" if progress.approvals_needed == 1 else "approvals"
    parts.append(
        f"{progress.approvals_needed} {more}{approvals} "
        f"needed{in_this_step}{_describe_missing_votes(progress)}"
    )
    if progress.rejections_to_end > 1:
        missing = progress.rejections_to_end - len(progress.rejected)
        more = "more " if progress.rejected else ""
        parts.append(
            f"{missing} {more}{'rejection' if missing == 1 else 'rejections'} would end it"
        )
    return "🗳️ " + "  ·  ".join(parts)


def _describe_missing_votes(progress: VoteProgress) -> str:
    """Return whose approvals are missing if the steps have no order: ": 1 of @hr, 1 of @legal"."""
    found = []
    for each in progress.missing:
        names = [slack_text.group_mention(group) for group in each.groups]
        names += [slack_text.user_mention(user) for user in each.users]
        names += [f"members of {slack_text.channel_mention(each.channel)}"] if each.channel else []
        names[MAX_NAMED_APPROVERS:] = (
            [f"{len(names) - MAX_NAMED_APPROVERS} more"] if len(names) > MAX_NAMED_APPROVERS else []
        )
        found.append(f"{each.count} of {' or '.join(names) or 'others'}")
    return f": {', '.join(found)}" if found else ""


def has_approve_button(call: CallView, filled: call_pieces.FittedPieces) -> bool:
    """Return whether the card has Approve: it shows the whole call, and no reason is required."""
    return filled.is_complete and not call.needs_approval_reason


def _render_decision_buttons(
    call: CallView, filled: call_pieces.FittedPieces
) -> list[block_kit.Json]:
    about = call.target
    if call.starts_at:
        return _render_stop_buttons(call, filled)
    if has_approve_button(call, filled):
        ask = None
        final = call_pieces.irreversibility_warning(call.does, call.effect_source)
        if final and not call.needs_signature:  # the signing page shows this warning itself
            sure = call_pieces.build_approval_confirmation(
                call_pieces.get_effect_sentence(call), final
            )
            ask = block_kit.confirmation_dialog(sure.title, sure.text, sure.yes)
        row = [
            block_kit.button(
                Action.APPROVE,
                "Approve with passkey" if call.needs_signature else "Approve",
                about,
                style=choose_approve_button_style(call),
                confirm=ask,
            )
        ]
    else:
        row = [
            block_kit.button(
                Action.REVIEW, "Review…", about, style=choose_approve_button_style(call)
            )
        ]
    if call.editable:
        row.append(block_kit.button(Action.EDIT, "Edit", about))
    style = choose_reject_button_style(call)
    if call.needs_rejection_reason:
        return [*row, block_kit.button(Action.REJECT, "Reject…", about, style=style)]
    return [*row, block_kit.button(Action.REJECT_NOW, "Reject", about, style=style)]


def _render_stop_buttons(call: CallView, filled: call_pieces.FittedPieces) -> list[block_kit.Json]:
    """Build the buttons of an approved call that waits for its time to start."""
    needs = call.needs_rejection_reason
    action, label = (Action.REJECT, "Stop it…") if needs else (Action.REJECT_NOW, "Stop it")
    stop = block_kit.button(action, label, call.target)
    if filled.is_complete:
        return [stop]
    return [stop, block_kit.button(Action.REVIEW, "Review…", call.target)]


def _render_more_menu(
    call: CallView, filled: call_pieces.FittedPieces, whole: RunTarget | None, *, alone: bool
) -> block_kit.Json:
    """Build a waiting call's menu of less common actions, without those that have a button."""
    about, choices = call.target, []
    if has_approve_button(call, filled) and not call.starts_at:
        remember = " or remember it" if call.grant_offers else ""
        label = f"Details, approve with a note{remember}…"
        choices.append((label, Click(Action.REVIEW, about)))
    if not call.needs_rejection_reason:
        verb = "Stop it" if call.starts_at else "Reject"
        choices.append((f"{verb} with a reason…", Click(Action.REJECT, about)))
    if call.has_more_rows:
        choices.append((call_pieces.ALL_ROWS_LABEL, Click(Action.ROWS, about)))
    if call.by_agent:
        choices.append(build_send_back_choice(about))
    if call.may_break_glass:
        choices.append((BREAK_GLASS_LABEL, Click(Action.BREAK_GLASS, about)))
    after_decisions = len(choices)
    if not alone:
        choices.append(("Withdraw (only the person who asked)", Click(Action.WITHDRAW, about)))
    if whole:
        choices.append((CANCEL_REQUEST_LABEL, Click(Action.CANCEL_RUN, whole)))
    if len(choices) < MAX_MENU_OPTIONS and not call.starts_at:  # Home always offers it
        choices.insert(after_decisions, ("Hand over…", Click(Action.HAND_OVER, about)))
    return block_kit.overflow_menu(choices[:MAX_MENU_OPTIONS])


def build_send_back_choice(target: CallTarget) -> tuple[str, Click]:
    """Return the menu choice that sends the plan of this call back, to be made again."""
    return "Send the plan back…", Click(Action.SEND_BACK, target)
