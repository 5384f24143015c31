"""A server that takes over from another may lack what was written last; then nothing goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy.exc import DBAPIError

from bot.start_errors import describe_start_error
from storage import record_copies
from storage.database_errors import is_temporary_database_error
from storage.postgres import PostgresTransaction
from storage.store import Store
from storage.trail import get_audit_head, record_event
from tests.postgres_server import Server, binaries, serve
from tests.storage.builders import AT, seed

KEY = b"k" * 32
PROGRAMS = binaries()
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed"),
]
TOOK_OVER = "its server took over from another one"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with the database `record`, which has no tables yet."""
    assert PROGRAMS is not None
    with serve(PROGRAMS) as running:
        running.fresh("record")
        yield running


def open_record(server: Server, role: str = "owner") -> Store:
    """Open the record as a starting process does."""
    return Store(server.url("record", role), key=KEY).open()


def make_record(server: Server) -> None:
    """A record with a call that waits."""
    with closing(open_record(server)) as store:
        seed(store)


def write_a_row(store: Store) -> int:
    """Append a row to the audit; return its number."""
    with store.write() as tx:
        record_event(tx, "bot.started", at=AT, actor="system", data={})
        return get_audit_head(tx).seq


def settle(server: Server) -> None:
    """What a process does at its start with an older record, as far as the mark is concerned."""
    with closing(open_record(server)) as store, store.write() as tx:
        assert record_copies.delete_copy_note(tx)


def write_across_a_takeover(store: Store, server: Server) -> None:
    """A standby takes over before the commit, and commits another transaction of that number."""
    with store.write() as tx:
        assert isinstance(tx, PostgresTransaction)
        record_event(tx, "bot.started", at=AT, actor="system", data={})
        number, given = int(tx.session.number), 0
        server.take_over("standby")
        with server.connect("record") as owner:
            while given < number:
                [[text]] = owner.execute("SELECT pg_current_xact_id()::text").fetchall()
                given = int(str(text))


def check_refuses_all(store: Store) -> None:
    """Every read and write fails as if the database was away, and the process is told to end."""
    for _ in range(2):
        with pytest.raises(DBAPIError, match="took over") as refused, store.read():
            pass
        with pytest.raises(DBAPIError, match="took over"), store.write():
            pass
    assert is_temporary_database_error(refused.value)
    with pytest.raises(DBAPIError) as end:
        store.require_newest_rows()
    said = describe_start_error(end.value)
    assert said is not None
    assert said.startswith("Countersign stops: the database's server took over from another one")


def test_a_record_on_a_server_that_took_over_meanwhile_counts_as_older(server: Server) -> None:
    """For each start until one has settled it."""
    make_record(server)
    server.copy_as_standby("standby")
    server.take_over("standby")
    for _ in range(2):
        with closing(open_record(server)) as store:
            assert store.mismatch_reason.startswith(TOOK_OVER)
    settle(server)
    with closing(open_record(server)) as store:
        assert store.mismatch_reason == ""


@pytest.mark.parametrize("lacks_rows", [False, True])
def test_a_process_that_runs_on_ends_when_another_server_took_over(
    server: Server, lacks_rows: bool
) -> None:
    """Also if nothing of its own is missing: another process may have written last."""
    with closing(open_record(server)) as store:
        seed(store)
        if not lacks_rows:
            write_a_row(store)
        server.copy_as_standby("standby")
        if lacks_rows:
            write_a_row(store)
        server.take_over("standby")
        check_refuses_all(store)
        with closing(open_record(server)) as starting:
            assert starting.mismatch_reason.startswith(TOOK_OVER)
            starting.require_newest_rows()
        settle(server)
        check_refuses_all(store)


def test_a_process_goes_on_where_every_commit_waited_for_the_standby(server: Server) -> None:
    """Nothing is missing then, and the next start finds nothing older; but it is only once."""
    make_record(server)
    server.copy_as_standby("standby")
    with server.follow_synchronously("standby"):
        store = open_record(server)
        seq = write_a_row(store)
    server.start_standby("standby")
    server.promote()
    with closing(store):
        assert write_a_row(store) == seq + 1
        with closing(open_record(server)) as starting:
            assert starting.mismatch_reason == ""
        server.copy_as_standby("second")
        server.take_over("second")
        check_refuses_all(store)


def test_commits_that_no_longer_wait_for_the_standby_may_be_missing(server: Server) -> None:
    """The process notices with its next connection that they do not wait."""
    make_record(server)
    server.copy_as_standby("standby")
    with server.follow_synchronously("standby"):
        store = open_record(server)
        with server.connect() as owner:
            owner.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.stop("fast")
        server.start()
        with store.read() as tx:
            assert get_audit_head(tx).seq == 0
    server.start_standby("standby")
    server.promote()
    with closing(store):
        check_refuses_all(store)


def test_own_rows_that_are_missing_are_noticed_even_there(server: Server) -> None:
    """As when the server was put back to an earlier moment while the process ran."""
    make_record(server)
    server.copy_as_standby("earlier")
    server.copy_as_standby("standby")
    with server.follow_synchronously("standby"):
        store = open_record(server)
        write_a_row(store)
    server.start_standby("earlier")
    server.promote()
    with closing(store):
        check_refuses_all(store)


