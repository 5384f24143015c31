"""A backup that is put back does nothing twice: whatever was under way in it is asked again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from storage.states import CallStatus, RunStatus
from tests.runs.fakes import ANA
from tests.runs.harness import Crash, LoopHarness
from tests.storage.builders import click

C = CallStatus


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LoopHarness]:
    """The product without its edges."""
    made = LoopHarness(tmp_path / "countersign.db")
    yield made
    made.stop()


def back_up(harness: LoopHarness) -> Path:
    """A copy, made as the documentation says."""
    copy = harness.path.with_name("backup.db")
    with closing(sqlite3.connect(harness.path)) as db:
        db.execute("VACUUM INTO ?", (str(copy),))
    return copy


def put_back(harness: LoopHarness, copy: Path) -> None:
    """The bot stops, the copy takes the place of the database, the bot starts."""
    harness.stop()
    for end in ("-wal", "-shm"):
        harness.path.with_name(harness.path.name + end).unlink(missing_ok=True)
    copy.replace(harness.path)
    harness.start()


def press(harness: LoopHarness, action: str, revision: int) -> None:
    """Ana clicks a button of that revision; the loop looks."""
    [call] = harness.all()[1]
    harness.arrive(lambda key: click(key, action, f"{call.id}:{revision}", ANA))
    harness.loop.tick()


def restored(harness: LoopHarness) -> int:
    """How often the audit says that an older record was taken up."""
    return sum(row.event == "record.restored" for row in harness.all()[2])


def asked(harness: LoopHarness) -> None:
    """People are asked."""
    harness.model.script = [[("note", "once")]]
    harness.say("please")
    harness.loop.tick()
    harness.work()


def approved(harness: LoopHarness) -> None:
    """It was approved, and has not been taken up."""
    asked(harness)
    press(harness, "approve", 1)


def clicked(harness: LoopHarness) -> None:
    """The click was stored, and has not been decided."""
    asked(harness)
    [call] = harness.all()[1]
    harness.arrive(lambda key: click(key, "approve", f"{call.id}:1", ANA))


def started(harness: LoopHarness) -> None:
    """The process ended before the effect."""
    approved(harness)
    harness.pool.die = "before"
    with suppress(Crash):
        harness.work()


def go_on(harness: LoopHarness) -> None:
    """The rest of the copied life: whatever it takes until the call has had its effect."""
    harness.stop()
    harness.start()
    if harness.all()[1][0].status is C.PENDING:
        press(harness, "approve", 1)
    harness.work()
    if harness.all()[1][0].status is C.UNKNOWN:
        press(harness, "run_again", 1)
    harness.work()
    [call] = harness.all()[1]
    assert (call.status, harness.effects[call.id]) == (C.SUCCEEDED, 1)


@pytest.mark.parametrize("until", [asked, approved, clicked, started])
def test_what_was_open_is_asked_again(
    harness: LoopHarness, until: Callable[[LoopHarness], None]
) -> None:
    """Neither by itself nor by a click on an old card does the call run a second time.

    Only who is asked anew can have it run; the audit says that the record was put back.
    """
    until(harness)
    copy = back_up(harness)
    go_on(harness)
    put_back(harness, copy)
    harness.loop.tick()
    harness.work()
    for action in ("approve", "run_again", "resolve_done"):
        press(harness, action, 1)
        harness.work()
    [call] = harness.all()[1]
    assert (harness.effects[call.id], restored(harness)) == (1, 1)
    assert call.status is (C.UNKNOWN if until is started else C.PENDING)
    assert "put back from an older copy" in call.note
    press(harness, "run_again" if until is started else "approve", call.revision)
    harness.work()
    assert harness.effects[call.id] == 2
    assert harness.all()[1][0].status is C.SUCCEEDED


def test_what_may_have_been_done_is_said_however_often_it_is_asked(harness: LoopHarness) -> None:
    """An approval that has become too old has it asked once more, and its new card says both."""
    asked(harness)
    copy = back_up(harness)
    go_on(harness)
    put_back(harness, copy)
    harness.loop.tick()
    for revision in (2, 3):
        press(harness, "approve", revision)
        harness.clock.at += timedelta(days=1, seconds=1)
        harness.work()
        [call] = harness.all()[1]
        assert (call.status, call.revision) == (C.PENDING, revision + 1)
        assert call.note == (
            "the record was put back from an older copy, and this may have been done since; "
            "it was approved more than 1 day ago and had not started."
        )
    assert list(harness.effects.values()) == [1]


def test_what_asks_nobody_is_not_begun_again(harness: LoopHarness) -> None:
    """What policy allows, and a request that was about to be worked on, wait for nobody.

    So they end, and their thread is told.
    """
    harness.model.script = [[("free", "once")], "answer", [("free", "once")]]
    harness.say("please")
    harness.loop.tick()
    copy = back_up(harness)
    harness.work()
    assert sum(harness.effects.values()) == 1
    put_back(harness, copy)
    harness.loop.tick()
    harness.work()
    runs, _, _, messages = harness.all()
    assert (sum(harness.effects.values()), [run.status for run in runs]) == (
        1,
        [RunStatus.CANCELLED],
    )
    assert harness.over == [runs[0].id]
    assert any("ask again for what you still want" in message.body for message in messages)


def test_a_record_without_its_head_is_taken_for_an_older_one(harness: LoopHarness) -> None:
    """A copy on another machine has no head file, so nobody knows what was done since."""
    asked(harness)
    harness.stop()
    harness.path.with_name("countersign.db.head").unlink()
    harness.start()
    assert (restored(harness), harness.all()[1][0].revision) == (1, 2)


def test_an_ordinary_start_asks_nothing_again(harness: LoopHarness) -> None:
    """After a good end, and after the process was killed, what waits simply waits on."""
    asked(harness)
    harness.stop()
    harness.start()
    lock: Any = harness.store.database._lock
    lock.close()  # as the end of the process does; nothing else is closed
    harness.start()
    assert (restored(harness), harness.all()[1][0].revision) == (0, 1)


def test_a_copy_put_back_twice_is_noticed_twice(harness: LoopHarness) -> None:
    """The head of the new life is noted from its first row on."""
    asked(harness)
    copy = back_up(harness)
    again = copy.with_name("again.db")
    again.write_bytes(copy.read_bytes())
    go_on(harness)
    put_back(harness, copy)
    assert restored(harness) == 1
    put_back(harness, again)
    assert restored(harness) == 1
    press(harness, "approve", 1)
    assert harness.all()[1][0].status is C.PENDING
