"""A figure (one number with its unit and aim) and how figures are printed.

Also what a measurement is given, and the stopwatch it uses.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number with the most (or the least) it should be."""

    name: str  # unique, for the JSON: "resume.core.warm.10.ratio"
    what: str  # for people
    value: float
    unit: str  # ms | × | bytes | MB | s | /s | % | count
    aim: float | None = None
    # the smallest and the largest of the rounds; `value` is their median
    spread: tuple[float, float] | None = None
    more_is_better: bool = False  # the aim is the least it should be, else the most

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.more_is_better else self.value <= self.aim

    def json(self) -> dict[str, Any]:
        """Return the figure and its verdict as plain data."""
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True)
class Setup:
    """What a measurement is given: a folder on the measured disk, and whether to be quick."""

    folder: Path
    quick: bool = False  # few rounds, small numbers: for tests, not for figures

    def make_folder(self, name: str) -> Path:
        """Create a folder of that name."""
        path = self.folder / name
        path.mkdir()
        return path


Measurement = Callable[[Setup], Iterable[Figure]]


@dataclass(frozen=True, slots=True)
class Took:
    """The duration of something, in milliseconds."""

    wall: float
    processor: float  # of all threads of this process


class Stopwatch:
    """Adds up the duration of the `with` blocks it is used in."""

    def __init__(self) -> None:
        self._wall = self._processor = 0.0

    def __enter__(self) -> Stopwatch:
        self._wall -= time.perf_counter()
        self._processor -= time.process_time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._processor += time.process_time()
        self._wall += time.perf_counter()

    @property
    def took(self) -> Took:
        """The duration so far."""
        return Took(self._wall * 1000, self._processor * 1000)


def build_figure(
    name: str,
    what: str,
    rounds: Sequence[float],
    unit: str,
    aim: float | None = None,
    *,
    more_is_better: bool = False,
) -> Figure:
    """Return the median of several rounds as a Figure with their spread."""
    spread = (min(rounds), max(rounds))
    return Figure(name, what, statistics.median(rounds), unit, aim, spread, more_is_better)


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that `percent` per cent of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def format_number(value: float, unit: str) -> str:
    """Format a number with three significant digits and its unit."""
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    number = f"{value:,.{digits}f}"
    return f"{number}{unit}" if unit in ("×", "%") else f"{number} {unit}".rstrip()


def _cells(figure: Figure) -> tuple[str, str, str, str]:
    spread = (
        f"{format_number(figure.spread[0], '')} – {format_number(figure.spread[1], '')}"
        if figure.spread
        else ""
    )
    sign = "≥" if figure.more_is_better else "≤"
    aim = "" if figure.aim is None else f"{sign} {format_number(figure.aim, figure.unit)}"
    verdict = {None: "", True: " ✓", False: " ✗"}[figure.met]
    return figure.what, format_number(figure.value, figure.unit), spread, aim + verdict


HEAD = ("figure", "median", "rounds", "aim")


def format_table(figures: Sequence[Figure]) -> str:
    """Return a Markdown table that is also readable in a terminal."""
    rows = [HEAD, *map(_cells, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
