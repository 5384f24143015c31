"""What the stand-in asks for instead of guessing, and what it suggests."""

from __future__ import annotations

import pytest

from bot.demo import demo
from bot.demo.model_turns import plan_turn
from bot.demo.order_phrases import SENTENCE_BY_REASON
from bot.slack import presence
from tests.demo.model.test_phrases import build_user_item, list_valid_calls, plan, refund
from tests.demo.model.tools import WRITES, build_tool_schemas

EXAMPLES = [
    "- `Refund 15 EUR of order 1042, the mug was chipped`",
    "- `Look up order 1042`",
    "- `Cancel order 1043, the customer changed her mind`",
]
LOST = [
    "sing me a song",
    "delete order 1042",
    "email Ana",
    "don't put Ana on duty",
    "do not cancel order 1043",
    "search orders of Mara",
    "cancel orders 1043 and 1044",
    "refund 15 EUR of order 1042 and 1045",
    "refund order 1042 by 40 USD",
]


@pytest.mark.parametrize("words", ["hi", "help", "What can you do?", "", *LOST])
def test_small_talk_is_answered_with_examples(words: str) -> None:
    """Greetings and what it cannot read get two lines and three requests to copy.

    Nothing is proposed.
    """
    answer = plan(build_user_item(words))
    assert not answer.calls
    first, gap, second, *examples, _, forms = answer.text.splitlines()
    assert first.endswith("I am the offline stand-in planner, not a language model.")
    assert ("I did not understand that, or have no tool for it." in first) == (words in LOST)
    assert gap == ""  # Markdown would join the lines otherwise
    assert second == "Copy one of these and change it:"
    assert examples == EXAMPLES
    assert "a form for each tool" in forms


def test_without_the_shop_the_given_tools_are_named() -> None:
    """Its three examples would not work then."""
    tools = [
        each for each in build_tool_schemas() if each["name"] in ("put_on_duty", "create_channel")
    ]
    answer = plan_turn({"model": "gpt-5", "tools": tools, "input": [build_user_item("hi")]})
    assert answer.text.splitlines()[2:] == ["I can create channel, put on duty."]


@pytest.mark.parametrize(
    "words",
    [
        *(prompt["message"] for prompt in presence.SUGGESTED_PROMPTS),
        *(words for _, words in demo.SUGGESTED_PROMPTS),
        *(words.strip("- `") for words in EXAMPLES),
    ],
)
def test_every_suggested_request_becomes_calls(words: str) -> None:
    """The approver's reason does not repeat the request."""
    answer = plan(build_user_item(words))
    assert list_valid_calls(answer)
    name, arguments = answer.calls[0]
    assert isinstance(arguments, dict)
    reason = arguments.get("reason_for_approver", "")
    assert ("reason_for_approver" in arguments) == (name in WRITES)
    assert (reason in SENTENCE_BY_REASON.values()) == (name == "refund_order")
    assert not reason or reason not in words
    assert arguments.get("reason") != "other"


@pytest.mark.parametrize(
    "asked",
    [
        "-5 EUR",
        "−5 EUR",
        "- 5 EUR",
        "minus 5 EUR",
        "-€5",
        "-5",
        "40 USD",
        "USD 40",
        "$40",
        "£40",
        "40 dollars",
        "40 euro cents",
        "40%",
        "10-15 EUR",
        "2 items",
        "15 EUR and 10 EUR",
    ],
)
def test_no_amount_is_made_up(asked: str) -> None:
    """Negative amounts, other currencies and counts become no amount in EUR; it asks."""
    words = f"Refund {asked} of order 1042"
    answer = plan(build_user_item(words))
    assert not answer.calls
    assert "I still need the amount in EUR, above zero." in answer.text
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": answer.text}],
    }
    assert list_valid_calls(plan(build_user_item(words), item, build_user_item("15 EUR"))) == [
        refund(1042, "15.00")
    ]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("refund 15 EUR of order 1042 and email the customer", "email the customer"),
        ("look up order 1042, then delete it", "delete it"),
        ("archive the thread and cancel order 1043", "archive the thread"),
        (
            "refund 10 EUR of order 1042 and 20 EUR of order 1044, and cancel order 1043",
            "refund 10 EUR of order 1042 and 20 EUR of order 1044",
        ),
    ],
)
def test_no_part_of_a_request_is_ignored(words: str, left: str) -> None:
    """The part that fits no tool is named, and the rest is not done either."""
    answer = plan(build_user_item(words))
    assert not answer.calls
    assert f"I did not understand “{left}”, or have no tool for it, so I did" in answer.text
