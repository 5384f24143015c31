"""A report as Slack shows it, in lines that also a telephone can show. Pure.

Columns would have to be wider than its screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bot.cards.action_names import Block
from bot.cards.button_codec import block_id
from bot.cards.parts import (
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
from bot.cards.text import plain, visible
from bot.explain.report import HASTY, Approver, Calls, Fate, Report, Speed
from bot.explain.report_lines import brief, left_out, summary

TITLE = "How people decided"
MOST, NEWEST = 12, 14  # tools and people, and days, that are listed
BAR = 10  # squares of the longest bar
NAME = 60  # characters of a tool's title
SHOWN = ((Fate.APPROVED, "🟩"), (Fate.REJECTED, "🟥"), (Fate.EXPIRED, "⬜"))
SAID = {
    Fate.APPROVED: "approved",
    Fate.REJECTED: "rejected",
    Fate.EXPIRED: "unanswered",
    Fate.CLOSED: "taken back",
    Fate.WAITING: "waiting",
}


def report_blocks(report: Report, titles: Mapping[str, str], note: str = "") -> list[Json]:
    """Draw the report; `titles`: of tools by name; `note`: mrkdwn of ours below it."""
    span = f"From {report.since:%Y-%m-%d} to {report.until:%Y-%m-%d} (UTC)."
    asked = report.total.asked
    told = summary(report) if asked else "Nobody was asked about anything."
    blocks = [header(_id("title"), TITLE), section(_id("summary"), mrkdwn(f"{span} {told}"))]
    if asked:
        blocks += _part("tools", "What was asked", _tools(report, titles))
        blocks += _part("people", "Who decided", map(_of_person, report.approvers[:MOST]))
        blocks += _part("days", "Day by day", _days(report))
    more = [
        *left_out(len(report.tools), MOST, "tools"),
        *left_out(len(report.approvers), MOST, "people"),
        *left_out(len(report.days), NEWEST, "days before"),
    ]
    notes = [*more, *([note] if note else [])]
    return [*blocks, *([context(_id("notes"), [mrkdwn("  ·  ".join(notes))])] if notes else [])]


def _id(name: str) -> str:
    return block_id(Block.OVERVIEW, name)


def _part(name: str, title: str, items: Iterator[Sequence[Json]]) -> list[Json]:
    """Build a list below its title; nothing where there is nothing to list."""
    found = [line(*each) for each in items]
    return [rich(_id(name), [line(words(title, bold=True)), bullets(found)])] if found else []


def _tools(report: Report, titles: Mapping[str, str]) -> Iterator[list[Json]]:
    for each in report.tools[:MOST]:
        name = plain(visible(" ".join(titles.get(each.tool, each.tool).split())), NAME)
        yield [words(name, bold=True), words(f": {_of_calls(each)}")]
    if len(report.tools) > 1:
        yield [words("All", bold=True), words(f": {_of_calls(report.total)}")]


def _of_calls(calls: Calls) -> str:
    counts = [f"{calls.fates[each]} {word}" for each, word in SAID.items() if calls.fates[each]]
    edited = [f"{calls.edited} edited before"] if calls.edited else []
    return ", ".join([*counts, *edited]) + _speed(calls.speed)


def _of_person(each: Approver) -> list[Json]:
    counts = {"approved": each.approved, "rejected": each.rejected, "edited": each.edited}
    told = [f"{word} {count}" for word, count in counts.items() if count]
    if each.hasty:
        told.append(f"{each.hasty} in under {HASTY.seconds} s")
    return [person(each.person), words(f" {', '.join(told)}{_speed(each.speed)}")]


def _speed(speed: Speed) -> str:
    """Say how fast half and nine of ten were: in one breath where it is the same."""
    if speed.median is None:
        return ""
    half, most = brief(speed.median), brief(speed.slow)
    return f"; in {half}" if half == most else f"; half within {half}, nine of ten within {most}"


def _days(report: Report) -> Iterator[list[Json]]:
    days = report.days[-NEWEST:]
    most = max((sum(counts[each] for each, _ in SHOWN) for _, counts in days), default=0) or 1
    for day, counts in days:
        bar = "".join(mark * -(-counts[each] * BAR // max(most, BAR)) for each, mark in SHOWN)
        told = ", ".join(f"{counts[each]} {SAID[each]}" for each, _ in SHOWN if counts[each])
        yield [words(f"{day:%d %b}  {bar}  {told or 'nothing decided'}")]
