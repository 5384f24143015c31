"""Sentences about form requests, delegations, channel modes and questions. Pure: mrkdwn out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from bot.cards.sentence_words import MIDWAY, join_effects, sanitise_for_mrkdwn
from bot.cards.slack_text import (
    format_local_time,
    format_time_with_countdown,
    group_mention,
    user_mention,
)
from storage.states import ChannelMode

# Sentences about delegations: one person decides for another. Pure: mrkdwn out.


def delegation_started_notice(delegate: str, until: datetime) -> str:
    """Return the confirmation to a person that their delegation has begun."""
    return (
        f"🤝 {user_mention(delegate)} decides for you until {format_local_time(until)}. You can "
        "still decide "
        "yourself, and end this on my Home tab."
    )


def delegate_appointed_notice(giver: str, until: datetime, words: str) -> str:
    """Return the message to a delegate that they decide for another person, and what that means."""
    why = f" They say: “{sanitise_for_mrkdwn(words)}”." if words.strip() else ""
    return (
        f"🤝 {user_mention(giver)} asked you to decide for them until "
        f"{format_local_time(until)}.{why} What needs "
        "their "
        "decision now comes to you as well, including what already waits; my Home tab lists it. "
        "You "
        "cannot decide for them what you asked for or changed yourself."
    )


def waits_for_delegate_notice(
    delegate: str, giver: str, effects: Sequence[str], deadline: datetime | None
) -> str:
    """Return the notice in a card's thread that its calls now wait for a delegate as well."""
    by = f" by {format_time_with_countdown(deadline)}" if deadline else ""
    what = join_effects(effects)
    return (
        f"🤝 {user_mention(delegate)}, for {user_mention(giver)}: this waits for a decision{by}: "
        f"{what}"
    )


def delegation_line(giver: str, delegate: str, until: datetime, words: str) -> str:
    """Return one line that says who decides for whom, and until when."""
    why = f": “{sanitise_for_mrkdwn(words, 120)}”" if words.strip() else ""
    return (
        f"🤝 {user_mention(delegate)} decides for {user_mention(giver)} until "
        f"{format_local_time(until)}{why}"
    )


def delegation_ended_notice(giver: str) -> str:
    """Return the message to a delegate that their delegation has ended."""
    return f"🤝 You no longer decide for {user_mention(giver)}."


def delegation_already_ended_reply() -> str:
    """Return the reply to ending a delegation that has ended already."""
    return "That has ended already."


# Every sentence about the mode of a channel, or of all conversations. Pure: mrkdwn out.

MEANS: Mapping[ChannelMode, str] = {
    ChannelMode.ASK: "the policy says what runs and what is asked",
    ChannelMode.STRICT: (
        "whatever changes something is asked each time, also what would run by itself"
    ),
    ChannelMode.OBSERVE: "only look-ups run; whatever changes something is refused",
}
ICONS: Mapping[ChannelMode, str] = {
    ChannelMode.ASK: "🔓",
    ChannelMode.STRICT: "🔒",
    ChannelMode.OBSERVE: "👀",
}


def channel_mode_text(mode: ChannelMode, by: tuple[str, datetime] | None, loosen: str) -> str:
    """Return which mode a channel is in.

    `by`: who switched it and when; `loosen`: who may loosen it, as mrkdwn, "" for nobody.
    """
    who = f"{loosen} may loosen it" if loosen else "nobody may loosen it"
    return (
        f"{ICONS[mode]} This channel is in {mode} mode{_mode_since_text(by)}: {MEANS[mode]}. "
        f"Anyone may tighten it, {who}: “/approvals mode observe”, “ask” or “strict”."
    )


def global_mode_text(mode: ChannelMode, by: tuple[str, datetime] | None) -> str:
    """Return which mode all conversations are in; `by`: who switched it and when."""
    return (
        f"{ICONS[mode]} All conversations are in {mode} mode{_mode_since_text(by)}: {MEANS[mode]}."
    )


def _mode_since_text(by: tuple[str, datetime] | None) -> str:
    return f", since {format_local_time(by[1])} by {user_mention(by[0])}" if by else ""


def mode_unchanged_reply(mode: ChannelMode, *, everywhere: bool = False) -> str:
    """Return the reply to a switch to the mode that is set already."""
    return f"{_mode_subject(everywhere)} in {mode} mode already."


