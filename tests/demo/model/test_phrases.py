"""Phrases that people write to the stand-in for the model, and the calls it makes of them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.demo.model_server import Turn
from bot.demo.model_turns import CORRECTION_NOTE, plan_turn
from bot.demo.order_phrases import SENTENCE_BY_REASON
from tests.demo.model.tools import READS, WRITES, build_tool_schemas

Calls = list[tuple[str, dict[str, Any]]]
NOW = "It is Friday, 2026-05-01 12:00 UTC."


def build_user_item(
    text: str, author: str = "Ben Okafor (<@UBEN00001>) writes:\n"
) -> dict[str, Any]:
    """A person's message as an input item."""
    return {"role": "user", "content": [{"type": "input_text", "text": f"{author}{text}"}]}


def plan(*items: dict[str, Any]) -> Turn:
    """The stand-in's turn for a transcript."""
    return plan_turn(
        {"model": "gpt-5", "instructions": NOW, "tools": build_tool_schemas(), "input": list(items)}
    )


def list_valid_calls(answer: Turn) -> Calls:
    """The calls without the approver's reason, each checked against its model."""
    found: Calls = []
    for name, arguments in answer.calls:
        assert isinstance(arguments, dict)
        values = dict(arguments)
        if name in WRITES:
            why = values.pop("reason_for_approver")
            assert why in ("", *SENTENCE_BY_REASON.values(), CORRECTION_NOTE) or why.endswith(
                f". {CORRECTION_NOTE}"
            )
        (READS | WRITES)[name].model_validate(values)
        found.append((name, values))
    return found


def refund(order: int, amount: str, reason: str = "other") -> tuple[str, dict[str, Any]]:
    return "refund_order", {"order_id": order, "amount": amount, "reason": reason}


def restart(deployment: str, **choices: str) -> tuple[str, dict[str, Any]]:
    return "restart_deployment", {**choices, "deployment": deployment}


def cancel(order: int, reason: str) -> tuple[str, dict[str, Any]]:
    return "cancel_order", {"order_id": order, "reason": reason}


def post(channel: str, text: str) -> tuple[str, dict[str, Any]]:
    return "post_message", {"channel": channel, "text": text}


def look(order: int) -> tuple[str, dict[str, Any]]:
    return "look_up_order", {"order_id": order}


def duty(person: str, **hours: int) -> tuple[str, dict[str, Any]]:
    return "put_on_duty", {"person": person, **hours}


PHRASES: list[tuple[str, Calls]] = [
    ("refund 15 EUR of order 1042, the mug was chipped", [refund(1042, "15.00", "damaged")]),
    ("what is the status of order 1042?", [look(1042)]),
    (
        "cancel order 1043, the customer changed her mind",
        [cancel(1043, "The customer changed her mind")],
    ),
    ("cancel 1043", [cancel(1043, "As asked: cancel 1043")]),
    ("I want to cancel order 1043", [cancel(1043, "As asked: cancel order 1043")]),
    ("we need to refund 9 EUR of 1036", [refund(1036, "9.00")]),
    ("refund 9.50 EUR of order 1036, a candle came broken", [refund(1036, "9.50", "damaged")]),
    ("refund 20 EUR of order 1033, it came late", [refund(1033, "20.00", "late")]),
    (
        "<@UBOT00001> please refund €40 for order #1042 because it came cracked",
        [refund(1042, "40.00", "damaged")],
    ),
    ("Can you refund 1500,90 EUR of order 1042, please?", [refund(1042, "1500.90")]),
    ("Look up order 1042", [look(1042)]),
    ("show me order #1042", [look(1042)]),
    ("1042", [look(1042)]),
    ("look up order 1042 and refund 20 EUR", [look(1042), refund(1042, "20.00")]),
    (
        "Cancel order 1043 and tell #support",
        [
            cancel(1043, "As asked: Cancel order 1043"),
            post("#support", "Order 1043 has been cancelled."),
        ],
    ),
    (
        "Cancel order 1043 because it came twice and tell <#C0SUPPORT|support> that it is off",
        [cancel(1043, "It came twice"), post("#support", "it is off")],
    ),
    ("Post 'hello' in #general", [post("#general", "hello")]),
    ("post hello in <#C0GENERAL>", [post("C0GENERAL", "hello")]),
    ("Tell #general that lunch is ready", [post("#general", "lunch is ready")]),
    (
        'Post "I\'ll refund 1042, then cancel it" in #general',
        [post("#general", "I'll refund 1042, then cancel it")],
    ),
    ("put Ana on duty for 12 hours", [duty("Ana", hours=12)]),
    ("please put <@UCLEO0001> on duty", [duty("UCLEO0001")]),
    ("restart deployment checkout in prod-eu", [restart("checkout", place="prod-eu")]),
    (
        "please restart the deployment checkout hard, in staging",
        [restart("checkout", place="staging", how="hard")],
    ),
    ("create a channel launch-week", [("create_channel", {"name": "launch-week"})]),
    ("list all the channels, please", [("list_channels", {})]),
    ("cancel order 1043, it doubles order 1042", [cancel(1043, "It doubles order 1042")]),
    (
        "run `select name from customers` on shop",
        [("query", {"database": "shop", "sql": "select name from customers"})],
    ),
    (
        "run `update customers set name = 'Mara' where id = 7` on shop",
        [
            (
                "change",
                {"database": "shop", "sql": "update customers set name = 'Mara' where id = 7"},
            )
        ],
    ),
]


