"""Processes that share workspaces: each workspace is at one of them, whichever Slack asks."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bot.cli import workspaces
from countersign.cli.commands import main
from tests.cluster.cluster import POLICY
from tests.cluster.hosts import Hosts, hosts_in
from tests.cluster.replica import Replica, WrongClock
from tests.postgres_server import binaries

pytestmark = [pytest.mark.long, pytest.mark.cluster]
MakeHosts = Callable[[int], Hosts]
SOON = 4.0  # seconds in which workspaces that were given up are taken
HOUR = 3600.0
AWAY = 20  # heartbeats that cannot be stored


@pytest.fixture
def make_hosts(tmp_path: Path) -> Iterator[MakeHosts]:
    """Makes so many workspaces."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed: nothing is tested of several processes")
    with ExitStack() as ends:
        yield lambda many: ends.enter_context(hosts_in(tmp_path, many))


def count_missed(process: Replica) -> int:
    """How many heartbeats it could not store."""
    return process.log().count("no sign of life")


def test_deliveries_to_another_process_reach_the_owner(make_hosts: MakeHosts) -> None:
    """The owner of the workspace handles it; when it stops, it hands its workspaces over."""
    hosts = make_hosts(6)
    one = hosts.start_process()
    hosts.wait(lambda: hosts.has_all(one))
    two = hosts.start_process()
    for number, team in enumerate(hosts.teams):
        hosts.ask(team, f"w{number}")
    hosts.approve("w0", "w1", "w2")
    hosts.send_to(two.address)  # it owns none of them
    hosts.approve("w3", "w4", "w5")
    hosts.check_all()
    assert hosts.has_all(one)
    began = time.monotonic()
    one.end()
    hosts.wait(lambda: hosts.has_all(two))
    assert time.monotonic() - began < SOON + len(hosts.teams) * 0.3
    hosts.ask(hosts.teams[0], "w6")
    hosts.approve("w6")
    hosts.check_all()


