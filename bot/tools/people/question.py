"""Questions to people: what the agent may ask, of whom, and how it is answered. Pure.

A question is a call of `ask_person`. Nothing runs: a person's answer is its result.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from bot.tools import Effect, Tool, ToolContext, ToolError, tool
from bot.tools.people.addressee import Addressee

MOST_FIELDS, MOST_OPTIONS = 5, 25
Option = Annotated[str, Field(min_length=1, max_length=75)]
Options = Annotated[
    list[Option],
    Field(max_length=MOST_OPTIONS, description="For the kind choice: what can be chosen."),
]
SUGGESTION = "What the answer probably is; whoever answers may correct it."


class AnswerKind(StrEnum):
    """What an answer, or one field of it, is."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    YES_NO = "yes_no"
    DATE = "date"
    FORM = "form"  # several fields of the other kinds


class AnswerField(BaseModel):
    """One field of a form."""

    label: str = Field(min_length=1, max_length=80)
    kind: AnswerKind = AnswerKind.TEXT
    options: Options = Field(default_factory=list)
    suggestion: str = Field("", max_length=500, description=SUGGESTION)
    optional: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kind is AnswerKind.FORM:
            raise ValueError("a field is text, number, choice, yes_no or date")
        check_options(self.kind, self.options)
        return self


class AskPerson(BaseModel):
    """What is asked, and of whom."""

    question: str = Field(title="Question", min_length=3, max_length=600)
    to: Addressee | None = Field(None, title="To")
    kind: AnswerKind = Field(AnswerKind.TEXT, title="Kind of answer")
    options: Options = Field(default_factory=list, title="Options")
    fields: list[AnswerField] = Field(
        default_factory=list,
        title="Fields",
        max_length=MOST_FIELDS,
        description="For the kind form: one to five fields.",
    )
    suggestion: str = Field("", title="Suggestion", max_length=500, description=SUGGESTION)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.kind is AnswerKind.FORM) != bool(self.fields):
            raise ValueError("fields are for the kind form, which needs one to five of them")
        labels = [each.label.casefold() for each in self.fields]
        if len(set(labels)) < len(labels):
            raise ValueError("two fields have the same label")
        check_options(self.kind, self.options)
        return self

    def asked_fields(self) -> list[AnswerField]:
        """Return what is to be filled in: the fields of a form, else the one answer."""
        if self.kind is AnswerKind.FORM:
            return self.fields
        one = AnswerField(label="Your answer", kind=self.kind, options=self.options)
        return [one.model_copy(update={"suggestion": self.suggestion})]

    def texts(self) -> list[str]:
        """Return everything in it that its reader would see."""
        parts = [(each.label, each.suggestion, *each.options) for each in self.fields]
        return [self.question, self.suggestion, *self.options, *(t for part in parts for t in part)]


def check_options(kind: AnswerKind, options: list[str]) -> None:
    """Raise ValueError unless there are options just where something is chosen, all different."""
    if kind is not AnswerKind.CHOICE and options:
        raise ValueError("options are for the kind choice only")
    if kind is AnswerKind.CHOICE and len({each.strip() for each in options}) < max(2, len(options)):
        raise ValueError("the kind choice needs at least two options, all different")


@tool(title="Ask a person", effect="Ask “{question}”", does=Effect.READ)
def ask_person(_args: AskPerson, _context: ToolContext) -> str:
    """Ask the requester, another person or a user group for information that you need; the result
    is what one of them answers, as data. Never ask for an approval or for permission: proposing a
    call is how that is asked. Calls proposed together with a question run after it is answered,
    whatever the answer is: propose what depends on the answer when you have it.
    """
    raise ToolError("A question is answered by a person; it cannot be run.")


ASK_PERSON: Tool[Any] = ask_person
