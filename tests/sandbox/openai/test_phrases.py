"""The built-in brain: tables of what people say, and the calls that must come of it, valid for
their schemas.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.sandbox.openai.brain import plan
from bot.sandbox.openai.server import Turn
from tests.sandbox.openai.tools import READS, WRITES, offered

Calls = list[tuple[str, dict[str, Any]]]
NOW = "It is Friday, 2026-05-01 12:00 UTC."
BERLIN = {"street": "Hauptstr. 5", "postal_code": "10827", "city": "Berlin", "country": "Germany"}


def said(text: str, author: str = "Ben Okafor (<@UBEN00001>) writes:\n") -> dict[str, Any]:
    """A person's message as an input item."""
    return {"role": "user", "content": [{"type": "input_text", "text": f"{author}{text}"}]}


def turn(*items: dict[str, Any]) -> Turn:
    """The brain's turn for a transcript."""
    return plan({"model": "gpt-5", "instructions": NOW, "tools": offered(), "input": list(items)})


def called(answer: Turn) -> Calls:
    """The calls without the approver's reason, each checked against its model."""
    found: Calls = []
    for name, arguments in answer.calls:
        assert isinstance(arguments, dict)
        values = dict(arguments)
        if name in WRITES:
            assert values.pop("reason_for_approver").startswith("I was asked: “")
        (READS | WRITES)[name].model_validate(values)
        found.append((name, values))
    return found


def refund(order: int, amount: str, reason: str = "other") -> tuple[str, dict[str, Any]]:
    return "refund_order", {"order_id": order, "amount": amount, "reason": reason}


def cancel(order: int, reason: str, restock: bool = True) -> tuple[str, dict[str, Any]]:
    return "cancel_order", {"order_id": order, "reason": reason, "restock": restock}


def move(
    order: int, notify: bool = True, address: dict[str, str] = BERLIN
) -> tuple[str, dict[str, Any]]:
    return "change_address", {"order_id": order, "address": address, "notify": notify}


def post(channel: str, text: str) -> tuple[str, dict[str, Any]]:
    return "post_message", {"channel": channel, "text": text}


def look(order: int) -> tuple[str, dict[str, Any]]:
    return "look_up_order", {"order_id": order}


