"""Sentences that answer one person, and those about modes, questions and form requests. Pure.

All are mrkdwn. People and times arrive as ids and datetimes and become mentions and local times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from bot.cards.notices import POLICY_REASON_PREFIX
from bot.cards.slack_text import (
    FAILED_MIDWAY_TEXT,
    format_local_time,
    format_past_tense,
    format_time_with_countdown,
    group_mention,
    sanitise_for_mrkdwn,
    show_hidden_characters,
    user_mention,
)
from bot.policy.gates import GrantOffer
from countersign.durations import format_duration
from storage.states import ChannelMode

FORM_COMMAND = "/approvals request"
MESSAGE_NOT_STORED_REPLY = (
    "I cannot save anything at the moment, so I have not accepted this. I will keep "
    "trying for a few minutes; if you have not heard from me by then, please ask again."
)
REQUESTER_GONE_REPLY = (
    "The person who asked for this is no longer a full member of this workspace, so it cannot run."
)
NOT_AN_EDITOR_REPLY = "You cannot edit this one."
OWN_REQUEST_REPLY = (
    "This is your own request, so somebody else has to approve it. You can still reject "
    "or cancel it."
)
OWN_OUTCOME_REPLY = "You asked for this or edited it, so somebody else has to say what happened."
OWN_EDIT_REPLY = "You edited this, so somebody else has to approve it."
RERUN_NEEDS_ALL_APPROVERS_REPLY = (
    "One person’s approval was not enough for this, so one click cannot run it again. "
    "Say whether it happened; if it did not, ask for it again."
)
LOOKUP_FAILED_REPLY = (
    "I could not check with Slack whether you may decide this, so nothing was changed. "
    "Please try again in a minute."
)
OUTDATED_CARD_REPLY = (
    "This was out of date, so nothing was changed. Look at it again: it shows how things stand now."
)
APPROVAL_NOT_SAVED_REPLY = (
    "Your approval counts, but it was not saved for later calls: that is only possible for "
    "somebody who may approve such a call alone, and while the rule that offers it is unchanged."
)
REASON_REQUIRED_REPLY = (
    "Please say why: this one needs a reason in your own words. “Review…” and “Reject…” "
    "on the card ask for it."
)
ONLY_BUTTONS_DECIDE_REPLY = (
    "Only the buttons on the card decide this; what you write here does not count."
)
TRIGGER_EXPIRED_REPLY = (
    "Slack did not let me open the dialog in time. Nothing was changed; please click again."
)
LATE_MESSAGE_REPLY = (
    "Slack delivered this message more than a day after it was written, so I did not start "
    "it. Mention me again if you still want it."
)
NOTHING_TO_CANCEL_REPLY = "This request is already finished; there is nothing to cancel."
NOTHING_TO_RETRY_REPLY = "There is nothing to retry here any more."
ANSWER_BY_BUTTONS_REPLY = (
    "A question is waiting here: please answer with the buttons under it. To say something else, "
    "mention me; to stop the request, say “cancel”."
)
OWN_ANSWER_STANDS_REPLY = "You already answered this. The second answer changed nothing."
QUESTION_NO_LONGER_ASKED_REPLY = (
    "This question is no longer asked: the request has changed or ended since."
)
NO_FORMS_REPLY = "There is nothing that you can ask for with a form here."
MEMBERS_ONLY_REPLY = "I take requests from full members of this workspace only."
FORM_CHANGED_REPLY = (
    f"This form has changed since you opened it, so nothing was requested. See {FORM_COMMAND}."
)
NO_PLANNING_AGENT_REPLY = (
    "No agent planned this, so there is nobody to make a new plan. Edit it, or reject it and "
    "say why."
)


def already_decided_reply(by: str, verb: str, at: datetime | None) -> str:
    """Return the reply to a click on a call that `by` has decided before ("": no person has)."""
    time = f", {format_local_time(at)}" if at else ""
    if not by:
        return f"This is already {format_past_tense(verb)}{time}. Nothing was changed."
    return f"{user_mention(by)} already {format_past_tense(verb)} this{time}. Nothing was changed."


def repeated_click_reply(verb: str) -> str:
    """Return the reply to a person's second click on the same call: it changed nothing."""
    return f"You already {format_past_tense(verb)} this. Nothing was changed."


