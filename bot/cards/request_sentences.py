"""Sentences about form requests, delegations, channel modes and questions. Pure: mrkdwn out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from bot.cards.sentence_words import MIDWAY, cite, effect_list
from bot.cards.slack_text import format_deadline, group_mention, mention, when
from storage.states import Mode

# Sentences about delegations: one person decides for another. Pure: mrkdwn out.


def delegated(delegate: str, until: datetime) -> str:
    """Return the confirmation to a person that their delegation has begun."""
    return (
        f"🤝 {mention(delegate)} decides for you until {when(until)}. You can still decide "
        "yourself, and end this on my Home tab."
    )


def asked_to_decide(giver: str, until: datetime, words: str) -> str:
    """Return the message to a delegate that they decide for another person, and what that means."""
    why = f" They say: “{cite(words)}”." if words.strip() else ""
    return (
        f"🤝 {mention(giver)} asked you to decide for them until {when(until)}.{why} What needs "
        "their "
        "decision now comes to you as well, including what already waits; my Home tab lists it. "
        "You "
        "cannot decide for them what you asked for or changed yourself."
    )


def waits_for_you(
    delegate: str, giver: str, effects: Sequence[str], deadline: datetime | None
) -> str:
    """Return the notice in a card's thread that its calls now wait for a delegate as well."""
    by = f" by {format_deadline(deadline)}" if deadline else ""
    what = effect_list(effects)
    return f"🤝 {mention(delegate)}, for {mention(giver)}: this waits for a decision{by}: {what}"


def decides_for(giver: str, delegate: str, until: datetime, words: str) -> str:
    """Return one line that says who decides for whom, and until when."""
    why = f": “{cite(words, 120)}”" if words.strip() else ""
    return f"🤝 {mention(delegate)} decides for {mention(giver)} until {when(until)}{why}"


def no_longer_decides(giver: str) -> str:
    """Return the message to a delegate that their delegation has ended."""
    return f"🤝 You no longer decide for {mention(giver)}."


def over_already() -> str:
    """Return the reply to ending a delegation that has ended already."""
    return "That has ended already."


# Every sentence about the mode of a channel, or of all conversations. Pure: mrkdwn out.

MEANS: Mapping[Mode, str] = {
    Mode.ASK: "the policy says what runs and what is asked",
    Mode.STRICT: "whatever changes something is asked each time, also what would run by itself",
    Mode.OBSERVE: "only look-ups run; whatever changes something is refused",
}
ICONS: Mapping[Mode, str] = {Mode.ASK: "🔓", Mode.STRICT: "🔒", Mode.OBSERVE: "👀"}


def mode_now(mode: Mode, by: tuple[str, datetime] | None, loosen: str) -> str:
    """Return which mode a channel is in.

    `by`: who switched it and when; `loosen`: who may loosen it, as mrkdwn, "" for nobody.
    """
    who = f"{loosen} may loosen it" if loosen else "nobody may loosen it"
    return (
        f"{ICONS[mode]} This channel is in {mode} mode{_since(by)}: {MEANS[mode]}. "
        f"Anyone may tighten it, {who}: “/approvals mode observe”, “ask” or “strict”."
    )


def mode_everywhere(mode: Mode, by: tuple[str, datetime] | None) -> str:
    """Return which mode all conversations are in; `by`: who switched it and when."""
    return f"{ICONS[mode]} All conversations are in {mode} mode{_since(by)}: {MEANS[mode]}."


def _since(by: tuple[str, datetime] | None) -> str:
    return f", since {when(by[1])} by {mention(by[0])}" if by else ""


def mode_as_before(mode: Mode, *, everywhere: bool = False) -> str:
    """Return the reply to a switch to the mode that is set already."""
    return f"{_place(everywhere)} in {mode} mode already."