def mode_set_reply(mode: ChannelMode, *, everywhere: bool = False) -> str:
    """Return the confirmation to a person that they have switched the mode."""
    own = (
        " A channel whose own mode is stricter keeps it. Channels are not notified: waiting cards "
        "say it in "
        "their small print, and “/approvals mode” shows it in every channel."
        if everywhere
        else ""
    )
    return f"{_mode_subject(everywhere)} in {mode} mode now: {MEANS[mode]}.{own}"


def _mode_subject(everywhere: bool) -> str:
    return "All conversations are" if everywhere else "This channel is"


def loosening_not_allowed_reply(mode: ChannelMode, loosen: str) -> str:
    """Return the reply to a person who may not loosen the mode; `loosen`: mrkdwn of who may."""
    return (
        f"This channel stays in {mode} mode: you cannot loosen it. "
        f"{_who_may_loosen_sentence(loosen)}."
    )


def switch_all_not_allowed_reply(loosen: str) -> str:
    """Return the reply to a person who may not switch all channels; `loosen`: mrkdwn of who may."""
    return (
        f"You cannot switch all conversations, only this channel: “/approvals mode observe”. "
        f"{_who_may_loosen_sentence(loosen)}."
    )


def _who_may_loosen_sentence(loosen: str) -> str:
    return f"These can: {loosen}" if loosen else "The policy names nobody who can"


def mode_switched_notice(person: str, mode: ChannelMode) -> str:
    """Return the one-line notice to a channel that a person has switched its mode."""
    return f"{ICONS[mode]} {user_mention(person)} set this channel to {mode} mode: {MEANS[mode]}."


def mode_note(mode: ChannelMode) -> str:
    """Return the small print on a card or request that names the mode it is asked in."""
    return f"{ICONS[mode]} {mode} mode"


# Every sentence around a question to a person, but for the question itself. Pure: mrkdwn out.

UNREADABLE = "That does not fit the question. Please use its button."
WAITS_FOR_ANSWER = "💬 Runs once the question beside it is answered, too"
SEVERAL = "Several questions wait in this thread. Please answer by the buttons under each."


def answer_too_long_reply(most: int) -> str:
    """Return the reply to an answer in words that has more than `most` characters."""
    return f"That is too long for an answer: {most:,} characters at most. Please say it in fewer."


def answer_by_buttons_reply() -> str:
    """Return the reply to a requester who writes while a question waits for its buttons."""
    return (
        "A question waits here: please answer with the buttons under it. To say something else, "
        "mention me; to stop the request, say “cancel”."
    )


def join_mentions(users: Iterable[str], groups: Iterable[str]) -> str:
    """Return mentions of people and user groups, as mrkdwn; "others" for none."""
    return ", ".join([*map(user_mention, users), *map(group_mention, groups)]) or "others"


def asked_elsewhere_notice(who: str, question: str) -> str:
    """Return the notice of who is asked what in direct messages; `who` is mrkdwn of their names."""
    return f"💬 I have asked {who} in a direct message: “{sanitise_for_mrkdwn(question)}”"


def question_answered_notice(person: str, declined: bool) -> str:
    """Return the notice to a thread that a question asked elsewhere was answered, or declined."""
    what = "cannot answer the question" if declined else "has answered the question"
    return f"💬 {user_mention(person)} {what}."


def answer_reminder_notice(who: str, question: str, deadline: datetime | None) -> str:
    """Return the reminder to people who have not answered; `who` is mrkdwn of their names."""
    by = f" by {format_time_with_countdown(deadline)}" if deadline else ""
    return (
        f"⏰ {who}: this question still waits for an answer{by}: “{sanitise_for_mrkdwn(question)}”"
    )


def unanswered_line(questions: list[str], deadline: datetime | None) -> str:
    """Return the notice to a thread that nobody answered these questions in time."""
    by = f" by {format_local_time(deadline)}" if deadline else " in time"
    quoted = "; ".join(f"“{sanitise_for_mrkdwn(each, 160)}”" for each in questions[:3])
    return f"⌛ Nobody answered{by}: {quoted}"


def already_answered_reply(by: str, at: datetime | None) -> str:
    """Return the reply to a second answer, which says who answered first."""
    time = f", {format_local_time(at)}" if at else ""
    return f"{user_mention(by)} already answered this{time}. Yours changed nothing."


def own_answer_stands_reply() -> str:
    """Return the reply to a person's second answer to the same question: it changed nothing."""
    return "You already answered this. The second answer changed nothing."


