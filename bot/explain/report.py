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

from bot.cards import block_kit
from bot.cards.action_names import BlockRole
from bot.cards.button_codec import build_block_id
from bot.cards.slack_text import shorten_text, show_hidden_characters
from bot.explain.explanation import MentionStyle
from countersign.durations import DAY, HOUR, MINUTE
from storage.call_history import CallInReport, VoteInReport
from storage.calls import NON_PERSON_AUTHORS
from storage.states import CallStatus, CallVerb

# The numbers of a report: how many decisions, how fast, by tool, by approver and by day.

HASTY_VOTE_THRESHOLD = timedelta(seconds=3)  # a faster vote can hardly be an informed one
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


DECIDED_FATES = (CallFate.APPROVED, CallFate.REJECTED, CallFate.EXPIRED)
_FATE_BY_STATUS = {
    C.PENDING: CallFate.WAITING,
    C.REJECTED: CallFate.REJECTED,
    C.EXPIRED: CallFate.EXPIRED,
    C.CANCELLED: CallFate.CLOSED,
    C.SUPERSEDED: CallFate.CLOSED,
    C.INVALIDATED: CallFate.CLOSED,
}  # all other statuses: the call was approved


@dataclass(frozen=True, slots=True)
class DecisionSpeed:
    """Median and 90th percentile of decision times; both None if there are no times."""

    median: timedelta | None = None
    slow: timedelta | None = None  # the 90th percentile: nine of ten were at least as fast


@dataclass(frozen=True, slots=True)
class CallCounts:
    """How many calls had each outcome (approved, rejected …), of one tool or of all tools."""

    tool: str  # "" for all tools
    fates: dict[CallFate, int]  # has every outcome
    edited: int  # changed by a person before the decision
    speed: DecisionSpeed  # from the card to the deciding vote

    @property
    def asked_count(self) -> int:
        """The number of calls that people were asked about."""
        return sum(self.fates.values())


@dataclass(frozen=True, slots=True)
class ApproverStats:
    """One person's votes and edits in a report."""

    person: str  # Slack user id
    approved: int
    rejected: int
    edited: int  # calls that this person changed
    alone: int  # approvals by one click on the card, without Review or Edit
    hasty: int  # votes given in under three seconds
    speed: DecisionSpeed  # from the moment it was shown to the vote


@dataclass(frozen=True, slots=True)
class Report:
    """The whole report, for the calls proposed in [since, until)."""

    since: datetime
    until: datetime
    total: CallCounts
    hasty: int  # votes given in under three seconds
    votes: int
    tools: tuple[CallCounts, ...]  # most asked first
    approvers: tuple[ApproverStats, ...]  # most votes first
    # UTC days on which something ended, in order
    days: tuple[tuple[date, dict[CallFate, int]], ...]


def compute_report(asked: Iterable[CallInReport], since: datetime, until: datetime) -> Report:
    """Compute the report on these calls, which were proposed in [since, until)."""
    decided = [each for each in asked if is_decided_by_people(each)]
    tools = group_by(decided, lambda each: each.tool)
    votes = [(vote, measure_voting_time(call, vote)) for call in decided for vote in call.votes]
    total = count_calls("", decided)
    return Report(
        since,
        until,
        total,
        hasty=sum(is_hasty(duration) for _, duration in votes),
        votes=len(votes),
        tools=tuple(
            sorted(
                (count_calls(tool, calls) for tool, calls in tools.items()),
                key=lambda each: (-each.asked_count, each.tool),
            )
        ),
        approvers=_build_approver_stats(decided, votes),
        days=_count_fates_by_day(decided),
    )


def is_decided_by_people(call: CallInReport) -> bool:
    """Return whether people decided or may decide the call, not a grant or the policy alone."""
    return call.status in _FATE_BY_STATUS or bool(call.votes)


def get_call_fate(call: CallInReport) -> CallFate:
    """Return what became of a call."""
    return _FATE_BY_STATUS.get(call.status, CallFate.APPROVED)


def count_calls(tool: str, calls: Sequence[CallInReport]) -> CallCounts:
    """Count calls by outcome, and those that were edited; measure how fast people decided."""
    counts = _count_fates(calls)
    edited = sum(bool(list_editors(call)) for call in calls)
    return CallCounts(tool, counts, edited, _compute_speed(map(_measure_decision_time, calls)))


def _count_fates(calls: Iterable[CallInReport]) -> dict[CallFate, int]:
    counts = dict.fromkeys(CallFate, 0)
    for call in calls:
        counts[get_call_fate(call)] += 1
    return counts