@pytest.mark.parametrize("lacks_rows", [False, True])
def test_a_process_that_comes_after_another_has_settled(server: Server, lacks_rows: bool) -> None:
    """It goes on if the record has all that it knows of; otherwise everything is asked again."""
    with closing(open_record(server)) as store:
        seed(store)
        server.copy_as_standby("standby")
        if lacks_rows:
            write_a_row(store)
        server.take_over("standby")
        settle(server)
        if lacks_rows:
            check_refuses_all(store)
        else:
            write_a_row(store)
    with closing(open_record(server)) as store:
        assert bool(store.mismatch_reason) is lacks_rows


def test_a_process_that_comes_while_another_settles_ends_as_well(server: Server) -> None:
    """It has not asked anybody again yet."""
    with closing(open_record(server)) as store:
        write_a_row(store)
        server.copy_as_standby("standby")
        server.take_over("standby")
        with closing(open_record(server)) as starting:
            assert starting.mismatch_reason.startswith(TOOK_OVER)
            check_refuses_all(store)


def test_a_lost_commit_is_not_taken_for_another_transactions(server: Server) -> None:
    """The new server gives the number of the transaction to another one, which it commits."""
    with closing(open_record(server)) as store:
        write_a_row(store)
        server.copy_as_standby("standby")
        with pytest.raises(DBAPIError):
            write_across_a_takeover(store, server)
        check_refuses_all(store)


def test_a_standby_that_is_promoted_under_a_session_is_noticed(server: Server) -> None:
    """Sessions outlive the promotion; until then the process reads, and writes are refused."""
    with closing(open_record(server)) as store:
        seq = write_a_row(store)
        server.copy_as_standby("standby")
        server.stop()
        server.start_standby("standby")
        with pytest.raises(DBAPIError, match="during recovery"), store.write():
            pass
        with store.read() as tx:  # on a session that is used again
            assert get_audit_head(tx).seq == seq
        store.require_newest_rows()
        server.promote()
        check_refuses_all(store)


def test_a_start_on_a_standby_fails_until_it_is_promoted(server: Server) -> None:
    """It cannot be known whether it has everything before it has taken over."""
    make_record(server)
    server.copy_as_standby("standby")
    server.stop()
    server.start_standby("standby")
    with pytest.raises(DBAPIError, match="during recovery"):
        open_record(server)
    server.promote()
    with closing(open_record(server)) as store:
        assert store.mismatch_reason.startswith(TOOK_OVER)


def test_a_restart_of_the_same_server_changes_nothing(server: Server) -> None:
    """Also one after a crash; the process goes on."""
    with closing(open_record(server)) as store:
        seq = write_a_row(store)
        for mode in ("immediate", "fast"):
            server.stop(mode)
            server.start()
            seq += 1
            assert write_a_row(store) == seq
    with closing(open_record(server)) as store:
        assert store.mismatch_reason == ""


def test_a_note_of_an_earlier_version_is_no_other_place(server: Server) -> None:
    """It names no timeline."""
    make_record(server)
    with server.connect("record") as owner:
        [[text]] = owner.execute("SELECT obj_description('countersign.audit'::regclass)").fetchall()
        earlier = str(text).split(" timeline ")[0] + "]"
        assert earlier != text
        owner.execute(f"COMMENT ON TABLE countersign.audit IS '{earlier}'")
    with closing(open_record(server)) as store:
        assert store.mismatch_reason == ""
    server.copy_as_standby("standby")
    server.take_over("standby")
    with closing(open_record(server)) as store:
        assert store.mismatch_reason.startswith(TOOK_OVER)


def test_a_server_that_does_not_tell_its_timeline_can_be_used(server: Server) -> None:
    """As where a provider has taken that function away; then a takeover is not noticed."""
    with server.connect("record") as owner:
        owner.execute("CREATE ROLE maker LOGIN")
        owner.execute("ALTER DATABASE record OWNER TO maker")
        owner.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) FROM PUBLIC")
    with closing(open_record(server, "maker")) as store:
        seq = write_a_row(store)
        server.copy_as_standby("standby")
        server.take_over("standby")
        assert write_a_row(store) == seq + 1
    with closing(open_record(server, "maker")) as store:
        assert store.mismatch_reason == ""


@pytest.mark.parametrize("knows_cluster", [True, False])
def test_a_role_that_cannot_note_the_place_ends_as_well(
    server: Server, knows_cluster: bool
) -> None:
    """What it has found is stored with the record, for its next start."""
    make_record(server)
    with server.connect("record") as owner:
        owner.execute("CREATE ROLE worker LOGIN; GRANT USAGE ON SCHEMA countersign TO worker")
        for kind in ("TABLES", "SEQUENCES"):
            owner.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA countersign TO worker")
        if not knows_cluster:
            owner.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    with closing(open_record(server, "worker")) as store:
        write_a_row(store)
        server.copy_as_standby("standby")
        server.take_over("standby")
        check_refuses_all(store)
    with closing(open_record(server, "worker")) as store:
        assert store.mismatch_reason.startswith(TOOK_OVER)
