"""Purging: what goes, what stays, what is let through, and that nothing else is."""

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
def over(tmp_path: Path) -> Iterator[LoopHarness]:
    """A request whose one call was approved by Ana and run; it has ended."""
    harness = approved(tmp_path / "countersign.db")
    harness.returned = "a long result " * 1000  # it fills pages of its own
    harness.work()
    [call] = harness.all()[1]
    said = PersonAnswer(call_id=call.id, revision=1, person=BEN, given='{"a0":"said"}')
    said.created_at = AT
    with harness.store.write() as tx:
        tx.execute(build_insert(PersonAnswer), get_column_values(said))
        attached_files.insert_attached_file(
            tx, attached_to(call.run_id, "a long result " * 1000), at=AT
        )
        for message in harness.all()[3]:
            tx.execute(update(Message).where(col(Message.seq) == message.seq).values(status="sent"))
    yield harness
    harness.stop()


def attached_to(run_id: str, data: str) -> AttachedFile:
    """A file of that run."""
    file = AttachedFile(run_id=run_id, message="m", slack_id="F1", person=BEN, media="text/plain")
    file.size, file.sha256, file.data, file.created_at = len(data), "5ec7e7" * 10, data, AT
    return file


def purged(harness: LoopHarness) -> str:
    """Purge the only request; returns its id."""
    with harness.store.read() as tx:
        [run] = purge.list_requests_to_purge(tx, LATER)
    with harness.store.write() as tx:
        purge.purge_old_deliveries(tx, LATER)
        purge.erase_old_delegation_notes_and_links(tx, LATER)
        assert purge.purge_requests(tx, [run], LATER, at=LATER, actor="clock")
    return run


def examined(store: Store) -> ExaminationResult:
    """What `audit verify` finds, but for the head file."""
    with store.read() as tx:
        return examine_audit_and_rows(tx, store.chain, trail.get_audit_head(tx))


def test_what_was_said_goes(over: LoopHarness) -> None:
    """Words, arguments, results and payloads are gone from every table, and from the file."""
    purged(over)
    with over.store.read() as tx:
        [call] = fetch_rows(tx, Call, select(Call))
        assert (call.output, call.note, call.reason, call.names) == ("", "", "", "{}")
        assert {each.arguments for each in fetch_rows(tx, Revision, select(Revision))} == {"{}"}
        assert {each.body for each in fetch_rows(tx, Item, select(Item))} == {"{}"}
        assert {each.body for each in fetch_rows(tx, Delivery, select(Delivery))} == {"{}"}
        assert fetch_rows(tx, Message, select(Message)) == []
        assert fetch_rows(tx, AttachedFile, select(AttachedFile)) == []
    over.store.close()
    for file in over.path.parent.glob(f"{over.path.name}*"):
        assert b"as shown" not in file.read_bytes(), file
        assert b"a long result" not in file.read_bytes(), file
        assert b"5ec7e7" not in file.read_bytes(), file
    over.store = Store(f"sqlite:///{over.path}").open()


def test_what_was_decided_stays_and_holds(over: LoopHarness) -> None:
    """Statuses, digests, votes and every row of the audit; the record is sound and says it."""
    before = over.all()
    run = purged(over)
    after = over.all()
    assert [each.digest for each in after[1]] == [each.digest for each in before[1]]
    assert [each.status for each in after[1]] == [CallStatus.SUCCEEDED]
    assert [each.hash for each in after[2]][:-1] == [each.hash for each in before[2]]
    assert [(each.person, each.verb) for each in over.votes(after[1][0].id, 1)] == [
        (ANA, "approve")
    ]
    assert (after[2][-1].event, json.loads(after[2][-1].data)["runs"]) == ("run.purged", [run])
    found = examined(over.store)
    assert found.problems == []
    assert any("the payload of 1 request was purged" in each for each in found.remarks)


def test_a_purged_request_is_not_due_again(over: LoopHarness) -> None:
    """Once is enough, also for whoever chose it before it was done."""
    run = purged(over)
    with over.store.write() as tx:
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
def test_what_is_open_or_new_is_not_due(
    over: LoopHarness, change: type[Run | Call | Message], values: dict[str, object]
) -> None:
    """Nothing goes of a request that moves, has moved since, waits for people or for Slack."""
    with over.store.write() as tx:
        assert len(purge.list_requests_to_purge(tx, LATER)) == 1
        tx.execute(update(change).values(**values))
        if change is Call:
            tx.execute(update(Call).values(deadline=LATER))
        assert purge.list_requests_to_purge(tx, LATER) == []


def test_a_thread_is_purged_as_a_whole(over: LoopHarness) -> None:
    """While somebody asks on in a thread, its older requests keep their transcript."""
    over.model.script = [[("note", "asked later")]]
    over.say("again", person=BEN)
    over.loop.tick()
    over.work()
    with over.store.read() as tx:
        assert purge.list_requests_to_purge(tx, LATER) == []


def test_the_transcript_begins_anew(over: LoopHarness) -> None:
    """What is purged is not sent to the model, neither from the rows nor from memory."""
    run = over.all()[0][0]
    transcripts = over.core.transcripts
    with over.store.read() as tx:
        assert transcripts.read_transcript(tx, run).items
    purged(over)
    with over.store.read() as tx:
        assert transcripts.read_transcript(tx, run).items == ()
        assert list_transcript_items(tx, run) == []


