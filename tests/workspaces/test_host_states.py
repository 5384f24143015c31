"""Workspaces that are unknown, paused, removed or broken, beside one that goes on."""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from bot.app import App
from bot.clock import ForwardOnlyClock
from bot.config.connection_settings import Transport
from bot.config.startup import StartupError
from bot.workspaces.dispatcher import PAUSED_NOTICE, UNAVAILABLE_NOTICE
from bot.workspaces.hosted import START_RETRY_INTERVAL, HostedWorkspace, NotServedError
from bot.workspaces.install_pages import PAUSED_TEXT as INSTALLED_BUT_PAUSED
from slack_sandbox.workspace.clock import ShiftedClock
from storage.sqlite import OTHER_PROCESS_REMEDY
from storage.states import CallStatus, InstallationState
from tests.stories.harness import Machine
from tests.stories.steps import typed
from tests.workspaces.hosting import ONE, POLICY, SUPPORT, TWO, Hosting, Workspace
from tests.workspaces.installing import Browser

ACTIVE, PAUSE, REMOVED = InstallationState
DAYS = 30


@pytest.fixture(params=[Transport.HTTP, pytest.param(Transport.SOCKET, marks=pytest.mark.long)])
def hosting(make_hosting: Callable[..., Hosting], request: pytest.FixtureRequest) -> Hosting:
    """Two workspaces with the same ids in them, both with the bot."""
    made = make_hosting(request.param)
    made.start()
    for team in made.teams:
        made.install(team)
    return made


def set_state(hosting: Hosting, team: str, state: InstallationState) -> None:
    """Write the state, as `countersign workspaces` does beside the bot."""
    assert hosting.host is not None
    assert hosting.host.record.set_state(team, state, hosting.clock.now())


def look_again(hosting: Hosting, seconds: float = 1) -> None:
    """Let time pass, whereupon the host looks at its workspaces."""
    hosting.clock.advance(seconds)


def wait_until_stopped(hosting: Hosting, workspace: Workspace) -> None:
    """Wait until the workspace's app is stopped."""
    hosting.wait(lambda: workspace.app is None)


def ask_and_finish(workspace: Workspace, text: str) -> None:
    """Have somebody ask and Ana approve, and check that it is done."""
    thread = workspace.ask(text)
    workspace.approve(thread)
    workspace.said(thread, "That is all.")
    assert workspace.hosting.fakes.did("note", text) == 1


def list_methods(hosting: Hosting, team: str) -> list[str]:
    """List the methods that the bot of a workspace called."""
    return [each.method for each in hosting.slack.requests if each.team == team]