def list_editors(call: CallInReport) -> set[str]:
    """Return the people who changed a call."""
    return {each.author for each in call.revisions_by_number.values()} - NON_PERSON_AUTHORS


def _measure_decision_time(call: CallInReport) -> timedelta | None:
    """Return the time from a call's first revision to its last vote; None unless people decided."""
    first = call.revisions_by_number.get(1)
    is_decided = get_call_fate(call) in DECIDED_FATES[:2]
    return call.votes[-1].at - first.created_at if is_decided and call.votes and first else None


def measure_voting_time(call: CallInReport, vote: VoteInReport) -> timedelta | None:
    """Return the time from when the voted revision was made to the vote; None if unknown."""
    draft = call.revisions_by_number.get(vote.revision)
    return vote.at - draft.created_at if draft else None


def is_hasty(taken: timedelta | None) -> bool:
    """Return whether a vote came under three seconds after the revision it is about was made."""
    return taken is not None and taken < HASTY_VOTE_THRESHOLD


def _build_approver_stats(
    calls: Sequence[CallInReport], votes: Sequence[tuple[VoteInReport, timedelta | None]]
) -> tuple[ApproverStats, ...]:
    edited = Counter(person for call in calls for person in list_editors(call))
    of_each = group_by(votes, lambda each: each[0].person)
    stats = []
    for person in {*of_each, *edited}:
        own_votes = of_each.get(person, [])
        verbs = Counter((vote.verb, vote.opened) for vote, _ in own_votes)
        alone = verbs[CallVerb.APPROVE, False]
        stats.append(
            ApproverStats(
                person,
                approved=alone + verbs[CallVerb.APPROVE, True],
                rejected=verbs[CallVerb.REJECT, False] + verbs[CallVerb.REJECT, True],
                edited=edited[person],
                alone=alone,
                hasty=sum(is_hasty(duration) for _, duration in own_votes),
                speed=_compute_speed(duration for _, duration in own_votes),
            )
        )
    return tuple(sorted(stats, key=lambda each: (-each.approved - each.rejected, each.person)))


def _count_fates_by_day(
    calls: Iterable[CallInReport],
) -> tuple[tuple[date, dict[CallFate, int]], ...]:
    ended = [(_find_decision_time(call), call) for call in calls]
    days = group_by([(at.date(), call) for at, call in ended if at], lambda each: each[0])
    return tuple(
        (day, _count_fates(call for _, call in each)) for day, each in sorted(days.items())
    )


def _find_decision_time(call: CallInReport) -> datetime | None:
    """Return when people decided the call, or when it expired or was closed; None if it waits."""
    fate = get_call_fate(call)
    if fate is CallFate.WAITING:
        return None
    is_by_people = fate in (CallFate.APPROVED, CallFate.REJECTED)
    return call.votes[-1].at if call.votes and is_by_people else call.decided_at


def _compute_speed(taken: Iterable[timedelta | None]) -> DecisionSpeed:
    """Return the median time, and the time of the 90th percentile (nearest rank)."""
    known = sorted(each.total_seconds() for each in taken if each is not None)
    if not known:
        return DecisionSpeed()
    slow = known[math.ceil(0.9 * len(known)) - 1]
    return DecisionSpeed(timedelta(seconds=median(known)), timedelta(seconds=slow))


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items in lists, by the result of `key`, in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for each in items:
        groups.setdefault(key(each), []).append(each)
    return groups


# A report as plain lines in columns, for a terminal or a preformatted block. Pure.

MAX_TABLE_ROWS = 20  # for tools and for approvers
MAX_CHART_DAYS = 31  # the newest ones
MAX_BAR_CHARS = 30
EMPTY_CELL = "–"
HASTY_LABEL = f"under {HASTY_VOTE_THRESHOLD.seconds} s"
COUNT_COLUMNS = ("asked", "approved", "rejected", "expired", "closed", "waiting", "edited")


def render_report_lines(report: Report, words: MentionStyle) -> Iterator[str]:
    """Yield the report, line by line; `words` names the people."""
    yield f"Decisions from {report.since:%Y-%m-%d} to {report.until:%Y-%m-%d} (UTC)"
    if not report.total.asked_count:
        yield "Nobody was asked about anything."
        return
    yield describe_decision_speed(report)
    yield ""
    listed = [*report.tools[:MAX_TABLE_ROWS], *([report.total] if len(report.tools) != 1 else [])]
    yield from render_table(
        ("tool", *COUNT_COLUMNS, "median", "90% within"),
        [build_counts_row(each) for each in listed],
    )
    yield from left_out_line(len(report.tools), MAX_TABLE_ROWS, "tools")
    if report.approvers:
        yield ""
        head = (
            "approver",
            *COUNT_COLUMNS[1:3],
            "edited",
            "median",
            "90% within",
            "one click",
            HASTY_LABEL,
        )
        people = [_build_approver_row(each, words) for each in report.approvers[:MAX_TABLE_ROWS]]
        yield from render_table(head, people)
        yield from left_out_line(len(report.approvers), MAX_TABLE_ROWS, "approvers")
    if report.days:
        yield ""
        yield from _render_day_chart(report)


