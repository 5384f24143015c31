"""A restored backup does nothing twice: open work in it is asked about again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.agent import outputs
from bot.cards.call_pieces import RESTORED_RECORD_NOTE
from bot.policy.evaluation import parse
from storage.states import CallStatus, MessageKind, RunStatus
from tests.runs.fakes import ANA, BEN, POLICY, make_tools
from tests.runs.harness import Crash, LoopHarness
from tests.storage.builders import click

C = CallStatus
HOURS = '[hours]\nzone = "UTC"\nopens = "09:00"\ncloses = "17:00"\n'


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
    """The bot stops, the copy replaces the database, the bot starts."""
    harness.stop()
    for end in ("-wal", "-shm"):
        harness.path.with_name(harness.path.name + end).unlink(missing_ok=True)
    copy.replace(harness.path)
    harness.start()


def put_back_older(harness: LoopHarness) -> None:
    """The bot goes on after a copy was made, and then that copy is put back."""
    copy = back_up(harness)
    harness.say("something else", thread="2.0")
    harness.loop.tick()
    put_back(harness, copy)


def click_and_tick(harness: LoopHarness, action: str, revision: int) -> None:
    """Ana clicks a button of that revision, and the loop ticks."""
    [call] = harness.all()[1]
    harness.arrive(lambda key: click(key, action, f"{call.id}:{revision}", ANA))
    harness.loop.tick()


def count_restorations(harness: LoopHarness) -> int:
    """How often the audit says that an older record was restored."""
    return sum(row.event == "record.restored" for row in harness.all()[2])


def propose_a_call(harness: LoopHarness) -> None:
    """People are asked."""
    harness.model.script = [[("note", "once")]]
    harness.say("please")
    harness.loop.tick()
    harness.work()


def approve_a_call(harness: LoopHarness) -> None:
    """The call was approved, and has not started."""
    propose_a_call(harness)
    click_and_tick(harness, "approve", 1)


def click_approve(harness: LoopHarness) -> None:
    """The click was stored, and has not been decided."""
    propose_a_call(harness)
    [call] = harness.all()[1]
    harness.arrive(lambda key: click(key, "approve", f"{call.id}:1", ANA))


def start_the_call(harness: LoopHarness) -> None:
    """The process ended before the effect."""
    approve_a_call(harness)
    harness.pool.die = "before"
    with suppress(Crash):
        harness.work()


def run_until_effect(harness: LoopHarness) -> None:
    """The original record goes on until the call has had its effect."""
    harness.stop()
    harness.start()
    if harness.all()[1][0].status is C.PENDING:
        click_and_tick(harness, "approve", 1)
    harness.work()
    if harness.all()[1][0].status is C.UNKNOWN:
        click_and_tick(harness, "run_again", 1)
    harness.work()
    [call] = harness.all()[1]
    assert (call.status, harness.effects[call.id]) == (C.SUCCEEDED, 1)


@pytest.mark.parametrize("until", [propose_a_call, approve_a_call, click_approve, start_the_call])
def test_open_calls_of_a_restored_backup_are_asked_again(
    harness: LoopHarness, until: Callable[[LoopHarness], None]
) -> None:
    """Nothing but a new approval runs such a call again, and the audit says that the record was
    restored.
    """
    until(harness)
    copy = back_up(harness)
    run_until_effect(harness)
    put_back(harness, copy)
    harness.loop.tick()
    harness.work()
    for action in ("approve", "run_again", "resolve_done"):
        click_and_tick(harness, action, 1)
        harness.work()
    [call] = harness.all()[1]
    assert (harness.effects[call.id], count_restorations(harness)) == (1, 1)
    assert call.status is (C.UNKNOWN if until is start_the_call else C.PENDING)
    assert "put back from an older copy" in call.note
    assert harness.over == []
    click_and_tick(harness, "run_again" if until is start_the_call else "approve", call.revision)
    harness.work()
    assert harness.effects[call.id] == 2
    assert harness.all()[1][0].status is C.SUCCEEDED


def test_cards_asked_again_keep_saying_that_it_may_have_been_done(harness: LoopHarness) -> None:
    """Here the approval has become too old as well, and the new card says both."""
    propose_a_call(harness)
    copy = back_up(harness)
    run_until_effect(harness)
    put_back(harness, copy)
    harness.loop.tick()
    for revision in (2, 3):
        click_and_tick(harness, "approve", revision)
        harness.clock.at += timedelta(days=1, seconds=1)
        harness.work()
        [call] = harness.all()[1]
        assert (call.status, call.revision) == (C.PENDING, revision + 1)
        assert call.note == (
            "the record was put back from an older copy, and this may have been done since; "
            "it was approved more than 1 day ago and had not started."
        )
    assert list(harness.effects.values()) == [1]


def test_restored_requests_that_ask_nobody_end(harness: LoopHarness) -> None:
    """Policy allows their calls, or they had not begun; their thread is told."""
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


def test_a_message_that_a_restored_backup_had_not_taken_in_begins_nothing(
    harness: LoopHarness,
) -> None:
    """Its request may have been dealt with since; its author is told."""
    harness.say("please")
    put_back_older(harness)
    harness.loop.tick()
    harness.work()
    runs, _, _, messages = harness.all()
    assert (runs, harness.model.turns) == ([], 0)
    [told] = [each for each in messages if "may be lost" in each.body]
    assert (told.kind, told.recipient) == (MessageKind.PRIVATE, BEN)


def test_a_failed_request_of_a_restored_backup_waits_for_retry(harness: LoopHarness) -> None:
    """Its thread is told nothing, and the requester may retry it."""
    harness.model.script = ["fail"]
    harness.say("please")
    harness.loop.tick()
    harness.work()
    put_back_older(harness)
    harness.loop.tick()
    harness.work()
    [run], _, _, messages = harness.all()
    assert (run.status, count_restorations(harness)) == (RunStatus.FAILED, 1)
    assert (harness.over, harness.model.turns) == ([], 1)
    assert not any("older copy" in message.body for message in messages)
    harness.arrive(lambda key: click(key, "retry", run.id, BEN))
    harness.loop.tick()
    harness.work()
    assert harness.all()[0][0].status is RunStatus.COMPLETED


def test_a_call_that_policy_allows_does_not_run_after_a_restoration(harness: LoopHarness) -> None:
    """It waited for another of its plan, which people are asked about again."""
    harness.model.script = [[("note", "asked"), ("free", "allowed")]]
    harness.say("please")
    harness.loop.tick()
    harness.work()
    put_back_older(harness)
    assert [call.status for call in harness.all()[1]] == [C.PENDING, C.INVALIDATED]
    note, allowed = harness.all()[1]
    harness.arrive(lambda key: click(key, "approve", f"{note.id}:2", ANA))
    harness.loop.tick()
    harness.work()
    assert (harness.effects[note.id], harness.effects[allowed.id]) == (1, 0)


def test_an_unknown_outcome_of_a_restored_backup_has_new_buttons(harness: LoopHarness) -> None:
    """People may have said since what became of it, by the old ones.

    The time to say it counts only business hours, if the gate does.
    """
    harness.core.policy.policy = parse(
        HOURS + POLICY.replace('"1h"', '"1h"\nbusiness_hours = true')
    )
    harness.clock.at = datetime(2026, 3, 6, 16, 30, tzinfo=UTC)  # a Friday
    approve_a_call(harness)
    harness.outcome = "loses"
    harness.work()
    put_back_older(harness)
    click_and_tick(harness, "resolve_done", 1)
    [call] = harness.all()[1]
    assert (call.status, call.revision, call.note) == (C.UNKNOWN, 2, RESTORED_RECORD_NOTE)
    assert call.deadline == datetime(2026, 3, 9, 9, 30, tzinfo=UTC)
    click_and_tick(harness, "resolve_not_done", 2)
    assert harness.all()[1][0].status is C.FAILED


def test_an_outcome_that_nobody_is_asked_about_any_more_is_not_asked_again(
    harness: LoopHarness,
) -> None:
    """Its time was over before the copy was made, and its request had not gone on yet."""
    approve_a_call(harness)
    harness.outcome = "loses"
    harness.work()
    harness.clock.at += timedelta(days=2)
    harness.loop.tick()
    put_back_older(harness)
    [run], [call], _, _ = harness.all()
    assert (call.status, call.deadline, call.revision) == (C.UNKNOWN, None, 1)
    assert (run.status, harness.over) == (RunStatus.CANCELLED, [run.id])


@pytest.mark.parametrize("until", [propose_a_call, approve_a_call, start_the_call])
def test_a_restored_call_whose_tool_is_gone_is_called_off(
    harness: LoopHarness, until: Callable[[LoopHarness], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays so once the tool is back; of one that may have run people still say what became."""
    until(harness)
    copy = back_up(harness)
    run_until_effect(harness)
    with monkeypatch.context() as patched:
        patched.setattr("tests.runs.harness.make_tools", lambda do: make_tools(do)[1:])
        put_back(harness, copy)
    may_have_run = until is start_the_call
    [call] = harness.all()[1]
    assert (call.status, call.revision) == (C.UNKNOWN if may_have_run else C.INVALIDATED, 1)
    told = outputs.UNKNOWN if may_have_run else outputs.invalidated_output(RESTORED_RECORD_NOTE)
    assert (call.note, call.output) == (RESTORED_RECORD_NOTE, told)
    harness.stop()
    harness.start()
    click_and_tick(harness, "resolve_done" if may_have_run else "approve", 1)
    harness.work()
    assert harness.effects[call.id] == 1
    assert harness.all()[1][0].status is (C.SUCCEEDED if may_have_run else C.INVALIDATED)


