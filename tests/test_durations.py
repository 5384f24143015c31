"""Durations are parsed from short texts and formatted for people."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countersign.durations import DAY, format_duration, format_rough_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "found"), [("90s", 90), ("30m", 1_800), ("4h", 14_400), ("2d", 2 * DAY)]
)
def test_each_unit_is_counted_in_seconds(text: str, found: int) -> None:
    """A duration is a whole number and one of four letters."""
    assert parse_duration(text) == found


@pytest.mark.parametrize("text", ["", "4", "h", "0h", "04h", "1.5h", "4H", "-4h", "4h ", "٣h"])
def test_a_text_that_is_no_duration_is_parsed_as_zero(text: str) -> None:
    """Callers have lower limits, so none accepts 0."""
    assert parse_duration(text) == 0


def test_a_caller_can_allow_some_units_only() -> None:
    """A caller who takes hours and days only gets 0 for minutes."""
    assert (
        parse_duration("12h", "hd"),
        parse_duration("30d", "hd"),
        parse_duration("30m", "hd"),
    ) == (
        12 * 3_600,
        30 * DAY,
        0,
    )


def test_durations_are_formatted_in_one_unit() -> None:
    """In the largest unit that divides them, never rounded, in the plural where it is due."""
    assert [format_duration(each) for each in (1, 30, 60, 90, 3600, 5400, 86_400, 172_800)] == [
        "1 second",
        "30 seconds",
        "1 minute",
        "90 seconds",
        "1 hour",
        "90 minutes",
        "1 day",
        "2 days",
    ]


@given(st.integers(1, 365 * DAY))
def test_formatting_a_duration_loses_nothing(duration: int) -> None:
    """A formatted duration has the same number of seconds."""
    count, unit = format_duration(duration).split()
    assert parse_duration(f"{count.replace(',', '')}{unit[0]}") == duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (1, "1 minute"),
        (3_571, "1 hour"),
        (5_400, "90 minutes"),
        (7_200, "2 hours"),
        (10_700, "2 hours"),
        (86_400, "1 day"),
        (129_600, "36 hours"),
        (172_800, "2 days"),
        (604_799, "7 days"),
    ],
)
def test_remaining_time_is_formatted_roughly(seconds: int, words: str) -> None:
    """To the minute up to two hours; above that never more than there is."""
    assert format_rough_duration(timedelta(seconds=seconds)) == words
