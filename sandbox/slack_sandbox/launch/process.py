"""The app as a process: it writes where the sandbox writes, and neither outlives the other."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from slack_sandbox.launch.environment import LaunchError

STOP_TIMEOUT_SECONDS = 5.0  # for the app to end after SIGTERM


def run_app(command: str, environ: Mapping[str, str]) -> int:
    """Run `command` (split into words as by a shell) to its end, and return its exit code.

    If a signal ended it, that is 128 plus the signal's number. An interrupt ends the app with all
    that it started. Raises LaunchError if the program cannot be started.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise LaunchError(f"--run {command}: {error}") from None
    if not words:
        raise LaunchError("--run: there is no command in it")
    try:
        process = subprocess.Popen(  # noqa: S603  it is what the person typed
            words, env=dict(environ), stdin=subprocess.DEVNULL, process_group=0
        )
    except OSError as error:
        raise LaunchError(f"{words[0]} cannot be started: {error.strerror}") from None
    try:
        code = process.wait()
    finally:
        _end(process)
    return code if code >= 0 else 128 - code


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the app and all of its group, kindly first."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
