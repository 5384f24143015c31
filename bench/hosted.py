"""Measures two hundred workspaces in one process, each with fifty pending requests.

It measures the start, memory and processor time, asleep and awake, and how much a flood of messages
in one workspace delays another.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Figure, Setup, build_figure, percentile
from bench.live import PATIENCE, POLICY, ROOT, plan_turn, read_line
from bench.pending import fill_database
from slack_sandbox.client.actor import Actor
from storage.installations import InstallationRecord
from tests.model_stand_in.planner import StrictPlanner
from tests.stories.messages import action_ids
from tests.workspaces.many import CHANNELS, TOKEN_KEYS, build_slack, install_everywhere

WORKSPACES, WAITING, FLOOD, CLICKS = 200, 50, 500, 40
READY, MEMORY, IDLE, IN_TIME = 3.0, 250, 5, 1500  # aims: seconds, MB, milliseconds twice
IDLE_FOR = 10.0  # seconds
RECORD = "countersign.db"  # its key and the audit's head are beside it


class Hosted:
    """Workspaces of a local Slack and the process that serves them."""

    def __init__(self, folder: Path, many: int, waiting: int) -> None:
        self.folder, self.many = folder, many
        self.slack, self.planner = build_slack(many), StrictPlanner(mind=plan_turn)
        self.teams = list(self.slack.world.worlds)
        (folder / "policy.toml").write_text(POLICY)
        (folder / "one").mkdir()
        fill_database(folder / "one", waiting)
        for team in self.teams:
            self._copy_record(folder / "workspaces" / team, team)
        self._process: subprocess.Popen[str] | None = None

    def _copy_record(self, there: Path, team: str) -> None:
        there.mkdir(parents=True)
        for each in (self.folder / "one").glob(f"{RECORD}*"):
            shutil.copy(each, there)
        with closing(sqlite3.connect(there / RECORD)) as db:
            for table in ("run", "delivery"):
                db.execute(f"UPDATE {table} SET team = ?", (team,))
            db.commit()

    def __enter__(self) -> Hosted:
        self.slack.start()
        self.planner.start()
        self.record = InstallationRecord(
            f"sqlite:///{self.folder / 'workspaces' / 'installations.db'}"
        ).open()
        install_everywhere(self.slack, self.record)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.record.close()
        self.planner.stop()
        self.slack.stop()

    def start(self, due_at: datetime | None, **settings: str) -> dict[str, float]:
        """Start the process and return its first line with the time before as `began`.

        All workspaces are due at `due_at`.
        """
        for team in self.teams:
            self.record.set_due(team, due_at)
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "SLACK_APP_TOKEN": self.slack.app_token,
            "SLACK_API_URL": self.slack.api_url,
            "OPENAI_API_KEY": "offline",
            "OPENAI_BASE_URL": self.planner.url,
            "COUNTERSIGN_CLIENT_ID": "1.2",
            "COUNTERSIGN_CLIENT_SECRET": "of-the-benchmark",
            "COUNTERSIGN_TOKEN_KEYS": TOKEN_KEYS,
            "COUNTERSIGN_WORKSPACES": str(self.folder / "workspaces"),
            "COUNTERSIGN_URL": "http://localhost:8080",
            "COUNTERSIGN_HTTP": "127.0.0.1:0",
            "COUNTERSIGN_POLICY": str(self.folder / "policy.toml"),
            "COUNTERSIGN_MAX_PENDING": "100000",
            "COUNTERSIGN_MAX_ASKED_PER_HOUR": "1000000",
            "COUNTERSIGN_MAX_TOKENS_PER_DAY": "1000000000",
            **settings,
        }
        began = time.monotonic()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.hosted_child"],
                cwd=self.folder,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return {**read_line(self._process, self.folder / "log"), "began": began}

    def report(self) -> dict[str, Any]:
        """Return the process's report."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        return read_line(self._process, self.folder / "log")

    def wait_for_awake(self, many: int) -> dict[str, Any]:
        """Wait until `many` apps are awake."""
        until = time.monotonic() + PATIENCE
        while (found := self.report())["awake"] != many:
            if time.monotonic() > until:
                raise RuntimeError(f"{found}: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        return found

    def measure_idle(self, seconds: float) -> float:
        """Return the processor milliseconds per second while nothing happens."""
        before = self.report()
        threading.Event().wait(seconds)
        after = self.report()
        spent = float(after["processor"] - before["processor"])
        return spent / float(after["at"] - before["at"]) * 1000

    def stop(self) -> None:
        """Stop the process in an orderly way."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(60)
            self._process = None

    # people

    def person(self, team: str, name: str) -> Actor:
        """Return an actor in a workspace."""
        return self.slack.workspace(team).person(name)

    def ask(self, team: str, number: int) -> tuple[str, str, str]:
        """Let Ben ask for a note; return the team, channel and thread."""
        channel = f"C{team[3:]}{number % CHANNELS}"
        return team, channel, self.person(team, "ben").say(channel, f"@bot note n{team}-{number}")

    def find_card(self, place: tuple[str, str, str]) -> dict[str, Any] | None:
        """Return the card with buttons in a thread, or None."""
        team, *there = place
        found = self.person(team, "p0").messages(*there)
        return next((each for each in found if "approve" in action_ids(each)), None)


def measure(setup: Setup) -> Iterator[Figure]:
    """Measure asleep, awake, and with one workspace flooded."""
    many = 4 if setup.quick else WORKSPACES
    folder = setup.make_folder("hosted")
    with Hosted(folder, many, 5 if setup.quick else WAITING) as hosted:
        yield from _asleep(hosted, setup)
        yield from _awake(hosted, setup)
        yield from _measure_flooded(hosted, setup)


def _asleep(hosted: Hosted, setup: Setup) -> Iterator[Figure]:
    later = datetime.now(UTC) + timedelta(days=1)
    ready, memory, idle = [], [], []
    for _ in range(1 if setup.quick else 3):
        line = hosted.start(later)
        ready.append(line["ready"] - line["began"])
        idle.append(hosted.measure_idle(0.5 if setup.quick else IDLE_FOR))
        memory.append(hosted.report()["VmRSS"])
        hosted.stop()
    words = f"{hosted.many} workspaces that sleep"
    yield build_figure("hosted.ready", f"start of a process for {words}", ready, "s", READY)
    yield build_figure("hosted.memory", f"memory, {words}", memory, "MB", MEMORY)
    yield build_figure("hosted.idle", f"processor time per second, {words}", idle, "ms", IDLE)


def _awake(hosted: Hosted, setup: Setup) -> Iterator[Figure]:
    first = hosted.start(None)
    line = hosted.wait_for_awake(hosted.many)
    words = f"{hosted.many} workspaces that are awake"
    took = [float(line["at"]) - first["began"]]
    yield build_figure("hosted.awake", f"start until all are awake, {words}", took, "s")
    threading.Event().wait(0.1 if setup.quick else 5)
    idle = [hosted.measure_idle(0.5 if setup.quick else IDLE_FOR)]
    yield build_figure("hosted.awake.idle", f"processor time per second, {words}", idle, "ms")
    line = hosted.report()
    each = (float(line["VmRSS"]) - first["VmRSS"]) / hosted.many
    yield build_figure("hosted.awake.memory", f"memory, {words}", [float(line["VmRSS"])], "MB")
    yield build_figure("hosted.awake.app", "memory of one app that is awake", [each], "MB")
    threads = (line["threads"] - first["threads"]) / hosted.many
    yield build_figure("hosted.awake.threads", "threads of one app that is awake", [threads], "")
    hosted.stop()


def _measure_flooded(hosted: Hosted, setup: Setup) -> Iterator[Figure]:
    """Measure approvals in one workspace while another gets many messages at once."""
    flooded, other = hosted.teams[:2]
    hosted.start(datetime.now(UTC) + timedelta(days=1))
    clicks, flood = (3, 10) if setup.quick else (CLICKS, FLOOD)
    places = [hosted.ask(other, number) for number in range(clicks)]
    for place in places:
        hosted.slack.wait(partial(hosted.find_card, place), PATIENCE)
    asked = threading.Thread(
        target=lambda: [hosted.ask(flooded, number) for number in range(flood)]
    )
    asked.start()
    clicked = {}
    for number, place in enumerate(places):
        shown = hosted.find_card(place)
        assert shown is not None
        clicked[f"n{other}-{number}"] = time.monotonic()
        hosted.person(other, "p0").click(place[1], shown["ts"], "approve", seen=shown)
        threading.Event().wait(0.1)
    asked.join()
    starts: dict[str, float] = {}
    until = time.monotonic() + PATIENCE
    while not clicked.keys() <= starts.keys() and time.monotonic() < until:
        starts = hosted.report()["starts"]
    waits = [(starts[text] - at) * 1000 for text, at in clicked.items()]
    words = f"click to effect while another workspace gets {flood} messages"
    yield build_figure("hosted.flood.p50", f"{words}, median", [percentile(waits, 50)], "ms")
    yield build_figure("hosted.flood.p99", f"{words}, p99", [percentile(waits, 99)], "ms", IN_TIME)
    hosted.stop()
