"""The card: one Slack message that shows the calls of a plan and takes the decision.

Pure: rows in, blocks out. Nothing is read back from a message. Nobody can approve a call on a card
that does not show it in full: the call has a Review button instead of Approve, and the message has
no "Approve all". If people decide elsewhere, the requester sees a copy of the card without buttons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from bot.cards.action_names import Action, Block
from bot.cards.block_kit import (
    Json,
    actions,
    button,
    confirm,
    context,
    divider,
    header,
    menu,
    mrkdwn,
    plain_text,
    weight,
)
from bot.cards.button_codec import CardTarget, Click, RunTarget, block_id
from bot.cards.call_blocks import (
    CANCEL,
    RICH_LIMIT,
    ROW_LIMIT,
    approve_style,
    approved_here,
    decided_blocks,
    foot,
    origin_blocks,
    outcome_sentence,
    send_back,
    waiting_blocks,
)
from bot.cards.call_pieces import (
    FilledPieces,
    confirmation_of_all,
    effect_of,
    fill,
    pieces_of,
    wanted,
)
from bot.cards.notices import card_elsewhere, through
from bot.cards.slack_text import (
    channel_mention,
    escape,
    format_deadline,
    group_mention,
    mention,
    plain,
    slack_length,
)
from bot.cards.views import CallView, CardView
from bot.tools.effect_source import EffectSource
from countersign.durations import roughly
from storage.states import CallStatus

TOTAL = 12_500  # characters of one message
MISSING = 400  # characters of what is said where not all is shown
PER_BLOCK = 100  # what each block counts besides its text: Slack limits the two together
NOTIFICATION = 300  # characters of the notification sentence
MINUTE = timedelta(minutes=1)
MOST = 5  # calls of one message
IN_COLUMNS, CELLS = 3, 20  # calls whose short arguments stand in columns, and how many of each
MENTIONS = 80  # people and groups named as approvers


@dataclass(frozen=True, slots=True)
class DrawnMessage:
    """A message ready for Slack: the notification's text and the blocks."""

    text: str  # the notification: one plain sentence, escaped
    blocks: list[Json]


def draw_card(view: CardView, now: datetime) -> DrawnMessage:
    """Draw the card for one to five calls, as of `now` (aware).

    ValueError for no calls or more than five.
    """
    if not 1 <= len(view.calls) <= MOST:
        raise ValueError("a card shows one to five calls; the caller splits longer plans")
    waiting = [call for call in view.calls if is_waiting(call, now)]
    blocks = _blocks(view, now, _fills(view, now, waiting))
    return DrawnMessage(text=_notification(view, waiting, now), blocks=blocks)


def approved_on(view: CardView, now: datetime) -> frozenset[str]:
    """Return the ids of the calls that have an Approve button on this card, not Review."""
    waiting = [call for call in view.calls if is_waiting(call, now)]
    fills = _fills(view, now, waiting)
    return frozenset(call.id for call in waiting if approved_here(call, fills[call.id]))


def _fills(view: CardView, now: datetime, waiting: Sequence[CallView]) -> dict[str, FilledPieces]:
    """Return, by id, the pieces of each waiting call that the card has room for."""
    if not waiting:
        return {}
    bare = _blocks(view, now, {call.id: fill([], 0) for call in view.calls})
    fixed = weight(bare) + PER_BLOCK * len(bare)
    cells = CELLS if len(view.calls) <= IN_COLUMNS else 0
    return _share({call.id: call for call in waiting}, TOTAL - fixed, cells)


def is_waiting(call: CallView, now: datetime) -> bool:
    """Return whether the call can still be decided: pending, and its deadline not reached."""
    return call.status is CallStatus.PENDING and (call.deadline is None or now < call.deadline)


