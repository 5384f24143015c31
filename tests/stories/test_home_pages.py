"""The Home tab beyond what waits: what was decided, who decides for whom, and its pages."""

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
from tests.stories.test_delegation import CLEO, DAY, fill
from tests.stories.test_home import offered, opened, wait

POLICY = """
[defaults]
approvers = ["@shop-leads"]
"""


@pytest.fixture
def own(own_harness: Callable[..., Harness]) -> Harness:
    """A bot that nobody has asked for anything yet."""
    return own_harness(FakeTools().tools, POLICY, COUNTERSIGN_MAX_PENDING="100")


def pressed(harness: Harness, who: str, action: str, *parts: str) -> list[dict[str, Any]]:
    """Press that button of Home; returns its blocks once they show this."""
    harness.person(who).click_home(action)
    return wait(harness, who, *parts)


def test_people_are_named_in_requests(harness: Harness) -> None:
    """Whom somebody mentioned stands there as that person, and what looks like markup as text."""
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


def test_what_was_decided_stands_there(harness: Harness) -> None:
    """Who decided and who asked see what became of it, by whom, with the way to its card; it comes
    while the tab is open.
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


def test_an_answer_is_no_decision(harness: Harness) -> None:
    """What somebody answered stands among the requests, and not among what was decided."""
    thread = ask(harness, question(question="Is the pond deep?", kind="yes_no"))
    asked = harness.card(SUPPORT, thread, "ben", "choose_1")
    harness.person("ben").click(SUPPORT, asked["ts"], "choose_1")
    harness.said(SUPPORT, thread, "That is all.")
    blocks = opened(harness, "ben", "💬 Answered: Ask “Is the pond deep?”")
    past = [each for each in blocks if str(each["block_id"]).startswith("home:past")]
    assert "pond deep" not in str(past)


def test_who_decides_for_whom_stands_there(harness: Harness) -> None:
    """A delegation begins and ends on Home; both see it, and only who gave it may end it."""
    ask(harness, ("note", {"text": "herb spiral"}))
    harness.settle()
    opened(harness, "ana", "herb spiral")
    ana = harness.person("ana")
    ana.click_home("delegate")
    harness.slack.wait(ana.view)
    ana.submit(fill(harness, CLEO, 2, "at the sea"))
    arrived(harness)
    wait(harness, "ana", "Who decides for whom", "at the sea", "end_delegation")
    opened(harness, "cleo", "Who decides for whom", "decides for <@UANA00001>")
    assert "end_delegation" not in str(harness.person("cleo").home())
    ana.click_home("end_delegation")
    wait(harness, "ana", "herb spiral", without="Who decides for whom")
    assert [row.revoked_by for row in harness.all(Delegation)][-1] == "UANA00001"
    harness.clock.advance(2 * DAY)


def test_what_waits_has_pages(own: Harness) -> None:
    """All that waits can be turned through, and stays within what Slack takes; so can requests.

    Who looks at a page of which everything is gone is shown the one before it.
    """
    for number in range(0, WAITING_CALLS_PER_PAGE + 4, 4):
        some = [("note", {"text": f"bulb {each}."}) for each in range(number, number + 4)]
        own.planner.script(Turn(calls=some))
        last = own.person("ben").say(SUPPORT, "@bot please")
        arrived(own)
    blocks = opened(own, "ana", "Waiting for you", "more that you may decide")
    assert len(blocks) <= 100
    first = pressed(own, "ana", "home_waiting", "home_next")
    assert offered(first).count("review") == WAITING_CALLS_PER_PAGE
    assert "bulb 0." in str(first)
    second = pressed(own, "ana", "home_next", "home_before")
    assert offered(second).count("review") == 4
    assert "bulb 0." not in str(second)
    pressed(own, "ana", "home_before", "bulb 0.")
    pressed(own, "ana", "home_next", "home_before")
    own.person("ben").say(SUPPORT, "cancel", last)
    wait(own, "ana", "bulb 0.", without="home_before")
    pressed(own, "ana", "home_all", "more that you may decide")


def test_requests_have_a_list_of_their_own(own: Harness) -> None:
    """Where there are more of them than Home shows, a button shows all, and another goes back."""
    for number in range(MAX_REQUESTS + 1):
        own.planner.script(Turn(text=f"Answer {number}."))
        own.person("ben").say(SUPPORT, f"@bot question {number}.")
        arrived(own)
    assert "question 0." not in str(opened(own, "ben", "Your requests", "and older ones."))
    mine = pressed(own, "ben", "home_mine", "question 0.")
    assert sum(each["type"] == "rich_text" for each in mine) == MAX_REQUESTS + 1
    pressed(own, "ben", "home_all", "and older ones.")
    own.person("ben").click_home("home_channel", selected=GENERAL)
    wait(own, "ben", f"Nothing is waiting for you in <#{GENERAL}>.", without="question")


def test_a_delegate_sees_for_whom(harness: Harness) -> None:
    """Home and the list name whose decision it is; by one's own right it is nobody else's."""
    ask(harness, ("note", {"text": "box hedge"}))
    harness.settle()
    opened(harness, "ana", "box hedge")
    ana, dan = harness.person("ana"), harness.person("dan")
    ana.click_home("delegate")
    harness.slack.wait(ana.view)
    ana.submit(fill(harness, dan.id, 2))
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


def test_home_shows_one_channel(own: Harness) -> None:
    """Narrowed to a channel, only what was asked there stands in each list, on all its pages."""
    for number in range(0, WAITING_CALLS_PER_PAGE + 4, 4):
        some = [("note", {"text": f"shrub {each}."}) for each in range(number, number + 4)]
        own.planner.script(Turn(calls=some))
        own.person("ben").say(SUPPORT, "@bot please")
        arrived(own)
    waiting(own, ("note", {"text": "in general"}), channel=GENERAL)
    arrived(own)
    decided = ask(own, ("note", {"text": "decided there"}), channel=GENERAL)
    vote(own, "ana", own.card(GENERAL, decided), GENERAL)
    opened(own, "ana", "shrub 0.", "Recent decisions", "decided there")
    ana, ben = own.person("ana"), own.person("ben")
    ana.click_home("home_channel", selected=GENERAL)
    blocks = wait(own, "ana", "in general", "decided there", without="shrub")
    assert offered(blocks) == ["review", "reject", "hand_over"]
    ana.click_home("home_channel", selected=SUPPORT)
    wait(own, "ana", "shrub 0.", "more that you may decide", without="in general")
    first = pressed(own, "ana", "home_waiting", "home_next")
    assert offered(first).count("review") == WAITING_CALLS_PER_PAGE
    second = pressed(own, "ana", "home_next", "home_before")
    assert offered(second).count("review") == 4
    assert f'"initial_conversation": "{SUPPORT}"' in json.dumps(second)
    ana.click_home("home_anywhere")
    wait(own, "ana", "shrub 0.", "home_next", without="initial_conversation")
    opened(own, "ben", "Your requests", "shrub 0.", "in general")
    ben.click_home("home_channel", selected=GENERAL)
    mine = wait(own, "ben", "Your requests", "in general", without="shrub")
    assert "decided there" in str(mine)
