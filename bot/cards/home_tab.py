"""The Home tab: what waits for a person, their requests, decisions, delegations and grants. Pure.

Nothing is approved here: the button opens the dialog that shows the whole call. However much there
is, the tab stays below Slack's 100 blocks, and says what is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from bot.cards import block_kit, button_codec, request_list, slack_text
from bot.cards.action_names import Action, BlockRole
from bot.cards.call_pieces import irreversibility_warning
from bot.cards.decided_call import render_look_buttons
from bot.cards.delegation_dialog import DelegationView, render_delegate_button, render_delegation
from bot.cards.notices import away_approvers_note, through_program_suffix
from bot.cards.passkey_views import render_passkeys
from bot.cards.sentences import MEMBERS_ONLY_REPLY
from bot.tools import EffectSource
from storage.states import RunStatus

if TYPE_CHECKING:
    from storage.passkeys import Passkey


@dataclass(frozen=True, slots=True)
class HomeWaitingCall:
    """A call that this person may approve now, or whose unknown outcome they may report."""

    target: button_codec.CallTarget
    effect: str  # "Refund 40.00 EUR of order 1042"; secrets masked
    does: str  # read | write | destructive
    requester: str  # Slack user id
    channel: str  # where it was asked
    deadline: datetime | None
    link: str = ""  # to its card, else to its request
    is_outcome_unknown: bool = False  # it was started, and its outcome was never confirmed
    is_to_be_looked_at: bool = False  # it ran without approval
    has_warnings: bool = False  # its card warns of something
    client: str = ""  # the program that asked
    effect_source: EffectSource = EffectSource.BY_AUTHOR  # who says what it does
    represented_person: str = ""  # for a delegate: the person they decide for


@dataclass(frozen=True, slots=True)
class HomeWaitingQuestion:
    """A question that this person may answer now."""

    target: button_codec.CallTarget
    question: str  # the agent's words
    requester: str  # Slack user id
    deadline: datetime | None
    link: str = ""  # to its message, else to its request
    asker: str = "the agent"  # who asks, in mrkdwn


@dataclass(frozen=True, slots=True)
class SavedApprovalView:
    """A grant (saved approval) that this person gave, or that applies to their requests."""

    call: str  # the call whose approval was saved
    text: str  # mrkdwn


@dataclass(frozen=True, slots=True)
class HomeView:
    """What the Home tab shows one person."""

    bot: str  # the bot's user id
    shows: button_codec.HomeTabTarget = button_codec.DEFAULT_HOME_TARGET
    pages: int = 1  # number of pages that the shown part has
    questions: tuple[HomeWaitingQuestion, ...] = ()  # for them, the first deadline first
    waiting: tuple[HomeWaitingCall, ...] = ()  # the first deadline first
    more_waiting: int = 0  # calls they may approve that are not among these
    has_unlisted_calls: bool = False  # more calls wait in the workspace than were examined
    unsure_count: int = 0  # calls for which Slack did not say whether they may decide
    requests: tuple[request_list.ListedRun, ...] = ()  # the newest first
    away_approvers: tuple[tuple[str, datetime | None], ...] = ()  # away approvers of their requests
    more_requests: bool = False
    decided: tuple[
        request_list.ListedCall, ...
    ] = ()  # by them or on their requests, the newest first
    more_decided: bool = False
    delegations: tuple[DelegationView, ...] = ()  # who decides for whom, the first to end first
    remembered: tuple[SavedApprovalView, ...] = ()  # the first to end first
    more_remembered: int = 0
    signs: bool = False  # some of what they may decide has to be signed
    passkeys: tuple[tuple[Passkey, str], ...] = ()  # with their states, the oldest first
    findings: str = ""  # mrkdwn: what stands out in the decisions, for the policy's readers


# how many of each are shown on the overview and on pages of their own: 95 blocks in all at most
MAX_WAITING_CALLS = 10
MAX_REQUESTS = 8
MAX_DECIDED_CALLS = 8
MAX_SAVED_APPROVALS = 10
MAX_DELEGATIONS = 5
WAITING_CALLS_PER_PAGE = 20
REQUESTS_PER_PAGE = 20
MAX_QUESTIONS = 3  # three blocks each
MAX_EFFECT_CHARS = 300


def render_home_tab(view: HomeView | None) -> block_kit.Json:
    """Draw the Home tab; `view` is None for a person who can neither ask nor decide."""
    if view is None:
        return {
            "type": "home",
            "blocks": [
                block_kit.section_block(
                    _build_home_block_id("stranger"), block_kit.mrkdwn(MEMBERS_ONLY_REPLY)
                )
            ],
        }
    return {"type": "home", "blocks": _render_home_blocks(view)}


def _render_home_blocks(view: HomeView) -> list[block_kit.Json]:
    parts = _render_shown_parts(view)
    filled = [part for part in parts if part]
    waits = view.questions or view.waiting
    is_new = not (waits or view.requests or view.decided or view.remembered or view.signs)
    if is_new and not view.delegations and view.shows == button_codec.DEFAULT_HOME_TARGET:
        return [*(block for part in filled for block in part), _render_welcome(view)]
    if not parts[0]:
        filled.insert(
            0,
            [
                block_kit.context_block(
                    _build_home_block_id("nothing"),
                    [block_kit.mrkdwn(_nothing_here_sentence(view.shows))],
                )
            ],
        )
    narrowing = [_render_channel_filter(view.shows)]
    blocks = [_render_tools(view), *(narrowing if view.shows.channel else [])]
    for number, part in enumerate(filled):
        blocks += [
            *([block_kit.divider_block(_build_home_block_id("divider", number))] if number else []),
            *part,
        ]
    end = [block_kit.divider_block(_build_home_block_id("end")), *narrowing]
    is_narrow = view.shows.channel or view.shows.part is button_codec.HomeTabPart.PASSKEYS
    return [*blocks, *_render_page_buttons(view), *([] if is_narrow else end)]


def _render_shown_parts(view: HomeView) -> list[list[block_kit.Json]]:
    match view.shows.part:
        case button_codec.HomeTabPart.WAITING:
            return [_render_waiting_part(view)]
        case button_codec.HomeTabPart.MINE:
            return [_render_requests_part(view)]
        case button_codec.HomeTabPart.PASSKEYS:
            return [render_passkeys(view.passkeys)]
        case button_codec.HomeTabPart.ALL:
            return [
                _render_waiting_part(view),
                _render_requests_part(view),
                _render_decisions_part(view),
                _render_delegations_part(view),
                _render_saved_approvals_part(view),
                _render_findings_part(view),
            ]


def _nothing_here_sentence(shows: button_codec.HomeTabTarget) -> str:
    place = f" in {slack_text.channel_mention(shows.channel)}" if shows.channel else ""
    if shows.part is button_codec.HomeTabPart.MINE:
        return f"You have not asked for anything{place or ' yet'}."
    return f"☕ Nothing is waiting for you{place}."


def _render_tools(view: HomeView) -> block_kit.Json:
    """Build the one row of buttons at the top: back from a list, ask for something, delegate.

    For people who sign with a passkey, also a button for their passkeys.
    """
    shows, parts = view.shows, button_codec.HomeTabPart
    back = block_kit.button(
        Action.HOME_ALL, "← All", button_codec.HomeTabTarget(channel=shows.channel)
    )
    ask = block_kit.button(Action.REQUEST, "Ask for something…", button_codec.FormContext())
    add = block_kit.button(Action.ADD_PASSKEY, "Add a passkey", button_codec.NoTarget())
    keys = block_kit.button(
        Action.HOME_PASSKEYS, "Passkeys", button_codec.HomeTabTarget(parts.PASSKEYS)
    )
    buttons = [*([] if shows.part is parts.ALL else [back])]
    if shows.part is parts.PASSKEYS:
        buttons += [add] if view.signs else []
    else:
        buttons += [ask, render_delegate_button(), *([keys] if view.signs or view.passkeys else [])]
    return block_kit.actions_block(_build_home_block_id("tools"), buttons)


def _render_channel_filter(shows: button_codec.HomeTabTarget) -> block_kit.Json:
    """Build the menu that limits the tab to one channel, and the button back to all channels."""
    elements = [block_kit.channel_select(Action.HOME_CHANNEL, "Only one channel…", shows.channel)]
    if shows.channel:
        elements.append(
            block_kit.button(
                Action.HOME_ANYWHERE, "All channels", button_codec.HomeTabTarget(shows.part)
            )
        )
    return block_kit.actions_block(
        button_codec.build_block_id(BlockRole.HOME_CHANNEL, replace(shows, page=0)), elements
    )


def _render_page_buttons(view: HomeView) -> list[block_kit.Json]:
    """Build the buttons for the pages before and after this one; none if there is one page."""
    shows, page = view.shows, view.shows.page
    turns = []
    if page > 0:
        turns.append(block_kit.button(Action.HOME_BEFORE, "← Back", replace(shows, page=page - 1)))
    if page + 1 < view.pages:
        turns.append(block_kit.button(Action.HOME_NEXT, "More →", replace(shows, page=page + 1)))
    return [block_kit.actions_block(_build_home_block_id("turns"), turns)] if turns else []


def _build_home_block_id(name: str, *numbers: int) -> str:
    return button_codec.build_block_id(BlockRole.HOME, name, *numbers)


def _render_welcome(view: HomeView) -> block_kit.Json:
    return block_kit.section_block(
        _build_home_block_id("empty"),
        block_kit.mrkdwn(
            "👋 Nothing is waiting for you, and you have not asked for anything yet. Mention "
            f"{slack_text.user_mention(view.bot)} in a channel, or write to me under *Messages*: "
            "`help` says what I can do. What needs your decision will appear here."
        ),
    )


def _render_list_button(
    name: str, text: str, action: Action, shows: button_codec.HomeTabTarget
) -> block_kit.Json:
    """Build the end of a list that is cut, with the button that shows all of it."""
    block = block_kit.section_block(_build_home_block_id(name), block_kit.mrkdwn(text))
    return {**block, "accessory": block_kit.button(action, "Show all", shows)}


def _render_small_print(name: str, text: str) -> block_kit.Json:
    return block_kit.context_block(_build_home_block_id(name), [block_kit.mrkdwn(text)])


def _render_waiting_part(view: HomeView) -> list[block_kit.Json]:
    blocks = [block for each in view.questions for block in _render_waiting_question(each)]
    for each in view.waiting:
        blocks += _render_waiting_call(each)
    if view.more_waiting:
        text = f"and {view.more_waiting} more that you may decide."
        every = replace(view.shows, part=button_codec.HomeTabPart.WAITING)
        blocks.append(
            _render_list_button("more", text, Action.HOME_WAITING, every)
            if view.shows.part is button_codec.HomeTabPart.ALL
            else _render_small_print("more", text)
        )
    if view.has_unlisted_calls:
        blocks.append(_render_small_print("unread", request_list.UNLISTED_CALLS_NOTICE))
    if view.unsure_count:
        unsure = request_list.unknown_permission_note(view.unsure_count)
        blocks.append(_render_small_print("unsure", f"{unsure} Open this again later."))
    return (
        [block_kit.header_block(_build_home_block_id("waiting"), "Waiting for you"), *blocks]
        if blocks
        else []
    )


def _render_waiting_question(asked: HomeWaitingQuestion) -> list[block_kit.Json]:
    about = asked.target
    asker = asked.asker[:1].upper() + asked.asker[1:]
    small = [f"💬 {asker} asks you, for {slack_text.user_mention(asked.requester)}"]
    button = block_kit.button(Action.ANSWER, "Answer…", about, style="primary")
    return [
        _render_bold_line(BlockRole.QUESTION, about, asked.question),
        _render_waiting_small_print(about, small, asked.deadline, asked.link),
        block_kit.actions_block(button_codec.build_block_id(BlockRole.ANSWERS, about), [button]),
    ]


def _render_bold_line(
    kind: BlockRole, target: button_codec.CallTarget, text: str
) -> block_kit.Json:
    line = block_kit.text_leaf(request_list.mask_on_one_line(text, MAX_EFFECT_CHARS), bold=True)
    return block_kit.rich_text_block(
        button_codec.build_block_id(kind, target), [block_kit.rich_text_line(line)]
    )


def _render_waiting_small_print(
    target: button_codec.CallTarget, parts: list[str], deadline: datetime | None, link: str
) -> block_kit.Json:
    due = [f"⏳ Due {slack_text.format_relative_time(deadline)}"] if deadline else []
    open_ = [f"<{link}|Open it>"] if link else []
    return block_kit.context_block(
        button_codec.build_block_id(BlockRole.SMALL_PRINT, target),
        [block_kit.mrkdwn("  ·  ".join([*parts, *due, *open_]))],
    )


def _render_waiting_call(call: HomeWaitingCall) -> list[block_kit.Json]:
    about = call.target
    small = [
        f"Asked by {slack_text.user_mention(call.requester)}{through_program_suffix(call.client)} "
        f"{request_list.describe_asking_place(call.channel)}"
    ]
    if call.represented_person:
        small.insert(0, f"🤝 For {slack_text.user_mention(call.represented_person)}")
    if call.is_to_be_looked_at:
        small.insert(0, "🚨 *Run without approval: needs a look*")
    elif call.is_outcome_unknown:
        small.insert(0, "❓ *Outcome unknown: started, never confirmed*")
    elif final := irreversibility_warning(call.does, call.effect_source):
        small.insert(0, f"⚠️ *{final.rstrip('.')}*")
    return [
        _render_bold_line(BlockRole.HEADLINE, about, call.effect),
        _render_waiting_small_print(about, small, call.deadline, call.link),
        block_kit.actions_block(
            button_codec.build_block_id(BlockRole.CALL_BUTTONS, about), _render_call_buttons(call)
        ),
    ]


def _render_call_buttons(call: HomeWaitingCall) -> list[block_kit.Json]:
    """Build the buttons of a waiting call.

    Running a call of unknown outcome again is offered only on its card, where the whole call can be
    seen.
    """
    if call.is_to_be_looked_at:
        return render_look_buttons(call.target)
    if call.is_outcome_unknown:
        return [
            block_kit.button(Action.RESOLVE_DONE, "It happened", call.target),
            block_kit.button(Action.RESOLVE_NOT_DONE, "It did not happen", call.target),
        ]
    review, reject = ("", "") if call.has_warnings else ("primary", "danger")
    return [
        block_kit.button(Action.REVIEW, "Review…", call.target, style=review),
        block_kit.button(Action.REJECT, "Reject…", call.target, style=reject),
        block_kit.button(Action.HAND_OVER, "Hand over…", call.target),
    ]


def _render_requests_part(view: HomeView) -> list[block_kit.Json]:
    if not view.requests:
        return []
    blocks = [_render_request(each) for each in view.requests]
    if view.away_approvers:
        blocks.append(_render_small_print("away", away_approvers_note(view.away_approvers)))
    if view.more_requests and view.shows.part is button_codec.HomeTabPart.ALL:
        every = replace(view.shows, part=button_codec.HomeTabPart.MINE)
        blocks.append(_render_list_button("earlier", "and older ones.", Action.HOME_MINE, every))
    return [block_kit.header_block(_build_home_block_id("requests"), "Your requests"), *blocks]


def _render_request(run: request_list.ListedRun) -> block_kit.Json:
    beginning = request_list.describe_request_beginning(run)
    # if the request waits or has completed, its calls say how it stands
    is_told = bool(run.calls) and run.status in (RunStatus.WAITING, RunStatus.COMPLETED)
    status_text = (
        "Asked " if is_told else f"{request_list.LABEL_BY_RUN_STATUS[run.status]}  ·  asked "
    )
    open_ = (
        [block_kit.text_leaf("  ·  "), block_kit.link_leaf(run.link, "open it")] if run.link else []
    )
    lines = [
        block_kit.rich_text_line(*block_kit.text_leaves_with_mentions(beginning)),
        block_kit.rich_text_line(
            block_kit.text_leaf(status_text),
            block_kit.time_leaf(run.asked_at, slack_text.RELATIVE_FORMAT),
            *open_,
        ),
        *(
            block_kit.rich_text_line(block_kit.text_leaf(request_list.describe_call_status(*each)))
            for each in run.calls
        ),
    ]
    if run.more_calls:
        lines.append(
            block_kit.rich_text_line(block_kit.text_leaf(f"and {run.more_calls} more", italic=True))
        )
    return block_kit.rich_text_block(
        button_codec.build_block_id(BlockRole.OUTCOME, button_codec.RunTarget(run.run)), lines
    )


def _render_decisions_part(view: HomeView) -> list[block_kit.Json]:
    if not view.decided:
        return []
    blocks = [_render_past_decision(number, each) for number, each in enumerate(view.decided)]
    if view.more_decided:
        blocks.append(_render_small_print("past", "Older ones: `/approvals history 90`."))
    return [block_kit.header_block(_build_home_block_id("decided"), "Recent decisions"), *blocks]


def _render_past_decision(number: int, call: request_list.ListedCall) -> block_kit.Json:
    by = (
        f"{request_list.call_deciders_text(call).removeprefix(', ').strip()}, "
        if call.deciders
        else ""
    )
    small = [f"{by}{slack_text.format_relative_time(call.decided_at)}"] if call.decided_at else []
    small.append(f"asked by {slack_text.user_mention(call.requester)}")
    small += [f"<{call.link}|Open it>"] if call.link else []
    return block_kit.context_block(
        _build_home_block_id("past", number),
        [
            block_kit.plain_text(request_list.describe_call_status(call.status, call.effect)),
            block_kit.mrkdwn("  ·  ".join(small)),
        ],
    )


def _render_delegations_part(view: HomeView) -> list[block_kit.Json]:
    if not view.delegations:
        return []
    blocks = [render_delegation(each) for each in view.delegations[:MAX_DELEGATIONS]]
    hidden_count = len(view.delegations) - MAX_DELEGATIONS
    if hidden_count > 0:
        blocks.append(
            _render_small_print(
                "others", f"and {hidden_count} more; `/approvals delegate` lists all."
            )
        )
    return [
        block_kit.header_block(_build_home_block_id("delegations"), "Who decides for whom"),
        *blocks,
    ]


def _render_saved_approvals_part(view: HomeView) -> list[block_kit.Json]:
    if not view.remembered:
        return []
    blocks = [
        _render_saved_approval(number, each)
        for number, each in enumerate(view.remembered[:MAX_SAVED_APPROVALS])
    ]
    hidden_count = view.more_remembered + max(0, len(view.remembered) - MAX_SAVED_APPROVALS)
    if hidden_count:
        blocks.append(
            _render_small_print(
                "grants", f"and {hidden_count} more; `/approvals grants` lists all."
            )
        )
    return [block_kit.header_block(_build_home_block_id("remembered"), "Saved approvals"), *blocks]


def _render_findings_part(view: HomeView) -> list[block_kit.Json]:
    if not view.findings:
        return []
    text = f"{view.findings}All of it, with a picture: `/approvals report`."
    return [
        block_kit.header_block(
            _build_home_block_id("findings"), "How people decided in the last 30 days"
        ),
        block_kit.section_block(_build_home_block_id("found"), block_kit.mrkdwn(text)),
    ]


def _render_saved_approval(number: int, grant: SavedApprovalView) -> block_kit.Json:
    # a grant is identified by its call alone, whatever its revision
    target = button_codec.CallTarget(grant.call, 0)
    ask = block_kit.confirmation_dialog(
        "Revoke this?", "The next such call needs approval again.", "Revoke"
    )
    revoke = block_kit.button(Action.REVOKE, "Revoke", target, confirm=ask)
    return {
        **block_kit.section_block(
            _build_home_block_id("grant", number), block_kit.mrkdwn(grant.text)
        ),
        "accessory": revoke,
    }
