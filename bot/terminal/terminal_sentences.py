"""What the operator is told at the terminal. Pure: plain text, no markup."""

from __future__ import annotations

from collections.abc import Sequence

from storage.states import Verb


def no_such_call() -> str:
    """Nothing goes by that id."""
    return "Nothing goes by that id; `countersign pending` lists what waits, with its ids."


def is_a_question() -> str:
    """An answer is no approval."""
    return "That is a question: `countersign answer` is for whoever was asked."


def is_no_question() -> str:
    """Only a question is answered."""
    return "That is no question: it is approved, edited or rejected."


def no_such_plan() -> str:
    """Nothing of it waits, or it is no plan."""
    return "Nothing waits in a plan of that id; `countersign pending` shows plans with their ids."


def plan_has_changed() -> str:
    """Something of it was decided or changed since they saw it."""
    return "That is out of date: the plan has changed. `countersign pending` shows how it is now."


def no_such_request() -> str:
    """No request goes by that id."""
    return "No request goes by that id; `countersign show` tells it for each call."


def no_such_chat() -> str:
    """Words go to requests of one's own that the agent works on."""
    return "No chat of yours goes by that id."


def no_operator() -> str:
    """The bot runs, and takes no commands of an operator."""
    return "The bot was started without COUNTERSIGN_OPERATOR: set it, and start the bot anew."


def too_many_chats() -> str:
    """More are followed than the bot has threads for."""
    return "Too many chats are open at once: close one, and try again."


def not_begun_yet() -> str:
    """A chat is a thread in Slack, and Slack does not have its first message yet."""
    return "Slack does not have the beginning of this chat yet; say it again in a moment."


def heard() -> str:
    """The words are stored for the agent."""
    return "The agent has it."


def not_sent_back(most: int) -> str:
    """A plan goes back with words, and a question is no plan."""
    return f"A plan goes back with what to do otherwise, in {most} characters at most."


def sent_back() -> str:
    """The plan gives way to another one."""
    return "Sent back; the agent makes another plan."


def nothing_to_edit() -> str:
    """Neither a question nor what policy let run is edited."""
    return "There is nothing to edit in it."


def nothing_changed() -> str:
    """What was typed is what there was."""
    return "That changes nothing: it reads so already."


def edited(effect: str, wanted: str) -> str:
    """The edit is stored; votes for the old version no longer count."""
    return f"Saved: {effect}\nIt still waits for approval, as {wanted}"


def answered() -> str:
    """Whoever asked has the answer."""
    return "Answered; whoever asked has been told."


def noted() -> str:
    """What was said of a call is written down."""
    return "Noted."


def cancelled() -> str:
    """The request is over."""
    return "Cancelled; nothing more of it will run."


def goes_on() -> str:
    """A request that could not go on is taken up again."""
    return "It is tried again."


def not_all_shown(covered: Sequence[str]) -> str:
    """Who approves has to see all of it, and a terminal shows no secrets."""
    return (
        f"Not all of it is shown here ({', '.join(covered)}). Approve it in Slack: Review shows all"
        " of it to those who decide."
    )


def too_many_words(most: int, typed: int) -> str:
    """A note or a reason is too long."""
    return f"At most {most} characters, please; these are {typed}."


def still_deciding() -> str:
    """It takes longer than one waits at a prompt."""
    return (
        "It is written down, and takes longer than usual. `countersign show` tells what becomes of"
        " it."
    )


def could_not_be_decided() -> str:
    """Something is wrong that the log tells of."""
    return "That could not be done; the bot's log says why. Nothing was changed."


def decided(verb: Verb, effect: str) -> str:
    """This vote has decided it."""
    return f"Approved: {effect}" if verb is Verb.APPROVE else f"Rejected: {effect}"


def counts_and_waits(verb: Verb, effect: str, needed: int) -> str:
    """The vote counts, and others have to say something too."""
    if verb is Verb.REJECT:
        return f"Your no counts, and it takes more than one: {effect}"
    more = "1 more person has" if needed == 1 else f"{needed} more people have"
    return f"Your approval counts; {more} to approve: {effect}"
