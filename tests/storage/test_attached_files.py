"""Files kept for the model: their total size, withholding, and a channel's new id."""

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


def make_file(run: Run, ts: str, media: str = "image/png", size: int = 7) -> AttachedFile:
    """A file in that run's thread."""
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


def test_attached_bytes_are_summed_for_the_thread(store: Store) -> None:
    """Pictures and PDFs of all its requests count until withheld, but texts do not."""
    run, later = seed(store).run(), seed(store).run()
    with store.write() as tx:
        picture = make_file(run, "1.1", size=100)
        for each in (picture, make_file(run, "1.2", "application/pdf", 20)):
            transcripts.insert_attached_file(tx, each, at=AT)
        transcripts.insert_attached_file(
            tx, make_file(run, "1.3", transcripts.TEXT_MEDIA_TYPE, 3), at=AT
        )
        transcripts.insert_attached_file(tx, make_file(later, "2.2", size=1000), at=AT)
        assert transcripts.sum_attached_file_bytes(tx, run) == 1120
        assert (
            transcripts.sum_attached_file_bytes(tx, copy_row_with_changes(run, thread_ts="3.0"))
            == 0
        )
        transcripts.withhold_file(tx, picture, WithheldReason.DELETED, at=AT, actor="system")
        assert transcripts.sum_attached_file_bytes(tx, run) == 1020


def test_a_withheld_files_bytes_are_erased_from_the_database(store: Store, tmp_path: Path) -> None:
    """It stays withheld, and the audit says when and why."""
    run = seed(store).run()
    with store.write() as tx:
        transcripts.insert_attached_file(tx, make_file(run, "1.1"), at=AT)
    [mine] = list_files(store)
    with store.write() as tx:
        transcripts.mark_file_accepted(tx, mine, AT)
        transcripts.withhold_file(tx, mine, WithheldReason.REFUSED, at=AT, actor="worker")
        transcripts.withhold_file(tx, mine, WithheldReason.DELETED, at=AT, actor="system")
        assert transcripts.list_files_of_message(tx, mine.message) == []
        found = fetch_rows(tx, Audit, select(Audit).where(col(Audit.event).startswith("file.")))
    assert [each.event for each in found] == ["file.given", "file.refused"]
    assert json.loads(found[1].data)["file"] == "F1.1"
    assert mine.sha256 in found[0].payload  # a purge empties the payload
    assert mine.sha256 not in found[0].data
    store.close()
    for each in tmp_path.glob("countersign.db*"):
        assert WORDS.encode() not in each.read_bytes(), each
    store.open()
    [now] = list_files(store)
    assert (now.withheld, now.data, now.read_at) == (WithheldReason.REFUSED, "", AT)


def test_a_channels_files_follow_its_new_id(store: Store) -> None:
    """A message deleted under the new id is found."""
    run = seed(store).run()
    with store.write() as tx:
        transcripts.insert_attached_file(tx, make_file(run, "1.1"), at=AT)
        channel_modes.change_channel_id(tx, run.team, run.channel, "C0NEW", at=AT)
        [found] = transcripts.list_files_of_message(
            tx, transcripts.build_message_key(run.team, "C0NEW", "1.1")
        )
    assert found.slack_id == "F1.1"


def test_attached_files_are_copied_with_the_record() -> None:
    """Copies into another database include their table."""
    assert "attached" in [each.name for each in list_record_tables()]


def list_files(store: Store) -> list[AttachedFile]:
    with store.read() as tx:
        return fetch_rows(tx, AttachedFile, select(AttachedFile))
