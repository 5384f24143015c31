"""Who of those that decide or answer is away by their status in Slack. Looks people up.

It is for words only: whom a reminder calls, and what a card says to whoever waits. Who may decide,
and when, never depends on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from bot.policy.authority import Authority
from bot.policy.directory import AWAY, LookupFailedError

FEW = 6  # people whose statuses are looked at; who of a crowd is away helps nobody
Away = tuple[tuple[str, str], ...]  # user ids, and until when: ISO 8601, "" where it does not say


def away_of(authority: Authority, people: Collection[str]) -> Away:
    """Return who of a few people is away, sorted, also whose time is over by now: see `still_away`.

    Nobody where Slack cannot be asked.
    """
    if len(people) > FEW:
        return ()
    try:
        found = authority.directory.people(people)
    except LookupFailedError:
        return ()
    return tuple(
        (user, each.status_until.isoformat() if each.status_until else "")
        for user, each in sorted(found.items())
        if each.status in AWAY
    )


def still_away(noted: Mapping[str, str] | Away, now: datetime) -> list[tuple[str, datetime | None]]:
    """Return those who were noted as away and are so at that moment, and until when."""
    each = noted.items() if isinstance(noted, Mapping) else noted
    found = [(user, datetime.fromisoformat(until) if until else None) for user, until in each]
    return [(user, until) for user, until in found if until is None or now < until]
