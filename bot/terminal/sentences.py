"""What the operator is told at the terminal. Pure: plain text, no markup."""

from __future__ import annotations

from collections.abc import Sequence

from storage.states import Verb


def no_such_call() -> str:
    """Nothing goes by that id."""
    return "Nothing goes by that id; `countersign pending` lists what waits, with its ids."


def is_a_question() -> str:
    """An answer is no approval, and the terminal takes none."""
    return "That is a question: whoever is asked answers it in Slack."


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
