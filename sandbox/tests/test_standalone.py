"""`countersign sandbox` as a process: it prints an app's variables, and a mistake as one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from countersign.cli.commands import main
from slack_sandbox.server import Sandbox
from slack_sandbox.standalone import environment

ROOT = Path(__file__).parents[2]
PATIENCE = 30  # seconds
TINY = {
    "features": {"bot_user": {"display_name": "tiny"}},
    "oauth_config": {"scopes": {"bot": ["chat:write"]}},
}


@contextmanager
def start_sandbox_process(*argv: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a process of its own; killed if it runs too long."""
    command = [sys.executable, "-m", "bot", "sandbox", "--port", "0", *argv]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def read_printed_values(process: subprocess.Popen[str]) -> tuple[str, list[dict[str, str]]]:
    """Return the page's address and each app's variables, also those behind a #."""
    assert process.stdout is not None
    address, apps = process.stdout.readline().rstrip().rsplit(" ", 1)[1], []
    while not (line := process.stdout.readline()).startswith("Ctrl-C"):
        if line == "":
            raise AssertionError(f"it ended: {process.stderr and process.stderr.read()}")
        if line.endswith(("Socket Mode\n", "signed HTTP\n")):
            apps.append({"way": line.split(", ")[1].strip()})
        elif "=" in line:
            name, _, value = line.removeprefix("# ").rstrip().partition("=")
            apps[-1][name] = value
    return address, apps


def test_two_manifests_make_two_apps(tmp_path: Path) -> None:
    """Two manifests make two apps whose tokens work as printed; Ctrl-C ends it with 0.

    One is YAML, one JSON.
    """
    other = tmp_path / "tiny.json"
    other.write_text(
        json.dumps(
            TINY | {"settings": {"event_subscriptions": {"request_url": "http://127.0.0.1:9/"}}}
        )
    )
    with start_sandbox_process(
        "--manifest", str(ROOT / "manifest.yml"), "--manifest", str(other), "--rate-limits"
    ) as process:
        page, apps = read_printed_values(process)
        assert [app["way"] for app in apps] == ["Socket Mode", "signed HTTP"]
        for app in apps:
            assert app["SLACK_API_URL"] == f"{page}/api/"
            assert len({value for value in app.values() if value}) == 7
        with urlopen(page) as answer:
            assert answer.status == 200
        first, second = (
            WebClient(app["SLACK_BOT_TOKEN"], base_url=app["SLACK_API_URL"]) for app in apps
        )
        assert (first.auth_test()["user"], second.auth_test()["user"]) == ("countersign", "tiny")
        assert second.chat_postMessage(channel="C0RANDOM", text="in every public channel")["ok"]
        assert first.apps_connections_open(app_token=apps[0]["SLACK_APP_TOKEN"])["ok"]
        many = (
            second.chat_postMessage(channel="C0RANDOM", text=f"number {number}")
            for number in range(10)
        )
        with pytest.raises(SlackApiError) as refused:
            list(many)
        assert refused.value.response.status_code == 429
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")


def test_the_apps_of_a_seed_have_its_secrets() -> None:
    """The apps of a seed file are there with the secrets it gives them."""
    with start_sandbox_process("--seed", str(ROOT / "docs" / "sandbox-seed.toml")) as process:
        _, [app] = read_printed_values(process)
        assert (app["SLACK_BOT_TOKEN"], app["SLACK_SIGNING_SECRET"]) == (
            "xoxb-bookshop",
            "a-secret-of-the-bookshop",
        )
        assert WebClient(app["SLACK_BOT_TOKEN"], base_url=app["SLACK_API_URL"]).auth_test()["ok"]