def test_a_record_without_its_head_file_counts_as_restored(harness: LoopHarness) -> None:
    """A copy on another machine has none, so nobody knows what was done since."""
    propose_a_call(harness)
    harness.stop()
    harness.path.with_name("countersign.db.head").unlink()
    harness.start()
    for _ in range(2):  # the next start is an ordinary one
        assert (count_restorations(harness), harness.all()[1][0].revision) == (1, 2)
        harness.stop()
        harness.start()


def test_an_ordinary_start_asks_nothing_again(harness: LoopHarness) -> None:
    """It may follow a proper end or a kill."""
    propose_a_call(harness)
    harness.stop()
    harness.start()
    lock: Any = harness.store.database._lock
    lock.close()  # as the end of a process does; nothing else is closed
    harness.start()
    assert (count_restorations(harness), harness.all()[1][0].revision) == (0, 1)


def test_a_backup_restored_twice_is_noticed_twice(harness: LoopHarness) -> None:
    """The head of the restored record is written from its first row on."""
    propose_a_call(harness)
    copy = back_up(harness)
    again = copy.with_name("again.db")
    again.write_bytes(copy.read_bytes())
    run_until_effect(harness)
    put_back(harness, copy)
    assert count_restorations(harness) == 1
    put_back(harness, again)
    assert count_restorations(harness) == 1
    click_and_tick(harness, "approve", 1)
    assert harness.all()[1][0].status is C.PENDING
