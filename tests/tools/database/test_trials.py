"""Two trials of one change are compared, and values that differ are marked as set at run time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bot.tools.database.assigned_values import ColumnsSetAtRun
from bot.tools.database.row_changes import (
    Change,
    RowChange,
    TableRowChanges,
    build_whole_second_time_span,
    mark_values_set_at_run,
)

START = datetime(2026, 11, 24, 12, 0, 0, 900_000, tzinfo=UTC)


def build_change(*values: str, more: tuple[tuple[str, ...], ...] = ()) -> Change:
    """Build a change that adds one row to a table, and then the rows `more`."""
    columns = tuple(f"column {number}" for number, _ in enumerate(values))
    rows = tuple(RowChange(None, each) for each in (values, *more))
    return Change((TableRowChanges("paper", columns, (), (), rows),))


def test_two_trials_in_different_seconds_give_the_same_change() -> None:
    """Only the times in the rows differ.

    Otherwise a run, whose trials are in the same second, would not be what was shown.
    """
    moment = build_whole_second_time_span(START, START + timedelta(seconds=0.2))
    apart = mark_values_set_at_run(
        build_change("added lamp at 2026-11-24 12:00:00", "2026-11-24 12:00:00", "a7"),
        build_change("added lamp at 2026-11-24 12:00:01", "2026-11-24 12:00:01", "x3"),
        moment,
        ColumnsSetAtRun({}, {}),
    )
    later = build_change("added lamp at 2026-11-24 12:00:01", "2026-11-24 12:00:01", "b8")
    together = mark_values_set_at_run(
        build_change("added lamp at 2026-11-24 12:00:01", "2026-11-24 12:00:01", "c9"),
        later,
        moment,
        ColumnsSetAtRun({}, {}),
    )
    assert apart.digest() == together.digest()
    [row] = apart.tables[0].rows
    assert [str(each) for each in row.after or ()] == [
        "(set at run time: added lamp at …)",
        "(set at run time)",
        "(set at run time)",
    ]


def test_texts_that_differ_in_more_than_a_time_are_set_at_run_time() -> None:
    """Nothing of such a text is shown."""
    moment = build_whole_second_time_span(START, START + timedelta(seconds=0.2))
    [row] = (
        mark_values_set_at_run(
            build_change("ticket 4 at 2026-11-24 12:00:00"),
            build_change("ticket 5 at 2026-11-24 12:00:01"),
            moment,
            ColumnsSetAtRun({}, {}),
        )
        .tables[0]
        .rows
    )
    assert [str(each) for each in row.after or ()] == ["(set at run time)"]


def test_rows_added_in_another_order_are_matched() -> None:
    """Only the row that differs between the trials is marked as set at run time.

    Otherwise chance could leave added rows out of the card, and out of what the run must match.
    """
    moment = build_whole_second_time_span(START, START)
    made = mark_values_set_at_run(
        build_change("Ana", "100", more=(("Ben", "200"), ("Ben", "200"), ("Cleo", "7"))),
        build_change("Ben", "200", more=(("Cleo", "8"), ("Ana", "100"), ("Ben", "200"))),
        moment,
        ColumnsSetAtRun({}, {}),
    )
    assert [tuple(map(str, row.after or ())) for row in made.tables[0].rows] == [
        ("Ben", "200"),
        ("Cleo", "(set at run time)"),
        ("Ana", "100"),
        ("Ben", "200"),
    ]
