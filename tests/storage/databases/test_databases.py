"""Every database that a landed build may have left opens with this one, and its work goes on.

The schema of each revision is what it was when it landed.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col

from slack_sandbox.workspace.records import Message as Posted
from storage import schema
from storage.migrations import known, newest
from storage.models import Call, Revision
from storage.states import CallStatus as C
from storage.store import SchemaError, Store
from tests.postgres_server import Server, binaries, serve
from tests.record_checks import find_first_broken_row
from tests.storage.databases.freezing import (
    KEY,
    SLACK,
    compute_shape,
    get_record_path,
    get_shape_path,
    get_statements_path,
    open_migrated,
    read_schema_statements,
    unpack,
)
from tests.stories.fakes import FakeTools
from tests.stories.harness import SUPPORT, Harness
from tests.stories.messages import elements

REVISIONS = sorted(known())
HOW = "; run `python -m tests.storage.databases` once the revision is finished"


class RestoredHarness(Harness):
    """The bot on a record that another build left, with the Slack messages of that time."""

    def start(self, **options: Any) -> None:
        world = self.slack.world
        if not world.messages:
            stood = json.loads((self.folder / SLACK).read_text("utf-8"))["messages"]
            world.messages[SUPPORT] = {each["body"]["ts"]: Posted(**each) for each in stood}
        super().start(**options)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A PostgreSQL server for this module."""
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with serve(programs) as running:
        yield running


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_revision_has_its_shapes_and_a_database(revision: str) -> None:
    """The database is one that its build left."""
    for each in (
        get_statements_path(revision),
        get_shape_path(revision),
        get_record_path(revision),
    ):
        assert each.exists(), f"{each} is missing{HOW}"


@pytest.mark.parametrize("revision", REVISIONS)
def test_migrations_of_a_file_make_what_they_made_at_landing(revision: str, tmp_path: Path) -> None:
    """The statements are the same to the letter."""
    path, last = tmp_path / "made.db", revision == newest()
    with open_migrated(f"sqlite:///{path}", revision):
        made = read_schema_statements(path, triggers=last)
    due = get_statements_path(revision).read_text("utf-8")
    if not last:  # the migrating build makes the triggers
        due = due.partition("CREATE TRIGGER")[0]
    assert made == due, f"schema {revision} has changed: a change is a revision of its own{HOW}"


@pytest.mark.parametrize("revision", REVISIONS)
def test_migrations_on_postgresql_make_what_they_made_at_landing(
    revision: str, server: Server
) -> None:
    """The shapes are compared."""
    server.fresh("frozen")
    made, due = (
        compute_shape(server.url("frozen", "owner"), revision),
        schema.load_expected_shape(revision, "postgresql"),
    )
    if revision != newest():
        made, due = ({k: v for k, v in each.items() if "trigger" not in k} for each in (made, due))
    assert made == due, f"schema {revision} has changed: a change is a revision of its own{HOW}"


def test_a_new_file_has_the_same_schema_as_a_migrated_one(tmp_path: Path) -> None:
    """One is made at once, the other by each revision in turn."""
    at_once, by_turns = tmp_path / "new.db", tmp_path / "old.db"
    Store(f"sqlite:///{at_once}").open().close()
    with open_migrated(f"sqlite:///{by_turns}", newest()) as store:
        assert read_schema_statements(at_once) == read_schema_statements(by_turns)
        read = store.read().exec_driver_sql
        assert schema.describe_schema_mismatch("it", newest(), read, "sqlite") == ""
    for path in (at_once, by_turns):
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute("SELECT * FROM alembic_version").fetchall() == [(newest(),)]


@pytest.mark.file
@pytest.mark.parametrize("revision", REVISIONS)
def test_calls_left_by_an_older_build_are_decided_and_run(revision: str, tmp_path: Path) -> None:
    """They were pending, approved, running and unknown."""
    with closing(sqlite3.connect(unpack(revision, tmp_path))) as raw:
        left = raw.execute("SELECT status, count(*) FROM call GROUP BY status").fetchall()
    assert dict(left) == {C.PENDING: 2, C.APPROVED: 1, C.RUNNING: 1, C.UNKNOWN: 1}
    at = json.loads((tmp_path / SLACK).read_text("utf-8"))["at"]
    fakes = FakeTools()
    begin = datetime.fromisoformat(at) + timedelta(seconds=1)
    harness = RestoredHarness(tmp_path, fakes.tools, begin=begin, COUNTERSIGN_KEY=KEY)
    try:
        assert harness.app.core.store.mismatch_reason == ""
        for text in ("pending", "beside it"):
            _click_button(harness, _find_call(harness, text), "approve")
        for text in ("unknown", "running"):
            _click_button(harness, _find_call(harness, text), "resolve_done")
        harness.slack.wait(lambda: all(c.status is C.SUCCEEDED for c in harness.all(Call)))
        harness.settle()
        assert {text: fakes.did("note", text) for text in ("pending", "approved", "beside it")} == {
            "pending": 1,
            "approved": 1,
            "beside it": 1,
        }
        assert not fakes.ran.keys() - {("note", t) for t in ("pending", "approved", "beside it")}
        with harness.app.core.store.read() as tx:
            assert find_first_broken_row(tx) is None
    finally:
        fakes.go_on.set()
        harness.close()


