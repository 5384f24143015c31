"""Questions that the agent asks people, with an answer form checked as arguments are.

Pure. A single answer is a form with one field.
"""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    model_validator,
)
from pydantic_core import PydanticKnownError, to_jsonable_python

from bot.policy.condition_values import SlackId
from bot.policy.gates import Approvers
from bot.tools import Effect, Tool, ToolContext, ToolError, tool
from bot.tools.names import ChannelId, PersonId, SlackIdKind, SlackIdResolver


def _resolve_addressee(value: str, info: ValidationInfo) -> str:
    """Return the id of a person, or a group's handle with its @.

    Raises ValueError if the name is unknown, or means a person and a group; and what
    `SlackIdResolver` raises.
    """
    names, wanted = info.context, value.strip()
    if not isinstance(names, SlackIdResolver):
        return value if value.startswith("@") else SlackId(value)
    handle = wanted.removeprefix("@")
    if names.directory.find_group(handle) is None:
        return SlackId(names.resolve_id(SlackIdKind.PERSON, wanted))
    if names.directory.find_people_by_name(handle):
        raise ValueError(f"{wanted} is a person and a user group: give the person's id.")
    return f"@{handle}"


Addressee = Annotated[
    str,
    Field(
        min_length=1,
        max_length=100,
        description="@handle, full name or id of a person, or the @handle of a user group; "
        "left out: the requester.",
    ),
    AfterValidator(_resolve_addressee),
]


def build_allowed_answerers(to: str | None, requester: str) -> Approvers:
    """Return who may answer a question to `to` (user id or "@group"); None means the requester."""
    if to is None:
        return Approvers(users=(requester,))
    if to.startswith("@"):
        return Approvers(groups=(to.removeprefix("@"),))
    return Approvers(users=(to,))


MAX_FIELDS = 5
MAX_OPTIONS = 25
Option = Annotated[str, Field(min_length=1, max_length=75)]
Options = Annotated[
    list[Option],
    Field(max_length=MAX_OPTIONS, description="For the kind choice."),
]
SUGGESTION_DESCRIPTION = "What the answer probably is; the person who answers may correct it."


