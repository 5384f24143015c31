"""The machine's clock is set back by an hour: what has expired stays so, also after a restart."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from bot.cards import sentences
from bot.runs.program_calls import ClaimRefusedError
from storage import programs as handovers
from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import (
    all_sent,
    ask,
    chat,
    forget_people,
    later,
    press,
    showing,
    statuses,
    told,
)
from tests.stories.test_delegation import delegate
from tests.stories.test_grant_bounds import is_asked
from tests.stories.test_handed_over import ME, approved, claimed, programs
from tests.stories.test_outbox import with_card
from tests.stories.test_remember import approve, login

C = CallStatus
HOUR, DAY = 3_600, 86_400
LATE = sentences.LATE_MESSAGE_REPLY
POLICY = """
[defaults]
approvers = ["UANA00001"]
deadline = "2h"

[[rule]]
tool = "login"
verdict = "ask"
approvers = ["UANA00001"]
remember = [{fields = ["account"], where = "everywhere", lasts = "2h"}]

[[rule]]
tool = "put"
verdict = "ask"
approvers = ["@shop-leads"]
"""
Back = Callable[[Harness], None]


def set_back(harness: Harness) -> None:
    """While the bot is at work."""
    harness.machine.behind += timedelta(hours=1)


def set_back_while_down(harness: Harness) -> None:
    """Between two lives of the bot, which wrote something just before."""
    thread = ask(harness, ("note", {"text": "the last of this life"}))
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.planner.clear_script()
    harness.app.stop()
    harness.machine.behind += timedelta(hours=1)
    harness.start()


def forward_and_back(harness: Harness) -> None:
    """It runs an hour ahead for a moment, in which something is written, and is set right."""
    harness.machine.behind -= timedelta(hours=1)
    harness.person("ben").say(SUPPORT, "nothing that is for a bot")
    harness.app.core.clock.now()
    harness.machine.behind += timedelta(hours=1)


BACK = pytest.mark.parametrize("back", [set_back, set_back_while_down, forward_and_back])
# over HTTP a machine whose clock is an hour off takes nothing new: Slack dates what it signs
ASKED_AFTERWARDS = pytest.mark.parametrize(
    "back",
    [
        pytest.param(set_back, marks=pytest.mark.socket),
        pytest.param(set_back_while_down, marks=pytest.mark.socket),
        forward_and_back,
    ],
)


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot on a machine whose clock is right so far."""
    return own_harness(FakeTools().tools, POLICY)


@ASKED_AFTERWARDS
def test_a_delegation_that_has_ended(harness: Harness, back: Back) -> None:
    """Who decided for Ana until a moment ago decides nothing."""
    delegate(harness, days=1)
    later(harness, DAY + 60)
    back(harness)
    thread = ask(harness, ("note", {"text": "west gate"}))
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [C.PENDING]


@ASKED_AFTERWARDS
def test_a_remembered_approval_that_has_ended(harness: Harness, back: Back) -> None:
    """People are asked."""
    thread = ask(harness, login("small"))
    harness.card(SUPPORT, thread)
    approve(harness, thread, offer=0, who="ana")
    harness.said(SUPPORT, thread, "That is all.")
    assert not is_asked(harness)
    later(harness, 2 * HOUR + 60)
    back(harness)
    assert is_asked(harness)


@ASKED_AFTERWARDS
def test_a_look_up_that_is_old(harness: Harness, back: Back) -> None:
    """Who was in the group a while ago, and has left it since, decides nothing."""
    forget_people(harness)
    thread = ask(harness, ("put", {"text": "value"}))
    card = harness.card(SUPPORT, thread)
    harness.settle()
    harness.planner.clear_script()
    with harness.slack.world.lock:
        harness.slack.world.groups["shop-leads"].users = ["UCLEO0001"]
    back(harness)
    later(harness, 61)
    press(harness, "ana", SUPPORT, card, "approve")
    told(harness, "ana", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [C.PENDING]


@BACK
def test_a_deadline_that_has_passed(harness: Harness, back: Back) -> None:
    """What nobody decided in time stays denied, and what waits is denied when its time is over."""
    over = ask(harness, ("note", {"text": "too late"}))
    harness.card(SUPPORT, over)
    harness.planner.clear_script()
    later(harness, HOUR)
    waits = ask(harness, ("note", {"text": "still time"}))
    harness.card(SUPPORT, waits)
    later(harness, HOUR + 60)
    back(harness)
    assert statuses(harness, over) == [C.EXPIRED]
    if back is not forward_and_back:  # then its time was over meanwhile, and stays so
        assert statuses(harness, waits) == [C.PENDING]
    later(harness, HOUR)
    assert statuses(harness, waits) == [C.EXPIRED]


@BACK
def test_a_claim_of_a_program_that_has_lapsed(harness: Harness, back: Back) -> None:
    """A program that has not been heard of for long enough is given up, however it is set."""
    found = approved(harness, "7.0")
    claimed(harness, found)
    back(harness)
    later(harness, int(handovers.CLAIM_LEASE_DURATION.total_seconds()) + 1)
    again = programs(harness).find_request(found.run_id, "ci")
    assert again is not None
    assert again.load_status().status is C.UNKNOWN


@BACK
def test_an_approval_that_has_aged(harness: Harness, back: Back) -> None:
    """Nobody claims on an approval that is older than it may be."""
    found = approved(harness, "7.1")
    later(harness, DAY + 60)
    back(harness)
    again = programs(harness).find_request(found.run_id, "ci")
    assert again is not None
    with pytest.raises(ClaimRefusedError, match="too old"):
        again.claim_call(ME)


@pytest.mark.file  # with a record on a server it is the time there that counts
@pytest.mark.socket
def test_what_slack_says_is_compared_with_slacks_time(harness: Harness) -> None:
    """A clock that was two days ahead, and was set right: new messages are not taken for old."""
    harness.machine.behind -= timedelta(days=2)
    harness.said(SUPPORT, chat(harness, "While it is ahead?"), LATE)
    harness.planner.clear_script()
    harness.machine.behind += timedelta(days=2)
    harness.said(SUPPORT, chat(harness, "It is right again."), "It is right again.")


def test_a_lost_post_is_found_after_the_clock_was_ahead(harness: Harness) -> None:
    """Where the record is an hour ahead of Slack, a post whose answer was lost is looked for from
    where it may stand, and found: one card.
    """
    forward_and_back(harness)
    harness.settle()
    harness.slack.faults.drop("chat.postMessage", "after", match=with_card)
    thread = ask(harness, ("note", {"text": "a lost answer"}))
    harness.card(SUPPORT, thread)
    all_sent(harness)
    assert len(showing(harness, SUPPORT, thread, "a lost answer")) == 1
