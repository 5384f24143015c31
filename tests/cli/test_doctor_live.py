"""`countersign doctor --live`, which tries all that the bot does in Slack and cleans up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.cli.doctor import live_check
from countersign.cli.commands import main
from slack_sandbox.server import Sandbox
from tests.local_slack import build_local_slack
from tests.stories.harness import Harness

ANA = "UANA00001"
CHECK = "wait for a click"
# the methods that are tried, and the step that fails with each
METHODS = {
    "conversations.open": "open the direct messages",
    "chat.postMessage": "post a message",
    "conversations.history": "find it by its metadata",
    "chat.update": "change it",
    "reactions.add": "react to it",
    "reactions.remove": "remove the reaction",
    "assistant.threads.setStatus": "show a status",
    "agents.sessions.setStatus": "start a session",
    "chat.startStream": "start a stream",
    "chat.appendStream": "continue it",
    "chat.stopStream": "end it",
    "files.getUploadURLExternal": "upload a file",
    "files.completeUploadExternal": "upload a file",
    "views.publish": "publish Home",
    "views.open": "open a dialog",
    "views.update": "change the dialog",
    "conversations.replies": "find what was created",
    "files.delete": "delete the file",
    "chat.delete": "delete a message",
}


@pytest.fixture
def slack() -> Iterator[Sandbox]:
    """A fresh local Slack."""
    with build_local_slack() as server:
        yield server


@pytest.fixture
def environ(slack: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a first day: only tokens."""
    given = {
        "SLACK_BOT_TOKEN": slack.bot_token,
        "SLACK_APP_TOKEN": slack.app_token,
        "SLACK_API_URL": slack.api_url,
    }
    for name in ("COUNTERSIGN_POLICY", "DATABASE_URL", "COUNTERSIGN_OPERATOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return given


@pytest.fixture
def clicking_person(slack: Sandbox) -> Iterator[None]:
    """Ana, who clicks the button as soon as it is there."""
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.wait(0.02):
            for place, ts, action in list_buttons(slack):
                slack.person("ana").click(place, ts, action)
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    yield
    is_over.set()
    thread.join()


def list_direct_messages(slack: Sandbox) -> list[str]:
    """List Ana's direct-message channels with the bot."""
    app = slack.world.app
    with slack.world.lock:
        found = [each for each in slack.world.channels.values() if each.kind == "im"]
        return [each.id for each in found if {ANA, app.bot_user} <= set(each.members)]


def list_buttons(slack: Sandbox) -> list[tuple[str, str, str]]:
    """List the buttons that can be clicked."""
    return [
        (place, message["ts"], block["elements"][0]["action_id"])
        for place in list_direct_messages(slack)
        for message in slack.person("ana").messages(place)
        for block in message.get("blocks") or []
        if block["type"] == "actions"
    ]


def list_leftovers(slack: Sandbox) -> list[object]:
    """List messages, files and statuses that have not been removed."""
    found: list[object] = [
        message["ts"]
        for place in list_direct_messages(slack)
        for message in slack.person("ana").messages(place)
        if message.get("subtype") != "tombstone"
    ]
    found += [each for each in slack.world.files.values() if each.completed and not each.deleted]
    return [*found, *slack.world.statuses]


def read_results(report: str) -> dict[str, str]:
    """Read the result of each step from the report; of two with one name, the first."""
    rows = [each.split(" | ") for each in report.splitlines() if each.startswith("| ")]
    found: dict[str, str] = {}
    for row in rows[1:]:
        found.setdefault(row[0].removeprefix("| "), row[2])
    return found


def test_all_steps_are_tried_and_cleaned_up(
    slack: Sandbox,
    environ: dict[str, str],
    clicking_person: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a person who clicks, all succeed. The report names nobody."""
    assert main(["doctor", "--live", "@ana"]) == 0
    report = capsys.readouterr().out
    found = read_results(report)
    assert set(METHODS.values()) <= found.keys()
    assert {CHECK, "acknowledge it (from its arrival)", "connect by Socket Mode"} <= found.keys()
    assert set(found.values()) == {"ok"}
    assert list_leftovers(slack) == []
    assert report.startswith("## Countersign, tried live\n\n- Countersign 0.1.0 (commit ")
    private = [
        *environ.values(),
        ANA,
        "ana",
        slack.team_id,
        slack.world.app.id,
        *list_direct_messages(slack),
    ]
    assert [each for each in private if each in report] == []


@pytest.mark.parametrize("method", METHODS)
def test_a_step_that_fails_is_reported_and_the_others_go_on(
    slack: Sandbox,
    environ: dict[str, str],
    clicking_person: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    """Everything is cleaned up, and the exit code is 1."""
    monkeypatch.setattr(live_check, "WAIT_SECONDS", 5.0)
    slack.faults.fail(method, "fatal_error")
    assert main(["doctor", "--live", ANA]) == 1
    found = read_results(capsys.readouterr().out)
    assert found[METHODS[method]] == "fatal_error"
    others = {step for step, result in found.items() if result == "ok"}
    if method != "conversations.open":
        assert {"publish Home", CHECK, "upload a file"} - others <= {METHODS[method]}
    assert list_leftovers(slack) == []


def test_an_app_that_may_read_once_a_minute_succeeds(
    slack: Sandbox,
    environ: dict[str, str],
    clicking_person: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It reads the direct messages once, and their thread once."""
    slack.world.app.is_unlisted = True
    assert main(["doctor", "--live", ANA]) == 0
    assert set(read_results(capsys.readouterr().out).values()) == {"ok"}
    assert list_leftovers(slack) == []


@pytest.mark.long
def test_a_rate_limit_on_reading_delays_the_clean_up(
    slack: Sandbox,
    environ: dict[str, str],
    clicking_person: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The output says how long Slack makes it wait."""
    slack.faults.rate_limit("conversations.replies", retry_after=1)
    assert main(["doctor", "--live", ANA]) == 1
    said = capsys.readouterr()
    limited = "ratelimited (Slack allows it again in 1 s)"
    assert read_results(said.out)["find what was created"] == limited
    assert "cant_delete_message" not in said.out
    assert "the rest is deleted in 1 s" in said.err
    assert list_leftovers(slack) == []


@pytest.mark.parametrize(
    "method",
    ["chat.postMessage", "chat.startStream", "files.completeUploadExternal", "views.publish"],
)
def test_things_created_without_an_answer_are_cleaned_up(
    slack: Sandbox,
    environ: dict[str, str],
    clicking_person: None,
    capsys: pytest.CaptureFixture[str],
    method: str,
) -> None:
    """A message, stream or file whose answer was lost is found by its mark."""
    slack.faults.drop(method, when="after")
    assert main(["doctor", "--live", ANA]) == 1
    found = read_results(capsys.readouterr().out)
    assert found[METHODS[method]] not in ("ok", "")
    assert list_leftovers(slack) == []


def test_the_check_goes_on_if_nobody_clicks(
    slack: Sandbox,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes on after the time-out, and reports it."""
    monkeypatch.setattr(live_check, "WAIT_SECONDS", 0.2)
    assert main(["doctor", "--live", ANA]) == 1
    assert read_results(capsys.readouterr().out)[CHECK].startswith("no click within")
    assert list_leftovers(slack) == []


def test_a_missing_scope_is_named_beside_the_error(
    slack: Sandbox,
    environ: dict[str, str],
    clicking_person: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Slack's code is `missing_scope`."""
    app = slack.world.app
    app.granted = app.scopes - {"reactions:write"}
    assert main(["doctor", "--live", ANA]) == 1
    assert (
        read_results(capsys.readouterr().out)["react to it"]
        == "missing_scope (needs reactions:write)"
    )


def test_without_an_app_token_the_click_is_left_out(
    slack: Sandbox,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over signed HTTP, clicks go elsewhere. All other steps are tried."""
    monkeypatch.delenv("SLACK_APP_TOKEN")
    assert main(["doctor", "--live", ANA]) == 1
    said = capsys.readouterr().out
    assert read_results(said)[CHECK] == "left out: SLACK_APP_TOKEN is not set"
    assert "not connected by Socket Mode" in said
    assert list_leftovers(slack) == []


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ("@nobody-of-that-name", "@nobody-of-that-name is nobody; give an id."),
        ("@me", "@me is the person in COUNTERSIGN_OPERATOR; set it, or give an id."),
        ("ana@x", "--live takes @name or a user id"),
        ("", "--live takes @name or a user id"),
    ],
)
def test_an_unknown_person_to_check_with_is_an_error(
    slack: Sandbox,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    who: str,
    said: str,
) -> None:
    """Nothing is tried, and the exit code is 2."""
    assert main(["doctor", "--live", who]) == 2
    assert said in capsys.readouterr().err
    assert list_direct_messages(slack) == [] or list_leftovers(slack) == []


def test_me_is_the_operator(
    slack: Sandbox,
    environ: dict[str, str],
    clicking_person: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The settings name the operator."""
    monkeypatch.setenv("COUNTERSIGN_OPERATOR", ANA)
    assert main(["doctor", "--live", "@me"]) == 0
    assert read_results(capsys.readouterr().out)[CHECK] == "ok"


@pytest.mark.socket
def test_another_bot_of_the_same_app_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A click may go to that bot, so the warning comes before the request to click."""
    (tmp_path / "bot").mkdir()
    harness = Harness(tmp_path / "bot")
    try:
        monkeypatch.setattr(live_check, "WAIT_SECONDS", 0.2)
        monkeypatch.setenv("SLACK_BOT_TOKEN", harness.slack.bot_token)
        monkeypatch.setenv("SLACK_APP_TOKEN", harness.slack.app_token)
        monkeypatch.setenv("SLACK_API_URL", harness.slack.api_url)
        monkeypatch.chdir(tmp_path)
        main(["doctor", "--live", ANA])
        said = capsys.readouterr()
        assert "Another process is connected with this app" in said.err
        assert "beside 1 other connections of this app" in said.out
    finally:
        harness.close()


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing_behind(
    slack: Sandbox, environ: dict[str, str], ends: signal.Signals
) -> None:
    """It is interrupted while it waits for the click; the report is still printed."""
    command = [sys.executable, "-m", "bot", "doctor", "--live", ANA]
    here = {**os.environ, **environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        command, env=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    slack.wait(lambda: bool(list_buttons(slack)), timeout=30)
    process.send_signal(ends)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "It was interrupted; what it had created was deleted." in out
    assert list_leftovers(slack) == []


def test_live_takes_no_other_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Here the other option is --init."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--live", "@me", "--init"])
    assert ended.value.code == 2
    assert "--live takes no other options" in capsys.readouterr().err
