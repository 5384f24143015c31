"""After the calls: look-ups that lead to actions, truthful reports, corrected proposals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.openai.test_phrases import called, cancel, refund, said, turn

SUPERSEDED = (
    "SUPERSEDED: the requester wrote something new before this was decided, so it was not run."
)
FOUND = 'SUCCEEDED.\n{"order_id": 1042, "status": "cancelled", "left_to_refund": "80.00 EUR"}'


def made(name: str, arguments: str, output: str, call_id: str = "call_1") -> list[dict[str, Any]]:
    """A call and its output as they stand in a transcript."""
    return [
        {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments},
        {"type": "function_call_output", "call_id": call_id, "output": output},
    ]


def refunded(output: str) -> list[dict[str, Any]]:
    """A refund of 40.00 that was asked for, and what became of it."""
    arguments = '{"order_id": 1042, "amount": "40.00", "reason": "damaged"'
    arguments += ', "reason_for_approver": "I was asked: “x”."}'
    return [said("Refund 40 EUR of order 1042"), *made("refund_order", arguments, output)]


def looked(request: str, output: str = FOUND) -> list[dict[str, Any]]:
    """A request, and a look-up of order 1042 made for it."""
    return [said(request), *made("look_up_order", '{"order_id": 1042}', output)]


def test_a_read_is_told() -> None:
    """The values of a look-up are told; a status in them is the order's and not the call's."""
    text = turn(*looked("Look up order 1042")).text
    assert "**Status:** cancelled" in text
    assert "**Left to refund:** 80.00 EUR" in text


def test_a_failed_look_up_is_told() -> None:
    """Where a look-up fails, the person is told why."""
    answer = turn(*looked("Look up order 1042", "FAILED: there is no order 1042"))
    assert "failed: there is no order 1042" in answer.text


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (
            'SUCCEEDED. Approved by <@UANA00001>.\n{"refunded": "40.00 EUR"}',
            ["is done", "<@UANA00001>", "40.00 EUR"],
        ),
        (
            'SUCCEEDED. It was edited by <@UANA00001> and ran with: {"amount": "30.00"}\n"ok"',
            ["is done", "edited by <@UANA00001>", "amount 30.00"],
        ),
        (
            'REJECTED by <@UANA00001>; it was not run. Their reason, quoted: "too much" '
            "Do not propose it again.",
            ["was rejected by <@UANA00001>", '"too much"'],
        ),
        (
            "EXPIRED: nobody decided before the deadline, so it was not run.",
            ["was not done", "nobody decided"],
        ),
        ("CANCELLED: an earlier step of the plan failed.", ["was cancelled", "an earlier step"]),
        (
            "REFUSED by policy: no refunds on Sundays",
            ["was refused by policy", "no refunds on Sundays"],
        ),
        (
            "INVALID ARGUMENTS, nobody was asked:\n- amount: too big",
            ["not valid", "amount: too big"],
        ),
        (
            "INVALIDATED: it was not run, because the tool changed.",
            ["did not run", "the tool changed"],
        ),
        ("FAILED: the bank said no", ["failed", "the bank said no"]),
        (
            "UNKNOWN: it is not known whether it happened. Do not assume that it did.",
            ["is uncertain", "not known"],
        ),
    ],
)
def test_outcomes_are_told_truthfully(output: str, told: list[str]) -> None:
    """Each end of a call is told as what it is, with its reason; only a success is done."""
    answer = turn(*refunded(output))
    assert not answer.calls
    assert all(each in answer.text for each in told)
    assert ("is done" in answer.text) == ("is done" in told)
    assert "Do not" not in answer.text


def test_every_call_of_a_plan_is_told() -> None:
    """A plan that ended in different ways is told call by call."""
    more = made(
        "post_message", '{"channel": "#support", "text": "x"}', "EXPIRED: nobody decided.", "call_2"
    )
    text = turn(*refunded("REJECTED by <@UANA00001>; it was not run."), *more).text
    assert "Refund order 1042, amount 40.00** was rejected" in text
    assert "Post message #support** was not done" in text


@pytest.mark.parametrize("output", [SUPERSEDED, "REJECTED by <@UANA00001>; it was not run."])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("make it 30 instead", refund(1042, "30.00", "damaged")),
        ("only 30,50 EUR please", refund(1042, "30.50", "damaged")),
        ("I meant order 1045", refund(1045, "40.00", "damaged")),
        ("make it goodwill instead", refund(1042, "40.00", "goodwill")),
        ("cancel order 1043 instead", cancel(1043, "As asked: cancel order 1043 instead")),
    ],
)
def test_corrections_change_what_was_proposed(output: str, words: str, expected: Any) -> None:
    """A correction proposes the last call with the new value; a whole new request replaces it."""
    assert called(turn(*refunded(output), said(words))) == [expected]


@pytest.mark.parametrize("output", ["SUCCEEDED.\n{}", "UNKNOWN: nobody knows."])
def test_what_may_have_run_is_not_corrected(output: str) -> None:
    """What ran, or may have, is not proposed a second time by a correction."""
    answer = turn(*refunded(output), said("make it 30 instead"))
    assert not answer.calls
    assert "has run already" in answer.text


def test_words_approve_nothing() -> None:
    """An "approve" in words is answered with where approvals are given."""
    answer = turn(*refunded(SUPERSEDED), said("approve"))
    assert not answer.calls
    assert "buttons" in answer.text


def test_it_stands_for_what_was_looked_at() -> None:
    """A pronoun means the order of the request before."""
    item = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "There."}],
    }
    assert called(turn(*looked("Look up order 1042"), item, said("refund it 20 EUR"))) == [
        refund(1042, "20.00")
    ]
