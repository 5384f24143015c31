"""Draws the Home tab: what waits for a person, their requests, what is remembered. Pure.

Nothing is approved here: the button opens the dialog that shows all of the call. However much there
is, it stays below Slack's 100 blocks, and what is left out is said.
"""

from __future__ import annotations

from bot.messages.actions.codec import block_id
from bot.messages.actions.names import Action, Block
from bot.messages.actions.targets import CallTarget, RunTarget
from bot.messages.cards.decided_call import ICONS, WORDS
from bot.messages.home.view import HomeView, OwnRequest, Remembered, WaitingCall
from bot.messages.parts import (
    Json,
    actions,
    button,
    confirm,
    context,
    divider,
    header,
    line,
    moment,
    mrkdwn,
    plain_text,
    rich,
    section,
    words,
)
from bot.messages.pieces import shown
from bot.messages.text import channel_mention, due, mention, plain
from storage.states import CallStatus, RunStatus

WAITING, REQUESTS, REMEMBERED = 20, 10, 10  # of each that are shown: at most 60, 10 and 10 blocks
EFFECT, WORDS_LIMIT = 300, 150  # characters
STRANGER = "I take requests from full members of this workspace only."
_STANDS = {
    RunStatus.READY: "⚙️ at work",
    RunStatus.RUNNING: "⚙️ at work",
    RunStatus.WAITING: "⏳ waits for people",
    RunStatus.COMPLETED: "✅ finished",
    RunStatus.FAILED: "❌ could not go on; Retry stands in its thread",
    RunStatus.CANCELLED: "⏹️ cancelled",
}


def home(view: HomeView | None) -> Json:
    """Draw the tab; None: of somebody who can neither ask nor decide."""
    return {"type": "home", "blocks": _blocks(view)}


def _blocks(view: HomeView | None) -> list[Json]:
    if view is None:
        return [section(_id("stranger"), mrkdwn(STRANGER))]
    parts = [_waiting(view), _requests(view), _remembered(view)]
    filled = [part for part in parts if part]
    if not (view.waiting or view.requests or view.remembered):
        return [*(block for part in filled for block in part), _empty(view)]
    if not parts[0]:
        nothing = context(_id("nothing"), [mrkdwn("☕ Nothing waits for you.")])
        filled.insert(0, [nothing])
    blocks = filled[0]
    for number, part in enumerate(filled[1:]):
        blocks += [divider(_id("divider", number)), *part]
    return blocks


def _id(name: str, *numbers: int) -> str:
    return block_id(Block.HOME, name, *numbers)


def _empty(view: HomeView) -> Json:
    return section(
        _id("empty"),
        mrkdwn(
            f"👋 Nothing waits for you, and you have asked for nothing yet. Mention "
            f"{mention(view.bot)} in a channel, or write to me under *Messages*: `help` says what "
            f"I can do. What waits for your decision will stand here."
        ),
    )


def _small(name: str, text: str) -> Json:
    return context(_id(name), [mrkdwn(text)])


def _waiting(view: HomeView) -> list[Json]:
    blocks: list[Json] = []
    for each in view.waiting[:WAITING]:
        blocks += _call(each)
    left = view.more_waiting + max(0, len(view.waiting) - WAITING)
    if left:
        blocks.append(_small("more", f"and {left} more that you may decide."))
    if view.unread:
        more = "More calls wait in this workspace than I look through here; their cards have them."
        blocks.append(_small("unread", more))
    if view.unsure:
        calls = "1 call" if view.unsure == 1 else f"{view.unsure} calls"
        unsure = f"⚠️ Slack does not say now whether you may decide {calls}. Open this again later."
        blocks.append(_small("unsure", unsure))
    return [header(_id("waiting"), "Waits for you"), *blocks] if blocks else []


def _call(call: WaitingCall) -> list[Json]:
    about = call.target
    small = [f"Asked by {mention(call.requester)} {_where(call.channel)}"]
    if call.deadline:
        small.append(f"⏳ {'Say' if call.unknown else 'Decide'} by {due(call.deadline)}")
    if call.unknown:
        small.insert(0, "❓ *It started, and nobody knows whether it finished*")
    elif call.does == "destructive":
        small.append("⚠️ *This cannot be undone*")
    return [
        section(block_id(Block.HEADLINE, about), plain_text(_one_line(call.effect, EFFECT))),
        context(block_id(Block.SMALL_PRINT, about), [mrkdwn("  ·  ".join(small))]),
        actions(block_id(Block.CALL_BUTTONS, about), _buttons(call)),
    ]


def _buttons(call: WaitingCall) -> list[Json]:
    """Build what can be said here; to run it again, one has to have seen all of it: on the card."""
    if call.unknown:
        return [
            button(Action.RESOLVE_DONE, "It happened", call.target),
            button(Action.RESOLVE_NOT_DONE, "It did not happen", call.target),
        ]
    return [
        button(Action.REVIEW, "Review and approve…", call.target, style="primary"),
        button(Action.REJECT, "Reject…", call.target, style="danger"),
    ]


def _where(channel: str) -> str:
    return "in a direct message" if channel.startswith("D") else f"in {channel_mention(channel)}"


def _one_line(text: str, limit: int) -> str:
    return plain(shown(" ".join(text.split()), "(no words)"), limit)


def _requests(view: HomeView) -> list[Json]:
    if not view.requests:
        return []
    blocks = [_request(each) for each in view.requests[:REQUESTS]]
    if view.more_requests or len(view.requests) > REQUESTS:
        blocks.append(_small("earlier", "and more before; they stand in their threads."))
    return [header(_id("requests"), "Your requests"), *blocks]


def _request(asked: OwnRequest) -> Json:
    said = f"“{_one_line(asked.words, WORDS_LIMIT)}”" if asked.words else "A new request"
    # its calls say how a request stands that waits for them, or has come to its end
    is_told = bool(asked.calls) and asked.status in (RunStatus.WAITING, RunStatus.COMPLETED)
    stands = "Asked " if is_told else f"{_STANDS[asked.status]}  ·  asked "
    lines = [
        line(words(said, bold=True)),
        line(words(stands), moment(asked.at)),
        *(line(words(_stands(status, effect))) for status, effect in asked.calls),
    ]
    if asked.more:
        lines.append(line(words(f"and {asked.more} more", italic=True)))
    return rich(block_id(Block.OUTCOME, RunTarget(asked.run)), lines)


def _stands(status: CallStatus, effect: str) -> str:
    waits = status is CallStatus.PENDING
    word = "⏳ Waits for a decision" if waits else f"{ICONS[status]} {WORDS[status]}"
    return f"{word}: {_one_line(effect, WORDS_LIMIT)}"


def _remembered(view: HomeView) -> list[Json]:
    if not view.remembered:
        return []
    blocks = [_grant(number, each) for number, each in enumerate(view.remembered[:REMEMBERED])]
    left = view.more_remembered + max(0, len(view.remembered) - REMEMBERED)
    if left:
        blocks.append(_small("grants", f"and {left} more; `/approvals grants` lists all."))
    return [header(_id("remembered"), "Remembered approvals"), *blocks]


def _grant(number: int, grant: Remembered) -> Json:
    # one approval, whichever revision it was given to
    target = CallTarget(grant.call, 0)
    ask = confirm("Revoke this?", "The next such call is asked again.", "Revoke")
    revoke = button(Action.REVOKE, "Revoke", target, confirm=ask)
    return {**section(_id("grant", number), mrkdwn(grant.text)), "accessory": revoke}
