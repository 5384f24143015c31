"""What the audit's key and the file beside the database show: no row changed, none cut off."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bot.agent import outputs
from storage import decisions, trail
from storage.digest import AuditChainSealer, AuditHead
from storage.examination import examine_audit_and_rows
from storage.models import Audit
from storage.store import Store
from storage.trail import AuditHeadFile, audit_head_file_path
from storage.transaction import Trace, Transaction, iterate_rows
from tests.records import ON_A_SERVER
from tests.storage.builders import AT, ONE, seed


def noted(store: Store) -> AuditHead | None:
    """What the file says."""
    return AuditHeadFile(audit_head_file_path(store.path), store.chain).read_head()


def problems(store: Store) -> list[str]:
    """What is wrong with the record, as its reader is told."""
    with store.read() as tx:
        return examine_audit_and_rows(tx, store.chain, noted(store)).problems


def append(store: Store, text: str, *, durable: bool = True) -> None:
    """One more row."""
    with store.write(durable=durable) as tx:
        trail.record_event(tx, "note", at=AT, actor="system", data={"text": text})


@pytest.fixture
def written(store: Store) -> Store:
    """A record of five rows."""
    for number in range(5):
        append(store, str(number))
    assert problems(store) == []
    return store


def cut(db: sqlite3.Connection) -> None:
    """Take the last three rows away."""
    db.execute("DELETE FROM audit WHERE seq > 2")


def rehash(db: sqlite3.Connection) -> None:
    """Put somebody else in the third row, and seal it and all that follow with another key."""
    other, before = AuditChainSealer(b"another key, of 32 characters ok"), AuditHead()
    db.row_factory = sqlite3.Row
    for row in map(dict, db.execute("SELECT * FROM audit ORDER BY seq").fetchall()):
        actor = "UEVE00001" if row["seq"] == 3 else row["actor"]
        if row["seq"] >= 3:
            sealed = other.compute_next_audit_head(
                before, AT, "", "", actor, row["event"], row["data"]
            )
            db.execute(
                "UPDATE audit SET actor = ?, previous = ?, hash = ? WHERE seq = ?",
                (actor, before.hash, sealed.hash, row["seq"]),
            )
            row["hash"] = sealed.hash
        before = AuditHead(row["seq"], row["hash"])


def rename(db: sqlite3.Connection) -> None:
    """The same, with the name of the other key in its rows."""
    rehash(db)
    db.execute("UPDATE audit SET key_id = 'cafecafe' WHERE seq >= 3")


@pytest.mark.parametrize("attack", [cut, rehash, rename])
def test_what_who_writes_the_database_cannot_hide(
    written: Store, attack: Callable[[sqlite3.Connection], None]
) -> None:
    """Rows cut off at the end, and rows sealed anew without the key, are found."""
    with closing(sqlite3.connect(written.path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER audit_no_delete")
        db.execute("DROP TRIGGER audit_no_update")
        attack(db)
    assert problems(written) != []


def test_votes_and_statuses_agree_with_the_chain(store: Store) -> None:
    """A vote or a status that was written past the door is not in the chain, and is told."""
    seeded = seed(store)
    with store.write() as tx:
        # as its birth would have been recorded
        for about in ({"run_id": seeded.run_id}, {"call_id": seeded.ids[0]}):
            data = {"from": "", "to": "waiting" if "run_id" in about else "pending"}
            trail.record_event(tx, "seeded", at=AT, actor="system", data=data, **about)
    vote = (seeded.ids[0], 1, "approve", "UANA00001")
    with store.write() as tx:
        decisions.apply_vote(tx, *vote, at=AT, count_votes=ONE, words=outputs)
    assert problems(store) == []
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("UPDATE call SET status = 'pending'")
        db.execute(
            "INSERT INTO vote (call_id, revision, person, verb, stage, also, digest, reason,"
            " for_person, created_at) SELECT call_id, revision, 'UEVE00001', verb, stage,"
            " also, digest, reason, '', created_at FROM vote"
        )
    [status, missing] = problems(store)
    assert "is pending, and the audit does not say so" in status
    assert "does not mention UEVE00001's vote" in missing


def test_the_head_is_noted_once_it_is_on_the_disk(store: Store) -> None:
    """A commit that does not wait for the disk is noted when something has waited for it."""
    append(store, "one")
    assert noted(store) == AuditHead(1, rows_of(store)[0].hash)
    append(store, "two", durable=False)
    assert (noted(store) or AuditHead()).seq == 1
    assert problems(store) == []  # behind, as a crash would leave it
    store.sync_commits()
    assert (noted(store) or AuditHead()).seq == 2


def rows_of(store: Store) -> list[Audit]:
    """The audit."""
    with store.read() as tx:
        return list(iterate_rows(tx, Audit))


def test_a_torn_line_leaves_the_one_before(written: Store) -> None:
    """Half a line, or one signed by nobody, does not count; the other of the two does."""
    path = audit_head_file_path(written.path)
    whole = path.read_bytes()
    second = whole.index(b"countersign-head 5")
    path.write_bytes(whole[: second + 40] + b" " * 40 + whole[second + 80 :])
    assert (noted(written) or AuditHead()).seq == 4
    path.write_bytes(whole.replace(b"countersign-head 5", b"countersign-head 9"))
    assert (noted(written) or AuditHead()).seq == 4
    path.unlink()
    assert problems(written) == ["the head file is missing or not signed with the key in use"]


def test_only_the_owner_reads_the_files(tmp_path: Path) -> None:
    """The database, what SQLite lays beside it, key, head and lock; also those there before."""
    path = tmp_path / "open.db"
    path.touch(0o644)
    path.chmod(0o644)
    store = Store(f"sqlite:///{path}").open()
    append(store, "one")
    modes = {each.name: oct(each.stat().st_mode & 0o777) for each in tmp_path.iterdir()}
    store.close()
    assert modes == {
        f"open.db{end}": "0o600" for end in ("", "-wal", "-shm", ".key", ".head", ".lock")
    }


class DiesAfterTheCommit(Trace):
    """Keeps the files as a process leaves them that dies before it can note the head."""

    def __init__(self, store: Store, left: Path) -> None:
        self.store, self.left = store, left

    def after_commit(self, tx: Transaction) -> None:
        """Copy them."""
        if tx.writes:
            shutil.copytree(self.store.path.parent, self.left)


@pytest.mark.skipif(ON_A_SERVER, reason="a server has no file beside it")
def test_a_death_after_the_first_row_is_no_older_record(store: Store, tmp_path: Path) -> None:
    """The head of an empty record is noted at its first start, so the next one goes on with it."""
    left = tmp_path / "left"
    store.trace = DiesAfterTheCommit(store, left)
    append(store, "the first")
    again = Store(f"sqlite:///{left / store.path.name}").open()
    assert again.mismatch_reason == ""
    assert problems(again) == []
    again.close()
