"""A call that no longer waits for its decision: what became of it, who decided, and why.

Pure; part of `cards`.
"""

from __future__ import annotations

from bot.messages.actions.codec import block_id
from bot.messages.actions.names import Action, Block
from bot.messages.parts import (
    Json,
    actions,
    button,
    confirm,
    context,
    line,
    moment,
    mrkdwn,
    person,
    plain_text,
    quote,
    rich,
    words,
)
from bot.messages.pieces import compact, effect_of, shown, title_of
from bot.messages.text import escape, mention, plain, when
from bot.messages.views import CallView
from storage.states import CallStatus

TEXT_LIMIT = 400  # characters of a note or a result on a card; the whole is in the thread
EFFECT_LIMIT = 300
INLINE_LIMIT = 120  # a longer or many-line note stands in a quote of its own

S = CallStatus
ICONS = {
    S.PENDING: "⌛",
    S.APPROVED: "✅",
    S.REJECTED: "🚫",
    S.EXPIRED: "⌛",
    S.CANCELLED: "⏹️",
    S.SUPERSEDED: "↪️",
    S.INVALIDATED: "⚠️",
    S.REFUSED: "⛔",
    S.RUNNING: "⏳",
    S.SUCCEEDED: "✅",
    S.FAILED: "❌",
    S.UNKNOWN: "❓",
}
WORDS = {
    S.PENDING: "Too late",
    S.APPROVED: "Approved",
    S.REJECTED: "Rejected",
    S.EXPIRED: "Expired",
    S.CANCELLED: "Cancelled",
    S.SUPERSEDED: "Superseded",
    S.INVALIDATED: "No longer valid",
    S.REFUSED: "Refused",
    S.RUNNING: "Running…",
    S.SUCCEEDED: "Done",
    S.FAILED: "Failed",
    S.UNKNOWN: "Unknown",
}
STARTED = (S.RUNNING, S.SUCCEEDED, S.FAILED, S.UNKNOWN)
BY_A_PERSON = (S.APPROVED, S.REJECTED, S.CANCELLED)


def decided_blocks(call: CallView, *, others_wait: bool) -> list[Json]:
    """Build the effect, what became of it and why, and the arguments on one line.

    There are buttons only where nobody knows how the call ended. `others_wait`: other calls of the
    same message still wait, which an approved call has to say.
    """
    elements = [line(words(plain(effect_of(call), EFFECT_LIMIT), bold=True))]
    text = _said(call)
    inline = bool(text) and len(text) <= INLINE_LIMIT and "\n" not in text
    elements.append(
        line(*_status(call, others_wait), *([words(_glue(call)), words(text)] if inline else []))
    )
    if text and not inline:
        elements.append(quote(text))
    if values := [each for each in call.values if each.says_something]:
        elements.append(line(*compact(values)))
    blocks = [
        rich(block_id(Block.OUTCOME, call.target), elements),
        context(block_id(Block.SMALL_PRINT, call.target), _small(call)),
    ]
    if asks(call):
        blocks.append(actions(block_id(Block.RESOLUTIONS, call.target), _resolutions(call)))
    return blocks


def asks(call: CallView) -> bool:
    """Return whether people are still asked how the call ended: unknown, and not given up."""
    return call.status is S.UNKNOWN and call.deadline is not None


def _status(call: CallView, others_wait: bool) -> list[Json]:
    """Build "✅ Approved by @ana · 14:02 …" as rich-text leaves."""
    leaves = [words(f"{ICONS[call.status]} "), words(WORDS[call.status], bold=True)]
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
        case S.UNKNOWN:
            given_up = "" if asks(call) else ", and it is no longer asked"
            leaves.append(words(f": it started, and nobody knows whether it finished{given_up}"))
        case S.SUPERSEDED if not call.note.strip():
            leaves.append(words(": the request was changed"))
        case S.INVALIDATED if not call.note.strip():
            leaves.append(words(": what was shown is no longer what would run"))
    if call.status is S.APPROVED:
        waits = "waiting for the other decisions" if others_wait else "not started yet"
        leaves.append(words(f" — {waits}", italic=True))
        if others_wait and call.good_until:
            leaves += [words("; asked again if they come after ", italic=True)]
            leaves += [moment(call.good_until)]
    return leaves


def _by(call: CallView) -> list[Json]:
    leaves: list[Json] = []
    for index, user in enumerate(call.decided_by):
        leaves += [
            words((" and " if index == len(call.decided_by) - 1 else ", ") if index else " by "),
            person(user),
        ]
    if not call.decided_by and call.status is S.APPROVED:
        leaves.append(words(" by policy"))
    if call.decided_at:
        leaves += [words(" · "), moment(call.decided_at)]
    return leaves


def _mentions(call: CallView) -> str:
    return " and ".join(mention(user) for user in call.decided_by)


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


def _small(call: CallView) -> list[Json]:
    small: list[str] = []
    if call.status in STARTED:
        by = _mentions(call) or "policy"
        small.append(
            f"Approved by {by}" + (f", {when(call.decided_at)}" if call.decided_at else "")
        )
    if call.edited_by:
        small.append(f"Edited by {mention(call.edited_by)}")
    about = plain_text(f"{title_of(call)}  ·  #{call.digest[:8]}")
    return [*([mrkdwn("  ·  ".join(small))] if small else []), about]


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


def outcome_sentence(call: CallView) -> str:
    """Say what became of the call, for the notification: escaped, at most 250 characters.

    "Approved by <@U1>: Refund 40.00 EUR of order 1042. Done."
    """
    effect = escape(plain(effect_of(call), 120)).rstrip(".")
    by = f" by {_mentions(call)}" if call.decided_by else ""
    if call.status in STARTED:
        end = {S.RUNNING: "Running.", S.SUCCEEDED: "Done.", S.FAILED: "It failed."}.get(
            call.status, "Nobody knows whether it finished."
        )
        return f"Approved{by or ' by policy'}: {effect}. {end}"
    if call.status is S.EXPIRED:
        return f"Expired, nobody answered: {effect}."
    return f"{WORDS[call.status]}{by}: {effect}."
