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
from tests.policy.builders import list_problems, make_facts, starts

BERLIN = BusinessHours(zone="Europe/Berlin", opens=540, closes=1020, days=(1, 2, 3, 4, 5))
HOUR = 3600


def parse_utc(text: str) -> datetime:
    """A moment in UTC: Berlin is an hour ahead in winter, two in summer."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "hours", "end"),
    [
        ("2026-11-20 15:00", 4, "2026-11-23 11:00"),  # Friday 16:00 in Berlin to Monday 12:00
        ("2026-11-20 08:00", 8, "2026-11-20 16:00"),  # a whole day ends at closing time
        ("2026-11-21 12:00", 1, "2026-11-23 09:00"),  # begins on a Saturday
        ("2026-11-23 03:00", 1, "2026-11-23 09:00"),  # before opening time
        ("2026-11-23 20:00", 1, "2026-11-24 09:00"),  # after closing time
        ("2026-11-23 16:00", 1, "2026-11-24 09:00"),  # exactly at closing time
        ("2026-10-23 14:00", 2, "2026-10-26 09:00"),  # the clocks go back at the weekend
        ("2026-03-27 15:00", 2, "2026-03-30 08:00"),  # and forward
        ("2026-12-23 15:30", 1, "2026-12-28 08:30"),  # two holidays and a weekend
    ],
)
def test_a_deadline_is_counted_in_business_hours(start: str, hours: int, end: str) -> None:
    """The hours are those of a clock in Berlin."""
    off = BERLIN.model_copy(update={"holidays": (date(2026, 12, 24), date(2026, 12, 25))})
    assert off.add_business_seconds(parse_utc(start), hours * HOUR) == parse_utc(end)
    assert off.measure_business_time(parse_utc(start), parse_utc(end)) == timedelta(hours=hours)


@pytest.mark.parametrize(
    ("calendar", "start", "end"),
    [
        ("DE-BY", "2026-12-31 15:00", "2027-01-04 11:00"),  # New Year's Day, and a weekend
        ("DE-BY", "2027-01-05 15:00", "2027-01-07 11:00"),  # Epiphany, a holiday in Bavaria
        ("DE", "2027-01-05 15:00", "2027-01-06 11:00"),  # but not in all of Germany
        (
            "US",
            "2027-07-02 14:00",
            "2027-07-06 10:00",
        ),  # the 4th is a Sunday, observed on the Monday
    ],
)
def test_the_holidays_of_a_named_calendar_do_not_count(calendar: str, start: str, end: str) -> None:
    """The calendar knows those of the next year, too, and those that are moved."""
    hours = BERLIN.model_copy(update={"calendar": calendar})
    assert hours.add_business_seconds(parse_utc(start), 4 * HOUR) == parse_utc(end)
    assert hours.measure_business_time(parse_utc(start), parse_utc(end)) == timedelta(hours=4)


def test_the_next_holidays_are_listed_in_order_with_their_names() -> None:
    """Dates of one's own are among them, without a name; weekends are not."""
    own = (date(2026, 12, 24), date(2026, 12, 26), date(2027, 1, 5))
    hours = BERLIN.model_copy(update={"calendar": "DE-BY", "holidays": own})
    assert hours.list_next_holidays(parse_utc("2026-12-23 12:00"), 5) == [
        (date(2026, 12, 24), ""),
        (date(2026, 12, 25), "Christmas Day"),
        (date(2027, 1, 1), "New Year's Day"),
        (date(2027, 1, 5), ""),
        (date(2027, 1, 6), "Epiphany"),
    ]
    assert BERLIN.list_next_holidays(parse_utc("2026-12-23 12:00"), 5) == []


