"""The sentences that the operator reads at the terminal. Pure: plain text, no markup."""

from __future__ import annotations

from collections.abc import Sequence

from storage.states import CallVerb

UNKNOWN_CALL = (
    "There is nothing with that id. `countersign pending` lists what waits, with its ids."
)
CALL_IS_QUESTION = "That is a question. Whoever was asked answers it with `countersign answer`."
NOT_A_QUESTION = "That is not a question. It can be approved, edited or rejected."
UNKNOWN_PLAN = "No plan with that id waits. `countersign pending` shows plans with their ids."
PLAN_CHANGED = (
    "That is out of date: the plan has changed. `countersign pending` shows how it is now."
)
UNKNOWN_REQUEST = "There is no request with that id. `countersign show` prints it for each call."
UNKNOWN_CHAT = "You have no chat with that id."
NO_OPERATOR = "The bot was started without COUNTERSIGN_OPERATOR: set it, and start the bot anew."
NO_WORDS = "There is nothing to send: type a message."
TOO_MANY_CHATS = "Too many chats are open at once: close one, and try again."
CHAT_NOT_IN_SLACK_YET = (
    "The beginning of this chat has not reached Slack yet. Please say it again in a moment."
)
MESSAGE_RECEIVED = "The agent has it."
PLAN_SENT_BACK = "Sent back; the agent makes another plan."
NOTHING_TO_EDIT = "There is nothing to edit in it."
EDIT_CHANGES_NOTHING = "That changes nothing: it already has these values."
ANSWER_SAVED = "Answered; whoever asked has been told."
STATEMENT_SAVED = "Noted."
REQUEST_CANCELLED = "Cancelled; nothing more of it will run."
REQUEST_RETRIED = "It is tried again."
RESULT_DELAYED = (
    "It is stored, but takes longer than usual. `countersign show` shows what comes of it."
)
COMMAND_FAILED = "That could not be done, and nothing was changed. The bot's log says why."


def send_back_needs_words_sentence(most: int) -> str:
    """Return the sentence for sending back a question, or a plan with no or too many words."""
    return f"Say what to do differently, in at most {most} characters."


def edit_saved_sentence(effect: str, wanted: str) -> str:
    """Return the sentence that an edit is stored; votes on the earlier revision no longer count."""
    return f"Saved: {effect}\nIt still waits for approval, as {wanted}"


def hidden_values_sentence(covered: Sequence[str]) -> str:
    """Return the sentence for approving a call of which the terminal hides `covered`."""
    return (
        f"Not all of it is shown here ({', '.join(covered)}). Approve it in Slack: Review shows all"
        " of it to those who decide."
    )


def text_too_long_sentence(most: int, typed: int) -> str:
    """Return the sentence for a text that is too long."""
    return f"At most {most} characters, please; these are {typed}."


def vote_decided_call_sentence(verb: CallVerb, effect: str) -> str:
    """Return the sentence that this vote has decided a call."""
    return f"Approved: {effect}" if verb is CallVerb.APPROVE else f"Rejected: {effect}"


def vote_counted_sentence(verb: CallVerb, effect: str, needed: int) -> str:
    """Return the sentence that a vote counts, while others still have to vote."""
    if verb is CallVerb.REJECT:
        return f"Your rejection counts, but more are needed: {effect}"
    more = "1 more person has" if needed == 1 else f"{needed} more people have"
    return f"Your approval counts; {more} to approve: {effect}"
