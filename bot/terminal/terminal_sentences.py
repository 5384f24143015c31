"""The sentences that the operator reads at the terminal. Pure: plain text, no markup."""

from __future__ import annotations

from collections.abc import Sequence

from storage.states import CallVerb


def unknown_call_sentence() -> str:
    """Return the sentence for an id that no call has."""
    return "There is nothing with that id. `countersign pending` lists what waits, with its ids."


def call_is_question_sentence() -> str:
    """Return the sentence for a vote on a question, which is answered instead."""
    return "That is a question. Whoever was asked answers it with `countersign answer`."


def not_a_question_sentence() -> str:
    """Return the sentence for an answer to a call that is not a question."""
    return "That is not a question. It can be approved, edited or rejected."


def unknown_plan_sentence() -> str:
    """Return the sentence for an id of no plan, or of a plan of which nothing is pending."""
    return "No plan with that id waits. `countersign pending` shows plans with their ids."


def plan_changed_sentence() -> str:
    """Return the sentence for a plan that was decided or changed since the operator saw it."""
    return "That is out of date: the plan has changed. `countersign pending` shows how it is now."


def unknown_request_sentence() -> str:
    """Return the sentence for an id that no request has."""
    return "There is no request with that id. `countersign show` prints it for each call."


def unknown_chat_sentence() -> str:
    """Return the sentence for a chat that is not the operator's own, or has no agent."""
    return "You have no chat with that id."


def no_operator_sentence() -> str:
    """Return the sentence for a bot whose settings name no operator."""
    return "The bot was started without COUNTERSIGN_OPERATOR: set it, and start the bot anew."


def too_many_chats_sentence() -> str:
    """Return the sentence for a chat that is not followed because too many others are."""
    return "Too many chats are open at once: close one, and try again."


def chat_not_in_slack_yet_sentence() -> str:
    """Return the sentence for a chat whose first message has not been posted to Slack yet."""
    return "The beginning of this chat has not reached Slack yet. Please say it again in a moment."


def message_received_sentence() -> str:
    """Return the sentence that the operator's words are stored for the agent."""
    return "The agent has it."


def send_back_needs_words_sentence(most: int) -> str:
    """Return the sentence for sending back a question, or a plan with no or too many words."""
    return f"Say what to do differently, in at most {most} characters."


def plan_sent_back_sentence() -> str:
    """Return the sentence that a plan was sent back, to be replaced by another one."""
    return "Sent back; the agent makes another plan."


def nothing_to_edit_sentence() -> str:
    """Return the sentence for an edit of a call that cannot be edited, such as a question."""
    return "There is nothing to edit in it."


def edit_changes_nothing_sentence() -> str:
    """Return the sentence for an edit that leaves the arguments as they were."""
    return "That changes nothing: it already has these values."


def edit_saved_sentence(effect: str, wanted: str) -> str:
    """Return the sentence that an edit is stored; votes on the earlier revision no longer count."""
    return f"Saved: {effect}\nIt still waits for approval, as {wanted}"


def answer_saved_sentence() -> str:
    """Return the sentence that an answer has reached whoever asked the question."""
    return "Answered; whoever asked has been told."


def statement_saved_sentence() -> str:
    """Return the sentence that what the operator said of a call is stored."""
    return "Noted."


def request_cancelled_sentence() -> str:
    """Return the sentence that a request is cancelled."""
    return "Cancelled; nothing more of it will run."


def request_retried_sentence() -> str:
    """Return the sentence that a request which could not go on is retried."""
    return "It is tried again."


def hidden_values_sentence(covered: Sequence[str]) -> str:
    """Return the sentence for approving a call of which the terminal hides `covered`."""
    return (
        f"Not all of it is shown here ({', '.join(covered)}). Approve it in Slack: Review shows all"
        " of it to those who decide."
    )


def text_too_long_sentence(most: int, typed: int) -> str:
    """Return the sentence for a text that is too long."""
    return f"At most {most} characters, please; these are {typed}."


def result_delayed_sentence() -> str:
    """Return the sentence for a command that takes longer than a terminal waits."""
    return "It is stored, but takes longer than usual. `countersign show` shows what comes of it."


def command_failed_sentence() -> str:
    """Return the sentence for a command that failed in a way that only the log explains."""
    return "That could not be done, and nothing was changed. The bot's log says why."


def vote_decided_call_sentence(verb: CallVerb, effect: str) -> str:
    """Return the sentence that this vote has decided a call."""
    return f"Approved: {effect}" if verb is CallVerb.APPROVE else f"Rejected: {effect}"


def vote_counted_sentence(verb: CallVerb, effect: str, needed: int) -> str:
    """Return the sentence that a vote counts, while others still have to vote."""
    if verb is CallVerb.REJECT:
        return f"Your rejection counts, but more are needed: {effect}"
    more = "1 more person has" if needed == 1 else f"{needed} more people have"
    return f"Your approval counts; {more} to approve: {effect}"