def vote_shared_with_delegate_reply(by: str, verb: str) -> str:
    """Return the reply to a second vote by a person and their delegate, who count as one."""
    return (
        f"{user_mention(by)} already {format_past_tense(verb)} this, and the two of you count as "
        "one here. Nothing was changed."
    )


def not_an_approver_reply(approver_mentions: str) -> str:
    """Return the reply to a person who may not decide; takes mrkdwn of who may ("" for nobody)."""
    if not approver_mentions:
        return "You cannot decide this one, and at the moment nobody else can approve it."
    return f"You cannot decide this one. These people can: {approver_mentions}."


def perhaps_lost_message_notice(link: str, is_card: bool) -> str:
    """Return the words that point to a card or thread after a private message may have been lost.

    `link` leads there; "" if there is none. The private message itself is not sent twice.
    """
    if not link:
        return "I may have told you something here that you cannot see. Please ask again."
    place = f"<{link}|this card>" if is_card else f"<{link}|this thread>"
    return f"I may have told you something here that you cannot see. {place} shows the latest."


def not_your_stage_reply(approver_mentions: str) -> str:
    """Return the reply to an approver of a later step; takes mrkdwn of whose turn it is."""
    who = f"these people decide: {approver_mentions}" if approver_mentions else "nobody can decide"
    return f"It is not your turn: in this step {who}. You can reject it."


def stage_already_approved_reply(approver_mentions: str) -> str:
    """Return the reply to an approver whose step has enough votes; takes mrkdwn of who is left."""
    who = approver_mentions or "nobody who can be reached"
    return f"Your step has enough approvals. Still missing: {who}."


def decision_too_late_reply(deadline: datetime | None) -> str:
    """Return the reply to a click on a call after its deadline."""
    return (
        f"Too late: the deadline was {format_local_time(deadline)}, and nobody had answered. "
        "Nothing will run."
        if deadline
        else "Too late: the deadline has passed. Nothing will run."
    )


def thread_is_busy_reply(requester: str) -> str:
    """Return the reply to a message in a thread where another person's request waits."""
    return (
        f"I am working on a request by {user_mention(requester)} here and waiting for a decision "
        "on it. Please start a new thread for yours."
    )


def too_few_approvers_after_edit_reply(people: int) -> str:
    """Return the reply to an edit after which too few could approve, and what to do instead."""
    many = f"{people} people who have" if people > 1 else "somebody who has"
    return (
        f"With your edit, too few could approve it: it takes {many} not edited it. Send the plan "
        "back instead, in the card’s “…” menu, and say what to change."
    )


def send_back_limit_reply(rounds: int) -> str:
    """Return the reply to a plan sent back after `rounds` times, which is the limit."""
    return (
        f"This request has been sent back {rounds} times, which is its limit. Approve, reject "
        "or cancel it."
    )


def dialog_not_opened_reply(code: str, kind: str = "final") -> str:
    """Return why Slack did not open a dialog; `code` is Slack's error, "" for no answer.

    `kind`: the kind of error: final, passing, token or unknown.
    """
    match code:
        case "expired_trigger_id" | "exchanged_trigger_id" | "invalid_trigger_id":
            return TRIGGER_EXPIRED_REPLY
        case "ratelimited":
            why = "Slack asks me to slow down. Please click again in a minute."
        case "view_too_large":
            why = "This is more than fits into a Slack dialog."
        case "not_found" | "hash_conflict":
            why = "The dialog was closed or changed in the meantime. Please click again."
        case "duplicate_external_id":
            why = "The dialog is open already."
        case "push_limit_reached":
            why = "Too many dialogs are open. Close one, then click again."
        case "":
            why = "Slack did not answer. If no dialog is open, please click again."
        case "user_not_found" | "not_allowed" | "user_is_restricted" | "restricted_action":
            why = f"Slack does not let you have dialogs of mine here ({code})."
        case _:
            why = _slack_error_sentence(code, kind)
    return f"{why} Nothing was changed."


