"""Home beyond what waits: recent decisions, delegations, one channel, and further pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bot.cards.home_tab import MAX_REQUESTS, WAITING_CALLS_PER_PAGE
from bot.demo.model_server import Turn
from storage.delegations import Delegation
from tests.stories.asked_people import question
from tests.stories.fakes import FakeTools
from tests.stories.harness import GENERAL, SUPPORT, Harness
from tests.stories.steps import arrived, ask, vote, waiting
from tests.stories.test_commands import asked
from tests.stories.test_delegation import CLEO, DAY, fill_delegation_dialog
from tests.stories.test_home import list_call_buttons, opened, wait

POLICY = """
[defaults]
approvers = ["@shop-leads"]
"""


@pytest.fixture
def new_harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot that nobody has asked for anything yet."""
    return own_harness(FakeTools().tools, POLICY, COUNTERSIGN_MAX_PENDING="100")


def press_and_wait(harness: Harness, who: str, action: str, *parts: str) -> list[dict[str, Any]]:
    """Press that button of Home; returns its blocks once they show this."""
    harness.person(who).click_home(action)
    return wait(harness, who, *parts)


def test_a_mention_in_a_request_is_shown_as_that_person(harness: Harness) -> None:
    """What looks like markup stays text."""
    harness.planner.script(Turn(text="I shall ask."))
    ben = harness.person("ben")
    thread = ben.say(SUPPORT, "@bot ask <@UDAN00001> *now* please")
    harness.said(SUPPORT, thread, "I shall ask.")
    blocks = opened(harness, "ben", "*now* please")
    leaves = [
        {"type": "text", "text": "“ask "},
        {"type": "user", "user_id": "UDAN00001"},
        {"type": "text", "text": " *now* please”"},
    ]
    assert json.dumps(leaves, ensure_ascii=False)[1:-1] in json.dumps(blocks, ensure_ascii=False)


def test_home_lists_recent_decisions(harness: Harness) -> None:
    """People who asked or decided see the outcome, by whom, and a link to the card. It appears
    while Home is open.
    """
    thread = ask(harness, ("note", {"text": "lily pond"}))
    card = harness.card(SUPPORT, thread)
    opened(harness, "ana", "lily pond")
    opened(harness, "ben", "lily pond")
    vote(harness, "ana", card)
    link = f"/archives/{SUPPORT}/p{card['ts'].replace('.', '')}"
    for who in ("ana", "ben"):
        wait(
            harness, who, "Recent decisions", "✅ Done: Write “lily pond”", "by <@UANA00001>", link
        )
    opened(harness, "dan", "Nothing is waiting for you", without="lily pond")


