"""The record of installations, in a file and on a server, with several processes at once."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text

from storage.installations import TABLES_SCHEMA, TABLES_VERSION, InstallationRecord, OAuthState
from storage.migrations import SchemaError
from storage.states import IllegalStatusChangeError, InstallationState
from tests.postgres_server import Server
from tests.workspaces.builders import AT, DAY, HOUR, MINUTE, ORG, TEAM, installed

ACTIVE, PAUSED, REMOVED = InstallationState
OpenRecord = Callable[[], InstallationRecord]


def test_a_stored_installation_is_read_with_every_column(open_record: OpenRecord) -> None:
    """Another process reads it as well; times are in UTC."""
    given = installed(token_expires_at=AT + HOUR, enterprise=ORG, is_org_wide=True, due_at=AT + DAY)
    stored = open_record().insert_or_update_installation(given)
    assert stored == given
    other = open_record()
    assert other.get(TEAM) == stored
    assert [each.workspace for each in other.list()] == [TEAM]
    assert other.get("T0ELSEWHERE") is None


def test_installing_again_replaces_tokens_and_scopes(record: InstallationRecord) -> None:
    """When the workspace is due does not change."""
    record.insert_or_update_installation(installed())
    record.set_due(TEAM, AT + DAY)
    again = installed(scopes="chat:write,users:read", sealed_tokens=b"new", installed_at=AT + HOUR)
    stored = record.insert_or_update_installation(again)
    assert (stored.scopes, stored.sealed_tokens) == ("chat:write,users:read", b"new")
    assert (stored.installed_at, stored.due_at) == (AT + HOUR, AT + DAY)
    assert (stored.state, stored.token_revision) == (ACTIVE, 2)


def test_processes_that_store_one_installation_at_once_leave_one_row(
    open_record: OpenRecord,
) -> None:
    """There are eight of them; the row has the last tokens."""
    records = [open_record() for _ in range(8)]

    def install(number: int) -> int:
        given = installed(sealed_tokens=b"%d" % number)
        return records[number].insert_or_update_installation(given).token_revision

    with ThreadPoolExecutor(8) as pool:
        revisions = list(pool.map(install, range(8)))
    assert sorted(revisions) == [*range(1, 9)]
    [row] = records[0].list()
    assert row.sealed_tokens == b"%d" % revisions.index(8)


def test_a_paused_installation_stays_paused(record: InstallationRecord) -> None:
    """Installing or uninstalling it does not undo the operator's decision."""
    record.insert_or_update_installation(installed())
    assert record.set_state(TEAM, PAUSED, AT)
    assert not record.set_state(TEAM, PAUSED, AT)
    assert record.insert_or_update_installation(installed()).state is PAUSED
    assert record.set_state(TEAM, REMOVED, AT + HOUR)
    assert record.insert_or_update_installation(installed()).state is PAUSED
    assert record.set_state(TEAM, ACTIVE, AT + HOUR)
    assert record.set_state(TEAM, REMOVED, AT + HOUR)
    assert record.insert_or_update_installation(installed()).state is ACTIVE


def test_a_removed_installation_has_no_tokens(record: InstallationRecord) -> None:
    """They are deleted at once, and only installing again gives it new ones."""
    record.insert_or_update_installation(installed(token_expires_at=AT, due_at=AT))
    assert record.set_state(TEAM, REMOVED, AT + HOUR)
    row = record.get(TEAM)
    assert row is not None
    assert (row.sealed_tokens, row.token_key, row.token_expires_at, row.due_at) == (
        b"",
        "",
        None,
        None,
    )
    assert (row.state, row.removed_at) == (REMOVED, AT + HOUR)
    with pytest.raises(IllegalStatusChangeError, match="was removed"):
        record.set_state(TEAM, ACTIVE, AT)
    back = record.insert_or_update_installation(installed())
    assert (back.state, back.removed_at, back.sealed_tokens) == (ACTIVE, None, b"sealed")


def test_removing_an_earlier_installation_keeps_a_later_one(record: InstallationRecord) -> None:
    """The later one was made after the moment of the removal."""
    record.insert_or_update_installation(installed(installed_at=AT + MINUTE))
    assert not record.set_state(TEAM, REMOVED, AT + HOUR, installed_until=AT)
    assert record.set_state(TEAM, REMOVED, AT + HOUR, installed_until=AT + MINUTE)


