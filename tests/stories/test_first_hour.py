"""A newcomer's first hour with the demo; every line that they see is checked for readable words.
Set COUNTERSIGN_FIRST_HOUR to a file to read it all yourself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bot.demo.demo import start_demo
from tests.model_stand_in.planner import StrictPlanner
from tests.stories.first_hour import FINANCE, SUPPORT, Hour, because, typed


@pytest.fixture(scope="module")
def demo_hour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hour]:
    """The demo as `make demo` starts it, with its two days of history."""
    with ExitStack() as stack:
        hour = Hour(start_demo(stack, tmp_path_factory.mktemp("hour"), 0, {}, StrictPlanner))
        yield hour
        if kept := os.environ.get("COUNTERSIGN_FIRST_HOUR"):
            Path(kept).write_text("\n".join(hour.lines) + "\n", "utf-8")


@pytest.fixture
def hour(demo_hour: Hour, request: pytest.FixtureRequest) -> Iterator[Hour]:
    """The same demo for each test; at its end every line that was shown is one that a person would
    say.
    """
    demo_hour.lines += ["", "", f"#### {request.node.name}"]
    since = len(demo_hour.lines)
    yield demo_hour
    assert demo_hour.unspeakable(since) == []


def test_a_newcomer_is_greeted_and_helped(hour: Hour) -> None:
    """The greeting says what the bot is, `help` what it can do; neither begins a request."""
    cleo = hour.person("cleo")
    cleo.open_dm()
    hour.rest()
    assert "an AI assistant" in hour.reads(None, "cleo", cleo.dm_channel)
    cleo.dm("help")
    cleo.dm("hi")
    hour.rest()
    text = hour.reads(None, "cleo", cleo.dm_channel)
    assert "Refund an order" in text
    assert "Copy one of these" in text


def test_a_question_is_answered_at_once(hour: Hour) -> None:
    """The agent looks something up, and also answers a word of thanks."""
    thread = hour.says("what is the status of order 1042?")
    hour.replies("thanks!", thread)
    text = hour.reads(thread)
    assert "Mara Lindqvist" in text
    assert "something else" not in text  # the found order does not read like a claim of the agent
    assert "Approve" not in text
    assert "You are welcome." in text


def test_a_request_is_approved_by_somebody_else_and_done(hour: Hour) -> None:
    """The requester can approve it neither by button nor in words."""
    thread = hour.says("refund 15 EUR of order 1042, the mug was chipped")
    hour.presses("ben", "approve", thread)
    hour.replies("yes", thread)
    assert "Refund 15.00 EUR of order 1042" in hour.reads(thread)
    hour.reads(thread, "ana")
    hour.presses("ana", "approve", thread)
    text = hour.reads(thread)
    assert "Refunded 15.00 EUR of order 1042" in text
    assert "That is done." in text


def test_an_edited_amount_is_approved_by_another_and_paid(hour: Hour) -> None:
    """The card shows both amounts, and the editor cannot approve."""
    thread = hour.says("refund 40 EUR of order 1041, it arrived broken")
    hour.presses("ana", "edit", thread)
    hour.dialog("ana", **typed(amount="30"))
    hour.presses("ana", "approve", thread)
    assert "40.00  →  30.00" in hour.reads(thread, "ana")
    hour.presses("cleo", "approve", thread)
    assert "Refunded 30.00 EUR of order 1041" in hour.reads(thread)


def test_a_rejected_refund_is_not_asked_again_by_itself(hour: Hour) -> None:
    """The requester gets the reason."""
    thread = hour.says("refund 20 EUR of order 1035, it came late")
    hour.presses("ana", "reject", thread)
    hour.dialog("ana", **because("other"), words={"text": {"value": "we paid this last week"}})
    text = hour.reads(thread)
    assert "we paid this last week" in text
    assert "[*Approve" not in text
    hour.replies("make it 5 EUR instead", thread)
    assert "Refund 5.00 EUR of order 1035" in hour.reads(thread)
    hour.replies("never mind", thread)
    assert "cancelled the request" in hour.reads(thread)


def test_a_plan_is_approved_with_one_click(hour: Hour) -> None:
    """One card has both calls."""
    thread = hour.says(
        "refund 3 EUR of order 1030, it came late, and refund 4 EUR of order 1033, it came late"
    )
    assert "2 things to decide" in hour.reads(thread, "ana")
    hour.presses("ana", "approve_all", thread)
    text = hour.reads(thread)
    assert "Refunded 3.00 EUR of order 1030" in text
    assert "Refunded 4.00 EUR of order 1033" in text


def test_two_groups_decide_a_plan_in_their_own_channels(hour: Hour) -> None:
    """The thread says that another group reviews a part. One call runs, the other is rejected."""
    thread = hour.says("cancel order 1048, ordered twice, and refund 6 EUR of order 1036, late")
    assert "Another approver group is reviewing part of this." in hour.reads(thread)
    hour.reads(None, "cleo", FINANCE)
    hour.presses("cleo", "approve", None, FINANCE)
    hour.signs("cleo", FINANCE)
    hour.presses("ana", "reject_now", thread)
    text = hour.reads(thread)
    assert "Cancelled order 1048" in text
    hour.reads(None, "cleo", FINANCE)


def test_a_question_leaves_the_card_waiting(hour: Hour) -> None:
    """Another amount replaces the card, and so does sending the plan back."""
    thread = hour.says("refund 14 EUR of order 1037, one packet was open")
    hour.says("what are you waiting for?", thread)
    assert "has not run" in hour.reads(thread)
    hour.says("make it 11 EUR instead", thread)
    assert "Refund 11.00 EUR of order 1037" in hour.reads(thread)
    hour.presses("ana", "send_back", thread)
    hour.dialog("ana", words={"text": {"value": "make it 9 EUR"}})
    assert "Refund 9.00 EUR of order 1037" in hour.reads(thread)
    hour.presses("ben", "cancel_run", thread)
    assert "cancelled the request" in hour.reads(thread)


@pytest.mark.parametrize("words", ["cancel", "never mind", "please cancel that", "stop it!"])
def test_the_requester_cancels_in_their_own_words(hour: Hour, words: str) -> None:
    """They need no mention."""
    thread = hour.says(f"refund {len(words)} EUR of order 1045, it came late")
    hour.card(thread, "ana", "approve")
    hour.replies(words, thread)
    text = hour.reads(thread)
    assert "cancelled the request" in text
    assert "[*Approve" not in text


def test_the_agent_asks_for_missing_details(hour: Hour) -> None:
    """It asks for the order by a question and for the amount in words; then it goes on."""
    thread = hour.says("refund 3 EUR, the lid was missing")
    assert "Which order is it?" in hour.reads(thread)
    hour.replies("1042", thread)
    assert "Refund 3.00 EUR of order 1042" in hour.reads(thread)
    thread = hour.says("refund order 1042")
    hour.replies("7 EUR", thread)
    assert "Refund 7.00 EUR of order 1042" in hour.reads(thread)
    thread = hour.says("refund something")
    hour.replies("8 EUR", thread)
    hour.replies("1042", thread)
    assert "Refund 8.00 EUR of order 1042" in hour.reads(thread)
    thread = hour.says("refund 3 EUR, the handle was loose")
    hour.presses("ben", "decline", thread)
    assert "Ask me again" in hour.reads(thread)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("florble the wug", "I did not understand that"),
        ("refund −5 EUR of order 1042", "above zero"),
        ("refund 20 USD of order 1042", "in EUR"),
        ("ship order 1048 by express", "no tool"),
        ("refund 5 EUR of order 9999, it came late", "There is no order 9999"),
        ("refund 900 EUR of order 1042, it came late", "left to refund"),
        ("cancel order 1042, no longer wanted", "cancelled"),
        ("look up order 9999", "There is no order 9999"),
        ("approve everything", "I did not understand"),
    ],
)
def test_the_agent_says_why_it_cannot_do_something(hour: Hour, words: str, part: str) -> None:
    """It asks nobody and claims nothing."""
    text = hour.reads(hour.says(words))
    assert part in text
    assert "Approve" not in text
    assert "is done" not in text


def test_people_are_reminded_and_then_the_call_expires(hour: Hour) -> None:
    """The agent then says what can be done."""
    thread = hour.says("refund 102 EUR of order 1053, the board was cracked")
    hour.later(31)
    hour.reads(thread)
    hour.later(31)
    text = hour.reads(thread)
    assert "Nobody answered" in text
    assert "Ask me again" in text


def test_a_form_is_decided_like_a_request_and_asked_again(hour: Hour) -> None:
    """The second form is filled with the first one's values."""
    ben = hour.person("ben")
    ben.command(SUPPORT, "/approvals request refund_order")
    reason = {"f:reason": {"v": {"selected_option": "late"}}}
    hour.dialog("ben", **typed(order_id="1046", amount="8"), **reason)
    thread = next(m["ts"] for m in reversed(ben.messages(SUPPORT)) if "asks: " in m["text"])
    hour.reads(thread, "ana")
    hour.presses("ana", "review", thread)
    hour.dialog("ana", note={"text": {"value": "they waited two weeks"}})
    assert "they waited two weeks" in hour.reads(thread)
    hour.presses("ben", "ask_again", thread)
    hour.dialog("ben", **typed(amount="2"))
    again = next(m["ts"] for m in reversed(ben.messages(SUPPORT)) if "asks: " in m["text"])
    assert again != thread
    assert "Refund 2.00 EUR of order 1046" in hour.reads(again)
    hour.presses("ana", "reject", again)
    hour.dialog("ana", **because("not_needed"))
    hour.reads(again)


