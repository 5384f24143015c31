"""The first hour of somebody who knows nothing, with the demo's stand-in: each line is read.

Set COUNTERSIGN_FIRST_HOUR to a file to read it all yourself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bot.app import build
from bot.demo.demo import start_demo
from tests.model_stand_in.planner import StrictPlanner
from tests.stories.first_hour import FINANCE, SUPPORT, Hour, because, typed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hour]:
    """The demo as `make demo` starts it, with its two days of history."""
    with ExitStack() as stack:
        hour = Hour(start_demo(stack, tmp_path_factory.mktemp("hour"), 0, {}, build, StrictPlanner))
        yield hour
        if kept := os.environ.get("COUNTERSIGN_FIRST_HOUR"):
            Path(kept).write_text("\n".join(hour.lines) + "\n", "utf-8")


@pytest.fixture
def hour(whole: Hour, request: pytest.FixtureRequest) -> Iterator[Hour]:
    """One act of it; afterwards nothing was said in it that no person would say."""
    whole.lines += ["", "", f"#### {request.node.name}"]
    since = len(whole.lines)
    yield whole
    assert whole.unspeakable(since) == []


def test_who_is_new_is_greeted(hour: Hour) -> None:
    """Greeted with what it is, and told by `help` what it can do; neither needs a request."""
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


def test_a_first_question(hour: Hour) -> None:
    """What only looks something up is answered at once, and a word of thanks as well."""
    thread = hour.says("what is the status of order 1042?")
    hour.replies("thanks!", thread)
    text = hour.reads(thread)
    assert "Mara Lindqvist" in text
    assert "something else" not in text  # nothing in what was found reads like a claim
    assert "Approve" not in text
    assert "You are welcome." in text


def test_a_first_request(hour: Hour) -> None:
    """Its own requester may not approve it, nor do words; somebody else does, and it is done."""
    thread = hour.says("refund 15 EUR of order 1042, the mug was chipped")
    hour.presses("ben", "approve", thread)
    hour.replies("yes", thread)
    assert "Refund 15.00 EUR of order 1042" in hour.reads(thread)
    hour.reads(thread, "ana")
    hour.presses("ana", "approve", thread)
    text = hour.reads(thread)
    assert "Refunded 15.00 EUR of order 1042" in text
    assert "That is done." in text


def test_an_approver_edits(hour: Hour) -> None:
    """Both amounts stand on the card; who edited may not approve, and the last amount is paid."""
    thread = hour.says("refund 40 EUR of order 1041, it arrived broken")
    hour.presses("ana", "edit", thread)
    hour.dialog("ana", **typed(amount="30"))
    hour.presses("ana", "approve", thread)
    assert "40.00  →  30.00" in hour.reads(thread, "ana")
    hour.presses("cleo", "approve", thread)
    assert "Refunded 30.00 EUR of order 1041" in hour.reads(thread)


def test_an_approver_rejects(hour: Hour) -> None:
    """The reason is told to who asked, and the agent does not ask again by itself."""
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


def test_a_plan_is_approved_at_once(hour: Hour) -> None:
    """Two calls on one card, one click for both, one line for each, and one answer."""
    thread = hour.says(
        "refund 3 EUR of order 1030, it came late, and refund 4 EUR of order 1033, it came late"
    )
    assert "2 things to decide" in hour.reads(thread, "ana")
    hour.presses("ana", "approve_all", thread)
    text = hour.reads(thread)
    assert "Refunded 3.00 EUR of order 1030" in text
    assert "Refunded 4.00 EUR of order 1033" in text


def test_a_plan_of_two_kinds(hour: Hour) -> None:
    """What others decide stands in their channel, and the thread says so; one fails, one is not
    run.
    """
    thread = hour.says("cancel order 1048, ordered twice, and refund 6 EUR of order 1036, late")
    assert "Another approver group is reviewing part of this." in hour.reads(thread)
    hour.reads(None, "cleo", FINANCE)
    hour.presses("cleo", "approve", None, FINANCE)
    hour.signs("cleo", FINANCE)
    hour.presses("ana", "reject_now", thread)
    text = hour.reads(thread)
    assert "Cancelled order 1048" in text
    hour.reads(None, "cleo", FINANCE)


def test_beside_a_card(hour: Hour) -> None:
    """A question is answered beside the card, which still waits; another amount remakes it."""
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
def test_a_request_is_taken_back(hour: Hour, words: str) -> None:
    """Whatever people say to take a request back takes it back, without a mention."""
    thread = hour.says(f"refund {len(words)} EUR of order 1045, it came late")
    hour.card(thread, "ana", "approve")
    hour.replies(words, thread)
    text = hour.reads(thread)
    assert "cancelled the request" in text
    assert "[*Approve" not in text


def test_something_is_missing(hour: Hour) -> None:
    """It asks for the order by a question, and for the amount in words; then it goes on."""
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
def test_what_it_cannot_do(hour: Hour, words: str, part: str) -> None:
    """It says why in a sentence, asks nobody, and claims nothing."""
    text = hour.reads(hour.says(words))
    assert part in text
    assert "Approve" not in text
    assert "is done" not in text


def test_nobody_answers_in_time(hour: Hour) -> None:
    """People are reminded, then silence is no; the agent says what can be done."""
    thread = hour.says("refund 102 EUR of order 1053, the board was cracked")
    hour.later(31)
    hour.reads(thread)
    hour.later(31)
    text = hour.reads(thread)
    assert "Nobody answered" in text
    assert "Ask me again" in text


def test_without_the_agent(hour: Hour) -> None:
    """A form, the same card, the same line; afterwards it can be asked again with its values."""
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


def test_an_approval_is_remembered(hour: Hour) -> None:
    """The next refund of that order asks nobody, and says why; the record shows what stands."""
    thread = hour.says("refund 1 EUR of order 1047, a candle was bent")
    hour.presses("ana", "review", thread)
    hour.dialog("ana", remember={"offer": {"selected_option": "0"}})
    hour.reads(thread)
    thread = hour.says("refund 2 EUR of order 1047, another candle was bent")
    text = hour.reads(thread)
    assert "[*Approve" not in text
    assert "Nobody was asked: Ana Ruiz had saved the approval." in text
    assert "Order 1047" in hour.asks("ana", "/approvals grants")


def test_somebody_decides_for_another(hour: Hour) -> None:
    """Ana has Dan decide for her: he is told so, approves in her name, and the card says it."""
    hour.delegates("ana", "UDAN00001", 3)
    assert "@ana asked you to decide for them until" in hour.reads(None, "dan", "DDAN00001")
    thread = hour.says("refund 6 EUR of order 1051, the vase was scratched")
    hour.presses("dan", "approve", thread)
    text = hour.reads(thread)
    assert "@dan, for @ana" in text
    assert "Refunded 6.00 EUR of order 1051" in text
    assert "@dan" in hour.asks("ana", "/approvals delegate")


def test_somebody_else_is_asked(hour: Hour) -> None:
    """The agent asks Dan for Ben; only Dan's answer counts, and Ben is told it."""
    thread = hour.says("ask <@UDAN00001>: which shelf are the vases on?")
    hour.reads(thread, "dan")
    hour.replies("the top one, I think", thread, "ana")
    assert "The answer is" not in hour.reads(thread)
    hour.replies("the blue one by the door", thread, "dan")
    assert "The answer is: “the blue one by the door”." in hour.reads(thread)


