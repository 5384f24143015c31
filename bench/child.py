"""The bot as a process of its own, as it is measured: `python -m bench.child`, with settings from
the environment.

It starts as `countersign run` does. It writes one JSON line when it is ready and one for each
command it reads: `report` (what happened since the start), `ticks N` (how long N idle ticks
took), `profile` (where its processor time went; with `--profile` only), anything else ends it.
What is named behind `--without` is as good as not installed. Moments are `time.monotonic()`,
which processes share.
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
    """What the tool is given."""

    order_id: int = Field(title="Order")
    text: str = Field(title="Text", max_length=500)


@tool(title="Write a note", effect="Write “{text}” to order {order_id}", does=Effect.WRITE)
def note_asked(args: Note, context: ToolContext) -> str:
    """Notes when it was entered."""
    starts[args.text] = time.monotonic()
    return "noted"


def main() -> None:
    """Until the input ends."""
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
        _say({"born": BORN, "imported": IMPORTED, "ready": time.monotonic(), **memory()})
        for line in sys.stdin:
            command, _, number = line.strip().partition(" ")
            if command == "report":
                app.wait_until_idle(60)
                _say({"starts": starts, "processor": time.process_time(), **memory()})
            elif command == "ticks":
                _say({"ticks": _ticks(app, int(number)), **memory()})
            elif command == "profile" and profiles is not None:
                app.wait_until_idle(60)
                _say({"spent": profiles.spent()})
            else:
                break
    finally:
        app.stop()


def _ticks(app: App, times: int) -> list[float]:
    """Seconds of processor and other time of each of so many ticks with nothing to do."""
    app.planner.prepare()  # the model's library is imported after ready: that is not idle
    took = []
    for _ in range(times):
        began = time.perf_counter()
        app.loop.tick()
        took.append(time.perf_counter() - began)
    return took


def memory() -> dict[str, float]:
    """Resident memory now and at its highest, in MB (proc(5): kB)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(lines[name].split()[0]) / 1000 for name in ("VmRSS", "VmHWM")}


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
