"""What a chat says of its own, and which of what happens is worth a word. Pure."""

from __future__ import annotations

from bot.terminal.terminal_messages import CallShown
from storage.states import CallStatus

PROMPT = "you> "
HELP = """\
Type what you want; the agent hears it, and Slack keeps it.
/pending           what waits for you, with numbers
/approve 1 [note]  approve 1 as it is shown
/edit 1            change it
/reject 1 why      reject it
/all 1             approve all of the plan it is part of
/send-back 1 what  have its plan made anew, otherwise
/answer 1 words    answer a question
/decline 1         say that you cannot answer it
/done 1            it happened, where nobody knows
/not-done 1        it did not happen
/again 1           it is to run once more
/show 1            how 1 stands now
/cancel            stop your request
/retry             try again what could not go on
/quit              end the chat, not the request
/remember          how an approval is remembered
/delegate          how somebody decides for you"""
GREETING = "Ask for something, or /help. Slack keeps what is said here."
AWAY = "The bot has stopped. The chat goes on once it is there again; Ctrl-D ends it."
NOT_BACK = "The bot is not there yet."
BACK = "The bot is there again."
QUIT = ("/quit", "/q")
YES = ("yes", "y")
NOT_SURE = "It is not approved, and still waits."
LOUD = frozenset({CallStatus.PENDING, CallStatus.UNKNOWN})
QUIET = frozenset({CallStatus.APPROVED, CallStatus.RUNNING})  # steps and lines tell as much
LIKE_THIS = "Say which one, by its number: {example}"
IN_SLACK = {
    "/remember": "In Slack: the card's menu (⋯) has “Details, approve with a note or remember it…”"
    " where the policy offers it. What is remembered is on your Home tab.",
    "/delegate": "In Slack: `/approvals delegate`, or Delegate… on your Home tab.",
}
SHORT = {"/a": "/approve", "/e": "/edit", "/r": "/reject", "/p": "/pending"}


def is_told(call: CallShown) -> bool:
    """Return whether it is drawn how the call stands: where people decide, the thread's lines tell
    what became of it, and steps tell that it runs.
    """
    return call.status in LOUD or not (call.deciders or call.status in QUIET)
