"""What limits a saved approval: its rule, its place and its giver; none is saved that needs two."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bot.policy.evaluation import parse
from storage.grants import Grant
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import GENERAL, SUPPORT, Harness
from tests.stories.steps import arrived, ask, forget_people, statuses
from tests.stories.test_remember import approve, done, login

C = CallStatus
POLICY = """
[defaults]
approvers = ["UANA00001"]
remember = [{fields = ["account"], where = "everywhere"}]

[[rule]]
name = "huge"
tool = "login"
when = 'args.password == "huge"'
verdict = "ask"
approvers = ["@finance"]

[[rule]]
name = "small"
tool = "login"
verdict = "ask"
approvers = ["@shop-leads"]
escalation = [{after = "30m", approvers = ["UDAN00001"]}]

[[rule]]
name = "here"
tool = "put"
verdict = "once"
approvers = ["channel"]

[[rule]]
name = "four eyes"
tool = "note"
verdict = "once"
approvers = ["channel"]
quorum = 2
"""


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot whose rules offer to save the same approval."""
    return own_harness(FakeTools().tools, POLICY)


def save_approval(harness: Harness, who: str = "ana") -> None:
    """Somebody approves a small login and saves that for its account."""
    thread = ask(harness, login("small"))
    harness.card(SUPPORT, thread)
    approve(harness, thread, offer=0, who=who)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()


def is_asked(harness: Harness, password: str = "small") -> bool:
    """Ask for another login to the same account; returns whether people are asked about it."""
    thread = ask(harness, login(password))
    harness.slack.wait(lambda: statuses(harness, thread))
    harness.settle()
    harness.planner.clear_script()
    return statuses(harness, thread) == [C.PENDING]


def test_a_saved_approval_holds_only_under_its_own_rule(harness: Harness) -> None:
    """It holds neither under another rule that offers the same, nor under its own once that has
    changed.
    """
    save_approval(harness)
    assert is_asked(harness, "huge")
    assert not is_asked(harness)
    harness.app.core.policy.policy = parse(
        POLICY.replace('name = "small"', 'name = "small"\nwhen = "args.account != \'bank\'"')
    )
    assert is_asked(harness)


def test_a_saved_approval_ends_when_its_giver_may_not_decide(harness: Harness) -> None:
    """The giver has left the group."""
    save_approval(harness)
    assert not is_asked(harness)
    with harness.slack.world.lock:
        harness.slack.world.groups["shop-leads"].users = ["UCLEO0001"]
    forget_people(harness)
    assert is_asked(harness)


def test_a_channels_saved_approval_holds_only_in_that_channel(harness: Harness) -> None:
    """Elsewhere other people decide."""
    thread = ask(harness, ("put", {"text": "value"}))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert done(harness, ("put", {"text": "value"}))[1] == [C.SUCCEEDED]
    elsewhere = ask(harness, ("put", {"text": "value"}), channel=GENERAL)
    harness.card(GENERAL, elsewhere)
    assert statuses(harness, elsewhere) == [C.PENDING]


def test_an_approval_by_two_people_is_not_saved(harness: Harness) -> None:
    """Both are asked every time, although the rule's verdict is `once`."""
    for _ in range(2):
        thread = ask(harness, ("note", {"text": "both"}))
        card = harness.card(SUPPORT, thread)
        for who in ("ana", "cleo"):
            harness.person(who).click(SUPPORT, card["ts"], "approve", seen=card)
            arrived(harness)
        harness.said(SUPPORT, thread, "That is all.")
    assert harness.all(Grant) == []


def test_an_approval_after_an_escalation_is_not_saved(harness: Harness) -> None:
    """The approver is told that it counts this once."""
    thread = ask(harness, login("small"))
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.clock.advance(1801)
    harness.settle()
    approve(harness, thread, offer=0, who="dan")
    harness.said(SUPPORT, thread, "it was not saved for later calls", "dan")
    harness.said(SUPPORT, thread, "That is all.")
    assert harness.all(Grant) == []
