"""The bot as a process of its own, as it is measured: `python -m bench.child`, with settings from
the environment.

It writes one JSON line when it is ready and one for each command it reads: `report` (what happened
since the start), `ticks N` (how long N idle ticks took), anything else ends it. Moments are
`time.monotonic()`, which processes share.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

BORN = time.monotonic()

from bench.commits import Commits
from bench.offline import Note
from bot.app import App, build
from bot.clock import SystemClock
from bot.config.startup import read
from bot.tools import Effect, ToolContext, tool

IMPORTED = time.monotonic()
starts: dict[str, float] = {}  # a call's text -> when its tool was entered


@tool(title="Write a note", effect="Write “{text}” to order {order_id}", does=Effect.WRITE)
def note_asked(args: Note, context: ToolContext) -> str:
    """Notes when it was entered."""
    starts[args.text] = time.monotonic()
    return "noted"


def main() -> None:
    """Until the input ends."""
    settings, policy = read(os.environ)
    app = build(settings, SystemClock(), policy, [note_asked])
    commits = Commits(app.core.store)
    try:
        app.start()
        app.settle(60)
        _say({"born": BORN, "imported": IMPORTED, "ready": time.monotonic(), **_memory()})
        for line in sys.stdin:
            command, _, number = line.strip().partition(" ")
            if command == "report":
                _say({"starts": starts, "commits": commits.spans, **_memory()})
            elif command == "ticks":
                _say({"ticks": _ticks(app, int(number)), **_memory()})
            else:
                break
    finally:
        app.stop()


def _ticks(app: App, times: int) -> list[float]:
    """Seconds of processor and other time of each of so many ticks with nothing to do."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        app.loop.tick()
        took.append(time.perf_counter() - began)
    return took


def _memory() -> dict[str, float]:
    """Resident memory now and at its highest, in MB (proc(5): kB)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(lines[name].split()[0]) / 1000 for name in ("VmRSS", "VmHWM")}


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
