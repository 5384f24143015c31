"""Transcripts are read on from where they were read last, and always say what the rows say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlmodel import col, select

from storage import moves, runs, transcripts
from storage.columns import get_column_values
from storage.models import Item, Run
from storage.states import RunStatus
from storage.store import Store
from storage.transaction import Transaction, build_insert
from storage.transcripts import TranscriptCache
from tests.storage.builders import AT, Seeded, seed


@pytest.fixture
def seeded(store: Store) -> Seeded:
    """A database with one run."""
    return seed(store)


def stored_items(tx: Transaction, run: Run) -> list[dict[str, Any]]:
    """The items of the run's thread as its rows hold them, in order."""
    there = (col(Run.channel) == run.channel, col(Run.thread_ts) == run.thread_ts)
    of_thread = select(Item.body).join(Run).where(*there).order_by(col(Item.seq))
    return [json.loads(body) for body in tx.scalars(of_thread)]


def append(seeded: Seeded, *items: dict[str, Any]) -> None:
    """More items in the run's thread."""
    with seeded.store.write() as tx:
        for item in items:
            runs.append_transcript_item(tx, seeded.run(), item, at=AT)


def append_and_fail(tx: Transaction, run: Run) -> None:
    """Append an item in a transaction that does not come to its end."""
    runs.append_transcript_item(tx, run, CALL, at=AT)
    raise TypeError


CALL = {"type": "function_call", "call_id": "c1", "name": "note", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def test_what_was_added_meanwhile_is_there(seeded: Seeded) -> None:
    """Each reading has every item in order, however many were read before and by whom."""
    known = TranscriptCache()
    for step in ([{"role": "user", "content": "a"}], [CALL], [], [OUTPUT, {"role": "user"}]):
        append(seeded, *step)
        with seeded.store.read() as tx:
            read, fresh = (
                known.read_transcript(tx, seeded.run()),
                TranscriptCache().read_transcript(tx, seeded.run()),
            )
            assert list(read.items) == stored_items(tx, seeded.run())
        assert read == fresh
    assert (read.proposed_call_ids, read.answered_call_ids) == ({"c1"}, {"c1"})


def test_requests_of_one_thread_are_read_in_the_order_of_their_items(seeded: Seeded) -> None:
    """Items of two requests in turns come in turns; half of a pair of surrogates is let pass."""
    other = seeded.run()
    other.id, other.status = "other", RunStatus.READY
    said = [{"role": "user", "content": str(number)} for number in range(6)]
    with seeded.store.write() as tx:
        moves.insert_run(tx, other, at=AT)
        for number, each in enumerate(said):
            runs.append_transcript_item(tx, (seeded.run(), other)[number % 2], each, at=AT)
    with seeded.store.read() as tx:
        assert list(TranscriptCache().read_transcript(tx, other).items) == said
    with seeded.store.write() as tx:
        half = Item(run_id="other", body='{"role": "user", "content": "\\ud800"}', created_at=AT)
        tx.execute(build_insert(Item), get_column_values(half))
    with seeded.store.read() as tx:
        read = TranscriptCache().read_transcript(tx, other)
        assert list(read.items) == stored_items(tx, other)
    assert read.items[-1]["content"] == "\ud800"


def test_an_uncommitted_item_is_not_remembered(seeded: Seeded) -> None:
    """What a transaction that was rolled back had appended is not in the next reading."""
    known = TranscriptCache()
    with pytest.raises(TypeError), seeded.store.write() as tx:
        append_and_fail(tx, seeded.run())
    with seeded.store.read() as tx:
        assert known.read_transcript(tx, seeded.run()).items == ()


def test_what_is_remembered_is_bounded(seeded: Seeded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads read longest ago are forgotten first, and read anew in full when they return."""
    monkeypatch.setattr(transcripts, "CACHE_MAX_CHARS", 150)
    known, other = TranscriptCache(), seeded.run()
    other.id, other.thread_ts, other.status = "other", "1.2", RunStatus.READY
    long = {"role": "user", "content": "x" * 100}
    append(seeded, long)
    with seeded.store.write() as tx:
        moves.insert_run(tx, other, at=AT)
        runs.append_transcript_item(tx, other, long, at=AT)
    with seeded.store.read() as tx:
        for run in (seeded.run(), other, seeded.run()):
            assert known.read_transcript(tx, run).items == (long,)
    assert len(known._transcripts) == 1
    assert known._char_count <= 150


def test_so_are_short_items_which_take_more_than_their_words(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little many items say, only so many are remembered."""
    monkeypatch.setattr(transcripts, "CACHE_MAX_ITEMS", 5)
    known, other = TranscriptCache(), seeded.run()
    other.id, other.thread_ts, other.status = "other", "1.2", RunStatus.READY
    short = [{"role": "user", "content": str(number)} for number in range(3)]
    append(seeded, *short)
    with seeded.store.write() as tx:
        moves.insert_run(tx, other, at=AT)
        for item in short:
            runs.append_transcript_item(tx, other, item, at=AT)
    with seeded.store.read() as tx:
        for run in (seeded.run(), other, seeded.run()):
            assert known.read_transcript(tx, run).items == tuple(short)
    assert (len(known._transcripts), known._item_count) == (1, 3)
