"""The report: what is counted, which votes are hasty, what is left out, and its lines."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bot.explain.report import (
    MAX_TABLE_ROWS,
    CallFate,
    compute_report,
    format_duration,
    render_report_lines,
)
from storage.call_history import CallInReport, VoteInReport
from storage.calls import FORM_AUTHOR
from storage.models import Revision
from storage.states import CallStatus, CallVerb

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
UNTIL = AT + timedelta(days=30)
ANA, BEN, CLEO = "UANA00001", "UBEN00001", "UCLEO0001"


class Names:
    """Shows people by their ids."""

    def format_person(self, user: str) -> str:
        """Return the id."""
        return user

    format_group = format_channel = quote_text = format_person


def build_call(
    status: CallStatus,
    *votes: tuple[str, CallVerb, float],
    tool: str = "refund",
    editor: str = "",
    day: int = 0,
) -> CallInReport:
    """A call shown at noon of that day, with votes so many seconds later.

    An edit came a minute after it was shown, and the votes after the edit.
    """
    shown = AT + timedelta(days=day)
    drafts = {1: Revision(author="agent", created_at=shown)}
    if editor:
        shown += timedelta(minutes=1)
        drafts[2] = Revision(author=editor, created_at=shown)
    given = tuple(
        VoteInReport(person, verb, len(drafts), shown + timedelta(seconds=after))
        for person, verb, after in votes
    )
    return CallInReport("id", tool, status, AT + timedelta(days=day, hours=1), BEN, drafts, given)


APPROVE, REJECT = CallVerb.APPROVE, CallVerb.REJECT
CALLS = [
    build_call(CallStatus.SUCCEEDED, (ANA, APPROVE, 2.5)),
    build_call(CallStatus.FAILED, (ANA, APPROVE, 60), (CLEO, APPROVE, 600), day=1),
    build_call(CallStatus.REJECTED, (CLEO, REJECT, 10), tool="wipe"),
    build_call(CallStatus.APPROVED, (CLEO, APPROVE, 30), editor=ANA),
    build_call(CallStatus.EXPIRED, day=2),
    build_call(CallStatus.CANCELLED),
    build_call(CallStatus.PENDING, (ANA, APPROVE, 5)),
    build_call(CallStatus.SUCCEEDED, tool="allowed"),  # no votes: allowed by policy or a grant
]


def test_outcomes_are_counted_by_tool() -> None:
    """Each call counts once; a call that ran without people does not count."""
    found = compute_report(CALLS, AT, UNTIL)
    counts = {CallFate.APPROVED: 3, CallFate.REJECTED: 1, CallFate.EXPIRED: 1}
    assert found.total.fates == counts | {CallFate.CLOSED: 1, CallFate.WAITING: 1}
    assert [(each.tool, each.asked_count) for each in found.tools] == [("refund", 6), ("wipe", 1)]
    assert (found.total.asked_count, found.total.edited) == (7, 1)


def test_time_to_decide_goes_from_the_card_to_the_last_vote() -> None:
    """An edit does not restart it, and an expired call has none."""
    found = compute_report(CALLS, AT, UNTIL).total.speed  # 2.5 s, 10 s, 90 s and 600 s
    assert found.median == timedelta(seconds=50)
    assert found.slow == timedelta(seconds=600)
    assert compute_report([build_call(CallStatus.EXPIRED)], AT, UNTIL).total.speed.median is None


def test_nine_of_ten_are_within_the_90th_percentile() -> None:
    """Of decisions after 1 to 10 seconds it is the ninth."""
    ten = [build_call(CallStatus.SUCCEEDED, (ANA, APPROVE, after)) for after in range(10, 0, -1)]
    assert compute_report(ten, AT, UNTIL).total.speed.slow == timedelta(seconds=9)


def test_approvers_are_listed_with_votes_and_times() -> None:
    """Votes on waiting calls count, too. The time runs from when the revision was shown."""
    ana, cleo = compute_report(CALLS, AT, UNTIL).approvers
    assert (ana.person, ana.approved, ana.rejected, ana.edited, ana.hasty) == (ANA, 3, 0, 1, 1)
    assert ana.speed.median == timedelta(seconds=5)
    assert (cleo.person, cleo.approved, cleo.rejected, cleo.edited, cleo.hasty) == (
        CLEO,
        2,
        1,
        0,
        0,
    )
    assert cleo.speed.median == timedelta(seconds=30)


def test_filling_in_a_form_is_no_edit() -> None:
    """The first values are the request itself, whoever wrote them."""
    written = build_call(CallStatus.SUCCEEDED, (ANA, APPROVE, 30))
    written.revisions_by_number[1] = Revision(author=FORM_AUTHOR, created_at=AT)
    found = compute_report([written], AT, UNTIL)
    assert (found.total.edited, [each.person for each in found.approvers]) == (0, [ANA])


def test_three_seconds_are_not_hasty() -> None:
    """Less than three seconds are."""
    for after, hasty in ((2.99, 1), (3, 0)):
        found = compute_report([build_call(CallStatus.SUCCEEDED, (ANA, APPROVE, after))], AT, UNTIL)
        assert (found.hasty, found.votes) == (hasty, 1)


def test_only_days_on_which_calls_ended_are_listed() -> None:
    """A waiting call has no day."""
    days = compute_report(CALLS, AT, UNTIL).days
    assert [day.day for day, _ in days] == [2, 3, 4]
    assert days[0][1][CallFate.APPROVED] == 2
    assert days[2][1] == dict.fromkeys(CallFate, 0) | {CallFate.EXPIRED: 1}


def test_an_expired_call_counts_on_the_day_it_expired() -> None:
    """One of two votes decides nothing."""
    expired = replace(
        build_call(CallStatus.EXPIRED, (ANA, APPROVE, 60)), decided_at=AT + timedelta(days=1)
    )
    [(day, _)] = compute_report([expired], AT, UNTIL).days
    assert day == (AT + timedelta(days=1)).date()


def test_the_report_has_lines_for_tools_people_and_days() -> None:
    """The share of hasty votes, a line for each tool and person, and the days."""
    lines = list(render_report_lines(compute_report(CALLS, AT, UNTIL), Names()))
    assert lines[0] == "Decisions from 2026-03-02 to 2026-04-01 (UTC)"
    assert "17% of the votes (1 of 6) were given in under 3 s." in lines[1]
    [refund] = [line for line in lines if line.startswith("refund")]
    assert refund.split() == ["refund", "6", "3", "–", "1", "1", "1", "1", "90", "s", "10", "min"]
    assert any(line.split()[:2] == ["all", "7"] for line in lines)
    assert any(line.split()[:5] == [ANA, "3", "–", "1", "5.0"] for line in lines)
    assert "2026-03-04  ░" in "\n".join(lines)


def test_a_report_of_nothing_is_one_line() -> None:
    """There are no empty tables."""
    lines = list(render_report_lines(compute_report([], AT, UNTIL), Names()))
    assert lines[1:] == ["Nobody was asked about anything."]


def test_long_tables_say_how_many_rows_are_left_out() -> None:
    """The tools asked for most are listed."""
    many = [
        build_call(CallStatus.EXPIRED, tool=f"tool_{number}")
        for number in range(MAX_TABLE_ROWS + 3)
    ]
    lines = list(render_report_lines(compute_report(many, AT, UNTIL), Names()))
    assert "… and 3 more tools" in lines
    assert sum(line.startswith("tool_") for line in lines) == MAX_TABLE_ROWS


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.2, "0.2 s"),
        (59, "59 s"),
        (90, "90 s"),
        (180, "3 min"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
    ],
)
def test_times_are_written_shortly(seconds: float, told: str) -> None:
    """They fit a column."""
    assert format_duration(timedelta(seconds=seconds)) == told
