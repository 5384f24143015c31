"""A process that serves two workspaces is stopped or killed during work in both."""

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
def test_runs_are_finished_after_a_stop_in_both_workspaces(
    make_hosting: Callable[..., Hosting], transport: Transport
) -> None:
    """Running steps are finished, the rest follows after the start; everything is done once."""
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


def test_messages_are_handled_after_a_stop_while_people_ask(
    make_hosting: Callable[..., Hosting],
) -> None:
    """Acknowledged messages are handled after the start; Slack sends the others again."""
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
    hosting.clock.advance(61)  # by then Slack has sent refused messages again
    for team in BOTH:
        for thread in asked[team]:
            hosting.workspace(team).card(thread)
        hosting.workspace(team).settle()
        assert len(hosting.workspace(team).calls()) == 12


class HostProcess:
    """`countersign serve` for the workspaces of a local Slack, which can be killed."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.process: BaseProcess | None = None

    def start(self) -> None:
        """Start the process, and wait until it is ready."""
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
        """Kill the process."""
        assert self.process is not None
        self.process.kill()
        self.process.join()


@pytest.fixture
def process(make_hosting: Callable[..., Hosting]) -> Iterator[HostProcess]:
    """A process that has been started."""
    made = HostProcess(make_hosting())
    made.start()
    yield made
    made.kill()


def read_row(hosting: Hosting, team: str) -> Any:
    """Read the row of an installation beside the process."""
    record = open_installation_record(Settings.load(hosting.environ, transport=None))
    try:
        return record.get(team)
    finally:
        record.close()


def read_statuses(workspace: Workspace) -> list[str]:
    """Read the statuses of a workspace's calls from its file."""
    with closing(sqlite3.connect(workspace.folder / "countersign.db")) as connection:
        return [each for (each,) in connection.execute("SELECT status FROM call")]


def read_effects(folder: Path) -> list[str]:
    """Read what the tools did."""
    path = folder / "effects"
    return (
        [each.rpartition(" ")[0] for each in path.read_text().splitlines()] if path.exists() else []
    )


def test_both_workspaces_are_served_again_after_a_kill(process: HostProcess) -> None:
    """Nobody has to write anything there; interrupted calls are reported as unknown."""
    hosting = process.hosting
    hosting.row = lambda team: read_row(hosting, team)  # type: ignore[method-assign]  # beside it
    (hosting.folder / "hang").unlink(missing_ok=True)
    for team in BOTH:
        hosting.install(team)
    os.mkfifo(hosting.folder / "hang")
    threads = {}
    for team in BOTH:
        one = hosting.workspace(team)
        threads[team] = one.ask(f"of {team}", "once")
        one.approve(threads[team])
    hosting.wait(lambda: len(read_effects(hosting.folder)) == 2)
    assert [read_row(hosting, team).due_at for team in BOTH] == [None, None]
    process.kill()
    (hosting.folder / "hang").unlink()
    process.start()
    for team in BOTH:
        one = hosting.workspace(team)
        hosting.wait(lambda one=one: read_statuses(one) == ["unknown"])
    assert sorted(read_effects(hosting.folder)) == [f"once of {team}" for team in BOTH]
    done = one.ask("afterwards", "once")
    one.approve(done)
    one.said(done, "That is all.")
