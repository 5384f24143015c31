"""The Home tab: what waits for a person, their requests, decisions, delegations and grants. Pure.

Nothing is approved here: the button opens the dialog that shows the whole call. However much there
is, the tab stays below Slack's 100 blocks, and says what is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from bot.cards.action_names import Action, Block
from bot.cards.block_kit import (
    Json,
    actions,
    button,
    channel_select,
    confirm,
    context,
    divider,
    header,
    line,
    link,
    moment,
    mrkdwn,
    name_people,
    plain_text,
    rich,
    section,
    words,
)
from bot.cards.button_codec import (
    HOME,
    CallTarget,
    HomePart,
    HomeTarget,
    RunTarget,
    Setting,
    block_id,
)
from bot.cards.call_pieces import finality
from bot.cards.delegation_dialog import DelegationRow, begin_button, entry
from bot.cards.notices import away_note, through
from bot.cards.request_list import (
    STANDS,
    ListedCall,
    ListedRun,
    decided_by,
    describe_beginning,
    describe_call_status,
    describe_place,
    put_on_one_line,
)
from bot.cards.slack_text import channel_mention, format_deadline, mention, when
from bot.tools.effect_source import EffectSource
from storage.states import RunStatus

# What the Home tab shows one person, as plain data made from rows; drawn below. Pure.


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that this person may approve now, or whose unknown outcome they may report."""

    target: CallTarget
    effect: str  # "Refund 40.00 EUR of order 1042"; secrets masked
    does: str  # read | write | destructive
    requester: str  # Slack user id
    channel: str  # where it was asked
    deadline: datetime | None
    link: str = ""  # to its card, else to its request
    unknown: bool = False  # outcome unknown: started, never confirmed
    warned: bool = False  # its card warns of something
    client: str = ""  # the program by which it was asked
    stated: EffectSource = EffectSource.BY_AUTHOR  # who says what it does


@dataclass(frozen=True, slots=True)
class WaitingQuestion:
    """A question that this person may answer now."""

    target: CallTarget
    question: str  # the agent's words
    requester: str  # Slack user id
    deadline: datetime | None
    link: str = ""  # to its message, else to its request
    asker: str = "the agent"  # who asks, in mrkdwn


@dataclass(frozen=True, slots=True)
class RememberedApproval:
    """A grant (saved approval) that this person gave, or that applies to their requests."""

    call: str  # the one with whose approval it was given
    text: str  # mrkdwn


@dataclass(frozen=True, slots=True)
class HomeView:
    """What the Home tab shows one person."""

    bot: str  # the bot's user id
    shows: HomeTarget = HOME
    pages: int = 1  # that there are of what it shows
    questions: tuple[WaitingQuestion, ...] = ()  # for them, the first deadline first
    waiting: tuple[WaitingCall, ...] = ()  # the first deadline first
    more_waiting: int = 0  # calls they may approve that are not among these
    unread: bool = False  # more calls wait in the workspace than were looked at
    unsure: int = 0  # calls of which Slack did not say whether they may
    requests: tuple[ListedRun, ...] = ()  # the newest first
    away: tuple[tuple[str, datetime | None], ...] = ()  # of those who decide about them
    more_requests: bool = False
    decided: tuple[ListedCall, ...] = ()  # by them or on their requests, the newest first
    more_decided: bool = False
    delegations: tuple[DelegationRow, ...] = ()  # who decides for whom, the first to end first
    remembered: tuple[RememberedApproval, ...] = ()  # the first to end first
    more_remembered: int = 0


# of each that are shown first, and on a page of their own: with these, all of it is 92 blocks
WAITING, REQUESTS, DECIDED, REMEMBERED, STANDING = 10, 8, 8, 10, 5
WAITING_PAGE, REQUESTS_PAGE = 20, 20
QUESTIONS = 3  # two blocks each
EFFECT = 300  # characters
STRANGER = "I take requests from full members of this workspace only."
TABS = (
    (Action.HOME_ALL, HomePart.ALL, "All"),
    (Action.HOME_WAITING, HomePart.WAITING, "Waits for me"),
    (Action.HOME_MINE, HomePart.MINE, "My requests"),
)


def draw_home(view: HomeView | None) -> Json:
    """Draw the Home tab; `view` is None for a person who can neither ask nor decide."""
    if view is None:
        return {"type": "home", "blocks": [section(_id("stranger"), mrkdwn(STRANGER))]}
    return {"type": "home", "blocks": _blocks(view)}


