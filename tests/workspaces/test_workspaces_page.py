"""The commands in docs/workspaces.md, and the app that it describes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from bot.workspaces.install_pages import INSTALL_PATH, REDIRECT_PATH
from tests.pages import ROOT, blocks_in, section
from tests.stories.over_http import free_port
from tests.test_manifest import fixture
from tests.workspaces.installing import build_manifest

PAGE = ROOT / "docs" / "workspaces.md"
MAX_WAIT = 60  # seconds


def test_the_manifest_of_the_page_has_what_many_workspaces_need() -> None:
    """The redirect URL, and events of removal and access. It fits Slack's schema."""
    jsonschema = pytest.importorskip("jsonschema")
    manifest = build_manifest("https://approve.example.com")
    assert manifest["oauth_config"]["redirect_urls"] == [
        f"https://approve.example.com{REDIRECT_PATH}"
    ]
    events = set(manifest["settings"]["event_subscriptions"]["bot_events"])
    assert events >= {"app_uninstalled", "tokens_revoked"}
    assert events >= {"team_access_granted", "team_access_revoked"}
    validator = jsonschema.Draft7Validator(fixture("manifest.schema.2.0.0.json"))
    assert [each.message for each in validator.iter_errors(manifest)] == []


@contextmanager
def run_script(script: str, folder: Path, **given: str) -> Iterator[subprocess.Popen[str]]:
    """Run these lines in a shell in the folder; it is ended with what it started."""
    environ = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(str(ROOT / each) for each in ("", "client", "sandbox")),
        **given,
    }
    # the last command replaces the shell, so that ending the process ends the command
    lines = re.sub(r"\n(countersign .*)\n$", r"\nexec \1\n", script)
    with subprocess.Popen(["sh", "-euc", lines], cwd=folder, env=environ, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def wait_for_page(url: str, process: subprocess.Popen[str]) -> httpx2.Response:
    """Get a page as soon as somebody listens."""
    until = time.monotonic() + MAX_WAIT
    while time.monotonic() < until and process.poll() is None:
        try:
            return httpx2.get(url, trust_env=False)
        except httpx2.TransportError:
            continue
    raise AssertionError(f"nobody listens at {url}")


@pytest.mark.long
def test_the_page_can_be_tried_without_slack(tmp_path: Path) -> None:
    """The commands of both terminals work, and the bot is installed in a workspace."""
    (tmp_path / "manifest.yml").write_text((ROOT / "manifest.yml").read_text("utf-8"), "utf-8")
    slack_port, port = free_port(), free_port()
    slack, bot = (
        each.replace("8765", str(slack_port)).replace("8080", str(port))
        for each in blocks_in(section(PAGE, "Try it without Slack"), "sh")
    )
    url = f"http://localhost:{port}"
    with run_script(slack, tmp_path) as sandbox:
        wait_for_page(f"http://127.0.0.1:{slack_port}/", sandbox)
        # the page's bot listens at the usual port, which may be taken here
        at = {"COUNTERSIGN_HTTP": f"127.0.0.1:{port}"}
        with run_script(bot, tmp_path, **at) as process, httpx2.Client(trust_env=False) as ana:
            wait_for_page(url + INSTALL_PATH, process)
            left = ana.post(url + INSTALL_PATH, headers={"Origin": url})
            consent = left.headers["refresh"].removeprefix("0;url=")
            back = ana.post(consent, data={"as": "T0SANDBOXB/ana", "decision": "allow"})
            assert "Countersign is now in Sandbox Tea" in ana.get(back.headers["location"]).text
