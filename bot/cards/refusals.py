"""Every sentence that tells one person why their click or their words changed nothing. Pure.

Mrkdwn out. People and times arrive as ids and datetimes and become mentions and local times.
"""

from __future__ import annotations

from datetime import datetime

from bot.cards.sentence_words import cite, past
from bot.cards.slack_text import mention, when


def already_decided(by: str, verb: str, at: datetime | None) -> str:
    """Tell whoever clicks a decided call what was decided, when and by whom ("": by no person)."""
    time = f", {when(at)}" if at else ""
    if not by:
        return f"This is already {past(verb)}{time}. Your click changed nothing."
    return f"{mention(by)} already {past(verb)} this{time}. Your click changed nothing."


def your_own_click(verb: str) -> str:
    """Tell somebody that their second click changed nothing."""
    return f"You already {past(verb)} this. The second click changed nothing."


def said_for_you(by: str, verb: str) -> str:
    """Tell somebody that they and who decides for them count once, and the other was first."""
    return (
        f"{mention(by)} already {past(verb)} this, and the two of you count as one here. Your "
        "click changed nothing."
    )


def not_an_approver(approver_mentions: str) -> str:
    """Tell somebody that they may not decide; takes mrkdwn of who may ("" when nobody may)."""
    if not approver_mentions:
        return (
            "You cannot decide this one, and nobody else can at the moment: its list of "
            "approvers is empty."
        )
    return f"You cannot decide this one. These people can: {approver_mentions}."


def perhaps_said(link: str, is_card: bool) -> str:
    """Tell somebody that words for them alone may not have arrived; they are not said twice."""
    if not link:
        return "I may have told you something here that you cannot see. Please ask again."
    place = f"<{link}|this card>" if is_card else f"<{link}|this thread>"
    return f"I may have told you something here that you cannot see. {place} shows how it stands."


def not_stored() -> str:
    """Tell somebody that their words could not be stored; Slack delivers them a few times more."""
    return (
        "I cannot write anything down at the moment, so I have not taken this in. I will try "
        "again for a few minutes; if you have not heard from me by then, please ask once more."
    )


def requester_gone() -> str:
    """Tell an approver that nobody is left who asks for it."""
    return (
        "Who asked for this has no active account here anymore, so it cannot be approved. "
        "Reject it, or let its deadline pass."
    )


def not_an_editor() -> str:
    """Tell somebody that they may not edit."""
    return "You cannot edit this one."


def own_request() -> str:
    """Tell a requester that somebody else has to approve."""
    return (
        "This is your own request, so somebody else has to approve it. You can still reject "
        "or cancel it."
    )


def own_edit() -> str:
    """Tell an editor that somebody else has to approve what they edited."""
    return "You edited this, so somebody else has to approve it."


def not_yet(approver_mentions: str) -> str:
    """Tell an approver of another step that it is not their turn; takes mrkdwn of whose it is."""
    who = f"these people decide: {approver_mentions}" if approver_mentions else "nobody can decide"
    return f"It is not your turn: in this step {who}. You can reject it."


def enough(approver_mentions: str) -> str:
    """Tell an approver that others have said yes in their place; takes mrkdwn of who is missing."""
    who = approver_mentions or "nobody who can be reached"
    return f"Enough people have approved this where you could. Still missing: {who}."


def again_needs_all() -> str:
    """Tell somebody that what took several people to approve is not run again by one."""
    return (
        "It took more than one person to approve this, so one click cannot run it again. "
        "Say whether it happened; if it did not, ask for it again."
    )


def lookup_failed() -> str:
    """Tell somebody that Slack could not say whether they may."""
    return (
        "I could not check with Slack whether you may decide this, so nothing was changed. "
        "Please try again in a minute."
    )


def stale_card() -> str:
    """Tell somebody that the card they clicked was out of date."""
    return (
        "This card was out of date, so your click changed nothing. Look at it again: it shows how "
        "things stand now."
    )


def too_late(deadline: datetime | None) -> str:
    """Tell somebody that they clicked after the deadline."""
    return (
        f"Too late: the deadline was {when(deadline)}, and nobody had answered. Nothing will run."
        if deadline
        else "Too late: the deadline has passed. Nothing will run."
    )


def waits_for(requester: str) -> str:
    """Tell somebody that the thread belongs to another person's request."""
    return (
        f"I am working on a request by {mention(requester)} here and wait for a decision on it. "
        "Start a new thread and I will gladly take yours."
    )


