"""A question's answer as arguments: what has to be filled in, read and checked as arguments are.

Pure. A single answer is a form of one field.
"""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticKnownError, to_jsonable_python

from bot.tools import Effect, Tool
from bot.tools.people.question import ASK_PERSON, AnswerField, AnswerKind, AskPerson

Given = dict[str, Any]  # JSON values by field
MOST_TEXT = 2_000  # characters of an answer in words
MOST_PLACES = 6  # decimals of an answer in numbers


def form_of(question: AskPerson) -> Tool[Any]:
    """Return the question as a tool whose arguments are its answer; nobody calls it."""
    return _form(question.model_dump_json())


def suggested(question: AskPerson) -> Given:
    """Return what the agent suggests; ValueError where that is no such value."""
    found: Given = {}
    for number, asked in enumerate(question.asked_fields()):
        if not asked.suggestion:
            continue
        kind: TypeAdapter[Any] = TypeAdapter(_kind_of(asked))
        try:
            found[_name(number)] = to_jsonable_python(kind.validate_python(asked.suggestion))
        except ValidationError as error:
            raise ValueError(f"the suggestion for {asked.label!r} is no {asked.kind}") from error
    return found


def checked(question: AskPerson, given: Given) -> Given | None:
    """Return these values as the question's fields have them; None where they do not fit."""
    try:
        found: BaseModel = form_of(question).arguments.model_validate_json(json.dumps(given))
    except ValidationError:
        return None
    return found.model_dump(mode="json")


def one_value(value: Any) -> Given:
    """Return the values of an answer that is one value."""
    return {_name(0): value}


def _name(number: int) -> str:
    return f"a{number}"


@lru_cache(maxsize=64)
def _form(question: str) -> Tool[Any]:
    """The question as a tool whose arguments are its answer, so that it is read as an edit is."""
    asked = AskPerson.model_validate_json(question).asked_fields()
    fields: dict[str, Any] = {_name(number): _field(each) for number, each in enumerate(asked)}
    model: type[BaseModel] = create_model("AnswerForm", **fields)
    return Tool(
        name="answer",
        title="Answer",
        effect="Answer",
        does=Effect.READ,
        arguments=model,
        function=ASK_PERSON.function,
    )


def _field(asked: AnswerField) -> tuple[Any, Any]:
    kind = _kind_of(asked)
    if asked.optional:
        return kind | None, Field(None, title=asked.label)
    return kind, Field(title=asked.label)


def _of_few_places(value: Decimal) -> Decimal:
    """Refuse more than six decimals; a number is told with as many as were given, and not six."""
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > MOST_PLACES:
        raise PydanticKnownError("decimal_max_places", {"decimal_places": MOST_PLACES})
    return value


def _kind_of(asked: AnswerField) -> Any:
    match asked.kind:
        case AnswerKind.NUMBER:
            return Annotated[Decimal, Field(max_digits=18), AfterValidator(_of_few_places)]
        case AnswerKind.CHOICE:
            return Literal[tuple(asked.options)]
        case AnswerKind.YES_NO:
            return bool
        case AnswerKind.DATE:
            return date
        case _:
            text = StringConstraints(strip_whitespace=True, min_length=1, max_length=MOST_TEXT)
            return Annotated[str, text]
