"""Runs the bot as a process of its own for measuring: `python -m bench.child`.

Settings come from the environment, and it starts as `countersign run` does. It writes one JSON line
when it is ready and one for each command it reads: `report` (what happened since the start), `ticks
N` (how long N idle ticks took), `profile` (where its processor time went; with `--profile` only).
Anything else ends it. Modules named after `--without` cannot be imported. Times are
`time.monotonic()`, which is the same in all processes.
"""

from __future__ import annotations

import time

BORN = time.monotonic()

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

if "--without" in sys.argv:
    for name in sys.argv[sys.argv.index("--without") + 1 :]:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # ModuleNotFoundError

from countersign.cli.process import limit_memory_arenas, pause_garbage_collection

with pause_garbage_collection():
    from pydantic import BaseModel, Field

    from bot.app import App, build
    from bot.clock import SystemClock
    from bot.config.environment import remove_variables_slack_misreads
    from bot.config.startup import read_settings_and_policy
    from bot.tools import Effect, ToolContext, tool

IMPORTED = time.monotonic()
starts: dict[str, float] = {}  # a call's text -> when its tool was entered


class Note(BaseModel):
    """The tool's arguments."""

    order_id: int = Field(title="Order")
    text: str = Field(title="Text", max_length=500)


@tool(title="Write a note", effect="Write “{text}” to order {order_id}", does=Effect.WRITE)
def note_asked(args: Note, context: ToolContext) -> str:
    """Store the time of the call."""
    starts[args.text] = time.monotonic()
    return "noted"


def main() -> None:
    """Answer commands until the input ends."""
    profiles = None
    if "--profile" in sys.argv:
        from bench.hotspots import Profiles

        profiles = Profiles(this_thread=False)
    limit_memory_arenas()
    settings, policy = read_settings_and_policy(os.environ)
    logging.basicConfig(level=settings.log_level.upper())
    remove_variables_slack_misreads(os.environ, settings.slack_api_url)
    app = build(settings, SystemClock(), policy, [note_asked])
    try:
        app.start()
        app.wait_until_idle(60)
        _say({"born": BORN, "imported": IMPORTED, "ready": time.monotonic(), **measure_memory()})
        for line in sys.stdin:
            command, _, number = line.strip().partition(" ")
            if command == "report":
                app.wait_until_idle(60)
                _say({"starts": starts, "processor": time.process_time(), **measure_memory()})
            elif command == "ticks":
                _say({"ticks": _measure_ticks(app, int(number)), **measure_memory()})
            elif command == "profile" and profiles is not None:
                app.wait_until_idle(60)
                _say({"spent": profiles.list_spent()})
            else:
                break
    finally:
        app.stop()


def _measure_ticks(app: App, times: int) -> list[float]:
    """Return the seconds that each of `times` idle ticks takes."""
    app.planner.prepare()  # imports the model's library, which the bot does after ready
    took = []
    for _ in range(times):
        began = time.perf_counter()
        app.loop.tick()
        took.append(time.perf_counter() - began)
    return took


def measure_memory() -> dict[str, float]:
    """Return the resident memory now and its maximum, in MB (proc(5): kB)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(lines[name].split()[0]) / 1000 for name in ("VmRSS", "VmHWM")}


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
