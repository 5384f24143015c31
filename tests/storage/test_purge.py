"""Purging: what is erased, what stays, and that triggers allow nothing else."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlmodel import col

from storage import purge, trail
from storage import transcripts as attached_files
from storage.columns import get_column_values
from storage.delegations import Delegation
from storage.examination import ExaminationResult, examine_audit_and_rows
from storage.models import (
    APPEND_ONLY_TABLES,
    DELETABLE_TABLES,
    EMPTIED_COLUMN_BY_TABLE,
    Audit,
    Call,
    Delivery,
    Item,
    Message,
    PersonAnswer,
    Revision,
    Run,
    Vote,
)
from storage.states import CallStatus, DeliveryKind, RunStatus
from storage.store import Store
from storage.transaction import build_insert, fetch_rows
from storage.transcripts import AttachedFile
from tests.record_checks import list_transcript_items
from tests.runs.fakes import ANA, BEN
from tests.runs.harness import LoopHarness, approved
from tests.storage.builders import AT

LATER = AT + timedelta(days=1)


@pytest.fixture
def ended_request(tmp_path: Path) -> Iterator[LoopHarness]:
    """A request that has ended; Ana approved its only call."""
    harness = approved(tmp_path / "countersign.db")
    harness.returned = "a long result " * 1000  # long enough to fill whole pages
    harness.work()
    [call] = harness.all()[1]
    said = PersonAnswer(call_id=call.id, revision=1, person=BEN, given='{"a0":"said"}')
    said.created_at = AT
    with harness.store.write() as tx:
        tx.execute(build_insert(PersonAnswer), get_column_values(said))
        attached_files.insert_attached_file(
            tx, make_file(call.run_id, "a long result " * 1000), at=AT
        )
        for message in harness.all()[3]:
            tx.execute(update(Message).where(col(Message.seq) == message.seq).values(status="sent"))
    yield harness
    harness.stop()


def make_file(run_id: str, data: str) -> AttachedFile:
    """A file of that run."""
    file = AttachedFile(run_id=run_id, message="m", slack_id="F1", person=BEN, media="text/plain")
    file.size, file.sha256, file.data, file.created_at = len(data), "5ec7e7" * 10, data, AT
    return file


def purge_request(harness: LoopHarness) -> str:
    """Purge the only request; returns its id."""
    with harness.store.read() as tx:
        [run] = purge.list_requests_to_purge(tx, LATER)
    with harness.store.write() as tx:
        purge.purge_old_deliveries(tx, LATER)
        purge.erase_old_delegation_notes_and_links(tx, LATER)
        assert purge.purge_requests(tx, [run], LATER, at=LATER, actor="clock")
    return run


def examine_record(store: Store) -> ExaminationResult:
    """What `audit verify` finds, but for the head file."""
    with store.read() as tx:
        return examine_audit_and_rows(tx, store.chain, trail.get_audit_head(tx))


def test_words_arguments_and_results_are_erased_from_the_file(ended_request: LoopHarness) -> None:
    """No table has them either."""
    purge_request(ended_request)
    with ended_request.store.read() as tx:
        [call] = fetch_rows(tx, Call, select(Call))
        assert (call.output, call.note, call.reason, call.names) == ("", "", "", "{}")
        assert {each.arguments for each in fetch_rows(tx, Revision, select(Revision))} == {"{}"}
        assert {each.body for each in fetch_rows(tx, Item, select(Item))} == {"{}"}
        assert {each.body for each in fetch_rows(tx, Delivery, select(Delivery))} == {"{}"}
        assert fetch_rows(tx, Message, select(Message)) == []
        assert fetch_rows(tx, AttachedFile, select(AttachedFile)) == []
    ended_request.store.close()
    for file in ended_request.path.parent.glob(f"{ended_request.path.name}*"):
        assert b"as shown" not in file.read_bytes(), file
        assert b"a long result" not in file.read_bytes(), file
        assert b"5ec7e7" not in file.read_bytes(), file
    ended_request.store = Store(f"sqlite:///{ended_request.path}").open()


def test_decisions_and_the_audit_stay_and_verify(ended_request: LoopHarness) -> None:
    """Statuses, digests and votes stay, and the audit records the purge."""
    before = ended_request.all()
    run = purge_request(ended_request)
    after = ended_request.all()
    assert [each.digest for each in after[1]] == [each.digest for each in before[1]]
    assert [each.status for each in after[1]] == [CallStatus.SUCCEEDED]
    assert [each.hash for each in after[2]][:-1] == [each.hash for each in before[2]]
    assert [(each.person, each.verb) for each in ended_request.votes(after[1][0].id, 1)] == [
        (ANA, "approve")
    ]
    assert (after[2][-1].event, json.loads(after[2][-1].data)["runs"]) == ("run.purged", [run])
    found = examine_record(ended_request.store)
    assert found.problems == []
    assert any("the payload of 1 request was purged" in each for each in found.remarks)


def test_a_request_is_purged_once(ended_request: LoopHarness) -> None:
    """A second purge that chose it before does nothing."""
    run = purge_request(ended_request)
    with ended_request.store.write() as tx:
        assert purge.list_requests_to_purge(tx, LATER) == []
        assert not purge.purge_requests(tx, [run], LATER, at=LATER, actor="clock")


@pytest.mark.parametrize(
    ("change", "values"),
    [
        (Run, {"status": RunStatus.WAITING}),
        (Run, {"updated_at": LATER}),
        (Call, {"status": CallStatus.UNKNOWN}),
        (Call, {"status": CallStatus.RUNNING}),
        (Message, {"status": "stale"}),
    ],
)
def test_open_or_recent_requests_are_not_purged(
    ended_request: LoopHarness, change: type[Run | Call | Message], values: dict[str, object]
) -> None:
    """They wait for people or for Slack, or have changed since."""
    with ended_request.store.write() as tx:
        assert len(purge.list_requests_to_purge(tx, LATER)) == 1
        tx.execute(update(change).values(**values))
        if change is Call:
            tx.execute(update(Call).values(deadline=LATER))
        assert purge.list_requests_to_purge(tx, LATER) == []


def test_a_thread_is_purged_as_a_whole(ended_request: LoopHarness) -> None:
    """While somebody goes on asking in it, its older requests keep their transcript."""
    ended_request.model.script = [[("note", "asked later")]]
    ended_request.say("again", person=BEN)
    ended_request.loop.tick()
    ended_request.work()
    with ended_request.store.read() as tx:
        assert purge.list_requests_to_purge(tx, LATER) == []


def test_a_purged_transcript_is_not_sent_to_the_model(ended_request: LoopHarness) -> None:
    """Neither the rows nor the cache have it."""
    run = ended_request.all()[0][0]
    transcripts = ended_request.core.transcripts
    with ended_request.store.read() as tx:
        assert transcripts.read_transcript(tx, run).items
    purge_request(ended_request)
    with ended_request.store.read() as tx:
        assert transcripts.read_transcript(tx, run).items == ()
        assert list_transcript_items(tx, run) == []


def test_triggers_allow_only_the_emptying_of_purged_requests(ended_request: LoopHarness) -> None:
    """Other requests and other columns cannot be changed."""
    with closing(sqlite3.connect(ended_request.path, isolation_level=None)) as raw:
        for table, (column, empty, *_) in EMPTIED_COLUMN_BY_TABLE.items():
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(f"UPDATE {table} SET {column} = '{empty}' WHERE {column} != '{empty}'")
        purge_request(ended_request)
        for table, (column, empty, others, _) in EMPTIED_COLUMN_BY_TABLE.items():
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(f"UPDATE {table} SET {column} = 'another'")
            for other in others.split():
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    raw.execute(f"UPDATE {table} SET {column} = '{empty}', {other} = -7")
            if table not in DELETABLE_TABLES:
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    raw.execute(f"DELETE FROM {table}")


def test_only_rows_of_purged_requests_can_be_deleted(ended_request: LoopHarness) -> None:
    """The newest row stays, so that its number is not used again."""
    for table in DELETABLE_TABLES:
        with pytest.raises(Exception, match="append-only"), ended_request.store.write() as tx:
            tx.exec_driver_sql(f"DELETE FROM {table}")
    with ended_request.store.read() as tx:
        before = (
            len(fetch_rows(tx, Item, select(Item))),
            len(fetch_rows(tx, Delivery, select(Delivery))),
        )
    assert before[0] > 1
    purge_request(ended_request)
    with ended_request.store.read() as tx:
        [item], [delivery] = (
            fetch_rows(tx, Item, select(Item)),
            fetch_rows(tx, Delivery, select(Delivery)),
        )
    assert (item.body, delivery.body) == ("{}", "{}")
    assert item.seq == before[0]
    with ended_request.store.write() as tx:
        for table in DELETABLE_TABLES:
            tx.exec_driver_sql(f"DELETE FROM {table}")


def test_the_purge_keeps_a_programs_idempotency_key(ended_request: LoopHarness) -> None:
    """A program that asks with it again gets no second request."""
    with ended_request.store.write() as tx:
        tx.execute(update(Delivery).values(kind=DeliveryKind.PROGRAM))
        kept = len(
            fetch_rows(tx, Delivery, select(Delivery).where(col(Delivery.run_id).is_not(None)))
        )
    purge_request(ended_request)
    with ended_request.store.read() as tx:
        found = fetch_rows(tx, Delivery, select(Delivery).where(col(Delivery.run_id).is_not(None)))
    assert [each.body for each in found] == ["{}"] * kept


def test_every_column_of_emptied_tables_is_named_in_their_triggers() -> None:
    """A new column of them has to be added there."""
    models = {"audit": Audit, "revision": Revision, "answer": PersonAnswer, "item": Item}
    assert models.keys() == EMPTIED_COLUMN_BY_TABLE.keys()
    assert set(APPEND_ONLY_TABLES) - models.keys() == {"vote", "signature", "attempt", "mode"}
    for table, (column, _, others, _) in EMPTIED_COLUMN_BY_TABLE.items():
        assert {column, *others.split()} == set(models[table].model_fields)


def test_emptying_a_request_by_hand_is_found(ended_request: LoopHarness) -> None:
    """The audit has no row about the purge."""
    with closing(sqlite3.connect(ended_request.path, isolation_level=None)) as raw:
        raw.execute("UPDATE run SET purged_at = 1")
        raw.execute("UPDATE audit SET payload = ''")
        raw.execute("UPDATE revision SET arguments = '{}'")
    problems = " ".join(examine_record(ended_request.store).problems)
    assert "is marked as purged, and the audit does not say so" in problems
    assert "of arguments was removed" in problems
    assert "are not those that the audit has sealed" in problems


def test_a_changed_payload_of_the_audit_is_found(ended_request: LoopHarness) -> None:
    """It is sealed like the rest."""
    [birth] = [row for row in ended_request.all()[2] if row.payload and row.call_id]
    assert json.loads(birth.payload) == {"arguments": {"text": "as shown"}}
    with closing(sqlite3.connect(ended_request.path, isolation_level=None)) as raw:
        raw.execute("DROP TRIGGER audit_no_update")
        raw.execute("UPDATE audit SET payload = replace(payload, 'shown', 'forged')")
    assert (
        f"row {birth.seq} of the audit was changed"
        in examine_record(ended_request.store).problems[0]
    )


def test_votes_keep_their_reasons(ended_request: LoopHarness) -> None:
    """They are part of the decision."""
    purge_request(ended_request)
    with ended_request.store.read() as tx:
        assert len(fetch_rows(tx, Vote, select(Vote))) == 1


def test_words_of_ended_delegations_are_erased(ended_request: LoopHarness) -> None:
    """Those of delegations in force stay."""
    moments = {"over": AT, "ended early": LATER + timedelta(days=9), "holds": LATER}
    with ended_request.store.write() as tx:
        for number, (words, until) in enumerate(moments.items()):
            until += timedelta(hours=1 + number)
            row = Delegation(team="T", giver=ANA, delegate=BEN, words=words)
            row.given_at, row.until = AT, until
            row.revoked_at = AT if words == "ended early" else None
            tx.execute(build_insert(Delegation), get_column_values(row))
    purge_request(ended_request)
    with ended_request.store.read() as tx:
        kept = [each.words for each in fetch_rows(tx, Delegation, select(Delegation))]
    assert sorted(kept) == ["", "", "holds"]
