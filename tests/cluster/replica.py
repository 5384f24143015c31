"""One replica: the bot as a process, which can be killed, frozen, ended and restarted."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from bot.app import build
from bot.config.environment import remove_variables_slack_misreads
from bot.config.settings import Settings
from bot.config.startup import read_settings_and_policy
from bot.policy.evaluation import Policy

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "__main__",
        "bot.cli.service",
        "bot.app",
        "bot.agent.planner",
        "bot.replicas.replicas",
        "httpcore2",
        "storage.postgres",
        "tests.stories.crash_tools",
    ]
)


class WrongClock:
    """A machine's clock that is wrong by so much."""

    def __init__(self, by: timedelta) -> None:
        self._by = by

    def now(self) -> datetime:
        return datetime.now(UTC) + self._by


def begin_process(environ: dict[str, str], log: str) -> tuple[Settings, Policy]:
    """Use these variables and this log from now on; return the settings and the policy."""
    os.environ.clear()
    os.environ.update(environ)
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    faulthandler.register(signal.SIGUSR1)  # writes the stack of every thread into the log
    logging.basicConfig(format="%(asctime)s %(threadName)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("countersign").setLevel(logging.INFO)
    logging.getLogger("countersign.audit").setLevel(logging.WARNING)
    # over HTTP if there is no token for Socket Mode
    settings, policy = read_settings_and_policy(os.environ, transport=None)
    remove_variables_slack_misreads(os.environ, settings.slack_api_url)
    return settings, policy


def _run(environ: dict[str, str], log: str, ahead: float) -> None:
    """Run `countersign run` on a machine whose clock is so many seconds ahead."""
    settings, policy = begin_process(environ, log)
    app = build(settings, WrongClock(timedelta(seconds=ahead)), policy)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        app.start()
        app.wait()
    finally:
        app.stop()


class Replica:
    """One process; its number is that of its log."""

    body = staticmethod(_run)

    def __init__(self, number: int, folder: Path, environ: dict[str, str]) -> None:
        self.number, self._log, self.environ = number, folder / f"log-{number}", environ
        self.ahead = 0.0  # seconds by which its machine's clock is wrong
        self._process: BaseProcess | None = None

    def start(self) -> None:
        """Start it; it is connected some moments later."""
        self._process = FORKS.Process(
            target=self.body, args=(self.environ, str(self._log), self.ahead)
        )
        self._process.start()

    @property
    def lives(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """What it ended with; None while it runs."""
        return self._process.exitcode if self._process is not None else None

    def kill(self) -> None:
        """Kill it at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.join(10)
            self._process = None

    def end(self) -> None:
        """End it in order, as a deployment does."""
        assert self._process is not None
        self._process.terminate()
        self._process.join(30)
        assert self._process.exitcode == 0, self.log()[-3000:]
        self._process = None

    def freeze(self) -> None:
        """Stop it in the middle of its work."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on as if nothing had happened."""
        self._signal(signal.SIGCONT)

    def threads(self) -> str:
        """Its log, with the stacks of its threads."""
        if self.lives:
            self._signal(signal.SIGUSR1)
            threading.Event().wait(1)
        return self.log()[-9000:]

    def list_lines_with_traceback(self) -> list[str]:
        """The lines of the bot's own log that a traceback follows."""
        lines = pairwise(self.log().splitlines())
        found = [line for line, after in lines if after.startswith("Traceback")]
        return [each for each in found if " countersign" in each]

    def log(self) -> str:
        """What it has written."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    def _signal(self, what: signal.Signals) -> None:
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, what)
