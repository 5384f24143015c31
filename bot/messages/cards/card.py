"""The card: one Slack message that shows the calls of a plan and takes the decision. Pure: rows in,
blocks out.

Nothing is read back from a message. Nobody can approve here what is not shown here in full: such a
call has a Review button in the place of Approve, and the message has no "Approve all".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.messages.actions import Action, Block, CallTarget, CardTarget, Click, RunTarget, block_id
from bot.messages.cards.decided_call import decided_blocks, outcome_sentence
from bot.messages.cards.parts import (
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
    rich,
    section,
    weight,
)
from bot.messages.cards.values import Filled, effect_of, fill, headline, pieces_of, title_of
from bot.messages.text import (
    channel_mention,
    escape,
    group_mention,
    in_utc,
    mention,
    plain,
    slack_length,
    visible,
    when,
)
from bot.messages.views import CallView, CardView, Progress
from storage.states import CallStatus

TOTAL = 12_500  # characters of one message
PER_BLOCK = 100  # what each block counts besides its text: Slack limits the two together
RICH_LIMIT = 3_000  # characters of one rich_text block
NOTIFICATION = 300  # characters of the notification sentence
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
    bare = _blocks(view, now, {call.id: fill([], 0) for call in view.calls})
    fixed = weight(bare) + PER_BLOCK * len(bare)
    fills = _share({call.id: call for call in waiting}, TOTAL - fixed)
    return Drawn(text=_notification(view, waiting), blocks=_blocks(view, now, fills))


def is_waiting(call: CallView, now: datetime) -> bool:
    """Whether the call can still be decided: pending, and its deadline not reached."""
    return call.status is CallStatus.PENDING and (call.deadline is None or now < call.deadline)


def _share(calls: dict[str, CallView], room: int) -> dict[str, Filled]:
    """Give each call its room: what the small ones leave over goes to the larger ones."""
    pieces = {key: pieces_of(call) for key, call in calls.items()}
    sizes = {key: sum(p.size for p in each if p.fits_a_card) for key, each in pieces.items()}
    # Blocks that come with the pieces: per call the arguments, the agent's words and what is said
    # if some is missing.
    room -= (3 * PER_BLOCK + 140) * len(calls) + PER_BLOCK * max(room, 0) // RICH_LIMIT
    fills: dict[str, Filled] = {}
    for left, key in zip(
        range(len(sizes), 0, -1), sorted(sizes, key=sizes.__getitem__), strict=True
    ):
        fills[key] = fill(pieces[key], room // left)
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
    for index, call in enumerate(view.calls):
        if index:
            blocks.append(divider(block_id(Block.DIVIDER, call.target)))
        if is_waiting(call, now):
            blocks += _waiting_blocks(view, call, fills[call.id], alone)
        else:
            blocks += decided_blocks(
                call, others_wait=any(is_waiting(each, now) for each in view.calls)
            )
    return blocks + _footer(view, now, fills, alone)


def _waiting_blocks(view: CardView, call: CallView, filled: Filled, alone: bool) -> list[Json]:
    about = call.target
    blocks = [header(block_id(Block.HEADLINE, about), headline(call))]
    if call.does == "destructive":
        blocks.append(section(block_id(Block.WARNING, about), mrkdwn("⚠️ *This cannot be undone.*")))
    if call.note and not call.edited_by:
        blocks.append(
            context(
                block_id(Block.NOTE, about),
                [plain_text(plain(f"🔁 Asked again: {visible(call.note)}", 300))],
            )
        )
    blocks += _rich_blocks(about, filled.body)
    if filled.missing:
        blocks.append(context(block_id(Block.MISSING, about), [plain_text(f"🔎 {filled.missing}")]))
    small = _who(view) if alone else []
    if call.edited_by:
        small.append(f"Edited by {mention(call.edited_by)}")
    if call.deadline:
        small.append(f"⏳ Decide by {when(call.deadline)}")
    facts = [mrkdwn("  ·  ".join(small))] if small else []
    facts.append(plain_text(f"{title_of(call)}  ·  #{call.digest[:8]}"))
    blocks.append(context(block_id(Block.SMALL_PRINT, about), facts))
    if filled.reason:
        blocks.append(rich(block_id(Block.AGENT_WORDS, about), filled.reason))
    if call.progress:
        blocks.append(context(block_id(Block.PROGRESS, about), [mrkdwn(_so_far(call.progress))]))
    row = _buttons(call, filled)
    if alone:
        row.append(_cancel(view))
    return [*blocks, actions(block_id(Block.CALL_BUTTONS, about), [*row, _more(call, filled)])]


def _so_far(progress: Progress) -> str:
    """ "🗳️ Step 1 of 2  ·  ✅ @ana  ·  1 more approval needed": mrkdwn of ids and numbers only."""
    parts = [f"Step {progress.stage} of {progress.stages}"] if progress.stages > 1 else []
    parts += [f"✅ {mention(person)}" for person in progress.approved]
    parts += [f"🚫 {mention(person)}" for person in progress.rejected]
    more = "more " if progress.approved else ""
    here = " in this step" if progress.stages > 1 else ""
    parts.append(
        f"{progress.needed} {more}approval{'s' if progress.needed != 1 else ''} needed{here}"
    )
    if progress.veto > 1:
        left = progress.veto - len(progress.rejected)
        parts.append(
            f"{left} {'more ' if progress.rejected else ''}rejection{'s' if left != 1 else ''} would end it"
        )
    return "🗳️ " + "  ·  ".join(parts)


def _rich_blocks(about: CallTarget, elements: Sequence[Json]) -> list[Json]:
    """The elements in as few rich_text blocks as their limit allows."""
    blocks: list[Json] = []
    current: list[Json] = []
    for element in elements:
        if current and weight(current) + weight(element) > RICH_LIMIT:
            blocks.append(rich(block_id(Block.VALUES, about, len(blocks)), current))
            current = []
        current.append(element)
    if current:
        blocks.append(rich(block_id(Block.VALUES, about, len(blocks)), current))
    return blocks


def _buttons(call: CallView, filled: Filled) -> list[Json]:
    about = call.target
    if filled.complete and not call.needs_words:
        ask = None
        if call.does == "destructive":
            text = f"{plain(effect_of(call), 240)}\n\nThis cannot be undone."
            ask = confirm("Approve this?", text, "Approve")
        row = [button(Action.APPROVE, "Approve", about, style="primary", confirm=ask)]
    else:
        row = [button(Action.REVIEW, "Review and approve…", about, style="primary")]
    if call.editable:
        row.append(button(Action.EDIT, "Edit", about))
    return [*row, button(Action.REJECT, "Reject", about, style="danger")]


def _more(call: CallView, filled: Filled) -> Json:
    """What is needed less often; where Review is a button already, it is not said twice."""
    about, choices = call.target, []
    if filled.complete and not call.needs_words:
        remember = " or remember it" if call.offers else ""
        label = f"Approve with a note{remember}…"
        choices.append((label, Click(Action.REVIEW, about)))
    choices += [
        ("Send the plan back…", Click(Action.SEND_BACK, about)),
        ("Withdraw (who asked)", Click(Action.WITHDRAW, about)),
    ]
    return menu(choices)


def _cancel(view: CardView) -> Json:
    return button(Action.CANCEL_RUN, "Cancel request", RunTarget(view.run_id))


def _who(view: CardView) -> list[str]:
    """Who asked, who may decide, and where it was asked: mrkdwn of ids only."""
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
        if all(fills[call.id].complete and not call.needs_words for call in waiting):
            row.append(_approve_all(waiting, about, which))
        row.append(button(Action.REJECT_ALL, f"Reject {which}", about, style="danger"))
    return [*blocks, actions(block_id(Block.FOOT_BUTTONS, about), [*row, _cancel(view)])]


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


def _notification(view: CardView, waiting: Sequence[CallView]) -> str:
    """One plain sentence for the phone's lock screen: mentions and our words beside the escaped
    effect.
    """
    if not waiting:
        return _joined([outcome_sentence(call) for call in view.calls])
    due = min((call.deadline for call in waiting if call.deadline), default=None)
    end = f". Approve or reject by {in_utc(due)}." if due else ". Approve or reject."
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
    """ "Refund 40" -> "refund 40", but "DM Ana" stays."""
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _joined(sentences: Sequence[str]) -> str:
    """As many of the sentences as fit, and how many do not."""
    kept = list(sentences)
    while True:
        left = len(sentences) - len(kept)
        text = " ".join(kept) + (f" And {left} more." if left else "")
        if len(text) <= NOTIFICATION or len(kept) == 1:
            return text
        kept.pop()
