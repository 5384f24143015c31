"""`countersign backup` and `restore`, killed at each step, and on a disk that takes no more."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from countersign.cli.commands import main
from tests.cli.test_backup import names, rows
from tests.runs.harness import LoopHarness

EVERY = 5  # a process is killed at each so many-th step
# calls by which something is changed on the disk; before and after each the process may end
STEPS = {
    *("open", "link", "unlink", "rename", "replace", "mkdir", "rmdir", "fsync", "write"),
    *("executemany", "connect"),
}
ASIDE = "countersign.db.before-restore-*"
NEVER = -1


class Killer:
    """Ends its process at the nth step; at none, where that is NEVER."""

    def __init__(self, at: int) -> None:
        self.at, self.steps = at, 0

    def __call__(self, _frame: object, event: str, called: Any) -> None:
        """Python is about to call, or has called, a function written in C."""
        if event not in ("c_call", "c_return") or called.__name__ not in STEPS:
            return
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1


def killed(words: list[str], at: int, most: int = resource.RLIM_INFINITY) -> tuple[bool, int]:
    """Run a command in a process of its own that is killed at that step; no file exceeds `most`.

    Returns whether it was, and else how many steps there were, or minus its exit code.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            sys.unraisablehook = sys.__unraisablehook__  # as in a process of its own
            killer = Killer(at)
            sys.setprofile(killer)
            code = main(words)
            sys.setprofile(None)
            os.write(writing, str(-code or killer.steps).encode())
        finally:
            os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as told:
        said = told.read()
    return os.WIFSIGNALED(status), int(said or 0)


def fresh(record: Path, folder: Path) -> Path:
    """The folder with the record in it, as it was at the beginning."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(record.parent, folder)
    os.chdir(folder)
    return folder / record.name


@pytest.fixture
def still(record: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A record, and a folder for copies of it."""
    assert main(["backup", "older.db"]) == 0
    harness = LoopHarness(record)
    harness.number = 10  # its messages are others than those of the first life
    harness.say("and then", thread="2.0")
    harness.loop.tick()
    harness.stop()
    return record, tmp_path_factory.mktemp("killed") / "copy"


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 4 * EVERY, EVERY))
def test_a_killed_backup_is_whole_or_not_there(first: int, still: tuple[Path, Path]) -> None:
    """The record is as it was, and the next try works."""
    record, folder = still
    at = fresh(record, folder)
    _, steps = killed(["backup", "whole.db"], NEVER)
    there = set()
    for step in (*range(first, steps, 4 * EVERY), steps - 1):
        path = at.with_name(f"b{step}.db")
        path.unlink(missing_ok=True)
        was, _ = killed(["backup", path.name], step)
        assert was or step > steps - 40  # the last come a little earlier or later each time
        there.add(path.exists())
        if path.exists():
            assert rows(path) == rows(at)
            with closing(sqlite3.connect(path)) as db:
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                assert db.execute("SELECT count(*) FROM copied").fetchone() == (1,)
    assert there == {False, True}
    assert main(["audit", "verify"]) == 0
    assert main(["backup", "last.db"]) == 0


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 4 * EVERY, EVERY))
def test_a_killed_restore_leaves_the_one_or_the_other(first: int, still: tuple[Path, Path]) -> None:
    """A start on what is there then does nothing twice, and the newer record is never lost."""
    record, folder = still
    fresh(record, folder)
    _, steps = killed(["restore", "older.db"], NEVER)
    seen = set()
    for step in (*range(first, steps, 4 * EVERY), steps - 1):
        at = fresh(record, folder)
        was, _ = killed(["restore", "older.db"], step)
        assert was or step > steps - 40  # the last come a little earlier or later each time
        held = rows(at, "run")
        seen.add(held)
        newer = [each for each in (at, *folder.glob(ASIDE)) if rows(each, "run") == 2]
        assert newer, f"killed at step {step}: the newer record is gone"
        harness = LoopHarness(at)
        taken_up = sum(row.event == "record.restored" for row in harness.all()[2])
        assert (held, taken_up) in {(2, 0), (1, 1)}
        harness.stop()
        assert main(["restore", "older.db"]) == 0
        assert not [each for each in names(folder) if ".part-" in each]
    assert seen == {1, 2}


def test_a_full_disk_loses_nothing(
    still: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot grow any more: a sentence, no backup, and the record as it was."""
    record, folder = still
    at = fresh(record, folder)
    before, bytes_before = names(folder), at.read_bytes()
    for words, sentence in (
        (["backup", "b.db"], "Nothing was backed up: the backup cannot be written: "),
        (
            ["restore", "older.db"],
            "Nothing was restored: older.db cannot be copied: File too large.",
        ),
    ):
        assert killed(words, NEVER, most=60_000) == (False, -1)
        assert sentence in capfd.readouterr().err
        assert (names(folder), at.read_bytes()) == (before, bytes_before)


def test_a_disk_that_fills_up_amid_the_rows_is_told_once(
    still: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """One sentence, and no traceback of what had still been read."""
    record, folder = still
    at = fresh(record, folder)
    with closing(sqlite3.connect(at, isolation_level=None)) as db:
        db.execute("UPDATE delivery SET body = json_object('words', hex(zeroblob(400000)))")
    assert killed(["backup", "b.db"], NEVER, most=500_000) == (False, -1)
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("Nothing was backed up: the backup cannot be written: ")
