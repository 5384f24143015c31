"""Two trials of one change made one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bot.tools.database.row_changes import (
    Change,
    RowChange,
    TableRowChanges,
    build_whole_second_time_span,
    mark_values_set_at_run,
)

START = datetime(2026, 11, 24, 12, 0, 0, 900_000, tzinfo=UTC)


def added(*values: str, more: tuple[tuple[str, ...], ...] = ()) -> Change:
    """One row that is added to a table, and `more` behind it."""
    columns = tuple(f"column {number}" for number, _ in enumerate(values))
    rows = tuple(RowChange(None, each) for each in (values, *more))
    return Change((TableRowChanges("paper", columns, (), (), rows),))


def test_the_second_in_which_a_trial_falls_makes_no_difference() -> None:
    """A new second between two trials leaves what stands around the time as it was.

    Otherwise the run, whose trials fall into one second, would not be what was shown.
    """
    moment = build_whole_second_time_span(START, START + timedelta(seconds=0.2))
    apart = mark_values_set_at_run(
        added("added lamp at 2026-11-24 12:00:00", "2026-11-24 12:00:00", "a7"),
        added("added lamp at 2026-11-24 12:00:01", "2026-11-24 12:00:01", "x3"),
        moment,
        {},
    )
    later = added("added lamp at 2026-11-24 12:00:01", "2026-11-24 12:00:01", "b8")
    together = mark_values_set_at_run(
        added("added lamp at 2026-11-24 12:00:01", "2026-11-24 12:00:01", "c9"),
        later,
        moment,
        {},
    )
    assert apart.digest() == together.digest()
    [row] = apart.tables[0].rows
    assert [str(each) for each in row.after or ()] == [
        "(set at run time: added lamp at …)",
        "(set at run time)",
        "(set at run time)",
    ]


def test_what_differs_around_a_time_is_another_value() -> None:
    """Two texts that differ in more than the time are no text with a time in it."""
    moment = build_whole_second_time_span(START, START + timedelta(seconds=0.2))
    [row] = (
        mark_values_set_at_run(
            added("ticket 4 at 2026-11-24 12:00:00"),
            added("ticket 5 at 2026-11-24 12:00:01"),
            moment,
            {},
        )
        .tables[0]
        .rows
    )
    assert [str(each) for each in row.after or ()] == ["(set at run time)"]


def test_the_order_in_which_rows_are_added_makes_no_difference() -> None:
    """Rows that both trials add, one after the other or the other way round, have set values.

    Else chance could leave out what is added, from the card and from what the run is held to.
    """
    moment = build_whole_second_time_span(START, START)
    made = mark_values_set_at_run(
        added("Ana", "100", more=(("Ben", "200"), ("Ben", "200"), ("Cleo", "7"))),
        added("Ben", "200", more=(("Cleo", "8"), ("Ana", "100"), ("Ben", "200"))),
        moment,
        {},
    )
    assert [tuple(map(str, row.after or ())) for row in made.tables[0].rows] == [
        ("Ben", "200"),
        ("Cleo", "(set at run time)"),
        ("Ana", "100"),
        ("Ben", "200"),
    ]
