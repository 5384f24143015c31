"""Transcripts are read on from the last reading, and always say what the rows say."""

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


def read_stored_items(tx: Transaction, run: Run) -> list[dict[str, Any]]:
    """The items of the run's thread as its rows hold them, in order."""
    there = (col(Run.channel) == run.channel, col(Run.thread_ts) == run.thread_ts)
    of_thread = select(Item.body).join(Run).where(*there).order_by(col(Item.seq))
    return [json.loads(body) for body in tx.scalars(of_thread)]


def append_items(seeded: Seeded, *items: dict[str, Any]) -> None:
    """Append items in the run's thread."""
    with seeded.store.write() as tx:
        for item in items:
            runs.append_transcript_item(tx, seeded.run(), item, at=AT)


def append_and_fail(tx: Transaction, run: Run) -> None:
    """Append an item in a transaction that fails."""
    runs.append_transcript_item(tx, run, CALL, at=AT)
    raise TypeError


CALL = {"type": "function_call", "call_id": "c1", "name": "note", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def test_each_reading_has_all_items_added_meanwhile(seeded: Seeded) -> None:
    """Any number of them may be cached."""
    known = TranscriptCache()
    for step in ([{"role": "user", "content": "a"}], [CALL], [], [OUTPUT, {"role": "user"}]):
        append_items(seeded, *step)
        with seeded.store.read() as tx:
            read, fresh = (
                known.read_transcript(tx, seeded.run()),
                TranscriptCache().read_transcript(tx, seeded.run()),
            )
            assert list(read.items) == read_stored_items(tx, seeded.run())
        assert read == fresh
    assert (read.proposed_call_ids, read.answered_call_ids) == ({"c1"}, {"c1"})


def test_items_of_two_requests_in_a_thread_are_read_in_order(seeded: Seeded) -> None:
    """A lone surrogate is read, too."""
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
        assert list(read.items) == read_stored_items(tx, other)
    assert read.items[-1]["content"] == "\ud800"


def test_an_item_that_was_rolled_back_is_not_cached(seeded: Seeded) -> None:
    """The next reading does not have it."""
    known = TranscriptCache()
    with pytest.raises(TypeError), seeded.store.write() as tx:
        append_and_fail(tx, seeded.run())
    with seeded.store.read() as tx:
        assert known.read_transcript(tx, seeded.run()).items == ()


def test_the_transcript_cache_is_bounded_in_characters(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads read longest ago are dropped first, and read in full again."""
    monkeypatch.setattr(transcripts, "CACHE_MAX_CHARS", 150)
    known, other = TranscriptCache(), seeded.run()
    other.id, other.thread_ts, other.status = "other", "1.2", RunStatus.READY
    long = {"role": "user", "content": "x" * 100}
    append_items(seeded, long)
    with seeded.store.write() as tx:
        moves.insert_run(tx, other, at=AT)
        runs.append_transcript_item(tx, other, long, at=AT)
    with seeded.store.read() as tx:
        for run in (seeded.run(), other, seeded.run()):
            assert known.read_transcript(tx, run).items == (long,)
    assert len(known._transcripts) == 1
    assert known._char_count <= 150


def test_the_transcript_cache_is_bounded_in_items(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short items take more memory than their characters."""
    monkeypatch.setattr(transcripts, "CACHE_MAX_ITEMS", 5)
    known, other = TranscriptCache(), seeded.run()
    other.id, other.thread_ts, other.status = "other", "1.2", RunStatus.READY
    short = [{"role": "user", "content": str(number)} for number in range(3)]
    append_items(seeded, *short)
    with seeded.store.write() as tx:
        moves.insert_run(tx, other, at=AT)
        for item in short:
            runs.append_transcript_item(tx, other, item, at=AT)
    with seeded.store.read() as tx:
        for run in (seeded.run(), other, seeded.run()):
            assert known.read_transcript(tx, run).items == tuple(short)
    assert (len(known._transcripts), known._item_count) == (1, 3)
