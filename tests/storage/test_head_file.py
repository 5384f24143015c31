"""The audit's key and the head file show whether rows were changed or cut off."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from storage import decisions, trail
from storage.digest import AuditChainSealer, AuditHead
from storage.examination import examine_audit_and_rows
from storage.models import Audit
from storage.store import Store
from storage.trail import AuditHeadFile, audit_head_file_path
from storage.transaction import Trace, Transaction, iterate_rows
from tests.records import ON_A_SERVER
from tests.storage.builders import AT, ONE, build_vote, seed


def get_head(store: Store) -> AuditHead | None:
    """The head that the file says."""
    return AuditHeadFile(audit_head_file_path(store.path), store.chain).read_head()


def list_problems(store: Store) -> list[str]:
    """What is wrong with the record."""
    with store.read() as tx:
        return examine_audit_and_rows(tx, store.chain, get_head(store)).problems


def append_row(store: Store, text: str, *, durable: bool = True) -> None:
    """Append one row to the audit."""
    with store.write(durable=durable) as tx:
        trail.record_event(tx, "note", at=AT, actor="system", data={"text": text})


@pytest.fixture
def five_row_store(store: Store) -> Store:
    """A record of five rows."""
    for number in range(5):
        append_row(store, str(number))
    assert list_problems(store) == []
    return store


def cut_rows(db: sqlite3.Connection) -> None:
    """Take the last three rows away."""
    db.execute("DELETE FROM audit WHERE seq > 2")


def reseal_rows(db: sqlite3.Connection) -> None:
    """Change the person in the third row, and seal it and all later ones with another key."""
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


def reseal_rows_under_another_key(db: sqlite3.Connection) -> None:
    """The same, with the id of the other key in the rows."""
    reseal_rows(db)
    db.execute("UPDATE audit SET key_id = 'cafecafe' WHERE seq >= 3")


@pytest.mark.parametrize("attack", [cut_rows, reseal_rows, reseal_rows_under_another_key])
def test_rows_cut_off_or_sealed_with_another_key_are_found(
    five_row_store: Store, attack: Callable[[sqlite3.Connection], None]
) -> None:
    """The attacker can write the database and has not got the key."""
    with closing(sqlite3.connect(five_row_store.path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER audit_no_delete")
        db.execute("DROP TRIGGER audit_no_update")
        attack(db)
    assert list_problems(five_row_store) != []


def test_a_vote_or_status_that_the_audit_lacks_is_found(store: Store) -> None:
    """It was written directly into the table."""
    seeded = seed(store)
    with store.write() as tx:
        # as the audit records a new run and call
        for about in ({"run_id": seeded.run_id}, {"call_id": seeded.ids[0]}):
            data = {"from": "", "to": "waiting" if "run_id" in about else "pending"}
            trail.record_event(tx, "seeded", at=AT, actor="system", data=data, **about)
    vote = (seeded.ids[0], 1, "approve", "UANA00001")
    with store.write() as tx:
        decisions.apply_vote(tx, build_vote(*vote), ONE)
    assert list_problems(store) == []
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("UPDATE call SET status = 'pending'")
        db.execute(
            "INSERT INTO vote (call_id, revision, person, verb, stage, also, digest, reason,"
            " for_person, created_at) SELECT call_id, revision, 'UEVE00001', verb, stage,"
            " also, digest, reason, '', created_at FROM vote"
        )
    [status, missing] = list_problems(store)
    assert "is pending, and the audit does not say so" in status
    assert "does not mention UEVE00001's vote" in missing


def test_the_head_is_written_once_its_row_is_on_the_disk(store: Store) -> None:
    """A commit that does not wait for the disk is noted with the next one that does."""
    append_row(store, "one")
    assert get_head(store) == AuditHead(1, list_rows(store)[0].hash)
    append_row(store, "two", durable=False)
    assert (get_head(store) or AuditHead()).seq == 1
    assert list_problems(store) == []  # an older head, as a crash would leave it
    store.sync_commits()
    assert (get_head(store) or AuditHead()).seq == 2


def list_rows(store: Store) -> list[Audit]:
    """The rows of the audit."""
    with store.read() as tx:
        return list(iterate_rows(tx, Audit))


def test_a_torn_or_unsigned_line_leaves_the_other_head(five_row_store: Store) -> None:
    """The file has two lines, and the other one counts."""
    path = audit_head_file_path(five_row_store.path)
    whole = path.read_bytes()
    second = whole.index(b"countersign-head 5")
    path.write_bytes(whole[: second + 40] + b" " * 40 + whole[second + 80 :])
    assert (get_head(five_row_store) or AuditHead()).seq == 4
    path.write_bytes(whole.replace(b"countersign-head 5", b"countersign-head 9"))
    assert (get_head(five_row_store) or AuditHead()).seq == 4
    path.unlink()
    assert list_problems(five_row_store) == [
        "the head file is missing or not signed with the key in use"
    ]


@pytest.mark.skipif(ON_A_SERVER, reason="a server has no file beside it")
def test_a_start_does_not_overwrite_the_noted_head(tmp_path: Path) -> None:
    """It may be in either of the file's two lines."""
    for seq in (1, 2, 3):
        opened = Store(f"sqlite:///{tmp_path / 'again.db'}").open()
        assert (get_head(opened) or AuditHead()).seq == seq - 1
        assert opened.mismatch_reason == ""
        append_row(opened, str(seq))
        opened.close()


def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    """They are the database, SQLite's files, key, head and lock, also if they existed before."""
    path = tmp_path / "open.db"
    path.touch(0o644)
    path.chmod(0o644)
    store = Store(f"sqlite:///{path}").open()
    append_row(store, "one")
    modes = {each.name: oct(each.stat().st_mode & 0o777) for each in tmp_path.iterdir()}
    store.close()
    assert modes == {
        f"open.db{end}": "0o600" for end in ("", "-wal", "-shm", ".key", ".head", ".lock")
    }


class DiesAfterTheCommit(Trace):
    """Copies the files as a process leaves them that dies before it can write the head."""

    def __init__(self, store: Store, left: Path) -> None:
        self.store, self.left = store, left

    def after_commit(self, tx: Transaction) -> None:
        """Copy them."""
        if tx.writes:
            shutil.copytree(self.store.path.parent, self.left)


@pytest.mark.skipif(ON_A_SERVER, reason="a server has no file beside it")
def test_a_crash_after_the_first_row_does_not_look_like_an_old_record(
    store: Store, tmp_path: Path
) -> None:
    """An empty record's head is written at its first start, and the next start goes on from it."""
    left = tmp_path / "left"
    store.trace = DiesAfterTheCommit(store, left)
    append_row(store, "the first")
    again = Store(f"sqlite:///{left / store.path.name}").open()
    assert again.mismatch_reason == ""
    assert list_problems(again) == []
    again.close()
