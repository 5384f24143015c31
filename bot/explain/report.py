"""How people decided over a time: how many, how fast, by tool and by approver, day by day.

`report` computes it from rows of `storage.reports`, and reads nothing itself; `Report` is
what a place draws as it likes, `bot.explain.report_text` writes it as plain lines.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import TypeVar

from storage.calls import WRITERS
from storage.reports import AskedCall, Said
from storage.states import CallStatus, Verb

HASTY = timedelta(seconds=3)  # who decides sooner can hardly have read it
C = CallStatus
T = TypeVar("T")
K = TypeVar("K")


class Fate(StrEnum):
    """What came of a call that people were asked about."""

    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CLOSED = "closed"  # cancelled, withdrawn, replaced
    WAITING = "waiting"


_FATES = {
    C.PENDING: Fate.WAITING,
    C.REJECTED: Fate.REJECTED,
    C.EXPIRED: Fate.EXPIRED,
    C.CANCELLED: Fate.CLOSED,
    C.SUPERSEDED: Fate.CLOSED,
    C.INVALIDATED: Fate.CLOSED,
}  # every other is a call that was approved


@dataclass(frozen=True, slots=True)
class Speed:
    """How long decisions took; None where there is none."""

    median: timedelta | None = None
    slow: timedelta | None = None  # the 90th percentile: nine of ten were as fast, or faster


@dataclass(frozen=True, slots=True)
class CallCounts:
    """What came of some calls: all of them, or one tool's."""

    tool: str  # "" for all
    fates: dict[Fate, int]  # every outcome is there
    edited: int  # that a person changed before they were decided
    speed: Speed  # from the card to the vote that decided it

    @property
    def asked(self) -> int:
        """How many people were asked about."""
        return sum(self.fates.values())


@dataclass(frozen=True, slots=True)
class Approver:
    """How one person voted."""

    person: str  # Slack user id
    approved: int
    rejected: int
    edited: int  # calls that they changed
    hasty: int  # of their votes, those given in under three seconds
    speed: Speed  # from what was shown to their vote


@dataclass(frozen=True, slots=True)
class Report:
    """All of it, for the calls proposed in [since, until)."""

    since: datetime
    until: datetime
    total: CallCounts
    hasty: int  # votes given in under three seconds
    votes: int
    tools: tuple[CallCounts, ...]  # most asked first
    approvers: tuple[Approver, ...]  # who voted most first
    days: tuple[tuple[date, dict[Fate, int]], ...]  # UTC days on which something ended, in order


def report(asked: Iterable[AskedCall], since: datetime, until: datetime) -> Report:
    """Compute the report of these calls, which were proposed in that time."""
    found = [each for each in asked if _by_people(each)]
    tools = _grouped(found, lambda each: each.tool)
    votes = [(vote, _thought(call, vote)) for call in found for vote in call.votes]
    total = _calls("", found)
    return Report(
        since,
        until,
        total,
        hasty=sum(_is_hasty(taken) for _, taken in votes),
        votes=len(votes),
        tools=tuple(
            sorted(
                (_calls(tool, calls) for tool, calls in tools.items()),
                key=lambda each: (-each.asked, each.tool),
            )
        ),
        approvers=_approvers(found, votes),
        days=_days(found),
    )


def _by_people(call: AskedCall) -> bool:
    """Whether people had or have a say in it: not so where a grant or the policy approved it."""
    return call.status in _FATES or bool(call.votes)


def fate(call: AskedCall) -> Fate:
    """Return what came of a call."""
    return _FATES.get(call.status, Fate.APPROVED)


def _calls(tool: str, calls: Sequence[AskedCall]) -> CallCounts:
    counts = _counted(calls)
    edited = sum(bool(_editors(call)) for call in calls)
    return CallCounts(tool, counts, edited, _speed(map(_took, calls)))


def _counted(calls: Iterable[AskedCall]) -> dict[Fate, int]:
    counts = dict.fromkeys(Fate, 0)
    for call in calls:
        counts[fate(call)] += 1
    return counts


def _editors(call: AskedCall) -> set[str]:
    return {each.author for each in call.drafts.values()} - WRITERS


def _took(call: AskedCall) -> timedelta | None:
    """How long people took to decide; None where they have not."""
    first = call.drafts.get(1)
    if fate(call) not in (Fate.APPROVED, Fate.REJECTED) or not call.votes or not first:
        return None
    return call.votes[-1].at - first.at


def _thought(call: AskedCall, vote: Said) -> timedelta | None:
    """How long a person had what they voted on; None where that is not known."""
    draft = call.drafts.get(vote.revision)
    return vote.at - draft.at if draft else None


def _is_hasty(taken: timedelta | None) -> bool:
    return taken is not None and taken < HASTY


def _approvers(
    calls: Sequence[AskedCall], votes: Sequence[tuple[Said, timedelta | None]]
) -> tuple[Approver, ...]:
    edited = Counter(person for call in calls for person in _editors(call))
    of_each = _grouped(votes, lambda each: each[0].person)
    found = [
        Approver(
            person,
            approved=sum(vote.verb is Verb.APPROVE for vote, _ in of_each.get(person, ())),
            rejected=sum(vote.verb is Verb.REJECT for vote, _ in of_each.get(person, ())),
            edited=edited[person],
            hasty=sum(_is_hasty(taken) for _, taken in of_each.get(person, ())),
            speed=_speed(taken for _, taken in of_each.get(person, ())),
        )
        for person in {*of_each, *edited}
    ]
    return tuple(sorted(found, key=lambda each: (-each.approved - each.rejected, each.person)))


def _days(calls: Iterable[AskedCall]) -> tuple[tuple[date, dict[Fate, int]], ...]:
    ended = [(_ended(call), call) for call in calls]
    days = _grouped([(at.date(), call) for at, call in ended if at], lambda each: each[0])
    return tuple((day, _counted(call for _, call in each)) for day, each in sorted(days.items()))


def _ended(call: AskedCall) -> datetime | None:
    """When it was decided, by people or the clock."""
    if fate(call) is Fate.WAITING:
        return None
    return call.votes[-1].at if call.votes else call.decided_at


def _speed(taken: Iterable[timedelta | None]) -> Speed:
    """The median, and the time within which nine of ten are (nearest rank)."""
    known = sorted(each.total_seconds() for each in taken if each is not None)
    if not known:
        return Speed()
    slow = known[math.ceil(0.9 * len(known)) - 1]
    return Speed(timedelta(seconds=median(known)), timedelta(seconds=slow))


def _grouped(things: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for each in things:
        groups.setdefault(key(each), []).append(each)
    return groups
