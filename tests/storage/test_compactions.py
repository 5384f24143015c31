"""Compactions: what stands for older items of a transcript when the model is asked."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, update
from sqlmodel import col

from storage import runs, sub_agents, transcripts
from storage.columns import get_column_values
from storage.models import Call
from storage.states import CallStatus, RunStatus
from storage.store import Store
from storage.transcripts import Compaction, TranscriptCache
from tests.record_checks import list_transcript_items
from tests.storage.builders import AT, Seeded, seed

C = CallStatus
SAID = {"role": "user", "content": "How is it?"}
STANDS = {"role": "user", "content": "In short."}


def test_a_compaction_is_not_an_item_of_the_transcript(store: Store) -> None:
    """The newest item is still the one before it, so a question stays unanswered over a restart."""
    seeded = seed(store)
    with store.write() as tx:
        run = seeded.run()
        runs.append_transcript_item(tx, run, SAID, at=AT)
        found = TranscriptCache().read_transcript(tx, run)
        made = Compaction(
            found.last_seq, frozenset(), (STANDS,), "https://there/v1/", is_summed_up=False
        )
        runs.append_transcript_item(tx, run, made.build_item(), at=AT)
        runs.add_tokens_to_run(tx, run, 70)
    with store.read() as tx:
        run, read = seeded.run(), TranscriptCache().read_transcript(tx, seeded.run())
        assert (read.items, read.compactions) == ((SAID,), (made,))
        assert read.list_items_for_model("https://there/v1/") == [STANDS]
        assert list_transcript_items(tx, run) == [SAID]
        assert runs.needs_model_answer(tx, run.id)
        assert run.tokens == 70


def update_call(seeded: Seeded, index: int, **columns: Any) -> None:
    """Write columns of a call directly."""
    with seeded.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == seeded.ids[index]).values(**columns))


def test_calls_that_matter_are_kept_for_the_model(store: Store) -> None:
    """They were asked about, ran on a grant, or may have changed something; a sub-agent's are its
    own.
    """
    seeded = seed(store, C.SUCCEEDED, C.REFUSED, C.SUCCEEDED, C.SUCCEEDED, C.REJECTED)
    update_call(seeded, 2, does="read")
    update_call(seeded, 3, does="read", grant_id="g")
    update_call(seeded, 4, does="read", asked_at=AT)
    update_call(seeded, 0, status=C.RUNNING)
    with store.write() as tx:
        child = sub_agents.hand_call_to_sub_agent(tx, seeded.run(), seeded.call(0), SAID, at=AT)
        theirs = {**get_column_values(seeded.call(4)), "id": "theirs", "run_id": child.id}
        tx.execute(insert(Call).values({**theirs, "provider_id": "call_of_theirs"}))
        runs.add_tokens_to_run(tx, child, 30)
    with store.read() as tx:
        assert transcripts.list_call_ids_kept_for_model(tx, seeded.run()) == {
            "call_0",
            "call_3",
            "call_4",
        }
        assert transcripts.list_call_ids_kept_for_model(tx, child) == {"call_of_theirs"}
        spent = runs.find_run(tx, child.id)
        assert spent is not None
        assert (seeded.run().tokens, spent.tokens, spent.status) == (30, 30, RunStatus.READY)