def mode_set(mode: Mode, *, everywhere: bool = False) -> str:
    """Return the confirmation to a person that they have switched the mode."""
    own = (
        " A channel whose own mode is stricter keeps it. Channels are not notified: waiting cards "
        "say it in "
        "their small print, and “/approvals mode” shows it in every channel."
        if everywhere
        else ""
    )
    return f"{_place(everywhere)} in {mode} mode now: {MEANS[mode]}.{own}"


def _place(everywhere: bool) -> str:
    return "All conversations are" if everywhere else "This channel is"


def may_not_loosen(mode: Mode, loosen: str) -> str:
    """Return the reply to a person who may not loosen the mode; `loosen`: mrkdwn of who may."""
    return f"This channel stays in {mode} mode: you cannot loosen it. {_who_can(loosen)}."


def may_not_switch_all(loosen: str) -> str:
    """Return the reply to a person who may not switch all channels; `loosen`: mrkdwn of who may."""
    return (
        f"You cannot switch all conversations, only this channel: “/approvals mode observe”. "
        f"{_who_can(loosen)}."
    )


def _who_can(loosen: str) -> str:
    return f"These can: {loosen}" if loosen else "The policy names nobody who can"


def mode_switched(person: str, mode: Mode) -> str:
    """Return the one-line notice to a channel that a person has switched its mode."""
    return f"{ICONS[mode]} {mention(person)} set this channel to {mode} mode: {MEANS[mode]}."


def mode_note(mode: Mode) -> str:
    """Return the small print on a card or request that names the mode it is asked in."""
    return f"{ICONS[mode]} {mode} mode"


# Every sentence around a question to a person, but for the question itself. Pure: mrkdwn out.

UNREADABLE = "That does not fit the question. Please use its button."
WAITS_FOR_ANSWER = "💬 Runs once the question beside it is answered, too"
SEVERAL = "Several questions wait in this thread. Please answer by the buttons under each."


def answer_too_long(most: int) -> str:
    """Return the reply to an answer in words that has more than `most` characters."""
    return f"That is too long for an answer: {most:,} characters at most. Please say it in fewer."


def answer_by_buttons() -> str:
    """Return the reply to a requester who writes while a question waits for its buttons."""
    return (
        "A question waits here: please answer with the buttons under it. To say something else, "
        "mention me; to stop the request, say “cancel”."
    )


def people_named(users: Iterable[str], groups: Iterable[str]) -> str:
    """Return mentions of people and user groups, as mrkdwn; "others" for none."""
    return ", ".join([*map(mention, users), *map(group_mention, groups)]) or "others"


def asked_elsewhere(who: str, question: str) -> str:
    """Return the notice of who is asked what in direct messages; `who` is mrkdwn of their names."""
    return f"💬 I have asked {who} in a direct message: “{cite(question)}”"


def was_answered(person: str, declined: bool) -> str:
    """Return the notice to a thread that a question asked elsewhere was answered, or declined."""
    what = "cannot answer the question" if declined else "has answered the question"
    return f"💬 {mention(person)} {what}."


def answer_reminder(who: str, question: str, deadline: datetime | None) -> str:
    """Return the reminder to people who have not answered; `who` is mrkdwn of their names."""
    by = f" by {format_deadline(deadline)}" if deadline else ""
    return f"⏰ {who}: this question still waits for an answer{by}: “{cite(question)}”"


def unanswered_line(questions: list[str], deadline: datetime | None) -> str:
    """Return the notice to a thread that nobody answered these questions in time."""
    by = f" by {when(deadline)}" if deadline else " in time"
    quoted = "; ".join(f"“{cite(each, 160)}”" for each in questions[:3])
    return f"⌛ Nobody answered{by}: {quoted}"


def already_answered(by: str, at: datetime | None) -> str:
    """Return the reply to a second answer, which says who answered first."""
    time = f", {when(at)}" if at else ""
    return f"{mention(by)} already answered this{time}. Yours changed nothing."


def own_answer_stands() -> str:
    """Return the reply to a person's second answer to the same question: it changed nothing."""
    return "You already answered this. The second answer changed nothing."


