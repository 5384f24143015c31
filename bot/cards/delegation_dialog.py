"""The dialog to delegate one's decisions, and messages on delegations and hand-overs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.cards import block_kit, button_codec, slack_text
from bot.cards.action_names import Action, BlockRole, DialogId, InputBlockId, InputElementId
from bot.cards.request_list import SlashCommandAnswer

CHOOSE_SOMEBODY_ELSE_REPLY = "Please choose somebody other than yourself."
DELEGATION_ALREADY_ENDED_REPLY = "That has ended already."


def delegation_started_notice(delegate: str, until: datetime) -> str:
    """Return the confirmation to a person that their delegation has begun."""
    return (
        f"🤝 {slack_text.user_mention(delegate)} decides for you until "
        f"{slack_text.format_local_time(until)}. You can still decide yourself, and end this on "
        "my Home tab."
    )


def delegate_appointed_notice(delegator: str, until: datetime, words: str) -> str:
    """Return the message to a delegate that they decide for another person, and what that means."""
    why = f" They say: “{slack_text.sanitise_for_mrkdwn(words)}”." if words.strip() else ""
    return (
        f"🤝 {slack_text.user_mention(delegator)} asked you to decide for them until "
        f"{slack_text.format_local_time(until)}.{why} What needs their decision now comes to you "
        "as well, including what is already waiting; my Home tab lists it. You cannot decide for "
        "them what you asked for or changed yourself."
    )


def waits_for_delegate_notice(
    delegate: str, delegator: str, effects: Sequence[str], deadline: datetime | None
) -> str:
    """Return the notice in a card's thread that its calls now wait for a delegate as well."""
    by = f" by {slack_text.format_time_with_countdown(deadline)}" if deadline else ""
    what = slack_text.join_effects(effects)
    return (
        f"🤝 {slack_text.user_mention(delegate)}, for {slack_text.user_mention(delegator)}: "
        f"this is waiting for a decision{by}: {what}"
    )


def cannot_take_over_reply(person: str, able: str) -> str:
    """Return why a call cannot be handed over to a person; `able`: who can approve, as mrkdwn."""
    who = f" These can: {able}." if able else ""
    return f"{slack_text.user_mention(person)} cannot approve this now.{who}"


def hand_over_notice(by: str, to: str, effect: str, deadline: datetime | None) -> str:
    """Return the notice to a person that a waiting decision is handed over to them."""
    until = f", by {slack_text.format_time_with_countdown(deadline)}" if deadline else ""
    return (
        f"🤝 {slack_text.user_mention(to)}: {slack_text.user_mention(by)} hands this over to you"
        f"{until}: {slack_text.join_effects([effect])}"
    )


def delegation_line(delegator: str, delegate: str, until: datetime, words: str) -> str:
    """Return one line that says who decides for whom, and until when."""
    why = f": “{slack_text.sanitise_for_mrkdwn(words, 120)}”" if words.strip() else ""
    return (
        f"🤝 {slack_text.user_mention(delegate)} decides for {slack_text.user_mention(delegator)} "
        f"until {slack_text.format_local_time(until)}{why}"
    )


def delegation_ended_notice(delegator: str) -> str:
    """Return the message to a delegate that their delegation has ended."""
    return f"🤝 You no longer decide for {slack_text.user_mention(delegator)}."


@dataclass(frozen=True, slots=True)
class DelegationView:
    """One delegation: who decides for whom, and until when."""

    id: str
    delegator: str  # Slack user id
    delegate: str  # Slack user id
    until: datetime
    words: str
    is_own: bool  # the reader is the delegator, and may end it


def render_delegations(found: Sequence[DelegationView]) -> SlashCommandAnswer:
    """Draw the answer to `/approvals delegate`: all current delegations of a person."""
    title = "Who decides for whom" if found else "You have no delegations, in either direction."
    top = block_kit.section_block(
        button_codec.build_block_id(BlockRole.DELEGATION, "title"), block_kit.mrkdwn(title)
    )
    return SlashCommandAnswer(title, [top, *(render_delegation(each) for each in found)])


