"""Business hours, freezes and times to start: measures time without nights and days off. PURE.

Holidays are days off as well. Also says which facts a policy's conditions may use about a moment.

The library `holidays` knows the holidays of countries. It takes a moment to load, so it is imported
only where a policy names such a calendar.
"""

from __future__ import annotations

import re
from calendar import day_name
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    field_validator,
)

from bot.policy.condition_values import validate_time_zone
from countersign.durations import DAY, HOUR, format_count, format_duration

_MAX_SEARCHED_DAYS = 1_000  # ahead for business hours; after that the time counts as over
_HOLIDAY_SEARCH_DAYS = 366  # a year
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Day, ...] = get_args(Day)
MAX_HOLIDAYS = 400
_CALENDAR_CODE_HINT = 'write the code of a country, as "DE", or of a part of one, as "DE-BY"'
_TIME_PATTERN = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00")
_START_TIME_PATTERN = re.compile(
    rf"(?:({'|'.join(WEEKDAYS)}) )?([01][0-9]|2[0-3]):([0-5][0-9]) (\S+)"
)


@lru_cache(64)
def get_public_holidays(calendar: str, year: int) -> Mapping[date, str]:
    """Return the public holidays of a year by date, with names in English where there are any."""
    import holidays

    country, _, part = calendar.partition("-")
    found = holidays.country_holidays(country, part or None, years=year, language="en_US")
    return MappingProxyType({day: name for day, name in found.items() if day.year == year})


def validate_holiday_calendar(written: str) -> str:
    """Return a calendar's name if it exists; else raises ValueError with the nearest name."""
    import holidays
    from holidays.registry import COUNTRIES

    country, dash, part = written.partition("-")
    codes = {names[1] for names in COUNTRIES.values()}
    if country not in codes:
        spelt = {
            name: names[1]
            for place, names in COUNTRIES.items()
            for name in (place.replace("_", " "), *names)
        }
        raise ValueError(_unknown_calendar_sentence(written, country, spelt))
    entity = getattr(holidays, country)
    if dash and part not in entity.subdivisions:
        spelt = dict(zip(entity.subdivisions, entity.subdivisions, strict=True))
        spelt |= getattr(entity, "subdivisions_aliases", {})
        named = {name: f"{country}-{code}" for name, code in spelt.items()}
        raise ValueError(_unknown_calendar_sentence(written, part, named))
    return written


def _unknown_calendar_sentence(written: str, word: str, calendars: Mapping[str, str]) -> str:
    by_name = {name.casefold(): calendar for name, calendar in calendars.items()}
    close = get_close_matches(word.casefold(), by_name, 1)
    near = f" (did you mean {by_name[close[0]]}?)" if close else ""
    return f"there is no calendar {written!r}; {_CALENDAR_CODE_HINT}{near}"


