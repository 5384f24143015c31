"""Measures what two thousand whole stories leave behind.

It measures the growth of the file and of the log per story, and the bot's memory afterwards.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench import clicks
from bench.figures import Figure, Setup
from bench.live import Live

STORIES, AT_ONCE = 2000, 50
FILE, MEMORY = 8000, 125  # aims: bytes per story, MB
TABLES = ("audit", "delivery", "item", "message", "call")  # the largest


def measure_used_bytes(path: Path) -> dict[str, int]:
    """Return the bytes of used pages: of each of TABLES with its indexes, and in `file` of all."""
    with closing(sqlite3.connect(path)) as raw:
        counts = [
            int(raw.execute(f"PRAGMA {each}").fetchone()[0])
            for each in ("page_count", "freelist_count", "page_size")
        ]
        of_table = dict(
            raw.execute(
                "SELECT m.tbl_name, sum(s.pgsize) FROM dbstat s"
                " JOIN sqlite_master m ON m.name = s.name GROUP BY m.tbl_name"
            )
        )
    return {
        "file": (counts[0] - counts[1]) * counts[2],
        **{each: of_table[each] for each in TABLES},
    }


def measure(setup: Setup) -> Iterator[Figure]:
    """Run fifty stories at once, again and again, on one bot."""
    count, at_once = (4, 2) if setup.quick else (STORIES, AT_ONCE)
    with Live(setup.make_folder("stories"), at_once) as live:
        live.start()
        clicks.measure_stories(live, 1 if setup.quick else 10)  # warms the caches
        path, log = live.folder / "countersign.db", live.folder / "log"
        live.send_command("report")
        before, logged = measure_used_bytes(path), log.stat().st_size
        for _ in range(count // at_once):
            clicks.measure_throughput(live, at_once)
        memory = live.send_command("report")["VmRSS"]
        after, said = measure_used_bytes(path), log.stat().st_size
    grown = {name: (after[name] - before[name]) / count for name in after}
    words = f"growth of the file by a whole story, over {count:,}"
    yield Figure("stories.file", words, grown["file"], "bytes", FILE)
    for name in TABLES:
        yield Figure(f"stories.{name}", f"… of it, {name} and its indexes", grown[name], "bytes")
    yield Figure("stories.log", "… growth of the log", (said - logged) / count, "bytes")
    words = f"memory after {count:,} whole stories, {at_once} at once"
    yield Figure("stories.memory", words, memory, "MB", MEMORY)
