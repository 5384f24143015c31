"""The time of a run, recognised in the values that it wrote. PURE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.tools.database.rows.change import AtRun

_EPOCH_DAY = 2440587.5  # the Julian day of 1970-01-01
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d(:?\d\d)?)?")


@dataclass(frozen=True, slots=True)
class Moment:
    """From when to when a change ran, by the database's clock."""

    start: datetime  # UTC
    end: datetime
    # how the database writes these times down
    texts: tuple[str, ...] = ()
    # the transaction's own time, to the microsecond, where it has one
    exact: datetime | None = None

    def told(self, value: Any) -> Any:
        """An AtRun where a value is of this moment, or a whole number of seconds from it."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return AtRun() if self._counts(float(value)) else value
        if not isinstance(value, str):
            return value
        if _TIME.fullmatch(value) and (found := self._time(value)):
            return found
        note = value
        for text in self.texts:
            note = note.replace(text, "…")
        return value if note == value else AtRun("" if note == "…" else note)

    def _counts(self, value: float) -> bool:
        """Whether a number is this moment as seconds or milliseconds since 1970, or Julian days."""
        start, end = self.start.timestamp() - 1, self.end.timestamp() + 1
        days = [each / 86_400 + _EPOCH_DAY for each in (start, end)]
        return (
            start <= value <= end
            or start * 1000 <= value <= end * 1000
            or days[0] <= value <= days[1]
        )

    def _time(self, text: str) -> AtRun | None:
        whole, fraction, zone = text[:19], "", text[19:]
        if zone.startswith("."):
            fraction = re.match(r"\.\d+", zone)[0]  # type: ignore[index]  # it has one
            zone = zone[len(fraction) :]
        micro = timedelta(microseconds=int(fraction[1:].ljust(6, "0") or 0))
        try:
            read = datetime.fromisoformat(whole + zone) + micro
        except (ValueError, OverflowError):  # 0000-00-00, say
            return None
        at = read if read.tzinfo else read.replace(tzinfo=UTC)
        if self.start <= at <= self.end:
            return AtRun()
        if self.exact is None or at.microsecond != self.exact.microsecond or not at.microsecond:
            return None
        return AtRun(f"{(at - self.exact).total_seconds():+.0f} s")


def between(start: datetime, end: datetime, zones: Sequence[timedelta] = ()) -> Moment:
    """The moment of a database that writes whole seconds in UTC and the `zones`."""
    first, last = start.replace(microsecond=0), end.replace(microsecond=0)
    seconds = [first + timedelta(seconds=at) for at in range(int((last - first).seconds) + 1)]
    texts = [
        (each + zone).strftime(form)
        for each in seconds
        for zone in (timedelta(), *zones)
        for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S")
    ]
    return Moment(first, end + timedelta(seconds=1), tuple(dict.fromkeys(texts)))
