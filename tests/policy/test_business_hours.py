"""Deadlines in business hours: nights, days off and holidays do not count."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.policy.business_hours import BusinessHours, StartTime, parse_start_time
from bot.policy.evaluation import parse
from bot.policy.gates import (
    Approvers,
    Ask,
    Escalation,
    Stage,
    combine_gates,
    dump_gate,
    load_gate,
    shorten_deadline,
)
from tests.policy.builders import facts, problems, starts

BERLIN = BusinessHours(zone="Europe/Berlin", opens=540, closes=1020, days=(1, 2, 3, 4, 5))
HOUR = 3600


def at(text: str) -> datetime:
    """A moment in UTC: Berlin is an hour ahead in winter, two in summer."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "hours", "end"),
    [
        ("2026-11-20 15:00", 4, "2026-11-23 11:00"),  # Friday 16:00 in Berlin to Monday 12:00
        ("2026-11-20 08:00", 8, "2026-11-20 16:00"),  # a whole day ends when it closes
        ("2026-11-21 12:00", 1, "2026-11-23 09:00"),  # asked on a Saturday
        ("2026-11-23 03:00", 1, "2026-11-23 09:00"),  # before it opens
        ("2026-11-23 20:00", 1, "2026-11-24 09:00"),  # after it closes
        ("2026-11-23 16:00", 1, "2026-11-24 09:00"),  # just as it closes
        ("2026-10-23 14:00", 2, "2026-10-26 09:00"),  # the clocks go back at the weekend
        ("2026-03-27 15:00", 2, "2026-03-30 08:00"),  # and forward
        ("2026-12-23 15:30", 1, "2026-12-28 08:30"),  # two holidays and a weekend
    ],
)
def test_when_time_is_up(start: str, hours: int, end: str) -> None:
    """So many business hours after it was asked, as a clock in Berlin has them."""
    off = BERLIN.model_copy(update={"holidays": (date(2026, 12, 24), date(2026, 12, 25))})
    assert off.add_business_seconds(at(start), hours * HOUR) == at(end)
    assert off.measure_business_time(at(start), at(end)) == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("calendar", "start", "end"),
    [
        ("DE-BY", "2026-12-31 15:00", "2027-01-04 11:00"),  # New Year's Day, and a weekend
        ("DE-BY", "2027-01-05 15:00", "2027-01-07 11:00"),  # Epiphany, which is one in Bavaria
        ("DE", "2027-01-05 15:00", "2027-01-06 11:00"),  # but not in all of Germany
        ("US", "2027-07-02 14:00", "2027-07-06 10:00"),  # the 4th is a Sunday, kept on the Monday
    ],
)
def test_holidays_of_a_calendar(calendar: str, start: str, end: str) -> None:
    """A calendar knows its own days off, also those of the next year and those that are moved."""
    hours = BERLIN.model_copy(update={"calendar": calendar})
    assert hours.add_business_seconds(at(start), 4 * HOUR) == at(end)
    assert hours.measure_business_time(at(start), at(end)) == timedelta(hours=4)


def test_the_next_days_off() -> None:
    """Own dates and those of the calendar, in order, named where they have a name; no weekends."""
    own = (date(2026, 12, 24), date(2026, 12, 26), date(2027, 1, 5))
    hours = BERLIN.model_copy(update={"calendar": "DE-BY", "holidays": own})
    assert hours.list_next_holidays(at("2026-12-23 12:00"), 5) == [
        (date(2026, 12, 24), ""),
        (date(2026, 12, 25), "Christmas Day"),
        (date(2027, 1, 1), "New Year's Day"),
        (date(2027, 1, 5), ""),
        (date(2027, 1, 6), "Epiphany"),
    ]
    assert BERLIN.list_next_holidays(at("2026-12-23 12:00"), 5) == []


def test_its_library_comes_late() -> None:
    """A policy that names no calendar does not wait for the library of calendars."""
    policy = '[defaults]\napprovers = ["@a"]\n'
    program = (
        "import sys; from bot.policy.evaluation import parse; "
        f"parse({policy!r}); print('holidays' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


schedules = st.builds(
    BusinessHours,
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
    opens=st.sampled_from([0, 1, 480]),
    closes=st.sampled_from([1020, 1439, 1440]),
    days=st.lists(st.integers(1, 7), min_size=1, unique=True).map(tuple),
    holidays=st.lists(st.dates(date(2026, 1, 1), date(2026, 12, 31)), max_size=5).map(tuple),
)
moments = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)).map(
    lambda each: each.replace(tzinfo=UTC)
)


@given(schedules, moments, st.integers(1, 200 * HOUR))
def test_both_ways_agree(hours: BusinessHours, start: datetime, seconds: int) -> None:
    """What has passed when time is up is what was given, and not a microsecond before."""
    end = hours.add_business_seconds(start, seconds)
    assert hours.measure_business_time(start, end) == timedelta(seconds=seconds)
    assert hours.measure_business_time(start, end - timedelta(microseconds=1)) < timedelta(
        seconds=seconds
    )
    assert end >= start + timedelta(seconds=seconds)  # never sooner than by the clock


