"""Apps with nothing to do are stopped, and started again in time for whatever is due."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from bot.workspaces.host import CHECK_INTERVAL_SECONDS
from bot.workspaces.hosted import find_next_due_time
from storage import delegations
from storage.states import CallStatus
from tests.client_keys import make_key
from tests.hosts import use_app_once_settled
from tests.web.api.receiver import run_receiver
from tests.workspaces.hosting import ONE, SUPPORT, TWO, Hosting, Workspace

POLICY = """
[defaults]
approvers = ["@shop-leads"]
deadline = "1h"
reminders = ["30m"]
"""
HOUR = 3600.0
ANA, CLEO = "UANA00001", "UCLEO0001"


@pytest.fixture
def hosting(make_hosting: Callable[..., Hosting]) -> Hosting:
    """Both workspaces; an app is stopped as soon as it is idle."""
    made = make_hosting(quiet=0.0)
    (made.folder / "policy.toml").write_text(POLICY, "utf-8")
    made.start()
    for team in made.teams:
        made.install(team)
    return made


def wait_until_asleep(workspace: Workspace) -> None:
    """Wait until its app is stopped, has no file open, and no delivery will start it again."""
    hosting = workspace.hosting

    def look() -> bool:
        assert hosting.host is not None
        if any(each.outcome == "pending" for each in hosting.slack.deliveries):
            return False
        hosting.host._check_now.set()
        is_stopped = workspace.app is None and hosting.row(workspace.team).due_at is not None
        return is_stopped and not list_open_files(workspace.folder)

    hosting.wait(look)


def list_open_files(folder: Path) -> list[str]:
    """List the files in a folder that this process has open."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # has been closed
            found.append(os.readlink(each))
    return [each for each in found if each.startswith(f"{folder}/")]


def test_a_delivery_starts_a_stopped_app(hosting: Hosting) -> None:
    """A request goes on after it. The record says when the workspace is due."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    thread = one.ask("over a sleep")
    one.card(thread)
    wait_until_asleep(one)
    wait_until_asleep(two)
    due_at = hosting.row(ONE).due_at
    assert due_at is not None
    left = due_at - hosting.clock.now()
    assert timedelta(minutes=28) < left < timedelta(minutes=31)  # the reminder
    left = (hosting.row(TWO).due_at or due_at) - hosting.clock.now()
    assert timedelta(hours=23) < left <= timedelta(days=1)  # nothing is waiting there
    assert "over a sleep" in one.command("/approvals list")
    wait_until_asleep(one)
    one.approve(thread)
    one.said(thread, "That is all.")
    assert hosting.fakes.did("note", "over a sleep") == 1
    assert two.app is None


def test_a_reminder_and_a_deadline_start_a_stopped_app(hosting: Hosting) -> None:
    """Both are in time, and no other workspace's app is started."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    thread = one.ask("nobody answers")
    one.card(thread)
    wait_until_asleep(one)
    wait_until_asleep(two)
    hosting.clock.advance(HOUR / 2 + 5)
    one.said(thread, "this is still waiting for a decision")
    wait_until_asleep(one)
    left = (hosting.row(ONE).due_at or hosting.clock.now()) - hosting.clock.now()
    assert timedelta(0) < left < timedelta(minutes=30)  # the deadline
    hosting.clock.advance(HOUR / 2)
    one.said(thread, "Nobody answered")
    assert two.app is None


def test_a_reminder_is_in_time_though_the_clock_was_set_back(hosting: Hosting) -> None:
    """The app was stopped meanwhile."""
    one = hosting.workspace(ONE)
    thread = one.ask("nobody answers")
    one.card(thread)
    wait_until_asleep(one)
    hosting.machine.behind += timedelta(hours=1)
    hosting.clock.advance(HOUR / 2 + 5)
    one.said(thread, "this is still waiting for a decision")


