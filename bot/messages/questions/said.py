"""An answer as a person reads it, and what of it corrects the agent. Pure."""

from __future__ import annotations

from bot.messages.forms.values import values
from bot.tools.people.question import AskPerson, Given, form_of, suggested

Said = tuple[str, str, str | None]  # label, value in words, the suggestion where it was corrected


def in_words(question: AskPerson, given: Given) -> tuple[Said, ...]:
    """Return each value as a person reads it, with the suggestion where that was corrected."""
    tool, initial = form_of(question), suggested(question)
    before = {each.label: each.text for each in values(tool, {**given, **initial})}
    told = [field.label for field in question.asked_fields() if field.suggestion]
    return tuple(
        (
            each.label,
            each.text,
            before[each.label] if each.label in told and before[each.label] != each.text else None,
        )
        for each in values(tool, given)
    )