def answer_too_late_reply(deadline: datetime | None) -> str:
    """Return the reply to an answer given after the question had ended."""
    return (
        f"Too late: the question was open until {format_local_time(deadline)}."
        if deadline
        else "Too late."
    )


def question_no_longer_asked_reply() -> str:
    """Return the reply to an answer to a question that is not asked any more."""
    return "This question is no longer asked: the request has changed or ended since."


def not_asked_of_you_reply(who: str) -> str:
    """Return the reply to an answer by a person who was not asked; `who` is mrkdwn of who was."""
    return f"This question is for {who}, so your answer was not taken."


COMMAND = "/approvals request"
POLICY = "policy: "  # what the note of a call begins with that policy denies


def request_line(person: str, effect: str, client: str = "") -> str:
    """Return the first line of a request: a person, or the program `client` for them, asks this."""
    who = (
        f"“{sanitise_for_mrkdwn(client, 60)}”, for {user_mention(person)},"
        if client
        else user_mention(person)
    )
    return f"{who} asks: “{sanitise_for_mrkdwn(effect)}”"


def call_done_notice(effect: str, result: str) -> str:
    """Return the notice that a call was done: its result, or its effect if that is blank."""
    return f"✅ Done: {sanitise_for_mrkdwn(result if result.strip() else effect)}"


def call_failed_notice(effect: str, why: str, *, midway: bool = False) -> str:
    """Return the notice that a call failed, in the tool's words; `midway`: after it had begun."""
    begun = f" {MIDWAY}" if midway else ""
    return (
        f"❌ It did not work: {sanitise_for_mrkdwn(effect, 160)}. "
        f"“{sanitise_for_mrkdwn(why)}”{begun}"
    )


def call_outcome_unknown_notice(effect: str) -> str:
    """Return the notice that nobody knows whether the call happened."""
    return (
        f"❓ Nobody knows whether this happened: {sanitise_for_mrkdwn(effect, 160)}. It is not run "
        "again."
    )


def call_handed_over_notice(effect: str) -> str:
    """Return the notice that a program was given the call to run and has not said how it went."""
    return (
        f"📤 Handed over: {sanitise_for_mrkdwn(effect, 160)}. The program that asked has not said "
        "how it went."
    )


def call_not_done_notice(effect: str, why: str) -> str:
    """Return the notice that a call was not done although it had been asked or approved."""
    return f"⚠️ This was not done: {sanitise_for_mrkdwn(effect, 160)}. {sanitise_for_mrkdwn(why)}"


def no_approver_asked_notice(why: str) -> str:
    """Return the notice to a requester that no approver was asked, and why."""
    if why.startswith(POLICY):
        return f"⛔ {policy_forbids_sentence(why.removeprefix(POLICY))}"
    return f"⛔ I did not ask anybody about this: {sanitise_for_mrkdwn(why)}."


def policy_forbids_sentence(reason: str) -> str:
    """Return the sentence that the policy forbids what a person asks for with a form."""
    return f"The policy does not allow this: {sanitise_for_mrkdwn(reason)}"


def unknown_form_reply(name: str) -> str:
    """Return the reply to a person who asks for a tool or template that does not exist."""
    return (
        f"There is nothing called “{sanitise_for_mrkdwn(name, 80)}” that you can ask for. See "
        f"{COMMAND}."
    )


def no_forms_reply() -> str:
    """Return the reply to a person for whom there is no form to fill in."""
    return "There is nothing that you can ask for with a form here."


def members_only_reply() -> str:
    """Return the reply to a guest, or a person of another company, who wants to ask."""
    return "I take requests from full members of this workspace only."


def form_changed_reply() -> str:
    """Return the reply to a submitted form that has changed since it was opened."""
    return f"This form has changed since you opened it, so nothing was asked. See {COMMAND}."


def request_not_made_reply(why: str) -> str:
    """Return the reply to a submitted form that was not asked; `why` says the reason."""
    return f"Your request was not made: {sanitise_for_mrkdwn(why)}"


def no_model_reply(person: str) -> str:
    """Return the reply to a message if there is no model to read it; a button goes with it."""
    return (
        f"{user_mention(person)}, there is no agent here that could read this. You can ask for "
        "things "
        f"with a form: press Ask, or type {COMMAND}."
    )


def ask_again_not_allowed_reply(requester: str) -> str:
    """Return the reply to “Ask again” by a person other than the requester."""
    return (
        f"Only {user_mention(requester)} can ask for this again from here, as it begins with their "
        f"values. You can ask for your own with {COMMAND}."
    )
