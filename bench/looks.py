"""Measures Home and the lists with a long record.

They are opened with a hundred thousand decided requests and with a thousand, in processor time:
both records are in files. `growth` goes further and takes much longer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from bench.figures import Figure, Setup, build_figure
from bench.growth import GROWN, STEPS, Years

FEW, MANY, PENDING = 1_000, 100_000, 100


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure both records in turns."""
    few, many = (100, 400) if setup.quick else (FEW, MANY)
    rounds, times = (1, 1) if setup.quick else (5, 9)
    records = [Years(setup.make_folder(f"looks-{n}"), "", (n, PENDING)) for n in (few, many)]
    for each in records:
        each.open_lists()  # warms the caches
        each.open_home()
    took: dict[str, list[list[float]]] = {what: [[], []] for what in ("list", "home")}
    for _ in range(rounds):
        for what, both in took.items():
            found: tuple[list[float], list[float]] = ([], [])
            for _ in range(times):
                for record, kept in zip(records, found, strict=True):
                    looks = record.open_lists if what == "list" else record.open_home
                    kept.append(_busy(looks) * 1000)
            for kept, all_rounds in zip(found, both, strict=True):
                all_rounds.append(statistics.median(kept))
    for each in records:
        each.close()
    for what, (small, large) in took.items():
        yield build_figure(f"looks.{what}", f"{STEPS[what]}, {many:,} decided", large, "ms")
        ratios = [b / a for a, b in zip(small, large, strict=True)]
        yield build_figure(f"looks.{what}.ratio", f"… beside {few:,}", ratios, "×", GROWN)


def _busy(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
