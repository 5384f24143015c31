"""A process that serves two workspaces ends amid work in both, in an orderly way or killed."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from bot.config.connection_settings import Transport
from bot.config.settings import Settings
from bot.workspaces.tokens import open_installation_record
from storage.states import CallStatus
from tests.stories.over_http import asked_at, is_ready
from tests.stories.process import FORKS, run_bot
from tests.workspaces.hosting import ONE, TWO, Hosting, Workspace

pytestmark = pytest.mark.long
BOTH = (ONE, TWO)


@pytest.mark.parametrize("transport", list(Transport))
def test_stopped_amid_a_run_in_each(
    make_hosting: Callable[..., Hosting], transport: Transport
) -> None:
    """The steps under way are finished, what comes next is done after the start; all of it once."""
    hosting = make_hosting(transport)
    hosting.start()
    threads = {}
    for team in BOTH:
        hosting.install(team)
        threads[team] = hosting.workspace(team).ask(f"of {team}", "slow")
        hosting.workspace(team).approve(threads[team])
    for team in BOTH:
        one = hosting.workspace(team)
        hosting.wait(lambda one=one: one.calls()[0].status is CallStatus.RUNNING)
    waiting = {team: hosting.workspace(team).ask("decided later") for team in BOTH}
    for team in BOTH:
        hosting.workspace(team).card(waiting[team])
    ending = threading.Thread(target=hosting.stop)
    ending.start()
    hosting.fakes.go_on.set()
    ending.join(20)
    assert not ending.is_alive()
    hosting.start()
    for team in BOTH:
        one = hosting.workspace(team)
        one.said(threads[team], "That is all.")
        one.approve(waiting[team])
        one.said(waiting[team], "That is all.")
        assert hosting.fakes.did("slow", f"of {team}") == 1
    assert hosting.fakes.did("note", "decided later") == 2


def test_stopped_while_it_answers(make_hosting: Callable[..., Hosting]) -> None:
    """What Slack was told is stored is dealt with after the start, in each; the rest it sends."""
    hosting = make_hosting()
    hosting.start()
    for team in BOTH:
        hosting.install(team)
    asked: dict[str, list[str]] = {ONE: [], TWO: []}

    def ask(team: str) -> None:
        for number in range(12):
            asked[team].append(hosting.workspace(team).ask(f"{team} {number}"))

    asking = [threading.Thread(target=ask, args=[team]) for team in BOTH]
    for each in asking:
        each.start()
    hosting.wait(lambda: all(len(each) > 2 for each in asked.values()))
    hosting.stop()
    for each in asking:
        each.join()
    hosting.start()
    hosting.clock.advance(61)  # by when Slack has sent again what was refused
    for team in BOTH:
        for thread in asked[team]:
            hosting.workspace(team).card(thread)
        hosting.workspace(team).settle()
        assert len(hosting.workspace(team).calls()) == 12


class HostProcess:
    """`countersign serve` for the workspaces of a local Slack, to be killed and started again."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.process: BaseProcess | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        folder = self.hosting.folder
        environ = {
            **self.hosting.environ,
            "PATH": os.environ["PATH"],
            "COUNTERSIGN_TOOLS": "tests.stories.crash_tools",
            "CRASH_FOLDER": str(folder),
        }
        self.process = FORKS.Process(target=run_bot, args=("serve", environ, str(folder / "log")))
        self.process.start()
        self.hosting.slack.wait(lambda: is_ready(environ["COUNTERSIGN_HTTP"]))
        asked_at(self.hosting.slack.world.app.manifest, self.hosting.url)

    def kill(self) -> None:
        """Kill it."""
        assert self.process is not None
        self.process.kill()
        self.process.join()


@pytest.fixture
def process(make_hosting: Callable[..., Hosting]) -> Iterator[HostProcess]:
    """One, started."""
    made = HostProcess(make_hosting())
    made.start()
    yield made
    made.kill()


def row_of(hosting: Hosting, team: str) -> Any:
    """The row of an installation, read beside the process."""
    record = open_installation_record(Settings.load(hosting.environ, transport=None))
    try:
        return record.get(team)
    finally:
        record.close()


def statuses(workspace: Workspace) -> list[str]:
    """How the calls of a workspace stand, read from its file."""
    with closing(sqlite3.connect(workspace.folder / "countersign.db")) as connection:
        return [each for (each,) in connection.execute("SELECT status FROM call")]


def effects(folder: Path) -> list[str]:
    """What the tools did."""
    path = folder / "effects"
    return (
        [each.rpartition(" ")[0] for each in path.read_text().splitlines()] if path.exists() else []
    )


def test_killed_while_both_are_awake(process: HostProcess) -> None:
    """Both are awake again, though nobody writes anything: what was cut off is told."""
    hosting = process.hosting
    hosting.row = lambda team: row_of(hosting, team)  # type: ignore[method-assign]  # beside it
    (hosting.folder / "hang").unlink(missing_ok=True)
    for team in BOTH:
        hosting.install(team)
    os.mkfifo(hosting.folder / "hang")
    threads = {}
    for team in BOTH:
        one = hosting.workspace(team)
        threads[team] = one.ask(f"of {team}", "once")
        one.approve(threads[team])
    hosting.wait(lambda: len(effects(hosting.folder)) == 2)
    assert [row_of(hosting, team).due_at for team in BOTH] == [None, None]
    process.kill()
    (hosting.folder / "hang").unlink()
    process.start()
    for team in BOTH:
        one = hosting.workspace(team)
        hosting.wait(lambda one=one: statuses(one) == ["unknown"])
    assert sorted(effects(hosting.folder)) == [f"once of {team}" for team in BOTH]
    done = one.ask("afterwards", "once")
    one.approve(done)
    one.said(done, "That is all.")
