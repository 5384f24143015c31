"""What docs/sandbox.md says to whoever brings an app: seed, workspace, pytest, pointing clients."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.request import urlopen

import pytest

from bot.sandbox.server import Sandbox
from tests.pages import ROOT, blocks, section

PAGE = ROOT / "docs" / "sandbox.md"
PATIENCE = 30  # seconds
SHIM, APP, CONFTEST, TESTS = range(4)  # which of the page's Python blocks is which


def test_the_seed_file_of_the_page_works(tmp_path: Path) -> None:
    """The command with the example's seed file starts, with the people and the app it names."""
    options = blocks(PAGE, "sh")[1].split()[1:]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "bot", *options, "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            with urlopen(f"{address}/sandbox/people") as answer:
                names = {person["name"] for person in json.load(answer)}
        finally:
            process.kill()
    seed = tomllib.loads((ROOT / "docs" / "sandbox-seed.toml").read_text("utf-8"))
    assert {person["name"] for person in seed["people"]} < names


def test_the_default_workspace_is_told() -> None:
    """The people, channels and groups that the page names are all of the default workspace's."""
    text = section(PAGE, "Workspace and manifests").partition("\n\n")[0]
    world = Sandbox().world
    ids = {each.id for each in world.channels.values()}
    groups = {f"@{each.handle}" for each in world.groups.values()}
    assert set(re.findall(r"`([^`]+)`", text)) == set(world.people) | ids | groups


def test_the_pytest_example_passes(tmp_path: Path) -> None:
    """The page's conftest.py, tests and app are a project of their own whose tests pass."""
    python = blocks(PAGE, "python")
    for name, code in {
        "coffee.py": python[APP],
        "conftest.py": python[CONFTEST],
        "test_coffee.py": python[TESTS],
    }.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "manifest.yml").write_text(blocks(PAGE, "yaml")[0])
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=PATIENCE
    )
    assert "1 passed" in ended.stdout, ended.stdout + ended.stderr


def test_pointing_python_from_outside(tmp_path: Path) -> None:
    """With the page's sitecustomize.py both clients call the local Slack unless told otherwise."""
    (tmp_path / "sitecustomize.py").write_text(blocks(PAGE, "python")[SHIM])
    lines = "from slack_sdk import WebClient as C\n"
    lines += "from slack_sdk.web.async_client import AsyncWebClient as A\n"
    lines += "print(C('x').base_url, A(token='x').base_url, C(base_url='http://other/').base_url)"
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path),
        "SLACK_API_URL": "http://local/api/",
    }
    ended = subprocess.run(
        [sys.executable, "-c", lines], env=environ, capture_output=True, text=True, timeout=PATIENCE
    )
    assert ended.stdout.split() == ["http://local/api/", "http://local/api/", "http://other/"], (
        ended.stderr
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_pointing_node_from_outside(tmp_path: Path) -> None:
    """With the page's local-slack.cjs a client that is told no address takes the local one."""
    package = tmp_path / "node_modules" / "@slack" / "web-api"
    package.mkdir(parents=True)
    client = (
        "class WebClient { constructor(token, { slackApiUrl = 'slack' } = {})"
        " { this.url = slackApiUrl } }"
    )
    (package / "index.js").write_text(
        client + "\nObject.defineProperty(exports, 'WebClient', { get: () => WebClient })"
    )
    (tmp_path / "local-slack.cjs").write_text(blocks(PAGE, "js")[0])
    (tmp_path / "app.js").write_text(
        "const { WebClient: C } = require('@slack/web-api')\n"
        "console.log(new C('x').url, new C('x', { slackApiUrl: 'other' }).url)"
    )
    environ = {
        "PATH": os.environ["PATH"],
        "SLACK_API_URL": "local",
        "NODE_OPTIONS": "--require ./local-slack.cjs",
    }
    ended = subprocess.run(
        ["node", "app.js"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.stdout.split() == ["local", "other"], ended.stderr
