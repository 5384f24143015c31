"""The sentences that tell one person why their click or message changed nothing. Pure.

All are mrkdwn. People and times arrive as ids and datetimes and become mentions and local times.
"""

from __future__ import annotations

from datetime import datetime

from bot.cards.sentence_words import format_past_tense, sanitise_for_mrkdwn
from bot.cards.slack_text import format_local_time, user_mention


def already_decided_reply(by: str, verb: str, at: datetime | None) -> str:
    """Return the reply to a click on a call that `by` has decided before ("": no person has)."""
    time = f", {format_local_time(at)}" if at else ""
    if not by:
        return f"This is already {format_past_tense(verb)}{time}. Your click changed nothing."
    return (
        f"{user_mention(by)} already {format_past_tense(verb)} this{time}. Your click changed "
        "nothing."
    )


def repeated_click_reply(verb: str) -> str:
    """Return the reply to a person's second click on the same call: it changed nothing."""
    return f"You already {format_past_tense(verb)} this. The second click changed nothing."


def counted_as_one_vote_reply(by: str, verb: str) -> str:
    """Return the reply to a second vote by a person and their delegate, who count as one."""
    return (
        f"{user_mention(by)} already {format_past_tense(verb)} this, and the two of you count as "
        "one here. Your "
        "click changed nothing."
    )


def not_an_approver_reply(approver_mentions: str) -> str:
    """Return the reply to a person who may not decide; takes mrkdwn of who may ("" for nobody)."""
    if not approver_mentions:
        return (
            "You cannot decide this one, and nobody else can at the moment: its list of "
            "approvers is empty."
        )
    return f"You cannot decide this one. These people can: {approver_mentions}."


def perhaps_lost_message_notice(link: str, is_card: bool) -> str:
    """Return the words that point to a card or thread after a private message may have been lost.

    `link` leads there; "" if there is none. The private message itself is not sent twice.
    """
    if not link:
        return "I may have told you something here that you cannot see. Please ask again."
    place = f"<{link}|this card>" if is_card else f"<{link}|this thread>"
    return f"I may have told you something here that you cannot see. {place} shows how it stands."


def message_not_stored_reply() -> str:
    """Return the reply to a message that could not be stored yet; Slack delivers it again later."""
    return (
        "I cannot write anything down at the moment, so I have not taken this in. I will try "
        "again for a few minutes; if you have not heard from me by then, please ask once more."
    )


def requester_gone_reply() -> str:
    """Return the reply to an approval if the requester's account is no longer active."""
    return (
        "The person who asked for this no longer has an active account here, so it cannot be "
        "approved. "
        "Reject it, or let its deadline pass."
    )


def not_an_editor_reply() -> str:
    """Return the reply to a person who may not edit the call."""
    return "You cannot edit this one."


def own_request_reply() -> str:
    """Return the reply to a requester's approval of their own request: others have to approve."""
    return (
        "This is your own request, so somebody else has to approve it. You can still reject "
        "or cancel it."
    )


def own_edit_reply() -> str:
    """Return the reply to an editor's approval of what they edited: others have to approve."""
    return "You edited this, so somebody else has to approve it."


def not_your_stage_reply(approver_mentions: str) -> str:
    """Return the reply to an approver of a later step; takes mrkdwn of whose turn it is."""
    who = f"these people decide: {approver_mentions}" if approver_mentions else "nobody can decide"
    return f"It is not your turn: in this step {who}. You can reject it."


def stage_already_approved_reply(approver_mentions: str) -> str:
    """Return the reply to an approver whose step has enough votes; takes mrkdwn of who is left."""
    who = approver_mentions or "nobody who can be reached"
    return f"Enough people have approved this where you could. Still missing: {who}."


def rerun_needs_all_approvers_reply() -> str:
    """Return the reply to “Run it again” on a call that took several people to approve."""
    return (
        "It took more than one person to approve this, so one click cannot run it again. "
        "Say whether it happened; if it did not, ask for it again."
    )


def lookup_failed_reply() -> str:
    """Return the reply to a decision if Slack could not be asked whether this person may decide."""
    return (
        "I could not check with Slack whether you may decide this, so nothing was changed. "
        "Please try again in a minute."
    )


def outdated_card_reply() -> str:
    """Return the reply to a click on a card that was out of date."""
    return (
        "This card was out of date, so your click changed nothing. Look at it again: it shows how "
        "things stand now."
    )


