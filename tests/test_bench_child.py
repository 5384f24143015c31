"""The benchmark measures the bot as people install it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench import installed


@pytest.mark.long
def test_a_measured_bot_imports_only_packages_it_needs() -> None:
    """Packages of extras and of the tests are hidden; those it needs are not."""
    names = set(installed.find_other_modules())
    assert {"pytest", "aiohttp"} <= names
    assert names.isdisjoint({"bot", "openai", "pydantic", "slack_bolt", "sqlalchemy", "holidays"})
    looking = "import bench.child, aiohttp"
    command = [sys.executable, "-c", looking, "--without", *names]
    ended = subprocess.run(command, cwd=installed.PROJECT.parent, capture_output=True, text=True)
    assert ended.stderr.splitlines()[-1].startswith("ModuleNotFoundError: import of aiohttp")