class BusinessHours(BaseModel):
    """When business hours are: the hours of a day, the days of a week, and the days off."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    zone: str  # a name such as Europe/Berlin
    opens: int  # minutes after midnight
    closes: int  # minutes after midnight; later than `opens` by at most 24 hours
    days: tuple[int, ...]  # 1 is Monday, 7 is Sunday
    holidays: tuple[date, ...] = ()
    calendar: str = ""  # region whose holidays are days off as well: DE, DE-BY; "" for none

    @property
    def seconds_per_business_day(self) -> int:
        """Return the length of a business day in seconds."""
        return (self.closes - self.opens) * 60

    def describe_duration(self, seconds: int) -> str:
        """Return a number of seconds of business hours in words, whole days as business days."""
        days, rest = divmod(seconds, self.seconds_per_business_day)
        if days and not rest:
            return format_count(days, "business day")
        return format_duration(seconds) if seconds % DAY else f"{seconds // HOUR} hours"

    def add_business_seconds(self, start: datetime, seconds: int) -> datetime:
        """Return the moment when `seconds` of business hours have passed since `start`; UTC.

        If that is more than 1,000 days ahead, the end of the last business day looked at.
        """
        left = timedelta(seconds=seconds)
        end = start
        for begins, ends in self._list_open_spans(start):
            begins = max(begins, start)
            end = max(ends, start)
            if begins + left <= end:
                return begins + left
            left -= end - begins
        return end

    def measure_business_time(self, start: datetime, end: datetime) -> timedelta:
        """Return how much of the time from `start` to `end` is business hours."""
        found = timedelta()
        for begins, ends in self._list_open_spans(start):
            if begins >= end:
                break
            found += max(min(ends, end) - max(begins, start), timedelta())
        return found

    def is_open(self, now: datetime) -> bool:
        """Return whether a moment is within business hours."""
        first = next(self._list_open_spans(now), None)
        return first is not None and first[0] <= now < first[1]

    def list_next_holidays(self, start: datetime, count: int) -> list[tuple[date, str]]:
        """Return up to `count` holidays on business days from `start` on, each with its name.

        Looks a year ahead. The name is "" for a day that only the policy lists.
        """
        first = start.astimezone(ZoneInfo(self.zone)).date()
        ahead = (first + timedelta(days=each) for each in range(_HOLIDAY_SEARCH_DAYS))
        off = (
            (day, self._find_holiday_name(day)) for day in ahead if day.isoweekday() in self.days
        )
        return list(islice(((day, name) for day, name in off if name is not None), count))

    def _find_holiday_name(self, day: date) -> str | None:
        """Return the name of the holiday on a day, "" if it has none; None for any other day."""
        named = get_public_holidays(self.calendar, day.year).get(day) if self.calendar else None
        return named or ("" if day in self.holidays else None)

    def _list_open_spans(self, start: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield the start and end of each day's business hours, from the day of `start` on."""
        first = start.astimezone(ZoneInfo(self.zone)).date()
        for ahead in range(_MAX_SEARCHED_DAYS):
            day = first + timedelta(days=ahead)
            if day.isoweekday() in self.days and self._find_holiday_name(day) is None:
                opens, closes = (
                    self._build_utc_moment(day, at) for at in (self.opens, self.closes)
                )
                yield opens, max(opens, closes)  # an hour that clocks skip has no length

    def _build_utc_moment(self, day: date, minutes: int) -> datetime:
        days, rest = divmod(minutes, 24 * 60)
        at = time(*divmod(rest, 60), tzinfo=ZoneInfo(self.zone))
        return datetime.combine(day + timedelta(days=days), at).astimezone(UTC)


class StartTime(BaseModel):
    """The time of day at which approved calls start, on any day or on one day of the week."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    zone: str  # a name such as Europe/Berlin
    minutes: int  # after midnight
    day: int = 0  # 1 is Monday, 7 is Sunday; 0 is any day

    def find_next(self, after: datetime) -> datetime:
        """Return the first such time after a moment; UTC."""
        zone = ZoneInfo(self.zone)
        first, at = after.astimezone(zone).date(), time(*divmod(self.minutes, 60), tzinfo=zone)
        days = (first + timedelta(days=ahead) for ahead in range(9))
        moments = (
            datetime.combine(each, at).astimezone(UTC)
            for each in days
            if self.day in (0, each.isoweekday())
        )
        return next(each for each in moments if each > after)

    def describe_for_people(self) -> str:
        """Return the time as people say it: "22:00 (Europe/Berlin)", "22:00 on Saturday (…)"."""
        day = f" on {day_name[self.day - 1]}" if self.day else ""
        return f"{self.minutes // 60:02}:{self.minutes % 60:02}{day} ({self.zone})"

    def __str__(self) -> str:
        """Return the time as a policy has it: "sat 22:00 Europe/Berlin"."""
        day = f"{WEEKDAYS[self.day - 1]} " if self.day else ""
        return f"{day}{self.minutes // 60:02}:{self.minutes % 60:02} {self.zone}"


def parse_start_time(written: object) -> StartTime:
    """Return the time in "22:00 Europe/Berlin" or "sat 22:00 Europe/Berlin".

    Raises ValueError with what is wrong.
    """
    if not isinstance(written, str):
        raise ValueError("write it in quotes")
    match = _START_TIME_PATTERN.fullmatch(written)
    if match is None:
        raise ValueError(
            f'{written!r} is not a start time; write "22:00 Europe/Berlin", or with a day of the '
            'week "sat 22:00 Europe/Berlin"'
        )
    day, hour, minute, zone = match.groups()
    number = WEEKDAYS.index(day) + 1 if day else 0
    return StartTime(
        zone=validate_time_zone(zone), minutes=int(hour) * 60 + int(minute), day=number
    )


class Freeze(BaseModel):
    """A period in which a policy's author wants fewer changes, or none."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    starts: datetime  # UTC
    ends: datetime  # UTC, exclusive