def _slack_error_sentence(code: str, means: str) -> str:
    """Return what a person can do about a Slack error that has no sentence of its own here."""
    match means:
        case "unknown":
            return f"Something went wrong at Slack ({code}). Please click again in a moment."
        case "passing":
            return (
                f"Slack does not accept anything from me at the moment ({code}). Please click "
                "again later."
            )
        case "token":
            why = f"Slack refuses all my requests at the moment ({code})."
        case _:
            why = f"Slack did not open the dialog ({code}). Clicking again may not help."
    return f"{why} Please tell the people who run this app."


def only_requester_may_reply(act: str, requester: str) -> str:
    """Return the reply to a person who may not cancel, retry or withdraw what another asked for."""
    reply = f"Only {user_mention(requester)}, who asked for this, can {act} it."
    return f"{reply} You can reject it." if act == "withdraw" else reply


def event_handling_failed_reply(slack_unreachable: bool) -> str:
    """Return the reply to a message or click that could not be handled, despite retries."""
    why = (
        "Slack did not tell me who you are"
        if slack_unreachable
        else "something went wrong on my side"
    )
    return f"I could not act on this: {why}. Nothing was changed; please try again."


def edit_not_saved_reply(why: str) -> str:
    """Return the reply to an edit that could not be saved; `why` is a sentence."""
    return (
        "Your edit was not saved: "
        f"{sanitise_for_mrkdwn(why) or 'what the tool takes has changed since.'}"
    )


MEANING_BY_MODE: Mapping[ChannelMode, str] = {
    ChannelMode.ASK: "the policy says what runs and what is asked",
    ChannelMode.STRICT: (
        "whatever changes something needs approval, even if it would otherwise run by itself"
    ),
    ChannelMode.OBSERVE: "only look-ups run; whatever changes something is refused",
}
ICONS: Mapping[ChannelMode, str] = {
    ChannelMode.ASK: "🔓",
    ChannelMode.STRICT: "🔒",
    ChannelMode.OBSERVE: "👀",
}
_MODE_SUBJECTS = ("This channel is", "All conversations are")


def channel_mode_text(mode: ChannelMode, by: tuple[str, datetime] | None, loosen: str) -> str:
    """Return the text on a channel's current mode: what it means, and who may loosen it.

    `by`: who switched it and when; `loosen`: who may loosen it, as mrkdwn, "" for nobody.
    """
    who = f"{loosen} may loosen it" if loosen else "nobody may loosen it"
    return (
        f"{ICONS[mode]} This channel is in {mode} mode{_mode_since_text(by)}: "
        f"{MEANING_BY_MODE[mode]}. "
        f"Anyone may tighten it, {who}: “/approvals mode observe”, “ask” or “strict”."
    )


def global_mode_text(mode: ChannelMode, by: tuple[str, datetime] | None) -> str:
    """Return the sentence with the mode of all conversations; `by`: who switched it and when."""
    return (
        f"{ICONS[mode]} All conversations are in {mode} mode{_mode_since_text(by)}: "
        f"{MEANING_BY_MODE[mode]}."
    )


def _mode_since_text(by: tuple[str, datetime] | None) -> str:
    return f", since {format_local_time(by[1])} by {user_mention(by[0])}" if by else ""


def mode_unchanged_reply(mode: ChannelMode, *, everywhere: bool = False) -> str:
    """Return the reply to a person who switches to the mode that is set already."""
    return f"{_MODE_SUBJECTS[everywhere]} in {mode} mode already."