def test_a_saved_approval_runs_the_next_refund(hour: Hour) -> None:
    """The next refund of that order says why nobody was asked."""
    thread = hour.says("refund 1 EUR of order 1047, a candle was bent")
    hour.presses("ana", "review", thread)
    hour.dialog("ana", remember={"offer": {"selected_option": "0"}})
    hour.reads(thread)
    thread = hour.says("refund 2 EUR of order 1047, another candle was bent")
    text = hour.reads(thread)
    assert "[*Approve" not in text
    assert "Nobody was asked: Ana Ruiz had saved the approval." in text
    assert "Order 1047" in hour.asks("ana", "/approvals grants")


def test_a_delegate_approves_for_an_approver(hour: Hour) -> None:
    """Dan is told, and the card says for whom he approved."""
    hour.delegates("ana", "UDAN00001", 3)
    assert "@ana asked you to decide for them until" in hour.reads(None, "dan", "DDAN00001")
    thread = hour.says("refund 6 EUR of order 1051, the vase was scratched")
    hour.presses("dan", "approve", thread)
    text = hour.reads(thread)
    assert "@dan, for @ana" in text
    assert "Refunded 6.00 EUR of order 1051" in text
    assert "@dan" in hour.asks("ana", "/approvals delegate")


def test_the_agent_asks_another_person_for_the_requester(hour: Hour) -> None:
    """Ben is told Dan's answer; Ana's does not count."""
    thread = hour.says("ask <@UDAN00001>: which shelf are the vases on?")
    hour.reads(thread, "dan")
    hour.replies("the top one, I think", thread, "ana")
    assert "The answer is" not in hour.reads(thread)
    hour.replies("the blue one by the door", thread, "dan")
    assert "The answer is: “the blue one by the door”." in hour.reads(thread)


