"""The record on a PostgreSQL server: several processes write it without doing anything twice.

Two stores on one database stand for two processes: nothing but the server is between them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime, timedelta
from functools import partial

import psycopg
import pytest
from sqlalchemy import bindparam, select
from sqlalchemy.exc import DBAPIError
from sqlmodel import col

from storage import backups, decisions, grants, inbox, postgres_session, trail
from storage.database_errors import is_temporary_database_error
from storage.decisions import AppliedDecision
from storage.digest import KeyFileError
from storage.grants import Grant
from storage.installations import TABLES_SCHEMA, Installation, InstallationRecord
from storage.models import Call, Delivery
from storage.sqlite import OTHER_PROCESS_REMEDY
from storage.store import SchemaError, Store, StoreClosedError
from tests.postgres_server import Server, binaries, serve
from tests.record_checks import find_first_broken_row
from tests.storage.builders import AT, HOUR, ONE, TEAM, C, build_vote, delivery, seed

IN_USE = f"another process works with .*; {OTHER_PROCESS_REMEDY}"
KEY = b"k" * 32
pytestmark = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for this module."""
    programs = binaries()
    assert programs is not None
    with serve(programs) as running:
        running.fresh("new")
        make_store(running, "new").open().close()
        yield running


def make_store(server: Server, database: str) -> Store:
    """The store of one process, not open yet."""
    return Store(server.url(database, "owner"), key=KEY)


@pytest.fixture
def two(server: Server) -> Iterator[tuple[Store, Store]]:
    """The stores of two processes on one record."""
    server.fresh("two", "new")
    one, other = make_store(server, "two").open(), make_store(server, "two").open()
    yield one, other
    one.close()
    other.close()


def run_at_once(*work: Callable[[], object]) -> list[object]:
    """Run all of it at the same moment, each on its own thread; returns the results."""
    start = threading.Barrier(len(work))

    def one(each: Callable[[], object]) -> object:
        start.wait(10)
        return each()

    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result(30) for future in [pool.submit(one, each) for each in work]]


def end_sessions(server: Server, database: str) -> None:
    """Have the server end every session on that database, as its restart does."""
    with server.connect() as owner:
        owner.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,)
        )


