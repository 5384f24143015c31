"""A start killed at each operation on a file leaves a record that the next start can use."""

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
# system calls that change a file; how many there are differs with SQLite's version
KINDS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "rename", "link", "write")
OPENING = "import sys; from storage.store import Store; Store(sys.argv[1]).open().close()"
# A file is switched to a log within the first writes; the many later ones go to the log.
NTHS = (*range(1, 17), *(int(17 * 1.3**step) for step in range(12)))

pytestmark = [
    pytest.mark.long,
    pytest.mark.file,
    pytest.mark.skipif(STRACE is None, reason="strace is not installed"),
]


def open_and_kill(url: str, kind: str, nth: int) -> bool:
    """Open it in a process that is killed at the nth call of that kind; returns whether it was."""
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


def prepare_nothing(path: Path) -> None:
    """No file: the very first start."""


def prepare_restored_file(path: Path) -> None:
    """A restored copy that does not use a log yet: its first start."""
    Store(f"sqlite:///{path}").open().close()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")


@pytest.mark.parametrize(
    ("begin", "kinds"),
    [
        (prepare_restored_file, KINDS[:1]),
        (prepare_restored_file, KINDS[1:]),
        (prepare_nothing, KINDS[:1]),
        (prepare_nothing, KINDS[1:2]),
        (prepare_nothing, KINDS[2:]),
    ],
)
def test_the_next_start_works_wherever_the_first_was_killed(
    begin: object, kinds: tuple[str, ...], tmp_path: Path
) -> None:
    """It opens the same file, which is intact."""
    assert callable(begin)
    deaths = 0
    for kind in kinds:
        for nth in NTHS:
            folder = tmp_path / f"{kind}-{nth}"
            folder.mkdir()
            path = folder / "countersign.db"
            begin(path)
            if not open_and_kill(f"sqlite:///{path}", kind, nth):
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
