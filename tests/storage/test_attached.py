"""Files that are kept for the model: counted, withheld without a trace, moved with a channel."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import select
from sqlmodel import col

from storage import channel_modes, transcripts
from storage.columns import copy_row_with_changes
from storage.models import Audit, Run
from storage.record_copies import list_record_tables
from storage.store import Store
from storage.transaction import fetch_rows
from storage.transcripts import AttachedFile, WithheldReason
from tests.storage.builders import AT, seed

WORDS = "what nobody is to find "


def file(run: Run, ts: str, media: str = "image/png", size: int = 7) -> AttachedFile:
    """A file of that run's thread."""
    return AttachedFile(
        run_id=run.id,
        message=transcripts.build_message_key(run.team, run.channel, ts),
        slack_id=f"F{ts}",
        person="U1",
        media=media,
        size=size,
        sha256="0" * 64,
        data=WORDS * 1000,
        created_at=AT,
    )


def test_a_thread_has_room_for_so_many_bytes(store: Store) -> None:
    """Pictures and PDFs of all requests in the thread count, as long as they are given; texts and
    other threads do not.
    """
    run, later = seed(store).run(), seed(store).run()
    with store.write() as tx:
        picture = file(run, "1.1", size=100)
        for each in (picture, file(run, "1.2", "application/pdf", 20)):
            transcripts.insert_attached_file(tx, each, at=AT)
        transcripts.insert_attached_file(
            tx, file(run, "1.3", transcripts.TEXT_MEDIA_TYPE, 3), at=AT
        )
        transcripts.insert_attached_file(tx, file(later, "2.2", size=1000), at=AT)
        assert transcripts.sum_attached_file_bytes(tx, run) == 1120
        assert (
            transcripts.sum_attached_file_bytes(tx, copy_row_with_changes(run, thread_ts="3.0"))
            == 0
        )
        transcripts.withhold_file(tx, picture, WithheldReason.DELETED, at=AT, actor="system")
        assert transcripts.sum_attached_file_bytes(tx, run) == 1020


def test_what_is_withheld_leaves_no_trace(store: Store, tmp_path: Path) -> None:
    """Its bytes are gone from the row and from the database's file; once withheld it stays so, and
    the audit says when and why.
    """
    run = seed(store).run()
    with store.write() as tx:
        transcripts.insert_attached_file(tx, file(run, "1.1"), at=AT)
    [mine] = everything(store)
    with store.write() as tx:
        transcripts.mark_file_accepted(tx, mine, AT)
        transcripts.withhold_file(tx, mine, WithheldReason.REFUSED, at=AT, actor="worker")
        transcripts.withhold_file(tx, mine, WithheldReason.DELETED, at=AT, actor="system")
        assert transcripts.list_files_of_message(tx, mine.message) == []
        found = fetch_rows(tx, Audit, select(Audit).where(col(Audit.event).startswith("file.")))
    assert [each.event for each in found] == ["file.given", "file.refused"]
    assert json.loads(found[1].data)["file"] == "F1.1"
    assert mine.sha256 in found[0].payload  # a purge empties that
    assert mine.sha256 not in found[0].data
    store.close()
    for each in tmp_path.glob("countersign.db*"):
        assert WORDS.encode() not in each.read_bytes(), each
    store.open()
    [now] = everything(store)
    assert (now.withheld, now.data, now.read_at) == (WithheldReason.REFUSED, "", AT)


def test_a_channel_with_another_id_keeps_its_files(store: Store) -> None:
    """Their messages are known by the new id, so that what is deleted there is found."""
    run = seed(store).run()
    with store.write() as tx:
        transcripts.insert_attached_file(tx, file(run, "1.1"), at=AT)
        channel_modes.change_channel_id(tx, run.team, run.channel, "C0NEW", at=AT)
        [found] = transcripts.list_files_of_message(
            tx, transcripts.build_message_key(run.team, "C0NEW", "1.1")
        )
    assert found.slack_id == "F1.1"


def test_they_are_copied_with_the_record() -> None:
    """A copy into another database takes them along."""
    assert "attached" in [each.name for each in list_record_tables()]


def everything(store: Store) -> list[AttachedFile]:
    with store.read() as tx:
        return fetch_rows(tx, AttachedFile, select(AttachedFile))