def _blocks(view: HomeView) -> list[Json]:
    parts = _parts(view)
    filled = [part for part in parts if part]
    waits = view.questions or view.waiting
    is_new = not (waits or view.requests or view.decided or view.remembered)
    if is_new and not view.delegations and view.shows == HOME:
        return [*(block for part in filled for block in part), _empty(view)]
    if not parts[0]:
        filled.insert(0, [context(_id("nothing"), [mrkdwn(_nothing(view.shows))])])
    blocks = [_tabs(view.shows), _filter(view.shows)]
    for number, part in enumerate(filled):
        blocks += [*([divider(_id("divider", number))] if number else []), *part]
    return [*blocks, *_turns(view)]


def _parts(view: HomeView) -> list[list[Json]]:
    match view.shows.part:
        case HomePart.WAITING:
            return [_waiting(view)]
        case HomePart.MINE:
            return [_requests(view)]
        case HomePart.ALL:
            return [
                _waiting(view),
                _requests(view),
                _decided(view),
                _delegations(view),
                _remembered(view),
            ]


def _nothing(shows: HomeTarget) -> str:
    place = f" in {channel_mention(shows.channel)}" if shows.channel else ""
    if shows.part is HomePart.MINE:
        return f"You have asked for nothing{place or ' yet'}."
    return f"☕ Nothing waits for you{place}."


def _tabs(shows: HomeTarget) -> Json:
    """Build the buttons that choose what is shown, ask for something or delegate decisions."""
    tabs = [
        button(
            action,
            label,
            HomeTarget(part, channel=shows.channel),
            style="primary" if part is shows.part else "",
        )
        for action, part, label in TABS
    ]
    ask = button(Action.REQUEST, "Ask for something…", Setting())
    return actions(_id("tabs"), [*tabs, ask, begin_button()])


def _filter(shows: HomeTarget) -> Json:
    """Build the menu that limits the tab to one channel, and the button back to all channels."""
    found = [channel_select(Action.HOME_CHANNEL, "Only one channel…", shows.channel)]
    if shows.channel:
        found.append(button(Action.HOME_ANYWHERE, "All channels", HomeTarget(shows.part)))
    return actions(block_id(Block.HOME_CHANNEL, replace(shows, page=0)), found)


def _turns(view: HomeView) -> list[Json]:
    """Build the buttons for the pages before and after this one; none if there is one page."""
    shows, page = view.shows, view.shows.page
    turns = []
    if page > 0:
        turns.append(button(Action.HOME_BEFORE, "← Back", replace(shows, page=page - 1)))
    if page + 1 < view.pages:
        turns.append(button(Action.HOME_NEXT, "More →", replace(shows, page=page + 1)))
    return [actions(_id("turns"), turns)] if turns else []


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
    blocks = [block for each in view.questions for block in _question(each)]
    for each in view.waiting:
        blocks += _call(each)
    if view.more_waiting:
        blocks.append(_small("more", f"and {view.more_waiting} more that you may decide."))
    if view.unread:
        more = (
            "More calls are waiting in this workspace than I can list here. Their cards show them."
        )
        blocks.append(_small("unread", more))
    if view.unsure:
        calls = "1 call" if view.unsure == 1 else f"{view.unsure} calls"
        unsure = (
            f"⚠️ I cannot tell at the moment whether you may decide {calls}, because Slack does "
            "not answer. Open this again later."
        )
        blocks.append(_small("unsure", unsure))
    return [header(_id("waiting"), "Waits for you"), *blocks] if blocks else []


def _question(asked: WaitingQuestion) -> list[Json]:
    about = asked.target
    asker = asked.asker[:1].upper() + asked.asker[1:]
    small = [f"💬 {asker} asks you, for {mention(asked.requester)}"]
    small += [f"⏳ Answer by {format_deadline(asked.deadline)}"] if asked.deadline else []
    small += [f"<{asked.link}|Open it>"] if asked.link else []
    text = section(
        block_id(Block.QUESTION, about), plain_text(put_on_one_line(asked.question, EFFECT))
    )
    return [
        {**text, "accessory": button(Action.ANSWER, "Answer…", about)},
        context(block_id(Block.ANSWERS, about), [mrkdwn("  ·  ".join(small))]),
    ]