def test_four_processes_start_at_once_on_an_empty_database(server: Server) -> None:
    """One of them makes the schema, and all of them work."""
    server.fresh("empty")
    stores = [make_store(server, "empty") for _ in range(4)]
    run_at_once(*(each.open for each in stores))
    for number, each in enumerate(stores):
        with each.write() as tx:
            assert inbox.insert_delivery(tx, delivery(str(number)))
    with stores[0].read() as tx:
        assert len(inbox.list_new_deliveries(tx)) == 4
    for each in stores:
        each.close()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_each_character_is_stored_whatever_encoding_clients_are_given(
    server: Server, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """Given by the database, and by libpq's variable; also at the first start."""
    server.fresh("encoded")
    with server.connect() as owner:
        owner.execute(f"ALTER DATABASE encoded SET client_encoding TO {encoding}")
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    with closing(make_store(server, "encoded").open()) as store:
        with store.write() as tx:
            inbox.insert_delivery(tx, delivery("said", body='{"text": "40 € 🎉 Ω"}'))
        with store.read() as tx:
            [stored] = inbox.list_new_deliveries(tx)
        assert stored.body == '{"text": "40 € 🎉 Ω"}'


def test_a_record_opens_again_where_the_server_quotes_all_names(server: Server) -> None:
    """Its schema is described in other words there, and is the same."""
    server.fresh("quoting")
    with server.connect() as owner:
        owner.execute("ALTER DATABASE quoting SET quote_all_identifiers TO on")
    for _ in range(2):
        make_store(server, "quoting").open().close()


def test_times_are_read_in_whichever_style_the_role_has_them_written(server: Server) -> None:
    """psycopg reads only one of them."""
    server.fresh("styled", "new")
    with server.connect() as owner:
        owner.execute("ALTER DATABASE styled SET DateStyle TO 'German, DMY'")
    with closing(make_store(server, "styled").open()) as store, store.read() as tx:
        assert isinstance(tx.exec_driver_sql("SELECT clock_timestamp()").scalar(), datetime)


def test_time_limits_of_the_role_do_not_stop_a_migration(server: Server) -> None:
    """It may take long, and is idle between two statements."""
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    server.fresh("limited", "new")
    with server.connect() as owner:
        for each in limits:
            owner.execute(f"ALTER DATABASE limited SET {each} TO '5s'")
    with closing(make_store(server, "limited").open()) as store, store.engine.connect() as own:
        assert {own.exec_driver_sql(f"SHOW {each}").scalar() for each in limits} == {"0"}


def test_a_closed_store_writes_nothing_and_others_go_on(two: tuple[Store, Store]) -> None:
    """It can be opened again."""
    late, other = two
    late.close()
    with pytest.raises(StoreClosedError), late.write():
        pass
    with other.write() as tx:
        assert inbox.insert_delivery(tx, delivery("by the other"))
    with late.open().write() as tx:
        assert inbox.insert_delivery(tx, delivery("opened again"))


def test_a_record_in_its_own_schema_opens_again(server: Server) -> None:
    """A change of it is noticed."""
    server.fresh("several", "new")
    url = f"{server.url('several', 'owner')}&schema=countersign_t0one"
    for _ in range(2):
        with closing(Store(url, key=KEY).open()) as store, store.write() as tx:
            inbox.insert_delivery(tx, delivery("once"))
    with server.connect("several") as owner:
        owner.execute("DROP INDEX countersign_t0one.ix_run_status")
    with pytest.raises(SchemaError, match="index ix_run_status is missing"):
        Store(url, key=KEY).open()
    make_store(server, "several").open().close()


def test_only_processes_on_the_same_schema_count_as_others(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some commands want a record for themselves."""
    monkeypatch.setattr(backups, "SESSION_END_TIMEOUT_SECONDS", 0.1)
    server.fresh("several", "new")
    urls = [f"{server.url('several', 'owner')}&schema=countersign_t0{x}" for x in ("one", "two")]
    stores = [Store(each, key=KEY).open() for each in urls]
    for each in stores:
        with each.read():
            pass  # opens a session
    with closing(Store(urls[0], key=KEY).open()) as third:
        with pytest.raises(backups.BackupError, match=IN_USE):
            backups.require_no_other_process(third)
        stores[0].close()
        monkeypatch.setattr(backups, "SESSION_END_TIMEOUT_SECONDS", 5.0)
        backups.require_no_other_process(third)
    stores[1].close()


def test_the_process_that_owns_the_workspace_counts_as_another(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sessions do not matter."""
    monkeypatch.setattr(backups, "SESSION_END_TIMEOUT_SECONDS", 0.1)
    server.fresh("several", "new")
    url = server.url("several", "owner")
    record = InstallationRecord(url).open()
    record.insert_or_update_installation(Installation(workspace="T0ONE", installed_at=AT))
    own = "extract(epoch FROM clock_timestamp()) * 1000000"
    with closing(Store(f"{url}&schema=countersign_t0one", key=KEY).open()) as store:
        for until in (f"{own} + 5000000", f"{own} - 1"):
            with server.connect("several") as owner:
                owner.execute(
                    f"UPDATE {TABLES_SCHEMA}.installation SET owner='one', owner_until={until}"
                )
            if "+" not in until:
                backups.require_no_other_process(store)
                continue
            with pytest.raises(backups.BackupError, match=IN_USE):
                backups.require_no_other_process(store)
    record.close()


def test_an_unsuitable_database_or_missing_key_is_refused(server: Server) -> None:
    """The encoding may be wrong, or the schema newer."""
    with server.connect() as owner, suppress(psycopg.errors.DuplicateDatabase):
        owner.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(SchemaError, match="latin uses LATIN1; Countersign needs UTF8"):
        make_store(server, "latin").open()
    server.fresh("later", "new")
    with server.connect("later") as owner:
        owner.execute("UPDATE countersign.alembic_version SET version_num = '8888'")
    with pytest.raises(SchemaError, match="newer Countersign"):
        make_store(server, "later").open()
    with pytest.raises(KeyFileError):
        Store(server.url("new", "owner")).open()


def test_append_only_tables_refuse_changes_by_anybody(
    server: Server, two: tuple[Store, Store]
) -> None:
    """The server itself refuses update, delete and truncate."""
    with two[0].write() as tx:
        trail.record_event(tx, "tried", at=AT, actor="system")
    with server.connect("two") as owner:
        for how in ("UPDATE %s SET actor = 'me'", "DELETE FROM %s", "TRUNCATE %s"):
            with pytest.raises(psycopg.errors.RestrictViolation, match="audit is append-only"):
                owner.execute(how % "countersign.audit")
    with two[1].read() as tx:
        assert find_first_broken_row(tx) is None


def test_writers_of_two_processes_take_turns(two: tuple[Store, Store]) -> None:
    """Eight threads read a number and write the next one, and none is lost."""
    with two[0].write() as tx:
        inbox.insert_delivery(tx, delivery("counter"))

    def add(store: Store) -> None:
        for _ in range(10):
            with store.write() as tx:
                inbox.count_failed_delivery_attempt(
                    tx, inbox.list_new_deliveries(tx)[0], "again", limit=10**6
                )
                trail.record_event(tx, "added", at=AT, actor="system")

    run_at_once(*(lambda store=store: add(store) for store in two * 4))
    with two[0].read() as tx:
        assert inbox.list_new_deliveries(tx)[0].attempts == 80
        assert find_first_broken_row(tx) is None  # both processes append to one chain


def test_the_last_use_of_a_grant_goes_to_one_of_two_processes(two: tuple[Store, Store]) -> None:
    """They take it at the same moment."""
    for _ in range(10):
        seeded = seed(two[0], C.PENDING, C.PENDING)
        call, other = seeded.call(0), seeded.call(1)
        grant = Grant(
            team=TEAM,
            requester="UBEN00001",
            tool=call.tool,
            schema_digest=call.schema_digest,
            until=AT + HOUR,
            uses=1,
            call_id=call.id,
            given_by="UANA00001",
            given_at=AT,
        )
        with two[0].write() as tx:
            grants.give_grant(tx, grant, run_id=seeded.run_id)

        def take(store: Store, mine: Call, grant_id: str = grant.id) -> bool:
            with store.write() as tx:
                return grants.use_grant(tx, grant_id, AT, mine)

        had = run_at_once(partial(take, two[0], call), partial(take, two[1], other))
        assert sorted(map(bool, had)) == [False, True]


def test_two_votes_at_once_decide_a_call_once(two: tuple[Store, Store]) -> None:
    """Two people approve it in two processes."""
    for _ in range(10):
        seeded = seed(two[0])

        def vote(store: Store, person: str, call_id: str = seeded.ids[0]) -> bool:
            with store.write() as tx:
                said = decisions.apply_vote(tx, build_vote(call_id, 1, "approve", person), ONE)
                return isinstance(said, AppliedDecision)

        said = run_at_once(lambda: vote(two[0], "UANA00001"), lambda: vote(two[1], "UCLEO0001"))
        assert sorted(map(bool, said)) == [False, True]
        assert seeded.events().count("call.approved") == 1


def test_a_session_ended_by_the_server_is_replaced(
    server: Server, two: tuple[Store, Store]
) -> None:
    """The next transaction begins on a new connection, as after a restart of the server."""
    with two[0].write() as tx:
        inbox.insert_delivery(tx, delivery("before"))
    end_sessions(server, "two")
    with two[0].read() as tx:
        assert inbox.has_delivery(tx, "before")


def test_a_session_ended_during_a_transaction_is_a_temporary_error(
    server: Server, two: tuple[Store, Store]
) -> None:
    """What the transaction had written is gone."""

    def write() -> None:
        with two[0].write() as tx:
            inbox.insert_delivery(tx, delivery("lost"))
            end_sessions(server, "two")

    with pytest.raises(DBAPIError) as caught:
        write()
    assert is_temporary_database_error(caught.value)
    with two[0].read() as tx:
        assert not inbox.has_delivery(tx, "lost")


@pytest.mark.parametrize("code", ["25P03", "25P04", "57P05"])
def test_a_session_ended_by_a_time_limit_is_a_temporary_error(
    two: tuple[Store, Store], code: str
) -> None:
    """A session or transaction was idle, or (since PostgreSQL 17) lasted, longer than the role's
    may.
    """
    with pytest.raises(DBAPIError) as caught, two[0].write() as tx:
        tx.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'over' USING ERRCODE = '{code}'; END $$")
    assert is_temporary_database_error(caught.value)


def test_a_failed_statement_makes_the_transaction_fail(two: tuple[Store, Store]) -> None:
    """Going on after the error never looks like a commit."""

    def write() -> None:
        with two[0].write() as tx:
            inbox.insert_delivery(tx, delivery("half"))
            with suppress(DBAPIError):
                tx.exec_driver_sql("SELECT 1/0")

    with pytest.raises(RuntimeError, match="had failed"):
        write()
    with two[0].read() as tx:
        assert not inbox.has_delivery(tx, "half")


def test_a_nul_in_a_text_is_replaced(two: tuple[Store, Store]) -> None:
    """PostgreSQL cannot store it."""
    odd = delivery("odd")
    odd.note = "a\0b"
    with two[0].write() as tx:
        assert inbox.insert_delivery(tx, odd)
    with two[0].read() as tx:
        assert [each.note for each in inbox.list_new_deliveries(tx)] == [
            "a\N{REPLACEMENT CHARACTER}b"
        ]


def test_a_finished_reader_leaves_no_open_transaction(
    server: Server, two: tuple[Store, Store]
) -> None:
    """The end is sent at once, though nobody waits for it."""
    with two[0].read() as tx:
        assert not inbox.list_new_deliveries(tx)
    begun = "SELECT 1 FROM pg_stat_activity WHERE datname = 'two' AND state ~ 'transaction'"
    until = time.monotonic() + 10
    with server.connect() as owner:
        while owner.execute(begun).fetchone():
            assert time.monotonic() < until


def test_repeated_statements_are_prepared_up_to_a_limit(
    two: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server keeps them for each session."""
    monkeypatch.setattr(postgres_session, "MAX_PREPARED_STATEMENTS", 5)
    with two[0].read() as tx:
        for number in range(20):
            wanted = select(col(Call.id)).where(col(Call.id).in_([f"c{n}" for n in range(number)]))
            for _ in range(3):
                assert tx.scalars(wanted) == []
        ready = tx.exec_driver_sql("SELECT name FROM pg_prepared_statements WHERE name ~ '^own'")
        assert len(ready) == 5


def test_percent_signs_and_repeated_values_arrive(two: tuple[Store, Store]) -> None:
    """A value may stand twice in one statement."""
    with two[0].write() as tx:
        inbox.insert_delivery(tx, delivery("100%"))
    key, name = col(Delivery.key), bindparam("key_")
    twice = select(key).where(key == name, key.endswith("0%", autoescape=True), name != "")
    with two[0].read() as tx:
        assert tx.scalars(twice, {"key_": "100%"}) == ["100%"]
        assert tx.scalars(twice, {"key_": "100"}) == []


@pytest.mark.long
def test_a_process_stopped_during_a_transaction_is_cut_off(
    two: tuple[Store, Store],
) -> None:
    """The server ends its session, others write, and its work is not committed."""

    def stop() -> None:
        with two[0].write() as stopped:
            inbox.insert_delivery(stopped, delivery("asleep"))
            with two[1].write() as tx:  # waits for the server's timeout
                inbox.insert_delivery(tx, delivery("awake"))
            inbox.insert_delivery(stopped, delivery("too late"))

    with pytest.raises(DBAPIError) as caught:
        stop()
    assert is_temporary_database_error(caught.value)
    with two[1].read() as tx:
        assert [each.key for each in inbox.list_new_deliveries(tx)] == ["awake"]


def test_dead_connections_to_the_server_are_noticed() -> None:
    """Every session has timeouts, so that no thread waits for hours."""
    assert postgres_session.CONNECTION_PARAMETERS["tcp_user_timeout"] <= timedelta(
        seconds=15
    ) / timedelta(milliseconds=1)
    assert (
        postgres_session.IDLE_TIMEOUT_SECONDS < postgres_session.LOCK_TIMEOUT_SECONDS
    )  # a stopped writer ends before others give up
