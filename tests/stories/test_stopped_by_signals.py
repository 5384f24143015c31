"""What serves ends at the first signal, whatever hangs, and however often it is told."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.postgres_server import Server, binaries, serve
from tests.proof.stops.lives import LONGEST, stopped_at_random
from tests.stories.typist import ROOT

# ends in the library for longer than a stop may take, as a locked database does, and hangs again
HELD = """
import os, signal, sqlite3, sys, threading
from countersign.cli.process import exit_if_stopping, install_stop_handlers
install_stop_handlers()
base = sqlite3.connect(sys.argv[1], timeout=9, isolation_level=None)
def strike():
    print("struck", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Timer(1, strike).start()
def hang():
    for _ in range(5):
        try:
            base.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            pass
while True:
    try:
        hang()
        break
    except KeyboardInterrupt:
        pass
exit_if_stopping(0)
"""

# a signal that the system gives to another thread than the one that waits
TAKEN = """
import signal, sys, threading
from bot.signals import wait_for_end
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
take = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
threading.Timer(0.3, take).start()
wait_for_end(threading.Event())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server | None]:
    """What replicas share, where it is installed."""
    programs = binaries()
    if programs is None:
        yield None
        return
    with serve(programs) as found:
        yield found


@pytest.mark.socket
@pytest.mark.parametrize(
    "seeds",
    [range(3), pytest.param(range(3, 23), marks=pytest.mark.long)],
    ids=["a few", "more"],
)
def test_no_stop_takes_longer(
    seeds: range, server: Server | None, subtests: pytest.Subtests
) -> None:
    """Signalled one to ten times at any moment, while something hangs, each command ends in time.

    What Slack was told is stored, is stored. `python -m tests.proof.stops` makes five hundred.
    """
    for seed in seeds:
        if server is not None:
            server.fresh("stops")
        with subtests.test(seed=seed), TemporaryDirectory(dir="/tmp") as folder:
            assert not stopped_at_random(Path(folder), seed, server).wrong


def test_a_signal_that_another_thread_is_given() -> None:
    """It ends the bot in order, though it does not wake the thread that waits for it."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", TAKEN], env=environ, timeout=20, check=False)
    assert done.returncode == 7


@pytest.mark.long
def test_the_time_runs_from_the_signal(tmp_path: Path) -> None:
    """Also where the main thread is inside of a library then, and again while it is stopping."""
    path = tmp_path / "held.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with subprocess.Popen(
            [sys.executable, "-c", HELD, str(path)],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "struck\n"
            begun = time.monotonic()
            process.communicate(timeout=60)
            assert time.monotonic() - begun < LONGEST
            assert process.returncode != 0
