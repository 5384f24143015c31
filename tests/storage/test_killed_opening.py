"""Killed at each operation on a file of a start: the next start finds a record that it can use."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from storage.store import Store

STRACE = shutil.which("strace")
# what changes a file; how often each is done in an opening differs with SQLite's version
KINDS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "rename", "link", "write")
OPENING = "import sys; from storage.store import Store; Store(sys.argv[1]).open().close()"
# A file is switched to a log within the first writes; later ones are many, and all to the log.
NTHS = (*range(1, 17), *(int(17 * 1.3**step) for step in range(12)))

pytestmark = [
    pytest.mark.long,
    pytest.mark.file,
    pytest.mark.skipif(STRACE is None, reason="strace is not installed"),
]


def opened_and_killed(url: str, kind: str, nth: int) -> bool:
    """Open it in a process of its own, killed at the nth call of that kind; whether it was."""
    inject = f"inject={kind}:signal=KILL:when={nth}"
    command = [str(STRACE), "-f", "-qq", "-o", os.devnull, "-e", f"trace={kind}", "-e", inject]
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, sys.executable, "-c", OPENING, url], env=environ, capture_output=True, text=True
    )
    if "ptrace" in done.stderr and done.returncode not in (0, -signal.SIGKILL):
        pytest.skip("processes may not be traced here")
    assert done.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
    return done.returncode != 0


def begin_nothing(path: Path) -> None:
    """There is no file: the very first start."""


def begin_restored(path: Path) -> None:
    """A file that some copy was, which is not written by way of a log: its first start."""
    Store(f"sqlite:///{path}").open().close()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")


@pytest.mark.parametrize(
    ("begin", "kinds"),
    [
        (begin_restored, KINDS[:1]),
        (begin_restored, KINDS[1:]),
        (begin_nothing, KINDS[:1]),
        (begin_nothing, KINDS[1:2]),
        (begin_nothing, KINDS[2:]),
    ],
)
def test_the_next_start_works(begin: object, kinds: tuple[str, ...], tmp_path: Path) -> None:
    """Wherever the first was killed, the next one opens the same file, and it is whole."""
    assert callable(begin)
    deaths = 0
    for kind in kinds:
        for nth in NTHS:
            folder = tmp_path / f"{kind}-{nth}"
            folder.mkdir()
            path = folder / "countersign.db"
            begin(path)
            if not opened_and_killed(f"sqlite:///{path}", kind, nth):
                break
            deaths += 1
            store = Store(f"sqlite:///{path}").open()
            with store.read() as tx:
                assert tx.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok", (kind, nth)
                assert tx.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert store.mismatch_reason == "", (kind, nth)
            store.close()
            shutil.rmtree(folder)
    assert deaths > 3
