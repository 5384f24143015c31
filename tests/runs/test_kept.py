"""A tool's result is known, and the database cannot take it: it is kept in memory until it can."""

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
from tests.runs.test_disk import Full, read_only

C, R = CallStatus, RunStatus
LONG = "done" * 1000  # it needs pages of its own
Trouble = Callable[[LoopHarness], AbstractContextManager[None]]


@contextmanager
def full(harness: LoopHarness) -> Iterator[None]:
    """Meanwhile the disk is full."""
    disk = Full(harness.store)
    disk.full()
    yield
    disk.free()


@contextmanager
def locked(harness: LoopHarness) -> Iterator[None]:
    """Meanwhile somebody else writes, longer than SQLite waits."""
    with read_only(harness.store, "PRAGMA busy_timeout=1"):
        other = sqlite3.connect(harness.path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
        other.close()


@contextmanager
def broken(harness: LoopHarness) -> Iterator[None]:
    """Meanwhile the file may not be written."""
    with read_only(harness.store):
        yield


class Told(logging.Handler):
    """Knows whether the log has said that something is kept."""

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
def told() -> Iterator[Told]:
    """What the log says of the store."""
    handler, log = Told(), logging.getLogger("countersign.store")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """An approved note."""
    made = approved(tmp_path / "db")
    yield made
    made.stop()


def ended(harness: LoopHarness) -> tuple[Call, RunStatus]:
    """The call and its run, as they stand."""
    [run], [call], *_ = harness.all()
    return call, run.status


@pytest.mark.parametrize("trouble", [full, locked, broken])
def test_a_result_waits_for_the_database(
    harness: LoopHarness, told: Told, trouble: Trouble
) -> None:
    """While it cannot be stored the run is not failed; then it stands there as it was."""
    at_work = threading.Thread(target=harness.work)
    trying = trouble(harness)
    harness.meanwhile, harness.returned = trying.__enter__, LONG
    at_work.start()
    assert told.kept.wait(20)
    call, run = ended(harness)
    assert (call.status, run) == (C.RUNNING, R.RUNNING)
    trying.__exit__(None, None, None)
    at_work.join(20)
    call, run = ended(harness)
    assert (call.status, call.note, run) == (C.SUCCEEDED, LONG[:199] + "…", R.COMPLETED)
    assert (harness.effects[call.id], harness.model.wrong) == (1, [])
    assert LONG[:9] not in "".join(told.said)  # a database's error holds no values of ours


def test_the_end_of_the_process_while_a_result_is_kept(harness: LoopHarness, told: Told) -> None:
    """The call is left RUNNING, and the next start says truthfully that nobody knows."""
    at_work = threading.Thread(target=harness.work)
    trying = locked(harness)
    harness.meanwhile = trying.__enter__
    at_work.start()
    assert told.kept.wait(20)
    harness.core.signals.stopping.set()
    at_work.join(20)
    trying.__exit__(None, None, None)
    call, run = ended(harness)
    assert (call.status, run) == (C.RUNNING, R.RUNNING)
    harness.stop()
    harness.start()
    harness.work()
    call, run = ended(harness)
    assert (call.status, run, harness.effects[call.id]) == (C.UNKNOWN, R.WAITING, 1)