def describe_decision_speed(report: Report) -> str:
    """Return one or two sentences on how long decisions took and how many votes were hasty."""
    speed = report.total.speed
    text = (
        f"Half of the decisions took {format_duration(speed.median)} or less,"
        f" nine of ten {format_duration(speed.slow)} or less."
        if speed.median is not None
        else "People have decided nothing yet."
    )
    if not report.hasty:
        return text
    share = round(100 * report.hasty / report.votes)
    hasty = f"{share}% of the votes ({report.hasty} of {report.votes})"
    return f"{text} {hasty} were given in {HASTY_LABEL}."


def build_counts_row(calls: CallCounts) -> tuple[str, ...]:
    """Return a table row: the name, the counts of COUNT_COLUMNS, and two decision times."""
    counts = format_counts_as_cells(calls.asked_count, *calls.fates.values(), calls.edited)
    speed = (format_duration(calls.speed.median), format_duration(calls.speed.slow))
    return (calls.tool or "all", *counts, *speed)


def format_counts_as_cells(*counts: int) -> list[str]:
    """Return the counts as texts for the cells of a table; a dash stands for 0."""
    return [str(count or EMPTY_CELL) for count in counts]


def _build_approver_row(each: ApproverStats, words: MentionStyle) -> tuple[str, ...]:
    counts = (each.approved, each.rejected, each.edited)
    speed = (format_duration(each.speed.median), format_duration(each.speed.slow))
    return (
        words.format_person(each.person),
        *format_counts_as_cells(*counts),
        *speed,
        *format_counts_as_cells(each.alone, each.hasty),
    )


def left_out_line(number: int, limit: int, what: str) -> Iterator[str]:
    """Yield how many of `number` things are not listed, if more than `limit`; else nothing."""
    if number > limit:
        yield f"… and {number - limit} more {what}"