def answer_too_late(deadline: datetime | None) -> str:
    """Return the reply to an answer given after the question had ended."""
    return f"Too late: the question was open until {when(deadline)}." if deadline else "Too late."


def no_longer_asked() -> str:
    """Return the reply to an answer to a question that is not asked any more."""
    return "This question is no longer asked: the request has changed or ended since."


def not_asked_of_you(who: str) -> str:
    """Return the reply to an answer by a person who was not asked; `who` is mrkdwn of who was."""
    return f"This question is for {who}, so your answer was not taken."


COMMAND = "/approvals request"
POLICY = "policy: "  # what the note of a call begins with that policy denies


def asks(person: str, effect: str, client: str = "") -> str:
    """Return the first line of a request: a person, or the program `client` for them, asks this."""
    who = f"“{cite(client, 60)}”, for {mention(person)}," if client else mention(person)
    return f"{who} asks: “{cite(effect)}”"


def was_done(effect: str, result: str) -> str:
    """Return the notice that a call was done: its result, or its effect if that is blank."""
    return f"✅ Done: {cite(result if result.strip() else effect)}"


def did_not_work(effect: str, why: str, *, midway: bool = False) -> str:
    """Return the notice that a call failed, in the tool's words; `midway`: after it had begun."""
    begun = f" {MIDWAY}" if midway else ""
    return f"❌ It did not work: {cite(effect, 160)}. “{cite(why)}”{begun}"


def not_known(effect: str) -> str:
    """Return the notice that nobody knows whether the call happened."""
    return f"❓ Nobody knows whether this happened: {cite(effect, 160)}. It is not run again."


def handed_on(effect: str) -> str:
    """Return the notice that a program was given the call to run and has not said how it went."""
    return f"📤 Handed over: {cite(effect, 160)}. The program that asked has not said how it went."


def no_longer(effect: str, why: str) -> str:
    """Return the notice that a call was not done although it had been asked or approved."""
    return f"⚠️ This was not done: {cite(effect, 160)}. {cite(why)}"


def nobody_asked(why: str) -> str:
    """Return the notice to a requester that no approver was asked, and why."""
    if why.startswith(POLICY):
        return f"⛔ {policy_forbids(why.removeprefix(POLICY))}"
    return f"⛔ I did not ask anybody about this: {cite(why)}."


def policy_forbids(reason: str) -> str:
    """Return the sentence that the policy forbids what a person asks for with a form."""
    return f"The policy does not allow this: {cite(reason)}"


def not_there(name: str) -> str:
    """Return the reply to a person who asks for a tool or template that does not exist."""
    return f"There is nothing called “{cite(name, 80)}” that you can ask for. See {COMMAND}."


def nothing_to_ask() -> str:
    """Return the reply to a person for whom there is no form to fill in."""
    return "There is nothing that you can ask for with a form here."


def members_only() -> str:
    """Return the reply to a guest, or a person of another company, who wants to ask."""
    return "I take requests from full members of this workspace only."


def form_changed() -> str:
    """Return the reply to a submitted form that has changed since it was opened."""
    return f"This form has changed since you opened it, so nothing was asked. See {COMMAND}."


def not_begun(why: str) -> str:
    """Return the reply to a submitted form that was not asked; `why` says the reason."""
    return f"Your request was not made: {cite(why)}"


def nobody_plans() -> str:
    """Return the reply to a plan sent back although no agent made it."""
    return (
        "No agent planned this, so there is nobody to make a new plan. Edit it, or reject it and "
        "say why."
    )


def no_model(person: str) -> str:
    """Return the reply to a message if there is no model to read it; a button goes with it."""
    return (
        f"{mention(person)}, there is no agent here that could read this. You can ask for things "
        f"with a form: press Ask, or type {COMMAND}."
    )


def not_yours(requester: str) -> str:
    """Return the reply to “Ask again” by a person other than the requester."""
    return (
        f"Only {mention(requester)} can ask for this again from here, as it begins with their "
        f"values. You can ask for your own with {COMMAND}."
    )
