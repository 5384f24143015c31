"""A report as a picture: decisions by day, and how long they took by tool.

It needs matplotlib, which comes with the extra `report` only: import this module only to draw a
picture.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, DateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, NullLocator

from bot.explain.report import CallFate, Report, format_duration
from bot.tools.tables import clip_line
from countersign.durations import DAY, HOUR, MINUTE

FIGURE_SIZE_INCHES = (13, 5.4)
DPI = 140
MAX_TOOLS = 12
MAX_TOOL_NAME_CHARS = 28
MAX_DAYS_DRAWN_DAILY = 92  # a longer period is drawn by week
DAYS_PER_YEAR = 365  # for a longer period, the axis shows years
INK_COLOUR = "#222222"
FATE_COLOURS = (  # from dark to light, so that they differ without colours as well
    (CallFate.APPROVED, "#1b6e53"),
    (CallFate.REJECTED, "#dd8452"),
    (CallFate.EXPIRED, "#ece6da"),
)
_TIME_TICKS = {1: "1 s", MINUTE: "1 min", HOUR: "1 h", DAY: "1 d", 30 * DAY: "30 d"}
_EXTRA_TIME_TICKS = {10: "10 s", 10 * MINUTE: "10 min", 6 * HOUR: "6 h", 7 * DAY: "7 d"}
_MAX_EXTRA_TICKS_RATIO = 50_000  # longest to shortest time; beyond, these ticks have no room
_painting = threading.Lock()  # matplotlib is not thread-safe


def has_decisions_to_draw(report: Report) -> bool:
    """Return whether the report has any decision to draw."""
    return any(counts[each] for _, counts in report.days for each, _ in FATE_COLOURS)


def draw_report_png(report: Report, titles: Mapping[str, str]) -> bytes:
    """Return the picture as a PNG file; `titles` has the tools' titles by name."""
    file = io.BytesIO()
    with _painting:
        draw_report_figure(report, titles).savefig(
            file, format="png", dpi=DPI, metadata={"Software": None}
        )
    return file.getvalue()


def draw_report_figure(report: Report, titles: Mapping[str, str]) -> Figure:
    """Return the picture as a matplotlib figure; `titles` has the tools' titles by name."""
    drawn = Figure(
        figsize=FIGURE_SIZE_INCHES,
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1),
        facecolor="white",
    )
    drawn.suptitle(
        f"Decisions from {report.since:%Y-%m-%d} to {report.until:%Y-%m-%d} (UTC)",
        fontsize=15,
        fontweight="bold",
        color=INK_COLOUR,
    )
    days, tools = drawn.subplots(1, 2, width_ratios=(1.6, 1))
    for axes in (days, tools):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK_COLOUR)
        axes.set_axisbelow(True)
    _draw_decisions_over_time(days, report)
    _draw_decision_times(tools, report, titles)
    return drawn