def test_an_app_stopped_by_a_fast_clock_starts_at_once(hosting: Hosting) -> None:
    """It is due later than any app can be."""
    one = hosting.workspace(ONE)
    thread = one.ask("nobody answers")
    one.card(thread)
    wait_until_asleep(one)
    assert hosting.host is not None
    hosting.host.record.set_due(ONE, hosting.clock.now() + timedelta(days=365))
    hosting.clock.advance(HOUR)
    one.said(thread, "Nobody answered")


def test_a_stopped_app_starts_once_a_day(hosting: Hosting) -> None:
    """It has daily work, although nothing else is due for three days."""
    one = hosting.workspace(ONE)
    one.folder.mkdir(parents=True, exist_ok=True)
    policy = '[defaults]\napprovers = ["@shop-leads"]\ndeadline = "3d"\nreminders = []\n'
    (one.folder / "policy.toml").write_text(policy, "utf-8")
    one.stop_app()
    one.card(one.ask("takes its time"))
    wait_until_asleep(one)
    due_at = hosting.row(ONE).due_at
    assert due_at is not None
    assert timedelta(hours=23) < due_at - hosting.clock.now() <= timedelta(days=1)


def test_a_call_approved_for_later_starts_a_stopped_app(hosting: Hosting) -> None:
    """The call runs at its time."""
    one = hosting.workspace(ONE)
    start = (hosting.clock.now() + timedelta(hours=3)).replace(second=0, microsecond=0)
    policy = POLICY + f'good_for = "5h"\nrun_at = "{start:%H:%M} UTC"\n'
    one.folder.mkdir(parents=True, exist_ok=True)
    (one.folder / "policy.toml").write_text(policy, "utf-8")
    one.stop_app()
    thread = one.ask("at its time")
    one.approve(thread)
    wait_until_asleep(one)
    due_at = hosting.row(ONE).due_at
    assert due_at is not None
    assert abs(due_at - start) < timedelta(seconds=1)
    assert hosting.fakes.did("note", "at its time") == 0
    hosting.clock.advance((start - hosting.clock.now()).total_seconds() + 1)
    hosting.wait(lambda: hosting.fakes.did("note", "at its time") == 1)


def test_an_app_runs_until_a_delegate_was_shown_waiting_calls(
    make_hosting: Callable[..., Hosting],
) -> None:
    """Until then nothing may stop it; here its loop is paused."""
    hosting = make_hosting()
    hosting.start()
    hosting.install(ONE)
    one, now = hosting.workspace(ONE), hosting.clock.now()
    one.card(one.ask("waits"))
    one.settle()
    app = one.app
    assert app is not None
    assert find_next_due_time(app, now) is not None
    app.loop.pause()
    row = delegations.Delegation(
        team=ONE, giver=ANA, delegate=CLEO, given_at=now, until=now + timedelta(days=1)
    )
    with app.core.store.write() as tx:
        delegations.give_delegation(tx, row)
    assert find_next_due_time(app, now) is None
    app.loop.resume()
    hosting.wait(lambda: find_next_due_time(app, hosting.clock.now()) is not None)


@pytest.mark.long
def test_a_webhook_that_is_tried_again_starts_a_stopped_app(hosting: Hosting) -> None:
    """Its first delivery failed."""
    one = hosting.workspace(ONE)
    with run_receiver() as receiver:
        receiver.status = 500
        one.command("/approvals help")
        assert hosting.host is not None
        with use_app_once_settled(hosting.host, ONE):
            key = make_key(
                one.folder / "countersign.db", "told", "@ben", ["note"], webhook=receiver.url
            ).key
        asked = {"tool": "note", "arguments": {"text": "tell me"}, "channel": "#support"}
        answer = httpx2.post(
            f"{hosting.url}/w/{ONE}/v1/requests",
            json=asked,
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
            timeout=30,
        )
        assert answer.status_code == 201, answer.text

        def look() -> str:
            seen = one.person("ana").everything(SUPPORT)
            return next((str(each["ts"]) for each in seen if "“told”" in str(each)), "")

        one.approve(hosting.wait(look))
        receiver.wait(2)
        wait_until_asleep(one)
        receiver.status = 204
        for _ in range(3):
            hosting.clock.advance(HOUR)
        hosting.wait(lambda: len(receiver.heard) >= 4)
        said = [each.said["type"] for each in receiver.heard]
        assert {each: said.count(each) for each in said}.keys() == {
            "request.decided",
            "request.ended",
        }