def mode_set_reply(mode: ChannelMode, *, everywhere: bool = False) -> str:
    """Return the confirmation to a person that they switched a channel's mode, or all channels'."""
    own = (
        " A channel whose own mode is stricter keeps it. Channels are not notified: waiting cards "
        "say so in their small print, and “/approvals mode” shows it in every channel."
        if everywhere
        else ""
    )
    return f"{_MODE_SUBJECTS[everywhere]} in {mode} mode now: {MEANING_BY_MODE[mode]}.{own}"


def mode_loosening_not_allowed_reply(mode: ChannelMode, loosen: str) -> str:
    """Return the reply to a person who may not loosen the mode; `loosen`: mrkdwn of who may."""
    return (
        f"This channel stays in {mode} mode: you cannot loosen it. "
        f"{_who_may_loosen_sentence(loosen)}."
    )


def global_mode_not_allowed_reply(loosen: str) -> str:
    """Return the reply to a person who may not switch all channels; `loosen`: mrkdwn of who may."""
    return (
        f"You cannot switch all conversations, only this channel: “/approvals mode observe”. "
        f"{_who_may_loosen_sentence(loosen)}."
    )


def _who_may_loosen_sentence(loosen: str) -> str:
    return f"These can: {loosen}" if loosen else "The policy names nobody who can"


def mode_switched_notice(person: str, mode: ChannelMode) -> str:
    """Return the one-line notice to a channel that a person has switched its mode."""
    change = f"{ICONS[mode]} {user_mention(person)} set this channel to {mode} mode"
    return f"{change}: {MEANING_BY_MODE[mode]}."


def request_mode_note(mode: ChannelMode) -> str:
    """Return the small print on a card or request that names its mode: ask, strict or observe."""
    return f"{ICONS[mode]} {mode} mode"


UNREADABLE_ANSWER_REPLY = "That does not fit the question. Please use its button."
WAITS_FOR_ANSWER_TEXT = "💬 Runs once the question next to it is answered too"
SEVERAL_QUESTIONS_REPLY = (
    "Several questions are waiting in this thread. Please answer by the buttons under each."
)


def answer_too_long_reply(limit: int) -> str:
    """Return the reply to an answer in words that has more than `limit` characters."""
    return f"That is too long for an answer: {limit:,} characters at most. Please say it in fewer."


def join_mentions(users: Iterable[str], groups: Iterable[str]) -> str:
    """Return mentions of people and user groups, as mrkdwn; "others" for none."""
    return ", ".join([*map(user_mention, users), *map(group_mention, groups)]) or "others"


def question_asked_privately_notice(who: str, question: str) -> str:
    """Return the notice of who is asked what in direct messages; `who` is mrkdwn of their names."""
    return f"💬 I have asked {who} in a direct message: “{sanitise_for_mrkdwn(question)}”"


def question_answered_notice(person: str, declined: bool) -> str:
    """Return what a request's thread is told of a question that was answered in another place."""
    what = "cannot answer the question" if declined else "has answered the question"
    return f"💬 {user_mention(person)} {what}."


def answer_reminder_notice(who: str, question: str, deadline: datetime | None) -> str:
    """Return the reminder to people who have not answered; `who` is mrkdwn of their names."""
    by = f" by {format_time_with_countdown(deadline)}" if deadline else ""
    return (
        f"⏰ {who}: this question is still waiting for an answer{by}: "
        f"“{sanitise_for_mrkdwn(question)}”"
    )


def questions_unanswered_line(questions: list[str], deadline: datetime | None) -> str:
    """Return the notice to a thread that nobody answered these questions in time."""
    by = f" by {format_local_time(deadline)}" if deadline else " in time"
    quoted = "; ".join(f"“{sanitise_for_mrkdwn(each, 160)}”" for each in questions[:3])
    return f"⏰ Nobody answered{by}: {quoted}"


