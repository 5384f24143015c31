"""Deadlines, reminders and escalations that count business hours only."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from storage.states import CallStatus
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.steps import ask, later, showing, statuses, told, vote

C = CallStatus
BERLIN = ZoneInfo("Europe/Berlin")
POLICY = """
[hours]
zone = "Europe/Berlin"
opens = "09:00"
closes = "17:00"

[defaults]
approvers = ["UANA00001"]
deadline = "4h"
business_hours = true
reminders = ["2h"]
escalation = [{after = "3h", approvers = ["UDAN00001"]}]
"""


def advance_to_friday(harness: Harness) -> datetime:
    """Move the clock to the next Friday, 16:00 in Berlin, and return that moment."""
    now = harness.clock.now().astimezone(BERLIN)
    ahead = (4 - now.weekday()) % 7 or 7
    at = (now + timedelta(days=ahead)).replace(hour=16, minute=0, second=0, microsecond=0)
    later(harness, int((at - now).total_seconds()) + 1)
    return at


def test_a_deadline_skips_the_weekend(harness: Harness, fakes: FakeTools) -> None:
    """A call is asked on Friday at 16:00 for four hours: the reminder comes on Monday at 10:00, the
    end at noon.
    """
    at = advance_to_friday(harness)
    thread = ask(harness, ("note", {"text": "friday"}))
    card = harness.card(SUPPORT, thread)
    [call] = harness.calls_in(thread)
    assert call.deadline is not None
    noon = (at + timedelta(days=3)).replace(hour=12)
    assert timedelta() <= call.deadline - noon < timedelta(minutes=5)
    later(harness, 2 * 86_400)  # Sunday afternoon
    vote(harness, "dan", card)
    told(harness, "dan", SUPPORT, thread, "You cannot decide this one")
    assert statuses(harness, thread) == [C.PENDING]
    assert not showing(harness, SUPPORT, thread, "is still waiting for a decision")
    later(harness, 18 * 3600 + 600)  # Monday, 10:10
    harness.said(SUPPORT, thread, "this is still waiting for a decision")
    later(harness, 3600)
    harness.said(SUPPORT, thread, "so now you can too")
    later(harness, 3600)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "friday")) == ([C.EXPIRED], 0)


def test_an_escalation_skips_the_weekend(harness: Harness, fakes: FakeTools) -> None:
    """Dan may decide on Monday, three business hours after the call was asked."""
    advance_to_friday(harness)
    thread = ask(harness, ("note", {"text": "for dan"}))
    card = harness.card(SUPPORT, thread)
    later(harness, 3 * 86_400 - 5 * 3600 + 600)  # Monday, 11:10
    harness.said(SUPPORT, thread, "so now you can too")
    vote(harness, "dan", card)
    harness.said(SUPPORT, thread, "That is all.")
    assert (statuses(harness, thread), fakes.did("note", "for dan")) == ([C.SUCCEEDED], 1)


def test_a_question_waits_over_the_weekend(harness: Harness) -> None:
    """Its deadline and its reminder are those of the defaults."""
    at = advance_to_friday(harness)
    thread = ask(harness, ("ask_person", {"question": "Is it dry?", "kind": "yes_no"}))
    harness.said(SUPPORT, thread, "Is it dry?")
    [call] = harness.calls_in(thread)
    assert call.deadline is not None
    assert call.next_at is not None
    monday = at + timedelta(days=3)
    few = timedelta(minutes=5)
    assert timedelta() <= call.deadline - monday.replace(hour=12) < few
    assert timedelta() <= call.next_at - monday.replace(hour=10) < few


def test_a_holiday_of_the_calendar_does_not_count(own_harness: Callable[..., Harness]) -> None:
    """A call is asked an hour before closing on the last day before a holiday. It expires on the
    day after the holiday.
    """
    policy = POLICY.replace('closes = "17:00"', 'closes = "17:00"\ncalendar = "DE-BY"')
    harness = own_harness(FakeTools().tools, policy)
    default = harness.app.core.policy.policy.default
    assert default is not None
    assert default.hours is not None
    off = {
        day
        for day, _ in default.hours.list_next_holidays(harness.clock.now() + timedelta(days=2), 20)
    }
    holiday = before = after = min(off)
    while before in off or before.isoweekday() > 5:
        before -= timedelta(days=1)
    while after in off or after.isoweekday() > 5:
        after += timedelta(days=1)
    at = datetime.combine(before, time(16), BERLIN)
    later(harness, int((at - harness.clock.now()).total_seconds()) + 1)
    thread = ask(harness, ("note", {"text": "before the holiday"}))
    harness.card(SUPPORT, thread)
    [call] = harness.calls_in(thread)
    assert call.deadline is not None
    assert before < holiday < after
    noon = datetime.combine(after, time(12), BERLIN)
    assert timedelta() <= call.deadline - noon < timedelta(minutes=5)