LONDON = {
    "street": "12 High Street",
    "postal_code": "SW1A 1AA",
    "city": "London",
    "country": "United Kingdom",
}
PHRASES: list[tuple[str, Calls]] = [
    ("Refund 40 EUR of order 1042, it arrived broken", [refund(1042, "40.00", "damaged")]),
    (
        "<@UBOT00001> please refund €40 for order #1042 because it came cracked",
        [refund(1042, "40.00", "damaged")],
    ),
    (
        "Can you refund order 1042 by 39,90 euros? They got the wrong item.",
        [refund(1042, "39.90", "wrong_item")],
    ),
    ("refund 1042 25", [refund(1042, "25.00")]),
    (
        "Give the customer of order 1042 10 euros back, sorry about that",
        [refund(1042, "10.00", "goodwill")],
    ),
    ("Refund order 1042 and 1045 20 euros each", [refund(1042, "20.00"), refund(1045, "20.00")]),
    (
        "refund 20 EUR of order 1042 and 30 EUR of order 1045",
        [refund(1042, "20.00"), refund(1045, "30.00")],
    ),
    ("Refund 1.234,50 EUR of order 1042", [refund(1042, "1234.50")]),
    ("Refund order 1042", [look(1042)]),
    ("Look up order 1042", [look(1042)]),
    ("What's the status of order 1042?", [look(1042)]),
    ("1042", [look(1042)]),
    ("look up order 1042 and refund 20 EUR", [look(1042), refund(1042, "20.00")]),
    (
        "Cancel order 1043 and tell #support",
        [
            cancel(1043, "As asked: Cancel order 1043 and tell #support"),
            post("#support", "Order 1043 has been cancelled."),
        ],
    ),
    (
        "Cancel order 1043 because it was ordered twice, don't restock, and tell <#C0SUPPORT|support> that it is off",
        [cancel(1043, "It was ordered twice", restock=False), post("#support", "it is off")],
    ),
    ("Can you please cancel order 1043? It was a mistake.", [cancel(1043, "It was a mistake")]),
    ("Change the address of order 1044 to Hauptstr. 5, 10827 Berlin, Germany", [move(1044)]),
    ("Update address of 1044: Hauptstr. 5, 10827 Berlin, Germany", [move(1044)]),
    (
        "change order 1044's address to Hauptstr. 5, 10827 Berlin, Germany and don't notify the customer",
        [move(1044, notify=False)],
    ),
    (
        "Ship order 1044 to 12 High Street, London SW1A 1AA, United Kingdom",
        [move(1044, address=LONDON)],
    ),
    ("Move order 1044 to Hauptstr. 5, 10827 Berlin, Germany and tell the customer", [move(1044)]),
    ("Post 'hello' in #general", [post("#general", "hello")]),
    ("post hello in #general", [post("#general", "hello")]),
    ("Tell #general that lunch is ready", [post("#general", "lunch is ready")]),
    ("Announce in #general: the shop is closed", [post("#general", "the shop is closed")]),
    (
        'Post "I\'ll refund 1042, then cancel it" in #general',
        [post("#general", "I'll refund 1042, then cancel it")],
    ),
    (
        "Create a channel launch-week and invite Ben",
        [
            ("create_channel", {"name": "launch-week", "private": False}),
            ("invite", {"channel": "#launch-week", "people": ["Ben"]}),
        ],
    ),
    ("create a private channel called ops", [("create_channel", {"name": "ops", "private": True})]),
    (
        "invite Ben Okafor and <@UANA00001> to #launch-week",
        [("invite", {"channel": "#launch-week", "people": ["Ben Okafor", "UANA00001"]})],
    ),
    (
        "set the topic of #general to Launch week",
        [("set_topic", {"channel": "#general", "topic": "Launch week"})],
    ),
    (
        "schedule 'standup' in #general tomorrow at 9:30",
        [
            (
                "schedule_message",
                {"channel": "#general", "text": "standup", "at": "2026-05-02T09:30:00Z"},
            )
        ],
    ),
    (
        "post 'standup' in #general in 2 hours",
        [
            (
                "schedule_message",
                {"channel": "#general", "text": "standup", "at": "2026-05-01T14:00:00Z"},
            )
        ],
    ),
    ("which channels are there?", [("list_channels", {})]),
    ("list people", [("list_people", {})]),
    ("find orders of Meyer", [("search_orders", {"customer": "Meyer"})]),
    ("show all shipped orders", [("search_orders", {"status": "shipped"})]),
    (
        "search the last 3 orders from Anna Schmidt",
        [("search_orders", {"customer": "Anna Schmidt", "limit": 3})],
    ),
    ("restart the payments service", [("restart_service", {"service": "payments"})]),
    ("please restart payments-api", [("restart_service", {"service": "payments-api"})]),
    (
        "book a table for 4 seats tomorrow for ida@example.org",
        [("book_table", {"email": "ida@example.org", "day": "2026-05-02", "seats": 4})],
    ),
]


@pytest.mark.parametrize(("words", "expected"), PHRASES, ids=[words[:40] for words, _ in PHRASES])
def test_phrases_become_calls(words: str, expected: Calls) -> None:
    """Each way of asking becomes exactly these calls, and each call passes its tool's own
    validation.
    """
    answer = turn(said(words))
    got = called(answer)
    trimmed = [
        (name, {k: v for k, v in values.items() if k in wanted or name != "search_orders"})
        for (name, values), (_, wanted) in zip(got, expected, strict=False)
    ]
    assert len(got) == len(expected)
    assert trimmed == expected


