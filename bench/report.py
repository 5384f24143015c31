"""The report of a run: the machine, the figures as a table and as JSON.

Also writes it into docs/performance.md.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import Figure, format_table

DOCS = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
PROFILE = ("<!-- profile -->", "<!-- end of profile -->")
STAT = Path("/proc/stat")
RAM = ("tmpfs", "ramfs")


def describe_machine(folder: Path, others: OtherLoad) -> dict[str, Any]:
    """Return what the figures were measured on; `folder` holds the databases.

    RAM disks are marked in `disk`.
    """
    model = "unknown processor"
    if (info := Path("/proc/cpuinfo")).exists():
        found = [
            line.partition(":")[2].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        model = found[0] if found else model
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "processor": f"{os.cpu_count()} × {model}",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "disk": describe_disk(folder),
        "others": others.calculate_share(),
    }


class OtherLoad:
    """Measures how much of the processors others use: they slow everything down."""

    def __init__(self) -> None:
        self._began = self._now() if STAT.exists() else None

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Return the seconds so far: of all processors, busy ones (proc(5)), ours and our
        children's.
        """
        line = STAT.read_text().split("\n", 1)[0]
        ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in line.split()[1:9]]
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4], sum(os.times()[:4])

    def calculate_share(self) -> str:
        """Return the share in per cent as text, or "?" if the system does not tell."""
        if self._began is None:
            return "?"
        total, busy, ours = (
            now - before for now, before in zip(self._now(), self._began, strict=True)
        )
        return f"{max(0.0, (busy - ours) / max(total, 0.01)):.0%}"


def describe_disk(folder: Path) -> str:
    """Return the device and file system of `folder`: the longest mount point above it."""
    best = ("", "unknown disk")
    mounts = Path("/proc/mounts")
    for line in mounts.read_text().splitlines() if mounts.exists() else []:
        device, point, kind = line.split()[:3]
        if folder.resolve().is_relative_to(point) and len(point) > len(best[0]):
            best = (
                point,
                f"{device} ({kind}{', in memory: commits cost nothing' if kind in RAM else ''})",
            )
    return best[1]


def format_text(about: dict[str, Any], figures: Sequence[Figure]) -> str:
    """Return two lines about the machine and the table."""
    return (
        f"{about['date']}, {about['processor']}, {about['system']}, Python {about['python']},\n"
        f"SQLite {about['sqlite']}, disk {about['disk']}; "
        f"others used {about['others']} of the processors meanwhile."
        f"\n\n{format_table(figures)}"
    )


def format_json(about: dict[str, Any], figures: Sequence[Figure]) -> str:
    """Return everything as JSON, one figure per line."""
    lines = ",\n  ".join(json.dumps(figure.json(), ensure_ascii=False) for figure in figures)
    return f'{{"machine": {json.dumps(about, ensure_ascii=False)},\n "figures": [\n  {lines}\n ]}}'


def update_docs(about: dict[str, Any], figures: Sequence[Figure], page: Path = DOCS) -> None:
    """Write the table between the page's two markers; ValueError without them."""
    _write_between(page, BEGIN, END, format_text(about, figures))


def update_profile(lines: Sequence[str], page: Path = DOCS) -> None:
    """Write the profile between the page's markers for it."""
    _write_between(page, *PROFILE, "\n".join(lines).strip("\n"))


def _write_between(page: Path, begin: str, end: str, words: str) -> None:
    before, begins, rest = page.read_text("utf-8").partition(begin)
    _, ends, after = rest.partition(end)
    if not (begins and ends):
        raise ValueError(f"{page} does not have both {begin} and {end}")
    page.write_text(f"{before}{begin}\n{words}\n{end}{after}", "utf-8")