def _find_call(harness: Harness, text: str) -> Call:
    [call] = [c for c in harness.all(Call) if _read_text(harness, c) == text]
    return call


def _read_text(harness: Harness, call: Call) -> str:
    """The value of a call's only argument."""
    [row] = harness.all(Revision, col(Revision.call_id) == call.id)
    return str(json.loads(row.arguments)["text"])


def _click_button(harness: Harness, call: Call, action: str) -> None:
    """Have Ana click the button of this call, on whichever card has it."""

    def look() -> tuple[dict[str, Any], str] | None:
        return next(
            (
                (message, each["value"])
                for message in harness.person("ana").everything(SUPPORT)
                for each in elements(message)
                if each.get("action_id") == action and call.id in each["value"]
            ),
            None,
        )

    card, value = harness.slack.wait(look)
    harness.person("ana").click(SUPPORT, card["ts"], action, value=value, seen=card)


CHANGES = (
    ("ALTER TABLE run DROP COLUMN client", "column run.client is missing"),
    ("ALTER TABLE run ADD COLUMN mine TEXT", "column run.mine is not Countersign's"),
    ("ALTER TABLE run RENAME COLUMN error TO fault", "column run.error is missing"),
    ("DROP INDEX ix_run_status", "index ix_run_status is missing"),
    ("DROP TABLE attempt", "table attempt is missing"),
    ("DROP TRIGGER vote_no_update", "trigger vote_no_update is missing"),
    (
        "CREATE TRIGGER mine AFTER INSERT ON vote BEGIN UPDATE call SET status = 'approved'; END",
        "trigger mine is not Countersign's",
    ),
    ("CREATE UNIQUE INDEX mine ON run (team)", "index mine is not Countersign's"),
    ("DROP TABLE alembic_version", "does not say which schema"),
    ("DELETE FROM alembic_version", "does not say which schema"),
)


@pytest.mark.file
@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_file_with_a_changed_schema_is_refused_unchanged(
    change: str, said: str, tmp_path: Path
) -> None:
    """The refusal says what is different."""
    path = tmp_path / "odd.db"
    Store(f"sqlite:///{path}").open().close()
    with closing(sqlite3.connect(path)) as raw:
        for index in ("ix_run_client",) if "client" in change else ():
            raw.execute(f"DROP INDEX {index}")
        raw.execute(change)
        raw.commit()
    before = path.read_bytes()
    with pytest.raises(SchemaError, match="before 0") as refused:
        Store(f"sqlite:///{path}").open()
    assert said in str(refused.value)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE")
    assert shutil.copyfile(path, tmp_path / "kept").read_bytes()[100:] == before[100:]


def test_tables_of_other_programs_are_ignored(tmp_path: Path) -> None:
    """A program for copies adds some, and so does ANALYZE."""
    path = tmp_path / "shared.db"
    Store(f"sqlite:///{path}").open().close()
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        raw.execute("ANALYZE")
    Store(f"sqlite:///{path}").open().close()


def test_a_server_database_with_a_changed_schema_is_refused(server: Server) -> None:
    """Disabled triggers and changed functions of triggers are noticed."""
    server.fresh("sound")
    Store(server.url("sound", "owner"), key=KEY.encode()).open().close()
    for change, said in (
        ("ALTER TABLE countersign.run DROP COLUMN client", "column run.client is missing"),
        (
            "ALTER TABLE countersign.vote DISABLE TRIGGER vote_no_update",
            "vote_no_update is another",
        ),
        ("DROP INDEX countersign.ix_run_status", "index ix_run_status is missing"),
        ("ALTER TABLE countersign.run ALTER COLUMN error TYPE text", "run.error is another one"),
        ("DROP TABLE countersign.lane", "table lane is missing"),
        (
            "CREATE OR REPLACE FUNCTION countersign.vote_append_only() RETURNS trigger"
            " LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
            "trigger vote_no_update is another one",
        ),
    ):
        server.fresh("odd", "sound")
        with server.connect("odd") as owner:
            owner.execute(change)
        with pytest.raises(SchemaError) as refused:
            Store(server.url("odd", "owner"), key=KEY.encode()).open()
        assert said in str(refused.value)