def render_delegation(each: DelegationView) -> block_kit.Json:
    """Draw one delegation, with a button that ends it if the reader has given it."""
    text = delegation_line(each.delegator, each.delegate, each.until, each.words)
    block = block_kit.section_block(
        button_codec.build_block_id(BlockRole.DELEGATION, button_codec.DelegationTarget(each.id)),
        block_kit.mrkdwn(text),
    )
    if not each.is_own:
        return block
    ask = block_kit.confirmation_dialog("End this?", "From now on you decide alone.", "End it")
    target = button_codec.DelegationTarget(each.id)
    return {
        **block,
        "accessory": block_kit.button(Action.END_DELEGATION, "End", target, confirm=ask),
    }


def render_delegate_button() -> block_kit.Json:
    """Build the button that opens the delegation dialog."""
    return block_kit.button(Action.DELEGATE, "Delegate…", button_codec.NoTarget())


MAX_DELEGATION_DURATION = timedelta(days=90)
DEFAULT_DELEGATION_DURATION = timedelta(days=7)
MAX_NOTE_CHARS = 200
DELEGATION_EXPLANATION_TEXT = (
    "They may approve and reject wherever you may, except what they asked for or changed "
    "themselves. The two of you count as one. It ends by itself; you can end it earlier on my "
    "Home tab."
)


@dataclass(frozen=True, slots=True)
class DelegationInput:
    """What a person entered in the delegation dialog."""

    delegate: str  # Slack user id
    until: datetime
    words: str


def render_delegation_dialog(
    now: datetime, *, until: datetime | None = None, delegate: str = ""
) -> block_kit.Json:
    """Build the delegation dialog.

    `delegate`: who decides for this person already, and `until` when; "" and None for nobody.
    """
    says = [block_kit.section_block("says", block_kit.mrkdwn(DELEGATION_EXPLANATION_TEXT))]
    if delegate and until:
        text = (
            f"{slack_text.user_mention(delegate)} decides for you until "
            f"{slack_text.format_local_time(until)}; this ends that."
        )
        says.append(block_kit.section_block("now", block_kit.mrkdwn(text)))
    person = {"type": "users_select", "action_id": InputElementId.PERSON}
    usual = {
        "type": "datetimepicker",
        "action_id": InputElementId.MOMENT,
        "initial_date_time": int((now + DEFAULT_DELEGATION_DURATION).timestamp()),
    }
    words = {
        **block_kit.build_text_input("Holiday; call me if it is over 1,000 EUR"),
        "max_length": MAX_NOTE_CHARS,
    }
    blocks = [
        *says,
        block_kit.build_input_block(InputBlockId.DELEGATE, "Who decides for you?", person),
        block_kit.build_input_block(
            InputBlockId.UNTIL, "Until when?", usual, hint="At most 90 days from now."
        ),
        block_kit.build_input_block(
            InputBlockId.WORDS, "Anything they should know", words, optional=True
        ),
    ]
    about = button_codec.DialogSubject(DialogId.DELEGATE, button_codec.NoTarget())
    return block_kit.dialog_view(
        about, "Delegate my approvals", blocks, submit="Delegate", close="Back"
    )


def parse_delegation_input(
    state_values: Mapping[str, Any], delegator: str, now: datetime
) -> DelegationInput | dict[str, str]:
    """Return what was entered in the delegation dialog, or the errors by block id."""
    seconds = block_kit.get_input_state(
        state_values, InputBlockId.UNTIL, InputElementId.MOMENT
    ).get("selected_date_time")
    errors: dict[str, str] = {}
    delegate = block_kit.get_chosen_person(state_values, InputBlockId.DELEGATE)
    if not delegate or delegate == delegator:
        errors[InputBlockId.DELEGATE] = CHOOSE_SOMEBODY_ELSE_REPLY
    until = datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int) else now
    if not now < until <= now + MAX_DELEGATION_DURATION:
        errors[InputBlockId.UNTIL] = "Please choose a time within the next 90 days."
    words = block_kit.get_entered_text(state_values, InputBlockId.WORDS)[:MAX_NOTE_CHARS]
    return errors or DelegationInput(delegate, until, words)
