"""The report: what is counted, what is fast, what is left out, and how it reads."""

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
    """People by their ids."""

    def format_person(self, user: str) -> str:
        """The id."""
        return user

    format_group = format_channel = quote_text = format_person


def call(
    status: CallStatus,
    *votes: tuple[str, CallVerb, float],
    tool: str = "refund",
    editor: str = "",
    day: int = 0,
) -> CallInReport:
    """A call that was shown at noon of that day, with votes so many seconds later.

    Where somebody edited it, that was a minute later, and the votes came after.
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
    call(CallStatus.SUCCEEDED, (ANA, APPROVE, 2.5)),
    call(CallStatus.FAILED, (ANA, APPROVE, 60), (CLEO, APPROVE, 600), day=1),
    call(CallStatus.REJECTED, (CLEO, REJECT, 10), tool="wipe"),
    call(CallStatus.APPROVED, (CLEO, APPROVE, 30), editor=ANA),
    call(CallStatus.EXPIRED, day=2),
    call(CallStatus.CANCELLED),
    call(CallStatus.PENDING, (ANA, APPROVE, 5)),
    call(CallStatus.SUCCEEDED, tool="allowed"),  # nobody voted: by policy or by a grant
]


def test_outcomes_are_counted_by_tool() -> None:
    """Each call counts once, by what came of it; what ran without people does not."""
    found = compute_report(CALLS, AT, UNTIL)
    counts = {CallFate.APPROVED: 3, CallFate.REJECTED: 1, CallFate.EXPIRED: 1}
    assert found.total.fates == counts | {CallFate.CLOSED: 1, CallFate.WAITING: 1}
    assert [(each.tool, each.asked_count) for each in found.tools] == [("refund", 6), ("wipe", 1)]
    assert (found.total.asked_count, found.total.edited) == (7, 1)


def test_time_to_decide_goes_from_the_card_to_the_last_vote() -> None:
    """A quorum is decided by its last vote; an edit does not begin anew; the clock is no person."""
    found = compute_report(CALLS, AT, UNTIL).total.speed  # 2.5 s, 10 s, 90 s and 600 s
    assert found.median == timedelta(seconds=50)
    assert found.slow == timedelta(seconds=600)
    assert compute_report([call(CallStatus.EXPIRED)], AT, UNTIL).total.speed.median is None


def test_nine_of_ten_are_within_the_90th_percentile() -> None:
    """Of ten decisions after 1 to 10 seconds it is the ninth."""
    ten = [call(CallStatus.SUCCEEDED, (ANA, APPROVE, after)) for after in range(10, 0, -1)]
    assert compute_report(ten, AT, UNTIL).total.speed.slow == timedelta(seconds=9)


def test_approvers_are_told_by_their_votes() -> None:
    """Votes on what still waits count too; the time is that since the revision was shown."""
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


def test_who_asks_with_a_form_edits_nothing() -> None:
    """The first values are the request itself, whoever wrote them."""
    written = call(CallStatus.SUCCEEDED, (ANA, APPROVE, 30))
    written.revisions_by_number[1] = Revision(author=FORM_AUTHOR, created_at=AT)
    found = compute_report([written], AT, UNTIL)
    assert (found.total.edited, [each.person for each in found.approvers]) == (0, [ANA])


def test_three_seconds_are_not_hasty() -> None:
    """Under three seconds is."""
    for after, hasty in ((2.99, 1), (3, 0)):
        found = compute_report([call(CallStatus.SUCCEEDED, (ANA, APPROVE, after))], AT, UNTIL)
        assert (found.hasty, found.votes) == (hasty, 1)


def test_days_are_those_on_which_something_ended() -> None:
    """What waits has no day yet, and days on which nothing ended are not there."""
    days = compute_report(CALLS, AT, UNTIL).days
    assert [day.day for day, _ in days] == [2, 3, 4]
    assert days[0][1][CallFate.APPROVED] == 2
    assert days[2][1] == dict.fromkeys(CallFate, 0) | {CallFate.EXPIRED: 1}


def test_what_expires_after_a_vote_has_the_day_of_its_end() -> None:
    """One of two votes decides nothing: the clock does, on another day."""
    expired = replace(
        call(CallStatus.EXPIRED, (ANA, APPROVE, 60)), decided_at=AT + timedelta(days=1)
    )
    [(day, _)] = compute_report([expired], AT, UNTIL).days
    assert day == (AT + timedelta(days=1)).date()


def test_the_lines_say_all_of_it() -> None:
    """Who reads them sees the share of hasty votes, a line for each tool and person, and a day."""
    lines = list(render_report_lines(compute_report(CALLS, AT, UNTIL), Names()))
    assert lines[0] == "Decisions from 2026-03-02 to 2026-04-01 (UTC)"
    assert "1 of 6 votes (17%) were given in under 3 s." in lines[1]
    [refund] = [line for line in lines if line.startswith("refund")]
    assert refund.split() == ["refund", "6", "3", "–", "1", "1", "1", "1", "90", "s", "10", "min"]
    assert any(line.split()[:2] == ["all", "7"] for line in lines)
    assert any(line.split()[:5] == [ANA, "3", "–", "1", "5.0"] for line in lines)
    assert "2026-03-04  ░" in "\n".join(lines)


def test_nothing_asked_is_one_line() -> None:
    """An empty time has no empty tables."""
    lines = list(render_report_lines(compute_report([], AT, UNTIL), Names()))
    assert lines[1:] == ["Nobody was asked about anything."]


def test_long_tables_say_what_they_leave_out() -> None:
    """Of many tools the most asked are listed, and how many are not."""
    many = [call(CallStatus.EXPIRED, tool=f"tool_{number}") for number in range(MAX_TABLE_ROWS + 3)]
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
def test_times_are_short(seconds: float, told: str) -> None:
    """A time fits a column."""
    assert format_duration(timedelta(seconds=seconds)) == told