class AnswerKind(StrEnum):
    """The type of an answer, or of one field of it."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    YES_NO = "yes_no"
    DATE = "date"
    PERSON = "person"
    CHANNEL = "channel"
    FORM = "form"  # several fields of the other kinds


MENU_ANSWER_KINDS = (AnswerKind.PERSON, AnswerKind.CHANNEL)  # chosen from Slack's menus


def _resolve_suggestion(kind: AnswerKind, suggestion: str, names: object) -> str:
    """Return a suggestion, or its id if it names a person or channel that `names` can look up."""
    if suggestion and kind in MENU_ANSWER_KINDS and isinstance(names, SlackIdResolver):
        return names.resolve_id(SlackIdKind(kind), suggestion)
    return suggestion


class AnswerField(BaseModel):
    """One field of a form."""

    label: str = Field(min_length=1, max_length=80)
    kind: AnswerKind = AnswerKind.TEXT
    options: Options = Field(default_factory=list)
    suggestion: str = Field("", max_length=500, description=SUGGESTION_DESCRIPTION)
    optional: bool = False

    @model_validator(mode="after")
    def _check_field(self, info: ValidationInfo) -> Self:
        if self.kind is AnswerKind.FORM:
            raise ValueError("a field is of any kind but form")
        check_answer_options(self.kind, self.options)
        self.suggestion = _resolve_suggestion(self.kind, self.suggestion, info.context)
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
        max_length=MAX_FIELDS,
        description="For the kind form: one to five fields.",
    )
    suggestion: str = Field(
        "", title="Suggestion", max_length=500, description=SUGGESTION_DESCRIPTION
    )

    @model_validator(mode="after")
    def _check_question(self, info: ValidationInfo) -> Self:
        if (self.kind is AnswerKind.FORM) != bool(self.fields):
            raise ValueError("fields are for the kind form, which needs one to five of them")
        labels = [each.label.casefold() for each in self.fields]
        if len(set(labels)) < len(labels):
            raise ValueError("two fields have the same label")
        check_answer_options(self.kind, self.options)
        self.suggestion = _resolve_suggestion(self.kind, self.suggestion, info.context)
        return self

    def list_answer_fields(self) -> list[AnswerField]:
        """Return the fields to be filled in: those of a form, else one field for the answer."""
        if self.kind is AnswerKind.FORM:
            return self.fields
        one = AnswerField(label="Your answer", kind=self.kind, options=self.options)
        return [one.model_copy(update={"suggestion": self.suggestion})]

    def list_question_texts(self) -> list[str]:
        """Return all texts of the question that a reader sees."""
        parts = [(each.label, each.suggestion, *each.options) for each in self.fields]
        return [self.question, self.suggestion, *self.options, *(t for part in parts for t in part)]


def check_answer_options(kind: AnswerKind, options: list[str]) -> None:
    """Raise ValueError unless a choice has at least two different options, and other kinds none."""
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


AnswerValues = dict[str, Any]  # JSON values by field
MAX_ANSWER_CHARS = 2_000  # of an answer in words
MAX_DECIMAL_PLACES = 6  # of an answer that is a number


def build_answer_form_tool(question: AskPerson) -> Tool[Any]:
    """Return a tool whose arguments are the answer to this question; the tool is never called."""
    return _build_cached_form(question.model_dump_json())


def build_suggested_answers(question: AskPerson) -> AnswerValues:
    """Return the answers that the agent suggests, by field; ValueError for one of a wrong kind."""
    answers: AnswerValues = {}
    for number, field in enumerate(question.list_answer_fields()):
        if not field.suggestion:
            continue
        kind: TypeAdapter[Any] = TypeAdapter(_get_answer_type(field))
        try:
            answers[_answer_field_name(number)] = to_jsonable_python(
                kind.validate_python(field.suggestion)
            )
        except ValidationError as error:
            raise ValueError(f"the suggestion for {field.label!r} is no {field.kind}") from error
    return answers


def normalise_answer_if_valid(question: AskPerson, answer: AnswerValues) -> AnswerValues | None:
    """Return the given answers as JSON values of the fields' types; None if they do not fit."""
    try:
        found: BaseModel = build_answer_form_tool(question).arguments.model_validate_json(
            json.dumps(answer)
        )
    except ValidationError:
        return None
    return found.model_dump(mode="json")


def build_single_field_answer(value: Any) -> AnswerValues:
    """Return the answer values, by field, of a form with one field."""
    return {_answer_field_name(0): value}


def _answer_field_name(number: int) -> str:
    return f"a{number}"


@lru_cache(maxsize=64)
def _build_cached_form(question: str) -> Tool[Any]:
    """Return a tool whose arguments are the answer, so it is checked as edited arguments are."""
    answer_fields = AskPerson.model_validate_json(question).list_answer_fields()
    fields: dict[str, Any] = {
        _answer_field_name(number): _build_field(each) for number, each in enumerate(answer_fields)
    }
    model: type[BaseModel] = create_model("AnswerForm", **fields)
    return Tool(
        name="answer",
        title="Answer",
        effect="Answer",
        does=Effect.READ,
        arguments=model,
        function=ASK_PERSON.function,
    )


def _build_field(asked: AnswerField) -> tuple[Any, Any]:
    kind = _get_answer_type(asked)
    if asked.optional:
        return kind | None, Field(None, title=asked.label)
    return kind, Field(title=asked.label)


def _check_decimal_places(value: Decimal) -> Decimal:
    """Return the number; raise an error if it has more than six decimals."""
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > MAX_DECIMAL_PLACES:
        raise PydanticKnownError("decimal_max_places", {"decimal_places": MAX_DECIMAL_PLACES})
    return value


def _get_answer_type(field: AnswerField) -> Any:
    match field.kind:
        case AnswerKind.NUMBER:
            return Annotated[Decimal, Field(max_digits=18), AfterValidator(_check_decimal_places)]
        case AnswerKind.CHOICE:
            return Literal[tuple(field.options)]
        case AnswerKind.YES_NO:
            return bool
        case AnswerKind.DATE:
            return date
        case AnswerKind.PERSON:
            return PersonId
        case AnswerKind.CHANNEL:
            return ChannelId
        case _:
            text = StringConstraints(
                strip_whitespace=True, min_length=1, max_length=MAX_ANSWER_CHARS
            )
            return Annotated[str, text]