def test_only_a_purge_is_let_through(over: LoopHarness) -> None:
    """In a purged request rows are emptied and nothing else; in any other they are not."""
    with closing(sqlite3.connect(over.path, isolation_level=None)) as raw:
        for table, (column, empty, *_) in EMPTIED_COLUMN_BY_TABLE.items():
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(f"UPDATE {table} SET {column} = '{empty}' WHERE {column} != '{empty}'")
        purged(over)
        for table, (column, empty, others, _) in EMPTIED_COLUMN_BY_TABLE.items():
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(f"UPDATE {table} SET {column} = 'another'")
            for other in others.split():
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    raw.execute(f"UPDATE {table} SET {column} = '{empty}', {other} = -7")
            if table not in DELETABLE_TABLES:
                with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                    raw.execute(f"DELETE FROM {table}")


def test_rows_go_with_a_purged_request_alone(over: LoopHarness) -> None:
    """Those of another one cannot be deleted; the newest row stays, for its number."""
    for table in DELETABLE_TABLES:
        with pytest.raises(Exception, match="append-only"), over.store.write() as tx:
            tx.exec_driver_sql(f"DELETE FROM {table}")
    with over.store.read() as tx:
        before = (
            len(fetch_rows(tx, Item, select(Item))),
            len(fetch_rows(tx, Delivery, select(Delivery))),
        )
    assert before[0] > 1
    purged(over)
    with over.store.read() as tx:
        [item], [delivery] = (
            fetch_rows(tx, Item, select(Item)),
            fetch_rows(tx, Delivery, select(Delivery)),
        )
    assert (item.body, delivery.body) == ("{}", "{}")
    assert item.seq == before[0]
    with over.store.write() as tx:
        for table in DELETABLE_TABLES:
            tx.exec_driver_sql(f"DELETE FROM {table}")


def test_a_programs_key_outlives_the_purge(over: LoopHarness) -> None:
    """Who asks with the same key again is not taken for somebody new."""
    with over.store.write() as tx:
        tx.execute(update(Delivery).values(kind=DeliveryKind.PROGRAM))
        kept = len(
            fetch_rows(tx, Delivery, select(Delivery).where(col(Delivery.run_id).is_not(None)))
        )
    purged(over)
    with over.store.read() as tx:
        found = fetch_rows(tx, Delivery, select(Delivery).where(col(Delivery.run_id).is_not(None)))
    assert [each.body for each in found] == ["{}"] * kept


def test_every_column_is_guarded() -> None:
    """A column that is added to such a table has to be named beside the others."""
    models = {"audit": Audit, "revision": Revision, "answer": PersonAnswer, "item": Item}
    assert models.keys() == EMPTIED_COLUMN_BY_TABLE.keys()
    assert set(APPEND_ONLY_TABLES) - models.keys() == {"vote", "signature", "attempt", "mode"}
    for table, (column, _, others, _) in EMPTIED_COLUMN_BY_TABLE.items():
        assert {column, *others.split()} == set(models[table].model_fields)


def test_what_nobody_purged_is_missed(over: LoopHarness) -> None:
    """Who marks a request by hand and empties it is found out: the audit has no such row."""
    with closing(sqlite3.connect(over.path, isolation_level=None)) as raw:
        raw.execute("UPDATE run SET purged_at = 1")
        raw.execute("UPDATE audit SET payload = ''")
        raw.execute("UPDATE revision SET arguments = '{}'")
    problems = " ".join(examined(over.store).problems)
    assert "is marked as purged, and the audit does not say so" in problems
    assert "of arguments was removed" in problems
    assert "are not those that the audit has sealed" in problems


def test_another_payload_is_found(over: LoopHarness) -> None:
    """What the audit keeps of arguments stands under a seal, as the rest does."""
    [birth] = [row for row in over.all()[2] if row.payload and row.call_id]
    assert json.loads(birth.payload) == {"arguments": {"text": "as shown"}}
    with closing(sqlite3.connect(over.path, isolation_level=None)) as raw:
        raw.execute("DROP TRIGGER audit_no_update")
        raw.execute("UPDATE audit SET payload = replace(payload, 'shown', 'forged')")
    assert f"row {birth.seq} of the audit was changed" in examined(over.store).problems[0]


def test_votes_keep_their_words(over: LoopHarness) -> None:
    """What people said when they decided is part of the decision."""
    purged(over)
    with over.store.read() as tx:
        assert len(fetch_rows(tx, Vote, select(Vote))) == 1


def test_what_was_said_of_a_delegation_goes(over: LoopHarness) -> None:
    """Once it has ended; what holds still keeps its words."""
    moments = {"over": AT, "ended early": LATER + timedelta(days=9), "holds": LATER}
    with over.store.write() as tx:
        for number, (words, until) in enumerate(moments.items()):
            until += timedelta(hours=1 + number)
            row = Delegation(team="T", giver=ANA, delegate=BEN, words=words)
            row.given_at, row.until = AT, until
            row.revoked_at = AT if words == "ended early" else None
            tx.execute(build_insert(Delegation), get_column_values(row))
    purged(over)
    with over.store.read() as tx:
        kept = [each.words for each in fetch_rows(tx, Delegation, select(Delegation))]
    assert sorted(kept) == ["", "", "holds"]
