"""A tool's result that the database cannot store is kept in memory until it can."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from storage.models import Call
from storage.states import CallStatus, RunStatus
from tests.runs.harness import LoopHarness, approved
from tests.runs.test_disk import FullDisk, read_only

C, R = CallStatus, RunStatus
LONG = "done" * 1000  # needs pages of its own
Trouble = Callable[[LoopHarness], AbstractContextManager[None]]


@contextmanager
def fill_disk(harness: LoopHarness) -> Iterator[None]:
    """The disk is full meanwhile."""
    disk = FullDisk(harness.store)
    disk.fill()
    yield
    disk.free()


@contextmanager
def lock_database(harness: LoopHarness) -> Iterator[None]:
    """Somebody else writes meanwhile, longer than SQLite waits."""
    with read_only(harness.store, "PRAGMA busy_timeout=1"):
        other = sqlite3.connect(harness.path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
        other.close()


@contextmanager
def forbid_writing(harness: LoopHarness) -> Iterator[None]:
    """The file cannot be written meanwhile."""
    with read_only(harness.store):
        yield


class LogWatch(logging.Handler):
    """Notes whether the log has said that something is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = threading.Event()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one line."""
        self.said.append(record.getMessage())
        if "is kept until it can" in self.said[-1]:
            self.kept.set()


@pytest.fixture
def log_watch() -> Iterator[LogWatch]:
    """Log lines of the store."""
    handler, log = LogWatch(), logging.getLogger("countersign.store")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """An approved note."""
    made = approved(tmp_path / "db")
    yield made
    made.stop()


def get_call_and_run_status(harness: LoopHarness) -> tuple[Call, RunStatus]:
    """The call, and the status of its run."""
    [run], [call], *_ = harness.all()
    return call, run.status


@pytest.mark.parametrize("trouble", [fill_disk, lock_database, forbid_writing])
def test_a_result_is_kept_until_the_database_can_store_it(
    harness: LoopHarness, log_watch: LogWatch, trouble: Trouble
) -> None:
    """The run does not fail meanwhile."""
    at_work = threading.Thread(target=harness.work)
    trying = trouble(harness)
    harness.meanwhile, harness.returned = trying.__enter__, LONG
    at_work.start()
    assert log_watch.kept.wait(20)
    call, run = get_call_and_run_status(harness)
    assert (call.status, run) == (C.RUNNING, R.RUNNING)
    trying.__exit__(None, None, None)
    at_work.join(20)
    call, run = get_call_and_run_status(harness)
    assert (call.status, call.note, run) == (C.SUCCEEDED, LONG[:199] + "…", R.COMPLETED)
    assert (harness.effects[call.id], harness.model.wrong) == (1, [])
    assert LONG[:9] not in "".join(
        log_watch.said
    )  # errors of a database contain none of our values


def test_a_result_kept_when_the_process_ends_is_unknown_afterwards(
    harness: LoopHarness, log_watch: LogWatch
) -> None:
    """The call stays RUNNING until the next start says so."""
    at_work = threading.Thread(target=harness.work)
    trying = lock_database(harness)
    harness.meanwhile = trying.__enter__
    at_work.start()
    assert log_watch.kept.wait(20)
    harness.core.signals.stopping.set()
    at_work.join(20)
    trying.__exit__(None, None, None)
    call, run = get_call_and_run_status(harness)
    assert (call.status, run) == (C.RUNNING, R.RUNNING)
    harness.stop()
    harness.start()
    harness.work()
    call, run = get_call_and_run_status(harness)
    assert (call.status, run, harness.effects[call.id]) == (C.UNKNOWN, R.WAITING, 1)
