"""The report's picture draws what was counted, in a given size."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.dates import date2num

from bot.explain.report import Report, compute_report
from bot.explain.report_picture import (
    MAX_TOOLS,
    draw_report_figure,
    draw_report_png,
    has_decisions_to_draw,
)
from storage.states import CallStatus
from tests.explain.test_report import ANA, APPROVE, AT, CALLS, CLEO, REJECT, UNTIL, build_call

TITLES = {"refund": "Refund an order, for $5 or $6"}


def draw_panels(of: Report) -> tuple[Axes, Axes]:
    """The two halves of the picture: days and tools."""
    days, tools = draw_report_figure(of, TITLES).axes
    return days, tools


def list_bars(axes: Axes) -> list[BarContainer]:
    """The bars of a half, in one container for each shade."""
    return [each for each in axes.containers if isinstance(each, BarContainer)]


def list_tool_names(tools: Axes) -> list[str]:
    """The names beside the tools' bars."""
    return [each.get_text() for each in tools.get_yticklabels()]


def list_texts(axes: Axes) -> list[str]:
    """The texts within a half."""
    return [each.get_text() for each in axes.texts]


def test_each_day_has_a_column_of_its_outcomes() -> None:
    """Approved at the bottom, rejected and expired above it."""
    days, _ = draw_panels(compute_report(CALLS, AT, UNTIL))
    found = list_bars(days)
    assert [each.get_label() for each in found] == ["approved (3)", "rejected (1)", "expired (1)"]
    heights = [[bar.get_height() for bar in each] for each in found]
    assert heights == [[2, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert [each[0].get_y() for each in found] == [0, 2, 3]
    middle = found[0][1].get_x() + found[0][1].get_width() / 2
    assert middle == date2num(AT.date() + timedelta(days=1))


def test_a_long_time_span_is_drawn_by_week() -> None:
    """At Mondays, so that columns stay wide enough to see."""
    calls = [build_call(CallStatus.EXPIRED, day=day) for day in (0, 6, 7, 200)]
    days, _ = draw_panels(compute_report(calls, AT, AT + timedelta(days=365)))
    *_, expired = list_bars(days)
    assert [bar.get_height() for bar in expired] == [2, 1, 1]
    assert days.get_title("left") == "Decisions each week"
    low, _ = days.get_xlim()
    assert low < expired[0].get_x()


def test_each_tool_has_a_bar_of_its_median_time() -> None:
    """With a mark at the 90th percentile. The tool asked for most is on top."""
    _, tools = draw_panels(compute_report(CALLS, AT, UNTIL))
    [medians] = list_bars(tools)
    assert [bar.get_width() for bar in medians] == [90, 10]
    [marks] = tools.lines
    assert list(marks.get_xdata()) == [600, 10]
    assert list_tool_names(tools) == ["Refund an order, for $5 or …", "wipe"]
    assert tools.yaxis_inverted()
    assert list_texts(tools) == ["90 s, 90% 10 min", "10 s, 90% 10 s"]


def test_all_bars_and_marks_are_within_the_axis() -> None:
    """From a tenth of a second to weeks."""
    quick = build_call(CallStatus.SUCCEEDED, (ANA, APPROVE, 0.3), tool="quick")
    slow = build_call(CallStatus.REJECTED, (CLEO, REJECT, 40 * 86_400), tool="slow")
    for calls in ([quick], [slow], [quick, slow]):
        _, tools = draw_panels(compute_report(calls, AT, UNTIL))
        low, high = tools.get_xlim()
        [medians], [marks] = list_bars(tools), tools.lines
        assert all(low < bar.get_width() < high for bar in medians)
        assert all(low < mark < high for mark in marks.get_xdata())
        assert len([at for at in tools.get_xticks() if low <= at <= high]) >= 2


def test_the_picture_says_how_many_tools_are_left_out() -> None:
    """The twelve that were asked for most have a bar."""
    many = [
        build_call(CallStatus.SUCCEEDED, (ANA, APPROVE, 9), tool=f"tool_{number:02}")
        for number in range(MAX_TOOLS + 3)
    ]
    _, tools = draw_panels(compute_report(many, AT, UNTIL))
    assert list_tool_names(tools) == [f"tool_{number:02}" for number in range(MAX_TOOLS)]
    assert "3 more tools are not shown" in tools.get_xlabel()


def test_expired_calls_have_no_times_to_draw() -> None:
    """No person decided."""
    found = compute_report([build_call(CallStatus.EXPIRED)], AT, UNTIL)
    days, tools = draw_panels(found)
    assert [[bar.get_height() for bar in each] for each in list_bars(days)] == [[0], [0], [1]]
    assert list_texts(tools) == ["People have decided nothing."]
    assert has_decisions_to_draw(found)


@pytest.mark.parametrize("status", [CallStatus.PENDING, CallStatus.CANCELLED])
def test_waiting_or_cancelled_calls_make_no_picture(status: CallStatus) -> None:
    """Nothing was decided, and nothing expired."""
    assert not has_decisions_to_draw(compute_report([build_call(status)], AT, UNTIL))


def test_the_picture_is_a_png_of_the_given_size() -> None:
    """It names no program that made it; the title has the dates."""
    found = compute_report(CALLS, AT, UNTIL)
    file = draw_report_png(found, TITLES)
    assert file.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(file[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (1820, 756)
    assert b"Software" not in file
    assert (
        draw_report_figure(found, TITLES).get_suptitle()
        == "Decisions from 2026-03-02 to 2026-04-01 (UTC)"
    )


@pytest.mark.long
def test_the_bot_starts_without_importing_matplotlib() -> None:
    """Nor does the command before a picture is drawn."""
    code = (
        "import sys, bot.app, bot.cli.report, bot.slack.command_answers;"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