def test_the_shop_s_database(hour: Hour) -> None:
    """A query is answered with a table; a change is shown with its rows, and two steps decide."""
    hour.reads(hour.says("run `SELECT name, stock FROM product WHERE stock < 20` on shop"))
    thread = hour.says("run `UPDATE product SET stock = 20 WHERE sku = 'CLOCK'` on shop")
    hour.reads(thread, "ana")
    hour.presses("ana", "review", thread)
    hour.dialog("ana")
    hour.reads(thread, "cleo")
    hour.presses("cleo", "review", thread)
    hour.dialog("cleo")
    assert "That is done." in hour.reads(thread)


def test_a_post_in_a_channel(hour: Hour) -> None:
    """Whoever is in the channel decides about what is said there, but for who asked."""
    thread = hour.says("post “the shop is closed on Monday” in #general")
    hour.reads(thread, "dan")
    hour.presses("dan", "approve", thread)
    assert "That is done." in hour.reads(thread)


def test_what_the_commands_answer(hour: Hour) -> None:
    """Each question behind /approvals is answered in sentences, to who asks alone."""
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


def test_what_home_shows(hour: Hour) -> None:
    """What waits, what was asked and what was decided, for who decides and for who asks."""
    thread = hour.says("cancel order 1050, the customer ordered twice")
    assert thread
    assert "Waiting for you" in hour.home("cleo", "order 1050")
    assert "Your requests" in hour.home("ben", "order 1050")
    assert hour.home("dan", "Update product")
    assert "Saved approvals" in hour.home("ben", "order 1047")