def already_answered_reply(by: str, at: datetime | None) -> str:
    """Return the reply to a second answer, which says who answered first."""
    time = f", {format_local_time(at)}" if at else ""
    return f"{user_mention(by)} already answered this{time}. Yours changed nothing."


def answer_too_late_reply(deadline: datetime | None) -> str:
    """Return the reply to an answer given after the question had ended."""
    return (
        f"Too late: the question was open until {format_local_time(deadline)}."
        if deadline
        else "Too late."
    )


def not_asked_of_you_reply(who: str) -> str:
    """Return the reply to an answer by a person who was not asked; `who` is mrkdwn of who was."""
    return f"This question is for {who}, so your answer was not taken."


def request_opening_line(person: str, effect: str, client: str = "") -> str:
    """Return a request's first line: a person, or program `client` for them, asks for `effect`."""
    who = (
        f"“{sanitise_for_mrkdwn(client, 60)}”, for {user_mention(person)},"
        if client
        else user_mention(person)
    )
    return f"{who} asks: “{sanitise_for_mrkdwn(effect)}”"


def call_done_notice(effect: str, result: str) -> str:
    """Return the notice that a call was done: its result, or its effect if that is blank."""
    return f"✅ Done: {sanitise_for_mrkdwn(result if result.strip() else effect)}"


def outcome_reporter_sentence(person: str) -> str:
    """Return the sentence that how a call ended is known from this person alone."""
    return f"{user_mention(person)} said so; I could not confirm it."


def call_failed_notice(effect: str, why: str, *, midway: bool = False) -> str:
    """Return the notice that a call failed, in the tool's words; `midway`: after it had begun."""
    begun = f" {FAILED_MIDWAY_TEXT}" if midway else ""
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


def outcome_not_reported_notice(effect: str) -> str:
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
    if why.startswith(POLICY_REASON_PREFIX):
        return f"⛔ {policy_forbids_sentence(why.removeprefix(POLICY_REASON_PREFIX))}"
    return f"⛔ I did not ask anybody about this: {sanitise_for_mrkdwn(why.rstrip('.'))}."


def policy_forbids_sentence(reason: str) -> str:
    """Return the sentence that the policy does not allow a requested call; quotes its reason."""
    return f"The policy does not allow this: {sanitise_for_mrkdwn(reason)}"


def unknown_form_reply(name: str) -> str:
    """Return the reply to a person who asks for a tool or template that does not exist."""
    return (
        f"There is nothing called “{sanitise_for_mrkdwn(name, 80)}” that you can ask for. See "
        f"{FORM_COMMAND}."
    )


def request_not_made_reply(why: str) -> str:
    """Return the reply to a submitted form of which no request was made; `why`: the reason."""
    return f"Your request was not made: {sanitise_for_mrkdwn(why)}"


def no_model_reply(person: str) -> str:
    """Return the reply to a message if there is no model to read it; a button goes with it."""
    return (
        f"{user_mention(person)}, there is no agent here that could read this. You can ask for "
        f"things with a form: press Ask, or type {FORM_COMMAND}."
    )


def ask_again_not_allowed_reply(requester: str) -> str:
    """Return the reply to “Ask again” by a person other than the requester."""
    return (
        f"Only {user_mention(requester)} can ask for this again from here, because it starts with "
        f"their values. You can ask for your own with {FORM_COMMAND}."
    )


def grant_offer_label(offer: GrantOffer, titles: Mapping[str, str]) -> str:
    """Return an offer to remember an approval as plain text for an option of a menu.

    "the same amount and account, in this thread, for 1 day, 10 times"; `titles` by field name.
    """
    same = "exactly this" if offer.fields is None else "anything"
    if offer.fields:
        names = (show_hidden_characters(titles.get(name, name)) for name in offer.fields)
        same = f"the same {' and '.join(names)}"
    where = "in this thread" if offer.where == "thread" else "everywhere"
    return f"{same}, {where}, for {format_duration(offer.lasts)}, {offer.uses} times"