def _render_day_chart(report: Report) -> Iterator[str]:
    """Yield a bar for each of the newest days: approved █, rejected ▒, expired ░."""
    fate_marks = (CallFate.APPROVED, "█"), (CallFate.REJECTED, "▒"), (CallFate.EXPIRED, "░")
    days = report.days[-MAX_CHART_DAYS:]
    max_count = max(sum(counts[each] for each, _ in fate_marks) for _, counts in days) or 1
    yield "  ".join(f"{mark} {each}" for each, mark in fate_marks)
    for day, counts in days:
        bar = "".join(
            mark * -(-counts[each] * MAX_BAR_CHARS // max_count) for each, mark in fate_marks
        )
        counts_text = " · ".join(f"{counts[each]} {each}" for each, _ in fate_marks if counts[each])
        yield f"{day:%Y-%m-%d}  {bar}  {counts_text}" if counts_text else f"{day:%Y-%m-%d}"
    if len(report.days) > MAX_CHART_DAYS:
        yield f"… and {len(report.days) - MAX_CHART_DAYS} days before"


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows in aligned columns: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        first, *others = (
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()


def format_duration(duration: timedelta | None) -> str:
    """Return a short duration: "2.4 s", "12 min", "3 h 20 min", "2 d 4 h"; a dash for None."""
    if duration is None:
        return EMPTY_CELL
    seconds = duration.total_seconds()
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
MAX_LISTED_ITEMS = 12  # for tools and for people
MAX_LISTED_DAYS = 14  # the newest ones
MAX_BAR_SQUARES = 10
MAX_TITLE_CHARS = 60  # of a tool's title
FATE_SQUARES = ((CallFate.APPROVED, "🟩"), (CallFate.REJECTED, "🟥"), (CallFate.EXPIRED, "⬜"))
WORD_BY_FATE = {
    CallFate.APPROVED: "approved",
    CallFate.REJECTED: "rejected",
    CallFate.EXPIRED: "unanswered",
    CallFate.CLOSED: "taken back",
    CallFate.WAITING: "waiting",
}


def render_report_blocks(
    report: Report, titles: Mapping[str, str], note: str = ""
) -> list[block_kit.Json]:
    """Draw the report as Slack blocks; `titles`: tools' titles by name; `note`: mrkdwn below it."""
    period = f"From {report.since:%Y-%m-%d} to {report.until:%Y-%m-%d} (UTC)."
    asked_count = report.total.asked_count
    summary = describe_decision_speed(report) if asked_count else "Nobody was asked about anything."
    blocks = [
        block_kit.header_block(_build_block_id("title"), TITLE),
        block_kit.section_block(
            _build_block_id("summary"), block_kit.mrkdwn(f"{period} {summary}")
        ),
    ]
    if asked_count:
        blocks += _render_list_section(
            "tools", "What was asked", _render_tool_items(report, titles)
        )
        blocks += _render_list_section(
            "people", "Who decided", map(_render_approver_item, report.approvers[:MAX_LISTED_ITEMS])
        )
        blocks += _render_list_section("days", "Day by day", _render_day_items(report))
    left_out = [
        *left_out_line(len(report.tools), MAX_LISTED_ITEMS, "tools"),
        *left_out_line(len(report.approvers), MAX_LISTED_ITEMS, "people"),
        *left_out_line(len(report.days), MAX_LISTED_DAYS, "days before"),
    ]
    if notes := "  ·  ".join(filter(None, [*left_out, note])):
        blocks.append(block_kit.context_block(_build_block_id("notes"), [block_kit.mrkdwn(notes)]))
    return blocks


def _build_block_id(name: str) -> str:
    return build_block_id(BlockRole.OVERVIEW, name)


def _render_list_section(
    name: str, title: str, items: Iterator[Sequence[block_kit.Json]]
) -> list[block_kit.Json]:
    """Build a Slack block with a titled list; no block if there is nothing to list."""
    found = [block_kit.rich_text_line(*each) for each in items]
    heading = block_kit.rich_text_line(block_kit.text_leaf(title, bold=True))
    parts = [heading, block_kit.rich_text_list(found)]
    return [block_kit.rich_text_block(_build_block_id(name), parts)] if found else []


def _render_tool_items(report: Report, titles: Mapping[str, str]) -> Iterator[list[block_kit.Json]]:
    for each in [
        *report.tools[:MAX_LISTED_ITEMS],
        *([report.total] if len(report.tools) > 1 else []),
    ]:
        title = titles.get(each.tool, each.tool) if each.tool else "All"
        name = shorten_text(show_hidden_characters(" ".join(title.split())), MAX_TITLE_CHARS)
        yield [
            block_kit.text_leaf(name, bold=True),
            block_kit.text_leaf(f": {_describe_call_counts(each)}"),
        ]


def _describe_call_counts(calls: CallCounts) -> str:
    counts = [
        f"{calls.fates[each]} {word}" for each, word in WORD_BY_FATE.items() if calls.fates[each]
    ]
    edited = [f"{calls.edited} edited before"] if calls.edited else []
    return ", ".join([*counts, *edited]) + describe_speed(calls.speed)


def _render_approver_item(each: ApproverStats) -> list[block_kit.Json]:
    counts = {"approved": each.approved, "rejected": each.rejected, "edited": each.edited}
    told = [f"{word} {count}" for word, count in counts.items() if count]
    if each.hasty:
        told.append(f"{each.hasty} in {HASTY_LABEL}")
    return [
        block_kit.user_mention_leaf(each.person),
        block_kit.text_leaf(f" {', '.join(told)}{describe_speed(each.speed)}"),
    ]


def describe_speed(speed: DecisionSpeed) -> str:
    """Return how fast half and nine of ten decisions were; one time only if both are equal."""
    if speed.median is None:
        return ""
    half, most = format_duration(speed.median), format_duration(speed.slow)
    return f"; in {half}" if half == most else f"; half within {half}, nine of ten within {most}"


def _render_day_items(report: Report) -> Iterator[list[block_kit.Json]]:
    days = report.days[-MAX_LISTED_DAYS:]
    most = (
        max((sum(counts[each] for each, _ in FATE_SQUARES) for _, counts in days), default=0) or 1
    )
    for day, counts in days:
        bar = "".join(
            mark * -(-counts[each] * MAX_BAR_SQUARES // max(most, MAX_BAR_SQUARES))
            for each, mark in FATE_SQUARES
        )
        told = ", ".join(
            f"{counts[each]} {WORD_BY_FATE[each]}" for each, _ in FATE_SQUARES if counts[each]
        )
        yield [block_kit.text_leaf(f"{day:%d %b}  {bar}  {told or 'nothing decided'}")]