def test_a_paused_workspace_goes_on_after_the_pause(hosting: Hosting) -> None:
    """During the pause nothing is done there, and a command says so."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    thread = one.ask("before the pause")
    card = one.card(thread)
    one.settle()
    set_state(hosting, ONE, PAUSE)
    look_again(hosting)
    wait_until_stopped(hosting, one)
    before = len(list_methods(hosting, ONE))
    assert PAUSED_NOTICE in one.command("/approvals list")
    one.person("ben").say(SUPPORT, "@bot note: while it is paused")
    click = one.person("ana").click(SUPPORT, card["ts"], "approve")
    assert click.wait() in ("http_error", "timeout")  # Slack shows that it did not work
    ask_and_finish(two, "next door meanwhile")
    status = httpx2.get(f"{hosting.url}/w/{TWO}/metrics", trust_env=False).status_code
    assert status == 404  # metrics are only at the address of the process
    assert len(list_methods(hosting, ONE)) == before
    status = httpx2.get(f"{hosting.url}/w/{ONE}/v1/calls", trust_env=False).status_code
    assert status == 503
    set_state(hosting, ONE, ACTIVE)
    look_again(hosting)
    one.approve(thread)
    one.said(thread, "That is all.")
    one.settle()
    assert [each.status for each in one.calls()] == [CallStatus.SUCCEEDED]
    assert hosting.fakes.did("note", "before the pause") == 1
    assert hosting.fakes.did("note", "while it is paused") == 0


@pytest.mark.parametrize("is_paused", [True, False], ids=["paused", "cannot be started"])
def test_a_dialog_submitted_while_not_served_stays_open(
    hosting: Hosting, *, is_paused: bool
) -> None:
    """It keeps what was entered, says why, and can be submitted once work goes on."""
    one = hosting.workspace(ONE)
    thread, ana = one.ask("as it was asked"), one.person("ana")
    ana.click(SUPPORT, one.card(thread)["ts"], "edit")
    hosting.wait(ana.view)
    one.settle()
    if is_paused:
        set_state(hosting, ONE, PAUSE)
        look_again(hosting)
        wait_until_stopped(hosting, one)
    else:
        (hosting.folder / "policy.toml").write_text("nonsense", "utf-8")
        one.stop_app()
    ana.submit(typed(text="as Ana has it"))
    shown = str(hosting.wait(ana.view))
    assert (PAUSED_NOTICE if is_paused else UNAVAILABLE_NOTICE) in shown
    assert "as Ana has it" in str(ana.view()["state"]["values"])  # type: ignore[index]  # it is open
    if is_paused:
        set_state(hosting, ONE, ACTIVE)
    else:
        (hosting.folder / "policy.toml").write_text(POLICY, "utf-8")
    look_again(hosting, 16)
    one.start_app()
    assert ana.submit(typed(text="as Ana has it"))["outcome"] == "closed"
    one.said(thread, "as Ana has it")


def test_a_deadline_during_a_pause_is_handled_after_it(hosting: Hosting) -> None:
    """Nobody has to write anything for that."""
    one = hosting.workspace(ONE)
    thread = one.ask("nobody answers")
    one.card(thread)
    one.settle()
    set_state(hosting, ONE, PAUSE)
    look_again(hosting)
    wait_until_stopped(hosting, one)
    hosting.clock.advance(2 * 3600)
    set_state(hosting, ONE, ACTIVE)
    look_again(hosting)
    one.said(thread, "Nobody answered")


def test_a_run_that_is_paused_is_finished_after_the_pause(hosting: Hosting) -> None:
    """The running step is finished first; the next steps follow after the pause."""
    one = hosting.workspace(ONE)
    thread = one.ask("amid a step", "slow")
    one.approve(thread)
    assert hosting.fakes.entered.wait(10)
    set_state(hosting, ONE, PAUSE)
    look_again(hosting)
    hosting.fakes.go_on.set()
    wait_until_stopped(hosting, one)
    set_state(hosting, ONE, ACTIVE)
    look_again(hosting)
    one.said(thread, "That is all.")
    assert hosting.fakes.did("slow", "amid a step") == 1


@pytest.mark.long
def test_a_workspace_that_installs_again_in_time_keeps_its_requests(hosting: Hosting) -> None:
    """While the bot is uninstalled, nothing is sent."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    thread = one.ask("before it was removed")
    one.card(thread)
    one.settle()
    hosting.clock.advance(60)
    one.admin.uninstall()
    wait_until_stopped(hosting, one)
    before = len(list_methods(hosting, ONE))
    assert hosting.row(ONE).state is REMOVED
    ask_and_finish(two, "next door meanwhile")
    status = httpx2.get(f"{hosting.url}/w/{ONE}/v1/calls", trust_env=False).status_code
    assert status == 404
    assert len(list_methods(hosting, ONE)) == before
    hosting.clock.advance(timedelta(minutes=30).total_seconds())
    hosting.install(ONE)
    one.approve(thread)
    one.said(thread, "That is all.")
    assert hosting.fakes.did("note", "before it was removed") == 1


@pytest.mark.long
def test_a_deadline_while_uninstalled_is_handled_when_installed_again(hosting: Hosting) -> None:
    """The request expires once the bot is installed again."""
    one = hosting.workspace(ONE)
    thread = one.ask("nobody answers")
    one.card(thread)
    one.settle()
    hosting.clock.advance(60)
    one.admin.uninstall()
    wait_until_stopped(hosting, one)
    hosting.clock.advance(2 * 3600)
    hosting.install(ONE)
    one.said(thread, "Nobody answered")