def test_unlisted_apps_read_messages_once_a_minute() -> None:
    """With --unlisted a second look within the minute is refused."""
    with start_sandbox_process("--unlisted") as process:
        _, [app] = read_printed_values(process)
        client = WebClient(app["SLACK_BOT_TOKEN"], base_url=app["SLACK_API_URL"])
        assert client.conversations_history(channel="C0RANDOM")["ok"]
        with pytest.raises(SlackApiError) as refused:
            client.conversations_history(channel="C0RANDOM")
        assert refused.value.response.status_code == 429


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.yml", "features: [", "a.yml: while parsing"),
        ("a.json", "{", "a.json: Expecting property name"),
        ("a.yml", "just words", "a.yml: a manifest is a mapping"),
        (
            "a.yml",
            "oauth_config: {scopes: {bot: chat:write}}",
            "a.yml: oauth_config.scopes.bot: Input should be a valid list",
        ),
        (
            "a.yml",
            "settings: {socket_mode_enabled: 'yes'}",
            "a.yml: settings.socket_mode_enabled: Input should be",
        ),
        (
            "a.yml",
            "features: {shortcuts: [{name: A}]}",
            "a.yml: features.shortcuts[1].type: Field required (and 2 more)",
        ),
        (
            "a.yml",
            "settings: {event_subscriptions: {request_url: nowhere}}",
            "a.yml: settings.event_subscriptions.request_url: String should match pattern",
        ),
    ],
)
def test_a_malformed_manifest_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    """A malformed manifest is refused in one line that says where."""
    (tmp_path / name).write_text(text)
    assert main(["sandbox", "--port", "0", "--manifest", str(tmp_path / name)]) == 1
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_missing_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing manifest and a missing seed are named."""
    for option in ("--manifest", "--seed"):
        assert main(["sandbox", "--port", "0", option, str(tmp_path / "gone")]) == 1
        assert capsys.readouterr().err == f"{tmp_path / 'gone'}: No such file or directory\n"


def test_the_command_makes_several_workspaces(capsys: pytest.CaptureFixture[str]) -> None:
    """--workspaces and --org make them, and say where they are; a seed file describes only one."""
    with start_sandbox_process("--workspaces", "2", "--org") as process:
        assert process.stdout is not None
        page = process.stdout.readline().rsplit(" ", 1)[1].strip()
        assert process.stdout.readline() == f"Sandbox Tea: {page}/?team=T0SANDBOXB\n"
        client = WebClient("xoxb-sandbox-bot", base_url=f"{page}/api/")
        assert client.auth_test()["enterprise_id"] == "E0SANDBOX"
    seed = str(ROOT / "docs" / "sandbox-seed.toml")
    assert main(["sandbox", "--port", "0", "--seed", seed, "--workspaces", "2"]) == 1
    assert capsys.readouterr().err.startswith("a seed file describes one workspace")


def test_unknown_scopes_and_events_cause_a_warning(tmp_path: Path) -> None:
    """The sandbox starts all the same."""
    odd = {"oauth_config": {"scopes": {"bot": ["chat:write", "tea:make"]}}}
    odd["settings"] = {"event_subscriptions": {"bot_events": ["app_mention", "tea_ready"]}}
    (tmp_path / "odd.json").write_text(json.dumps(odd))
    with start_sandbox_process("--manifest", str(tmp_path / "odd.json")) as process:
        read_printed_values(process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert err.splitlines() == [
        "the sandbox has no use for the scope tea:make",
        "the sandbox never sends the event tea_ready",
    ]


@pytest.mark.parametrize(("socket_mode", "mark"), [(True, "# "), (False, "")])
def test_only_oauth_apps_over_http_get_a_client_id(socket_mode: bool, mark: str) -> None:
    """Only an app that OAuth installs over HTTP has its client id without a #.

    Bolt ignores the token beside one.
    """
    url = "http://127.0.0.1:9/"
    settings = {"socket_mode_enabled": socket_mode, "event_subscriptions": {"request_url": url}}
    manifest = {"oauth_config": {"redirect_urls": [url]}, "settings": settings}
    sandbox = Sandbox(manifest)
    lines = environment(sandbox, sandbox.world.app)
    assert f"{mark}SLACK_CLIENT_ID={sandbox.world.app.client_id}" in lines
