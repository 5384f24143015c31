"""Four processes with many workspaces behind nginx, with faults while people ask and approve in all
of them.

WORKSPACES and PROCESSES in the environment set other numbers; ten with 200 take six minutes.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from slack_sandbox.workspace.records import Delivery
from tests.cluster.hosts import Hosts, hosts_in
from tests.cluster.test_hosts import count_missed
from tests.cluster.test_nginx import NGINX, run_nginx
from tests.postgres_server import binaries
from tests.stories.over_http import free_port

WORKSPACES = int(os.environ.get("WORKSPACES", "60"))
PROCESSES = int(os.environ.get("PROCESSES", "4"))
EACH = 3  # requests in each workspace
PATIENCE = 60 + 3.0 * WORKSPACES * EACH  # seconds for what people do
AWAY = 20  # heartbeats that cannot be stored
SPACE = 0.1  # seconds between two people's requests
STEP = 2  # seconds by which Slack's clock is moved
PAUSE = STEP * WORKSPACES / 300  # seconds of waiting per move: two cores do all the work
pytestmark = [
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.timeout(2 * PATIENCE + 300),
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: nothing spreads what comes"),
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed"),
]


class People:
    """People who ask and approve in all workspaces, on their own thread."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts, self.rounds = hosts, 0
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._act)

    def _act(self) -> None:
        try:
            for number in range(EACH):
                asked = {team: f"w{number}00{each}" for each, team in enumerate(self.hosts.teams)}
                for team, word in asked.items():
                    self.hosts.ask(team, word)
                    threading.Event().wait(SPACE)
                self.rounds = number + 1
                self.hosts.approve(*asked.values(), timeout=PATIENCE)
        except BaseException as error:
            self._failed.append(error)
            raise

    def __enter__(self) -> People:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert not self._failed

    def wait_for_round(self, number: int) -> None:
        """Wait until they ask for the nth time."""
        self.hosts.wait(lambda: self.rounds >= number or self._failed, PATIENCE)


def restart_in_turn(hosts: Hosts) -> None:
    """End and restart each process, as a deployment does."""
    for each in hosts.processes:
        each.end()
        hosts.begin(each)


def kill_two(hosts: Hosts) -> None:
    """Kill two, as a power cut would, and restart them later."""
    for each in hosts.processes[:2]:
        each.kill()
    hosts.wait(lambda: hosts.has_all(*hosts.processes[2:]), PATIENCE)
    for each in hosts.processes[:2]:
        hosts.begin(each)


def take_the_database_away(hosts: Hosts) -> None:
    """Stop the database for longer than the leases of workspaces."""
    before = [count_missed(each) for each in hosts.processes]
    hosts.server.stop()

    def is_over() -> bool:
        counts = [count_missed(each) for each in hosts.processes]
        return all(now - then >= AWAY for now, then in zip(counts, before, strict=True))

    hosts.wait(is_over, 300)
    hosts.server.start()


def send_again(hosts: Hosts) -> None:
    """Let the minutes pass after which Slack sends unacknowledged events again.

    Only Slack's clock is moved; the processes get the seconds they need first.
    """
    hosts.wait(lambda: hosts.has_all(*hosts.processes), PATIENCE)
    while under_way := list_events(hosts, "pending"):
        if any(each.next_at is not None for each in under_way):
            hosts.slack.clock.advance(STEP)
        threading.Event().wait(PAUSE)
    given_up = list_events(hosts, "http_error", "timeout", "unreachable")
    assert not given_up, (len(given_up), len(list_events(hosts, "acked")))


def list_events(hosts: Hosts, *outcomes: str) -> list[Delivery]:
    """The events with one of these outcomes."""
    sent = [each for each in hosts.slack.deliveries if each.kind == "events_api"]
    return [each for each in sent if each.outcome in outcomes]


def test_nothing_is_lost_or_done_twice(tmp_path: Path) -> None:
    """Whatever happens to processes and database, each request has one effect and one answer."""
    with hosts_in(tmp_path, WORKSPACES) as hosts:
        front, *others = (free_port() for _ in range(PROCESSES + 1))
        addresses = [f"127.0.0.1:{each}" for each in others]
        with run_nginx(tmp_path / "nginx", front, addresses) as url:
            hosts.send_to(url.removeprefix("http://"))
            for each in others:
                hosts.start_process(each)
            hosts.wait(lambda: hosts.has_all(*hosts.processes), PATIENCE)
            with People(hosts) as people:
                restart_in_turn(hosts)
                send_again(hosts)
                people.wait_for_round(2)
                kill_two(hosts)
                send_again(hosts)
                people.wait_for_round(3)
                take_the_database_away(hosts)
                send_again(hosts)
            hosts.check_all(PATIENCE)
            assert all(each.lives for each in hosts.processes)
