"""Business hours: how far time has come when nights, days off and holidays do not count. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Annotated, Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

_MOST_DAYS = 1_000  # looked at in search of business hours; then time is up
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
MOST_HOLIDAYS = 400
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00")


class BusinessHours(BaseModel):
    """The hours of a day, the days of a week, and the days off."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    zone: str  # a name such as Europe/Berlin
    opens: int  # minutes after midnight
    closes: int  # the same; later than `opens`, at most 24 hours
    days: tuple[int, ...]  # 1 is Monday, 7 is Sunday
    holidays: tuple[date, ...] = ()

    @property
    def day(self) -> int:
        """The seconds of one business day."""
        return (self.closes - self.opens) * 60

    def after(self, start: datetime, seconds: int) -> datetime:
        """When so many seconds of business hours have passed since `start`; UTC.

        Where that is years ahead, the end of what was looked at: sooner, not later.
        """
        left = timedelta(seconds=seconds)
        end = start
        for begins, ends in self._spans(start):
            begins = max(begins, start)
            end = max(ends, start)
            if begins + left <= end:
                return begins + left
            left -= end - begins
        return end

    def between(self, start: datetime, end: datetime) -> timedelta:
        """How much of the time from `start` to `end` is business hours."""
        found = timedelta()
        for begins, ends in self._spans(start):
            if begins >= end:
                break
            found += max(min(ends, end) - max(begins, start), timedelta())
        return found

    def _spans(self, start: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The business hours of each day from that of `start` on."""
        first = start.astimezone(_zone(self.zone)).date()
        for ahead in range(_MOST_DAYS):
            day = first + timedelta(days=ahead)
            if day.isoweekday() in self.days and day not in self.holidays:
                yield self._moment(day, self.opens), self._moment(day, self.closes)

    def _moment(self, day: date, minutes: int) -> datetime:
        days, rest = divmod(minutes, 24 * 60)
        at = time(*divmod(rest, 60), tzinfo=_zone(self.zone))
        return datetime.combine(day + timedelta(days=days), at).astimezone(UTC)


@lru_cache(16)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _as_date(value: object) -> object:
    """A date as JSON has it, as one; anything else stays as it is."""
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            return value
    return value


Holiday = Annotated[date, BeforeValidator(_as_date)]


class HoursEntry(BaseModel):
    """[hours] as it is written: what business_hours counts."""

    model_config = ConfigDict(extra="forbid", strict=True)

    zone: str
    opens: str
    closes: str
    days: Annotated[list[Day], Field(min_length=1)] = ["mon", "tue", "wed", "thu", "fri"]
    holidays: Annotated[
        list[Annotated[date, BeforeValidator(_as_date)]], Field(max_length=MOST_HOLIDAYS)
    ] = []

    @field_validator("zone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError, LookupError):
            raise ValueError(f"{value!r} is no time zone; write one as Europe/Berlin") from None
        return value

    @field_validator("opens", "closes")
    @classmethod
    def _time(cls, value: str) -> str:
        if not _TIME.fullmatch(value):
            raise ValueError(f'{value!r} is no time of day; write it as "09:00"')
        return value