def test_a_team_belongs_to_its_own_or_its_organisations_installation(
    record: InstallationRecord,
) -> None:
    """Its own comes first, then its organisation's, if that was granted access to it."""
    find = record.find_workspace_of
    record.insert_or_update_installation(installed(ORG, is_org_wide=True, enterprise=ORG))
    assert (find("T1", ORG), find("", ORG), find("", "")) == (None, ORG, None)
    record.grant_workspaces(ORG, ["T1", TEAM])
    record.grant_workspaces(ORG, ["T1"])
    assert (find("T1", ORG), find("T1"), find("T1", "E0OTHER")) == (ORG, ORG, None)
    record.insert_or_update_installation(installed(enterprise=ORG))
    assert (find(TEAM, ORG), find(TEAM)) == (TEAM, TEAM)
    record.set_state(TEAM, REMOVED, AT)
    assert find(TEAM, ORG) == ORG
    record.revoke_workspaces("E0OTHER", ["T1"])
    assert find("T1", ORG) == ORG
    record.revoke_workspaces(ORG, ["T1"])
    assert find("T1", ORG) is None
    record.set_state(ORG, REMOVED, AT)
    assert (find(TEAM, ORG), find("", ORG)) == (None, None)
    record.insert_or_update_installation(installed(ORG, is_org_wide=True, enterprise=ORG))
    assert (find(TEAM, ORG), find("", ORG)) == (None, ORG)


def test_access_can_be_granted_by_several_processes_at_once(open_record: OpenRecord) -> None:
    """None of them fails, and each workspace is listed once."""
    records = [open_record() for _ in range(4)]

    def take_in(record: InstallationRecord) -> None:
        for _ in range(25):
            record.grant_workspaces(ORG, ["T1", TEAM])
            record.set_granted_workspaces(ORG, ["T1"])
            record.revoke_workspaces(ORG, ["T1"])

    with ThreadPoolExecutor(len(records)) as pool:
        list(pool.map(take_in, records))
    records[0].set_granted_workspaces(ORG, [TEAM])
    assert records[1].list_granted_workspaces(ORG) == [TEAM]


def test_only_one_process_renews_a_token(open_record: OpenRecord) -> None:
    """Another one of the eight may only after the first one's claim is over."""
    records = [open_record() for _ in range(8)]
    row = records[0].insert_or_update_installation(installed(token_expires_at=AT + HOUR))
    with ThreadPoolExecutor(8) as pool:
        claims = pool.map(lambda each: each.claim_rotation(row, AT + MINUTE), records)
        [claimed] = [each for each in claims if each is not None]
    later = AT + MINUTE
    assert records[1].claim_rotation(row, later + MINUTE) is None
    assert records[1].claim_rotation(claimed, later + MINUTE) is not None
    stored = records[0].store_rotated_tokens(claimed, b"newer", "one", AT + 12 * HOUR)
    assert stored is not None
    assert (stored.sealed_tokens, stored.token_revision) == (b"newer", 2)
    assert stored.renewal_until is None
    assert records[1].store_rotated_tokens(claimed, b"late", "one", AT) is None
    # a process that still has the old row is too late
    assert records[2].claim_rotation(row, later + 2 * HOUR) is None


def test_a_renewed_token_does_not_replace_that_of_a_new_installation(
    record: InstallationRecord,
) -> None:
    """It was being renewed while somebody installed the bot again."""
    old = record.insert_or_update_installation(installed(token_expires_at=AT))
    claimed = record.claim_rotation(old, AT + MINUTE)
    assert claimed is not None
    record.insert_or_update_installation(installed(sealed_tokens=b"of the new one"))
    assert record.store_rotated_tokens(claimed, b"renewed", "one", AT + HOUR) is None
    record.postpone_rotation(claimed, AT + HOUR)
    row = record.get(TEAM)
    assert row is not None
    assert (row.sealed_tokens, row.renewal_until) == (b"of the new one", None)


def test_an_oauth_state_is_used_once(open_record: OpenRecord) -> None:
    """By its own browser, in time, and by one of eight requests at once."""
    records = [open_record() for _ in range(8)]
    one = records[0]
    one.add_oauth_state(OAuthState(state_hash="s", browser_hash="b", expires_at=AT + MINUTE), AT)
    assert not one.consume_oauth_state("s", "another", AT)
    assert not one.consume_oauth_state("s", "b", AT + MINUTE)
    with ThreadPoolExecutor(8) as pool:
        used = list(pool.map(lambda each: each.consume_oauth_state("s", "b", AT), records))
    assert sorted(used) == [False] * 7 + [True]
    one.add_oauth_state(OAuthState(state_hash="old", browser_hash="b", expires_at=AT + MINUTE), AT)
    later = OAuthState(state_hash="new", browser_hash="b", expires_at=AT + HOUR)
    one.add_oauth_state(later, AT + MINUTE)
    with one.read() as connection:
        assert connection.execute(text("SELECT state_hash FROM oauth_state")).all() == [("new",)]