def _draw_decisions_over_time(axes: Axes, report: Report) -> None:
    """Draw a column for each day or week: approved at the bottom, rejected and expired above."""
    first, last = _get_drawn_period(report)
    width = 1 if (last - first).days < MAX_DAYS_DRAWN_DAILY else 7
    counted = _count_fates_by_column(report, width)
    places = [float(date2num(day)) for day in counted]
    below = [0] * len(places)
    for each, shade in FATE_COLOURS:
        heights = [counts[each] for counts in counted.values()]
        axes.bar(
            places,
            heights,
            width=width * 0.86,
            bottom=below,
            color=shade,
            edgecolor=INK_COLOUR,
            linewidth=0.6,
            label=f"{each} ({sum(heights)})",
        )
        below = [low + more for low, more in zip(below, heights, strict=True)]
    axes.set_title(
        "Decisions each day" if width == 1 else "Decisions each week", loc="left", color=INK_COLOUR
    )
    locator = AutoDateLocator(minticks=2, maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(
        DateFormatter("%d %b" if (last - first).days < DAYS_PER_YEAR else "%b %Y")
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    begins = min(places[0], float(date2num(first)))  # the first week may begin before the period
    axes.set_xlim(begins - width * 0.7, float(date2num(last)) + width * 0.7)
    axes.set_ylim(0, max(below) * 1.18)  # leaves room for the legend
    axes.legend(loc="upper left", ncols=len(FATE_COLOURS), frameon=False, borderaxespad=0.2)


def _get_drawn_period(report: Report) -> tuple[date, date]:
    """Return the first and last day to draw; a long time begins at its first day with decisions."""
    first, last = report.since.date(), max(report.until.date(), report.days[-1][0])
    return (report.days[0][0] if (last - first).days >= MAX_DAYS_DRAWN_DAILY else first), last


def _count_fates_by_column(report: Report, width: int) -> dict[date, dict[CallFate, int]]:
    """Return the counts of outcomes by day, or by the Monday of the week if `width` is 7."""
    found: dict[date, dict[CallFate, int]] = {}
    for day, counts in report.days:
        begins = day if width == 1 else day - timedelta(days=day.weekday())
        column = found.setdefault(begins, dict.fromkeys(CallFate, 0))
        for each in CallFate:
            column[each] += counts[each]
    return found


def _draw_decision_times(axes: Axes, report: Report, titles: Mapping[str, str]) -> None:
    """Draw a bar for each tool's median time, and a mark where nine of ten are decided."""
    decided = [each for each in report.tools if each.speed.median is not None]
    shown = decided[:MAX_TOOLS]
    axes.set_title("Time to decide", loc="left", color=INK_COLOUR)
    axes.spines["left"].set_visible(False)
    if not shown:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "People have decided nothing.", ha="center", color=INK_COLOUR)
        return
    places = range(len(shown))
    medians = _list_seconds(each.speed.median for each in shown)
    slow = _list_seconds(each.speed.slow for each in shown)
    _set_time_axis(axes, min(medians), max(slow))
    axes.barh(places, medians, height=0.5, color="#4c72b0", edgecolor=INK_COLOUR, linewidth=0.6)
    axes.hlines(places, medians, slow, color=INK_COLOUR, linewidth=1)
    axes.plot(slow, places, "D", color=INK_COLOUR, markersize=6, linestyle="none")
    names = [clip_line(titles.get(each.tool, each.tool), MAX_TOOL_NAME_CHARS) for each in shown]
    axes.set_yticks(places, names, parse_math=False)
    axes.tick_params(axis="y", length=0)
    # most asked on top; bars as thin as with three, even for fewer
    axes.set_ylim(max(len(shown), 3) - 0.4, -0.6)
    for place, each in zip(places, shown, strict=True):
        label = f"{format_duration(each.speed.median)}, 90% {format_duration(each.speed.slow)}"
        axes.text(
            1.02, place, label, transform=axes.get_yaxis_transform(), va="center", color=INK_COLOUR
        )
    left_out = (
        f"; {len(decided) - MAX_TOOLS} more tools are not shown" if len(decided) > MAX_TOOLS else ""
    )
    axes.set_xlabel(f"bar: median, ◆: 90% decided within{left_out}", color=INK_COLOUR)


def _list_seconds(times: Iterable[timedelta | None]) -> list[float]:
    return [each.total_seconds() for each in times if each is not None]


def _set_time_axis(axes: Axes, least: float, longest: float) -> None:
    """Set a logarithmic time axis with ticks at familiar times, such as 1 min and 1 h."""
    low, high = (1 if least > 1.5 else 0.1), max(longest * 1.5, 15)
    times = _TIME_TICKS if high / low > _MAX_EXTRA_TICKS_RATIO else _TIME_TICKS | _EXTRA_TIME_TICKS
    ticks = {at: told for at, told in sorted(times.items()) if low <= at <= high}
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="x", color="#dddddd", linewidth=0.8)
