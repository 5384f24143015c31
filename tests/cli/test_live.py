"""`countersign doctor --live`: all that the bot does at Slack, tried, told and taken away again."""

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
# each method that is tried, and the step that then fails
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
    """The variables of a first day: tokens, and nothing else."""
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
def clicks(slack: Sandbox) -> Iterator[None]:
    """Ana clicks the button as soon as it is there, and closes the dialog."""
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.wait(0.02):
            for place, ts, action in buttons(slack):
                slack.person("ana").click(place, ts, action)
                return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    yield
    is_over.set()
    thread.join()


def direct(slack: Sandbox) -> list[str]:
    """Ana's direct messages with the bot."""
    app = slack.world.app
    with slack.world.lock:
        found = [each for each in slack.world.channels.values() if each.kind == "im"]
        return [each.id for each in found if {ANA, app.bot_user} <= set(each.members)]


def buttons(slack: Sandbox) -> list[tuple[str, str, str]]:
    """Where there is a button to click."""
    return [
        (place, message["ts"], block["elements"][0]["action_id"])
        for place in direct(slack)
        for message in slack.person("ana").messages(place)
        for block in message.get("blocks") or []
        if block["type"] == "actions"
    ]


def left(slack: Sandbox) -> list[object]:
    """What is still there of what was tried: messages, files, statuses."""
    found: list[object] = [
        message["ts"]
        for place in direct(slack)
        for message in slack.person("ana").messages(place)
        if message.get("subtype") != "tombstone"
    ]
    found += [each for each in slack.world.files.values() if each.completed and not each.deleted]
    return [*found, *slack.world.statuses]


def tried(report: str) -> dict[str, str]:
    """What came of each step, as the report says; of the first of its name."""
    rows = [each.split(" | ") for each in report.splitlines() if each.startswith("| ")]
    found: dict[str, str] = {}
    for row in rows[1:]:
        found.setdefault(row[0].removeprefix("| "), row[2])
    return found


