"""What stands for older items is found by who asks the model, and by nobody else."""

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


def test_a_compaction_is_no_item(store: Store) -> None:
    """The transcript has it apart; the run's newest item is still the one before it, so that a
    question stays unanswered over a restart; what it took counts.
    """
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


def change(seeded: Seeded, index: int, **columns: Any) -> None:
    """Write columns of a call past the door."""
    with seeded.store.write() as tx:
        tx.execute(update(Call).where(col(Call.id) == seeded.ids[index]).values(**columns))


def test_what_is_on_record(store: Store) -> None:
    """Calls that people were asked about, that ran by a remembered approval, or that may have
    changed something; not what was only read or refused, nor what a sub-agent did in its own
    transcript.
    """
    seeded = seed(store, C.SUCCEEDED, C.REFUSED, C.SUCCEEDED, C.SUCCEEDED, C.REJECTED)
    change(seeded, 2, does="read")
    change(seeded, 3, does="read", grant_id="g")
    change(seeded, 4, does="read", asked_at=AT)
    change(seeded, 0, status=C.RUNNING)
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
