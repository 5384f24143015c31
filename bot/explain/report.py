"""A report on decisions: computed from the calls, and written as lines or as Slack blocks.

Slack gets lines that a telephone can show too; columns would be wider than its screen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import TypeVar

from bot.cards.action_names import Block
from bot.cards.block_kit import (
    Json,
    bullets,
    context,
    header,
    line,
    mrkdwn,
    person,
    rich,
    section,
    words,
)
from bot.cards.button_codec import block_id
from bot.cards.slack_text import plain, visible
from bot.explain.explanation import MentionStyle
from countersign.durations import DAY, HOUR, MINUTE
from storage.call_history import AskedCall, ReportedVote
from storage.calls import WRITERS
from storage.states import CallStatus, Verb

# The numbers of a report: how many decisions, how fast, by tool, by approver and by day.

HASTY = timedelta(seconds=3)  # who decides sooner can hardly have read it
C = CallStatus
T = TypeVar("T")
K = TypeVar("K")


class CallFate(StrEnum):
    """What became of a call that people were asked about."""

    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CLOSED = "closed"  # cancelled, withdrawn, replaced
    WAITING = "waiting"


_FATES = {
    C.PENDING: CallFate.WAITING,
    C.REJECTED: CallFate.REJECTED,
    C.EXPIRED: CallFate.EXPIRED,
    C.CANCELLED: CallFate.CLOSED,
    C.SUPERSEDED: CallFate.CLOSED,
    C.INVALIDATED: CallFate.CLOSED,
}  # every other is a call that was approved


@dataclass(frozen=True, slots=True)
class DecisionSpeed:
    """How long decisions took; None if there were none."""

    median: timedelta | None = None
    slow: timedelta | None = None  # the 90th percentile: nine of ten were as fast, or faster


@dataclass(frozen=True, slots=True)
class CallCounts:
    """What became of some calls: all of them, or one tool's."""

    tool: str  # "" for all
    fates: dict[CallFate, int]  # every outcome is there
    edited: int  # that a person changed before they were decided
    speed: DecisionSpeed  # from the card to the vote that decided it

    @property
    def asked(self) -> int:
        """The number of calls that people were asked about."""
        return sum(self.fates.values())


@dataclass(frozen=True, slots=True)
class Approver:
    """One person's votes and edits in a report."""

    person: str  # Slack user id
    approved: int
    rejected: int
    edited: int  # calls that they changed
    hasty: int  # of their votes, those given in under three seconds
    speed: DecisionSpeed  # from what was shown to their vote


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report, for the calls proposed in [since, until)."""

    since: datetime
    until: datetime
    total: CallCounts
    hasty: int  # votes given in under three seconds
    votes: int
    tools: tuple[CallCounts, ...]  # most asked first
    approvers: tuple[Approver, ...]  # who voted most first
    days: tuple[
        tuple[date, dict[CallFate, int]], ...
    ]  # UTC days on which something ended, in order


def compute_report(asked: Iterable[AskedCall], since: datetime, until: datetime) -> Report:
    """Compute the report on these calls, which were proposed in [since, until)."""
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
        days=_decided_by_day(found),
    )


def _by_people(call: AskedCall) -> bool:
    """Return whether people decided or may decide the call, not a grant or the policy alone."""
    return call.status in _FATES or bool(call.votes)


def fate_of(call: AskedCall) -> CallFate:
    """Return what became of a call."""
    return _FATES.get(call.status, CallFate.APPROVED)


def _calls(tool: str, calls: Sequence[AskedCall]) -> CallCounts:
    counts = _counted(calls)
    edited = sum(bool(_editors(call)) for call in calls)
    return CallCounts(tool, counts, edited, _speed_of(map(_took, calls)))


def _counted(calls: Iterable[AskedCall]) -> dict[CallFate, int]:
    counts = dict.fromkeys(CallFate, 0)
    for call in calls:
        counts[fate_of(call)] += 1
    return counts


def _editors(call: AskedCall) -> set[str]:
    return {each.author for each in call.drafts.values()} - WRITERS


def _took(call: AskedCall) -> timedelta | None:
    """Return the time from a call's first revision to its last vote; None if it is not decided."""
    first = call.drafts.get(1)
    if fate_of(call) not in (CallFate.APPROVED, CallFate.REJECTED) or not call.votes or not first:
        return None
    return call.votes[-1].at - first.at


def _thought(call: AskedCall, vote: ReportedVote) -> timedelta | None:
    """Return the time from when the voted revision was made to the vote; None if unknown."""
    draft = call.drafts.get(vote.revision)
    return vote.at - draft.at if draft else None


def _is_hasty(taken: timedelta | None) -> bool:
    return taken is not None and taken < HASTY


def _approvers(
    calls: Sequence[AskedCall], votes: Sequence[tuple[ReportedVote, timedelta | None]]
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
            speed=_speed_of(taken for _, taken in of_each.get(person, ())),
        )
        for person in {*of_each, *edited}
    ]
    return tuple(sorted(found, key=lambda each: (-each.approved - each.rejected, each.person)))


