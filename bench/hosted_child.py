"""Runs many workspaces in one process for measuring: `python -m bench.hosted_child`.

Settings come from the environment. It writes one JSON line when it is ready and one for each
`report` it reads; anything else ends it. Times are `time.monotonic()`, which is the same in all
processes.
"""

from __future__ import annotations

import time

BORN = time.monotonic()

import json
import logging
import os
import sys
import threading
from typing import Any

from countersign.cli.process import limit_memory_arenas, pause_garbage_collection

with pause_garbage_collection():
    from bench.child import measure_memory, note_asked, starts
    from bot.app import build
    from bot.clock import SystemClock
    from bot.config.environment import remove_variables_slack_misreads
    from bot.config.startup import read_settings_and_policy
    from bot.workspaces.hosted import AppSource
from bot.workspaces.host import WorkspaceHost


def main() -> None:
    """Answer commands until the input ends."""
    limit_memory_arenas()
    settings, _ = read_settings_and_policy(os.environ)
    logging.basicConfig(level=settings.log_level.upper())
    remove_variables_slack_misreads(os.environ, settings.slack_api_url)
    host = WorkspaceHost(
        settings, SystemClock(), AppSource(build, dict(os.environ), tools=[note_asked])
    )
    try:
        host.start()
        write_line({"born": BORN, "ready": time.monotonic(), **build_report(host)})
        for line in sys.stdin:
            if line.strip() != "report":
                break
            write_line({"starts": starts, **build_report(host)})
    finally:
        host.stop()


def build_report(host: WorkspaceHost) -> dict[str, Any]:
    """Return how many apps are awake, and the memory and time used so far."""
    awake = sum(each.is_awake for each in host.list_hosted())
    took = {"at": time.monotonic(), "processor": time.process_time()}
    return {"awake": awake, "threads": threading.active_count(), **took, **measure_memory()}


def write_line(what: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