def deadline_passed_reply(deadline: datetime | None) -> str:
    """Return the reply to a click after the deadline."""
    return (
        f"Too late: the deadline was {format_local_time(deadline)}, and nobody had answered. "
        "Nothing will run."
        if deadline
        else "Too late: the deadline has passed. Nothing will run."
    )


def thread_is_busy_reply(requester: str) -> str:
    """Return the reply to a message in a thread where another person's request waits."""
    return (
        f"I am working on a request by {user_mention(requester)} here and wait for a decision on "
        "it. "
        "Start a new thread and I will gladly take yours."
    )


def too_few_after_edit_reply(people: int) -> str:
    """Return the reply to an edit after which too few could approve, and what to do instead."""
    many = f"{people} people who have" if people > 1 else "somebody who has"
    return (
        f"With your edit, too few could approve it: it takes {many} not edited it. Send the plan "
        "back instead, behind “…” on the card, and say what to change."
    )


def approval_not_saved_reply() -> str:
    """Return the reply to an approver whose approval counts, but is not saved for later calls."""
    return (
        "Your approval counts, but it was not saved for later calls: that is only possible for "
        "somebody "
        "who may approve such a call alone."
    )


def reason_required_reply() -> str:
    """Return the reply to a decision without a reason, if the policy requires one."""
    return (
        "Please say why: this one needs a reason in your own words. “Review…” and “Reject…” "
        "on the card ask for it."
    )


def withdraw_not_allowed_reply(requester: str) -> str:
    """Return the reply to a person who withdraws a call that somebody else asked for."""
    return (
        f"Only {user_mention(requester)}, who asked for this, can withdraw it. You can reject it."
    )


def send_back_limit_reply(rounds: int) -> str:
    """Return the reply to a plan sent back after `rounds` times, which is the limit."""
    return (
        f"This request has been sent back {rounds} times, which is its limit. Approve, reject "
        "or cancel it."
    )


def only_buttons_decide_reply() -> str:
    """Return the reply to a requester who writes while people decide: only buttons decide."""
    return (
        "Only the buttons on its card decide this. To change the request, mention me; to stop it, "
        "say “cancel”."
    )


def trigger_expired_reply() -> str:
    """Return the reply to a click after which Slack would not open the dialog any more."""
    return "Slack did not let me open the dialog in time. Nothing was changed; please click again."


def dialog_not_opened_reply(code: str, means: str = "final") -> str:
    """Return why Slack did not open a dialog; `code` is Slack's error, "" for no answer.

    `means`: the kind of error: final, passing, token or unknown.
    """
    match code:
        case "expired_trigger_id" | "exchanged_trigger_id" | "invalid_trigger_id":
            return trigger_expired_reply()
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
            why = _slack_error_sentence(code, means)
    return f"{why} Nothing was changed."


def _slack_error_sentence(code: str, means: str) -> str:
    """Return what a person can do about an error code that has no sentence of its own."""
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
    return f"{why} Please tell whoever runs this bot."


def late_message_reply() -> str:
    """Return the reply to a message that Slack delivered over a day late, so it is not begun."""
    return (
        "Slack delivered this message more than a day after it was written, so I have not begun "
        "it. Mention me again if you still want it."
    )


def cancel_not_allowed_reply(requester: str) -> str:
    """Return the reply to a person who cancels somebody else's request."""
    return f"Only {user_mention(requester)}, who asked for this, can cancel it."


def nothing_to_cancel_reply() -> str:
    """Return the reply to cancelling a request that is already over."""
    return "This request is already finished; there is nothing to cancel."


def nothing_to_retry_reply() -> str:
    """Return the reply to Retry on a request that goes on already or has been replaced."""
    return "There is nothing to retry here any more."


def handling_failed_reply(slack_unreachable: bool) -> str:
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


def no_planning_agent_reply() -> str:
    """Return the reply to a plan sent back although no agent made it."""
    return (
        "No agent planned this, so there is nobody to make a new plan. Edit it, or reject it and "
        "say why."
    )


def policy_forbids_edit_reply(reason: str) -> str:
    """Return the reply to an editor whose new arguments policy denies."""
    return f"Policy forbids this: {sanitise_for_mrkdwn(reason)}"