class PolicyCalendar(BaseModel):
    """The freezes and the business hours that the conditions of a policy may ask for."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    freezes: tuple[Freeze, ...] = ()
    hours: BusinessHours | None = None  # None if no condition needs them

    def list_current_freezes(self, now: datetime) -> list[Freeze]:
        """Return the freezes that are in force at a moment."""
        return [each for each in self.freezes if each.starts <= now < each.ends]

    def build_time_facts(self, now: datetime) -> dict[str, Any]:
        """Return the facts about a moment that conditions may ask for, by their names."""
        current = self.list_current_freezes(now)
        return {
            "freezes": {each.name: each in current for each in self.freezes},
            "in_freeze": bool(current),
            "in_business_hours": self.hours.is_open(now) if self.hours else None,
        }


def _parse_iso_date(value: object) -> object:
    """Return the date in an ISO text such as "2026-12-25"; any other value unchanged."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            return value
    return value


def _parse_iso_moment(value: object) -> datetime | date:
    """Return a date or a time, also from its ISO text; raises ValueError for any other value."""
    found = _parse_iso_date(value)
    if isinstance(found, str):
        with suppress(ValueError):
            return datetime.fromisoformat(found)
    if not isinstance(found, date):  # a datetime is a date, too
        raise ValueError("write a date (2026-12-24), or a time (2026-12-24T18:00:00)")
    return found


Moment = Annotated[datetime | date, PlainValidator(_parse_iso_moment)]


class FreezeEntry(BaseModel):
    """One entry of [freezes] as it is written: a date counts as the whole of that day."""

    model_config = ConfigDict(extra="forbid", strict=True)

    begin: Moment = Field(alias="from")
    end: Moment = Field(alias="to")
    zone: Annotated[str, AfterValidator(validate_time_zone)] | None = None

    def build_freeze(self, name: str, zone: str | None) -> Freeze:
        """Return the freeze, in `zone` if it names none; raises ValueError with what is wrong."""
        zone = self.zone or zone
        days = 0 if isinstance(self.end, datetime) else 1
        try:
            starts = _convert_to_utc(self.begin, zone)
            ends = _convert_to_utc(self.end + timedelta(days=days), zone)
        except OverflowError:
            raise ValueError("goes beyond the calendar; write years from 2 to 9998") from None
        if ends <= starts:
            raise ValueError("ends before it begins; write a later time in to")
        return Freeze(name=name, starts=starts, ends=ends)


def _convert_to_utc(at: datetime | date, zone: str | None) -> datetime:
    """Return a moment, or the beginning of a day, in UTC; raises ValueError without a zone."""
    if isinstance(at, datetime) and at.tzinfo:
        return at.astimezone(UTC)
    if zone is None:
        raise ValueError('has no time zone; write zone = "Europe/Berlin", or [hours] with a zone')
    local = at if isinstance(at, datetime) else datetime.combine(at, time())
    return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


class HoursEntry(BaseModel):
    """The table [hours] of a policy file, as it is written: when business hours are."""

    model_config = ConfigDict(extra="forbid", strict=True)

    zone: Annotated[str, AfterValidator(validate_time_zone)]
    opens: str
    closes: str
    days: Annotated[list[Day], Field(min_length=1)] = ["mon", "tue", "wed", "thu", "fri"]
    holidays: Annotated[
        list[Annotated[date, BeforeValidator(_parse_iso_date)]], Field(max_length=MAX_HOLIDAYS)
    ] = []
    calendar: str | None = None

    @field_validator("calendar")
    @classmethod
    def _validate_calendar(cls, value: str) -> str:
        return validate_holiday_calendar(value)

    @field_validator("opens", "closes")
    @classmethod
    def _validate_time(cls, value: str) -> str:
        if not _TIME_PATTERN.fullmatch(value):
            raise ValueError(f'{value!r} is not a time of day; write it as "09:00"')
        return value
