"""`countersign backup` and `restore`, killed at each step, and on a full disk."""

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
from tests.cli.test_backup import count_rows, list_names
from tests.runs.harness import LoopHarness

EVERY = 5  # a process is killed at every fifth step
# calls that change something on the disk; the process may be killed before and after each
STEPS = {
    *("open", "link", "unlink", "rename", "replace", "mkdir", "rmdir", "fsync", "write"),
    *("executemany", "connect"),
}
ASIDE = "countersign.db.before-restore-*"
NEVER = -1


class Killer:
    """Kills its process at the nth step, or never."""

    def __init__(self, at: int) -> None:
        self.at, self.steps = at, 0

    def __call__(self, _frame: object, event: str, called: Any) -> None:
        """Count the step, if Python is about to call, or has called, one of these functions."""
        if event not in ("c_call", "c_return") or called.__name__ not in STEPS:
            return
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1


def run_and_kill(words: list[str], at: int, most: int = resource.RLIM_INFINITY) -> tuple[bool, int]:
    """Run a command in a process that is killed at that step; no file may be larger than `most`.

    Returns whether it was killed; and the number of its steps, or minus its exit code.
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


def copy_record(record: Path, folder: Path) -> Path:
    """Copy the folder with the record, as it was at the beginning, and go there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(record.parent, folder)
    os.chdir(folder)
    return folder / record.name


@pytest.fixture
def record_and_folder(record: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A record, and a folder for copies of it."""
    assert main(["backup", "older.db"]) == 0
    harness = LoopHarness(record)
    harness.number = 10  # so that its messages differ from those of the first start
    harness.say("and then", thread="2.0")
    harness.loop.tick()
    harness.stop()
    return record, tmp_path_factory.mktemp("killed") / "copy"


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 4 * EVERY, EVERY))
def test_a_killed_backup_is_complete_or_not_there(
    first: int, record_and_folder: tuple[Path, Path]
) -> None:
    """The record is unchanged, and the next attempt works."""
    record, folder = record_and_folder
    at = copy_record(record, folder)
    _, steps = run_and_kill(["backup", "whole.db"], NEVER)
    there = set()
    for step in (*range(first, steps, 4 * EVERY), steps - 1):
        path = at.with_name(f"b{step}.db")
        path.unlink(missing_ok=True)
        was, _ = run_and_kill(["backup", path.name], step)
        assert was or step > steps - 40  # the last steps come earlier or later each time
        there.add(path.exists())
        if path.exists():
            assert count_rows(path) == count_rows(at)
            with closing(sqlite3.connect(path)) as db:
                assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                assert db.execute("SELECT count(*) FROM copied").fetchone() == (1,)
    assert there == {False, True}
    assert main(["audit", "verify"]) == 0
    assert main(["backup", "last.db"]) == 0


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 4 * EVERY, EVERY))
def test_a_killed_restore_leaves_the_old_or_the_restored_record(
    first: int, record_and_folder: tuple[Path, Path]
) -> None:
    """A start on it does nothing twice, and the newer record is never lost."""
    record, folder = record_and_folder
    copy_record(record, folder)
    _, steps = run_and_kill(["restore", "older.db"], NEVER)
    seen = set()
    for step in (*range(first, steps, 4 * EVERY), steps - 1):
        at = copy_record(record, folder)
        was, _ = run_and_kill(["restore", "older.db"], step)
        assert was or step > steps - 40  # the last steps come earlier or later each time
        held = count_rows(at, "run")
        seen.add(held)
        newer = [each for each in (at, *folder.glob(ASIDE)) if count_rows(each, "run") == 2]
        assert newer, f"killed at step {step}: the newer record is gone"
        harness = LoopHarness(at)
        taken_up = sum(row.event == "record.restored" for row in harness.all()[2])
        assert (held, taken_up) in {(2, 0), (1, 1)}
        harness.stop()
        assert main(["restore", "older.db"]) == 0
        assert not [each for each in list_names(folder) if ".part-" in each]
    assert seen == {1, 2}


def test_nothing_is_lost_on_a_full_disk(
    record_and_folder: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """The output is a sentence, there is no backup, and the record is unchanged."""
    record, folder = record_and_folder
    at = copy_record(record, folder)
    before, bytes_before = list_names(folder), at.read_bytes()
    for words, sentence in (
        (["backup", "b.db"], "Nothing was backed up: the backup cannot be written: "),
        (
            ["restore", "older.db"],
            "Nothing was restored: older.db cannot be copied: File too large.",
        ),
    ):
        assert run_and_kill(words, NEVER, most=60_000) == (False, -1)
        assert sentence in capfd.readouterr().err
        assert (list_names(folder), at.read_bytes()) == (before, bytes_before)


def test_a_disk_that_fills_up_during_a_backup_is_reported_once(
    record_and_folder: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """There is no traceback."""
    record, folder = record_and_folder
    at = copy_record(record, folder)
    with closing(sqlite3.connect(at, isolation_level=None)) as db:
        db.execute("UPDATE delivery SET body = json_object('words', hex(zeroblob(400000)))")
    assert run_and_kill(["backup", "b.db"], NEVER, most=500_000) == (False, -1)
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("Nothing was backed up: the backup cannot be written: ")