@given(schedules, moments, moments, moments)
def test_time_only_goes_on(
    hours: BusinessHours, one: datetime, two: datetime, three: datetime
) -> None:
    """What passes adds up, and what is before the start is nothing."""
    first, middle, last = sorted((one, two, three))
    assert hours.measure_business_time(first, last) == hours.measure_business_time(
        first, middle
    ) + hours.measure_business_time(middle, last)
    assert hours.measure_business_time(last, first) == timedelta()


def test_hours_that_the_clock_leaves_out() -> None:
    """On the day on which it is three o'clock after two they come to nothing, and to no less."""
    night = BERLIN.model_copy(update={"opens": 150, "closes": 180, "days": (1, 2, 3, 4, 5, 6, 7)})
    start, end = at("2026-03-28 12:00"), at("2026-03-30 01:00")
    assert night.measure_business_time(start, end) == timedelta(minutes=30)
    assert night.add_business_seconds(start, HOUR // 2) == end


def test_hours_that_never_come() -> None:
    """Where years pass without a business day, time is up all the same."""
    off = tuple(date(2026, 1, 1) + timedelta(days=each) for each in range(1_100))
    never = BERLIN.model_copy(update={"holidays": off})
    assert never.add_business_seconds(at("2026-01-01 09:00"), HOUR) == at("2026-01-01 09:00")


HOURS = """
[hours]
zone = "Europe/Berlin"
opens = "09:00"
closes = "17:30"
days = ["mon", "tue", "wed", "thu"]
holidays = [2026-12-24, 2026-12-25]

[defaults]
approvers = ["@leads"]
deadline = "2d"
reminders = ["1h", "1d"]
escalation = [{after = "2h", approvers = ["@late"]}]
business_hours = true

[[rule]]
name = "at all hours"
effect = "destructive"
verdict = "ask"
business_hours = false
reminders = []
"""


def asked(text: str, **known: Any) -> Ask:
    """What a policy asks."""
    gate = parse(text).get_gate(facts(**known))
    assert isinstance(gate, Ask)
    return gate


def test_as_it_is_written() -> None:
    """[hours] says what counts, business_hours that it does; a day is as long as the hours."""
    gate = asked(HOURS)
    assert gate.hours == BusinessHours(
        zone="Europe/Berlin",
        opens=540,
        closes=1050,
        days=(1, 2, 3, 4),
        holidays=(date(2026, 12, 24), date(2026, 12, 25)),
    )
    assert (gate.deadline, gate.list_notification_delay_seconds()) == (
        17 * HOUR,
        [HOUR, 2 * HOUR, 8 * HOUR + 1800],
    )
    assert load_gate(dump_gate(gate)) == gate
    other = asked(HOURS, effect="destructive")
    assert (other.hours, other.deadline) == (None, 2 * 24 * HOUR)


@pytest.mark.parametrize(
    ("was", "becomes"), [("2026-12-24, ", ""), ("\ndays =", '\ncalendar = "FR"\ndays =')]
)
def test_it_is_part_of_what_the_policy_means(was: str, becomes: str) -> None:
    """Another holiday or calendar is another policy, and another gate on the card."""
    other = HOURS.replace(was, becomes)
    assert parse(HOURS).digest != parse(other).digest
    assert dump_gate(asked(HOURS)) != dump_gate(asked(other))
    assert load_gate(dump_gate(asked(other))) == asked(other)


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        (
            'zone = "Europe/Berlin"',
            'zone = "Europe/Bärlin"',
            "p.toml:3: [hours] zone: 'Europe/Bärlin'",
        ),
        ('zone = "Europe/Berlin"', "", "p.toml:2: [hours] zone: is missing"),
        ('"09:00"', '"9"', "p.toml:4: [hours] opens: '9' is not a time of day; write it as"),
        ('"09:00"', "09:00:00", "[hours] opens: write it in quotes"),
        ('"17:30"', '"09:00"', "p.toml:5: [hours] closes: is not after opens"),
        ('"mon", "tue"', '"mon", "tues"', "p.toml:6: [hours] days: write 'mon', 'tue'"),
        ("2026-12-24,", '"24.12.2026",', "p.toml:7: [hours] holidays: write a date, as 2026-12-25"),
        ("true", "false", "p.toml:2: hours: is used nowhere"),
        *(
            ("days =", f'calendar = "{written}"\ndays =', f"p.toml:6: [hours] calendar: {said}")
            for written, said in [
                ("Germany", "there is no calendar 'Germany'; write the code of a country"),
                ("Germny", "there is no calendar 'Germny'"),
                ("DE-BX", "there is no calendar 'DE-BX'"),
                ("", "there is no calendar ''"),
            ]
        ),
    ],
)
def test_hours_that_mean_nothing(was: str, becomes: str, said: str) -> None:
    """What cannot be counted is told at its line."""
    assert any(said in each for each in problems(HOURS.replace(was, becomes, 1)))


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("Germany", "DE"),
        ("Germny-BY", "DE"),
        ("de", "DE"),
        ("DEU", "DE"),
        ("DE-by", "DE-BY"),
        ("DE-Bayern", "DE-BY"),
        ("United Kingdom", "GB"),
    ],
)
def test_the_calendar_that_was_meant(written: str, near: str) -> None:
    """A calendar that is not there is refused with the nearest that is."""
    [found] = problems(HOURS.replace("\ndays =", f'\ncalendar = "{written}"\ndays ='))
    assert found.endswith(f"(is {near} meant?)")