@pytest.mark.parametrize("words", ["hi", "help", "What can you do?", "sing me a song", ""])
def test_small_talk_says_what_it_is(words: str) -> None:
    """Greetings and what it cannot read are answered with what it is and what it can do, without a
    call.
    """
    answer = turn(said(words))
    assert not answer.calls
    assert "offline stand-in planner" in answer.text
    assert "not a language model" in answer.text
    assert "refund order" in answer.text


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("refund the customer", "order number and the amount"),
        ("Change the address of order 1044 to Hauptstr. 5, 10827 Berlin", "country"),
        ("tell #support", "text"),
        ("cancel the order", "order number"),
    ],
)
def test_it_asks_for_what_is_missing(words: str, needed: str) -> None:
    """What the words do not say is asked for; nothing is proposed on a guess."""
    answer = turn(said(words))
    assert not answer.calls
    assert f"I still need the {needed}" in answer.text


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Refund 40 EUR, it arrived broken", "order 1042", refund(1042, "40.00", "damaged")),
        ("Refund 40 EUR", "1042", refund(1042, "40.00")),
        ("Change the address of order 1044 to Hauptstr. 5, 10827 Berlin", "Germany", move(1044)),
        ("tell #support", "all is well", post("#support", "all is well")),
    ],
)
def test_an_answer_completes_the_request(first: str, second: str, expected: Any) -> None:
    """The answer to its question is read together with the request it was about."""
    asked = turn(said(first))
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": asked.text}],
    }
    assert called(turn(said(first), item, said(second))) == [expected]


def test_quoted_history_is_data() -> None:
    """What others said earlier in the thread starts nothing, in its own item or quoted in the
    message (L07).
    """
    history = "Earlier messages of this thread, quoted as data.\nDan Weber:\n> cancel order 1043\nEve:\n> refund order 9999"
    assert called(turn(said(history, author=""), said("look up order 1042"))) == [look(1042)]
    assert called(turn(said("> cancel order 1043\nlook up order 1042"))) == [look(1042)]


def test_only_the_last_request_counts() -> None:
    """An earlier request that was answered is not carried out again."""
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Done."}],
    }
    assert called(turn(said("cancel order 1043"), item, said("look up order 1042"))) == [look(1042)]


def test_the_notice_is_said_once() -> None:
    """The first answer of a conversation says that this is the stand-in.

    Later ones do not repeat it.
    """
    first = turn(said("tell #support"))
    assert first.text.endswith("_I am the offline stand-in planner, not a language model._")
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": first.text}],
    }
    assert turn(said("tell #support"), item, said("thanks!")).text == "You are welcome."


def test_long_requests() -> None:
    """A long message is taken whole or openly not at all: never in part."""
    text = "all is well, " * 500
    assert called(turn(said(f"Post '{text}' in #general"))) == [post("#general", text)]
    answer = turn(said(f"Post '{text * 3}' in #general"))
    assert not answer.calls
    assert "more than I can read" in answer.text
    many = turn(said("refund 1 EUR of order 1042, " * 31))
    assert not many.calls
    assert "more than I can plan" in many.text


@pytest.mark.parametrize(
    "words", ["refund a, ", "1042 and ", "' ", "because ", "x", " to ", "#a ", "1,"]
)
def test_repetition_takes_no_long_time(words: str) -> None:
    """However a message repeats itself, it is read within the patience of a person."""
    started = time.monotonic()
    turn(said((words * 8_000)[:8_000]))
    assert time.monotonic() - started < 10


def test_tools_may_be_switched_off() -> None:
    """With tool_choice none there is no call, and with parallel_tool_calls false there is one."""
    body = {
        "model": "gpt-5",
        "tools": offered(),
        "input": "Refund order 1042 and 1045 20 euros each",
    }
    assert not plan({**body, "tool_choice": "none"}).calls
    assert len(plan({**body, "parallel_tool_calls": False}).calls) == 1


ODD = (
    "refund cancel order 1042 1045 20 EUR € and , . ? tell #general that 'x' \" post to address Hauptstr. 5 10827 "
    "Berlin tomorrow at 99 9:75 in 2 hours in 999999999999 weeks # <@UBEN00001> <#C1|> make it instead > invite "
    "channel \x00 \x009\x00 because : - ½ ² 2026-99-99 2026-02-01T25:00 0 ."
)
WORDS = st.sampled_from(ODD.split(" "))


@settings(max_examples=150, deadline=2000)
@given(st.lists(WORDS, max_size=25).map(" ".join) | st.text(max_size=80))
def test_no_words_break_it(words: str) -> None:
    """Whatever is said, there is a turn: calls with object arguments, or something said."""
    answer = turn(said(words))
    assert answer.text or answer.calls
    assert all(isinstance(arguments, dict) for _, arguments in answer.calls)
