"""Every sentence around a question to a person, but for the question itself. Pure: mrkdwn out."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from bot.messages.quoting import said
from bot.messages.text import due, group_mention, mention, when

UNREADABLE = "That does not fit the question. Please use its button."
WAITS_FOR_ANSWER = "💬 Runs once the question beside it is answered, too"
SEVERAL = "Several questions wait in this thread. Please answer by the buttons under each."


def answer_too_long(most: int) -> str:
    """Tell somebody that their answer in words is longer than an answer may be."""
    return f"That is too long for an answer: {most:,} characters at most. Please say it in fewer."


def answer_by_buttons() -> str:
    """Tell a requester who writes while a question waits that words are no answer to it."""
    return (
        "A question waits here, and I left your words alone: please answer by the buttons under "
        "it. Mention me to say something else, or say “cancel” to take the request back."
    )


def people_named(users: Iterable[str], groups: Iterable[str]) -> str:
    """Name people and user groups by their ids, as mrkdwn."""
    return ", ".join([*map(mention, users), *map(group_mention, groups)]) or "others"


def asked_elsewhere(who: str, question: str) -> str:
    """Tell the thread who is asked what in direct messages; `who` is mrkdwn of their names."""
    return f"💬 I have asked {who} in a direct message: “{said(question)}”"


def was_answered(person: str, declined: bool) -> str:
    """Tell the thread that a question which was asked elsewhere has its answer."""
    what = "cannot answer the question" if declined else "has answered the question"
    return f"💬 {mention(person)} {what}."


def answer_reminder(who: str, question: str, deadline: datetime | None) -> str:
    """Remind who was asked and has not answered; `who` is mrkdwn of their names."""
    by = f" by {due(deadline)}" if deadline else ""
    return f"⏰ {who}: this question still waits for an answer{by}: “{said(question)}”"


def unanswered_line(questions: list[str], deadline: datetime | None) -> str:
    """Tell the thread that nobody answered in time."""
    by = f" by {when(deadline)}" if deadline else " in time"
    quoted = "; ".join(f"“{said(each, 160)}”" for each in questions[:3])
    return f"⌛ Nobody answered{by}: {quoted}"


def already_answered(by: str, at: datetime | None) -> str:
    """Tell whoever answers second who was first."""
    time = f", {when(at)}" if at else ""
    return f"{mention(by)} already answered this{time}. Yours changed nothing."


def own_answer_stands() -> str:
    """Tell somebody that their second answer changed nothing."""
    return "You already answered this. The second answer changed nothing."


def answer_too_late(deadline: datetime | None) -> str:
    """Tell somebody that the question had ended before they answered."""
    return f"Too late: the question was open until {when(deadline)}." if deadline else "Too late."


def no_longer_asked() -> str:
    """Tell somebody that a question is not asked any more."""
    return "This question is no longer asked: the request has changed or ended since."


def not_asked_of_you(who: str) -> str:
    """Tell somebody that others were asked; `who` is mrkdwn of their names."""
    return f"This question is for {who}, so your answer was not taken."