def test_business_hours_without_any() -> None:
    """A rule that counts in hours which nobody named is refused."""
    text = '[defaults]\napprovers = ["@a"]\n[[rule]]\nverdict = "ask"\nbusiness_hours = true\n'
    [found] = problems(text)
    assert "p.toml:5: rule 1 business_hours: there is no [hours]" in found


def test_the_stricter_of_two_clocks() -> None:
    """Where one gate counts business hours and another does not, all hours count together, and
    nobody is let in sooner by that.
    """
    step = Escalation(after=600, approvers=Approvers(groups=("late",)))
    stage = Stage(approvers=Approvers(groups=("leads",)))
    slow = Ask(rule="r", stages=(stage,), hours=BERLIN, escalation=(step,))
    fast = slow.model_copy(update={"hours": None})
    for both in (
        combine_gates(slow, fast),
        combine_gates(fast, slow),
        shorten_deadline(slow, fast),
    ):
        assert (both.hours, both.escalation, both.deadline) == (None, (), 3600)
    assert combine_gates(slow, slow.model_copy(update={"deadline": 60})).escalation == (step,)
    assert not slow.counts_votes_like(fast)
    assert fast.model_copy(update={"escalation": ()}).counts_votes_like(
        slow.model_copy(update={"escalation": ()})
    )


@pytest.mark.parametrize(
    ("written", "after", "start"),
    [
        ("22:00 Europe/Berlin", "2026-11-20 20:59", "2026-11-20 21:00"),
        ("22:00 Europe/Berlin", "2026-11-20 21:00", "2026-11-21 21:00"),  # it has begun
        ("sat 22:00 Europe/Berlin", "2026-11-20 12:00", "2026-11-21 21:00"),
        ("fri 22:00 Europe/Berlin", "2026-11-20 22:00", "2026-11-27 21:00"),
        ("02:30 Europe/Berlin", "2026-03-28 12:00", "2026-03-29 01:30"),  # no such hour: 03:30
        ("02:30 Europe/Berlin", "2026-10-24 12:00", "2026-10-25 00:30"),  # the first of two
        ("02:30 Europe/Berlin", "2026-10-25 00:30", "2026-10-26 01:30"),
        ("00:00 Pacific/Chatham", "2026-11-20 10:00", "2026-11-20 10:15"),
    ],
)
def test_the_next_time_to_start(written: str, after: str, start: str) -> None:
    """In local time, through both changes of the clock."""
    assert parse_start_time(written).find_next(at(after)) == at(start)
    assert str(parse_start_time(written)) == written


@given(starts, st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)))
def test_it_is_always_ahead_and_within_days(start: StartTime, now: datetime) -> None:
    """A day or a week ahead, but for the hour of a changing clock."""
    ahead = start.find_next(now) - now
    assert timedelta() < ahead <= timedelta(days=7 if start.day else 1, hours=1)


def test_nothing_is_remembered_where_it_has_a_time() -> None:
    """Neither what a rule offers, nor by verdict "once", nor where an addition sets the time."""
    who = '[defaults]\napprovers = ["@a"]\n'
    once = '[[rule]]\nverdict = "once"\n'
    assert "verdict: would start calls at any time" in str(
        problems(who + 'run_at = "22:00 UTC"\n' + once)
    )
    offering = '[[rule]]\nverdict = "ask"\nremember = [{}]\n'
    adding = '[[rule]]\nname = "late"\nverdict = "add"\nrun_at = "22:00 UTC"\n'
    gate = parse(who + offering + adding).get_gate(facts())
    assert isinstance(gate, Ask)
    assert (gate.run_at, gate.remember) == (parse_start_time("22:00 UTC"), ())
    assert load_gate(dump_gate(gate)) == gate
    everywhere = who + "remember = [{}]\n"
    gate = parse(everywhere + '[[rule]]\nverdict = "ask"\nrun_at = "22:00 UTC"\n').get_gate(facts())
    assert isinstance(gate, Ask)
    assert gate.remember == ()