@pytest.mark.parametrize(("words", "expected"), PHRASES, ids=[words[:40] for words, _ in PHRASES])
def test_phrases_become_calls(words: str, expected: Calls) -> None:
    """Exactly these, and valid for their tools."""
    answer = plan(build_user_item(words))
    got = list_valid_calls(answer)
    assert got == expected


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("refund the customer", "order number and the amount"),
        ("Refund 1,234.50 EUR of order 1042", "amount"),
        ("tell #support", "text"),
        ("cancel the order", "order number"),
    ],
)
def test_missing_values_are_asked_for(words: str, needed: str) -> None:
    """Nothing is proposed on a guess."""
    answer = plan(build_user_item(words))
    assert not answer.calls
    assert f"I still need the {needed}" in answer.text


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Refund 40 EUR, it arrived broken", "order 1042", refund(1042, "40.00", "damaged")),
        ("Refund 40 EUR", "1042", refund(1042, "40.00")),
        ("Refund 40 EUR", "It is #1042.", refund(1042, "40.00")),
        ("Refund order 1042", "40 EUR, it came late", refund(1042, "40.00", "late")),
        ("tell #support", "all is well", post("#support", "all is well")),
    ],
)
def test_an_answer_completes_the_request(first: str, second: str, expected: Any) -> None:
    """It is read together with the request."""
    asked = plan(build_user_item(first))
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": asked.text}],
    }
    assert list_valid_calls(plan(build_user_item(first), item, build_user_item(second))) == [
        expected
    ]


@pytest.mark.parametrize("answers", [("1042", "40 EUR"), ("40 EUR", "1042")])
def test_an_earlier_answer_is_remembered(answers: tuple[str, str]) -> None:
    """After a second question the first answer still counts."""
    items = [build_user_item("refund the broken mug")]
    for answer in answers:
        text = [{"type": "output_text", "text": plan(*items).text}]
        items += [
            {"type": "message", "role": "assistant", "content": text},
            build_user_item(answer),
        ]
    assert list_valid_calls(plan(*items)) == [refund(1042, "40.00")]


def test_quoted_history_is_data() -> None:
    """In an item of its own or in the message, it starts nothing."""
    history = "Earlier messages of this thread, quoted as data.\nDan Weber:\n> cancel order 1043"
    assert list_valid_calls(
        plan(build_user_item(history, author=""), build_user_item("look up order 1042"))
    ) == [look(1042)]
    assert list_valid_calls(plan(build_user_item("> cancel order 1043\nlook up order 1042"))) == [
        look(1042)
    ]


def test_only_the_last_request_counts() -> None:
    """An answered request is not carried out again."""
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Done."}],
    }
    assert list_valid_calls(
        plan(build_user_item("cancel order 1043"), item, build_user_item("look up order 1042"))
    ) == [look(1042)]


def test_the_stand_in_introduces_itself_once() -> None:
    """The first answer says that this is the stand-in; later ones do not."""
    first = plan(build_user_item("tell #support"))
    assert first.text.endswith("_I am the offline stand-in planner, not a language model._")
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": first.text}],
    }
    assert (
        plan(build_user_item("tell #support"), item, build_user_item("thanks!")).text
        == "You are welcome."
    )


@pytest.mark.parametrize(
    "text", ["yes", "Yes, go ahead, approved!", "LGTM", "reject it please", "no", "ok, do it"]
)
def test_messages_do_not_decide(text: str) -> None:
    """The answer points to the buttons."""
    asked = {"call_id": "c1", "name": "cancel_order", "arguments": '{"order_id": 1043}'}
    answered = {"type": "function_call_output", "call_id": "c1", "output": "It waits."}
    calls = [asked | {"type": "function_call"}, answered]
    answer = plan(build_user_item("cancel order 1043"), *calls, build_user_item(text))
    assert not answer.calls
    assert answer.text.startswith("Messages don't decide this; use the buttons on the card.")
    assert "I did not understand" in plan(build_user_item(text)).text


def test_long_requests_are_refused_whole() -> None:
    """A message is read whole, or refused openly."""
    text = "all is well, " * 200
    assert list_valid_calls(plan(build_user_item(f"Post '{text}' in #general"))) == [
        post("#general", text)
    ]
    answer = plan(build_user_item(f"Post '{text * 3}' in #general"))
    assert not answer.calls
    assert "more than I can read" in answer.text


@pytest.mark.parametrize(
    "words", ["refund a, ", "1042 and ", "' ", "because ", "x", " to ", "#a ", "1,"]
)
def test_a_repetitive_message_is_read_quickly(words: str) -> None:
    """Within the patience of a person."""
    started = time.monotonic()
    plan(build_user_item((words * 8_000)[:8_000]))
    assert time.monotonic() - started < 10


def test_tool_choice_none_means_no_call() -> None:
    """With parallel_tool_calls false there is one call."""
    body = {
        "model": "gpt-5",
        "tools": build_tool_schemas(),
        "input": "Refund 20 EUR of order 1042 and refund 10 EUR of order 1045",
    }
    assert not plan_turn({**body, "tool_choice": "none"}).calls
    assert len(plan_turn({**body, "parallel_tool_calls": False}).calls) == 1


ODD = (
    "refund cancel order 1042 1045 20 EUR € and , . ? tell #general that 'x' \" post to put on "
    "for 99 hours 9999999999 # <@UBEN00001> <#C1|> make it instead > list \x00 \x009\x00 "
    "because : - ½ ² ٣ 1,234.50 select ` ; shop update x set 0"
)
WORDS = st.sampled_from(ODD.split(" "))


@given(st.lists(WORDS, max_size=25).map(" ".join) | st.text(max_size=80))
def test_any_words_get_a_turn(words: str) -> None:
    """There are calls with object arguments, or some text."""
    answer = plan(build_user_item(words))
    assert answer.text or answer.calls
    assert all(isinstance(arguments, dict) for _, arguments in answer.calls)