def test_processes_started_together_share_the_workspaces(make_hosts: MakeHosts) -> None:
    """Those of a killed process go to whichever of the others looks first; neither gives up its
    own.
    """
    hosts = make_hosts(18)
    threads = [threading.Thread(target=hosts.start_process) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    hosts.wait(lambda: hosts.has_all(*hosts.processes), 60)
    held = Counter(hosts.owners().values())
    assert len(held) == 3, held
    killed, *left = hosts.processes
    for number, team in enumerate(hosts.teams):
        hosts.ask(team, f"w{number}")
    hosts.wait(lambda: all(hosts.card(word) for word in hosts.threads))
    killed.kill()
    hosts.send_to(left[0].address)
    hosts.wait(lambda: hosts.has_all(*left), 60)
    after = Counter(hosts.owners().values())
    assert all(after[each.address] >= held[each.address] for each in left), (held, after)
    assert after.total() == len(hosts.teams), (held, after)
    assert killed.address not in after
    hosts.approve(*hosts.threads)
    hosts.check_all()


def test_a_call_of_a_killed_process_is_not_repeated(make_hosts: MakeHosts) -> None:
    """Another asks people whether it was done."""
    hosts = make_hosts(2)
    one = hosts.start_process()
    hosts.wait(lambda: hosts.has_all(one))
    os.mkfifo(hosts.folder / "hang")
    hosts.ask(hosts.teams[0], "w0")
    hosts.approve("w0")
    hosts.wait(lambda: hosts.effects()["w0"])
    (hosts.folder / "hang").unlink()
    two = hosts.start_process()
    one.kill()
    hosts.send_to(two.address)
    hosts.wait(lambda: hosts.card("w0", "resolve_done"))
    assert not hosts.is_answered("w0")
    hosts.check_all()


def test_clocks_an_hour_apart_change_nothing(make_hosts: MakeHosts) -> None:
    """Workspaces move between processes; no deadline passes because of one machine's clock."""
    hosts = make_hosts(2)
    (hosts.folder / "policy.toml").write_text(POLICY + 'deadline = "30m"\n')
    working = hosts.start_process()
    hosts.wait(partial(hosts.has_all, working))
    for number, ahead in enumerate((HOUR, -HOUR)):
        word = f"w{number}"
        hosts.ask(hosts.teams[0], word)
        hosts.wait(partial(hosts.card, word))
        before, working = working, hosts.start_process(ahead=ahead)
        before.end()
        hosts.send_to(working.address)
        hosts.wait(partial(hosts.has_all, working))
        hosts.approve(word)
        hosts.wait(partial(hosts.is_answered, word))
    hosts.check_all()
    [[longest]] = hosts.rows(
        hosts.teams[0],
        "SELECT max(abs(extract(epoch FROM clock_timestamp()) - at / 1000000)) FROM audit",
    )
    assert longest < HOUR / 2


def test_a_command_removes_a_workspace_at_the_databases_time(
    make_hosts: MakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data is kept for as long as is promised, though the command's machine is years behind."""
    hosts = make_hosts(1)
    for name, value in hosts.start_process().environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(workspaces, "SystemClock", lambda: WrongClock(timedelta(days=-3000)))
    assert main(["workspaces", "remove", hosts.teams[0]]) == 0
    row = hosts.record.get(hosts.teams[0])
    assert row is not None
    assert row.removed_at is not None
    assert abs(row.removed_at - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("during", ["model", "post"])
def test_a_process_frozen_past_its_lease_changes_nothing(
    make_hosts: MakeHosts, during: str
) -> None:
    """Awake again, it writes nothing and posts nothing twice."""
    hosts = make_hosts(2)
    sleeper = hosts.start_process()
    hosts.wait(lambda: hosts.has_all(sleeper))
    held: Any = hosts.planner.hold_next_request()
    if during == "post":
        held.release()
        held = hosts.slack.faults.hold(
            "chat.postMessage", when="after", match=lambda args: "approve" in str(args["blocks"])
        )
    hosts.ask(hosts.teams[0], "w0")
    assert held.arrived.wait(10)
    other = hosts.start_process()
    sleeper.freeze()
    hosts.send_to(other.address)
    hosts.wait(lambda: hosts.has_all(other), 40)
    hosts.approve("w0")
    if during == "model":
        held.release()
    hosts.wait(lambda: hosts.is_answered("w0"))
    told = hosts.rows(hosts.teams[0], "SELECT count(*), max(seq) FROM audit")
    held.release()
    sleeper.thaw()
    hosts.wait(lambda: "another process serves" in sleeper.log())
    hosts.send_to(sleeper.address)
    assert hosts.has_all(other)
    assert hosts.rows(hosts.teams[0], "SELECT count(*), max(seq) FROM audit") == told
    hosts.ask(hosts.teams[0], "w1")
    hosts.ask(hosts.teams[1], "w2")
    hosts.approve("w1", "w2")
    hosts.check_all()


def test_workspaces_go_on_after_the_database_was_away(make_hosts: MakeHosts) -> None:
    """Longer than the leases of workspaces; these stay where they were."""
    hosts = make_hosts(6)
    first, second = hosts.start_process(), hosts.start_process()
    hosts.wait(lambda: hosts.has_all(first, second))
    for number, team in enumerate(hosts.teams):
        hosts.ask(team, f"w{number}")
    hosts.wait(lambda: all(hosts.card(word) for word in hosts.threads))
    hosts.approve("w0", "w1")
    held = hosts.planner.hold_next_request()
    hosts.ask(hosts.teams[2], "w100")
    assert held.arrived.wait(10)
    before = hosts.owners()
    hosts.server.stop()
    hosts.wait(lambda: all(count_missed(each) >= AWAY for each in (first, second)), 90)
    held.release()
    hosts.server.start()
    hosts.approve("w2", "w3", "w4", "w5", "w100", timeout=90)
    for number, team in enumerate(hosts.teams, 200):
        hosts.ask(team, f"w{number}")
    hosts.approve(*(f"w{number}" for number in range(200, 206)), timeout=90)
    hosts.check_all()
    assert hosts.owners() == before
    assert first.list_lines_with_traceback() == []  # each failure is one line without a traceback
    assert first.lives
    assert second.lives