@pytest.mark.long
def test_the_data_of_a_removed_workspace_is_deleted_after_30_days(hosting: Hosting) -> None:
    """Installed again after that, the workspace starts with no data."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    ask_and_finish(one, "long ago")
    two.ask("next door")
    hosting.clock.advance(60)
    one.admin.uninstall()
    wait_until_stopped(hosting, one)
    hosting.clock.advance(DAYS * 86_400 - 3600)
    hosting.wait(lambda: hosting.row(TWO))
    assert (one.folder / "countersign.db").exists()
    hosting.clock.advance(2 * 3600)
    hosting.wait(lambda: not one.folder.exists())
    assert two.folder.exists()
    hosting.install(ONE)
    ask_and_finish(one, "anew")
    one.settle()
    assert len(one.calls()) == 1


def test_a_paused_workspace_is_still_paused_when_installed_again(hosting: Hosting) -> None:
    """It was uninstalled in between."""
    one = hosting.workspace(ONE)
    set_state(hosting, ONE, PAUSE)
    hosting.clock.advance(60)
    one.admin.uninstall()
    hosting.wait(lambda: hosting.row(ONE).state is REMOVED)
    hosting.clock.advance(60)
    with Browser(hosting) as ana:  # type: ignore[arg-type]  # of a site it wants the address
        page = ana.open(ana.allow(ana.leave(), **{"as": f"{ONE}/ana"}))
    assert INSTALLED_BUT_PAUSED in page.text.replace("&#x27;", "’")
    assert hosting.row(ONE).state is PAUSE
    assert PAUSED_NOTICE in one.command("/approvals list")


def test_a_token_refused_by_slack_loses_nothing(hosting: Hosting) -> None:
    """The other workspace goes on; with a valid token, this one goes on, too."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    assert hosting.host is not None
    thread = one.ask("before the token went")
    one.card(thread)
    one.settle()
    app, token = one.admin.world.app, one.admin.world.app.bot_token
    app.bot_token = "xoxb-another"  # a token of nobody
    one.ask("while the token is bad")
    ask_and_finish(two, "next door meanwhile")
    hosting.wait(lambda: "invalid_auth" in str(hosting.slack.requests))
    app.bot_token = token
    hosting.clock.advance(61)
    one.approve(thread)
    one.said(thread, "That is all.")