def test_an_installation_removed_long_ago_is_purged(record: InstallationRecord) -> None:
    """Its row stays if it was installed again, or if its data cannot be deleted."""
    for workspace in ("T1", "T2", "T3"):
        record.insert_or_update_installation(installed(workspace))
    for workspace in ("T1", "T2"):
        record.set_state(workspace, REMOVED, AT)
    emptied: list[str] = []
    assert not record.purge_removed("T1", AT, emptied.append)
    record.insert_or_update_installation(installed("T2"))
    assert not record.purge_removed("T2", AT + MINUTE, emptied.append)
    assert not record.purge_removed("T3", AT + MINUTE, emptied.append)

    def fail(_workspace: str) -> None:
        raise OSError("the disk is away")

    with pytest.raises(OSError, match="the disk is away"):
        record.purge_removed("T1", AT + MINUTE, fail)
    assert record.purge_removed("T1", AT + MINUTE, emptied.append)
    assert emptied == ["T1"]
    assert [each.workspace for each in record.list()] == ["T2", "T3"]


def test_a_purged_installation_is_remembered_as_paused(record: InstallationRecord) -> None:
    """Its data is deleted once; installed again, it is still paused."""
    record.insert_or_update_installation(installed())
    record.set_state(TEAM, PAUSED, AT)
    record.set_state(TEAM, REMOVED, AT)
    emptied: list[str] = []
    assert record.purge_removed(TEAM, AT + DAY, emptied.append)
    assert not record.purge_removed(TEAM, AT + DAY, emptied.append)
    assert record.insert_or_update_installation(installed()).state is PAUSED


def test_a_record_of_a_newer_version_is_refused(open_record: OpenRecord) -> None:
    """It is not changed, and the message says what to do."""
    record = open_record()
    with record.write() as connection:
        connection.execute(text(f"UPDATE installations_schema SET version = {TABLES_VERSION + 1}"))
    with pytest.raises(SchemaError, match=r"newer Countersign \(installations 2\); upgrade"):
        open_record()


def test_a_database_with_other_tables_is_refused(tmp_path: Path) -> None:
    """No table is added to it."""
    path = tmp_path / "installations.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE theirs (a)")
    with pytest.raises(SchemaError, match="is not a record of installations"):
        InstallationRecord(f"sqlite:///{path}").open()
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_the_record_is_readable_by_its_owner_only(file_record: InstallationRecord) -> None:
    """So is its write-ahead log. Each commit is written to the disk."""
    file_record.insert_or_update_installation(installed())
    assert file_record.path is not None
    for path in file_record.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    with file_record.read() as connection:
        settings = [
            connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous")
        ]
    assert settings == ["wal", 2]


@pytest.mark.parametrize("role", ["owner", "agent"])
def test_the_record_has_a_schema_of_its_own_on_a_server(server: Server, role: str) -> None:
    """A role that may not create schemas can use it."""
    server.fresh("apart")
    url = server.url("apart", "owner")
    InstallationRecord(url).open().close()
    with server.connect("apart") as owner:
        if role == "agent":
            owner.execute("DROP ROLE IF EXISTS agent")
            owner.execute("CREATE ROLE agent LOGIN")
            owner.execute(f"GRANT USAGE ON SCHEMA {TABLES_SCHEMA} TO agent")
            owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {TABLES_SCHEMA} TO agent")
        found = owner.execute(
            "SELECT DISTINCT schemaname FROM pg_tables WHERE tableowner = 'owner'"
        )
        assert (TABLES_SCHEMA,) in found.fetchall()
    record = InstallationRecord(server.url("apart", role)).open()
    assert record.insert_or_update_installation(installed()).workspace == TEAM
    record.close()
    with server.connect("apart") as owner:
        owner.execute(f"DROP SCHEMA {TABLES_SCHEMA} CASCADE")
    server.drop("apart")


def test_processes_that_open_an_empty_record_at_once_agree(open_record: OpenRecord) -> None:
    """There are eight of them."""
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: open_record(), range(8)))
    assert [each.list() for each in opened] == [[]] * 8


def test_the_record_reconnects_after_a_restart_of_the_server(server: Server) -> None:
    """Connections that were ended are replaced, and nobody notices."""
    server.fresh("restarted")
    record = InstallationRecord(server.url("restarted", "owner")).open()
    server.stop("fast")
    server.start()
    assert record.list() == []
    record.close()
