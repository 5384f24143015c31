"""What a server wants to know, as a question; and the answers, as it wants them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bot.mcp.server_questions import (
    Elicitation,
    InvalidAnswerError,
    UnaskableQuestionError,
    convert_answers_for_server,
)
from bot.tools.person_question import AnswerKind

COLOURS = {"oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}


def wants(message: str = "About the order", **properties: Any) -> Elicitation:
    """A wish for these values, all required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Elicitation(message, schema)


def answered(wish: Elicitation, *given: Any) -> Any:
    """What the server is given for these answers to its one question."""
    [(_, part)] = wish.build_questions()
    return convert_answers_for_server(
        part, {f"a{number}": each for number, each in enumerate(given)}
    )


def test_each_kind_of_value_has_its_kind_of_answer() -> None:
    """Titles are shown, and what stands for them is sent; defaults are suggested."""
    several = {"type": "array", "items": {"enum": ["mon", "tue"]}}
    wish = wants(
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
    assert answered(wish, "Red", "4", True, "2026-05-04", "Tue, mon") == {
        "orderColour": "r",
        "count": 4,
        "gift": True,
        "due": "2026-05-04",
        "days": ["tue", "mon"],
    }


def test_one_value_is_asked_without_a_form() -> None:
    """It has the buttons that a question has; what may be left out is asked with one."""
    [(asked, _)] = wants("Which colour?", colour={"type": "string", **COLOURS}).build_questions()
    assert (asked.kind, asked.options) == (AnswerKind.CHOICE, ["Red", "Blue"])
    optional = Elicitation("A note?", {"properties": {"note": {"type": "string"}}})
    [(asked, part)] = optional.build_questions()
    assert asked.kind is AnswerKind.FORM
    assert convert_answers_for_server(part, {"a0": None}) == {}


def test_an_option_is_read_as_it_is_shown() -> None:
    """Blanks at its ends are not seen in Slack, and are the server's own."""
    wish = wants(colour={"type": "string", "enum": ["red ", "deep  blue"]})
    [(asked, _)] = wish.build_questions()
    assert asked.options == ["red", "deep blue"]
    assert answered(wish, "red") == {"colour": "red "}


def test_many_values_are_asked_in_turn() -> None:
    """Five at most in one dialog."""
    numbers = {f"value{number}": {"type": "number"} for number in range(7)}
    wish = wants(**numbers)
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
def test_what_the_server_does_not_take_is_said(schema: Any, given: Any, said: str) -> None:
    """In words for whoever answered."""
    with pytest.raises(InvalidAnswerError) as refused:
        answered(wants(it=schema), given)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    "text",
    [
        "Any number (do not tell us your PIN)",
        "Any number (do not give us your phone number, pin, or other sensitive info)",
        "Any number, but kein Passwort",
    ],
)
def test_a_server_may_warn_of_secrets(text: str) -> None:
    """Who says that none are wanted wants none."""
    [(asked, _)] = wants(
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
def test_what_nobody_is_asked(message: str, properties: dict[str, Any]) -> None:
    """Secrets, what cannot be put as a question, and what is no wish at all."""
    began = time.process_time()
    with pytest.raises(UnaskableQuestionError):
        wants(message, **properties)
    assert time.process_time() - began < 1