def test_an_answer_is_not_listed_as_a_decision(harness: Harness) -> None:
    """It is listed among the requests."""
    thread = ask(harness, question(question="Is the pond deep?", kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    harness.said(SUPPORT, thread, "That is all.")
    blocks = opened(harness, "ben", "💬 Answered: Ask “Is the pond deep?”")
    past = [each for each in blocks if str(each["block_id"]).startswith("home:past")]
    assert "pond deep" not in str(past)


def test_a_delegation_begins_and_ends_on_home(harness: Harness) -> None:
    """Both people see it, and only the delegator can end it."""
    ask(harness, ("note", {"text": "herb spiral"}))
    harness.settle()
    opened(harness, "ana", "herb spiral")
    ana = harness.person("ana")
    ana.click_home("delegate")
    harness.slack.wait(ana.view)
    ana.submit(fill_delegation_dialog(harness, CLEO, 2, "at the sea"))
    arrived(harness)
    wait(harness, "ana", "Who decides for whom", "at the sea", "end_delegation")
    opened(harness, "cleo", "Who decides for whom", "decides for <@UANA00001>")
    assert "end_delegation" not in str(harness.person("cleo").home())
    ana.click_home("end_delegation")
    wait(harness, "ana", "herb spiral", without="Who decides for whom")
    assert [row.revoked_by for row in harness.all(Delegation)][-1] == "UANA00001"
    harness.clock.advance(2 * DAY)


def test_waiting_calls_have_pages(new_harness: Harness) -> None:
    """Each stays within Slack's limit. A page that becomes empty gives way to the one before it."""
    for number in range(0, WAITING_CALLS_PER_PAGE + 4, 4):
        some = [("note", {"text": f"bulb {each}."}) for each in range(number, number + 4)]
        new_harness.planner.script(Turn(calls=some))
        last = new_harness.person("ben").say(SUPPORT, "@bot please")
        arrived(new_harness)
    blocks = opened(new_harness, "ana", "Waiting for you", "more that you may decide")
    assert len(blocks) <= 100
    first = press_and_wait(new_harness, "ana", "home_waiting", "home_next")
    assert list_call_buttons(first).count("review") == WAITING_CALLS_PER_PAGE
    assert "bulb 0." in str(first)
    second = press_and_wait(new_harness, "ana", "home_next", "home_before")
    assert list_call_buttons(second).count("review") == 4
    assert "bulb 0." not in str(second)
    press_and_wait(new_harness, "ana", "home_before", "bulb 0.")
    press_and_wait(new_harness, "ana", "home_next", "home_before")
    new_harness.person("ben").say(SUPPORT, "cancel", last)
    wait(new_harness, "ana", "bulb 0.", without="home_before")
    press_and_wait(new_harness, "ana", "home_all", "more that you may decide")


def test_requests_have_a_page_of_their_own(new_harness: Harness) -> None:
    """It appears if there are more than Home shows; another button leads back."""
    for number in range(MAX_REQUESTS + 1):
        new_harness.planner.script(Turn(text=f"Answer {number}."))
        new_harness.person("ben").say(SUPPORT, f"@bot question {number}.")
        arrived(new_harness)
    assert "question 0." not in str(opened(new_harness, "ben", "Your requests", "and older ones."))
    mine = press_and_wait(new_harness, "ben", "home_mine", "question 0.")
    assert sum(each["type"] == "rich_text" for each in mine) == MAX_REQUESTS + 1
    press_and_wait(new_harness, "ben", "home_all", "and older ones.")
    new_harness.person("ben").click_home("home_channel", selected=GENERAL)
    wait(new_harness, "ben", f"Nothing is waiting for you in <#{GENERAL}>.", without="question")


def test_home_and_list_name_whom_a_delegate_decides_for(harness: Harness) -> None:
    """They name nobody for people who may decide in their own right."""
    ask(harness, ("note", {"text": "box hedge"}))
    harness.settle()
    opened(harness, "ana", "box hedge")
    ana, dan = harness.person("ana"), harness.person("dan")
    ana.click_home("delegate")
    harness.slack.wait(ana.view)
    ana.submit(fill_delegation_dialog(harness, dan.id, 2))
    arrived(harness)
    opened(harness, "dan", "box hedge", "🤝 For <@UANA00001>  ·  Asked by <@UBEN00001>")
    assert "For <@UANA00001>" not in str(opened(harness, "cleo", "box hedge"))
    assert "🤝 For <@UANA00001>  ·  asked by <@UBEN00001>" in asked(
        harness, "/approvals list", "dan"
    )
    wait(harness, "ana", "Who decides for whom")
    ana.click_home("end_delegation")
    wait(harness, "ana", "box hedge", without="Who decides for whom")
    wait(harness, "dan", "Nothing is waiting for you", without="box hedge")


def test_home_can_be_narrowed_to_one_channel(new_harness: Harness) -> None:
    """Each list then has only what was asked there, on all its pages."""
    for number in range(0, WAITING_CALLS_PER_PAGE + 4, 4):
        some = [("note", {"text": f"shrub {each}."}) for each in range(number, number + 4)]
        new_harness.planner.script(Turn(calls=some))
        new_harness.person("ben").say(SUPPORT, "@bot please")
        arrived(new_harness)
    waiting(new_harness, ("note", {"text": "in general"}), channel=GENERAL)
    arrived(new_harness)
    decided = ask(new_harness, ("note", {"text": "decided there"}), channel=GENERAL)
    vote(new_harness, "ana", new_harness.card(GENERAL, decided), GENERAL)
    opened(new_harness, "ana", "shrub 0.", "Recent decisions", "decided there")
    ana, ben = new_harness.person("ana"), new_harness.person("ben")
    ana.click_home("home_channel", selected=GENERAL)
    blocks = wait(new_harness, "ana", "in general", "decided there", without="shrub")
    assert list_call_buttons(blocks) == ["review", "reject", "hand_over"]
    ana.click_home("home_channel", selected=SUPPORT)
    wait(new_harness, "ana", "shrub 0.", "more that you may decide", without="in general")
    first = press_and_wait(new_harness, "ana", "home_waiting", "home_next")
    assert list_call_buttons(first).count("review") == WAITING_CALLS_PER_PAGE
    second = press_and_wait(new_harness, "ana", "home_next", "home_before")
    assert list_call_buttons(second).count("review") == 4
    assert f'"initial_conversation": "{SUPPORT}"' in json.dumps(second)
    ana.click_home("home_anywhere")
    wait(new_harness, "ana", "shrub 0.", "home_next", without="initial_conversation")
    opened(new_harness, "ben", "Your requests", "shrub 0.", "in general")
    ben.click_home("home_channel", selected=GENERAL)
    mine = wait(new_harness, "ben", "Your requests", "in general", without="shrub")
    assert "decided there" in str(mine)