@pytest.mark.long
@pytest.mark.parametrize("broken", ["policy.toml", "settings.env"])
def test_a_workspace_with_a_broken_file_is_served_once_it_is_mended(
    hosting: Hosting, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then its people are told so, and the other workspace goes on."""
    one, two = hosting.workspace(ONE), hosting.workspace(TWO)
    one.stop_app()
    one.folder.mkdir(parents=True, exist_ok=True)
    (one.folder / broken).write_text("COUNTERSIGN_MAX_TURNS=none of these", "utf-8")
    assert UNAVAILABLE_NOTICE in one.command("/approvals list")
    [said] = [each for each in caplog.records if "cannot be served" in each.getMessage()]
    assert said.exc_info is None
    assert {"policy.toml": "policy.toml", "settings.env": "MAX_TURNS"}[broken] in said.getMessage()
    assert "could not be started" not in caplog.text  # that line is for faults nobody can mend
    assert httpx2.get(f"{hosting.url}/w/{ONE}/v1/calls", trust_env=False).status_code == 503
    ask_and_finish(two, "next door meanwhile")
    (one.folder / broken).unlink()
    assert hosting.host is not None
    for each in hosting.host.list_hosted():
        each.forget_problem()  # otherwise the next attempt is after fifteen seconds
    ask_and_finish(one, "once it was mended")


@pytest.mark.parametrize("problem", ["tools", "newer", "in use", "no database"])
def test_a_workspace_that_cannot_start_is_logged_once(
    make_hosting: Callable[..., Hosting], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has the words of a single bot that cannot start, without a traceback."""
    hosting = make_hosting()
    hosting.start()
    hosting.install(ONE)
    one = hosting.workspace(ONE)
    one.start_app()
    one.stop_app()
    path = one.folder / "countersign.db"
    with (one.folder / "countersign.db.lock").open("r+") as held:
        match problem:
            case "tools":
                one.set(COUNTERSIGN_TOOLS="nowhere")
            case "newer":
                with sqlite3.connect(path) as record:
                    record.execute("UPDATE alembic_version SET version_num = '9999'")
            case "in use":
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            case _:
                path.write_bytes(b"x" * 50_000)
                for name in ("countersign.db-wal", "countersign.db-shm"):
                    (one.folder / name).unlink(missing_ok=True)  # a reader may have kept them
        for _ in range(2):
            one.start_app()
            hosting.clock.advance(START_RETRY_INTERVAL.total_seconds() + 1)
        one.start_app()
    [said] = [each for each in caplog.records if each.levelname == "ERROR"]
    words = {
        "tools": "nowhere cannot be imported",
        "newer": "upgrade this one",
        "in use": OTHER_PROCESS_REMEDY,
        "no database": "file is not a database",
    }
    assert words[problem] in said.getMessage()
    assert "Traceback" not in caplog.text


def test_a_missing_token_key_is_named_in_the_log(
    make_hosting: Callable[..., Hosting], caplog: pytest.LogCaptureFixture
) -> None:
    """People of the workspace are told that it cannot be served."""
    keys = {"COUNTERSIGN_TOKEN_KEYS": f"one:{'o' * 32}"}
    hosting = make_hosting(environ=keys)
    hosting.start()
    hosting.install(ONE)
    keys["COUNTERSIGN_TOKEN_KEYS"] = f"two:{'t' * 32}"
    hosting.restart()
    one = hosting.workspace(ONE)
    assert UNAVAILABLE_NOTICE in one.command("/approvals list")
    said = [each for each in caplog.records if "cannot be served" in each.getMessage()]
    assert "encrypted with the key one, which is not among" in said[-1].getMessage()
    assert "could not be started" not in caplog.text  # that line is for faults nobody can mend
    keys["COUNTERSIGN_TOKEN_KEYS"] += f",one:{'o' * 32}"
    hosting.restart()
    ask_and_finish(one, "with the key behind the other")


def test_a_clock_that_is_set_back_does_not_delay_the_next_start() -> None:
    """The next attempt is after fifteen seconds, not after an hour and fifteen seconds."""
    shifted = ShiftedClock()
    machine = Machine(shifted)
    clock = ForwardOnlyClock(machine)
    tried: list[str] = []

    def build(workspace: str) -> App:
        tried.append(workspace)
        raise StartupError(["it cannot"], ())

    hosted = HostedWorkspace("T1", clock, build, lambda *_: None)
    hosted.due_at = clock.now()

    def use() -> int:
        with pytest.raises(NotServedError, match="it cannot"), hosted.use_app():
            pass
        return len(tried)

    assert use() == 1
    shifted.advance(START_RETRY_INTERVAL.total_seconds() / 2)
    machine.behind += timedelta(hours=1)
    assert use() == 1
    assert hosted.starts_at is not None
    assert START_RETRY_INTERVAL / 3 < hosted.starts_at - clock.now() <= START_RETRY_INTERVAL / 2
    shifted.advance(START_RETRY_INTERVAL.total_seconds())
    assert use() == 2


def test_payloads_of_an_unknown_workspace_do_nothing(make_hosting: Callable[..., Hosting]) -> None:
    """They are acknowledged, so Slack does not send them again."""
    hosting = make_hosting()
    hosting.start()
    hosting.install(TWO)
    one = hosting.workspace(ONE)
    sent: Any = one.person("ana").command(SUPPORT, "/approvals list")
    assert sent.wait() == "acked"
    one.ask("nobody is there")
    assert httpx2.get(f"{hosting.url}/w/{ONE}/v1/calls", trust_env=False).status_code == 404
    ask_and_finish(hosting.workspace(TWO), "next door")
    assert not one.folder.exists()
    assert not [
        each for each in list_methods(hosting, ONE) if not each.startswith(("oauth", "apps"))
    ]


def test_a_workspace_whose_folder_was_deleted_starts_anew(hosting: Hosting) -> None:
    """An operator deleted the folder while the app was stopped."""
    one = hosting.workspace(ONE)
    ask_and_finish(one, "before")
    one.stop_app()
    shutil.rmtree(one.folder)
    ask_and_finish(one, "after")


def test_health_of_the_process_depends_on_its_record_of_installations(
    hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the record it is neither alive nor ready."""
    paths = ("/healthz", "/readyz")
    found = [httpx2.get(hosting.url + each, trust_env=False) for each in paths]
    assert [each.status_code for each in found] == [200, 200]

    def fail() -> None:
        raise OSError("the disk is away")

    assert hosting.host is not None
    monkeypatch.setattr(hosting.host.record, "list", fail)
    found = [httpx2.get(hosting.url + each, trust_env=False) for each in paths]
    assert [each.status_code for each in found] == [503, 503]
    assert found[1].text.startswith("not ready\nloop: ok\nrecord of installations: cannot be read")
