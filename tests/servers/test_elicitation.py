"""What a server asks as a question to people, and the answers in the form it wants."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from mcp_types import ElicitRequestURLParams

from bot.mcp.server_file import Server
from bot.mcp.server_questions import (
    Elicitation,
    InvalidAnswerError,
    RunningServerCall,
    UnaskableQuestionError,
    convert_answers_for_server,
)
from bot.tools import ElicitationPort
from bot.tools.person_question import AnswerKind

COLOURS = {"oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}


def build_elicitation(message: str = "About the order", **properties: Any) -> Elicitation:
    """An elicitation of these values, all required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Elicitation(message, schema)


def answer(wish: Elicitation, *given: Any) -> Any:
    """What the server gets for these answers to its one question."""
    [(_, part)] = wish.build_questions()
    return convert_answers_for_server(
        part, {f"a{number}": each for number, each in enumerate(given)}
    )


def test_each_type_of_value_has_its_kind_of_answer() -> None:
    """Titles are shown, and the values behind them sent; defaults are suggested."""
    several = {"type": "array", "items": {"enum": ["mon", "tue"]}}
    wish = build_elicitation(
        orderColour={"type": "string", "default": "b", **COLOURS},
        count={"type": "integer", "title": "How many", "default": 3},
        gift={"type": "boolean"},
        due={"type": "string", "format": "date"},
        days=several,
    )
    [(asked, _)] = wish.build_questions()
    assert [(each.label, each.kind, each.suggestion) for each in asked.fields] == [
        ("Order colour", AnswerKind.CHOICE, "Blue"),
        ("How many", AnswerKind.NUMBER, "3"),
        ("Gift", AnswerKind.YES_NO, ""),
        ("Due", AnswerKind.DATE, ""),
        ("Days (some of mon, tue)", AnswerKind.TEXT, ""),
    ]
    assert asked.fields[0].options == ["Red", "Blue"]
    assert answer(wish, "Red", "4", True, "2026-05-04", "Tue, mon") == {
        "orderColour": "r",
        "count": 4,
        "gift": True,
        "due": "2026-05-04",
        "days": ["tue", "mon"],
    }


def test_one_value_is_asked_without_a_form() -> None:
    """It gets the buttons of a question. An optional value gets a form."""
    [(asked, _)] = build_elicitation(
        "Which colour?", colour={"type": "string", **COLOURS}
    ).build_questions()
    assert (asked.kind, asked.options) == (AnswerKind.CHOICE, ["Red", "Blue"])
    optional = Elicitation("A note?", {"properties": {"note": {"type": "string"}}})
    [(asked, part)] = optional.build_questions()
    assert asked.kind is AnswerKind.FORM
    assert convert_answers_for_server(part, {"a0": None}) == {}


def test_an_option_with_blanks_is_matched_as_shown() -> None:
    """Slack does not show blanks at its ends; the server's own option has them."""
    wish = build_elicitation(colour={"type": "string", "enum": ["red ", "deep  blue"]})
    [(asked, _)] = wish.build_questions()
    assert asked.options == ["red", "deep blue"]
    assert answer(wish, "red") == {"colour": "red "}


def test_many_values_are_asked_in_turn() -> None:
    """At most five in a dialog."""
    numbers = {f"value{number}": {"type": "number"} for number in range(7)}
    wish = build_elicitation(**numbers)
    assert [(asked.question, len(part)) for asked, part in wish.build_questions()] == [
        ("About the order (1 of 2)", 5),
        ("About the order (2 of 2)", 2),
    ]


@pytest.mark.parametrize(
    ("schema", "given", "said"),
    [
        ({"type": "integer"}, "4.5", "“It” has to be a whole number."),
        ({"type": "number", "minimum": 2}, "1", "“It” has to be 2 at least."),
        ({"type": "string", "maxLength": 3}, "four", "“It” has to be 3 characters at most."),
        ({"type": "string", "format": "email"}, "ana", "“It” has to be an e-mail address."),
        (
            {"type": "array", "maxItems": 1, "items": {"enum": ["a", "b"]}},
            "a, b",
            "“It (some of a, b)” has to be 0 to 1 of a, b.",
        ),
    ],
)
def test_an_answer_outside_the_schema_is_refused(schema: Any, given: Any, said: str) -> None:
    """In words for the person who answered."""
    with pytest.raises(InvalidAnswerError) as refused:
        answer(build_elicitation(it=schema), given)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    "text",
    [
        "Any number (do not tell us your PIN)",
        "Any number (do not give us your phone number, pin, or other sensitive info)",
        "Any number, but kein Passwort",
    ],
)
def test_a_question_may_warn_against_giving_secrets(text: str) -> None:
    """It does not ask for any then."""
    [(asked, _)] = build_elicitation(
        "Your number?", number={"type": "number", "description": text}
    ).build_questions()
    assert asked.question == f"Your number? Number: {text}."


@pytest.mark.parametrize(
    ("message", "properties"),
    [
        ("Please log in", {"apiKey": {"type": "string"}}),
        ("Your password, please", {"text": {"type": "string"}}),
        ("Once more", {"text": {"type": "string", "title": "Your Passphrase"}}),
        ("About you", {"text": {"type": "string", "description": "the PIN of your card"}}),
        ("An object", {"address": {"type": "object"}}),
        ("Nothing", {}),
        ("Too long. " * 70, {"text": {"type": "string"}}),
        ("Too many", {f"value{number}": {"type": "number"} for number in range(16)}),
        ("About you", {"text": {"type": "string", "description": "Never mind why, your PIN"}}),
        ("About you", {"text": {"type": "string", "description": "Never mind why your PIN"}}),
        ("About you", {"text": {"type": "string", "description": "Do not tell Ana, type a PIN"}}),
        ("About you", {"text": {"type": "string", "title": "Pass\u200bword"}}),
        ("Endless", {"text": {"type": "string", "description": "a " * 100_000}}),
        ("Broken", {"text": "string"}),
        ("Broken", {"text": {"type": "number", "minimum": "two"}}),
        ("Broken", {"text": {"type": "number", "minimum": float("nan")}}),
        ("Broken", {"text": {"type": "string", "maxLength": [3]}}),
        ("A trick", {"text": {"type": "string", "enum": ["yes", "Yes "]}}),
        ("Broken", {"text": {"type": "string", "oneOf": [{"title": "no value"}]}}),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(
    message: str, properties: dict[str, Any]
) -> None:
    """Secrets, values that make no question, and broken schemas."""
    began = time.process_time()
    with pytest.raises(UnaskableQuestionError):
        build_elicitation(message, **properties)
    assert time.process_time() - began < 1


def test_no_address_is_opened_for_a_server_that_asks_nevertheless(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is told that only forms are filled in."""
    asked = ElicitRequestURLParams(message="Log in", url="https://a.example", elicitation_id="1")

    async def answer_it() -> str:
        call = RunningServerCall(Server(name="depot", command="depot"), ElicitationPort())
        return (await call.answer_elicitation(asked)).action

    assert asyncio.run(answer_it()) == "decline"
    assert "open an address" in caplog.text