def test_the_shops_database_is_queried_and_changed(hour: Hour) -> None:
    """A query is answered with a table; a change is shown with its rows and takes two approvals."""
    hour.reads(hour.says("run `SELECT name, stock FROM product WHERE stock < 20` on shop"))
    thread = hour.says("run `UPDATE product SET stock = 20 WHERE sku = 'CLOCK'` on shop")
    hour.reads(thread, "ana")
    hour.presses("ana", "review", thread)
    hour.dialog("ana")
    hour.reads(thread, "cleo")
    hour.presses("cleo", "review", thread)
    hour.dialog("cleo")
    assert "That is done." in hour.reads(thread)


def test_members_of_a_channel_decide_about_a_post_there(hour: Hour) -> None:
    """The requester is not one of them."""
    thread = hour.says("post “the shop is closed on Monday” in #general")
    hour.reads(thread, "dan")
    hour.presses("dan", "approve", thread)
    assert "That is done." in hour.reads(thread)


def test_each_command_is_answered_in_sentences(hour: Hour) -> None:
    """The answer is only for the person who asks."""
    for who, command in (
        ("ana", "/approvals"),
        ("ana", "/approvals list"),
        ("ben", "/approvals requests"),
        ("ana", "/approvals history"),
        ("ben", "/approvals help"),
        ("ben", "/approvals mode"),
        ("ben", "/approvals delegate"),
        ("ana", "/approvals report"),
        ("ben", "/approvals florble"),
        ("ben", "/approvals show nothing"),
    ):
        assert hour.asks(who, command)


def test_home_shows_what_waits_and_what_was_decided(hour: Hour) -> None:
    """An approver, a requester and somebody who only decided each see their part."""
    thread = hour.says("cancel order 1050, the customer ordered twice")
    assert thread
    assert "Waiting for you" in hour.home("cleo", "order 1050")
    assert "Your requests" in hour.home("ben", "order 1050")
    assert hour.home("dan", "Update product")
    assert "Saved approvals" in hour.home("ben", "order 1047")