def _call(call: WaitingCall) -> list[Json]:
    about = call.target
    small = [
        f"Asked by {mention(call.requester)}{through(call.client)} {describe_place(call.channel)}"
    ]
    if call.deadline:
        small.append(
            f"⏳ {'Say' if call.unknown else 'Decide'} by {format_deadline(call.deadline)}"
        )
    if call.link:
        small.append(f"<{call.link}|Open it>")
    if call.unknown:
        small.insert(0, "❓ *Outcome unknown: started, never confirmed*")
    elif final := finality(call.does, call.stated):
        small.insert(0, f"⚠️ *{final.rstrip('.')}*")
    return [
        section(block_id(Block.HEADLINE, about), plain_text(put_on_one_line(call.effect, EFFECT))),
        context(block_id(Block.SMALL_PRINT, about), [mrkdwn("  ·  ".join(small))]),
        actions(block_id(Block.CALL_BUTTONS, about), _buttons(call)),
    ]


def _buttons(call: WaitingCall) -> list[Json]:
    """Build the buttons of a waiting call.

    Running it again is offered on its card only: one has to have seen the whole call for that.
    """
    if call.unknown:
        return [
            button(Action.RESOLVE_DONE, "It happened", call.target),
            button(Action.RESOLVE_NOT_DONE, "It did not happen", call.target),
        ]
    return [
        button(Action.REVIEW, "Review…", call.target, style="" if call.warned else "primary"),
        button(Action.REJECT, "Reject…", call.target, style="danger"),
    ]


def _requests(view: HomeView) -> list[Json]:
    if not view.requests:
        return []
    blocks = [_request(each) for each in view.requests]
    if view.away:
        blocks.append(_small("away", away_note(view.away)))
    if view.more_requests and view.shows.part is HomePart.ALL:
        blocks.append(_small("earlier", "Older ones are under *My requests*."))
    return [header(_id("requests"), "Your requests"), *blocks]


def _request(asked: ListedRun) -> Json:
    said = describe_beginning(asked)
    # its calls say how a request stands that waits for them, or has come to its end
    is_told = bool(asked.calls) and asked.status in (RunStatus.WAITING, RunStatus.COMPLETED)
    stands_ = "Asked " if is_told else f"{STANDS[asked.status]}  ·  asked "
    open_ = [words("  ·  "), link(asked.link, "open it")] if asked.link else []
    lines = [
        line(*name_people(said, bold=True)),
        line(words(stands_), moment(asked.at), *open_),
        *(line(words(describe_call_status(*each))) for each in asked.calls),
    ]
    if asked.more:
        lines.append(line(words(f"and {asked.more} more", italic=True)))
    return rich(block_id(Block.OUTCOME, RunTarget(asked.run)), lines)


def _decided(view: HomeView) -> list[Json]:
    if not view.decided:
        return []
    blocks = [_past(number, each) for number, each in enumerate(view.decided)]
    if view.more_decided:
        blocks.append(_small("past", "Older ones: `/approvals history 90`."))
    return [header(_id("decided"), "Recent decisions"), *blocks]


def _past(number: int, call: ListedCall) -> Json:
    by = f"{decided_by(call).removeprefix(', ').strip()}, " if call.deciders else ""
    small = [f"{by}{when(call.at)}"] if call.at else []
    small.append(f"asked by {mention(call.requester)}")
    small += [f"<{call.link}|Open it>"] if call.link else []
    return context(
        _id("past", number),
        [plain_text(describe_call_status(call.status, call.effect)), mrkdwn("  ·  ".join(small))],
    )


def _delegations(view: HomeView) -> list[Json]:
    if not view.delegations:
        return []
    blocks = [entry(each) for each in view.delegations[:STANDING]]
    left = len(view.delegations) - STANDING
    if left > 0:
        blocks.append(_small("others", f"and {left} more; `/approvals delegate` lists all."))
    return [header(_id("delegations"), "Who decides for whom"), *blocks]


def _remembered(view: HomeView) -> list[Json]:
    if not view.remembered:
        return []
    blocks = [_grant(number, each) for number, each in enumerate(view.remembered[:REMEMBERED])]
    left = view.more_remembered + max(0, len(view.remembered) - REMEMBERED)
    if left:
        blocks.append(_small("grants", f"and {left} more; `/approvals grants` lists all."))
    return [header(_id("remembered"), "Saved approvals"), *blocks]


def _grant(number: int, grant: RememberedApproval) -> Json:
    # one approval, whichever revision it was given to
    target = CallTarget(grant.call, 0)
    ask = confirm("Revoke this?", "The next such call is asked again.", "Revoke")
    revoke = button(Action.REVOKE, "Revoke", target, confirm=ask)
    return {**section(_id("grant", number), mrkdwn(grant.text)), "accessory": revoke}
