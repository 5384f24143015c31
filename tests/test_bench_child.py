"""The bot that is measured is the one that people install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench import installed


@pytest.mark.long
def test_a_measured_bot_finds_no_more_than_its_own_packages() -> None:
    """What comes with the extras and for the tests is not there for it; what it needs is."""
    names = set(installed.others())
    assert {"pytest", "aiohttp"} <= names
    assert names.isdisjoint({"bot", "openai", "pydantic", "slack_bolt", "sqlalchemy", "holidays"})
    looking = "import bench.child, aiohttp"
    command = [sys.executable, "-c", looking, "--without", *names]
    ended = subprocess.run(command, cwd=installed.PROJECT.parent, capture_output=True, text=True)
    assert ended.stderr.splitlines()[-1].startswith("ModuleNotFoundError: import of aiohttp")