def test_an_app_with_work_under_way_is_not_stopped(make_hosting: Callable[..., Hosting]) -> None:
    """A call runs while time passes and commands are answered."""
    hosting = make_hosting(quiet=0.0)
    hosting.start()
    hosting.install(ONE)
    one = hosting.workspace(ONE)
    one.command("/approvals help")
    wait_until_asleep(one)
    thread = one.ask("takes long", "slow")
    one.approve(thread)
    assert hosting.fakes.entered.wait(10)
    app = one.app
    assert app is not None
    for _ in range(5):
        hosting.clock.advance(CHECK_INTERVAL_SECONDS + 1)
        one.command("/approvals list")
    assert one.app is app
    assert hosting.row(ONE).due_at is None  # so after a kill it is started again
    hosting.fakes.go_on.set()
    one.said(thread, "That is all.")
    assert hosting.fakes.did("slow", "takes long") == 1
    wait_until_asleep(one)


@pytest.mark.long
def test_requests_while_an_app_is_stopped_are_answered_once(hosting: Hosting) -> None:
    """The host tries to stop the app all the time."""
    one = hosting.workspace(ONE)
    assert hosting.host is not None
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            assert hosting.host is not None
            hosting.host._check_now.set()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for number in range(8):
            thread = one.ask(f"amid sleeps {number}")
            one.approve(thread)
            one.said(thread, "That is all.")
    finally:
        ended.set()
        looking.join()
    for number in range(8):
        assert hosting.fakes.did("note", f"amid sleeps {number}") == 1
    outcomes = {each.outcome for each in hosting.slack.deliveries if each.kind != "events_api"}
    assert outcomes <= {"acked"}


def test_metrics_count_pending_calls_of_stopped_apps(hosting: Hosting) -> None:
    """Workspaces that uninstalled the bot are left out."""
    one = hosting.workspace(ONE)
    thread = one.ask("counted")
    one.card(thread)
    wait_until_asleep(one)
    name = f'countersign_workspace_pending_calls{{workspace="{ONE}"}}'

    def page() -> str:
        return str(httpx2.get(f"{hosting.url}/metrics", trust_env=False, timeout=30).text)

    assert f"{name} 1.0" in page()
    hosting.clock.advance(60)
    one.admin.uninstall()
    hosting.wait(lambda: name not in page())


@pytest.mark.long
def test_due_times_of_stopped_apps_are_kept_over_a_restart(hosting: Hosting) -> None:
    """They are in the record of installations."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    thread = one.ask("over a restart")
    one.card(thread)
    wait_until_asleep(one)
    wait_until_asleep(two)
    hosting.stop()
    hosting.clock.advance(HOUR + 5)
    hosting.start()
    hosting.workspace(ONE).said(thread, "Nobody answered")
    assert two.app is None


def test_an_app_with_an_operator_is_not_stopped(hosting: Hosting) -> None:
    """The operator's terminal may connect to its socket at any time."""
    one = hosting.workspace(ONE)
    wait_until_asleep(one)
    one.set(COUNTERSIGN_OPERATOR="UANA00001")
    one.command("/approvals list")
    app: Any = one.app
    assert app is not None
    for _ in range(5):
        hosting.clock.advance(CHECK_INTERVAL_SECONDS + 1)
        hosting.workspace(TWO).command("/approvals list")
    assert one.app is app
    assert not [each for each in one.calls() if each.status is CallStatus.PENDING]
    assert one.person("ana").everything(SUPPORT)


def test_an_http_request_starts_a_stopped_app(hosting: Hosting) -> None:
    """The request is answered by the app."""
    one = hosting.workspace(ONE)
    wait_until_asleep(one)
    at = f"{hosting.url}/w/{ONE}/readyz"
    assert httpx2.get(at, trust_env=False, timeout=30).text.startswith("ready")
