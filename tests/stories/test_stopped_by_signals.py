"""Commands that serve stop at the first signal, even if something hangs."""

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

# waits in SQLite for a locked database longer than a stop may take, again and again
BLOCKED_SCRIPT = """
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

# the system delivers the signal to another thread than the one that waits
OTHER_THREAD_SCRIPT = """
import signal, sys, threading
from bot.signals import wait_for_end
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
take = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
threading.Timer(0.3, take).start()
wait_for_end(threading.Event(), lambda: None)
"""


CLOSED_OUTPUT_SCRIPT = """
from countersign.cli.process import begin_shutdown, exit_if_stopping
begin_shutdown()
exit_if_stopping(0)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server | None]:
    """A PostgreSQL server, where it is installed."""
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
def test_every_command_stops_in_time(
    seeds: range, server: Server | None, subtests: pytest.Subtests
) -> None:
    """Signalled one to ten times at random moments, while something hangs.

    Nothing that was acknowledged to Slack is lost. `python -m tests.proof.stops` makes 500 stops.
    """
    for seed in seeds:
        if server is not None:
            server.fresh("stops")
        with subtests.test(seed=seed), TemporaryDirectory(dir="/tmp") as folder:
            assert not stopped_at_random(Path(folder), seed, server).wrong


def test_a_signal_delivered_to_another_thread_stops_the_bot() -> None:
    """It does not wake the main thread, which waits for the end."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", OTHER_THREAD_SCRIPT], env=environ, timeout=20, check=False
    )
    assert done.returncode == 7


@pytest.mark.long
def test_a_stop_is_in_time_though_the_main_thread_is_blocked(tmp_path: Path) -> None:
    """It is inside SQLite at the signal, and again while it is stopping."""
    path = tmp_path / "held.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with subprocess.Popen(
            [sys.executable, "-c", BLOCKED_SCRIPT, str(path)],
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


def test_a_stop_without_standard_output_ends_well() -> None:
    """It was closed before the start, as with `countersign run >&-`."""
    words = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", CLOSED_OUTPUT_SCRIPT]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environ, capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