def _share(calls: dict[str, CallView], room: int, cells: int) -> dict[str, FilledPieces]:
    """Divide the card's room among the calls: what small calls leave over goes to larger ones."""
    pieces = {key: pieces_of(call) for key, call in calls.items()}
    sizes = {key: sum(map(wanted, each)) for key, each in pieces.items()}
    # Blocks that come with the pieces: per call the arguments, those in columns, the agent's words
    # and what is said if some is missing.
    own = 3 + -(-cells // ROW_LIMIT)
    room -= (own * PER_BLOCK + MISSING) * len(calls) + PER_BLOCK * max(room, 0) // RICH_LIMIT
    fills: dict[str, FilledPieces] = {}
    for left, key in zip(
        range(len(sizes), 0, -1), sorted(sizes, key=sizes.__getitem__), strict=True
    ):
        fills[key] = fill(pieces[key], room // left, calls[key].covered, cells=cells)
        room -= min(sizes[key], room // left)
    return fills


def _blocks(view: CardView, now: datetime, fills: dict[str, FilledPieces]) -> list[Json]:
    waiting = [call for call in view.calls if is_waiting(call, now)]
    alone, shared = len(view.calls) == 1, _deadline(waiting)
    blocks: list[Json] = []
    if view.parts > 1:
        blocks.append(
            context(
                block_id(Block.PART, view.plan_id),
                [plain_text(f"Part {view.part} of {view.parts}")],
            )
        )
    if waiting:
        blocks += origin_blocks(view)
    if waiting and not alone:
        blocks += _head(view, waiting, fills, shared)
    for index, call in enumerate(view.calls):
        # below the head, too; as many calls as there can be leave no blocks for lines
        if not alone and len(view.calls) < MOST and (index or waiting):
            blocks.append(divider(block_id(Block.DIVIDER, call.target)))
        if call in waiting:
            small = _who(view) if alone else []
            small += _until(call.deadline) if alone or shared is None else []
            whole = RunTarget(view.run_id) if len(waiting) == 1 else None
            blocks += waiting_blocks(call, fills[call.id], small=small, whole=whole, alone=alone)
        else:
            blocks += decided_blocks(call, alone=alone, undecided=view.undecided or bool(waiting))
    if not waiting:
        blocks.append(foot(view.calls, _asked(view), view.target))
    return blocks


def _deadline(waiting: Sequence[CallView]) -> datetime | None:
    """Return the first deadline; None if a call has none or they differ by more than a minute."""
    found = [call.deadline for call in waiting if call.deadline]
    if len(found) < len(waiting) or not found or max(found) - min(found) > MINUTE:
        return None
    return min(found)


def _until(deadline: datetime | None) -> list[str]:
    return [f"⏳ Decide by {format_deadline(deadline)}"] if deadline else []


def _who(view: CardView) -> list[str]:
    """Return who asked, who may decide and further notes, as parts of a line of mrkdwn."""
    names = [group_mention(each) for each in view.approver_groups] + [
        mention(each) for each in view.approver_users
    ]
    more = len(names) - MENTIONS
    who = names[:MENTIONS] + (
        [f"members of {channel_mention(view.approver_channel)}"] if view.approver_channel else []
    )
    who += [f"{more} more"] if more > 0 else []
    own = (
        " – not by who asked"
        if not view.self_approval and view.requester in view.approver_users
        else ""
    )
    return [_asked(view), f"Approvers: {', '.join(who) or 'nobody'}{own}", *view.notes]


def _asked(view: CardView) -> str:
    link = (
        escape(view.origin.replace("|", "%7C"))
        if view.origin.startswith(("https://", "http://"))
        else ""
    )
    who = f"{mention(view.requester)}{through(view.client)}"
    return f"Asked by {who}" + (f" (<{link}|see it>)" if link else "")


def _head(
    view: CardView,
    waiting: Sequence[CallView],
    fills: dict[str, FilledPieces],
    deadline: datetime | None,
) -> list[Json]:
    """Build what stands above several calls: how many, who decides, until when, buttons for all.

    `deadline`: the one of all of them; None if they differ.
    """
    about, left, of = view.target, len(waiting), len(view.calls)
    count = f"{left} things to decide" if left == of else f"{left} of {of} left to decide"
    if view.questions:
        count += f", and {'a question' if view.questions == 1 else 'questions'} to answer"
    # a click counts for the calls of its own message only
    which = "all" if view.parts == 1 else "these"
    row: list[Json] = []
    if all(approved_here(call, fills[call.id]) for call in waiting):
        row.append(_approve_all(waiting, about, which))
    row.append(button(Action.REJECT_ALL, f"Reject {which}", about, style="danger"))
    cancel = (CANCEL, Click(Action.CANCEL_RUN, RunTarget(view.run_id)))
    row.append(menu([send_back(waiting[0].target), cancel]))
    small = mrkdwn("  ·  ".join([*_who(view), *_until(deadline)]))
    head = [
        header(block_id(Block.HEAD, about), count),
        context(block_id(Block.ASKED, about), [small]),
    ]
    # the last one has buttons of its own for all that is left
    return [*head, actions(block_id(Block.HEAD_BUTTONS, about), row)] if left > 1 else head


def _approve_all(waiting: Sequence[CallView], about: CardTarget, which: str) -> Json:
    final = [call for call in waiting if call.does == "destructive"]
    ask = None
    if final:
        known = [effect_of(call) for call in final if call.stated is EffectSource.BY_AUTHOR]
        unsure = [effect_of(call) for call in final if call.stated is not EffectSource.BY_AUTHOR]
        sure = confirmation_of_all(known, len(waiting), which, unsure=unsure)
        ask = confirm(sure.title, sure.text, sure.yes)
    return button(
        Action.APPROVE_ALL,
        f"Approve {which} ({len(waiting)})",
        about,
        style=approve_style(*waiting),
        confirm=ask,
    )


def _notification(view: CardView, waiting: Sequence[CallView], now: datetime) -> str:
    """Return one plain sentence for a lock screen: who asks for what, or how the calls ended.

    The effect is escaped; beside it stand only mentions and the bot's own words.
    """
    if not waiting:
        return _joined([outcome_sentence(call) for call in view.calls])
    first = min((call.deadline for call in waiting if call.deadline), default=None)
    within = f" within {roughly(first - now)}" if first else ""
    end = f". Approve or reject{within}."
    count = f"{len(waiting)} things: " if len(waiting) > 1 else ""
    who = f"{mention(view.requester)}{through(view.client)}"
    start = f"{who} asks for {count}" if count else f"{who} asks to "
    room = NOTIFICATION - slack_length(start) - slack_length(end)
    what = "; ".join(_lower(effect_of(call)).rstrip(".") for call in waiting)
    return f"{start}{escape(plain(what, room))}{end}"


def _lower(sentence: str) -> str:
    """Lower the first letter ("Refund 40": "refund 40"), but not of an acronym ("DM Ana")."""
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _joined(sentences: Sequence[str]) -> str:
    """Join as many of the sentences as a notification holds, and say how many are left out."""
    kept = list(sentences)
    while True:
        left = len(sentences) - len(kept)
        text = " ".join(kept) + (f" And {left} more." if left else "")
        if len(text) <= NOTIFICATION or len(kept) == 1:
            return text
        kept.pop()


def draw_card_copy(view: CardView, place: str, now: datetime) -> DrawnMessage:
    """Draw the card without buttons, as of `now` (aware), below a line on where people decide.

    `place`: the channel's id, or "" for direct messages. The line is there while the card waits.
    """
    drawn = draw_card(view, now)
    blocks = [block for block in drawn.blocks if block["type"] != "actions"]
    if not any(is_waiting(call, now) for call in view.calls):
        return DrawnMessage(drawn.text, blocks)
    said = card_elsewhere(place)
    where = context(block_id(Block.ELSEWHERE, view.target), [mrkdwn(said)])
    return DrawnMessage(said, [where, *blocks])