def test_the_holidays_library_is_only_imported_for_a_calendar() -> None:
    """A policy without a calendar does not wait for it."""
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
def test_adding_and_measuring_business_time_agree(
    hours: BusinessHours, start: datetime, seconds: int
) -> None:
    """The measured time is less one microsecond before the end."""
    end = hours.add_business_seconds(start, seconds)
    assert hours.measure_business_time(start, end) == timedelta(seconds=seconds)
    assert hours.measure_business_time(start, end - timedelta(microseconds=1)) < timedelta(
        seconds=seconds
    )
    assert end >= start + timedelta(seconds=seconds)  # never earlier than by the clock


@given(schedules, moments, moments, moments)
def test_business_time_adds_up_and_is_never_negative(
    hours: BusinessHours, one: datetime, two: datetime, three: datetime
) -> None:
    """The times of two parts add up to that of the whole."""
    first, middle, last = sorted((one, two, three))
    assert hours.measure_business_time(first, last) == hours.measure_business_time(
        first, middle
    ) + hours.measure_business_time(middle, last)
    assert hours.measure_business_time(last, first) == timedelta()


def test_hours_skipped_by_the_clock_change_count_as_nothing() -> None:
    """Berlin's clocks go from two to three that night, and the hours are 2:30 to 3:00."""
    night = BERLIN.model_copy(update={"opens": 150, "closes": 180, "days": (1, 2, 3, 4, 5, 6, 7)})
    start, end = parse_utc("2026-03-28 12:00"), parse_utc("2026-03-30 01:00")
    assert night.measure_business_time(start, end) == timedelta(minutes=30)
    assert night.add_business_seconds(start, HOUR // 2) == end


def test_without_any_business_day_the_deadline_is_at_once() -> None:
    """Every day of three years is a holiday."""
    off = tuple(date(2026, 1, 1) + timedelta(days=each) for each in range(1_100))
    never = BERLIN.model_copy(update={"holidays": off})
    assert never.add_business_seconds(parse_utc("2026-01-01 09:00"), HOUR) == parse_utc(
        "2026-01-01 09:00"
    )


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


def get_ask_gate(text: str, **known: Any) -> Ask:
    """The gate of a policy that asks about the call."""
    gate = parse(text).get_gate(make_facts(**known))
    assert isinstance(gate, Ask)
    return gate


def test_hours_table_and_business_hours_key_set_the_gate() -> None:
    """A day is as long as the business hours of one."""
    gate = get_ask_gate(HOURS)
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
    other = get_ask_gate(HOURS, effect="destructive")
    assert (other.hours, other.deadline) == (None, 2 * 24 * HOUR)


@pytest.mark.parametrize(
    ("was", "becomes"), [("2026-12-24, ", ""), ("\ndays =", '\ncalendar = "FR"\ndays =')]
)
def test_another_holiday_or_calendar_changes_policy_and_gate(was: str, becomes: str) -> None:
    """The digest of the policy changes, and the gate on the card."""
    other = HOURS.replace(was, becomes)
    assert parse(HOURS).digest != parse(other).digest
    assert dump_gate(get_ask_gate(HOURS)) != dump_gate(get_ask_gate(other))
    assert load_gate(dump_gate(get_ask_gate(other))) == get_ask_gate(other)


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
def test_impossible_hours_are_refused_with_their_line(was: str, becomes: str, said: str) -> None:
    """The mistake may be in any key of [hours]."""
    assert any(said in each for each in list_problems(HOURS.replace(was, becomes, 1)))


@pytest.mark.parametrize("zone", ["localtime", "posixrules", "Factory", "posix/UTC", "right/UTC"])
def test_a_zone_that_differs_between_machines_is_refused(zone: str) -> None:
    """A policy means the same wherever it is read: in hours, freezes, start times, conditions."""
    said = f"zone: '{zone}' is not the same time zone on each machine; write one as Europe/Berlin"
    assert any(said in each for each in list_problems(HOURS.replace("Europe/Berlin", zone)))
    said = said.removeprefix("zone: ")
    freeze = f'[freezes]\nyule = {{ from = 2026-12-24, to = 2026-12-26, zone = "{zone}" }}\n'
    assert any(said in each for each in list_problems(freeze))
    rule = '[[rule]]\ntool = "x"\nverdict = "ask"\napprovers = ["U01"]\n'
    [problem] = list_problems(f"{rule}run_at = '22:00 {zone}'")
    assert "run_at: " in problem
    assert said in problem
    [problem] = list_problems(f"{rule}when = 'now.getHours(\"{zone}\") > 1'")
    assert "this is not a time zone" in problem


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
def test_an_unknown_calendar_is_refused_with_a_suggestion(written: str, near: str) -> None:
    """The nearest calendar that exists is suggested."""
    [found] = list_problems(HOURS.replace("\ndays =", f'\ncalendar = "{written}"\ndays ='))
    assert found.endswith(f"(did you mean {near}?)")


def test_business_hours_without_an_hours_table_are_refused() -> None:
    """They are refused at the rule that counts in them."""
    text = '[defaults]\napprovers = ["@a"]\n[[rule]]\nverdict = "ask"\nbusiness_hours = true\n'
    [found] = list_problems(text)
    assert "p.toml:5: rule 1 business_hours: there is no [hours]" in found


def test_gates_with_different_hours_combine_to_all_hours() -> None:
    """Escalations are dropped then, so that nobody may decide earlier than either gate said."""
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
        ("22:00 Europe/Berlin", "2026-11-20 21:00", "2026-11-21 21:00"),  # that minute has begun
        ("sat 22:00 Europe/Berlin", "2026-11-20 12:00", "2026-11-21 21:00"),
        ("fri 22:00 Europe/Berlin", "2026-11-20 22:00", "2026-11-27 21:00"),
        ("02:30 Europe/Berlin", "2026-03-28 12:00", "2026-03-29 01:30"),  # no such hour: 03:30
        ("02:30 Europe/Berlin", "2026-10-24 12:00", "2026-10-25 00:30"),  # the first of two
        ("02:30 Europe/Berlin", "2026-10-25 00:30", "2026-10-26 01:30"),
        ("00:00 Pacific/Chatham", "2026-11-20 10:00", "2026-11-20 10:15"),
    ],
)
def test_the_next_start_time_is_found_in_local_time(written: str, after: str, start: str) -> None:
    """It is right through both changes of the clock."""
    assert parse_start_time(written).find_next(parse_utc(after)) == parse_utc(start)
    assert str(parse_start_time(written)) == written


