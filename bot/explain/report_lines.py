"""A report as plain lines in columns, for a terminal or a preformatted block. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from bot.explain.gate_words import Words
from bot.explain.report import HASTY, Approver, Calls, Fate, Report
from countersign.durations import DAY, HOUR, MINUTE

MOST = 20  # tools and approvers that are listed
DAYS = 31  # the newest days that are listed
BAR = 30  # characters of the longest bar
NONE = "–"
_HEAD = ("asked", "approved", "rejected", "expired", "closed", "waiting", "edited")


def report_lines(report: Report, words: Words) -> Iterator[str]:
    """The report, line by line; `words` names the people."""
    yield f"Decisions from {report.since:%Y-%m-%d} to {report.until:%Y-%m-%d} (UTC)"
    if not report.total.asked:
        yield "Nobody was asked about anything."
        return
    yield summary(report)
    yield ""
    listed = [*report.tools[:MOST], *([report.total] if len(report.tools) != 1 else [])]
    yield from _table(("tool", *_HEAD, "median", "90% within"), [_of_tool(each) for each in listed])
    yield from left_out(len(report.tools), MOST, "tools")
    if report.approvers:
        yield ""
        head = ("approver", "approved", "rejected", "edited", "median", "90% within", _UNDER)
        people = [_of_person(each, words) for each in report.approvers[:MOST]]
        yield from _table(head, people)
        yield from left_out(len(report.approvers), MOST, "approvers")
    if report.days:
        yield ""
        yield from _chart(report)


_UNDER = f"under {HASTY.seconds} s"


def summary(report: Report) -> str:
    """Say in one or two sentences how long people took, and how many can hardly have read it."""
    speed = report.total.speed
    taken = (
        f"Half of the decisions took {brief(speed.median)} or less,"
        f" nine of ten {brief(speed.slow)} or less."
        if speed.median is not None
        else "People have decided nothing yet."
    )
    if not report.hasty:
        return taken
    share = round(100 * report.hasty / report.votes)
    return f"{taken} {report.hasty} of {report.votes} votes ({share}%) were given in {_UNDER}."


def _of_tool(calls: Calls) -> tuple[str, ...]:
    counts = [str(calls.fates[each] or NONE) for each in Fate]
    speed = (brief(calls.speed.median), brief(calls.speed.slow))
    return (calls.tool or "all", str(calls.asked), *counts, str(calls.edited or NONE), *speed)


def _of_person(each: Approver, words: Words) -> tuple[str, ...]:
    counts = (each.approved, each.rejected, each.edited)
    speed = (brief(each.speed.median), brief(each.speed.slow))
    return (
        words.person(each.person),
        *(str(count or NONE) for count in counts),
        *speed,
        str(each.hasty or NONE),
    )


def left_out(number: int, most: int, what: str) -> Iterator[str]:
    """Say how many of them are not listed, where that is so."""
    if number > most:
        yield f"… and {number - most} more {what}"


def _chart(report: Report) -> Iterator[str]:
    """A bar for each of the newest days: approved █, rejected ▒, expired ░."""
    shown = (Fate.APPROVED, "█"), (Fate.REJECTED, "▒"), (Fate.EXPIRED, "░")
    days = report.days[-DAYS:]
    most = max(sum(counts[each] for each, _ in shown) for _, counts in days) or 1
    yield "  ".join(f"{mark} {each}" for each, mark in shown)
    for day, counts in days:
        bar = "".join(mark * -(-counts[each] * BAR // most) for each, mark in shown)
        told = " · ".join(f"{counts[each]} {each}" for each, _ in shown if counts[each])
        yield f"{day:%Y-%m-%d}  {bar}  {told}" if told else f"{day:%Y-%m-%d}"
    if len(report.days) > DAYS:
        yield f"… and {len(report.days) - DAYS} days before"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns, the first to the left and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *others = (
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()


def brief(taken: timedelta | None) -> str:
    """How long that is, short enough for a column: "2.4 s", "12 min", "3 h 20 min", "2 d 4 h"."""
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
