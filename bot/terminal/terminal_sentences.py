"""The sentences that the operator reads at the terminal. Pure: plain text, no markup."""

from __future__ import annotations

from collections.abc import Sequence

from storage.states import Verb


def no_such_call() -> str:
    """Return the sentence for an id that no call has."""
    return "There is nothing with that id. `countersign pending` lists what waits, with its ids."


def is_a_question() -> str:
    """Return the sentence for a vote on a question, which is answered instead."""
    return "That is a question. Whoever was asked answers it with `countersign answer`."


def is_no_question() -> str:
    """Return the sentence for an answer to a call that is not a question."""
    return "That is not a question. It can be approved, edited or rejected."


def no_such_plan() -> str:
    """Return the sentence for an id of no plan, or of a plan of which nothing is pending."""
    return "No plan with that id waits. `countersign pending` shows plans with their ids."


def plan_has_changed() -> str:
    """Return the sentence for a plan that was decided or changed since the operator saw it."""
    return "That is out of date: the plan has changed. `countersign pending` shows how it is now."


def no_such_request() -> str:
    """Return the sentence for an id that no request has."""
    return "There is no request with that id. `countersign show` prints it for each call."


def no_such_chat() -> str:
    """Return the sentence for a chat that is not the operator's own, or has no agent."""
    return "You have no chat with that id."


def no_operator() -> str:
    """Return the sentence for a bot whose settings name no operator."""
    return "The bot was started without COUNTERSIGN_OPERATOR: set it, and start the bot anew."


def too_many_chats() -> str:
    """Return the sentence for a chat that is not followed because too many others are."""
    return "Too many chats are open at once: close one, and try again."


def not_begun_yet() -> str:
    """Return the sentence for a chat whose first message has not been posted to Slack yet."""
    return "The beginning of this chat has not reached Slack yet. Please say it again in a moment."


def heard() -> str:
    """Return the sentence that the operator's words are stored for the agent."""
    return "The agent has it."


def not_sent_back(most: int) -> str:
    """Return the sentence for sending back a question, or a plan with no or too many words."""
    return f"Say what to do differently, in at most {most} characters."


def sent_back() -> str:
    """Return the sentence that a plan was sent back, to be replaced by another one."""
    return "Sent back; the agent makes another plan."


def nothing_to_edit() -> str:
    """Return the sentence for an edit of a call that cannot be edited, such as a question."""
    return "There is nothing to edit in it."


def nothing_changed() -> str:
    """Return the sentence for an edit that leaves the arguments as they were."""
    return "That changes nothing: it already has these values."


def edited(effect: str, wanted: str) -> str:
    """Return the sentence that an edit is stored; votes on the earlier revision no longer count."""
    return f"Saved: {effect}\nIt still waits for approval, as {wanted}"


def answered() -> str:
    """Return the sentence that an answer has reached whoever asked the question."""
    return "Answered; whoever asked has been told."


def noted() -> str:
    """Return the sentence that what the operator said of a call is stored."""
    return "Noted."


def cancelled() -> str:
    """Return the sentence that a request is cancelled."""
    return "Cancelled; nothing more of it will run."


def goes_on() -> str:
    """Return the sentence that a request which could not go on is retried."""
    return "It is tried again."


def not_all_shown(covered: Sequence[str]) -> str:
    """Return the sentence for approving a call of which the terminal hides `covered`."""
    return (
        f"Not all of it is shown here ({', '.join(covered)}). Approve it in Slack: Review shows all"
        " of it to those who decide."
    )


def too_many_words(most: int, typed: int) -> str:
    """Return the sentence for a text that is too long."""
    return f"At most {most} characters, please; these are {typed}."


def still_deciding() -> str:
    """Return the sentence for a command that takes longer than a terminal waits."""
    return "It is stored, but takes longer than usual. `countersign show` shows what comes of it."


def could_not_be_decided() -> str:
    """Return the sentence for a command that failed in a way that only the log explains."""
    return "That could not be done, and nothing was changed. The bot's log says why."


def decided(verb: Verb, effect: str) -> str:
    """Return the sentence that this vote has decided a call."""
    return f"Approved: {effect}" if verb is Verb.APPROVE else f"Rejected: {effect}"


def counts_and_waits(verb: Verb, effect: str, needed: int) -> str:
    """Return the sentence that a vote counts, while others still have to vote."""
    if verb is Verb.REJECT:
        return f"Your rejection counts, but more are needed: {effect}"
    more = "1 more person has" if needed == 1 else f"{needed} more people have"
    return f"Your approval counts; {more} to approve: {effect}"
