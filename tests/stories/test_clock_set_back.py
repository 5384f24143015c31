"""The machine's clock is set back by an hour: what has expired stays expired, even after
a restart.
"""

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
from tests.stories.test_handed_over import ME, ask_and_approve, build_program_requests, claimed
from tests.stories.test_outbox import with_card
from tests.stories.test_remember import approve, login
from tests.stories.test_saved_approval_limits import is_asked

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
ClockChange = Callable[[Harness], None]


def set_clock_back(harness: Harness) -> None:
    """The clock is set back while the bot runs."""
    harness.machine.behind += timedelta(hours=1)


def set_clock_back_while_down(harness: Harness) -> None:
    """The clock is set back while the bot is stopped; it wrote something just before."""
    thread = ask(harness, ("note", {"text": "the last of this life"}))
    harness.card(SUPPORT, thread)
    harness.settle()
    harness.planner.clear_script()
    harness.app.stop()
    harness.machine.behind += timedelta(hours=1)
    harness.start()


def set_clock_forward_and_back(harness: Harness) -> None:
    """The clock is an hour ahead while something is written, and is set right again."""
    harness.machine.behind -= timedelta(hours=1)
    harness.person("ben").say(SUPPORT, "nothing that is for a bot")
    harness.app.core.clock.now()
    harness.machine.behind += timedelta(hours=1)


CLOCK_CHANGES = pytest.mark.parametrize(
    "back", [set_clock_back, set_clock_back_while_down, set_clock_forward_and_back]
)
# over HTTP a bot whose clock is an hour off refuses Slack's requests: their signatures are dated
CLOCK_CHANGES_BEFORE_A_REQUEST = pytest.mark.parametrize(
    "back",
    [
        pytest.param(set_clock_back, marks=pytest.mark.socket),
        pytest.param(set_clock_back_while_down, marks=pytest.mark.socket),
        set_clock_forward_and_back,
    ],
)


@pytest.fixture
def harness(own_harness: Callable[..., Harness]) -> Harness:
    """A bot on a machine whose clock is still right."""
    return own_harness(FakeTools().tools, POLICY)


@CLOCK_CHANGES_BEFORE_A_REQUEST
def test_an_ended_delegation_stays_ended(harness: Harness, back: ClockChange) -> None:
    """The former delegate cannot decide."""
    delegate(harness, days=1)
    later(harness, DAY + 60)
    back(harness)
    thread = ask(harness, ("note", {"text": "west gate"}))
    press(harness, "cleo", SUPPORT, harness.card(SUPPORT, thread), "approve")
    told(harness, "cleo", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [C.PENDING]


@CLOCK_CHANGES_BEFORE_A_REQUEST
def test_an_expired_saved_approval_stays_expired(harness: Harness, back: ClockChange) -> None:
    """People are asked about the next login."""
    thread = ask(harness, login("small"))
    harness.card(SUPPORT, thread)
    approve(harness, thread, offer=0, who="ana")
    harness.said(SUPPORT, thread, "That is all.")
    assert not is_asked(harness)
    later(harness, 2 * HOUR + 60)
    back(harness)
    assert is_asked(harness)


@CLOCK_CHANGES_BEFORE_A_REQUEST
def test_an_outdated_group_look_up_is_not_trusted(harness: Harness, back: ClockChange) -> None:
    """Somebody who has left the group since cannot decide."""
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


@CLOCK_CHANGES
def test_a_deadline_that_has_passed_stays_passed(harness: Harness, back: ClockChange) -> None:
    """A call that still waits expires when its own time is over."""
    over = ask(harness, ("note", {"text": "too late"}))
    harness.card(SUPPORT, over)
    harness.planner.clear_script()
    later(harness, HOUR)
    waits = ask(harness, ("note", {"text": "still time"}))
    harness.card(SUPPORT, waits)
    later(harness, HOUR + 60)
    back(harness)
    assert statuses(harness, over) == [C.EXPIRED]
    if back is not set_clock_forward_and_back:  # which lets it expire
        assert statuses(harness, waits) == [C.PENDING]
    later(harness, HOUR)
    assert statuses(harness, waits) == [C.EXPIRED]


@CLOCK_CHANGES
def test_a_lapsed_claim_of_a_program_is_given_up(harness: Harness, back: ClockChange) -> None:
    """The program has given no sign of life for longer than its lease."""
    found = ask_and_approve(harness, "7.0")
    claimed(harness, found)
    back(harness)
    later(harness, int(handovers.CLAIM_LEASE_DURATION.total_seconds()) + 1)
    again = build_program_requests(harness).find_request(found.run_id, "ci")
    assert again is not None
    assert again.load_status().status is C.UNKNOWN


@CLOCK_CHANGES
def test_an_approval_that_is_too_old_cannot_be_claimed(harness: Harness, back: ClockChange) -> None:
    """It was given more than a day ago."""
    found = ask_and_approve(harness, "7.1")
    later(harness, DAY + 60)
    back(harness)
    again = build_program_requests(harness).find_request(found.run_id, "ci")
    assert again is not None
    with pytest.raises(ClaimRefusedError, match="too old"):
        again.claim_call(ME)


@pytest.mark.file  # on PostgreSQL the server's time counts
@pytest.mark.socket
def test_the_age_of_a_message_is_measured_by_slacks_time(harness: Harness) -> None:
    """The clock was two days ahead and is set right: new messages are not taken for old ones."""
    harness.machine.behind -= timedelta(days=2)
    harness.said(SUPPORT, chat(harness, "While it is ahead?"), LATE)
    harness.planner.clear_script()
    harness.machine.behind += timedelta(days=2)
    harness.said(SUPPORT, chat(harness, "It is right again."), "It is right again.")


def test_a_lost_post_is_found_after_the_clock_was_ahead(harness: Harness) -> None:
    """The record is an hour ahead of Slack, and the post whose answer was lost is still found:
    there is one card.
    """
    set_clock_forward_and_back(harness)
    harness.settle()
    harness.slack.faults.drop("chat.postMessage", "after", match=with_card)
    thread = ask(harness, ("note", {"text": "a lost answer"}))
    harness.card(SUPPORT, thread)
    all_sent(harness)
    assert len(showing(harness, SUPPORT, thread, "a lost answer")) == 1