@given(starts, st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)))
def test_a_start_time_is_within_a_day_or_a_week(start: StartTime, now: datetime) -> None:
    """A clock change may add an hour."""
    ahead = start.find_next(now) - now
    assert timedelta() < ahead <= timedelta(days=7 if start.day else 1, hours=1)


def test_approvals_with_a_start_time_are_not_remembered() -> None:
    """A rule's offers, verdict "once", or a time that an addition sets do not change that."""
    who = '[defaults]\napprovers = ["@a"]\n'
    once = '[[rule]]\nverdict = "once"\n'
    assert "verdict: would start calls at any time" in str(
        list_problems(who + 'run_at = "22:00 UTC"\n' + once)
    )
    offering = '[[rule]]\nverdict = "ask"\nremember = [{}]\n'
    adding = '[[rule]]\nname = "late"\nverdict = "add"\nrun_at = "22:00 UTC"\n'
    gate = parse(who + offering + adding).get_gate(make_facts())
    assert isinstance(gate, Ask)
    assert (gate.run_at, gate.remember) == (parse_start_time("22:00 UTC"), ())
    assert load_gate(dump_gate(gate)) == gate
    everywhere = who + "remember = [{}]\n"
    gate = parse(everywhere + '[[rule]]\nverdict = "ask"\nrun_at = "22:00 UTC"\n').get_gate(
        make_facts()
    )
    assert isinstance(gate, Ask)
    assert gate.remember == ()
