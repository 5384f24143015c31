"""Migrations: the first schema is the models', the next keeps every row, a newer one is refused."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlmodel import SQLModel

import storage.migrations
from storage import decisions, runs
from storage.decisions import AppliedDecision, EarlierDecision
from storage.delegations import Delegation
from storage.grants import Grant
from storage.inbox import GreetedPerson
from storage.migrations import newest
from storage.models import APPEND_ONLY_TABLES
from storage.programs import ProgramApiKey
from storage.record_copies import CopyNote
from storage.replicas import ChannelSender, Pause, Replica
from storage.store import SchemaError, Store, migrate_schema
from storage.transaction import Trace
from storage.transcripts import AttachedFile
from storage.webhooks import Webhook
from tests.record_checks import find_first_broken_row
from tests.storage.builders import AT, ONE, C, R, Seeded, build_vote, seed

NEXT = '''
"""A change that only a batch can make, of tables that others refer to or that refuse changes."""
import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = {before!r}


def upgrade():
    for table in {tables!r}:
        with op.batch_alter_table(table, recreate="always") as batch:
            batch.add_column(sa.Column("extra", sa.Text(), nullable=False, server_default="x"))
    {more}
'''
HEAD = newest()
REBUILT = ("run", "plan", "call", "vote", "audit")


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A copy of the migrations, to which `add_migration` adds one."""
    ours = Path(storage.migrations.__file__).parent
    copied = tmp_path / "scripts"
    shutil.copytree(ours, copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def add_migration(scripts: Path, more: str = "pass") -> str:
    """Add or change the next migration; returns the folder of the migrations."""
    (scripts / "versions" / "v9999.py").write_text(
        NEXT.format(before=HEAD, tables=REBUILT, more=more)
    )
    shutil.rmtree(scripts / "versions" / "__pycache__", ignore_errors=True)
    return str(scripts)


def count_rows(path: Path) -> dict[str, int]:
    """How many rows each table has, and how many triggers there are."""
    with closing(sqlite3.connect(path)) as raw:
        names = [
            name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        found = {
            name: raw.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names
        }
        return found | {
            "triggers": len(
                raw.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchall()
            )
        }


def add_unfinished_work(store: Store) -> Seeded:
    """Calls that wait, are decided or unknown, and a transcript."""
    seeded = seed(store, C.PENDING, C.PENDING, C.UNKNOWN)
    with store.write() as tx:
        runs.append_transcript_item(tx, seeded.run(), {"role": "user", "content": "please"}, at=AT)
        decisions.apply_vote(tx, build_vote(seeded.ids[0], 1, "approve", "UANA00001"), ONE)
    return seeded


def test_the_migrations_make_the_schema_of_the_models(store: Store) -> None:
    """Alembic finds no difference."""
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        # tables defined beside their queries
        beside = (
            AttachedFile,
            ProgramApiKey,
            GreetedPerson,
            CopyNote,
            Delegation,
            Grant,
            Replica,
            ChannelSender,
            Pause,
            Webhook,
        )
        apart = {each.__tablename__ for each in beside}
        assert apart <= set(SQLModel.metadata.tables)
        assert compare_metadata(context, SQLModel.metadata) == []
        assert context.get_current_revision() == HEAD
    assert count_rows(store.path)["triggers"] == 2 * len(APPEND_ONLY_TABLES)


def test_opening_a_current_record_changes_nothing(store: Store) -> None:
    """No copy is made."""
    add_unfinished_work(store)
    before = count_rows(store.path)
    store.close()
    again = Store(f"sqlite:///{store.path}").open()
    again.close()
    assert count_rows(store.path) == before
    assert not list(store.path.parent.glob("*.before-*"))


class AskedStatements(Trace):
    """The statements that a database was given."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def before_statement(self, sql: str, values: object) -> None:
        """Keep the statement."""
        self.found.append(sql)


def reopen(store: Store) -> list[str]:
    """Open and close the same file; returns its statements."""
    again = Store(f"sqlite:///{store.path}")
    again.trace = asked = AskedStatements()
    again.open().close()
    return asked.found


def test_an_unchanged_schema_is_recognised_by_its_sql_text(store: Store) -> None:
    """Columns are read only where the text differs, and may still be the same."""
    store.close()
    assert not [each for each in reopen(store) if "pragma_table_info" in each]
    with closing(sqlite3.connect(store.path)) as raw:
        raw.execute("CREATE TABLE of_somebody_else (a)")  # not our table
    assert not [each for each in reopen(store) if "pragma_table_info" in each]
    with closing(sqlite3.connect(store.path)) as raw:
        raw.execute("DROP INDEX ix_call_decided")
        raw.execute('CREATE INDEX "ix_call_decided" ON call (decided_at)')  # in other words
        raw.commit()
    assert [each for each in reopen(store) if "pragma_table_info" in each]
    with closing(sqlite3.connect(store.path)) as raw:
        raw.execute("CREATE INDEX by_hand ON call (decided_at)")
    with pytest.raises(SchemaError, match="index by_hand is not Countersign's"):
        reopen(store)


def test_a_migration_keeps_all_rows_triggers_and_foreign_keys(store: Store, scripts: Path) -> None:
    """It rebuilds tables that others refer to, and copies the file first."""
    add_unfinished_work(store)
    before = count_rows(store.path)
    migrate_schema(store, add_migration(scripts))
    assert count_rows(store.path) == before
    assert count_rows(store.path.with_name("countersign.db.before-9999")) == before
    with store.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(extra) FROM call").scalar() == 3
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall() == []
    for table in ("vote", "audit"):
        with pytest.raises(Exception, match="append-only"), store.write() as tx:
            tx.exec_driver_sql(f"DELETE FROM {table}")


def test_several_records_are_migrated_at_once(tmp_path: Path, scripts: Path) -> None:
    """They are workspaces of one process that start together."""
    newer, begin = add_migration(scripts), threading.Barrier(4)
    stores = [Store(f"sqlite:///{tmp_path / str(number)}").open() for number in range(4)]

    def migrate(store: Store) -> int:
        begin.wait(10)
        migrate_schema(store, newer)
        with store.engine.connect() as connection:
            found = connection.exec_driver_sql("SELECT count(extra) FROM call").scalar()
        store.close()
        return int(found or 0)

    with ThreadPoolExecutor(len(stores)) as pool:
        assert list(pool.map(migrate, stores)) == [0] * len(stores)


def test_waiting_calls_are_decided_after_a_migration(store: Store, scripts: Path) -> None:
    """The audit's chain goes on, too."""
    seeded = add_unfinished_work(store)
    drop = [f"op.execute('ALTER TABLE {table} DROP COLUMN extra')" for table in REBUILT]
    migrate_schema(store, add_migration(scripts, "; ".join(drop)))
    with store.write() as tx:
        assert isinstance(
            decisions.apply_vote(tx, build_vote(seeded.ids[0], 1, "approve", "UANA00001"), ONE),
            EarlierDecision,
        )
        assert isinstance(
            decisions.apply_vote(tx, build_vote(seeded.ids[1], 1, "approve", "UCLEO0001"), ONE),
            AppliedDecision,
        )
        assert isinstance(
            decisions.resolve_unknown_call(tx, seeded.ids[2], 1, "UCLEO0001", "done", at=AT),
            AppliedDecision,
        )
        assert find_first_broken_row(tx) is None
    assert (seeded.run().status, len(seeded.events())) == (R.READY, 4)


def test_a_failed_migration_changes_nothing(store: Store, scripts: Path) -> None:
    """The copy exists, and the next attempt works."""
    add_unfinished_work(store)
    before = count_rows(store.path)
    for more in ("raise RuntimeError('half-way')", "op.execute('DELETE FROM run')"):
        with pytest.raises(RuntimeError, match=r"half-way|dangling"):
            migrate_schema(store, add_migration(scripts, more))
        store.engine.dispose()
        assert count_rows(store.path) == before
        assert count_rows(store.path.with_name("countersign.db.before-9999")) == before
    migrate_schema(store, add_migration(scripts))
    assert count_rows(store.path) == before


def test_another_applications_file_is_refused_unchanged(tmp_path: Path) -> None:
    """It has tables or marks of another application."""
    for made in ("CREATE TABLE ledger (a)", "PRAGMA user_version = 7", "PRAGMA application_id = 7"):
        path = tmp_path / "theirs.db"
        with closing(sqlite3.connect(path)) as raw:
            raw.execute(made)
            raw.execute("VACUUM")
        before = path.read_bytes()
        with pytest.raises(SchemaError, match="another application"):
            Store(f"sqlite:///{path}").open()
        assert [each.name for each in tmp_path.iterdir()] == ["theirs.db"]
        assert path.read_bytes() == before
        path.unlink()


def test_another_applications_unwritten_log_is_left_alone(tmp_path: Path) -> None:
    """Its owner crashed before writing the log back."""
    path = tmp_path / "theirs.db"
    owner = "import os, sqlite3; db = sqlite3.connect('theirs.db'); db.executescript('PRAGMA"
    owner += (
        " journal_mode=WAL; CREATE TABLE ledger (a); INSERT INTO ledger VALUES (1)'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", owner], cwd=tmp_path).returncode == 9
    log = path.with_name("theirs.db-wal")
    before = path.read_bytes(), log.read_bytes()
    with pytest.raises(SchemaError, match="another application"):
        Store(f"sqlite:///{path}").open()
    assert (path.read_bytes(), log.read_bytes()) == before


def test_a_newer_schema_is_refused_with_advice(store: Store) -> None:
    """The file is not changed, and no lock is kept."""
    with store.write() as tx:
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = '8888'")
    store.close()
    for _ in range(2):
        with pytest.raises(
            SchemaError, match=r"newer Countersign \(schema 8888\); upgrade this one"
        ):
            Store(f"sqlite:///{store.path}").open()
    with closing(sqlite3.connect(store.path)) as raw:
        assert raw.execute("SELECT version_num FROM alembic_version").fetchall() == [("8888",)]
