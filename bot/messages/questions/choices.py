"""The buttons that answer a question at once. Pure."""

from __future__ import annotations

from typing import Any

from bot.messages.actions.names import Action
from bot.tools.people.question import AnswerKind, AskPerson

CHOOSING = (
    Action.CHOOSE_1,
    Action.CHOOSE_2,
    Action.CHOOSE_3,
    Action.CHOOSE_4,
    Action.CHOOSE_5,
)


def choices(question: AskPerson) -> dict[Action, tuple[str, Any]]:
    """Return label and value of each button that answers; none where a form does."""
    if question.kind is AnswerKind.YES_NO:
        return {CHOOSING[0]: ("Yes", True), CHOOSING[1]: ("No", False)}
    if question.kind is AnswerKind.CHOICE and len(question.options) <= len(CHOOSING):
        pairs = zip(CHOOSING, question.options, strict=False)
        return {action: (option, option) for action, option in pairs}
    return {}
