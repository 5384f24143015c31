"""The card: one Slack message that shows the calls of a plan and takes the decision.

Pure: rows in, blocks out. Nothing is read back from a message. Nobody can approve here what is not
shown here in full: such a call has a Review button in the place of Approve, and the message has no
"Approve all".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.durations import roughly
from bot.messages.actions.codec import Click, block_id
from bot.messages.actions.names import Action, Block
from bot.messages.actions.targets import CardTarget, RunTarget
from bot.messages.cards.decided_call import decided_blocks, outcome_sentence
from bot.messages.cards.waiting_call import (
    CANCEL,
    RICH_LIMIT,
    approved_here,
    send_back,
    waiting_blocks,
)
from bot.messages.parts import (
    Json,
    actions,
    button,
    confirm,
    context,
    divider,
    line,
    menu,
    mrkdwn,
    person,
    plain_text,
    quote,
    rich,
    weight,
    words,
)
from bot.messages.pieces import Filled, effect_of, fill, pieces_of, wanted
from bot.messages.text import (
    channel_mention,
    escape,
    group_mention,
    in_utc,
    mention,
    plain,
    slack_length,
    visible,
)
from bot.messages.views import CallView, CardView
from storage.states import CallStatus

TOTAL = 12_500  # characters of one message
MISSING = 400  # characters of what is said where not all is shown
PER_BLOCK = 100  # what each block counts besides its text: Slack limits the two together
NOTIFICATION = 300  # characters of the notification sentence
QUOTED = 200  # characters of each message quoted
EDITED_SINCE = " edited the request after the agent had read it. It says now:"
MENTIONS = 80  # people and groups named as approvers


@dataclass(frozen=True, slots=True)
class Drawn:
    """A message as it goes to Slack."""

    text: str  # the notification: one plain sentence, escaped
    blocks: list[Json]


def card(view: CardView, now: datetime) -> Drawn:
    """Draw the message for at most five calls, as of `now` (aware).

    ValueError for no calls or more than five.
    """
    if not 1 <= len(view.calls) <= 5:
        raise ValueError("a card shows one to five calls; the caller splits longer plans")
    waiting = [call for call in view.calls if is_waiting(call, now)]
    blocks = _blocks(view, now, _fills(view, now, waiting))
    return Drawn(text=_notification(view, waiting, now), blocks=blocks)


def approved_on(view: CardView, now: datetime) -> frozenset[str]:
    """Return the ids of the calls that have Approve on this card, and not Review in its place."""
    waiting = [call for call in view.calls if is_waiting(call, now)]
    fills = _fills(view, now, waiting)
    return frozenset(call.id for call in waiting if approved_here(call, fills[call.id]))


def _fills(view: CardView, now: datetime, waiting: Sequence[CallView]) -> dict[str, Filled]:
    """Return what finds room of each call that waits."""
    if not waiting:
        return {}
    bare = _blocks(view, now, {call.id: fill([], 0) for call in view.calls})
    fixed = weight(bare) + PER_BLOCK * len(bare)
    return _share({call.id: call for call in waiting}, TOTAL - fixed)


def is_waiting(call: CallView, now: datetime) -> bool:
    """Return whether the call can still be decided: pending, and its deadline not reached."""
    return call.status is CallStatus.PENDING and (call.deadline is None or now < call.deadline)


def _share(calls: dict[str, CallView], room: int) -> dict[str, Filled]:
    """Give each call its room: what the small ones leave over goes to the larger ones."""
    pieces = {key: pieces_of(call) for key, call in calls.items()}
    sizes = {key: sum(map(wanted, each)) for key, each in pieces.items()}
    # Blocks that come with the pieces: per call the arguments, the agent's words and what is said
    # if some is missing.
    room -= (3 * PER_BLOCK + MISSING) * len(calls) + PER_BLOCK * max(room, 0) // RICH_LIMIT
    fills: dict[str, Filled] = {}
    for left, key in zip(
        range(len(sizes), 0, -1), sorted(sizes, key=sizes.__getitem__), strict=True
    ):
        fills[key] = fill(pieces[key], room // left, calls[key].covered)
        room -= min(sizes[key], room // left)
    return fills


def _blocks(view: CardView, now: datetime, fills: dict[str, Filled]) -> list[Json]:
    alone = len(view.calls) == 1
    blocks: list[Json] = []
    if view.parts > 1:
        blocks.append(
            context(
                block_id(Block.PART, view.plan_id),
                [plain_text(f"Part {view.part} of {view.parts}")],
            )
        )
    if any(is_waiting(call, now) for call in view.calls):
        blocks += _request(view)
    for index, call in enumerate(view.calls):
        if index:
            blocks.append(divider(block_id(Block.DIVIDER, call.target)))
        if is_waiting(call, now):
            asked, whole = (_who(view), RunTarget(view.run_id)) if alone else ([], None)
            blocks += waiting_blocks(call, fills[call.id], asked=asked, whole=whole)
        else:
            here = sum(is_waiting(each, now) for each in view.calls)
            blocks += decided_blocks(call, undecided=max(view.undecided, here))
    return blocks + _footer(view, now, fills, alone)


def _request(view: CardView) -> list[Json]:
    """Quote what was asked, and say in normal size where it reads otherwise by now."""
    blocks: list[Json] = []
    if view.asked:
        quoted = [plain_text(f"“{plain(visible(text), QUOTED)}”") for text in view.asked]
        by = mrkdwn(f"💬 {mention(view.requester)} wrote")
        blocks.append(context(block_id(Block.REQUEST, view.plan_id), [by, *quoted]))
    if view.reworded:
        says = line(words("✏️ "), person(view.requester), words(EDITED_SINCE, bold=True))
        now = [quote(plain(visible(text), QUOTED) or "(nothing)") for text in view.reworded]
        blocks.append(rich(block_id(Block.REWORDED, view.plan_id), [says, *now]))
    return blocks


def _who(view: CardView) -> list[str]:
    """Say who asked, who may decide, and where it was asked: mrkdwn of ids only."""
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
    return [_asked(view), f"Approvers: {', '.join(who) or 'nobody'}{own}"]


def _asked(view: CardView) -> str:
    link = (
        escape(view.origin.replace("|", "%7C"))
        if view.origin.startswith(("https://", "http://"))
        else ""
    )
    return f"Asked by {mention(view.requester)}" + (f" (<{link}|see it>)" if link else "")


def _footer(view: CardView, now: datetime, fills: dict[str, Filled], alone: bool) -> list[Json]:
    waiting = [call for call in view.calls if is_waiting(call, now)]
    about = view.target
    if not waiting:
        return [context(block_id(Block.FOOT, about), [mrkdwn(_asked(view))])]
    if alone:
        return []
    blocks = [
        divider(block_id(Block.FOOT_DIVIDER, about)),
        context(block_id(Block.FOOT, about), [mrkdwn("  ·  ".join(_who(view)))]),
    ]
    row: list[Json] = []
    if len(waiting) > 1:
        # a click counts for the calls of its own message only
        which = "all" if view.parts == 1 else "these"
        if all(approved_here(call, fills[call.id]) for call in waiting):
            row.append(_approve_all(waiting, about, which))
        row.append(button(Action.REJECT_ALL, f"Reject {which}", about, style="danger"))
    cancel = (CANCEL, Click(Action.CANCEL_RUN, RunTarget(view.run_id)))
    row.append(menu([send_back(waiting[0].target), cancel]))
    return [*blocks, actions(block_id(Block.FOOT_BUTTONS, about), row)]


def _approve_all(waiting: Sequence[CallView], about: CardTarget, which: str) -> Json:
    final = [call for call in waiting if call.does == "destructive"]
    ask = None
    if final:
        text = plain("\n".join(f"• {effect_of(call)}" for call in final), 240)
        ask = confirm(
            f"Approve {which} {len(waiting)}?",
            f"This cannot be undone:\n{text}",
            f"Approve {which}",
        )
    return button(
        Action.APPROVE_ALL,
        f"Approve {which} ({len(waiting)})",
        about,
        style="primary",
        confirm=ask,
    )


def _notification(view: CardView, waiting: Sequence[CallView], now: datetime) -> str:
    """Say in one plain sentence, for a lock screen, who asks for what, or what came of it.

    The effect is escaped; beside it stand only mentions and our own words.
    """
    if not waiting:
        return _joined([outcome_sentence(call) for call in view.calls])
    due = min((call.deadline for call in waiting if call.deadline), default=None)
    within = f" within {roughly(due - now)}, by {in_utc(due)}" if due else ""
    end = f". Approve or reject{within}."
    count = f"{len(waiting)} things: " if len(waiting) > 1 else ""
    start = (
        f"{mention(view.requester)} asks to {count}"
        if not count
        else f"{mention(view.requester)} asks for {count}"
    )
    room = NOTIFICATION - slack_length(start) - slack_length(end)
    what = "; ".join(_lower(effect_of(call)).rstrip(".") for call in waiting)
    return f"{start}{escape(plain(what, room))}{end}"


def _lower(sentence: str) -> str:
    """Lower the first letter ("Refund 40": "refund 40"), but not of an acronym ("DM Ana")."""
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _joined(sentences: Sequence[str]) -> str:
    """Join as many of the sentences as fit, and say how many do not."""
    kept = list(sentences)
    while True:
        left = len(sentences) - len(kept)
        text = " ".join(kept) + (f" And {left} more." if left else "")
        if len(text) <= NOTIFICATION or len(kept) == 1:
            return text
        kept.pop()
