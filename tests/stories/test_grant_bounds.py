"""What binds a remembered approval: its rule, its place, who gave it; never what takes two."""

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
    """A bot whose rules all offer to remember the same."""
    return own_harness(FakeTools().tools, POLICY)


def remembered(harness: Harness, who: str = "ana") -> None:
    """Somebody has a login by a small rule remembered for its account."""
    thread = ask(harness, login("small"))
    harness.card(SUPPORT, thread)
    approve(harness, thread, offer=0, who=who)
    harness.said(SUPPORT, thread, "That is all.")
    harness.settle()


def is_asked(harness: Harness, password: str = "small") -> bool:
    """Whether people are asked about the next login to the same account."""
    thread = ask(harness, login(password))
    harness.slack.wait(lambda: statuses(harness, thread))
    harness.settle()
    harness.planner.clear_script()
    return statuses(harness, thread) == [C.PENDING]


def test_it_holds_under_its_own_rule_only(harness: Harness) -> None:
    """Another rule offers the very same, to be given by others; so may a rule that was changed."""
    remembered(harness)
    assert is_asked(harness, "huge")
    assert not is_asked(harness)
    harness.app.core.policy.policy = parse(
        POLICY.replace('name = "small"', 'name = "small"\nwhen = "args.account != \'bank\'"')
    )
    assert is_asked(harness)


def test_it_dies_with_the_right_to_decide(harness: Harness) -> None:
    """Who gave it has left the group, or Slack does not say: people are asked."""
    remembered(harness)
    assert not is_asked(harness)
    with harness.slack.world.lock:
        harness.slack.world.groups["shop-leads"].users = ["UCLEO0001"]
    forget_people(harness)
    assert is_asked(harness)


def test_it_stays_where_others_decide_elsewhere(harness: Harness) -> None:
    """The channel decides: what its people approved runs there unasked, and nowhere else."""
    thread = ask(harness, ("put", {"text": "value"}))
    harness.person("ana").click(SUPPORT, harness.card(SUPPORT, thread)["ts"], "approve")
    harness.said(SUPPORT, thread, "That is all.")
    assert done(harness, ("put", {"text": "value"}))[1] == [C.SUCCEEDED]
    elsewhere = ask(harness, ("put", {"text": "value"}), channel=GENERAL)
    harness.card(GENERAL, elsewhere)
    assert statuses(harness, elsewhere) == [C.PENDING]


def test_nobody_remembers_what_takes_two(harness: Harness) -> None:
    """A rule of once that two have to approve asks both every time."""
    for _ in range(2):
        thread = ask(harness, ("note", {"text": "both"}))
        card = harness.card(SUPPORT, thread)
        for who in ("ana", "cleo"):
            harness.person(who).click(SUPPORT, card["ts"], "approve", seen=card)
            arrived(harness)
        harness.said(SUPPORT, thread, "That is all.")
    assert harness.all(Grant) == []


def test_an_escalation_is_not_remembered(harness: Harness) -> None:
    """Who may decide only after a while approves this once, and is told so."""
    thread = ask(harness, login("small"))
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.clock.advance(1801)
    harness.settle()
    approve(harness, thread, offer=0, who="dan")
    harness.said(SUPPORT, thread, "it was not saved for later calls", "dan")
    harness.said(SUPPORT, thread, "That is all.")
    assert harness.all(Grant) == []