def too_few_after_edit(people: int) -> str:
    """Tell an editor that too few would be left to approve, and what to do instead."""
    many = f"{people} people who have" if people > 1 else "somebody who has"
    return (
        f"With your edit, too few could approve it: it takes {many} not edited it. Send the plan "
        "back instead, behind “…” on the card, and say what to change."
    )


def not_remembered() -> str:
    """Tell who approved that it counts this time only."""
    return (
        "Your approval counts, but it is not remembered: only who may approve such a request alone "
        "can have that."
    )


def words_needed() -> str:
    """Tell somebody that the policy wants a reason with this decision."""
    return (
        "Please say why: this one needs a reason in your own words. “Review…” and “Reject…” "
        "on the card ask for it."
    )


def not_the_requester(requester: str) -> str:
    """Tell somebody that only the requester can withdraw a call."""
    return f"Only {mention(requester)}, who asked for this, can withdraw it. You can reject it."


def sent_back_enough(rounds: int) -> str:
    """Tell somebody that a request cannot be sent back any more."""
    return (
        f"This request has been sent back {rounds} times, which is its limit. Approve, reject "
        "or cancel it."
    )


def words_decide_nothing() -> str:
    """Tell a requester who writes while people decide how the request can still be changed."""
    return (
        "Only the buttons on its card decide this. To change the request, mention me; to stop it, "
        "say “cancel”."
    )


def trigger_expired() -> str:
    """Tell somebody that Slack would not open the dialog anymore."""
    return "Slack did not let me open the dialog in time. Nothing was changed; please click again."


def not_opened(code: str, means: str = "final") -> str:
    """Tell somebody why Slack did not open a dialog; `code` is Slack's, "" for no answer.

    `means` is what it says about the call: final, passing, token or unknown.
    """
    match code:
        case "expired_trigger_id" | "exchanged_trigger_id" | "invalid_trigger_id":
            return trigger_expired()
        case "ratelimited":
            why = "Slack asks me to slow down. Please click again in a minute."
        case "view_too_large":
            why = "There is more to show than a dialog of Slack's can hold."
        case "not_found" | "hash_conflict":
            why = "The dialog has been closed or has changed meanwhile. Please click again."
        case "duplicate_external_id":
            why = "The dialog is open already."
        case "push_limit_reached":
            why = "Too many dialogs are open. Close one, then click again."
        case "":
            why = "Slack did not answer. If no dialog is open, please click again."
        case "user_not_found" | "not_allowed" | "user_is_restricted" | "restricted_action":
            why = f"Slack does not let you have dialogs of mine here ({code})."
        case _:
            why = _by_meaning(code, means)
    return f"{why} Nothing was changed."


def _by_meaning(code: str, means: str) -> str:
    """Say what whoever clicked can do about a code that has no sentence of its own."""
    match means:
        case "unknown":
            return f"Slack failed while it was at work ({code}). Please click again in a moment."
        case "passing":
            return f"Slack takes nothing from me just now ({code}). Please click again later."
        case "token":
            why = f"Slack does not let me in just now ({code}), whatever I ask."
        case _:
            why = f"Slack did not open the dialog ({code}). Clicking again may not help."
    return f"{why} Please tell whoever runs this bot."


def late_message() -> str:
    """Tell somebody that what they wrote arrived so late that it is not begun."""
    return (
        "Slack delivered this message more than a day after it was written, so I have not begun "
        "it. Mention me again if you still want it."
    )


def not_your_run(requester: str) -> str:
    """Tell somebody that only the requester can cancel a request."""
    return f"Only {mention(requester)}, who asked for this, can cancel it."


def nothing_to_cancel() -> str:
    """Tell somebody that the request they cancel is already over."""
    return "This request is already finished; there is nothing to cancel."


def nothing_to_retry() -> str:
    """Tell somebody that the request they retry goes on already, or a newer one took over."""
    return "There is nothing to retry here any more."


def could_not(slack_unreachable: bool) -> str:
    """Tell somebody that what they wrote or clicked could not be dealt with, despite retries."""
    why = (
        "Slack did not tell me who you are"
        if slack_unreachable
        else "something went wrong on my side"
    )
    return f"I could not act on this: {why}. Nothing was changed; please try again."


def edit_not_saved(why: str) -> str:
    """Tell an editor that what they saved could not be kept; `why` is a sentence."""
    return f"Your edit was not saved: {cite(why) or 'what the tool takes has changed since.'}"