def test_all_of_it_is_tried_and_taken_away(
    slack: Sandbox, environ: dict[str, str], clicks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a person who clicks every step goes well, nothing is left, the report names nobody."""
    assert main(["doctor", "--live", "@ana"]) == 0
    report = capsys.readouterr().out
    found = tried(report)
    assert set(METHODS.values()) <= found.keys()
    assert {CHECK, "acknowledge it (from its arrival)", "connect by Socket Mode"} <= found.keys()
    assert set(found.values()) == {"ok"}
    assert left(slack) == []
    assert report.startswith("## Countersign, tried live\n\n- Countersign 0.1.0 (commit ")
    private = [*environ.values(), ANA, "ana", slack.team_id, slack.world.app.id, *direct(slack)]
    assert [each for each in private if each in report] == []


@pytest.mark.parametrize("method", METHODS)
def test_a_step_that_fails_is_told_and_the_rest_goes_on(
    slack: Sandbox,
    environ: dict[str, str],
    clicks: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
) -> None:
    """Whatever Slack refuses once, the rest is tried, all is cleared, and the exit code is 1."""
    monkeypatch.setattr(live_check, "WAIT_SECONDS", 5.0)
    slack.faults.fail(method, "fatal_error")
    assert main(["doctor", "--live", ANA]) == 1
    found = tried(capsys.readouterr().out)
    assert found[METHODS[method]] == "fatal_error"
    others = {step for step, result in found.items() if result == "ok"}
    if method != "conversations.open":
        assert {"publish Home", CHECK, "upload a file"} - others <= {METHODS[method]}
    assert left(slack) == []


def test_an_app_that_may_read_once_a_minute(
    slack: Sandbox, environ: dict[str, str], clicks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads the direct messages once and their thread once: all goes well, nothing is left."""
    slack.world.app.is_unlisted = True
    assert main(["doctor", "--live", ANA]) == 0
    assert set(tried(capsys.readouterr().out).values()) == {"ok"}
    assert left(slack) == []


@pytest.mark.long
def test_reading_that_has_to_wait(
    slack: Sandbox, environ: dict[str, str], clicks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how long Slack lets it wait, waits where something is left, and deletes that."""
    slack.faults.rate_limit("conversations.replies", retry_after=1)
    assert main(["doctor", "--live", ANA]) == 1
    said = capsys.readouterr()
    limited = "ratelimited (Slack allows it again in 1 s)"
    assert tried(said.out)["find what was created"] == limited
    assert "cant_delete_message" not in said.out
    assert "the rest is deleted in 1 s" in said.err
    assert left(slack) == []


@pytest.mark.parametrize(
    "method",
    ["chat.postMessage", "chat.startStream", "files.completeUploadExternal", "views.publish"],
)
def test_what_was_made_though_no_answer_came_is_taken_away(
    slack: Sandbox,
    environ: dict[str, str],
    clicks: None,
    capsys: pytest.CaptureFixture[str],
    method: str,
) -> None:
    """A message, stream or file whose answer was lost is found by what marks it, and deleted."""
    slack.faults.drop(method, when="after")
    assert main(["doctor", "--live", ANA]) == 1
    found = tried(capsys.readouterr().out)
    assert found[METHODS[method]] not in ("ok", "")
    assert left(slack) == []


def test_it_goes_on_where_nobody_clicks(
    slack: Sandbox,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the time-out it goes on, and says that no click came."""
    monkeypatch.setattr(live_check, "WAIT_SECONDS", 0.2)
    assert main(["doctor", "--live", ANA]) == 1
    assert tried(capsys.readouterr().out)[CHECK].startswith("no click within")
    assert left(slack) == []


def test_a_scope_that_is_missing_is_named(
    slack: Sandbox, environ: dict[str, str], clicks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which one it takes stands beside the code."""
    app = slack.world.app
    app.granted = app.scopes - {"reactions:write"}
    assert main(["doctor", "--live", ANA]) == 1
    assert tried(capsys.readouterr().out)["react to it"] == "missing_scope (needs reactions:write)"


def test_without_an_app_token_the_click_is_left_out(
    slack: Sandbox,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over signed HTTP clicks go elsewhere; all else is tried."""
    monkeypatch.delenv("SLACK_APP_TOKEN")
    assert main(["doctor", "--live", ANA]) == 1
    said = capsys.readouterr().out
    assert tried(said)[CHECK] == "left out: SLACK_APP_TOKEN is not set"
    assert "not connected by Socket Mode" in said
    assert left(slack) == []


@pytest.mark.parametrize(
    ("who", "said"),
    [
        ("@nobody-of-that-name", "@nobody-of-that-name is nobody; give an id."),
        ("@me", "@me is the person in COUNTERSIGN_OPERATOR; set it, or give an id."),
        ("ana@x", "--live takes @name or a user id"),
        ("", "--live takes @name or a user id"),
    ],
)
def test_who_cannot_be_found_is_said(
    slack: Sandbox,
    environ: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    who: str,
    said: str,
) -> None:
    """Then nothing is tried, and the exit code is that of misuse."""
    assert main(["doctor", "--live", who]) == 2
    assert said in capsys.readouterr().err
    assert direct(slack) == [] or left(slack) == []


def test_me_is_the_operator(
    slack: Sandbox,
    environ: dict[str, str],
    clicks: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`@me` is whoever the settings name."""
    monkeypatch.setenv("COUNTERSIGN_OPERATOR", ANA)
    assert main(["doctor", "--live", "@me"]) == 0
    assert tried(capsys.readouterr().out)[CHECK] == "ok"


@pytest.mark.socket
def test_a_bot_beside_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A click may go to the bot that runs: that is said before anybody is asked to click."""
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
    """Ctrl-C while it waits for the click: all is cleared, and the report is printed."""
    command = [sys.executable, "-m", "bot", "doctor", "--live", ANA]
    here = {**os.environ, **environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        command, env=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    slack.wait(lambda: bool(buttons(slack)), timeout=30)
    process.send_signal(ends)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "It was interrupted; what it had created was deleted." in out
    assert left(slack) == []


def test_it_goes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """It does not go with `--init`."""
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--live", "@me", "--init"])
    assert ended.value.code == 2
    assert "--live takes no other options" in capsys.readouterr().err
