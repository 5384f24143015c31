"""A program started in the environment of an app of the sandbox."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from slack_sandbox.launch.environment import app_environment
from slack_sandbox.server import Sandbox
from slack_sandbox.standalone import variables

PATIENCE = 30  # seconds
Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def start(sandbox: Sandbox, tmp_path: Path) -> Start:
    """Runs a command to its end as an app of the sandbox would run, in a folder of its own."""

    def run(
        *command: str, allowed: Sequence[str] = (), **more: str
    ) -> subprocess.CompletedProcess[str]:
        inherited = {"PATH": os.environ["PATH"], **more}
        environ = app_environment(inherited, variables(sandbox, sandbox.world.app), allowed)
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    return run
