"""What docs/sandbox.md tells authors of other apps: seed file, workspace, pytest."""

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

from tests.local_slack import build_local_slack
from tests.pages import ROOT, blocks, section

PAGE = ROOT / "docs" / "sandbox.md"
PATIENCE = 30  # seconds
WORKSPACES, CONFTEST, TESTS = range(3)  # which of the page's Python blocks is which


def test_the_seed_file_of_the_page_works(tmp_path: Path) -> None:
    """The command with the example's seed file starts with the people it names."""
    [command_line] = [code for code in blocks(PAGE, "sh") if "--seed" in code]
    options = command_line.split()[1:]
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


def test_the_page_describes_the_default_workspace() -> None:
    """All its people, channels and groups, and no others."""
    text = section(PAGE, "Workspace and manifests").partition("\n\n")[0]
    world = build_local_slack().world
    ids = {each.id for each in world.channels.values()}
    groups = {f"@{each.handle}" for each in world.groups.values()}
    assert set(re.findall(r"`([^`]+)`", text)) == set(world.people) | ids | groups


@pytest.mark.long
def test_the_pytest_examples_pass(tmp_path: Path) -> None:
    """The page's conftest.py, tests and app are a project of their own whose tests pass."""
    python = blocks(PAGE, "python")
    for name, code in {
        "conftest.py": python[CONFTEST],
        "test_coffee.py": python[TESTS],
        "test_workspaces.py": python[WORKSPACES],
    }.items():
        (tmp_path / name).write_text(code)
    shutil.copy(PAGE.with_name("coffee.py"), tmp_path)
    shutil.copy(PAGE.with_name("coffee.yml"), tmp_path / "manifest.yml")
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
    assert "2 passed" in ended.stdout, ended.stdout + ended.stderr
