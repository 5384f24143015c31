"""A record on a server that was dumped and put back, moved or copied counts as an older one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest

from storage import record_copies
from storage.store import Store
from tests.postgres_server import Server, binaries, serve
from tests.storage.builders import seed

KEY = b"k" * 32
PROGRAMS = binaries()
pytestmark = pytest.mark.skipif(PROGRAMS is None, reason="PostgreSQL is not installed")
OPEN_ROLE = "CREATE ROLE {0} LOGIN; GRANT USAGE ON SCHEMA countersign TO {0};"
ALL_RIGHTS = "GRANT ALL ON ALL {1} IN SCHEMA countersign TO {0};"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for this module."""
    assert PROGRAMS is not None
    with serve(PROGRAMS) as running:
        yield running


def open_and_close(server: Server, name: str = "record", role: str = "owner") -> str:
    """Open the record as a starting process does; return why it counts as an older one."""
    with closing(Store(server.url(name, role), key=KEY).open()) as store:
        return store.mismatch_reason


def settle(server: Server, name: str = "record") -> None:
    """What the bot does at its start with an older record, as far as the mark is concerned."""
    with closing(Store(server.url(name, "owner"), key=KEY).open()) as store, store.write() as tx:
        assert record_copies.delete_copy_note(tx)


def make_record(server: Server) -> None:
    """A record with a call that waits."""
    server.fresh("record")
    with closing(Store(server.url("record", "owner"), key=KEY).open()) as store:
        seed(store)


def drop_and_put_back(server: Server) -> None:
    """Into a new database of the same name."""
    server.put_back("record", server.dump("record"))


def put_back_row_by_row(server: Server) -> None:
    """With a statement for each row."""
    server.put_back("record", server.dump("record", "--inserts"))


def put_back_into_the_database(server: Server) -> None:
    """The tables are dropped, the database is not."""
    dump = server.dump("record", "--clean", "--if-exists")
    server.run_sql("record", dump)


def make_from_a_template(server: Server) -> None:
    """A copy by the server, in which the tables keep their numbers."""
    with server.connect() as owner:
        owner.execute("DROP DATABASE IF EXISTS kept")
        owner.execute("CREATE DATABASE kept TEMPLATE record")
        owner.execute("DROP DATABASE record")
        owner.execute("CREATE DATABASE record TEMPLATE kept")


@pytest.mark.parametrize(
    "put_back",
    [drop_and_put_back, put_back_row_by_row, put_back_into_the_database, make_from_a_template],
)
def test_what_the_servers_tools_put_back_counts_as_older(
    server: Server, put_back: Callable[[Server], None]
) -> None:
    """For every process that opens it, until one has settled it; and again the next time."""
    make_record(server)
    for _ in range(2):
        assert open_and_close(server) == ""
        put_back(server)
        for _ in range(2):
            assert "by other means than `countersign restore`" in open_and_close(server)
        settle(server)


def test_a_dump_put_back_on_another_server_counts_as_older(server: Server) -> None:
    """Also where all its tables have the same numbers, as on two servers that are set up alike."""
    assert PROGRAMS is not None
    make_record(server)
    dump, numbers = server.dump("record"), []
    for _ in range(2):
        with serve(PROGRAMS) as other:
            other.put_back("record", dump)
            assert open_and_close(other) != ""
            settle(other)
            assert open_and_close(other) == ""
            dump = other.dump("record")
            with other.connect("record") as owner:
                numbers += owner.execute("SELECT 'countersign.audit'::regclass::oid").fetchall()
    assert len(set(numbers)) == 1


def test_a_record_that_stays_where_it_is_is_no_older_one(server: Server) -> None:
    """After a restart of the server, a full vacuum or an own comment; what it says is kept."""
    make_record(server)
    server.stop("fast")
    server.start()
    with server.connect("record") as owner:
        owner.execute("VACUUM FULL FREEZE countersign.audit")
    assert open_and_close(server) == ""
    with server.connect("record") as owner:
        owner.execute("COMMENT ON TABLE countersign.audit IS 'do not touch'")
    assert open_and_close(server) == ""
    with server.connect("record") as owner:
        [[text]] = owner.execute("SELECT obj_description('countersign.audit'::regclass)").fetchall()
    assert str(text).startswith("do not touch [countersign at ")
    assert open_and_close(server) == ""


def test_a_moved_record_without_the_note_is_no_older_one(server: Server) -> None:
    """As the documentation says for a move with everything stopped."""
    make_record(server)
    drop_and_put_back(server)
    with server.connect("record") as owner:
        owner.execute("COMMENT ON TABLE countersign.audit IS NULL")
    assert open_and_close(server) == ""


def test_a_role_that_does_not_own_the_tables_can_open_the_record(server: Server) -> None:
    """It cannot note where it is; it is told what the owner has found."""
    make_record(server)
    with server.connect("record") as owner, owner.transaction():
        owner.execute("DROP ROLE IF EXISTS worker")
        owner.execute(OPEN_ROLE.format("worker"))
        for kind in ("TABLES", "SEQUENCES"):
            owner.execute(ALL_RIGHTS.format("worker", kind))
    with (
        server.connect("record", "worker") as worker,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        worker.execute("COMMENT ON TABLE countersign.audit IS NULL")
    drop_and_put_back(server)
    assert open_and_close(server, role="worker") == ""
    assert open_and_close(server) != ""
    assert open_and_close(server, role="worker") != ""


def test_a_role_that_may_not_read_the_clusters_number_can_open_the_record(server: Server) -> None:
    """As where a provider does not allow it; then the record is not recognised as older."""
    numbers = "EXECUTE ON FUNCTION pg_control_system()"
    with server.connect() as owner:
        owner.execute("CREATE ROLE maker LOGIN")
        for name in ("record", "other"):
            server.drop(name)
            owner.execute(f"CREATE DATABASE {name} OWNER maker")
        assert open_and_close(server, role="maker") == ""
        dump = server.dump("record")
    with server.connect("other") as other:
        server.run_sql("other", dump)
        other.execute(f"REVOKE {numbers} FROM PUBLIC")
        assert open_and_close(server, "other", "maker") == ""
        other.execute(f"GRANT {numbers} TO PUBLIC")
        assert open_and_close(server, "other", "maker") != ""