def _decided_by_day(calls: Iterable[AskedCall]) -> tuple[tuple[date, dict[CallFate, int]], ...]:
    ended = [(_ended(call), call) for call in calls]
    days = _grouped([(at.date(), call) for at, call in ended if at], lambda each: each[0])
    return tuple((day, _counted(call for _, call in each)) for day, each in sorted(days.items()))


def _ended(call: AskedCall) -> datetime | None:
    """Return when the call was decided, by people or the clock; None while it waits."""
    if fate_of(call) is CallFate.WAITING:
        return None
    return call.votes[-1].at if call.votes else call.decided_at


def _speed_of(taken: Iterable[timedelta | None]) -> DecisionSpeed:
    """Return the median time, and the time of the 90th percentile (nearest rank)."""
    known = sorted(each.total_seconds() for each in taken if each is not None)
    if not known:
        return DecisionSpeed()
    slow = known[math.ceil(0.9 * len(known)) - 1]
    return DecisionSpeed(timedelta(seconds=median(known)), timedelta(seconds=slow))


def _grouped(things: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for each in things:
        groups.setdefault(key(each), []).append(each)
    return groups


# A report as plain lines in columns, for a terminal or a preformatted block. Pure.

MOST_LINES = 20  # tools and approvers that are listed
DAYS = 31  # the newest days that are listed
LINE_BAR = 30  # characters of the longest bar
NONE = "–"
_HEAD = ("asked", "approved", "rejected", "expired", "closed", "waiting", "edited")


def report_lines(report: Report, words: MentionStyle) -> Iterator[str]:
    """Yield the report, line by line; `words` names the people."""
    yield f"Decisions from {report.since:%Y-%m-%d} to {report.until:%Y-%m-%d} (UTC)"
    if not report.total.asked:
        yield "Nobody was asked about anything."
        return
    yield summary(report)
    yield ""
    listed = [*report.tools[:MOST_LINES], *([report.total] if len(report.tools) != 1 else [])]
    yield from _table(("tool", *_HEAD, "median", "90% within"), [_of_tool(each) for each in listed])
    yield from left_out_line(len(report.tools), MOST_LINES, "tools")
    if report.approvers:
        yield ""
        head = ("approver", "approved", "rejected", "edited", "median", "90% within", _UNDER)
        people = [_person_line(each, words) for each in report.approvers[:MOST_LINES]]
        yield from _table(head, people)
        yield from left_out_line(len(report.approvers), MOST_LINES, "approvers")
    if report.days:
        yield ""
        yield from _chart(report)


_UNDER = f"under {HASTY.seconds} s"


def summary(report: Report) -> str:
    """Return one or two sentences on how long decisions took and how many votes were hasty."""
    speed = report.total.speed
    taken = (
        f"Half of the decisions took {brief_duration(speed.median)} or less,"
        f" nine of ten {brief_duration(speed.slow)} or less."
        if speed.median is not None
        else "People have decided nothing yet."
    )
    if not report.hasty:
        return taken
    share = round(100 * report.hasty / report.votes)
    return f"{taken} {report.hasty} of {report.votes} votes ({share}%) were given in {_UNDER}."


def _of_tool(calls: CallCounts) -> tuple[str, ...]:
    counts = [str(calls.fates[each] or NONE) for each in CallFate]
    speed = (brief_duration(calls.speed.median), brief_duration(calls.speed.slow))
    return (calls.tool or "all", str(calls.asked), *counts, str(calls.edited or NONE), *speed)


def _person_line(each: Approver, words: MentionStyle) -> tuple[str, ...]:
    counts = (each.approved, each.rejected, each.edited)
    speed = (brief_duration(each.speed.median), brief_duration(each.speed.slow))
    return (
        words.person(each.person),
        *(str(count or NONE) for count in counts),
        *speed,
        str(each.hasty or NONE),
    )


def left_out_line(number: int, most: int, what: str) -> Iterator[str]:
    """Yield how many of `number` things are not listed, if more than `most`; else nothing."""
    if number > most:
        yield f"… and {number - most} more {what}"


def _chart(report: Report) -> Iterator[str]:
    """Yield a bar for each of the newest days: approved █, rejected ▒, expired ░."""
    shown = (CallFate.APPROVED, "█"), (CallFate.REJECTED, "▒"), (CallFate.EXPIRED, "░")
    days = report.days[-DAYS:]
    most = max(sum(counts[each] for each, _ in shown) for _, counts in days) or 1
    yield "  ".join(f"{mark} {each}" for each, mark in shown)
    for day, counts in days:
        bar = "".join(mark * -(-counts[each] * LINE_BAR // most) for each, mark in shown)
        told = " · ".join(f"{counts[each]} {each}" for each, _ in shown if counts[each])
        yield f"{day:%Y-%m-%d}  {bar}  {told}" if told else f"{day:%Y-%m-%d}"
    if len(report.days) > DAYS:
        yield f"… and {len(report.days) - DAYS} days before"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows in aligned columns: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *others = (
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()


def brief_duration(taken: timedelta | None) -> str:
    """Return a short duration: "2.4 s", "12 min", "3 h 20 min", "2 d 4 h"; a dash for None."""
    if taken is None:
        return NONE
    seconds = taken.total_seconds()
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 2 * MINUTE:
        return f"{seconds:.0f} s"
    for size, unit, smaller, rest in ((DAY, "d", HOUR, "h"), (HOUR, "h", MINUTE, "min")):
        if seconds >= size:
            whole, left = divmod(round(seconds / smaller), size // smaller)
            return f"{whole} {unit} {left} {rest}" if left else f"{whole} {unit}"
    return f"{seconds / MINUTE:.0f} min"


TITLE = "How people decided"
MOST, NEWEST = 12, 14  # tools and people, and days, that are listed
BAR = 10  # squares of the longest bar
NAME = 60  # characters of a tool's title
SHOWN = ((CallFate.APPROVED, "🟩"), (CallFate.REJECTED, "🟥"), (CallFate.EXPIRED, "⬜"))
SAID = {
    CallFate.APPROVED: "approved",
    CallFate.REJECTED: "rejected",
    CallFate.EXPIRED: "unanswered",
    CallFate.CLOSED: "taken back",
    CallFate.WAITING: "waiting",
}


def report_blocks(report: Report, titles: Mapping[str, str], note: str = "") -> list[Json]:
    """Draw the report as blocks; `titles`: of tools by name; `note`: our mrkdwn put below."""
    span = f"From {report.since:%Y-%m-%d} to {report.until:%Y-%m-%d} (UTC)."
    asked = report.total.asked
    told = summary(report) if asked else "Nobody was asked about anything."
    blocks = [header(_id("title"), TITLE), section(_id("summary"), mrkdwn(f"{span} {told}"))]
    if asked:
        blocks += _part("tools", "What was asked", _tools(report, titles))
        blocks += _part("people", "Who decided", map(_of_person, report.approvers[:MOST]))
        blocks += _part("days", "Day by day", _days(report))
    more = [
        *left_out_line(len(report.tools), MOST, "tools"),
        *left_out_line(len(report.approvers), MOST, "people"),
        *left_out_line(len(report.days), NEWEST, "days before"),
    ]
    notes = [*more, *([note] if note else [])]
    return [*blocks, *([context(_id("notes"), [mrkdwn("  ·  ".join(notes))])] if notes else [])]


def _id(name: str) -> str:
    return block_id(Block.OVERVIEW, name)


def _part(name: str, title: str, items: Iterator[Sequence[Json]]) -> list[Json]:
    """Build a list below its title; nothing if there is nothing to list."""
    found = [line(*each) for each in items]
    return [rich(_id(name), [line(words(title, bold=True)), bullets(found)])] if found else []


def _tools(report: Report, titles: Mapping[str, str]) -> Iterator[list[Json]]:
    for each in report.tools[:MOST]:
        name = plain(visible(" ".join(titles.get(each.tool, each.tool).split())), NAME)
        yield [words(name, bold=True), words(f": {_of_calls(each)}")]
    if len(report.tools) > 1:
        yield [words("All", bold=True), words(f": {_of_calls(report.total)}")]


def _of_calls(calls: CallCounts) -> str:
    counts = [f"{calls.fates[each]} {word}" for each, word in SAID.items() if calls.fates[each]]
    edited = [f"{calls.edited} edited before"] if calls.edited else []
    return ", ".join([*counts, *edited]) + _speed(calls.speed)


def _of_person(each: Approver) -> list[Json]:
    counts = {"approved": each.approved, "rejected": each.rejected, "edited": each.edited}
    told = [f"{word} {count}" for word, count in counts.items() if count]
    if each.hasty:
        told.append(f"{each.hasty} in under {HASTY.seconds} s")
    return [person(each.person), words(f" {', '.join(told)}{_speed(each.speed)}")]


def _speed(speed: DecisionSpeed) -> str:
    """Return how fast half and nine of ten decisions were; one time only if both are equal."""
    if speed.median is None:
        return ""
    half, most = brief_duration(speed.median), brief_duration(speed.slow)
    return f"; in {half}" if half == most else f"; half within {half}, nine of ten within {most}"


def _days(report: Report) -> Iterator[list[Json]]:
    days = report.days[-NEWEST:]
    most = max((sum(counts[each] for each, _ in SHOWN) for _, counts in days), default=0) or 1
    for day, counts in days:
        bar = "".join(mark * -(-counts[each] * BAR // max(most, BAR)) for each, mark in SHOWN)
        told = ", ".join(f"{counts[each]} {SAID[each]}" for each, _ in SHOWN if counts[each])
        yield [words(f"{day:%d %b}  {bar}  {told or 'nothing decided'}")]
