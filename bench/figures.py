"""A figure: one number with its unit and aim, and how a list of them is printed.

Beside it stand what a measurement is given, and the watch that it reads.
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
    """One measured number, with what it should be at most (or at least)."""

    name: str  # unique, for the JSON: "resume.core.warm.10.ratio"
    what: str  # for people
    value: float
    unit: str  # ms | × | bytes | MB | s | /s | % | count
    aim: float | None = None
    # the smallest and the largest of the rounds whose median `value` is
    spread: tuple[float, float] | None = None
    more_is_better: bool = False  # the aim is the least it should be, else the most

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.more_is_better else self.value <= self.aim

    def json(self) -> dict[str, Any]:
        """As plain data, with the verdict."""
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True)
class Setup:
    """What a measurement is given: a folder on the disk under test, and how thorough to be."""

    folder: Path
    quick: bool = False  # few rounds, small numbers: for tests, not for figures

    def new(self, name: str) -> Path:
        """A fresh folder of that name."""
        path = self.folder / name
        path.mkdir()
        return path


Measurement = Callable[[Setup], Iterable[Figure]]


@dataclass(frozen=True, slots=True)
class Took:
    """What something took, in milliseconds."""

    wall: float
    processor: float  # of all threads of this process


class Stopwatch:
    """Adds up what the `with` blocks take that it is used in."""

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
        """What it was so far."""
        return Took(self._wall * 1000, self._processor * 1000)


def of_rounds(
    name: str,
    what: str,
    rounds: Sequence[float],
    unit: str,
    aim: float | None = None,
    *,
    more_is_better: bool = False,
) -> Figure:
    """The median of several rounds as a Figure, with their spread."""
    spread = (min(rounds), max(rounds))
    return Figure(name, what, statistics.median(rounds), unit, aim, spread, more_is_better)


def percentile(values: Sequence[float], percent: int) -> float:
    """The smallest value that `percent` per cent of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def written(value: float, unit: str) -> str:
    """A number as people read it: three digits that matter, the unit behind it."""
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    number = f"{value:,.{digits}f}"
    return f"{number}{unit}" if unit in ("×", "%") else f"{number} {unit}".rstrip()


def _cells(figure: Figure) -> tuple[str, str, str, str]:
    spread = (
        f"{written(figure.spread[0], '')} – {written(figure.spread[1], '')}"
        if figure.spread
        else ""
    )
    sign = "≥" if figure.more_is_better else "≤"
    aim = "" if figure.aim is None else f"{sign} {written(figure.aim, figure.unit)}"
    verdict = {None: "", True: " ✓", False: " ✗"}[figure.met]
    return figure.what, written(figure.value, figure.unit), spread, aim + verdict


HEAD = ("figure", "median", "rounds", "aim")


def table(figures: Sequence[Figure]) -> str:
    """A Markdown table that also reads well in a terminal."""
    rows = [HEAD, *map(_cells, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
