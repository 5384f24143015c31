"""A call that no longer waits for its decision: what became of it, who decided, and why.

Pure; part of `card`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.cards.action_names import Action, Block
from bot.cards.block_kit import (
    Json,
    actions,
    button,
    confirm,
    context,
    line,
    menu,
    moment,
    mrkdwn,
    person,
    quote,
    rich,
    section,
    words,
)
from bot.cards.button_codec import CardTarget, Click, block_id
from bot.cards.call_pieces import compact, effect_of, shown
from bot.cards.slack_text import decider_mention, escape, mention, plain, when
from bot.cards.views import CallView, Value
from storage.states import CallStatus

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
    """Build what it came to or would have done, what became of it and why, and who had a part.

    There are buttons only where nobody knows how the call ended. `alone`: the card shows
    nothing else, and its foot says who had a part. `undecided`: whether an approved call waits for
    decisions about others of its plan.
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
    """Return what it came to in its tool's words, else what it would do."""
    came_to = " ".join(call.outcome.split()) if call.status is S.SUCCEEDED else ""
    return plain(shown(came_to, effect_of(call)), EFFECT_LIMIT)


def _says_more(value: Value, title: str) -> bool:
    """Return whether the argument is set, and does not stand in the title yet as a word of its own.

    The 4 of "Deploy 2.8.4" is none.
    """
    if value.before is not None or not value.says_something:
        return value.says_something
    return re.search(rf"(?<![\w.,:/-]){re.escape(value.text)}(?![.,:/-]?\w)", title) is None


def _remark(who: str, said: str) -> Json:
    return quote(f": {plain(shown(said, '(blank)'), REMARK_LIMIT)}", person(who))


def asks(call: CallView) -> bool:
    """Return whether people are still asked how the call ended: unknown, and not given up."""
    return call.status is S.UNKNOWN and call.deadline is not None


def _status(call: CallView, undecided: bool) -> list[Json]:
    """Build "✅ Approved by @ana · 14:02 …" as rich-text leaves."""
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
    """Say what an approved call still waits for: without a number, which each vote would change."""
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
    """Build the leaves that name who decided: "@cleo, for @ana"."""
    stand_in = call.stand_ins.get(user)
    return [person(stand_in), words(", for "), person(user)] if stand_in else [person(user)]


def _glue(call: CallView) -> str:
    return (
        " — "
        if call.status in BY_A_PERSON or call.status in (S.EXPIRED, S.UNKNOWN, S.PENDING)
        else ": "
    )


def _said(call: CallView) -> str:
    """Return why, or what came of it: hidden characters shown, bounded."""
    text = call.result if call.status is S.SUCCEEDED else call.note
    if call.status is S.FAILED and not text.strip():
        text = call.result
    return plain(shown(text.strip(), ""), TEXT_LIMIT)


def _small(call: CallView) -> list[str]:
    """Say in mrkdwn who edited it, and who approved what was started."""
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
    """Build the line of who asked (mrkdwn), with the menu by which they ask for the same again.

    Of a single call it says as well who edited and approved it.
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
    """Say what became of the call, for the notification: escaped, at most 250 characters.

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
